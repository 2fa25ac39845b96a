/** Validators of a route's inputs, compiled once; the cost of a request is one check of each. */
import type { TObject, TSchema } from 'typebox'
import { Type } from 'typebox'
import { Compile, type Validator } from 'typebox/compile'
import type { TLocalizedValidationError } from 'typebox/error'
import { isKept } from '../parsing/kept-numbers.ts'
import { faultWords } from '../parsing/schema-words.ts'
import { didYouMean } from '../parsing/suggestion.ts'
import { type InputFault, refuse, validationFailed } from './problem.ts'
import { eachParameter } from './target.ts'

type Place = 'body' | 'query' | 'path'
type Shape = 'text' | 'number' | 'integer' | 'boolean' | 'list' | 'number-list'

type Defaults = readonly (readonly [string, unknown])[]

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

/** Reads the query as it stands in the address, without the question mark. */
export function queryReader(schema: TObject | undefined): InputReader<string> {
  const validator = Compile(closed(schema ?? Type.Object({})))
  const shapes = shapesOf(schema)
  const defaults = defaultsOf(schema)
  const isEmpty = schema === undefined
  return {
    read: (search) => {
      if (search === '' && isEmpty) return EMPTY
      const value: Record<string, unknown> = {}
      eachParameter(search, (name, text) => addParameter(value, name, text, shapes))
      return checked(validator, fillDefaults(value, defaults), 'query')
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
      if (!hasNumbers) return checked(validator, source, 'path')
      const entries = Object.entries(source).map(([name, text]) => [name, coerce(text, shapes.get(name) ?? 'text')])
      return checked(validator, Object.fromEntries(entries), 'path')
    },
  }
}

interface Node {
  readonly type?: string
  readonly properties?: Readonly<Record<string, Node>>
  readonly items?: Node
  readonly anyOf?: readonly Node[]
  readonly additionalProperties?: unknown
}

/** Unknown keys are refused everywhere unless a schema says otherwise: a misspelt option must not be ignored. */
function closed(schema: TSchema): TSchema {
  return closedNode(schema as Node) as TSchema
}

function closedNode(node: Node): Node {
  const { properties, items, anyOf } = node
  return {
    ...node,
    ...(items && { items: closedNode(items) }),
    ...(anyOf && { anyOf: anyOf.map(closedNode) }),
    ...(properties && {
      properties: Object.fromEntries(Object.entries(properties).map(([name, child]) => [name, closedNode(child)])),
      additionalProperties: node.additionalProperties ?? false,
    }),
  }
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
      if (isInsideChoice(error, all)) return []
      const { requiredProperties } = error.params as { readonly requiredProperties: readonly string[] }
      return requiredProperties.map((name) => ({ pointer: `${pointer}/${name}`, message: 'is required' }))
    }
    case 'enum': {
      const { allowedValues } = error.params as { readonly allowedValues: readonly unknown[] }
      return [{ pointer, message: `must be one of ${allowedValues.join(', ')}` }]
    }
    case 'anyOf':
      return isInsideChoice(error, all) ? [] : [{ pointer, message: alternatives(error, all, schema) }]
    default:
      return isInsideChoice(error, all) ? [] : [{ pointer, message: faultWords(error, schema) }]
  }
}

/** What failed inside each branch says less than the list of what is allowed. */
function isInsideChoice(error: TLocalizedValidationError, all: readonly TLocalizedValidationError[]): boolean {
  return all.some(({ keyword, schemaPath }) => {
    return (keyword === 'anyOf' || keyword === 'oneOf') && error.schemaPath.startsWith(`${schemaPath}/${keyword}/`)
  })
}

function alternatives(
  error: TLocalizedValidationError,
  all: readonly TLocalizedValidationError[],
  schema: TSchema,
): string {
  const allowed = all
    .filter((other) => other.keyword === 'const' && other.schemaPath.startsWith(`${error.schemaPath}/anyOf/`))
    .map((other) => String((other.params as { readonly allowedValue: unknown }).allowedValue))
  return allowed.length > 0 ? `must be one of ${allowed.join(', ')}` : faultWords(error, schema)
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

function defaultsOf(schema: TSchema | undefined): Defaults {
  const properties = (schema as { readonly properties?: Record<string, { readonly default?: unknown }> } | undefined)
    ?.properties
  return Object.entries(properties ?? {})
    .filter(([, property]) => property.default !== undefined)
    .map(([name, property]) => [name, property.default])
}

function withDefaults(source: unknown, defaults: Defaults): unknown {
  if (defaults.length === 0 || typeof source !== 'object' || source === null || Array.isArray(source)) return source
  return fillDefaults({ ...source }, defaults)
}

function fillDefaults(value: Record<string, unknown>, defaults: Defaults): Record<string, unknown> {
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

function addParameter(
  value: Record<string, unknown>,
  name: string,
  text: string,
  shapes: ReadonlyMap<string, Shape>,
): void {
  const shape = shapes.get(name) ?? 'text'
  if (name === '__proto__') throw refuse('malformed_query', 'the query has a name that is not allowed')
  const isKnown = Object.hasOwn(value, name)
  if (shape === 'list' || shape === 'number-list') {
    const item = shape === 'list' ? text : coerce(text, 'number')
    if (isKnown) (value[name] as unknown[]).push(item)
    else value[name] = [item]
  } else if (isKnown) {
    throw refuse('malformed_query', 'a parameter that may not repeat stands in the query twice')
  } else value[name] = coerce(text, shape)
}

/** Text that is no number or boolean stays text, so that the validator names the fault. */
function coerce(text: string, shape: Shape): unknown {
  if (shape === 'number' || shape === 'integer') {
    return /^-?\d{1,15}(\.\d{1,15})?$/.test(text) && isKept(text, Number(text)) ? Number(text) : text
  }
  if (shape === 'boolean') return text === 'true' ? true : text === 'false' ? false : text
  return text
}
