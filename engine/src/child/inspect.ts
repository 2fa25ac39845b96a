import type { DuckDBConnection } from '@duckdb/node-api'
import { DuckDBTypeId } from '@duckdb/node-api'
import { isSluiceError, SluiceError, type Value } from '@sluice/sdk'
import { fromDriver } from '../driver-error.ts'
import { type KeyedParts, keyedParts, type TypedValue } from '../guard/keyed-parts.ts'
import { isRowWise } from '../guard/row-wise.ts'
import type { TreeNode } from '../guard/tree.ts'
import type { EngineTable } from '../job.ts'
import { columnLineage } from '../lineage/lineage.ts'
import { fromWire, type Opening, type WireInspectOutput } from '../protocol.ts'
import { quoteTable } from '../sql-text.ts'
import { describe } from './collect.ts'
import { resultColumns } from './encode.ts'
import { guardExpression, guardStatement, guardWithin, textOf } from './guarded-sql.ts'

/** Judges and binds a tenant's text without reading a row. */
export async function inspect(
  connection: DuckDBConnection,
  output: WireInspectOutput,
  tables: readonly EngineTable[],
): Promise<Opening> {
  const parameters = output.parameters.map(fromWire)
  if (output.kind === 'inspect-condition') return await inspectCondition(connection, output, tables[0])
  const names = tables.map((table) => table.name)
  const { sql, tree } = output.within
    ? await guardWithin(connection, output.sql, output.within, names)
    : await guardStatement(connection, output.sql, names)
  const shape = await described(connection, sql, parameters, output.sql)
  const columns = resultColumns(shape)
  const textColumns = output.within ? await columnsAlone(connection, output.sql, names) : null
  const lineage = columnLineage(tree, tables, columns, output.comparable)
  const parts = await partsOf(connection, tree, tables)
  return { columns, lineage, isRowWise: isRowWise(tree), parts, ...(textColumns === null ? {} : { textColumns }) }
}

/** Null where it is not known to come in parts, or comes in parts with values of other types only. */
async function partsOf(
  connection: DuckDBConnection,
  tree: TreeNode,
  tables: readonly EngineTable[],
): Promise<KeyedParts | null> {
  const assumed = keyedParts(tree, tables)
  if (assumed === null) return null
  const types = await typesOf(connection, tree, assumed.values)
  return assumed.values.every(({ isAdmitted }, at) => isAdmitted(types[at] ?? '')) ? assumed.parts : null
}

/** What the expressions would be of a row, before it is grouped. */
async function typesOf(
  connection: DuckDBConnection,
  tree: TreeNode,
  values: readonly TypedValue[],
): Promise<readonly string[]> {
  if (values.length === 0) return []
  const [statement] = tree.statements as readonly TreeNode[]
  const listed = {
    ...(statement?.node as TreeNode),
    select_list: values.map(({ expression }) => expression),
    group_expressions: [],
    group_sets: [],
    aggregate_handling: 'STANDARD_HANDLING',
    having: null,
  }
  const sql = await textOf(connection, { ...tree, statements: [{ ...statement, node: listed }] })
  try {
    return resultColumns(await describe(connection, sql, [])).map(({ type }) => type)
  } catch {
    // A name that the list of the whole statement gives, say: then nobody knows.
    return []
  }
}

/** Null of a text that can stand in brackets only. */
async function columnsAlone(
  connection: DuckDBConnection,
  text: string,
  names: readonly (readonly string[])[],
): Promise<Opening['columns'] | null> {
  try {
    const { sql } = await guardStatement(connection, text, names)
    return resultColumns(await described(connection, sql, [], text))
  } catch (error) {
    if (isSluiceError(error, 'INVALID_DATA')) return null
    throw error
  }
}

async function inspectCondition(
  connection: DuckDBConnection,
  { sql: text, parameters: wired, comparable }: WireInspectOutput,
  table: EngineTable | undefined,
): Promise<Opening> {
  const parameters = wired.map(fromWire)
  const { sql } = await guardExpression(connection, text)
  const from = table ? ` FROM ${quoteTable(table.name)}` : ''
  const shape = await described(connection, `SELECT ${sql} AS condition${from}`, parameters, text)
  // Also binds it where it will stand, so that aggregates and window functions are refused.
  await described(connection, `SELECT 1${from} WHERE ${sql}`, parameters, text)
  if (shape.types[0]?.typeId === DuckDBTypeId.BOOLEAN) {
    const columns = resultColumns(shape)
    return { columns, ...(await ofCondition(connection, sql, columns, table, comparable)) }
  }
  throw new SluiceError('INVALID_DATA', 'the condition is not true or false', {
    code: 'sql_invalid',
    remedy: 'Write an expression that compares something, such as amount > 0.',
  })
}

/** What the condition, where it stands, says of the rows that are left, and whether it says of each by itself. */
async function ofCondition(
  connection: DuckDBConnection,
  sql: string,
  columns: Opening['columns'],
  table: EngineTable | undefined,
  comparable: WireInspectOutput['comparable'],
): Promise<Pick<Opening, 'lineage' | 'isRowWise'>> {
  if (table === undefined) return { lineage: [] }
  const text = `SELECT 1 AS condition FROM ${quoteTable(table.name)} WHERE ${sql}`
  const { tree } = await guardStatement(connection, text, [table.name])
  return { lineage: columnLineage(tree, [table], columns, comparable), isRowWise: isRowWise(tree) }
}

async function described(connection: DuckDBConnection, sql: string, parameters: readonly Value[], original: string) {
  try {
    return await describe(connection, sql, parameters)
  } catch (error) {
    throw fromDriver(error, original)
  }
}
