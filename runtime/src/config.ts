/**
 * The runtime's configuration: one schema, three sources. `sluice.yaml` is overridden by the environment
 * (`SLUICE_PORT`, `SLUICE_AUTH__AUDIENCE`: a double underscore goes one level down), and that by flags
 * (`--port`, `--auth.audience`). Unknown keys are refused with a suggestion.
 */
import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { SluiceError } from '@sluice/sdk'
import { type Static, type TSchema, Type } from 'typebox'
import { Compile } from 'typebox/compile'
import { Value } from 'typebox/value'
import { parse } from 'yaml'

const closed = { additionalProperties: false, default: {} } as const

const Settings = Type.Record(Type.String(), Type.Unknown())

const Issuer = Type.Object(
  {
    issuer: Type.String({ description: 'The `iss` of its tokens; discovery is asked below this address.' }),
    audience: Type.String(),
    tenants: Type.Optional(
      Type.Array(Type.String(), { description: 'Tenants that it may claim; absent: every tenant.' }),
    ),
    admin: Type.Boolean({ default: false, description: 'Whether its tokens may claim the admin role.' }),
    claims: Type.Object(
      {
        tenant: Type.String({ default: 'tenant_id' }),
        groups: Type.String({ default: 'groups' }),
        roles: Type.String({ default: 'roles' }),
        clearance: Type.String({ default: 'clearance' }),
      },
      closed,
    ),
  },
  { additionalProperties: false },
)

const ServingDriver = Type.Object(
  {
    driver: Type.String({ description: 'Name of a loaded serving plugin of this type.' }),
    settings: Type.Optional(Settings),
  },
  { additionalProperties: false },
)

export const ConfigSchema = Type.Object(
  {
    data_dir: Type.String({ default: '.sluice', description: 'Folder for everything that is kept.' }),
    host: Type.String({ default: '127.0.0.1' }),
    port: Type.Integer({ default: 8080, minimum: 0, maximum: 65_535, description: '0 picks a free port.' }),
    public_url: Type.Optional(Type.String({ description: 'The address that clients use, where it is another.' })),
    log: Type.Object(
      {
        level: Type.Union(
          ['trace', 'debug', 'info', 'warn', 'error', 'silent'].map((level) => Type.Literal(level)),
          { default: 'info' },
        ),
        pretty: Type.Optional(Type.Boolean({ description: 'Default: on a terminal.' })),
      },
      closed,
    ),
    database: Type.Object(
      {
        registry_url: Type.Optional(
          Type.String({ description: 'PostgreSQL of the registry; absent: the embedded server.' }),
        ),
        serving_owner_url: Type.Optional(Type.String()),
        serving_writer_url: Type.Optional(Type.String()),
        serving_reader_url: Type.Optional(Type.String()),
      },
      closed,
    ),
    auth: Type.Object(
      {
        audience: Type.String({ default: 'sluice', description: 'Of the embedded issuer.' }),
        token_ttl_s: Type.Integer({ default: 3600, minimum: 60, maximum: 86_400 }),
        issuers: Type.Array(Issuer, { default: [], description: 'Any entry turns the embedded issuer off.' }),
      },
      closed,
    ),
    plugins: Type.Array(Type.String(), {
      default: [
        '@sluice/lookup/postgresql',
        '@sluice/timeseries/postgresql',
        '@sluice/analytics/duckdb',
        '@sluice/realtime/lmdb',
        '@sluice/connectors/postgresql',
      ],
      description: 'Packages (with a subpath) or paths of plugins.',
    }),
    serving: Type.Record(Type.String(), ServingDriver, {
      default: {
        lookup: { driver: 'postgresql' },
        timeseries: { driver: 'postgresql' },
        analytics: { driver: 'duckdb' },
        realtime: { driver: 'lmdb' },
      },
    }),
    network: Type.Object(
      {
        allow: Type.Array(Type.String(), {
          default: [],
          description: 'Private address ranges (CIDR) that connections may go to.',
        }),
        allow_loopback: Type.Optional(Type.Boolean({ description: 'Default: in embedded mode.' })),
        allow_cleartext_passwords: Type.Optional(
          Type.Boolean({ description: 'Passwords without verified TLS. Default: to loopback only.' }),
        ),
      },
      closed,
    ),
    masking: Type.Object(
      {
        sensitive: Type.Array(Type.String(), { default: [], description: 'Classes masked besides pii.*.' }),
        strategies: Type.Record(
          Type.String(),
          Type.Union(['hash', 'redact', 'partial', 'null', 'omit'].map((name) => Type.Literal(name))),
          { default: { 'pii.identifier': 'hash', 'pii.name': 'redact' } },
        ),
      },
      closed,
    ),
    limits: Type.Object(
      {
        workers: Type.Integer({ default: 2, minimum: 1, maximum: 32, description: 'Runs at once in this process.' }),
        engine_processes: Type.Integer({ default: 3, minimum: 1, maximum: 64 }),
        query_memory_mb: Type.Integer({ default: 512, minimum: 64 }),
        query_timeout_ms: Type.Integer({ default: 30_000, minimum: 100 }),
        query_rows: Type.Integer({ default: 100_000, minimum: 1 }),
        transform_memory_mb: Type.Integer({ default: 512, minimum: 128 }),
        transform_timeout_ms: Type.Integer({ default: 900_000, minimum: 1000 }),
        lease_ms: Type.Integer({ default: 30_000, minimum: 1000 }),
        rate: Type.Object(
          {
            free: Type.Integer({ default: 10, minimum: 1 }),
            standard: Type.Integer({ default: 50, minimum: 1 }),
            enterprise: Type.Integer({ default: 500, minimum: 1 }),
          },
          closed,
        ),
      },
      closed,
    ),
    metrics_token: Type.Optional(Type.String({ description: 'Bearer token for /metrics besides the admin role.' })),
    allow_unproved: Type.Boolean({ default: true }),
  },
  closed,
)

