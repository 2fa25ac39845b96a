/** The schemas of a registry, with those that they refer to. */
import type { ConnectorHost } from '@sluice/sdk'
import { type AvroNode, Names, parsedJson } from '../../files/avro/schema.ts'
import { BrokenFile } from '../../files/records.ts'
import { type Answer, answered } from './answer.ts'
import { RegistryAnswer, refusal, registryFailure, schemaUnusable, subjectMissing } from './failure.ts'
import type { RegistryPlace } from './settings.ts'

const MAX_REFERENCES = 64
const MAX_REFERENCE_DEPTH = 8
/** Of a schema with all that it refers to. */
const MAX_SCHEMA_CHARACTERS = 1024 * 1024
/** Numbers by which a registry says that there is no subject, version or schema: a 404 of anybody else says nothing. */
const MISSING: ReadonlySet<unknown> = new Set([40401, 40402, 40403])

/** A schema that nothing can be read by; the message holds nothing of a record. */
export class NoSchema extends Error {
  override readonly name = 'NoSchema'
}

interface Registered {
  readonly schema: string
  readonly references: readonly Reference[]
}

interface Reference {
  readonly subject: string
  readonly version: number
}

export interface Schema {
  readonly node: AvroNode
  readonly characters: number
}

export class Registry {
  readonly #place: RegistryPlace
  readonly #host: ConnectorHost

  constructor(place: RegistryPlace, host: ConnectorHost) {
    this.#place = place
    this.#host = host
  }

  /** The one that records of that number were written by. Throws NoSchema, or a SluiceError where it cannot be told. */
  async byId(id: number, signal: AbortSignal): Promise<Schema> {
    const found = await this.#registered(`/schemas/ids/${id}`, signal)
    if (found === null) throw new NoSchema('the registry has none of that number')
    return this.#parsed(found, signal)
  }

  /** Throws SluiceErrors only. */
  async latest(subject: string, signal: AbortSignal): Promise<AvroNode> {
    try {
      const found = await this.#registered(`/subjects/${encodeURIComponent(subject)}/versions/latest`, signal)
      if (found === null) throw subjectMissing(subject)
      return (await this.#parsed(found, signal)).node
    } catch (error) {
      throw error instanceof NoSchema ? schemaUnusable(subject, error.message) : error
    }
  }

  async #parsed(schema: Registered, signal: AbortSignal): Promise<Schema> {
    const whole = new Whole()
    try {
      await this.#define(schema, whole, [], signal)
      return { node: whole.last ?? noSchema('there is none'), characters: whole.characters }
    } catch (error) {
      // A schema may be deeper than the stack.
      if (error instanceof BrokenFile || error instanceof RangeError) throw new NoSchema('it is no schema of Avro')
      throw error
    }
  }

  /** What a schema refers to is known before it. */
  async #define(
    { schema, references }: Registered,
    whole: Whole,
    path: readonly string[],
    signal: AbortSignal,
  ): Promise<void> {
    for (const { subject, version } of references) {
      const key = JSON.stringify([subject, version])
      if (path.includes(key)) noSchema('its references go in a circle')
      if (path.length >= MAX_REFERENCE_DEPTH) noSchema(`its references are deeper than ${MAX_REFERENCE_DEPTH}`)
      if (!whole.begin(key)) continue
      const found = await this.#registered(`/subjects/${encodeURIComponent(subject)}/versions/${version}`, signal)
      if (found === null) noSchema('it refers to a schema that the registry does not have')
      else await this.#define(found, whole, [...path, key], signal)
    }
    whole.add(schema)
  }

  async #registered(path: string, signal: AbortSignal): Promise<Registered | null> {
    const { status, body } = await this.#asked(path, signal)
    const about = (typeof body === 'object' && body !== null ? body : {}) as Readonly<Record<string, unknown>>
    if (status === 404 && MISSING.has(about['error_code'])) return null
    if (status !== 200) throw refusal(status)
    const { schema, schemaType = 'AVRO' } = about
    if (typeof schema !== 'string') throw registryFailure(new RegistryAnswer('an answer of it has no schema'), signal)
    if (schemaType !== 'AVRO') throw new NoSchema('it is none of Avro')
    return { schema, references: referencesOf(about['references']) }
  }

  async #asked(path: string, signal: AbortSignal): Promise<Answer> {
    try {
      return await answered(this.#place, path, this.#host, signal)
    } catch (error) {
      throw registryFailure(error, signal)
    }
  }
}

/** A schema and what it refers to, as far as they are taken apart. */
class Whole {
  readonly #names = new Names()
  readonly #begun = new Set<string>()
  characters = 0
  last: AvroNode | null = null

  /** Whether it is met for the first time. */
  begin(key: string): boolean {
    if (this.#begun.has(key)) return false
    this.#begun.add(key)
    if (this.#begun.size > MAX_REFERENCES) noSchema(`it refers to more than ${MAX_REFERENCES} others`)
    return true
  }

  add(text: string): void {
    this.characters += text.length
    if (this.characters > MAX_SCHEMA_CHARACTERS) noSchema('it is too large')
    this.last = this.#names.parse(parsedSchema(text))
  }
}

/** A registry may write a simple schema by its bare name. */
function parsedSchema(text: string): unknown {
  return /^[A-Za-z_][\w.]*$/.test(text) ? text : parsedJson(text)
}

function referencesOf(value: unknown): readonly Reference[] {
  if (value === undefined || value === null) return []
  if (!Array.isArray(value)) return noSchema('its references are no list')
  return value.map((one: Partial<Reference> | null) => {
    const { subject, version } = one ?? {}
    const isSubject = typeof subject === 'string' && subject !== '' && !/^\.\.?$/.test(subject)
    if (!isSubject || typeof version !== 'number' || !Number.isSafeInteger(version))
      return noSchema('its references name no subject and version')
    return { subject, version }
  })
}

function noSchema(why: string): never {
  throw new NoSchema(why)
}
