/** How the records of one topic are read: by what the settings say, or by schemas of a registry, each by its own. */
import type { Column } from '@sluice/sdk'
import { type Resolved, resolved } from '../files/avro/resolution.ts'
import type { AvroNode } from '../files/avro/schema.ts'
import { newRoom } from '../files/avro/values.ts'
import { ByteReader } from '../files/byte-reader.ts'
import { BrokenFile, MAX_RECORD_BYTES } from '../files/records.ts'
import { type Fields, keyFields, Unreadable, valueFields } from './decode.ts'
import { schemaUnusable } from './registry/failure.ts'
import { NoSchema, type Registry } from './registry/schemas.ts'
import type { TopicTable } from './topic-settings.ts'
import type { KafkaRecord } from './wire/records.ts'

export interface Decoder {
  /** Gets what a record is read by; null: there is nothing to wait for. Throws SluiceErrors only. */
  prepare(record: Pick<KafkaRecord, 'key' | 'value'>, part: 'key' | 'all'): Promise<void> | null
  value(value: Buffer): Fields | Unreadable
  /** Of an upsert. */
  key(key: Buffer | null): Fields | Unreadable
  /** The key as one text: of a table whose rows it does not tell apart; undefined: as it is. */
  keyText(key: Buffer): string | null | Unreadable | undefined
}

/** Nothing is asked for. */
export function plainDecoder(table: TopicTable): Decoder {
  return {
    prepare: () => null,
    value: (value) => valueFields(value, table),
    key: (key) => keyFields(key, table),
    keyText: () => undefined,
  }
}

/** What columns are made of: the latest schemas of a topic. Null where a part is not read by a registry. */
export interface Readers {
  readonly value: AvroNode | null
  readonly key: AvroNode | null
}

/** Throws SluiceErrors only. */
export async function readersOf(
  { subjects }: TopicTable,
  registry: Registry | null,
  signal: AbortSignal,
): Promise<Readers> {
  const latest = async (subject: string | null) =>
    subject === null || registry === null ? null : registry.latest(subject, signal)
  const value = await latest(subjects.value)
  if (value !== null && value.kind !== 'record') throw schemaUnusable(subjects.value ?? '', 'its values are no records')
  return { value, key: await latest(subjects.key) }
}

export function decoderOf(
  table: TopicTable,
  registry: Registry | null,
  readers: Readers,
  signal: AbortSignal,
): Decoder {
  const isPlain = registry === null || (readers.value === null && readers.key === null)
  return isPlain ? plainDecoder(table) : new RegistryDecoder(table, registry, readers, signal)
}

const FRAME_BYTES = 5
const MAX_SCHEMAS = 64
const MAX_CHARACTERS = 8 * 1024 * 1024
/** Of one whose writer nobody knows it takes that many. */
const UNKNOWN_CHARACTERS = 256

interface Known {
  readonly resolved: Resolved | Unreadable
  readonly characters: number
}

export class RegistryDecoder implements Decoder {
  readonly #table: TopicTable
  readonly #registry: Registry
  readonly #readers: Readers
  readonly #plain: Decoder
  readonly #signal: AbortSignal
  /** By part and number; the one that was used last stands last. */
  readonly #known = new Map<string, Known>()
  #characters = 0

  constructor(table: TopicTable, registry: Registry, readers: Readers, signal: AbortSignal) {
    this.#table = table
    this.#registry = registry
    this.#readers = readers
    this.#plain = plainDecoder(table)
    this.#signal = signal
  }

  prepare({ key, value }: Pick<KafkaRecord, 'key' | 'value'>, part: 'key' | 'all'): Promise<void> | null {
    const parts = [['key', key] as const, ...(part === 'all' ? [['value', value] as const] : [])]
    const lacking = parts.flatMap(([name, bytes]) => {
      const reader = this.#readers[name]
      const id = reader === null || bytes === null ? null : idOf(bytes)
      return id === null || reader === null || this.#touch(name + id) !== null ? [] : [{ name, id, reader }]
    })
    return lacking.length === 0 ? null : this.#get(lacking)
  }

