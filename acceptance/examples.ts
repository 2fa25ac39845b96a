/** What is held of the examples in the OpenAPI document. */
import { Compile } from 'typebox/compile'
import type { Json } from './client.ts'

/** Hosts that belong to nobody, and folders of machines: an example names none but those of documentation. */
const REAL_PLACES = /\b(?:localhost|127\.0\.0\.1|10\.\d+\.\d+\.\d+|192\.168\.)|\/(?:tmp|home|root|var|work)\/|file:\/\//
const LINES = 'application/x-ndjson'
const FILES_OF_BYTES = ['application/vnd.apache.parquet']

/** What operations lack examples of, and what is wrong with those that they have; each by name. */
export function exampleFaults(document: Json): readonly string[] {
  const faults: string[] = []
  const problem = document.components.schemas.Problem
  check(document, 'Problem', problem, problem.examples?.[0], faults)
  for (const [path, methods] of Object.entries<Json>(document.paths)) {
    for (const [method, operation] of Object.entries<Json>(methods)) {
      if (/iceberg/i.test(path)) continue
      for (const fault of operationFaults(document, operation)) faults.push(`${method} ${path}: ${fault}`)
    }
  }
  return faults
}

function operationFaults(document: Json, operation: Json): readonly string[] {
  const faults: string[] = []
  for (const { name, in: place, required, schema, example } of operation.parameters) {
    if (example !== undefined || required) check(document, `${place} ${name}`, schema, example, faults)
  }
  const contents = [['body', operation.requestBody], ...goodAnswers(operation)] as const
  for (const [what, part] of contents) {
    for (const [type, { schema, example }] of Object.entries<Json>(part?.content ?? {})) {
      if (what === 'body' && type === LINES) checkLines(schema, faults)
      else if (!FILES_OF_BYTES.includes(type)) check(document, `${what} ${type}`, schema, example, faults)
    }
  }
  const text = JSON.stringify([operation.parameters, contents])
  const place = REAL_PLACES.exec(text)?.[0]
  if (place !== undefined) faults.push(`names ${place}`)
  return faults
}

const goodAnswers = (operation: Json): readonly (readonly [string, Json])[] =>
  Object.entries<Json>(operation.responses).filter(([status]) => status.startsWith('2'))

/** Generators of requests that cannot write lines give up where the document has an example of them: the words have it. */
function checkLines({ description = '' }: Json, faults: string[]): void {
  const line = /`(\{[^`]+\})`/.exec(description)?.[1]
  if (line === undefined) faults.push(`no example of ${LINES} in the description of the body`)
  else JSON.parse(line)
}

function check(document: Json, what: string, schema: Json, example: unknown, faults: string[]): void {
  if (example === undefined) {
    faults.push(`no example of ${what}`)
    return
  }
  const validator = Compile(closed(document, schema))
  for (const { instancePath, message } of validator.Errors(example)) faults.push(`${what} ${instancePath} ${message}`)
}

/** The schema with what it refers to, and closed: a member of an example that no schema names is a mistake. */
function closed(document: Json, node: Json): Json {
  if (Array.isArray(node)) return node.map((item) => closed(document, item))
  if (typeof node !== 'object' || node === null) return node
  if (typeof node.$ref === 'string') return closed(document, document.components.schemas[node.$ref.split('/').at(-1)])
  const made = Object.fromEntries(Object.entries(node).map(([key, value]) => [key, closed(document, value)]))
  return made.properties === undefined ? made : { additionalProperties: false, ...made }
}

/**
 * Where an answer has members that the example of it has not, or the other way round. Lists are compared by their
 * first items; what is null or empty on one side may be anything.
 */
export function shapeDifference(example: Json, answer: Json, at = ''): readonly string[] {
  if (Array.isArray(example) && Array.isArray(answer)) {
    return example.length === 0 || answer.length === 0 ? [] : shapeDifference(example[0], answer[0], `${at}/0`)
  }
  if (!isObject(example) || !isObject(answer)) return []
  if (FREE.test(at) || Object.keys(answer).length === 0 || Object.keys(example).length === 0) return []
  const names = new Set([...Object.keys(example), ...Object.keys(answer)])
  return [...names].flatMap((name) => {
    if (!(name in example)) return [`${at}/${name} is not in the example`]
    if (!(name in answer)) return [`${at}/${name} is not in the answer`]
    return shapeDifference(example[name], answer[name], `${at}/${name}`)
  })
}

/** Members whose names are the tenant’s, a plugin’s or a dependency’s own. */
const FREE = /\/(?:config|capabilities|details|actor|subject|resources|by_dimension|data\/0)$/

const isObject = (value: unknown): value is Json => typeof value === 'object' && value !== null && !Array.isArray(value)
