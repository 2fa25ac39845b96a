/** What a Parquet file says of itself at its end: columns, and where the parts of each row group lie. */
import { ByteReader, cutOff, WRITE_ANEW } from '../byte-reader.ts'
import { BrokenFile } from '../records.ts'
import { elementOf, type SchemaElement } from './schema.ts'
import { countOf, listOf, structOf, Thrift, type ThriftStruct } from './thrift.ts'

/** Of the file, from a place on; what is asked for lies within it. */
export type ReadRange = (from: number, length: number) => Promise<Buffer>

export interface Footer {
  readonly elements: readonly SchemaElement[]
  /** Where what it says lies: whatever holds rows lies before. */
  readonly begins: number
  readonly groupCount: number
  /** Of all row groups together. */
  readonly rows: number
  /** Read when its turn comes: a file may have as many as it likes. */
  group(index: number): RowGroup
}

export interface RowGroup {
  readonly rows: number
  /** One for each leaf. */
  readonly chunks: readonly Chunk[]
}

/** The values of one leaf in one row group. */
export interface Chunk {
  readonly codec: number
  readonly from: number
  readonly end: number
}

const MAGIC = 'PAR1'
const ENCRYPTED_MAGIC = 'PARE'
const TAIL_BYTES = 8
/** Small files have all that they say in it. */
const FIRST_READ_BYTES = 64 * 1024
const MAX_FOOTER_BYTES = 32 * 1024 * 1024
const FIELD = { schema: 2, groups: 4, encryption: 8 } as const
const GROUP = { chunks: 1, rows: 3 } as const

export async function readFooter(bytes: number, read: ReadRange): Promise<Footer> {
  if (bytes < MAGIC.length + TAIL_BYTES) throw noParquet()
  const first = Math.min(bytes, FIRST_READ_BYTES)
  const tail = await read(bytes - first, first)
  const magic = tail.toString('latin1', first - MAGIC.length)
  if (magic === ENCRYPTED_MAGIC) throw encrypted()
  if (magic !== MAGIC) throw noParquet()
  const length = tail.readUInt32LE(first - TAIL_BYTES)
  const begins = bytes - TAIL_BYTES - length
  if (begins < MAGIC.length) throw cutOff('what it says at its end')
  if (length > MAX_FOOTER_BYTES)
    throw new BrokenFile(
      `it says more than ${MAX_FOOTER_BYTES} bytes of itself`,
      'Write it with fewer row groups or columns, or in several files.',
    )
  const isThere = length + TAIL_BYTES <= first
  const footer = isThere ? tail.subarray(-length - TAIL_BYTES, -TAIL_BYTES) : await read(begins, length)
  return parsed(footer, begins)
}

function parsed(bytes: Buffer, begins: number): Footer {
  const from = new ByteReader(bytes)
  const thrift = new Thrift(from)
  let elements: readonly SchemaElement[] = []
  const groups: number[] = []
  let rows = 0
  thrift.eachField((id, type) => {
    if (id === FIELD.encryption) throw encrypted()
    if (id !== FIELD.groups) {
      const value = thrift.value(type, 0)
      if (id === FIELD.schema) elements = listOf(value).map(elementOf)
      return
    }
    const { count } = thrift.listHead()
    for (let at = 0; at < count; at += 1) {
      groups.push(from.at)
      rows += countOf(new Thrift(from).struct().get(GROUP.rows))
    }
  })
  return {
    elements,
    begins,
    groupCount: groups.length,
    rows,
    group: (index) => groupOf(new Thrift(new ByteReader(bytes, groups[index])).struct(), begins),
  }
}

function groupOf(group: ThriftStruct, limit: number): RowGroup {
  const rows = countOf(group.get(GROUP.rows))
  // Where there are no rows, what is said of them may be anything.
  const chunks = rows === 0 ? [] : listOf(group.get(GROUP.chunks)).map((value) => chunkOf(structOf(value), limit))
  return { rows, chunks }
}

function chunkOf(chunk: ThriftStruct | null, limit: number): Chunk {
  const about = structOf(chunk?.get(3))
  if (about === null || chunk === null) throw cutOff('what it says of its row groups')
  if (chunk.get(1) !== undefined) throw new BrokenFile('its values lie in other files', 'Write it anew as one file.')
  const data = countOf(about.get(9))
  const dictionary = countOf(about.get(11), 0)
  const from = dictionary > 0 ? Math.min(dictionary, data) : data
  const end = from + countOf(about.get(7))
  if (from < MAGIC.length || end > limit) throw cutOff('what it says of its row groups')
  return { codec: countOf(about.get(4)), from, end }
}

function encrypted(): BrokenFile {
  return new BrokenFile('it is encrypted', 'Write it without encryption: keys of files are not known here.')
}

function noParquet(): BrokenFile {
  return new BrokenFile('it is no Parquet file, or cut off', WRITE_ANEW)
}
