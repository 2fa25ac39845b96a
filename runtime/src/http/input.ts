/** Validators of a route's inputs, compiled once; the cost of a request is one check of each. */
import type { TObject, TSchema } from 'typebox'
import { Type } from 'typebox'
import { Compile, type Validator } from 'typebox/compile'
import type { TLocalizedValidationError } from 'typebox/error'
import { didYouMean } from '../manifest/suggestion.ts'
import { type InputFault, refuse, validationFailed } from './problem.ts'

type Place = 'body' | 'query' | 'path'
type Shape = 'text' | 'number' | 'integer' | 'boolean' | 'list' | 'number-list'

const MAX_FAULTS = 50
const MAX_POINTER_LENGTH = 200
const EMPTY = Object.freeze({})

/** Takes what a client sent and gives the value of the schema, or throws `validation_failed` with every fault. */
export interface InputReader<Source> {
  read(source: Source): unknown
}

export function bodyReader(schema: TSchema | undefined): InputReader<unknown> {
  const validator = Compile(closed(schema ?? Type.Object({})))
  const defaults = defaultsOf(schema)
  return { read: (source) => checked(validator, withDefaults(source, defaults), 'body') }
}

export function queryReader(schema: TObject | undefined): InputReader<ReadonlyMap<string, readonly string[]>> {
  const validator = Compile(closed(schema ?? Type.Object({})))
  const shapes = shapesOf(schema)
  const defaults = defaultsOf(schema)
  const isEmpty = schema === undefined
  return {
    read: (source) => {
      if (source.size === 0 && isEmpty) return EMPTY
      return checked(validator, withDefaults(coerceAll(source, shapes), defaults), 'query')
    },
  }
}

export function paramsReader(schema: TObject | undefined): InputReader<Readonly<Record<string, string>>> {
  if (schema === undefined) return { read: (source) => source }
  const validator = Compile(closed(schema))
  const shapes = shapesOf(schema)
  const hasNumbers = [...shapes.values()].some((shape) => shape !== 'text')
  return {
    read: (source) => {
      const value = hasNumbers
        ? coerceAll(new Map(Object.entries(source).map(([key, text]) => [key, [text]])), shapes)
        : source
      return checked(validator, value, 'path')
    },
  }
}

/** Unknown keys are refused everywhere unless a schema says otherwise: a misspelt option must not be ignored. */
function closed(schema: TSchema): TSchema {
  const object = schema as TSchema & { readonly type?: string; readonly additionalProperties?: unknown }
  if (object.type !== 'object' || object.additionalProperties !== undefined) return schema
  return { ...schema, additionalProperties: false } as TSchema
}

function checked(validator: Validator, value: unknown, place: Place): unknown {
  if (validator.Check(value)) return value
  throw validationFailed(faultsOf(validator, value, place))
}

function faultsOf(validator: Validator, value: unknown, place: Place): readonly InputFault[] {
  const errors = validator.Errors(value)
  const schema = validator.Type() as TSchema
  const faults: InputFault[] = []
  for (const error of errors) {
    if (faults.length >= MAX_FAULTS) break
    for (const fault of describe(error, errors, schema)) faults.push({ in: place, ...fault })
  }
  return faults.length > 0 ? faults : [{ in: place, pointer: '', message: 'is not valid' }]
}

function describe(
  error: TLocalizedValidationError,
  all: readonly TLocalizedValidationError[],
  schema: TSchema,
): InputFault[] {
  const pointer = error.instancePath.slice(0, MAX_POINTER_LENGTH)
  switch (error.keyword) {
    case 'additionalProperties':
      return []
    case 'boolean':
      return [{ pointer, message: 'is not known', ...hintOf(lastKey(pointer), siblings(schema, error.schemaPath)) }]
    case 'required': {
      const { requiredProperties } = error.params as { readonly requiredProperties: readonly string[] }
      return requiredProperties.map((name) => ({ pointer: `${pointer}/${name}`, message: 'is required' }))
    }
    case 'enum': {
      const { allowedValues } = error.params as { readonly allowedValues: readonly unknown[] }
      return [{ pointer, message: `must be one of ${allowedValues.join(', ')}` }]
    }
    case 'anyOf':
      return [{ pointer, message: alternatives(error, all) }]
    default:
      return isInsideAnyOf(error, all) ? [] : [{ pointer, message: error.message }]
  }
}

