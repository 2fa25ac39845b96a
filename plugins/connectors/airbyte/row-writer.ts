/** Records as rows of the shared CSV, or why one cannot be carried. */
import { type Column, type JsonCell, jsonCells, jsonCellText, type ReadRequest } from '@sluice/sdk'
import { Misfit, RowTextWriter, refused, type WritableColumn, type WrittenRow } from '../files/written-row.ts'
import { cellReader } from './types.ts'

interface ReadColumn extends WritableColumn {
  readonly isJson: boolean
}

export class RowWriter {
  readonly #texts: RowTextWriter<ReadColumn>
  readonly #known: ReadonlySet<string>
  /** Fields of records that the catalogue does not name: they are not carried. */
  unnamed = 0

  /** `all`: the names of the stream's columns, read or not. */
  constructor(
    all: readonly string[],
    columns: readonly Column[],
    request: Pick<ReadRequest, 'optional' | 'marked' | 'primaryKey'>,
    primaryKey: readonly string[],
  ) {
    const forgiven = new Set([...(request.optional ?? []), ...(request.marked ?? [])])
    this.#known = new Set(all)
    const own = columns.map((column) => ({
      ...column,
      reader: cellReader(column.type),
      isForgiven: column.nullable && forgiven.has(column.name),
      isJson: column.type === 'json',
    }))
    this.#texts = new RowTextWriter(own, primaryKey, request.marked !== undefined)
  }

  /** `line` is what is shown of a record that is refused. */
  write(data: unknown, line: string): WrittenRow {
    const cells = cellsOf(data)
    if (cells === null) return refused({ reason: 'it is nested too deeply', column: null }, line)
    for (const name of cells.keys()) if (!this.#known.has(name)) this.unnamed += 1
    const row = this.#texts.read(({ name, isJson }) => {
      const cell = cells.get(name)
      return cell === undefined ? null : (jsonCellText(cell, isJson) ?? new Misfit(cell.text))
    })
    return this.#texts.write(row, () => line)
  }
}

function cellsOf(data: unknown): ReadonlyMap<string, JsonCell> | null {
  try {
    return jsonCells(data)
  } catch {
    // Writing it out needs more of the stack than there is.
    return null
  }
}
