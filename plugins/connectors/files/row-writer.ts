/** Makes rows of the shared CSV out of cells, or says why one cannot be carried. */
import {
  type Column,
  type JsonCell,
  jsonCellText,
  type ReadEvent,
  type ReadRequest,
  type ValueReader,
  valueReader,
} from '@sluice/sdk'
import { BadRecord } from './csv-cells.ts'
import { fileInvalid, quotedPath } from './failure.ts'
import type { RawRow } from './rows-of-file.ts'
import type { TableOfFiles } from './table-settings.ts'

type Reject = Extract<ReadEvent, { kind: 'reject' }>

export interface WrittenRow {
  /** Null: it cannot be carried. */
  readonly line: string | null
  readonly rejects: readonly Reject[]
}

interface ReadColumn extends Column {
  readonly reader: ValueReader
  readonly isJson: boolean
  /** A value of it that cannot be carried does not cost the row. */
  readonly isForgiven: boolean
}

const MAX_RAW_CHARACTERS = 2000

export class RowWriter {
  readonly #table: TableOfFiles
  readonly #columns: readonly ReadColumn[]
  readonly #known: ReadonlySet<string>
  readonly #key: readonly string[]
  readonly #marks: boolean
  #places: readonly number[] = []

  constructor(
    table: TableOfFiles,
    all: readonly Column[],
    columns: readonly Column[],
    request: Pick<ReadRequest, 'optional' | 'marked' | 'primaryKey'>,
  ) {
    const forgiven = new Set([...(request.optional ?? []), ...(request.marked ?? [])])
    this.#table = table
    this.#known = new Set(all.map(({ name }) => name))
    this.#key = request.primaryKey.length > 0 ? request.primaryKey : table.primaryKey
    this.#marks = request.marked !== undefined
    this.#columns = columns.map((column) => ({
      ...column,
      reader: valueReader(column.type),
      isJson: column.type === 'json',
      isForgiven: column.nullable && forgiven.has(column.name),
    }))
  }

  /** Columns whose values are asked for. */
  get wanted(): ReadonlySet<string> {
    return new Set(this.#columns.map(({ name }) => name))
  }

  /** Where the columns stand in a file that names them. Throws INVALID_DATA where it lacks one, or has one that nobody has seen. */
  useHeader(header: readonly string[], path: string): void {
    const { columns, optionalColumns } = this.#table
    const lacking = [...this.#known].find((name) => !header.includes(name) && !optionalColumns.has(name))
    if (lacking !== undefined)
      throw fileInvalid(
        path,
        `it has no column ${quotedPath(lacking)}`,
        'Correct its header, or list the column under optional_columns.',
      )
    const unseen = columns === null ? header.find((name) => !this.#known.has(name)) : undefined
    if (unseen !== undefined)
      throw fileInvalid(
        path,
        `its column ${quotedPath(unseen)} is in none of the files by which the columns were found out`,
        'List the columns of the table under columns.',
      )
    this.#places = this.#columns.map(({ name }) => header.indexOf(name))
  }

  write({ cells, raw }: RawRow): WrittenRow {
    if (cells instanceof BadRecord) return refused({ reason: cells.reason, column: null }, raw())
    if (!Array.isArray(cells) && this.#table.columns === null)
      for (const name of (cells as ReadonlyMap<string, JsonCell>).keys())
        if (!this.#known.has(name))
          return refused(
            { reason: 'it has a field that the table does not: list its columns under columns', column: null },
            raw(),
          )
    const texts: (string | null)[] = []
    const faults: { readonly column: ReadColumn; readonly reason: string; readonly raw: string }[] = []
    for (const [index, column] of this.#columns.entries()) {
      const found = Array.isArray(cells)
        ? this.#csvText(cells, index)
        : jsonText(cells as ReadonlyMap<string, JsonCell>, column)
      const text = found === null || found instanceof Misfit ? null : column.reader(found)
      texts.push(text)
      if (found !== null && text === null)
        faults.push({ column, reason: `it is no ${column.type}`, raw: found instanceof Misfit ? found.text : found })
      else if (text === null && !column.nullable) faults.push({ column, reason: 'it is missing', raw: '' })
    }
    const key = this.#keyOf(texts)
    const costly = faults.find(({ column }) => !column.isForgiven)
    if (costly !== undefined) return refused({ reason: costly.reason, column: costly.column.name }, raw(), key)
    const line = texts.map(quoted).join(',')
    const marks = faults.length === 0 ? null : JSON.stringify(faults.map(({ column }) => column.name))
    return {
      line: this.#marks ? `${line},${quoted(marks)}` : line,
      rejects: faults.map(({ column, reason, raw: value }) => ({
        ...{ kind: 'reject', reason, column: column.name, raw: cut(value), carried: true },
        ...(key === undefined ? {} : { key }),
      })),
    }
  }

  #csvText(cells: readonly (string | null)[], index: number): string | null {
    return cells[this.#places[index] ?? -1] ?? null
  }

  /** Absent where a part of it is not known. */
  #keyOf(texts: readonly (string | null)[]): Readonly<Record<string, string>> | undefined {
    const parts: [string, string][] = []
    for (const name of this.#key) {
      const text = texts[this.#columns.findIndex((column) => column.name === name)] ?? null
      if (text === null) return undefined
      parts.push([name, text])
    }
    return parts.length === 0 ? undefined : Object.fromEntries(parts)
  }
}

/** A document where a column holds none. */
class Misfit {
  readonly text: string
  constructor(text: string) {
    this.text = text
  }
}

function jsonText(cells: ReadonlyMap<string, JsonCell>, { name, isJson }: ReadColumn): string | Misfit | null {
  const cell = cells.get(name)
  if (cell === undefined) return null
  return jsonCellText(cell, isJson) ?? new Misfit(cell.text)
}

function refused(
  fault: { readonly reason: string; readonly column: string | null },
  raw: string,
  key?: Readonly<Record<string, string>>,
): WrittenRow {
  return { line: null, rejects: [{ kind: 'reject', ...fault, raw: cut(raw), ...(key === undefined ? {} : { key }) }] }
}

const cut = (text: string) => text.slice(0, MAX_RAW_CHARACTERS).toWellFormed()

function quoted(text: string | null): string {
  if (text === null) return ''
  return text.includes('"') ? `"${text.replaceAll('"', '""')}"` : `"${text}"`
}
