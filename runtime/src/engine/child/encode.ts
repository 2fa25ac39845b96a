import { type DuckDBDataChunk, type DuckDBType, DuckDBTypeId } from '@duckdb/node-api'
import type { ResultColumn } from '../job.ts'
import { type CellEncoder, encoderFor } from './encode-value.ts'
import { resultTypeName } from './result-type.ts'

/** `values`: json cells as text, for `rowsOf`. `json`: json cells nested, for answers. */
export type JsonFlavour = 'values' | 'json'

export interface ResultShape {
  readonly names: readonly string[]
  readonly types: readonly DuckDBType[]
}

export function resultColumns(shape: ResultShape): ResultColumn[] {
  return shape.names.map((name, index) => ({ name, type: resultTypeName(shape.types[index] as DuckDBType) }))
}

/** Turns a chunk into the JSON text of each row, `[…]` or, with names, `{…}`. */
export class RowEncoder {
  readonly #encoders: readonly CellEncoder[]
  readonly #prefixes: readonly string[]
  readonly #open: string
  readonly #close: string

  constructor(shape: ResultShape, flavour: JsonFlavour, form: 'array' | 'object') {
    this.#encoders = shape.types.map((type) => encoderFor(type, flavour))
    this.#prefixes = shape.names.map((name, index) => {
      const comma = index === 0 ? '' : ','
      return form === 'array' ? comma : `${comma}${JSON.stringify(name)}:`
    })
    this.#open = form === 'array' ? '[' : '{'
    this.#close = form === 'array' ? ']' : '}'
  }

  rows(chunk: DuckDBDataChunk): string[] {
    const rows = new Array<string>(chunk.rowCount).fill(this.#open)
    for (const [column, encode] of this.#encoders.entries()) {
      const vector = chunk.getColumnVector(column)
      const prefix = this.#prefixes[column]
      for (let row = 0; row < rows.length; row++) {
        const value = vector.getItem(row)
        rows[row] += `${prefix}${value === null ? 'null' : encode(value)}`
      }
    }
    return rows.map((row) => row + this.#close)
  }
}

/** Turns a chunk into RFC 4180 lines: null is an empty field, text is always quoted. */
export class CsvEncoder {
  readonly #encoders: readonly CellEncoder[]
  readonly #plain: readonly boolean[]

  constructor(shape: ResultShape) {
    this.#encoders = shape.types.map((type) => encoderFor(type, 'json'))
    this.#plain = shape.types.map((type) => PLAIN_IN_CSV.has(type.typeId))
  }

  rows(chunk: DuckDBDataChunk): string[] {
    const rows = new Array<string>(chunk.rowCount).fill('')
    for (const [column, encode] of this.#encoders.entries()) {
      const vector = chunk.getColumnVector(column)
      const comma = column === 0 ? '' : ','
      for (let row = 0; row < rows.length; row++) {
        const value = vector.getItem(row)
        rows[row] += `${comma}${value === null ? '' : this.#field(encode(value), column)}`
      }
    }
    return rows
  }

  #field(json: string, column: number): string {
    if (json.startsWith('"')) {
      const text = JSON.parse(json) as string
      return this.#plain[column] ? text : csvQuote(text)
    }
    return this.#plain[column] ? json : csvQuote(json)
  }
}

export function csvHeader(names: readonly string[]): string {
  return names.map(csvQuote).join(',')
}

function csvQuote(text: string): string {
  return `"${text.replaceAll('"', '""')}"`
}

const PLAIN_IN_CSV: ReadonlySet<DuckDBTypeId> = new Set([
  DuckDBTypeId.BOOLEAN,
  DuckDBTypeId.TINYINT,
  DuckDBTypeId.SMALLINT,
  DuckDBTypeId.INTEGER,
  DuckDBTypeId.BIGINT,
  DuckDBTypeId.UTINYINT,
  DuckDBTypeId.USMALLINT,
  DuckDBTypeId.UINTEGER,
  DuckDBTypeId.UBIGINT,
  DuckDBTypeId.HUGEINT,
  DuckDBTypeId.UHUGEINT,
  DuckDBTypeId.BIGNUM,
  DuckDBTypeId.FLOAT,
  DuckDBTypeId.DOUBLE,
  DuckDBTypeId.DECIMAL,
  DuckDBTypeId.DATE,
  DuckDBTypeId.TIMESTAMP,
  DuckDBTypeId.TIMESTAMP_TZ,
  DuckDBTypeId.UUID,
])
