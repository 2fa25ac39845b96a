/** The part of JSON Schema that plugins' settings and configs are written in: see `JsonSchema` of the SDK. */
import { isDeepStrictEqual } from 'node:util'
import type { JsonSchema } from '@sluice/sdk'

const KEYWORDS: ReadonlySet<string> = new Set([
  'type',
  'description',
  'properties',
  'required',
  'additionalProperties',
  'items',
  'enum',
  'const',
  'default',
  'examples',
  'minimum',
  'maximum',
  'minLength',
  'maxLength',
  'minItems',
  'maxItems',
  'uniqueItems',
  'pattern',
  'x-secret',
  'x-folder',
])

const TYPES: Readonly<Record<NonNullable<JsonSchema['type']>, (value: unknown) => boolean>> = {
  object: isObject,
  array: Array.isArray,
  string: (value) => typeof value === 'string',
  integer: Number.isInteger,
  number: (value) => typeof value === 'number',
  boolean: (value) => typeof value === 'boolean',
}

/** Whatever the value breaks, as JSON pointers with a reason; empty where it fits. */
export function problemsOf(schema: JsonSchema, value: unknown, pointer = ''): readonly string[] {
  if (schema.type !== undefined && !TYPES[schema.type](value)) return [`${pointer || '/'} is no ${schema.type}`]
  const problems: string[] = []
  const check = (isRight: boolean, what: string) => void (isRight || problems.push(`${pointer || '/'} ${what}`))
  if (schema.enum) check((schema.enum as readonly unknown[]).includes(value), 'is none of the enum')
  if (schema.const !== undefined) check(value === schema.const, 'is not the constant')
  if (typeof value === 'number') checkNumber(schema, value, check)
  if (typeof value === 'string') checkText(schema, value, check)
  if (Array.isArray(value)) problems.push(...itemProblems(schema, value, pointer, check))
  if (isObject(value)) problems.push(...propertyProblems(schema, value, pointer))
  return problems
}

type Expect = (isRight: boolean, what: string) => void

function checkNumber({ minimum, maximum }: JsonSchema, value: number, check: Expect): void {
  check(minimum === undefined || value >= minimum, 'is below its minimum')
  check(maximum === undefined || value <= maximum, 'is above its maximum')
}

function checkText({ minLength = 0, maxLength, pattern }: JsonSchema, value: string, check: Expect): void {
  const { length } = [...value]
  check(length >= minLength, 'is too short')
  check(maxLength === undefined || length <= maxLength, 'is too long')
  check(pattern === undefined || new RegExp(pattern, 'u').test(value), 'does not match its pattern')
}

function itemProblems(
  { items, minItems = 0, maxItems, uniqueItems }: JsonSchema,
  value: readonly unknown[],
  pointer: string,
  check: Expect,
): readonly string[] {
  check(value.length >= minItems, 'has too few items')
  check(maxItems === undefined || value.length <= maxItems, 'has too many items')
  const repeated = value.some((one, index) => value.slice(0, index).some((other) => isDeepStrictEqual(one, other)))
  check(!(uniqueItems && repeated), 'has an item twice')
  return items ? value.flatMap((item, index) => problemsOf(items, item, `${pointer}/${index}`)) : []
}

function propertyProblems(
  { properties = {}, required = [], additionalProperties = true }: JsonSchema,
  value: Readonly<Record<string, unknown>>,
  pointer: string,
): readonly string[] {
  const missing = required.filter((name) => value[name] === undefined).map((name) => `${pointer}/${name} is missing`)
  const nested = Object.entries(value).flatMap(([name, item]) => {
    const schema = Object.hasOwn(properties, name) ? properties[name] : additionalProperties
    if (item === undefined || schema === true || schema === undefined) return []
    return schema === false ? [`${pointer}/${name} is not known`] : problemsOf(schema, item, `${pointer}/${name}`)
  })
  return [...missing, ...nested]
}

/** What is wrong with the schema itself: unknown keywords, patterns that are none, names that are required of nobody. */
export function schemaProblems(schema: JsonSchema, pointer = ''): readonly string[] {
  const here = pointer || '/'
  const unknown = Object.keys(schema).filter((keyword) => !KEYWORDS.has(keyword))
  const { properties = {}, required = [], items, additionalProperties, examples = [] } = schema
  const nested: readonly (readonly [string, JsonSchema | undefined])[] = [
    ...Object.entries(properties),
    ['items', items],
    ['additionalProperties', typeof additionalProperties === 'object' ? additionalProperties : undefined],
  ]
  const own = schema.default === undefined ? examples : [...examples, schema.default]
  return [
    ...unknown.map((keyword) => `${here} has the unknown keyword ${keyword}`),
    ...required
      .filter((name) => !Object.hasOwn(properties, name))
      .map((name) => `${here} requires ${name}, which is no property`),
    ...(isPattern(schema.pattern) ? [] : [`${here} has a pattern that is none`]),
    ...own
      .flatMap((example) => problemsOf(schema, example, pointer))
      .map((problem) => `example or default: ${problem}`),
    ...nested.flatMap(([name, inner]) => (inner ? schemaProblems(inner, `${pointer}/${name}`) : [])),
  ]
}

function isPattern(pattern: string | undefined): boolean {
  try {
    return pattern === undefined || new RegExp(pattern, 'u') !== null
  } catch {
    return false
  }
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

export interface SettingProblem {
  /** What was made wrong, in words. */
  readonly what: string
  readonly settings: unknown
}

/** Settings that the schema says cannot be right, made from ones that are: one thing wrong in each. */
export function brokenSettings(schema: JsonSchema, good: unknown): readonly SettingProblem[] {
  const base = isObject(good) ? good : {}
  const { properties = {}, required = [], additionalProperties } = schema
  const missing = required.map((name) => ({ what: `without ${name}`, settings: { ...base, [name]: undefined } }))
  const retyped = Object.entries(properties).flatMap(([name, { type }]) => {
    const wrong = type === undefined ? [] : [type === 'string' ? 7 : 'not that']
    return wrong.map((value) => ({ what: `with ${name} of another type`, settings: { ...base, [name]: value } }))
  })
  const unknown =
    additionalProperties === false ? [{ what: 'with an unknown name', settings: { ...base, no_such_setting: 1 } }] : []
  return [...missing, ...retyped, ...unknown, { what: 'that are no object', settings: 'none' }]
}
