/** The rows of an Avro file (object container files), block by block. */

import { setImmediate as nextTurn } from 'node:timers/promises'
import { crc32, inflateRawSync, zstdDecompressSync } from 'node:zlib'
import { ByteReader, cutOff, WRITE_ANEW } from '../byte-reader.ts'
import { BrokenFile } from '../records.ts'
import { RowTexts, type TypedCells, type TypedHeader } from '../typed-rows.ts'
import { unpackSnappy } from '../unpack.ts'
import { type AvroField, eachItem, fieldsOf, newRoom } from './values.ts'

const MAGIC = Buffer.from('Obj\x01', 'latin1')
const SYNC_BYTES = 16
const MAX_HEADER_BYTES = 8 * 1024 * 1024
const MAX_BLOCK_BYTES = 64 * 1024 * 1024
/** Count and length of a block, each at its longest. */
const BLOCK_HEAD_BYTES = 20
const ROWS_A_PIECE = 1000

/** First what there is, then the rows. Throws BrokenFile. */
export async function* avroRows(
  bytes: number,
  chunks: AsyncIterable<Uint8Array>,
): AsyncGenerator<TypedHeader | readonly TypedCells[]> {
  const source = new Incoming(chunks)
  try {
    const { codec, sync, fields } = await headerOf(source)
    yield { names: fields.map(({ name }) => name), types: fields.map(({ type }) => type ?? 'string') }
    const texts = new RowTexts(bytes, fields.length)
    for (;;) {
      const block = await blockOf(source, sync)
      if (block === null) return
      yield* rowsOfBlock(unpacked(codec, block.body), block.count, fields, texts)
    }
  } catch (error) {
    // A schema may be deeper than the stack.
    throw error instanceof RangeError ? cutOff() : error
  } finally {
    await source.close()
  }
}

async function headerOf(source: Incoming) {
  const magic = await source.atLeast(MAGIC.length)
  if (!magic.subarray(0, MAGIC.length).equals(MAGIC)) throw new BrokenFile('it is no Avro file, or cut off', WRITE_ANEW)
  const { said, sync } = await saidAtFirst(source)
  return { codec: said.get('avro.codec') ?? 'null', sync, fields: fieldsOf(schemaOf(said.get('avro.schema'))) }
}

/** Nobody says how long it is: it is looked at again with more, until it is whole. */
async function saidAtFirst(source: Incoming) {
  for (let wanted = 64 * 1024; ; wanted *= 8) {
    const bytes = await source.atLeast(wanted)
    const from = new ByteReader(bytes, MAGIC.length)
    try {
      const said = new Map<string, string>()
      eachItem(from, () => said.set(textOf(from), textOf(from)))
      const sync = Buffer.from(from.take(SYNC_BYTES))
      source.drop(from.at)
      return { said, sync }
    } catch {
      if (bytes.length < wanted) throw cutOff('what it says at its beginning')
      if (wanted < MAX_HEADER_BYTES) continue
      throw new BrokenFile(`it says more than ${wanted} bytes of itself`, 'Write it with a smaller schema.')
    }
  }
}

const textOf = (from: ByteReader) => from.take(from.zigzag()).toString('utf8')

function schemaOf(text: string | undefined): unknown {
  try {
    return JSON.parse(text ?? '')
  } catch {
    throw new BrokenFile('its schema is no JSON', 'Write it anew, with a schema of Avro.')
  }
}

async function blockOf(source: Incoming, sync: Buffer) {
  const from = new ByteReader(await source.atLeast(BLOCK_HEAD_BYTES))
  if (from.left === 0) return null
  const count = from.zigzag()
  const length = from.zigzag()
  if (!(count >= 0 && length >= 0)) throw cutOff('a block of it')
  if (length > MAX_BLOCK_BYTES) throw tooLarge()
  const end = from.at + length
  const bytes = await source.atLeast(end + SYNC_BYTES)
  if (!bytes.subarray(end, end + SYNC_BYTES).equals(sync)) throw cutOff('a block of it')
  source.drop(end + SYNC_BYTES)
  return { count, body: bytes.subarray(from.at, end) }
}

