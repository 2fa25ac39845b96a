/** The records of one file, each as cells by column, or why it has none. */
import { isUtf8 } from 'node:buffer'
import type { JsonCell, LogicalType } from '@sluice/sdk'
import { avroRows } from './avro/rows.ts'
import { contentOf } from './content.ts'
import { BadRecord, csvCells } from './csv-cells.ts'
import { fileInvalid } from './failure.ts'
import type { OpenFile, SourceFile } from './file-store.ts'
import { lineCells } from './json-cells.ts'
import { parquetRows } from './parquet/rows.ts'
import { BrokenFile, type FileRecord, RecordSplitter } from './records.ts'
import { isColumnName, MAX_COLUMNS, type TableOfFiles } from './table-settings.ts'
import { LongRow, type TypedCells, type TypedHeader } from './typed-rows.ts'

export type RowCells = readonly (string | null)[] | ReadonlyMap<string, JsonCell> | BadRecord

export interface RawRow {
  readonly cells: RowCells
  /** As it stands in the file; bytes that are no UTF-8 one by one. */
  raw(): string
}

/** Pieces of a file: with the names of its columns, in its order, unless it is of JSON lines. */
export interface RowsPiece {
  readonly header: readonly string[] | null
  /** Where the file says them, by the header; then they stand in its first piece, which has no rows. */
  readonly types: readonly LogicalType[] | null
  readonly rows: readonly RawRow[]
}

/** `wanted` names the columns whose values are asked for, null all: of others there may be none. */
export async function* rowsOfFile(
  table: TableOfFiles,
  listed: SourceFile,
  file: OpenFile,
  wanted: ReadonlySet<string> | null,
  signal: AbortSignal,
): AsyncGenerator<RowsPiece> {
  const { format } = table
  try {
    if (format === 'csv' || format === 'jsonl') yield* recordsOf(table, listed.path, file, signal)
    else yield* typedPieces(typedRows(table, listed, file, wanted, signal))
  } catch (error) {
    throw error instanceof BrokenFile ? fileInvalid(listed.path, error.message, error.remedy) : error
  }
}

function typedRows(
  { format, columns }: TableOfFiles,
  { path, bytes }: SourceFile,
  file: OpenFile,
  wanted: ReadonlySet<string> | null,
  signal: AbortSignal,
): AsyncIterable<TypedHeader | readonly TypedCells[]> {
  if (format === 'avro') return avroRows(bytes, contentOf(file, path, signal))
  if (path.endsWith('.gz'))
    throw new BrokenFile('a Parquet file that is packed as a whole cannot be read', 'Unpack it: it is packed within.')
  const asText = new Set((columns ?? []).filter(({ type }) => type === 'string').map(({ name }) => name))
  return parquetRows(bytes, (from, length) => file.read(from, length, signal), { wanted, asText })
}

async function* typedPieces(parts: AsyncIterable<TypedHeader | readonly TypedCells[]>): AsyncGenerator<RowsPiece> {
  let header: readonly string[] = []
  for await (const part of parts) {
    if ('names' in part) {
      header = checkedNames(part.names)
      yield { header, types: part.types, rows: [] }
      continue
    }
    const names = header
    yield { header, types: null, rows: part.map((cells) => ({ cells, raw: () => shownRow(names, cells) })) }
  }
}

/** Nobody wrote it as a text: as an object of what was read of it. */
function shownRow(names: readonly string[], row: TypedCells): string {
  const cells = row instanceof LongRow ? row.cells : row
  return JSON.stringify(Object.fromEntries(names.flatMap((name, at) => (cells[at] == null ? [] : [[name, cells[at]]]))))
}

async function* recordsOf(
  table: TableOfFiles,
  path: string,
  file: OpenFile,
  signal: AbortSignal,
): AsyncGenerator<RowsPiece> {
  const isCsv = table.format === 'csv'
  const splitter = new RecordSplitter(isCsv ? table.dialect : null)
  let header: readonly string[] | null =
    isCsv && !table.dialect.header ? (table.columns ?? []).map(({ name }) => name) : null
  const piece = (records: readonly FileRecord[]): RowsPiece => {
    let from = 0
    if (isCsv && header === null && records[0] !== undefined) {
      header = headerOf(table, records[0])
      from = 1
    }
    const width = header?.length ?? 0
    const rows = records
      .slice(from)
      .flatMap((record) => (isBlank(record, isCsv, width) ? [] : [rowOf(table, record, width)]))
    return { header, types: null, rows }
  }
  for await (const chunk of contentOf(file, path, signal)) yield piece(splitter.push(chunk))
  yield piece(splitter.end())
}

/** A line without anything carries nothing; where a table has one column, it is its value. */
function isBlank({ bytes }: FileRecord, isCsv: boolean, width: number): boolean {
  if (isCsv) return bytes.length === 0 && width > 1
  return bytes.length < 64 && bytes.toString('latin1').trim() === ''
}

function rowOf({ format, dialect }: TableOfFiles, { bytes }: FileRecord, width: number): RawRow {
  const isText = isUtf8(bytes)
  const text = isText ? bytes.toString('utf8') : ''
  const raw = () => (isText ? text : bytes.toString('latin1'))
  if (!isText) return { cells: new BadRecord('it is not written in UTF-8'), raw }
  if (format === 'jsonl') return { cells: lineCells(text), raw }
  const cells = csvCells(text, dialect)
  if (cells instanceof BadRecord || cells.length === width) return { cells, raw }
  return { cells: new BadRecord(`it has ${cells.length} values, and the file ${width} columns`), raw }
}

function headerOf({ dialect }: TableOfFiles, { bytes }: FileRecord): readonly string[] {
  const cells = isUtf8(bytes)
    ? csvCells(bytes.toString('utf8'), { ...dialect, nullText: '' })
    : new BadRecord('it is not written in UTF-8')
  if (cells instanceof BadRecord)
    throw new BrokenFile(`its header cannot be read: ${cells.reason}`, 'Correct the first line.')
  return checkedNames(cells.map((cell) => cell ?? ''))
}

function checkedNames(names: readonly string[]): readonly string[] {
  const isRight = names.every(isColumnName) && new Set(names).size === names.length && names.length <= MAX_COLUMNS
  if (isRight) return names
  throw new BrokenFile(
    'its header names a column twice, or one by nothing, by more than 128 characters or by those of control',
    `Give each of up to ${MAX_COLUMNS} columns a name of its own.`,
  )
}
