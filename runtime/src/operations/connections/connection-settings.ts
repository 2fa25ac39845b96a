/** What the settings of a connection say: whether they fit, which are secret, and which of them lead to another source. */
import { isDeepStrictEqual } from 'node:util'
import { type ConnectorPlugin, isLogicalType, SluiceError } from '@sluice/sdk'
import { Compile } from 'typebox/compile'
import { faultWords } from '../../parsing/schema-words.ts'
import type { Connection } from '../../registry/connections.ts'

const MAX_CONFIG_BYTES = 64 * 1024

/** Throws INVALID_DATA `invalid_connection_config`, which names fields and never repeats a value. */
export function parseConfig(text: string, plugin: ConnectorPlugin): Readonly<Record<string, unknown>> {
  const parsed = text.length <= MAX_CONFIG_BYTES ? parseJsonObject(text) : null
  if (parsed === null) {
    throw new SluiceError('INVALID_DATA', 'config_encrypted is not a JSON object in a string', {
      code: 'invalid_connection_config',
      remedy: 'Send the settings as a JSON document, encoded as a string.',
    })
  }
  const validator = Compile(plugin.settingsSchema as Parameters<typeof Compile>[0])
  if (validator.Check(parsed)) return parsed
  // Messages name fields and rules; values may be secrets and are never repeated.
  const errors = validator
    .Errors(parsed)
    .filter((error) => error.keyword !== 'boolean')
    .map((error) => ({
      in: 'body',
      pointer: `/config_encrypted${error.instancePath}`,
      message:
        error.keyword === 'additionalProperties'
          ? unknownFields(error.params)
          : faultWords(error, plugin.settingsSchema),
    }))
  throw new SluiceError('INVALID_DATA', 'the connection’s settings are not valid', {
    code: 'invalid_connection_config',
    remedy: 'Correct what errors[] names.',
    details: { errors },
  })
}

function unknownFields(params: unknown): string {
  const names = (params as { additionalProperties?: readonly string[] }).additionalProperties ?? []
  return `has fields that are not known: ${names.map((name) => name.slice(0, 64)).join(', ')}`
}

function parseJsonObject(text: string): Readonly<Record<string, unknown>> | null {
  try {
    const value: unknown = JSON.parse(text)
    return typeof value === 'object' && value !== null && !Array.isArray(value)
      ? (value as Record<string, unknown>)
      : null
  } catch {
    return null
  }
}

/** What is sealed, by the word of the plugin's schema, and what is kept as it is. */
export function splitSecrets(plugin: ConnectorPlugin, settings: Readonly<Record<string, unknown>>) {
  const isSecret = (name: string) => plugin.settingsSchema.properties?.[name]?.['x-secret'] === true
  const entries = Object.entries(settings)
  return {
    open: Object.fromEntries(entries.filter(([name]) => !isSecret(name))),
    secrets: Object.fromEntries(
      entries.filter(([name]) => isSecret(name)).map(([name, value]) => [name, String(value)]),
    ),
  }
}

/** What an answer shows in place of each secret that a connection has. */
export const HIDDEN_SECRET = '********'

/** Names of those that are sent as answers show them. */
export const hiddenFields = (secrets: Readonly<Record<string, string>>): readonly string[] =>
  Object.keys(secrets).filter((field) => secrets[field] === HIDDEN_SECRET)

/**
 * Without those that are sent as answers show them: who sends settings back as they were shown keeps what is stored. Throws
 * INVALID_DATA `invalid_connection_config` where nothing is stored that could be kept: it would be a secret that logs in nowhere.
 */
export function withoutHidden(
  secrets: Readonly<Record<string, string>>,
  stored: readonly string[],
): Readonly<Record<string, string>> {
  const hidden = hiddenFields(secrets)
  const unknown = hidden.filter((field) => !stored.includes(field))
  if (unknown.length === 0)
    return Object.fromEntries(Object.entries(secrets).filter(([field]) => !hidden.includes(field)))
  const errors = unknown.map((field) => ({
    in: 'body',
    pointer: `/config_encrypted/${field}`,
    message: 'is what answers show in place of a secret, and the connection has none that could be kept',
  }))
  throw new SluiceError('INVALID_DATA', 'a secret was sent as it is hidden in answers', {
    code: 'invalid_connection_config',
    remedy: `Send ${unknown.join(', ')} as it is.`,
    details: { errors },
  })
}

/** With these changed, rows are read from where they were, by the login that it was. */
const SAME_SOURCE = /^(schemas?|tables?|\w+_m?s)$/

export const isMap = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/**
 * A list of tables says which of them are read. A map says of what each is made, as of which files: with another entry in
 * place of one that was there, the rows of a name would be others, and rights to it would be rights to these. Where nothing but
 * types of its columns is another, they are the same rows, and what could not be carried may be now.
 */
export function leadsElsewhere(name: string, before: unknown, after: unknown): boolean {
  const [was, is] = [untyped(before), untyped(after)]
  if (!SAME_SOURCE.test(name)) return !isDeepStrictEqual(was, is)
  if (!isMap(was)) return false
  return Object.keys(was).some((entry) => !isMap(is) || !isDeepStrictEqual(was[entry], is[entry]))
}

/** A map of entries without the types of their columns. */
function untyped(setting: unknown): unknown {
  if (!isMap(setting)) return setting
  const isTyped = (column: unknown) =>
    isMap(column) && typeof column['type'] === 'string' && isLogicalType(column['type'])
  const bare = (column: unknown) => (isTyped(column) ? { ...(column as object), type: null } : column)
  const entries = Object.entries(setting).map(([name, entry]) => {
    const columns = isMap(entry) ? entry['columns'] : undefined
    return [name, Array.isArray(columns) ? { ...(entry as object), columns: columns.map(bare) } : entry] as const
  })
  return Object.fromEntries(entries)
}

/** Names of those that are not as the connection has them. */
export function changedSettings(connection: Connection, open: Readonly<Record<string, unknown>>): readonly string[] {
  // The registry keeps members in an order of its own.
  const isSame = (name: string) => isDeepStrictEqual(open[name], connection.config[name])
  return [...new Set([...Object.keys(open), ...Object.keys(connection.config)])].filter((name) => !isSame(name))
}

/** Throws INVALID_DATA `invalid_connection_config`. */
export function checkSecretsAreSent(
  { secretFields }: Connection,
  secrets: Readonly<Record<string, string>>,
  moved: readonly string[],
): void {
  const missing = secretFields.filter((field) => !(field in secrets))
  if (missing.length === 0) return
  const errors = missing.map((field) => ({
    in: 'body',
    pointer: `/config_encrypted/${field}`,
    message: `is needed again where ${moved.join(', ')} is another`,
  }))
  throw new SluiceError('INVALID_DATA', 'another place to log in to needs its secrets again', {
    code: 'invalid_connection_config',
    remedy: `Send ${missing.join(', ')} with the settings.`,
    details: { errors },
  })
}