/** What failed inside each branch says less than the list of what is allowed. */
function isInsideAnyOf(error: TLocalizedValidationError, all: readonly TLocalizedValidationError[]): boolean {
  return all.some((other) => other.keyword === 'anyOf' && error.schemaPath.startsWith(`${other.schemaPath}/anyOf/`))
}

function alternatives(error: TLocalizedValidationError, all: readonly TLocalizedValidationError[]): string {
  const allowed = all
    .filter((other) => other.keyword === 'const' && other.schemaPath.startsWith(`${error.schemaPath}/anyOf/`))
    .map((other) => String((other.params as { readonly allowedValue: unknown }).allowedValue))
  return allowed.length > 0 ? `must be one of ${allowed.join(', ')}` : 'has none of the allowed forms'
}

/** Also for the parts of forms. */
export function hintOf(name: string, known: readonly string[]): { readonly hint?: string } {
  const hint = didYouMean(name, known)
  return hint === undefined ? {} : { hint }
}

function lastKey(pointer: string): string {
  return pointer.slice(pointer.lastIndexOf('/') + 1)
}

/** `schemaPath` ends in `/additionalProperties` below the object whose names are the candidates. */
function siblings(schema: TSchema, schemaPath: string): readonly string[] {
  let node: unknown = schema
  for (const key of schemaPath.split('/').slice(1, -1)) node = (node as Record<string, unknown> | undefined)?.[key]
  return Object.keys((node as { readonly properties?: object } | undefined)?.properties ?? {})
}

function defaultsOf(schema: TSchema | undefined): readonly (readonly [string, unknown])[] {
  const properties = (schema as { readonly properties?: Record<string, { readonly default?: unknown }> } | undefined)
    ?.properties
  return Object.entries(properties ?? {})
    .filter(([, property]) => property.default !== undefined)
    .map(([name, property]) => [name, property.default])
}

function withDefaults(source: unknown, defaults: readonly (readonly [string, unknown])[]): unknown {
  if (defaults.length === 0 || typeof source !== 'object' || source === null || Array.isArray(source)) return source
  const value = { ...(source as Record<string, unknown>) }
  for (const [name, fallback] of defaults) if (value[name] === undefined) value[name] = fallback
  return value
}

function shapesOf(schema: TObject | undefined): ReadonlyMap<string, Shape> {
  return new Map(Object.entries(schema?.properties ?? {}).map(([name, property]) => [name, shapeOf(property)]))
}

function shapeOf(property: TSchema): Shape {
  const { type, items } = property as { readonly type?: string; readonly items?: { readonly type?: string } }
  if (type === 'number' || type === 'integer' || type === 'boolean') return type
  if (type !== 'array') return 'text'
  return items?.type === 'number' || items?.type === 'integer' ? 'number-list' : 'list'
}

function coerceAll(
  source: ReadonlyMap<string, readonly string[]>,
  shapes: ReadonlyMap<string, Shape>,
): Record<string, unknown> {
  const value: Record<string, unknown> = {}
  for (const [name, texts] of source) {
    const shape = shapes.get(name) ?? 'text'
    if (name === '__proto__') throw refuse('malformed_query', 'the query has a name that is not allowed')
    if (shape === 'list') value[name] = texts
    else if (shape === 'number-list') value[name] = texts.map((text) => coerce(text, 'number'))
    else if (texts.length > 1)
      throw refuse('malformed_query', 'a parameter that may not repeat stands in the query twice')
    else value[name] = coerce(texts[0] as string, shape)
  }
  return value
}

/** Text that is no number or boolean stays text, so that the validator names the fault. */
function coerce(text: string, shape: Shape): unknown {
  if (shape === 'number' || shape === 'integer') return /^-?\d{1,15}(\.\d{1,15})?$/.test(text) ? Number(text) : text
  if (shape === 'boolean') return text === 'true' ? true : text === 'false' ? false : text
  return text
}
