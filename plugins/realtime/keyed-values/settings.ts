/** Settings are checked by the plugin too: whoever opens it may not be the runtime. */
import { type JsonSchema, SluiceError } from '@sluice/sdk'

/** Throws CONFIG `invalid_settings` that names, by JSON pointer, the first setting that cannot be right; never a value. */
export function checkSettings(schema: JsonSchema, settings: unknown): void {
  const problem = problemOf(schema, settings, '')
  if (problem !== null) throw invalidSettings(problem.message, problem.pointer)
}

export function invalidSettings(why: string, pointer: string): SluiceError {
  return new SluiceError('CONFIG', `the settings of the realtime store are not valid: ${pointer || '/'} ${why}`, {
    code: 'invalid_settings',
    remedy: 'Correct serving.realtime.settings.',
    details: { pointer },
  })
}

interface Problem {
  readonly pointer: string
  readonly message: string
}

function problemOf(schema: JsonSchema, value: unknown, pointer: string): Problem | null {
  if (!isOfType(schema.type, value)) return { pointer, message: `is not of type ${schema.type}` }
  if (schema.type === 'object') return problemOfObject(schema, value as Readonly<Record<string, unknown>>, pointer)
  if (typeof value === 'string') {
    const isRight = new RegExp(schema.pattern ?? '').test(value) && value.length >= (schema.minLength ?? 0)
    return isRight ? null : { pointer, message: 'is not of the form that the schema asks for' }
  }
  const { minimum = value, maximum = value } = schema
  const isWithin = typeof value !== 'number' || (value >= (minimum as number) && value <= (maximum as number))
  return isWithin ? null : { pointer, message: `is not between ${minimum} and ${maximum}` }
}

function problemOfObject(schema: JsonSchema, value: Readonly<Record<string, unknown>>, at: string): Problem | null {
  const { properties = {}, required = [] } = schema
  for (const name of required) if (value[name] === undefined) return { pointer: `${at}/${name}`, message: 'is missing' }
  for (const [name, part] of Object.entries(value)) {
    const known = properties[name]
    if (known === undefined) return { pointer: `${at}/${name}`, message: 'is not known' }
    const problem = part === undefined ? null : problemOf(known, part, `${at}/${name}`)
    if (problem !== null) return problem
  }
  return null
}

function isOfType(type: JsonSchema['type'], value: unknown): boolean {
  switch (type) {
    case 'object':
      return typeof value === 'object' && value !== null && !Array.isArray(value)
    case 'integer':
      return Number.isSafeInteger(value)
    case undefined:
      return true
    default:
      return typeof value === type
  }
}
