/** The values of one leaf in one row group, page by page. */
import { crc32 } from 'node:zlib'
import { ByteReader, cutOff } from '../byte-reader.ts'
import { BrokenFile } from '../records.ts'
import { Hybrid } from './bits.ts'
import type { ChunkBytes } from './chunk-bytes.ts'
import { unpackedPage } from './codecs.ts'
import type { Chunk } from './footer.ts'
import type { Memory } from './memory.ts'
import type { Leaf } from './schema.ts'
import { countOf, structOf, Thrift, type ThriftStruct } from './thrift.ts'
import { Dictionary, ENCODING, type Values, valuesOf } from './values.ts'

const PAGE = { data: 0, dictionary: 2, data2: 3 } as const
/** A run of nulls has as many as it likes in a few bytes. */
const MAX_VALUES_A_PAGE = 50_000_000
const LEAST_HEADER_BYTES = 8 * 1024
/** The least and the greatest value of a page are in its head. */
const MAX_HEADER_BYTES = 16 * 1024 * 1024

interface Page {
  readonly kind: number
  readonly about: ThriftStruct | null
  readonly packedBytes: number
  readonly bytes: number
  readonly body: Buffer
}

/** One value, or that there is none, with the levels at which it stands. */
export interface Entry {
  readonly repetition: number
  readonly definition: number
  readonly text: string | null
}

const ALWAYS_ZERO = { next: () => 0 }

export class LeafReader {
  readonly leaf: Leaf
  readonly #chunk: Chunk
  readonly #bytes: ChunkBytes
  readonly #memory: Memory
  #at: number
  #left = 0
  #repetitions: { next(): number } = ALWAYS_ZERO
  #definitions: { next(): number } | null = null
  #values: Values<string> = { next: () => '' }
  #nextRepetition: number | null = null
  #texts: DictionaryTexts | null = null
  #held = 0

  constructor(leaf: Leaf, chunk: Chunk, bytes: ChunkBytes, memory: Memory) {
    this.leaf = leaf
    this.#chunk = chunk
    this.#bytes = bytes
    this.#memory = memory
    this.#at = chunk.from
  }

  /** Whether an entry is at hand; where not, `load` may find one. */
  get hasEntry(): boolean {
    return this.#left > 0
  }

  /** The value of the next row where each row has one. */
  nextText(): string | null {
    this.#left -= 1
    if (this.#definitions !== null && this.#definitions.next() < this.leaf.maxDefinition) return null
    return this.#values.next()
  }

  /** At which level the next entry stands: 0 begins a row. */
  peek(): number {
    this.#nextRepetition ??= this.#repetitions.next()
    return this.#nextRepetition
  }

  nextEntry(): Entry {
    const repetition = this.peek()
    this.#nextRepetition = null
    this.#left -= 1
    const definition = this.#definitions?.next() ?? this.leaf.maxDefinition
    const text = definition === this.leaf.maxDefinition ? this.#values.next() : null
    return { repetition, definition, text }
  }

  /** The next page that has values; false where there is none. */
  async load(): Promise<boolean> {
    while (this.#left === 0 && this.#at < this.#chunk.end) {
      this.#let(this.#held)
      const page = await this.#page()
      if (page.kind === PAGE.dictionary) this.#useDictionary(page)
      else if (page.kind === PAGE.data) this.#useData(page)
      else if (page.kind === PAGE.data2) this.#useData2(page)
    }
    return this.#left > 0
  }

  #hold(bytes: number): void {
    this.#memory.take(bytes)
    this.#held += bytes
  }

