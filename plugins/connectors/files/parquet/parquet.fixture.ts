/** Parquet files by hand, for what no writer writes. */
type Field = readonly [id: number, type: number, body: Buffer]

function varint(value: number): Buffer {
  const bytes: number[] = []
  let rest = value
  for (; rest > 127; rest = Math.floor(rest / 128)) bytes.push((rest % 128) | 128)
  return Buffer.from([...bytes, rest])
}

const zigzag = (value: number) => varint(value < 0 ? -2 * value - 1 : 2 * value)
const sized = (bytes: Buffer) => Buffer.concat([varint(bytes.length), bytes])

export const number = (id: number, value: number): Field => [id, 6, zigzag(value)]
export const text = (id: number, value: string): Field => [id, 8, sized(Buffer.from(value))]
export const group = (id: number, ...fields: readonly Field[]): Field => [id, 12, struct(fields)]
export const list = (id: number, ...structs: readonly (readonly Field[])[]): Field => [
  id,
  9,
  Buffer.concat([Buffer.from([0xfc]), varint(structs.length), ...structs.map(struct)]),
]

function struct(fields: readonly Field[]): Buffer {
  const parts = fields.flatMap(([id, type, body]) => [Buffer.from([type]), zigzag(id), body])
  return Buffer.concat([...parts, Buffer.from([0])])
}

export interface PageByHand {
  readonly kind?: number
  readonly values: number
  readonly encoding?: number
  /** Announced; by default as many as there are. */
  readonly bytes?: number
  readonly body: Buffer
}

export function page({ kind = 0, values, encoding = 0, bytes, body }: PageByHand): Buffer {
  const about = [number(1, values), number(2, encoding), number(3, 3), number(4, 3)]
  const head = [
    number(1, kind),
    number(2, bytes ?? body.length),
    number(3, body.length),
    group(kind === 2 ? 7 : 5, ...about),
  ]
  return Buffer.concat([struct(head), body])
}

/** One column `id` of whole numbers of 64 bits, which are there or not. */
export const OPTIONAL_ID: readonly Field[] = [number(1, 2), number(3, 1), text(4, 'id')]
export const REQUIRED_ID: readonly Field[] = [number(1, 2), number(3, 0), text(4, 'id')]

export interface FileByHand {
  /** Below the root, in their order. */
  readonly schema?: readonly (readonly Field[])[]
  readonly columns?: number
  readonly rows: number
  readonly codec?: number
  readonly pages: readonly Buffer[]
  readonly chunk?: readonly Field[]
}

export function parquetFile({
  schema = [REQUIRED_ID],
  columns = 1,
  rows,
  codec = 0,
  pages,
  chunk,
}: FileByHand): Buffer {
  const body = Buffer.concat(pages)
  const about = chunk ?? [number(4, codec), number(5, rows), number(7, body.length), number(9, 4)]
  const footer = struct([
    number(1, 1),
    list(2, [text(4, 'root'), number(5, columns)], ...schema),
    number(3, rows),
    list(4, [list(1, [group(3, ...about)]), number(3, rows)]),
  ])
  const length = Buffer.alloc(4)
  length.writeUInt32LE(footer.length)
  return Buffer.concat([Buffer.from('PAR1'), body, footer, length, Buffer.from('PAR1')])
}

export function longs(...values: readonly number[]): Buffer {
  const bytes = Buffer.alloc(8 * values.length)
  for (const [index, value] of values.entries()) bytes.writeBigInt64LE(BigInt(value), 8 * index)
  return bytes
}

/** Levels of a page of the first version: one run of one value. */
export function levels(count: number, value: number): Buffer {
  const run = Buffer.concat([varint(2 * count), Buffer.from([value])])
  const length = Buffer.alloc(4)
  length.writeUInt32LE(run.length)
  return Buffer.concat([length, run])
}
