/**
 * The runtime's configuration: one schema, three sources. `sluice.yaml` is overridden by the environment
 * (`SLUICE_PORT`, `SLUICE_AUTH__AUDIENCE`: a double underscore goes one level down), and that by flags
 * (`--port`, `--auth.audience`). Unknown keys are refused with a suggestion.
 */
import { isUtf8 } from 'node:buffer'
import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { SluiceError } from '@sluice/sdk'
import { type Static, type TSchema, Type } from 'typebox'
import { Value } from 'typebox/value'
import { parse, YAMLParseError } from 'yaml'
import type { Issuer } from './config/access.ts'
import { closed } from './config/closed.ts'
import { OBJECT_STORES, OTHER_OBJECT_STORE, shownStore } from './config/object-stores.ts'
import { ConfigSchema, SchemaWithOthers } from './config/schema.ts'
import { dashboardsOf, shownDashboards } from './config/servers-beside.ts'
import { HIDDEN, shownServices } from './config/services.ts'
import { faultWords } from './parsing/schema-words.ts'
import { nearest } from './parsing/suggestion.ts'
import { syntaxFault } from './parsing/yaml-syntax.ts'

export type Config = Static<typeof ConfigSchema> & { readonly secrets_dir: string }
export type IssuerConfig = Static<typeof Issuer>
export type MaskStrategy = 'hash' | 'redact' | 'partial' | 'null' | 'omit'

export interface ConfigSources {
  /** Path of a sluice.yaml; must exist when it was named, may be absent when it is the default. */
  readonly file?: string
  readonly environment: Readonly<Record<string, string | undefined>>
  readonly flags: Readonly<Record<string, string>>
}

/** Environment names that belong to tests and tools and are no configuration. */
const RESERVED_ENVIRONMENT = /^SLUICE_(TEST|ACCEPTANCE|BENCH|CRASH|FAULT|CONFIG|TOKEN|URL|TENANT)(_|$)/

/** Throws CONFIG `invalid_config` that names every problem at once. */
export function loadConfig(sources: ConfigSources): Config {
  const raw: Record<string, unknown> = sources.file ? readConfigFile(sources.file) : {}
  for (const { path, text } of overridesOf(sources)) assign(raw, path, text)
  const resolved = resolveReferences(raw, sources.environment)
  const schema = schemaFor(resolved)
  const value = Value.Default(schema, Value.Convert(schema, resolved))
  if (!Value.Check(schema, value)) throw invalidConfig(describeProblems(schema, value))
  const dataDir = resolve(value.data_dir)
  return { ...value, data_dir: dataDir, secrets_dir: resolve(value.secrets_dir ?? dataDir) }
}

interface Override {
  readonly path: readonly string[]
  readonly text: string
  /** As whoever set it knows it: `SLUICE_PORT`, `--port`. */
  readonly name: string
}

/** What stands over the file, the strongest last. */
function overridesOf({ environment, flags }: ConfigSources): readonly Override[] {
  const overrides: Override[] = []
  for (const [name, text] of Object.entries(environment)) {
    if (!name.startsWith('SLUICE_') || text === undefined || RESERVED_ENVIRONMENT.test(name)) continue
    overrides.push({ path: name.slice('SLUICE_'.length).toLowerCase().split('__'), text, name })
  }
  for (const [flag, text] of Object.entries(flags)) {
    overrides.push({ path: flag.replaceAll('-', '_').split('.'), text, name: `--${flag}` })
  }
  return overrides
}

/** The variable that sets the value at a path; null inside a list, which is set as a whole. */
export function variableOf(path: readonly string[]): string | null {
  if (path.some((key) => key.endsWith('[]'))) return null
  return `SLUICE_${path.join('__').toUpperCase()}`
}

/**
 * Where the value at that path comes from, as whoever set it knows it; null: it is the default. Of a map or list it is
 * what set any part of it last.
 */
export function originOf(sources: ConfigSources, path: readonly string[]): string | null {
  const isOf = (other: readonly string[]) => path.every((key, index) => (other[index] ?? key) === key)
  const override = overridesOf(sources).findLast((one) => isOf(one.path))
  if (override !== undefined) return override.name
  let node: unknown = sources.file === undefined ? undefined : readConfigFile(sources.file)
  for (const key of path) node = isMap(node) && Object.hasOwn(node, key) ? node[key] : undefined
  if (node === undefined) return null
  const isReference = typeof node === 'string' && /^\$\{(env|file):[^}]+\}$/.test(node)
  return isReference ? `${sources.file}, as ${node}` : (sources.file as string)
}

