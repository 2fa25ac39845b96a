/** The program of the threads that take apart what tenants send. */
import { parseJsonExactly } from '@sluice/iceberg/json'
import type { TSchema } from 'typebox'
import { MANIFEST_TASKS } from '../manifest/parsing.ts'
import { answerTasks } from '../parsing/parse-threads.ts'
import { parseForm } from './form-body.ts'
import { bodyReader, type InputReader } from './input.ts'
import { parseJsonBody } from './json-body.ts'
import { parsePushBody } from './push-body.ts'
import type { MultipartSpec } from './route.ts'

/** Checks a body, and gives nothing back: what passes is cheap to parse once more where it is needed. */
export interface JsonTask {
  readonly bytes: Uint8Array
  readonly schemaJson: string | null
  readonly isExact: boolean
  readonly mostValues: number | undefined
}

export interface FormTask {
  readonly bytes: Uint8Array
  readonly contentType: string
  readonly spec: MultipartSpec
}

/** By schema, as it was sent. */
const readers = new Map<string, InputReader<unknown>>()

answerTasks({
  ...MANIFEST_TASKS,
  json: ({ bytes, schemaJson, isExact, mostValues }: JsonTask) => {
    const value = parseJsonBody(bytes, isExact ? parseJsonExactly : undefined, mostValues)
    if (schemaJson !== null) readerOf(schemaJson).read(value)
  },
  push: parsePushBody,
  form: ({ bytes, contentType, spec }: FormTask) =>
    parseForm(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength), contentType, spec),
})

function readerOf(schemaJson: string): InputReader<unknown> {
  const known = readers.get(schemaJson)
  if (known !== undefined) return known
  const reader = bodyReader(JSON.parse(schemaJson) as TSchema)
  readers.set(schemaJson, reader)
  return reader
}
