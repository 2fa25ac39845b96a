/** Makes rows of the shared CSV out of cells, or says why one cannot be carried. */
import { type Column, type JsonCell, jsonCellText, type ReadRequest, valueReader } from '@sluice/sdk'
import { BadRecord } from './csv-cells.ts'
import { fileInvalid, quotedPath } from './failure.ts'
import type { RawRow } from './rows-of-file.ts'
import type { TableOfFiles } from './table-settings.ts'
import { Misfit, RowTextWriter, refused, UNSEEN_FIELD, type WritableColumn, type WrittenRow } from './written-row.ts'

interface ReadColumn extends WritableColumn {
  readonly isJson: boolean
}

export class RowWriter {
  readonly #table: TableOfFiles
  readonly #columns: readonly ReadColumn[]
  readonly #known: ReadonlySet<string>
  readonly #texts: RowTextWriter<ReadColumn>
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
    this.#columns = columns.map((column) => ({
      ...column,
      reader: valueReader(column.type),
      isJson: column.type === 'json',
      isForgiven: column.nullable && forgiven.has(column.name),
    }))
    const key = request.primaryKey.length > 0 ? request.primaryKey : table.primaryKey
    this.#texts = new RowTextWriter(this.#columns, key, request.marked !== undefined)
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
        if (!this.#known.has(name)) return refused(UNSEEN_FIELD, raw())
    const row = this.#texts.read((column, place) =>
      Array.isArray(cells) ? this.#csvText(cells, place) : jsonText(cells as ReadonlyMap<string, JsonCell>, column),
    )
    return this.#texts.write(row, raw)
  }

  #csvText(cells: readonly (string | null)[], place: number): string | null {
    return cells[this.#places[place] ?? -1] ?? null
  }
}

/** A document where a column holds none is a misfit. */
function jsonText(cells: ReadonlyMap<string, JsonCell>, { name, isJson }: ReadColumn): string | Misfit | null {
  const cell = cells.get(name)
  if (cell === undefined) return null
  return jsonCellText(cell, isJson) ?? new Misfit(cell.text)
}
