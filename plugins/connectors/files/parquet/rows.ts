/** The rows of a Parquet file: of each row group page by page, so that its size does not count. */
import { setImmediate as nextTurn } from 'node:timers/promises'
import { cutOff } from '../byte-reader.ts'
import { quotedPath } from '../failure.ts'
import { BrokenFile } from '../records.ts'
import { RowTexts, type TypedCells, type TypedHeader } from '../typed-rows.ts'
import { bytesOfChunks } from './chunk-bytes.ts'
import { nextDocument } from './documents.ts'
import { type Footer, type ReadRange, readFooter } from './footer.ts'
import { LeafReader } from './leaf-reader.ts'
import { Memory } from './memory.ts'
import { columnsOf, type ParquetColumn } from './schema.ts'

const ROWS_A_PIECE = 1000

export interface WhatToRead {
  /** Columns whose values are asked for; null: all. */
  readonly wanted: ReadonlySet<string> | null
  /** Columns whose bytes are texts, though the file may not say it. */
  readonly asText: ReadonlySet<string>
}

/** First what there is, then the rows. Throws BrokenFile. */
export async function* parquetRows(
  bytes: number,
  read: ReadRange,
  { wanted, asText }: WhatToRead,
): AsyncGenerator<TypedHeader | readonly TypedCells[]> {
  try {
    const footer = await readFooter(bytes, read)
    const { columns, leafCount } = columnsOf(footer.elements, asText)
    const chosen = columns.filter(({ name }) => wanted === null || wanted.has(name))
    for (const { name, refused } of chosen)
      if (refused !== null)
        throw new BrokenFile(
          `its column ${quotedPath(name)} cannot be read: ${refused}`,
          'List under columns the ones that are to be read, or write the file without it.',
        )
    yield {
      names: columns.map(({ name }) => name),
      types: columns.map(({ plain }) => plain?.scalar.type ?? 'json'),
    }
    const texts = new RowTexts(bytes, columns.length)
    texts.expectRows(footer.rows)
    const places = chosen.map((column) => columns.indexOf(column))
    const memory = new Memory()
    for (let index = 0; index < footer.groupCount; index += 1)
      yield* rowsOfGroup({ footer, index, read, chosen, places, leafCount, texts, memory })
  } catch (error) {
    // What is read beyond the end of some bytes.
    throw error instanceof RangeError ? cutOff('a page of it') : error
  }
}

interface Group {
  readonly footer: Footer
  readonly index: number
  readonly read: ReadRange
  readonly chosen: readonly ParquetColumn[]
  readonly places: readonly number[]
  readonly leafCount: number
  readonly texts: RowTexts
  readonly memory: Memory
}

async function* rowsOfGroup(group: Group): AsyncGenerator<readonly TypedCells[]> {
  const { chosen, places, texts } = group
  const { rows, readers } = await readersOf(group)
  let piece: TypedCells[] = []
  for (let row = 0; row < rows; row += 1) {
    texts.begin()
    for (const [at, { plain, node }] of chosen.entries()) {
      const own = readers[at] ?? []
      const [first] = own
      if (first === undefined) throw cutOff()
      const place = places[at] ?? 0
      if (plain === null) {
        const text = await nextDocument(node, own)
        if (text === null) texts.setTooLong()
        // A document that is nothing is no value.
        else texts.set(place, text === 'null' ? null : text)
        continue
      }
      if (!first.hasEntry && !(await first.load())) throw cutOff('a row group of it')
      texts.set(place, first.nextText())
    }
    piece.push(texts.row())
    if (piece.length < ROWS_A_PIECE && !texts.isMuch) continue
    yield piece
    piece = []
    texts.handedOn()
    await nextTurn()
  }
  yield piece
  for (const reader of readers.flat()) if (reader.hasEntry || (await reader.load())) throw cutOff('a row group of it')
}

async function readersOf({ footer, index, read, chosen, leafCount, memory }: Group) {
  const { rows, chunks } = footer.group(index)
  if (rows === 0) return { rows, readers: [] }
  if (chunks.length !== leafCount) throw cutOff('what it says of its row groups')
  memory.reset()
  const leaves = chosen.flatMap(({ node }) => node.leaves)
  const own = leaves.map((leaf) => {
    const chunk = chunks[leaf.index]
    if (chunk === undefined) throw cutOff()
    return chunk
  })
  const sources = await bytesOfChunks(own, read)
  const all = new Map(
    leaves.map((leaf, at) => {
      const [chunk, bytes] = [own[at], sources[at]]
      if (chunk === undefined || bytes === undefined) throw cutOff()
      return [leaf, new LeafReader(leaf, chunk, bytes, memory)] as const
    }),
  )
  const readers = chosen.map(({ node }) => node.leaves.flatMap((leaf) => all.get(leaf) ?? []))
  return { rows, readers }
}