  value(value: Buffer): Fields | Unreadable {
    if (this.#readers.value === null) return this.#plain.value(value)
    const by = this.#writerOf('value', value, 'it')
    return by instanceof Unreadable ? by : fieldsOf(by, value, null)
  }

  key(key: Buffer | null): Fields | Unreadable {
    if (this.#readers.key === null) return this.#plain.key(key)
    if (key === null) return new Unreadable('it has no key')
    const by = this.#writerOf('key', key, 'its key')
    return by instanceof Unreadable ? by : fieldsOf(by, key, this.#table.primaryKey[0] ?? '')
  }

  keyText(key: Buffer): string | null | Unreadable | undefined {
    if (this.#readers.key === null) return undefined
    const by = this.#writerOf('key', key, 'its key')
    return by instanceof Unreadable ? by : read(key, (from, room) => by.text(from, room))
  }

  #writerOf(part: 'key' | 'value', bytes: Buffer, what: string): Resolved | Unreadable {
    if (bytes.length > MAX_RECORD_BYTES) return new Unreadable(`${what} has more than ${MAX_RECORD_BYTES} bytes`)
    const id = idOf(bytes)
    if (id === null) return new Unreadable(`no number of a schema stands before ${what}`)
    return this.#touch(part + id)?.resolved ?? new Unreadable(`${what} is written by schema ${id}, which is not known`)
  }

  #touch(key: string): Known | null {
    const known = this.#known.get(key)
    if (known === undefined) return null
    this.#known.delete(key)
    this.#known.set(key, known)
    return known
  }

  async #get(
    lacking: readonly { readonly name: 'key' | 'value'; readonly id: number; readonly reader: AvroNode }[],
  ): Promise<void> {
    for (const { name, id, reader } of lacking) {
      const known = await this.#found(id, reader)
      this.#known.set(name + id, known)
      this.#characters += known.characters
    }
    for (const [key, { characters }] of this.#known) {
      // Those of the record at hand, its key's and its value's, stand last.
      if (this.#known.size <= 2 || (this.#known.size <= MAX_SCHEMAS && this.#characters <= MAX_CHARACTERS)) break
      this.#known.delete(key)
      this.#characters -= characters
    }
  }

  async #found(id: number, reader: AvroNode): Promise<Known> {
    try {
      const { node, characters } = await this.#registry.byId(id, this.#signal)
      return { resolved: resolved(node, reader), characters }
    } catch (error) {
      const why = error instanceof NoSchema || error instanceof BrokenFile ? error.message : null
      if (why === null && !(error instanceof RangeError)) throw error
      const reason = `it is written by schema ${id}, by which nothing can be read: ${why ?? 'it is too deep'}`
      return { resolved: new Unreadable(reason), characters: UNKNOWN_CHARACTERS }
    }
  }
}

/** Of what stands before a value; null: nothing of the kind does. */
function idOf(bytes: Buffer): number | null {
  return bytes.length < FRAME_BYTES || bytes[0] !== 0 ? null : bytes.readUInt32BE(1)
}

/** @param only the one column of a key that is no record; null where there has to be one */
function fieldsOf(by: Resolved, bytes: Buffer, only: string | null): Fields | Unreadable {
  const { fields } = by
  if (fields === null && only === null) return new Unreadable('it is written by a schema that is no record')
  const texts = read(bytes, (from, room) => fields?.(from, room) ?? new Map([[only ?? '', by.text(from, room)]]))
  if (texts instanceof Unreadable) return texts
  return { names: texts.keys(), text: ({ name }: Pick<Column, 'name'>) => texts.get(name) ?? null }
}

function read<T>(bytes: Buffer, take: (from: ByteReader, room: ReturnType<typeof newRoom>) => T): T | Unreadable {
  const from = new ByteReader(bytes, FRAME_BYTES)
  const room = newRoom()
  const by = `schema ${bytes.readUInt32BE(1)}`
  let found: T
  try {
    found = take(from, room)
  } catch (error) {
    if (error instanceof BrokenFile) return new Unreadable(`it cannot be read by ${by}: ${error.message}`)
    // A schema may be deeper than the stack.
    if (error instanceof RangeError) return new Unreadable(`it cannot be read by ${by}: it is too deep`)
    throw error
  }
  if (room.left < 0) return new Unreadable(`it has more than ${MAX_RECORD_BYTES} characters`)
  if (from.left > 0) return new Unreadable(`it is not written by ${by}: it goes on behind its end`)
  return found
}
