import { createRequire } from 'node:module'
import { setTimeout as sleep } from 'node:timers/promises'
import {
  type DuckDBConnection,
  DuckDBInstance,
  type DuckDBPendingResult,
  type DuckDBPreparedStatement,
  type DuckDBResult,
} from '@duckdb/node-api'
import accessors from '@duckdb/node-api/lib/vectors/dataAccessors.js'
import type bindings from '@duckdb/node-bindings'
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
  if (parameters.length !== statement.parameterCount) throw otherParameters(statement.parameterCount, parameters.length)
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

function otherParameters(wanted: number, sent: number): SluiceError {
  const few = `${wanted} ${wanted === 1 ? 'parameter' : 'parameters'}`
  return new SluiceError(
    'INVALID_DATA',
    `the statement has ${few}, and ${sent} ${sent === 1 ? 'value was' : 'values were'} sent`,
    {
      code: 'sql_invalid_input',
      remedy: 'Send as many params as the statement has.',
    },
  )
}

/** Runs one statement of ours and drops what it gives. */
export async function execute(
  connection: DuckDBConnection,
  sql: string,
  parameters: readonly Value[] = [],
  run: (statement: DuckDBPreparedStatement) => Promise<unknown> = (statement) => statement.run(),
): Promise<void> {
  const statement = await prepare(connection, sql, parameters)
  try {
    await run(statement)
  } finally {
    statement.destroySync()
  }
}

/** The driver has no call of its own for it. Not by `import`: where the program is one file, the native part stands in its place. */
const duckdb: typeof bindings = createRequire(import.meta.url)('@duckdb/node-bindings')

const LONGEST_WAIT_MS = 8

/**
 * For what may take long: DuckDB's own threads do it (`lockSettings` lets them do all of it), and this one looks whether they are
 * done. `run` would work along with them, and where nothing is left to begin, ask without a pause until the others are done: the
 * rows of a scan, which one thread writes, cost two and three times as much by that.
 */
export async function runInThreads(statement: DuckDBPreparedStatement): Promise<DuckDBResult> {
  const pending = statement.start()
  if (hasThreads) await untilOver(pending)
  return pending.getResult()
}

let hasThreads = true

/** So long nobody works only where there is nobody, or on a machine that has other cares. */
const NOBODY_MS = 2_000

/**
 * To be called when the threads are begun: where the system gives none, by a limit of its own, DuckDB says nothing, and statements
 * would wait for ever. They are then worked on as `run` does it.
 */
export async function lookForThreads(connection: DuckDBConnection): Promise<void> {
  const statement = await prepare(connection, 'SELECT 1', [])
  try {
    const pending = statement.start()
    hasThreads = await untilOver(pending, performance.now() + NOBODY_MS)
    await pending.getResult()
  } finally {
    statement.destroySync()
  }
}

/** False where it is not over by then. Throws what it failed by. */
async function untilOver(pending: DuckDBPendingResult, byMs = Number.POSITIVE_INFINITY): Promise<boolean> {
  const { pending_result: state } = pending as unknown as { readonly pending_result: bindings.PendingResult }
  for (let waitMs = 0; !isOver(state); waitMs = Math.min(waitMs + 1, LONGEST_WAIT_MS)) {
    if (performance.now() > byMs) return false
    await sleep(waitMs)
  }
  return true
}

/** Throws what it failed by. */
function isOver(state: bindings.PendingResult): boolean {
  const now = duckdb.pending_execute_check_state(state)
  const { NO_TASKS_AVAILABLE, RESULT_NOT_READY } = duckdb.PendingState
  if (now === NO_TASKS_AVAILABLE || now === RESULT_NOT_READY) return false
  // It says ERROR of what is done, too: only the one that failed has a message.
  const failure = duckdb.pending_error(state)
  if (failure !== '') throw new Error(failure)
  return true
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
