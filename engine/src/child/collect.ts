import type { DuckDBConnection, DuckDBPreparedStatement, DuckDBResult } from '@duckdb/node-api'
import { SluiceError, type Value } from '@sluice/sdk'
import type { WireResult } from '../protocol.ts'
import { quoteName } from '../sql-text.ts'
import { prepare, runInThreads } from './duckdb.ts'
import { type ResultShape, RowEncoder, resultColumns } from './encode.ts'
import { cellName, csvCell } from './json-sql.ts'

/** What one collecting step may hand back over the message channel. */
const MAX_COLLECTED_CHARS = 64 * 1024 * 1024

export async function collectRows(statement: DuckDBPreparedStatement, maxRows: number): Promise<WireResult> {
  // Not streamed: a streamed result just ends where its statement fails.
  const result = await runInThreads(statement)
  const shape = shapeOf(result)
  const encoder = new RowEncoder(shape)
  const rows: string[] = []
  let size = 0
  for (let chunk = await result.fetchChunk(); chunk && chunk.rowCount > 0; chunk = await result.fetchChunk()) {
    for (const row of encoder.rows(chunk)) {
      size += row.length
      rows.push(row)
    }
    if (rows.length > maxRows || size > MAX_COLLECTED_CHARS) throw tooLarge(maxRows)
  }
  return { columns: resultColumns(shape), rowsJson: rows.join(',\n') }
}

export function shapeOf(result: DuckDBResult): ResultShape {
  return { names: result.columnNames(), types: result.columnTypes() }
}

/** By a run that gives no row: the types of parameters are known then. */
export async function describe(
  connection: DuckDBConnection,
  sql: string,
  parameters: readonly Value[],
): Promise<ResultShape> {
  const statement = await prepare(connection, `SELECT * FROM (${sql}\n) LIMIT 0`, parameters)
  return shapeOf(await statement.run())
}

/** The statement with every cell as CSV has it, cut by the engine: what is cut off crosses no channel. */
export async function asTexts(
  connection: DuckDBConnection,
  sql: string,
  parameters: readonly Value[],
  characters: number,
): Promise<string> {
  const { names, types } = await describe(connection, sql, parameters)
  const cells = types.map(
    (type, at) => `left(${csvCell(type, cellName(at))}, ${characters}) AS ${quoteName(names[at] as string)}`,
  )
  return `SELECT ${cells.join(', ')} FROM (${sql}\n) AS told(${types.map((_, at) => cellName(at)).join(', ')})`
}

function tooLarge(maxRows: number): SluiceError {
  return new SluiceError('QUOTA', `a statement gave more rows than it may (${maxRows})`, {
    code: 'query_result_too_large',
    details: { max_rows: maxRows },
  })
}
