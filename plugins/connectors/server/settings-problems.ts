/** What is wrong with the settings of a connection to a server. */
import { isIP } from 'node:net'
import type { ConfigProblem, JsonSchema } from '@sluice/sdk'

/** By JSON pointer, and never with a value: what the schema says, and what it cannot say of host and TLS. */
export function* settingsProblems(settings: unknown, settingsSchema: JsonSchema): Generator<ConfigProblem> {
  if (typeof settings !== 'object' || settings === null || Array.isArray(settings)) {
    yield { pointer: '', message: 'must be an object' }
    return
  }
  const given = settings as Readonly<Record<string, unknown>>
  const known: Readonly<Record<string, JsonSchema>> = settingsSchema.properties ?? {}
  for (const key of Object.keys(given)) {
    if (!Object.hasOwn(known, key)) {
      yield { pointer: pointerTo(key), message: 'is not a setting', hint: Object.keys(known).join(', ') }
    }
  }
  for (const key of settingsSchema.required ?? []) {
    if (given[key] === undefined) yield { pointer: pointerTo(key), message: 'is required' }
  }
  for (const [key, schema] of Object.entries(known)) {
    if (given[key] === undefined) continue
    const message = mismatch(given[key], schema)
    if (message) yield { pointer: pointerTo(key), message }
  }
  yield* tlsProblems(given)
  if (typeof given.host === 'string' && given.host.includes(':') && isIP(given.host) !== 6) {
    yield { pointer: '/host', message: 'holds a colon but is no IPv6 address', hint: 'give the port as "port"' }
  }
}

function* tlsProblems(given: Readonly<Record<string, unknown>>): Generator<ConfigProblem> {
  const certificate = given.ssl_root_cert
  if (given.ssl_mode === 'verify-ca' && certificate === undefined) {
    yield {
      pointer: '/ssl_root_cert',
      message: 'is required with ssl_mode verify-ca',
      hint: 'any public authority signs for anybody: use verify-full, or name your own authority',
    }
  }
  if (
    typeof certificate === 'string' &&
    !/-----BEGIN CERTIFICATE-----[\s\S]+-----END CERTIFICATE-----/.test(certificate)
  ) {
    yield { pointer: '/ssl_root_cert', message: 'must be the PEM text of a certificate' }
  }
}

function mismatch(value: unknown, schema: JsonSchema): string | null {
  switch (schema.type) {
    case 'integer':
      return Number.isInteger(value) && between(value as number, schema.minimum, schema.maximum)
        ? null
        : `must be a whole number from ${schema.minimum} to ${schema.maximum}`
    case 'boolean':
      return typeof value === 'boolean' ? null : 'must be true or false'
    case 'array':
      return arrayMismatch(value, schema)
    default:
      return stringMismatch(value, schema)
  }
}

function arrayMismatch(value: unknown, schema: JsonSchema): string | null {
  if (!Array.isArray(value) || !between(value.length, schema.minItems, schema.maxItems)) {
    return `must be a list of ${schema.minItems} to ${schema.maxItems} names`
  }
  if (new Set(value).size !== value.length) return 'must not name anything twice'
  return value.every((item) => stringMismatch(item, schema.items ?? {}) === null) ? null : 'must hold names only'
}

function stringMismatch(value: unknown, schema: JsonSchema): string | null {
  if (typeof value !== 'string') return 'must be a text'
  if (value.includes('\0')) return 'must not hold a NUL character'
  if (schema.enum && !schema.enum.includes(value)) return `must be one of ${schema.enum.join(', ')}`
  if (!between(value.length, schema.minLength, schema.maxLength)) {
    return `must have ${schema.minLength ?? 0} to ${schema.maxLength} characters`
  }
  return schema.pattern && !new RegExp(schema.pattern, 'u').test(value)
    ? 'must be one host name or IP address, and no path'
    : null
}

function between(value: number, minimum = 0, maximum = Number.MAX_SAFE_INTEGER): boolean {
  return value >= minimum && value <= maximum
}

function pointerTo(key: string): string {
  return `/${key.replaceAll('~', '~0').replaceAll('/', '~1')}`
}
