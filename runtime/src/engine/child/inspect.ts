import type { DuckDBConnection } from '@duckdb/node-api'
import { DuckDBTypeId } from '@duckdb/node-api'
import { SluiceError, type Value } from '@sluice/sdk'
import { fromDriver } from '../driver-error.ts'
import type { EngineTable } from '../job.ts'
import { columnLineage } from '../lineage.ts'
import { fromWire, type Opening, type WireInspectOutput } from '../protocol.ts'
import { quoteTable } from '../sql-text.ts'
import { resultColumns } from './encode.ts'
import { guardExpression, guardStatement } from './guarded-sql.ts'
import { describe } from './output.ts'

/** Judges and binds a tenant's text without reading a row. */
export async function inspect(
  connection: DuckDBConnection,
  output: WireInspectOutput,
  tables: readonly EngineTable[],
): Promise<Opening> {
  const parameters = output.parameters.map(fromWire)
  if (output.kind === 'inspect-condition') return await inspectCondition(connection, output.sql, parameters, tables[0])
  const names = tables.map((table) => table.name)
  const { sql, tree } = await guardStatement(connection, output.sql, names)
  const shape = await described(connection, sql, parameters, output.sql)
  const columns = resultColumns(shape)
  return { columns, lineage: columnLineage(tree, tables, columns) }
}

async function inspectCondition(
  connection: DuckDBConnection,
  text: string,
  parameters: readonly Value[],
  table: EngineTable | undefined,
): Promise<Opening> {
  const { sql } = await guardExpression(connection, text)
  const from = table ? ` FROM ${quoteTable(table.name)}` : ''
  const shape = await described(connection, `SELECT ${sql} AS condition${from}`, parameters, text)
  // Also binds it where it will stand, so that aggregates and window functions are refused.
  await described(connection, `SELECT 1${from} WHERE ${sql}`, parameters, text)
  if (shape.types[0]?.typeId === DuckDBTypeId.BOOLEAN) return { columns: resultColumns(shape), lineage: [] }
  throw new SluiceError('INVALID_DATA', 'the condition is not true or false', {
    code: 'sql_invalid',
    remedy: 'Write an expression that compares something, such as amount > 0.',
  })
}

async function described(connection: DuckDBConnection, sql: string, parameters: readonly Value[], original: string) {
  try {
    return await describe(connection, sql, parameters)
  } catch (error) {
    throw fromDriver(error, original)
  }
}
