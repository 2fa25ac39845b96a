/**
 * A piece of a log as the registry keeps it while the lake cannot be written, and back: of each table what a `ChangeSpool` has of
 * it, compressed, in parts of bounded size. No row is taken apart.
 */
import { createReadStream, createWriteStream } from 'node:fs'
import { readFile, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { pipeline, Readable, type Transform } from 'node:stream'
import { pipeline as piped } from 'node:stream/promises'
import { constants, createGunzip, createGzip } from 'node:zlib'
import type { Column } from '@sluice/sdk'
import type { TablePart } from '../registry/log-spool.ts'
import type { LogSegment } from './change-fold.ts'
import type { SpooledTable } from './change-spool.ts'

const PART_BYTES = 4 * 1024 * 1024
const LENGTH_BYTES = 4

/** Before the rows of a table: what is known of them, and how many bytes of each segment follow. */
interface Header extends Omit<SpooledTable, 'segments' | 'withoutValue' | 'rejectedFor'> {
  readonly primaryKey: readonly string[]
  readonly segments: readonly { readonly columns: readonly Column[]; readonly marks: boolean; readonly bytes: number }[]
  readonly withoutValue: readonly (readonly [string, number])[]
  readonly rejectedFor: readonly string[]
}

export interface ToldTable {
  readonly name: string
  readonly primaryKey: readonly string[]
  readonly spooled: SpooledTable
}

/** Tables of which nothing was told have no part. */
export async function* partsOf(tables: readonly ToldTable[]): AsyncGenerator<TablePart> {
  for (const table of tables) {
    if (!tells(table.spooled)) continue
    const compressed = through(contentOf(table), createGzip({ level: constants.Z_BEST_SPEED }))
    let part = 0
    let held: Buffer[] = []
    let bytes = 0
    for await (const chunk of compressed) {
      held.push(chunk)
      bytes += chunk.length
      if (bytes < PART_BYTES) continue
      yield { table: table.name, part, content: Buffer.concat(held) }
      part += 1
      held = []
      bytes = 0
    }
    if (bytes > 0) yield { table: table.name, part, content: Buffer.concat(held) }
  }
}

interface PackedPart extends Omit<TablePart, 'content'> {
  readonly file: string
}

/** Into files of `dir`, so that whoever stores them need not wait for what is compressed. */
export async function pack(
  parts: AsyncIterable<TablePart>,
  dir: string,
  signal: AbortSignal,
): Promise<readonly PackedPart[]> {
  const packed: PackedPart[] = []
  for await (const { content, ...part } of parts) {
    const file = join(dir, `packed-${packed.length}.gz`)
    await writeFile(file, content, { signal })
    packed.push({ ...part, file })
  }
  return packed
}

export async function* packedParts(packed: readonly PackedPart[]): AsyncGenerator<TablePart> {
  for (const { file, ...part } of packed) yield { ...part, content: await readFile(file) }
}

export const tells = ({ segments, isTruncated }: SpooledTable): boolean => segments.length > 0 || isTruncated

async function* contentOf({ primaryKey, spooled }: ToldTable): AsyncGenerator<Buffer> {
  const { rows, bytes, isTruncated, mustReread, rejected, reasons, refused, kinds, segments } = spooled
  const sizes = await Promise.all(segments.map(async ({ file }) => (await stat(file)).size))
  const header: Header = {
    ...{ primaryKey, rows, bytes, isTruncated, mustReread, rejected, reasons, refused, kinds },
    segments: segments.map(({ columns, marks }, at) => ({ columns, marks, bytes: sizes[at] as number })),
    withoutValue: [...spooled.withoutValue],
    rejectedFor: [...spooled.rejectedFor],
  }
  const text = Buffer.from(JSON.stringify(header))
  const length = Buffer.alloc(LENGTH_BYTES)
  length.writeUInt32BE(text.length)
  yield Buffer.concat([length, text])
  for (const { file } of segments) yield* createReadStream(file) as AsyncIterable<Buffer>
}

/** Into files of `dir`. `at`: a number that no other table of the piece has. */
export async function unpacked(
  parts: AsyncIterable<Buffer>,
  dir: string,
  at: number,
): Promise<Pick<ToldTable, 'primaryKey' | 'spooled'>> {
  const bytes = new Bytes(through(parts, createGunzip())[Symbol.asyncIterator]())
  const length = (await bytes.exactly(LENGTH_BYTES)).readUInt32BE()
  const header = JSON.parse((await bytes.exactly(length)).toString('utf8')) as Header
  const { primaryKey, withoutValue, rejectedFor, ...told } = header
  const segments: LogSegment[] = []
  for (const { columns, marks, bytes: size } of header.segments) {
    const file = join(dir, `${at}-${segments.length}.csv`)
    await piped(bytes.upTo(size), createWriteStream(file))
    segments.push({ file, columns, marks })
  }
  const spooled = { ...told, segments, withoutValue: new Map(withoutValue), rejectedFor: new Set(rejectedFor) }
  return { primaryKey, spooled }
}

function through(source: AsyncIterable<Buffer>, by: Transform): AsyncIterable<Buffer> {
  // Whoever reads what comes out of it is told of an error.
  pipeline(Readable.from(source), by, () => undefined)
  return by
}

/** Bytes of a stream, so many at a time. */
class Bytes {
  readonly #source: AsyncIterator<Buffer>
  #held: Buffer = Buffer.alloc(0)

  constructor(source: AsyncIterator<Buffer>) {
    this.#source = source
  }

  async exactly(count: number): Promise<Buffer> {
    const found: Buffer[] = []
    for await (const one of this.upTo(count)) found.push(one)
    return Buffer.concat(found)
  }

  async *upTo(count: number): AsyncGenerator<Buffer> {
    for (let left = count; left > 0; ) {
      if (this.#held.length === 0) {
        const next = await this.#source.next()
        if (next.done === true) throw new Error('what is spooled of a log ends too soon')
        this.#held = next.value
      }
      const one = this.#held.subarray(0, left)
      this.#held = this.#held.subarray(one.length)
      left -= one.length
      yield one
    }
  }
}