export type Config = Static<typeof ConfigSchema>
export type IssuerConfig = Static<typeof Issuer>
export type MaskStrategy = 'hash' | 'redact' | 'partial' | 'null' | 'omit'

const validator = Compile(ConfigSchema)

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
  for (const [name, text] of Object.entries(sources.environment)) {
    if (!name.startsWith('SLUICE_') || text === undefined || RESERVED_ENVIRONMENT.test(name)) continue
    assign(raw, name.slice('SLUICE_'.length).toLowerCase().split('__'), text)
  }
  for (const [flag, text] of Object.entries(sources.flags)) assign(raw, flag.replaceAll('-', '_').split('.'), text)
  const resolved = resolveReferences(raw, sources.environment)
  const value = Value.Default(ConfigSchema, Value.Convert(ConfigSchema, resolved))
  if (!validator.Check(value)) throw invalidConfig(describeProblems(value))
  return { ...value, data_dir: resolve(value.data_dir) }
}

function readConfigFile(file: string): Record<string, unknown> {
  let parsed: unknown
  try {
    parsed = parse(readFileSync(file, 'utf8'), { schema: 'core', maxAliasCount: 0, uniqueKeys: true })
  } catch (cause) {
    throw invalidConfig([`${file} cannot be read as YAML`], cause)
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

function schemaAt(path: readonly string[]): { readonly type?: string } | undefined {
  let schema: unknown = ConfigSchema
  for (const key of path) schema = (schema as { properties?: Record<string, TSchema> } | undefined)?.properties?.[key]
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
  } catch {
    return undefined
  }
}

function describeProblems(value: unknown): string[] {
  const problems: string[] = []
  for (const error of validator.Errors(value)) {
    const path = error.instancePath.slice(1).replaceAll('/', '.') || 'the configuration'
    if (error.keyword === 'boolean') problems.push(`${path} is not known${suggestion(path)}`)
    else if (error.keyword !== 'additionalProperties') problems.push(`${path} ${error.message}`)
  }
  return problems
}

function suggestion(path: string): string {
  const parts = path.split('.')
  const last = parts.pop() as string
  const siblings = Object.keys((schemaAt(parts) as { properties?: object } | undefined)?.properties ?? {})
  const close = siblings.find((name) => name.startsWith(last.slice(0, 3)) || last.includes(name))
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
  return JSON.parse(JSON.stringify(config), (key, value) => {
    if (value === null || value === undefined) return value
    if (/(_url|token|password|secret|key)$/.test(key) && key !== 'public_url') return '********'
    return key === 'settings' ? '********' : value
  })
}
