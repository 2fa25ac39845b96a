import { randomBytes } from 'node:crypto'
import { deflateRawSync, inflateRawSync } from 'node:zlib'
import avro from 'avsc'
import { int64 } from './int64.ts'

/**
 * Avro object container files: https://avro.apache.org/docs/1.12.0/specification/#object-container-files.
 * `avsc` codes the records. The header is written here, because avsc leaves attributes that it does not know out of
 * the schema it writes, and Iceberg readers find fields by their `field-id`.
 */
export interface AvroContent {
  readonly metadata: ReadonlyMap<string, string>
  /** The writer's schema as it stands in the header, with its attributes. */
  readonly schema: unknown
  readonly records: readonly unknown[]
}

const MAGIC = Buffer.from('Obj\x01', 'latin1')
const SYNC_BYTES = 16
const RECORDS_PER_BLOCK = 1000
const MAX_BLOCK_BYTES = 64 * 1024 * 1024

/** Longs of 64 bits as Int64; avsc's own lose what is beyond 53. */
const longType = avro.types.LongType.__with({
  fromBuffer: (bytes: Buffer) => int64(bytes.readBigInt64LE()),
  toBuffer: (value: number | bigint) => {
    const bytes = Buffer.alloc(8)
    bytes.writeBigInt64LE(BigInt(value))
    return bytes
  },
  fromJSON: (value: number) => value,
  toJSON: (value: number | bigint) => Number(value),
  isValid: (value: unknown) => typeof value === 'bigint' || Number.isSafeInteger(value),
  compare: (a: number | bigint, b: number | bigint) => (a < b ? -1 : a > b ? 1 : 0),
})

function compile(schema: unknown): avro.Type {
  return avro.Type.forSchema(schema as Parameters<typeof avro.Type.forSchema>[0], {
    // Not the registry: avsc does not look there for a long with attributes.
    typeHook: (type) => (isLong(type) ? longType : undefined),
    wrapUnions: false,
  })
}

function isLong(schema: unknown): boolean {
  return (
    schema === 'long' || (typeof schema === 'object' && schema !== null && 'type' in schema && schema.type === 'long')
  )
}

const headerType = compile({ type: 'map', values: 'bytes' })

export function writeAvro(
  schema: unknown,
  metadata: Readonly<Record<string, string>>,
  records: readonly unknown[],
): Buffer {
  const type = compile(schema)
  const sync = randomBytes(SYNC_BYTES)
  const header = { ...metadata, 'avro.schema': JSON.stringify(schema), 'avro.codec': 'deflate' }
  const parts = [MAGIC, headerType.toBuffer(mapValues(header)), sync]
  for (let at = 0; at < records.length; at += RECORDS_PER_BLOCK) {
    const block = records.slice(at, at + RECORDS_PER_BLOCK)
    const body = deflateRawSync(Buffer.concat(block.map((record) => type.toBuffer(record))))
    parts.push(varint(block.length), varint(body.length), body, sync)
  }
  return Buffer.concat(parts)
}

function mapValues(record: Readonly<Record<string, string>>): Record<string, Buffer> {
  return Object.fromEntries(Object.entries(record).map(([key, text]) => [key, Buffer.from(text, 'utf8')]))
}

/** Throws a plain Error where the bytes are no such file, or hold more records than allowed. */
export function readAvro(bytes: Uint8Array, maxRecords: number): AvroContent {
  const file = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  if (!file.subarray(0, MAGIC.length).equals(MAGIC)) throw new Error('not an Avro file')
  const header = headerType.decode(file, MAGIC.length) as { value: Record<string, Buffer>; offset: number }
  if (header.offset < 0) throw new Error('the Avro header is cut off')
  const metadata = new Map(Object.entries(header.value).map(([key, value]) => [key, value.toString('utf8')]))
  const schema: unknown = JSON.parse(metadata.get('avro.schema') ?? 'null')
  const sync = file.subarray(header.offset, header.offset + SYNC_BYTES)
  const blocks = blocksOf(file, header.offset + SYNC_BYTES, sync)
  return {
    metadata,
    schema,
    records: decode(compile(schema), metadata.get('avro.codec') ?? 'null', blocks, maxRecords),
  }
}

interface Block {
  readonly count: number
  readonly body: Buffer
}

function* blocksOf(file: Buffer, start: number, sync: Buffer): Generator<Block> {
  for (let at = start; at < file.length; ) {
    const count = readVarint(file, at)
    const size = readVarint(file, count.end)
    const end = size.end + size.value
    if (!file.subarray(end, end + SYNC_BYTES).equals(sync)) throw new Error('an Avro block is cut off')
    yield { count: count.value, body: file.subarray(size.end, end) }
    at = end + SYNC_BYTES
  }
}

function decode(type: avro.Type, codec: string, blocks: Iterable<Block>, maxRecords: number): unknown[] {
  const records: unknown[] = []
  for (const block of blocks) {
    const body = inflate(codec, block.body)
    for (let at = 0, left = block.count; left > 0; left--) {
      const next = type.decode(body, at) as { value: unknown; offset: number }
      if (next.offset < 0) throw new Error('an Avro record is cut off')
      if (records.length >= maxRecords) throw new Error(`the Avro file holds more than ${maxRecords} records`)
      records.push(next.value)
      at = next.offset
    }
  }
  return records
}

function inflate(codec: string, body: Buffer): Buffer {
  if (codec === 'null') return body
  if (codec === 'deflate') return inflateRawSync(body, { maxOutputLength: MAX_BLOCK_BYTES })
  throw new Error(`the Avro codec ${JSON.stringify(codec)} is not supported`)
}

/** Zigzag variable-length integers, as Avro writes a long. */
function varint(value: number): Buffer {
  const bytes: number[] = []
  let rest = BigInt(value) << 1n
  for (; rest > 127n; rest >>= 7n) bytes.push(Number(rest & 127n) | 128)
  return Buffer.from([...bytes, Number(rest)])
}

function readVarint(bytes: Buffer, start: number): { value: number; end: number } {
  let value = 0n
  for (let at = start; at < Math.min(start + 10, bytes.length); at++) {
    const byte = bytes[at] as number
    value |= BigInt(byte & 127) << BigInt(7 * (at - start))
    if (byte < 128 && (value & 1n) === 0n) return { value: Number(value >> 1n), end: at + 1 }
    if (byte < 128) break
  }
  throw new Error('the Avro file has a broken length')
}