function tooLarge(): BrokenFile {
  return new BrokenFile(
    `a block of it has more than ${MAX_BLOCK_BYTES / 1024 ** 2} MiB`,
    'Write it with smaller blocks (a smaller sync interval).',
  )
}

function unpacked(codec: string, body: Buffer): Buffer {
  const options = { maxOutputLength: MAX_BLOCK_BYTES }
  try {
    switch (codec) {
      case 'null':
        return body
      case 'deflate':
        return inflateRawSync(body, options)
      case 'zstandard':
        return zstdDecompressSync(body, options)
      case 'snappy':
        return checkedSnappy(body)
    }
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ERR_BUFFER_TOO_LARGE') throw tooLarge()
    throw error instanceof BrokenFile ? error : cutOff('a block of it')
  }
  throw new BrokenFile(
    `it is packed by ${JSON.stringify(codec.slice(0, 40))}, which is not read`,
    'Write it with deflate, snappy or zstandard, or unpacked.',
  )
}

/** With a sum of what is unpacked behind it. */
function checkedSnappy(body: Buffer): Buffer {
  const packed = new ByteReader(body).take(body.length - 4)
  if (new ByteReader(packed).varint() > MAX_BLOCK_BYTES) throw tooLarge()
  const bytes = unpackSnappy(packed, MAX_BLOCK_BYTES)
  if (crc32(bytes) !== body.readUInt32BE(body.length - 4)) throw cutOff('a block of it')
  return bytes
}

async function* rowsOfBlock(
  body: Buffer,
  count: number,
  fields: readonly AvroField[],
  texts: RowTexts,
): AsyncGenerator<readonly TypedCells[]> {
  const from = new ByteReader(body)
  // Records of nothing have no bytes, and could go on for ever.
  if (count > body.length) throw cutOff('a block of it')
  let piece: TypedCells[] = []
  for (let at = 0; at < count; at += 1) {
    piece.push(rowOf(from, fields, texts))
    if (piece.length < ROWS_A_PIECE && !texts.isMuch) continue
    yield piece
    piece = []
    texts.handedOn()
    await nextTurn()
  }
  if (from.left > 0) throw cutOff('a block of it')
  yield piece
}

function rowOf(from: ByteReader, fields: readonly AvroField[], texts: RowTexts): TypedCells {
  const room = newRoom()
  texts.begin()
  for (const [place, field] of fields.entries()) {
    const text = field.text(from, room)
    if (room.left < 0) texts.setTooLong()
    else texts.set(place, text)
  }
  return texts.row()
}

/** What comes in, joined as far as it is needed at once. */
class Incoming {
  readonly #chunks: AsyncIterator<Uint8Array>
  #parts: Buffer[] = []
  #bytes = 0
  #isEnded = false

  constructor(chunks: AsyncIterable<Uint8Array>) {
    this.#chunks = chunks[Symbol.asyncIterator]()
  }

  /** Fewer where the file ends before. */
  async atLeast(count: number): Promise<Buffer> {
    while (this.#bytes < count && !this.#isEnded) {
      const { done, value } = await this.#chunks.next()
      if (done === true) this.#isEnded = true
      else {
        this.#parts.push(Buffer.from(value.buffer, value.byteOffset, value.byteLength))
        this.#bytes += value.byteLength
      }
    }
    const [first, second] = this.#parts
    if (first === undefined) return Buffer.alloc(0)
    if (second === undefined) return first
    const whole = Buffer.concat(this.#parts)
    this.#parts = [whole]
    return whole
  }

  drop(count: number): void {
    const [whole] = this.#parts
    if (whole === undefined) return
    this.#parts = whole.length > count ? [whole.subarray(count)] : []
    this.#bytes -= count
  }

  async close(): Promise<void> {
    await this.#chunks.return?.()
  }
}
