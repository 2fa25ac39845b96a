import { type DuckDBConnection, DuckDBInstance, type DuckDBPreparedStatement } from '@duckdb/node-api'
import accessors from '@duckdb/node-api/lib/vectors/dataAccessors.js'
import { SluiceError, type Value } from '@sluice/sdk'
import { BEYOND_LONG } from '../sql-text.ts'
import { resultTypeName } from './result-type.ts'

/**
 * The driver takes U+FEFF at the begin of a text for the mark of an encoding and leaves it out, of every text: values would
 * not be what they are, and the greatest text of a file less than it is, so that readers pass over the file.
 */
Object.assign(accessors, { textDecoder: new TextDecoder('utf-8', { ignoreBOM: true }) })

/**
 * Settings of the instance itself. One thread, because threads that DuckDB starts now would stay outside the walls
 * that go up later; the job raises it.
 */
const INSTANCE_SETTINGS = {
  threads: '1',
  autoinstall_known_extensions: 'false',
  autoload_known_extensions: 'false',
  allow_community_extensions: 'false',
  allow_unsigned_extensions: 'false',
  temp_directory: '',
} as const

export async function openDuckDb(): Promise<DuckDBConnection> {
  const instance = await DuckDBInstance.create(':memory:', { ...INSTANCE_SETTINGS })
  return await instance.connect()
}

/** Prepares exactly one statement; text with several is refused by the driver. */
export async function prepare(
  connection: DuckDBConnection,
  sql: string,
  parameters: readonly Value[],
): Promise<DuckDBPreparedStatement> {
  const statement = await connection.prepare(sql)
  if (parameters.length > statement.parameterCount) throw surplusParameters(statement.parameterCount)
  for (const [index, value] of parameters.entries()) bindValue(statement, index + 1, value)
  return statement
}

/** Of each parameter the type that the statement asks for; null where it does not say. */
export async function askedTypes(connection: DuckDBConnection, sql: string): Promise<readonly (string | null)[]> {
  const statement = await connection.prepare(sql)
  try {
    return Array.from({ length: statement.parameterCount }, (_, at) => askedType(statement, at + 1))
  } finally {
    statement.destroySync()
  }
}

function askedType(statement: DuckDBPreparedStatement, index: number): string | null {
  try {
    return resultTypeName(statement.parameterType(index))
  } catch {
    // The driver throws where the planner could not tell.
    return null
  }
}

function surplusParameters(wanted: number): SluiceError {
  return new SluiceError('INVALID_DATA', `the statement has ${wanted} parameters, and more values were sent`, {
    code: 'sql_invalid_input',
    remedy: 'Send as many params as the statement has.',
  })
}

/** Runs one statement of ours and drops what it gives. */
export async function execute(
  connection: DuckDBConnection,
  sql: string,
  parameters: readonly Value[] = [],
): Promise<void> {
  const statement = await prepare(connection, sql, parameters)
  try {
    await statement.run()
  } finally {
    statement.destroySync()
  }
}

function bindValue(statement: DuckDBPreparedStatement, index: number, value: Value): void {
  if (value === null) statement.bindNull(index)
  else if (typeof value === 'boolean') statement.bindBoolean(index, value)
  else if (typeof value === 'string') statement.bindVarchar(index, value)
  else if (typeof value === 'bigint') bindInteger(statement, index, value)
  else if (value instanceof Uint8Array) statement.bindBlob(index, value)
  else if (Number.isSafeInteger(value)) statement.bindBigInt(index, BigInt(value))
  else statement.bindDouble(index, value)
}

function bindInteger(statement: DuckDBPreparedStatement, index: number, value: bigint): void {
  if (value >= -BEYOND_LONG && value < BEYOND_LONG) statement.bindBigInt(index, value)
  else statement.bindHugeInt(index, value)
}
