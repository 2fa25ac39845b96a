import type { DuckDBConnection } from '@duckdb/node-api'
import { innerName } from '../guard/information-schema.ts'
import type { CsvInput, EngineTable } from '../job.ts'
import { type ChildJob, INPUT_FD } from '../protocol.ts'
import { literalRelation, parquetRelation, quoteName, quoteTable, quoteText, sqlType } from '../sql-text.ts'
import { execute } from './duckdb.ts'

/** The longest row that a streamed input may have; DuckDB's buffers are sized by it. */
const MAX_LINE_BYTES = 16 * 1024 * 1024

/** Where a descriptor of this process can be opened by name. */
export function descriptorPath(descriptor: number): string {
  return `/dev/fd/${descriptor}`
}

/** Makes the views that a request's statements read, in place of those of the request before. */
export async function replaceRelations(connection: DuckDBConnection, tables: readonly EngineTable[]): Promise<void> {
  for (const table of tables) {
    const name = quoteTable(innerName(table.name))
    await execute(connection, `CREATE OR REPLACE VIEW ${name} AS ${parquetRelation(table)}`)
  }
}

/** Makes the views that the job's statements read. */
export async function openRelations(connection: DuckDBConnection, job: ChildJob): Promise<void> {
  for (const table of job.tables) await openTable(connection, table)
  if (!job.csvInput) return
  const { name, columns } = job.csvInput
  const types = columns.map((column) => `${quoteText(column.name)}: ${quoteText(arrivingType(column))}`)
  await execute(
    connection,
    `CREATE VIEW ${quoteName(name)} AS SELECT ${columns.map(arrived).join(', ')}
      FROM read_csv(${quoteText(descriptorPath(INPUT_FD))},
      auto_detect = false, header = false, delim = ',', quote = '"', escape = '"', new_line = '\\n', nullstr = '',
      allow_quoted_nulls = false, strict_mode = true, parallel = false, max_line_size = ${MAX_LINE_BYTES}, buffer_size = ${2 * MAX_LINE_BYTES},
      columns = {${types.join(', ')}})`,
  )
}

type Column = CsvInput['columns'][number]

/** Bytes come as PostgreSQL writes them, which DuckDB would read as a text that has one escape. */
const arrivingType = ({ type }: Column): string => sqlType(type === 'binary' ? 'string' : type)

function arrived({ name, type }: Column): string {
  const column = quoteName(name)
  return type === 'binary' ? `unhex(substr(${column}, 3)) AS ${column}` : column
}

async function openTable(connection: DuckDBConnection, table: EngineTable): Promise<void> {
  const inner = innerName(table.name)
  const schema = inner.length > 1 ? inner[0] : null
  if (schema !== null && schema !== undefined) {
    await execute(connection, `CREATE SCHEMA IF NOT EXISTS ${quoteName(schema)}`)
  }
  const name = quoteTable(inner)
  if (table.rows === undefined) await execute(connection, `CREATE VIEW ${name} AS ${parquetRelation(table)}`)
  else await execute(connection, `CREATE TABLE ${name} AS ${literalRelation(table.columns, table.rows)}`)
}
