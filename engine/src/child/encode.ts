import type { DuckDBDataChunk, DuckDBType } from '@duckdb/node-api'
import type { ResultColumn } from '../job.ts'
import { type CellEncoder, encoderFor } from './encode-value.ts'
import { resultTypeName } from './result-type.ts'

export interface ResultShape {
  readonly names: readonly string[]
  readonly types: readonly DuckDBType[]
}

export function resultColumns(shape: ResultShape): ResultColumn[] {
  return shape.names.map((name, index) => ({ name, type: resultTypeName(shape.types[index] as DuckDBType) }))
}

/** Turns a chunk into the JSON text of each row. */
export class RowEncoder {
  readonly #encoders: readonly CellEncoder[]

  constructor(shape: ResultShape) {
    this.#encoders = shape.types.map((type) => encoderFor(type, 'values'))
  }

  rows(chunk: DuckDBDataChunk): string[] {
    const rows = new Array<string>(chunk.rowCount).fill('[')
    for (const [column, encode] of this.#encoders.entries()) {
      const vector = chunk.getColumnVector(column)
      const comma = column === 0 ? '' : ','
      for (let row = 0; row < rows.length; row++) {
        const value = vector.getItem(row)
        rows[row] += comma + (value === null ? 'null' : encode(value))
      }
    }
    return rows.map((row) => `${row}]`)
  }
}