function isMap(node: unknown): node is Readonly<Record<string, unknown>> {
  return typeof node === 'object' && node !== null && !Array.isArray(node)
}

/**
 * With the one kind of object store that is named: by a union nothing is converted, and of a mistake it says no more than
 * that no kind fits. Where plugins of others are listed, names of servers are let through that those may bring.
 */
function schemaFor(value: unknown): typeof ConfigSchema {
  const { object_store: store, plugins = [] } = value as { object_store?: { type?: unknown }; plugins?: unknown }
  const takesOthers = ![plugins].flat().every(isOwn)
  const schema = withDriver(takesOthers ? SchemaWithOthers : ConfigSchema, value, takesOthers)
  const own = OBJECT_STORES.find(({ properties }) => properties.type.const === store?.type)
  const chosen = own ?? (takesOthers && store !== undefined ? OTHER_OBJECT_STORE : undefined)
  if (chosen === undefined) return schema
  const narrowed: TSchema = Type.Object({ ...schema.properties, object_store: chosen }, closed)
  return narrowed as typeof ConfigSchema
}

/** With the settings of the driver of dashboards that is named, which stand beside keys that all of them have. */
function withDriver(schema: typeof ConfigSchema, value: unknown, takesOthers: boolean): typeof ConfigSchema {
  const { driver } = (value as { dashboards?: { driver?: unknown } }).dashboards ?? {}
  if (typeof driver !== 'string') return schema
  const dashboards = Type.Optional(dashboardsOf(driver, takesOthers))
  return Type.Object({ ...schema.properties, dashboards }, closed)
}

/** By its name alone: whose it really is, is looked at when it is loaded. */
const isOwn = (specifier: unknown) => String(specifier).startsWith('@sluice/')

const WHY_UNREAD: Readonly<Record<string, string>> = {
  ENOENT: 'does not exist',
  EACCES: 'may not be read by this account',
  EISDIR: 'is a folder',
}

/** Where the parser stopped, and why. Not in its own words: they repeat the line, which may hold a secret. */
function faultOf(cause: unknown): string {
  // The parser's way to say that there is an alias, which could unfold to more than there is room for.
  if (cause instanceof ReferenceError) return ': aliases (*name) are not taken here'
  if (!(cause instanceof YAMLParseError)) return ''
  const [start] = cause.linePos ?? []
  const { message, hint } = syntaxFault(cause)
  const place = start === undefined ? '' : `line ${start.line}, column ${start.col}: `
  return `: ${place}${message}${hint === undefined ? '' : ` (${hint})`}`
}

function readConfigFile(file: string): Record<string, unknown> {
  let bytes: Buffer
  try {
    bytes = readFileSync(file)
  } catch (cause) {
    const reason = WHY_UNREAD[(cause as NodeJS.ErrnoException).code ?? ''] ?? 'cannot be read'
    throw invalidConfig([`${file} ${reason}`], cause)
  }
  // Marks in place of letters would be believed: a password, an address.
  if (!isUtf8(bytes) || bytes.includes(0)) {
    throw invalidConfig([`${file} is not UTF-8 text (save it in the encoding UTF-8)`])
  }
  let parsed: unknown
  try {
    parsed = parse(bytes.toString('utf8'), { schema: 'core', maxAliasCount: 0, uniqueKeys: true })
  } catch (cause) {
    throw invalidConfig([`${file} cannot be read as YAML${faultOf(cause)}`], cause)
  }
  if (parsed === null || parsed === undefined) return {}
  if (typeof parsed !== 'object' || Array.isArray(parsed)) throw invalidConfig([`${file} must hold a map`])
  return parsed as Record<string, unknown>
}

function assign(target: Record<string, unknown>, path: readonly string[], text: string): void {
  let node = target
  for (const key of path.slice(0, -1)) {
    const next = Object.hasOwn(node, key) ? node[key] : undefined
    const child = typeof next === 'object' && next !== null ? (next as Record<string, unknown>) : {}
    node[key] = child
    node = child
  }
  const schema = schemaAt(path)
  node[path.at(-1) as string] = schema?.type === 'array' ? text.split(',').filter(Boolean) : text
}

