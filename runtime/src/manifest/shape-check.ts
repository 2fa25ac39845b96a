import { ErrorContext, ErrorSchema, Stack, type XSchema } from 'typebox/schema'
import { expectedIn, limitWords } from '../parsing/schema-words.ts'
import { didYouMean } from '../parsing/suggestion.ts'
import type { Finding, Json, ManifestName, Path } from './problem.ts'
import { isJsonObject, pathOfPointer, quoted, valueAt } from './problem.ts'

/** A JSON Schema, of ours or of a plugin. */
export type Schema = object | boolean

const MOST_ERRORS = 200

/** The library stops at its process-wide limit of eight errors; an author wants to see all of them. */
class AllErrors extends ErrorContext {
  override AtCapacity(): boolean {
    return this.GetErrors().length >= MOST_ERRORS
  }
}

type SchemaError = ReturnType<ErrorContext['GetErrors']>[number]

/**
 * Holds a value against a JSON Schema and says in words what does not fit, with paths from `base` on. An empty
 * answer means that it fits.
 */
export function checkShape(manifest: ManifestName, schema: Schema, value: Json, base: Path = []): readonly Finding[] {
  const errors = new AllErrors()
  if (ErrorSchema(Stack({}, schema as XSchema), errors, '#', '', schema as XSchema, value)) return []
  const found = errors.GetErrors()
  const choices = found.filter((error) => error.keyword === 'anyOf').map((error) => `${error.schemaPath}/anyOf/`)
  const findings = found
    .filter((error) => !choices.some((choice) => error.schemaPath.startsWith(choice)))
    .flatMap((error) => explain(error, schema, value))
  return withoutEchoes(findings).map((finding) => ({ manifest, ...finding, path: [...base, ...finding.path] }))
}

type Explained = Omit<Finding, 'manifest'>

/** A value of the wrong type fails several keywords at once; the first says it all. */
function withoutEchoes(findings: readonly Explained[]): readonly Explained[] {
  const seen = new Set<string>()
  return findings.filter((finding) => {
    if (finding.atKey) return true
    const at = JSON.stringify(finding.path)
    if (seen.has(at) && !finding.message.startsWith('"')) return false
    seen.add(at)
    return true
  })
}

function explain(error: SchemaError, root: Schema, value: Json): readonly Explained[] {
  const path = pathOfPointer(error.instancePath)
  const schema = schemaAt(root, error.schemaPath)
  const actual = valueAt(value, path)
  switch (error.keyword) {
    case 'additionalProperties':
      return error.params.additionalProperties.map((key) => unknownField(path, key, schema))
    case 'boolean':
      return []
    case 'required': {
      const { requiredProperties } = error.params
      return requiredProperties.map((key) => ({ path, message: `"${key}" is missing`, ...describing(schema, key) }))
    }
    case 'enum':
      return [notAmong(path, actual, error.params.allowedValues.map(String))]
    case 'const':
      return [notAmong(path, actual, [String(error.params.allowedValue)])]
    case 'anyOf':
    case 'pattern':
      return [unexpected(path, actual, schema)]
    default:
      return [{ path, message: sentence(error, actual, schema) }]
  }
}

function unknownField(path: Path, key: string, schema: Record<string, unknown>): Explained {
  const known = Object.keys(isRecord(schema.properties) ? schema.properties : {})
  const hint = didYouMean(key, known)
  const message = known.length === 0 ? `there is no field "${key}" here; none is expected` : `unknown field "${key}"`
  return { path: [...path, key], atKey: true, message: message.slice(0, 200), ...(hint === undefined ? {} : { hint }) }
}

function describing(schema: Record<string, unknown>, key: string): { readonly hint?: string } {
  const property = isRecord(schema.properties) ? schema.properties[key] : undefined
  return isRecord(property) && typeof property.description === 'string' && property.description !== ''
    ? { hint: `${key}: ${property.description}` }
    : {}
}

function notAmong(path: Path, actual: Json | undefined, allowed: readonly string[]): Explained {
  const hint = typeof actual === 'string' ? didYouMean(actual, allowed) : `Possible here: ${allowed.join(', ')}.`
  if (actual === null) return { path, message: 'has no value', hint: `Possible here: ${allowed.join(', ')}.` }
  const message =
    allowed.length === 1 ? `must be ${allowed[0]}, not ${quoted(actual)}` : `${quoted(actual)} is not possible here`
  return { path, message, ...(hint === undefined || allowed.length === 1 ? {} : { hint }) }
}

function unexpected(path: Path, actual: Json | undefined, schema: Record<string, unknown>): Explained {
  const expected = expectedIn(schema)
  if (actual === null) return { path, message: `has no value; it must be ${expected}` }
  const message = `must be ${expected}, not ${quoted(actual)}`
  const choices = schema['x-choices']
  if (!Array.isArray(choices) || typeof actual !== 'string') return { path, message }
  const hint = choiceHint(actual, choices.map(String))
  return { path, message, ...(hint === undefined ? {} : { hint }) }
}

function choiceHint(actual: string, choices: readonly string[]): string | undefined {
  // In a flow map, `{type: decimal(10,2)}` ends at the comma.
  if (/^decimal\(\d+$/.test(actual)) return `Quote it: "${actual},2)".`
  return didYouMean(actual, choices)
}

const TYPE_WORDS: Readonly<Record<string, string>> = {
  object: 'a map of fields',
  array: 'a list',
  string: 'text',
  integer: 'a whole number',
  number: 'a number',
  boolean: 'true or false',
  null: 'empty',
}

function sentence(error: SchemaError, actual: Json | undefined, schema: Record<string, unknown>): string {
  switch (error.keyword) {
    case 'type': {
      const wanted = ([] as string[]).concat(error.params.type).map((name) => TYPE_WORDS[name] ?? name)
      const expected = typeof schema['x-expected'] === 'string' ? schema['x-expected'] : wanted.join(' or ')
      return actual === null ? `has no value; it must be ${expected}` : `must be ${expected}, not ${typeWord(actual)}`
    }
    default:
      return limitWords(error) ?? 'does not fit what is expected here'
  }
}

function typeWord(value: Json | undefined): string {
  if (Array.isArray(value)) return 'a list'
  if (isJsonObject(value)) return 'a map of fields'
  return quoted(value)
}

/** The part of a schema that an error's `schemaPath` names. */
function schemaAt(root: Schema, pointer: string): Record<string, unknown> {
  let node: unknown = root
  for (const step of pathOfPointer(pointer)) {
    node = Array.isArray(node) ? node[Number(step)] : isRecord(node) ? node[String(step)] : undefined
  }
  return isRecord(node) ? node : {}
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
