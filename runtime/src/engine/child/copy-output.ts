import type { DuckDBConnection, DuckDBType } from '@duckdb/node-api'
import { DuckDBTypeId } from '@duckdb/node-api'
import { SluiceError } from '@sluice/sdk'
import type { EngineLimits, ResultColumn } from '../job.ts'
import { fromWire, OUTPUT_FD, type WireStreamOutput } from '../protocol.ts'
import { quoteName, quoteText } from '../sql-text.ts'
import { prepare } from './duckdb.ts'
import { type ResultShape, resultColumns } from './encode.ts'
import { descriptorPath } from './relations.ts'

/** Outputs that DuckDB itself writes into the pipe, several times faster than rows that cross JavaScript. */
export async function copyToPipe(
  connection: DuckDBConnection,
  output: WireStreamOutput,
  limits: EngineLimits,
  opened: (columns: readonly ResultColumn[]) => void,
): Promise<{ rows: number; truncated: boolean; files: [] }> {
  const parameters = output.parameters.map(fromWire)
  const shape = await describe(connection, output)
  opened(resultColumns(shape))
  const target = quoteText(descriptorPath(OUTPUT_FD))
  const limit = limits.maxRows === undefined ? '' : ` LIMIT ${limits.maxRows + 1}`
  const sql =
    output.kind === 'parquet'
      ? `COPY (SELECT * FROM (${output.sql}\n)${limit}) TO ${target} (FORMAT parquet, COMPRESSION zstd)`
      : `COPY (SELECT ${postgresCells(shape)} FROM (${output.sql}\n) AS output(${cellNames(shape)})${limit})
         TO ${target} (FORMAT csv, HEADER false, FORCE_QUOTE *, NULL '')`
  const result = await (await prepare(connection, sql, parameters)).run()
  const rows = Number(result.rowsChanged)
  if (limits.maxRows !== undefined && rows > limits.maxRows) {
    throw new SluiceError('QUOTA', `the statement gives more rows than it may (${limits.maxRows})`, {
      code: 'query_result_too_large',
      details: { max_rows: limits.maxRows },
    })
  }
  return { rows, truncated: false, files: [] }
}

async function describe(connection: DuckDBConnection, output: WireStreamOutput): Promise<ResultShape> {
  const statement = await prepare(connection, output.sql, output.parameters.map(fromWire))
  const indexes = Array.from({ length: statement.columnCount }, (_, index) => index)
  return {
    names: indexes.map((index) => statement.columnName(index)),
    types: indexes.map((index) => statement.columnType(index)),
  }
}

function cellNames(shape: ResultShape): string {
  return shape.names.map((_, index) => quoteName(`c${index}`)).join(', ')
}

/** Text that PostgreSQL reads back as the same value. */
function postgresCells(shape: ResultShape): string {
  return shape.types.map((type, index) => postgresCell(type, quoteName(`c${index}`))).join(', ')
}

function postgresCell(type: DuckDBType, name: string): string {
  return type.typeId === DuckDBTypeId.BLOB ? `'\\x' || lower(hex(${name}))` : name
}