function schemaAt(path: readonly string[], whole: TSchema = ConfigSchema): { readonly type?: string } | undefined {
  let schema: unknown = whole
  for (const key of path) {
    const { properties, patternProperties } = (schema ?? {}) as Record<string, Record<string, TSchema> | undefined>
    const named = Object.entries(patternProperties ?? {}).find(([pattern]) => new RegExp(pattern).test(key))
    schema = properties?.[key] ?? named?.[1]
  }
  return schema as { readonly type?: string } | undefined
}

/** `${env:NAME}` and `${file:PATH}` anywhere in a text, so that no secret stands in the file. */
function resolveReferences(value: unknown, environment: ConfigSources['environment']): unknown {
  if (typeof value === 'string') {
    return value.replace(/\$\{(env|file):([^}]+)\}/g, (_, kind: string, name: string) => {
      const found = kind === 'env' ? environment[name] : readSecretFile(name)
      if (found === undefined) throw invalidConfig([`the ${kind} reference "${name}" names nothing`])
      return found
    })
  }
  if (Array.isArray(value)) return value.map((item) => resolveReferences(item, environment))
  if (typeof value === 'object' && value !== null) {
    return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, resolveReferences(item, environment)]))
  }
  return value
}

function readSecretFile(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8').trimEnd()
  } catch (cause) {
    const { code = '' } = cause as NodeJS.ErrnoException
    if (code === 'ENOENT') return undefined
    throw invalidConfig([`the file "${path}" of a reference ${WHY_UNREAD[code] ?? 'cannot be read'}`], cause)
  }
}

function describeProblems(schema: TSchema, value: unknown): string[] {
  const problems: string[] = []
  for (const error of Value.Errors(schema, value)) {
    const path = error.instancePath.slice(1).replaceAll('/', '.') || 'the configuration'
    if (error.keyword === 'boolean') problems.push(`${path} is not known${suggestion(schema, path)}`)
    else if (error.keyword !== 'additionalProperties') problems.push(`${path} ${faultWords(error, schema)}`)
  }
  return problems
}

/** What other servers call the number of processes that serve. */
const PROCESSES_ELSEWHERE = /^(?:http\.)?(?:workers|processes|cluster|instances|concurrency)$/

function suggestion(schema: TSchema, path: string): string {
  const parts = path.split('.')
  const last = parts.pop() as string
  const siblings = Object.keys((schemaAt(parts, schema) as { properties?: object } | undefined)?.properties ?? {})
  if (PROCESSES_ELSEWHERE.test(path)) return '; did you mean http.processes?'
  const close =
    nearest(last, siblings) ?? siblings.find((name) => name.startsWith(last.slice(0, 3)) || last.includes(name))
  return close ? `; did you mean ${[...parts, close].join('.')}?` : `; known here: ${siblings.join(', ')}`
}

function invalidConfig(problems: readonly string[], cause?: unknown): SluiceError {
  return new SluiceError('CONFIG', `the configuration is not valid: ${problems.join('; ')}`, {
    code: 'invalid_config',
    remedy: 'Correct sluice.yaml, the SLUICE_ environment variables or the flags named.',
    cause,
  })
}

/** The configuration as it may be shown: everything that could hold a secret is hidden. */
export function redactedConfig(config: Config): unknown {
  const { events, compute, object_store: store, exports, dashboards } = config
  const places = Object.entries(exports.destinations).map(([name, place]) => [name, shownStore(place)])
  const shown = {
    ...config,
    events: shownServices('event-bus', events),
    compute: shownServices('compute', compute),
    object_store: shownStore(store),
    exports: { ...exports, destinations: Object.fromEntries(places) },
    ...(dashboards === undefined ? {} : { dashboards: shownDashboards(dashboards) }),
  }
  return JSON.parse(JSON.stringify(shown), (key, value) => {
    if (value === null || value === undefined) return value
    if (/(_url|token|password|secret|key)$/.test(key) && key !== 'public_url') return HIDDEN
    return key === 'settings' ? HIDDEN : value
  })
}
