/** Which columns files have, where nobody says it: by the first rows of a few of them. */
import type { Column, LogicalType } from '@sluice/sdk'
import { BadRecord } from './csv-cells.ts'
import { fileInvalid } from './failure.ts'
import type { FileStore, SourceFile } from './file-store.ts'
import { SeenJson, SeenTexts, SeenTypes } from './infer.ts'
import { type RowsPiece, rowsOfFile } from './rows-of-file.ts'
import { isColumnName, MAX_COLUMNS, type TableOfFiles } from './table-settings.ts'

const SAMPLE_FILES = 4
const SAMPLE_ROWS = 1000

/** Empty where the files have no rows that say it. Every column may lack values but those of the key. */
export async function sampledColumns(
  table: TableOfFiles,
  files: readonly SourceFile[],
  store: FileStore,
  signal: AbortSignal,
): Promise<readonly Column[]> {
  const seen = new Map<string, Seen>()
  // The first say what there was, the last what there is.
  const chosen =
    files.length <= SAMPLE_FILES ? files : [...files.slice(0, SAMPLE_FILES / 2), ...files.slice(-SAMPLE_FILES / 2)]
  for (const listed of chosen) {
    const file = await store.open(listed, signal)
    try {
      let left = SAMPLE_ROWS
      for await (const piece of rowsOfFile(table, listed, file, null, signal)) {
        look(piece, left, seen, listed.path)
        left -= piece.rows.length
        if (left <= 0 || piece.types !== null) break
      }
    } finally {
      await file.close()
    }
  }
  const { primaryKey } = table
  return [...seen].map(([name, { type }]) => ({ name, type, nullable: !primaryKey.includes(name) }))
}

type Seen = SeenTexts | SeenJson | SeenTypes

function look({ header, types, rows }: RowsPiece, limit: number, seen: Map<string, Seen>, path: string): void {
  if (types !== null) lookAtTypes(header ?? [], types, seen)
  for (const name of header ?? []) if (!seen.has(name)) seen.set(name, new SeenTexts())
  for (const { cells } of rows.slice(0, limit)) {
    if (cells instanceof BadRecord) continue
    if (Array.isArray(cells)) {
      for (const [index, text] of cells.entries())
        if (text !== null) (seen.get(header?.[index] ?? '') as SeenTexts | undefined)?.add(text)
      continue
    }
    for (const [name, cell] of cells as ReadonlyMap<string, never>) {
      if (!isColumnName(name)) continue
      let column = seen.get(name) as SeenJson | undefined
      if (column === undefined) {
        column = new SeenJson()
        seen.set(name, column)
      }
      column.add(cell)
    }
  }
  if (seen.size > MAX_COLUMNS)
    throw fileInvalid(path, `there are more than ${MAX_COLUMNS} columns`, 'List in columns those that are to be read.')
}

function lookAtTypes(header: readonly string[], types: readonly LogicalType[], seen: Map<string, Seen>): void {
  for (const [index, name] of header.entries()) {
    const column = (seen.get(name) as SeenTypes | undefined) ?? new SeenTypes()
    column.add(types[index] ?? 'string')
    seen.set(name, column)
  }
}
