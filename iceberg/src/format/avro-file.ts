import { randomBytes } from 'node:crypto'
import { promisify } from 'node:util'
import { deflateRawSync, inflateRaw } from 'node:zlib'
import avro from 'avsc'
import { AvroBudget, AvroBytes } from './avro-bytes.ts'
import { type Decode, decoderFor } from './avro-types.ts'
import { int64 } from './int64.ts'
import { Turn } from './turn.ts'

/**
 * Avro object container files: https://avro.apache.org/docs/1.12.0/specification/#object-container-files.
 * `avsc` writes the records. The header is written here, because avsc leaves attributes that it does not know out of
 * the schema it writes, and Iceberg readers find fields by their `field-id`. Reading is our own: avsc goes on behind the
 * end of what it reads, for as many items as a list announces, and files of plain tables are written by their tenants.
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
const MAX_DECODED_BYTES = 256 * 1024 * 1024
/** The schema of a table of thousands of columns is in it, twice. */
const MAX_HEADER_BYTES = 8 * 1024 * 1024
const MAX_VALUES = 20_000_000

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

/** What a file may hold. */
export interface AvroLimits {
  readonly records: number
  /** Lists, records and their parts. Default 20 million. */
  readonly values?: number
  /** Unpacked, all blocks together. Default 256 MiB. */
  readonly bytes?: number
}

/**
 * Throws a plain Error where the bytes are no such file, or hold more than allowed. Gives way to others every few
 * milliseconds: whoever wrote the file may have made it as long to read as it can be.
 */
export async function readAvro(bytes: Uint8Array, limits: AvroLimits): Promise<AvroContent> {
  const file = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  if (!file.subarray(0, MAGIC.length).equals(MAGIC)) throw new Error('not an Avro file')
  const budget = new AvroBudget(limits.values ?? MAX_VALUES)
  const header = new AvroBytes(file.subarray(0, MAX_HEADER_BYTES), budget, MAGIC.length)
  const metadata = new Map<string, string>()
  header.eachItem(() => metadata.set(header.bytes().toString('utf8'), header.bytes().toString('utf8')))
  const sync = header.take(SYNC_BYTES)
  const schema: unknown = JSON.parse(metadata.get('avro.schema') ?? 'null')
  const blocks = new AvroBytes(file, budget, header.at)
  const records = await decodeAll(blocks, file.length, sync, {
    codec: metadata.get('avro.codec') ?? 'null',
    decode: decoderFor(schema),
    budget,
    limits,
  })
  return { metadata, schema, records }
}

interface Reading {
  readonly codec: string
  readonly decode: Decode
  readonly budget: AvroBudget
  readonly limits: AvroLimits
}

async function decodeAll(
  blocks: AvroBytes,
  end: number,
  sync: Buffer,
  { codec, decode, budget, limits }: Reading,
): Promise<unknown[]> {
  const records: unknown[] = []
  const turn = new Turn()
  let left = limits.bytes ?? MAX_DECODED_BYTES
  while (blocks.at < end) {
    const count = Number(blocks.long())
    const packed = blocks.bytes()
    if (!blocks.take(SYNC_BYTES).equals(sync)) throw new Error('an Avro block is cut off')
    if (!(count >= 0 && count <= limits.records - records.length)) {
      throw new Error(`the Avro file holds more than ${limits.records} records`)
    }
    const body = await unpacked(codec, packed, Math.min(left, MAX_BLOCK_BYTES))
    left -= body.length
    if (left < 0) throw new Error('the Avro file unpacks to more than it may')
    const from = new AvroBytes(body, budget)
    for (let at = 0; at < count; at += 1) {
      budget.beginRecord()
      records.push(decode(from))
      if (turn.isOver()) await turn.next()
    }
  }
  return records
}

const inflate = promisify(inflateRaw)

async function unpacked(codec: string, body: Buffer, maxOutputLength: number): Promise<Buffer> {
  if (codec === 'null') return body
  if (codec === 'deflate') return await inflate(body, { maxOutputLength: Math.max(1, maxOutputLength) })
  throw new Error(`the Avro codec ${JSON.stringify(codec.slice(0, 40))} is not supported`)
}

/** Zigzag variable-length integers, as Avro writes a long. */
function varint(value: number): Buffer {
  const bytes: number[] = []
  let rest = BigInt(value) << 1n
  for (; rest > 127n; rest >>= 7n) bytes.push(Number(rest & 127n) | 128)
  return Buffer.from([...bytes, Number(rest)])
}