  #let(bytes: number): void {
    this.#memory.give(bytes)
    this.#held -= bytes
  }

  async #page(): Promise<Page> {
    const { head, length } = await this.#head()
    const packedBytes = countOf(head.get(3))
    const from = this.#at + length
    if (from + packedBytes > this.#chunk.end) throw cutOff('a page of it')
    const bytes = countOf(head.get(2))
    const kind = countOf(head.get(1))
    // Before they are there.
    this.#hold(packedBytes + bytes)
    const body = await this.#bytes.read(from, packedBytes)
    this.#at = from + packedBytes
    const sum = head.get(4)
    if (typeof sum === 'number' && crc32(body) !== sum >>> 0) throw cutOff('a page of it')
    const about = structOf(head.get(kind === PAGE.data ? 5 : kind === PAGE.dictionary ? 7 : 8))
    return { kind, about, packedBytes, bytes, body }
  }

  async #head(): Promise<{ readonly head: ThriftStruct; readonly length: number }> {
    const left = this.#chunk.end - this.#at
    for (let size = Math.min(LEAST_HEADER_BYTES, left); ; size = Math.min(size * 8, left)) {
      const from = new ByteReader(await this.#bytes.read(this.#at, size))
      try {
        return { head: new Thrift(from).struct(), length: from.at }
      } catch (error) {
        if (!(error instanceof BrokenFile) || size === left || size > MAX_HEADER_BYTES) throw error
      }
    }
  }

  #unpacked({ body, packedBytes, bytes }: Page): Buffer {
    const page = unpackedPage(this.#chunk.codec, body, bytes)
    this.#let(packedBytes)
    return page
  }

  #useDictionary(page: Page): void {
    const count = countOf(page.about?.get(1))
    const dictionary = new Dictionary(this.#unpacked(page), count, this.leaf, (bytes) => this.#hold(bytes))
    // As long as the chunk is read, and not as its page.
    this.#held = 0
    this.#texts = new DictionaryTexts(dictionary, this.leaf, this.#memory)
  }

  #useData(page: Page): void {
    const { about } = page
    const from = new ByteReader(this.#unpacked(page))
    const levels = (most: number) =>
      most === 0 ? null : new Hybrid(from.take(from.take(4).readUInt32LE()), bitsFor(most))
    const { maxRepetition, maxDefinition } = this.leaf
    if (
      (maxRepetition > 0 && about?.get(4) !== ENCODING.hybrid) ||
      (maxDefinition > 0 && about?.get(3) !== ENCODING.hybrid)
    )
      throw new BrokenFile('its levels are written in a way of long ago', 'Write it by a version of today.')
    this.#repetitions = levels(maxRepetition) ?? ALWAYS_ZERO
    this.#definitions = levels(maxDefinition)
    this.#begin(about, 2, from.take(from.left))
  }

  #useData2(page: Page): void {
    const { about, body, bytes } = page
    const from = new ByteReader(body)
    const { maxRepetition, maxDefinition } = this.leaf
    const repetitions = from.take(countOf(about?.get(6)))
    const definitions = from.take(countOf(about?.get(5)))
    this.#repetitions = maxRepetition === 0 ? ALWAYS_ZERO : new Hybrid(repetitions, bitsFor(maxRepetition))
    this.#definitions = maxDefinition === 0 ? null : new Hybrid(definitions, bitsFor(maxDefinition))
    const isPacked = about?.get(7) !== false
    const size = bytes - from.at
    const rest = from.take(from.left)
    const values = isPacked && size >= 0 ? unpackedPage(this.#chunk.codec, rest, size) : rest
    if (isPacked) this.#let(rest.length)
    this.#begin(about, 4, values)
  }

  #begin(about: ThriftStruct | null, encodingField: number, bytes: Buffer): void {
    this.#left = countOf(about?.get(1))
    if (this.#left > MAX_VALUES_A_PAGE)
      throw new BrokenFile(`a page of it has more than ${MAX_VALUES_A_PAGE} values`, 'Write it with smaller pages.')
    const encoding = countOf(about?.get(encodingField))
    if (encoding === ENCODING.dictionary || encoding === ENCODING.oldDictionary) {
      this.#values = this.#indexed(bytes)
      return
    }
    const values = valuesOf(encoding, bytes, this.leaf, (held) => this.#hold(held))
    const { scalar } = this.leaf
    this.#values = { next: () => scalar.text(values.next()) }
  }

  #indexed(bytes: Buffer): Values<string> {
    const texts = this.#texts
    if (texts === null) throw cutOff('a dictionary of it')
    // A page of nulls alone may have no byte.
    const indexes = bytes.length === 0 ? null : new Hybrid(bytes.subarray(1), bytes[0] ?? 0)
    return {
      next: () => {
        if (indexes === null) throw cutOff('a page of it')
        return texts.at(indexes.next())
      },
    }
  }
}

const bitsFor = (most: number) => 32 - Math.clz32(most)
/** Of a text beside its characters, about. */
const TEXT_BYTES = 48

class DictionaryTexts {
  readonly #dictionary: Dictionary
  readonly #leaf: Leaf
  readonly #memory: Memory
  readonly #known = new Map<number, string>()

  constructor(dictionary: Dictionary, leaf: Leaf, memory: Memory) {
    this.#dictionary = dictionary
    this.#leaf = leaf
    this.#memory = memory
  }

  at(index: number): string {
    const known = this.#known.get(index)
    if (known !== undefined) return known
    const text = this.#leaf.scalar.text(this.#dictionary.at(index))
    if (this.#memory.keepsText(2 * text.length + TEXT_BYTES)) this.#known.set(index, text)
    return text
  }
}
