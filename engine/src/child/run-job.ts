import type { DuckDBConnection } from '@duckdb/node-api'
import { withState } from '../dialect/states.ts'
import { fromDriver } from '../driver-error.ts'
import { isStable } from '../guard/stability.ts'
import type { TreeNode } from '../guard/tree.ts'
import type { Within } from '../job.ts'
import { columnLineage } from '../lineage/lineage.ts'
import type {
  ChildJob,
  ChildRequest,
  ChildStatement,
  FromChild,
  Opening,
  WireFilesOutput,
  WireInspectOutput,
  WireOutput,
  WireResult,
  WireStep,
  WireStreamOutput,
} from '../protocol.ts'
import { fromWire } from '../protocol.ts'
import { asTexts, collectRows } from './collect.ts'
import { execute, prepare, runInThreads } from './duckdb.ts'
import { type GuardedSql, guardPostgresql, guardStatement, guardWithin } from './guarded-sql.ts'
import { GuardedTexts } from './guarded-texts.ts'
import { inspect } from './inspect.ts'
import { writeMark, writeOutput, writeOutputFile } from './output.ts'
import { openRelations, replaceRelations } from './relations.ts'
import { changeThreads, lockSettings } from './settings.ts'

type Send = (message: FromChild) => void

/** Runs the job's statements in order and says what came of them. The parent ends this process afterwards. */
export async function runJob(
  connection: DuckDBConnection,
  job: ChildJob,
  send: Send,
  { isFirst }: { readonly isFirst: boolean },
): Promise<void> {
  if (job.grounds === null) {
    await openRelations(connection, job)
    await lockSettings(connection, job)
    return runSteps(connection, job, send)
  }
  await (isFirst ? lockSettings : changeThreads)(connection, job)
  const sent = await leavingNothing(connection, async () => {
    const messages: FromChild[] = []
    await openRelations(connection, job)
    await runSteps(connection, job, (message) => messages.push(message))
    return messages
  })
  // Who is told that the job is done may send another one.
  for (const message of sent) send(message)
}

/** What is made beside files is gone with the transaction: views, tables, macros. */
async function leavingNothing<T>(connection: DuckDBConnection, work: () => Promise<T>): Promise<T> {
  await execute(connection, 'BEGIN TRANSACTION')
  try {
    return await work()
  } finally {
    await execute(connection, 'ROLLBACK')
  }
}

async function runSteps(connection: DuckDBConnection, job: ChildJob, send: Send): Promise<void> {
  const results: WireResult[] = []
  let isStopped = false
  for (const step of job.steps) {
    const result = await runStep(connection, job, step)
    if (result) results.push(result)
    isStopped = step.gate && result !== null && countsAny(result)
    if (isStopped) break
  }
  const { output } = job
  if (!output || isStopped) {
    send({ kind: 'opened', results, columns: [], lineage: [] })
    send({ kind: 'done', rows: 0, files: [] })
    return
  }
  if (isInspection(output)) {
    send({ kind: 'opened', results, ...(await inspect(connection, output, job.tables)) })
    send({ kind: 'done', rows: 0, files: [] })
    return
  }
  await runOutput(connection, job, output, results, send)
}

async function runOutput(
  connection: DuckDBConnection,
  job: ChildJob,
  output: WireStreamOutput | WireFilesOutput,
  results: readonly WireResult[],
  send: Send,
): Promise<void> {
  const within = 'within' in output ? output.within : undefined
  if (!('dialect' in output) || output.dialect !== 'postgresql' || job.trust !== 'tenant') {
    return writeJudged(connection, job, output, results, send, await judged(connection, job, output.sql, within))
  }
  try {
    await writeJudged(connection, job, output, results, send, await judgedPostgresql(connection, job, output))
  } catch (error) {
    throw withState(error)
  }
}

async function writeJudged(
  connection: DuckDBConnection,
  job: ChildJob,
  output: WireStreamOutput | WireFilesOutput,
  results: readonly WireResult[],
  send: Send,
  { sql, tree, names }: Judged,
): Promise<void> {
  const told = (opening: Opening) =>
    send({
      kind: 'opened',
      results,
      ...opening,
      columns: named(opening.columns, names),
      lineage: lineageOf(job, output, tree, opening),
      ...(tree === null ? {} : { isStable: isStable(tree) }),
    })
  const written = await writeOutput(connection, { ...output, sql }, job.limits, told)
  if (job.mark !== null) writeMark(job.mark)
  send({ kind: 'done', ...written })
}

/** Under the names that are known: before the first star, behind the last, and where one stands alone. */
function named(columns: Opening['columns'], names: GuardedSql['names']): Opening['columns'] {
  if (names === undefined) return columns
  const first = names.indexOf(null)
  // One that was written has become several, and which of them is not told.
  if (first < 0 && names.length !== columns.length) return columns
  const behind = names.length - 1 - names.lastIndexOf(null)
  return columns.map((column, at) => {
    const fromEnd = columns.length - at
    const place = first < 0 || at < first ? at : fromEnd <= behind ? names.length - fromEnd : -1
    return { ...column, name: names[place] ?? column.name }
  })
}

/** Runs one more statement over the tables of a tenant's job, which `runJob` has done. */
export async function runStatement(
  connection: DuckDBConnection,
  job: ChildJob,
  { output, limits }: ChildStatement,
  send: Send,
): Promise<void> {
  await runOutput(connection, { ...job, limits }, output, [], send)
}

/** Answers one request of a session, whose job `runJob` has done. */
export function runRequest(connection: DuckDBConnection, job: ChildJob, request: ChildRequest): Promise<Answered> {
  const answered = () => answerRequest(connection, job, request)
  return job.grounds === null ? answered() : leavingNothing(connection, answered)
}

type Answered = Extract<FromChild, { kind: 'answered' }>

async function answerRequest(connection: DuckDBConnection, job: ChildJob, request: ChildRequest): Promise<Answered> {
  await replaceRelations(connection, request.tables)
  const results: WireResult[] = []
  for (const step of request.steps) {
    const result = await runStep(connection, job, step)
    if (result) results.push(result)
  }
  const { output, path } = request
  if (output === null) return { kind: 'answered', results, columns: [], lineage: [], rows: 0 }
  return { kind: 'answered', results, ...(await writeOutputFile(connection, output, job.limits, path)) }
}

function countsAny({ rowsJson }: WireResult): boolean {
  return (JSON.parse(rowsJson) as readonly unknown[]).some((count) => Number(count) > 0)
}

/** For answers that say of each column what it is made of. */
function lineageOf(job: ChildJob, { kind }: WireOutput, tree: TreeNode | null, { columns }: Opening) {
  return tree === null || kind !== 'json-rows' ? [] : columnLineage(tree, job.tables, columns)
}

function isInspection(output: WireOutput): output is WireInspectOutput {
  return output.kind === 'inspect' || output.kind === 'inspect-condition'
}

async function runStep(connection: DuckDBConnection, job: ChildJob, step: WireStep): Promise<WireResult | null> {
  const judgedSql = (await judged(connection, job, step.sql, step.within)).sql
  const parameters = step.parameters.map(fromWire)
  try {
    const { textCharacters } = step
    const sql = textCharacters === null ? judgedSql : await asTexts(connection, judgedSql, parameters, textCharacters)
    if (step.collect) return await collectRows(await prepare(connection, sql, parameters), step.maxRows)
    await execute(connection, sql, parameters, runInThreads)
    return null
  } catch (error) {
    throw fromDriver(error, step.sql)
  }
}

type Judged = Pick<GuardedSql, 'sql' | 'names'> & { readonly tree: TreeNode | null }

/** The text that may run: our own as it stands, a tenant's as the guard has written it down, with its tree. */
async function judged(
  connection: DuckDBConnection,
  job: ChildJob,
  sql: string,
  within: Within | null | undefined,
): Promise<Judged> {
  if (job.trust === 'own') return { sql, tree: null }
  const tables = job.tables.map((table) => table.name)
  if (within) return await guardWithin(connection, sql, within, tables)
  // A child that stays is asked the same text again and again, and its tables are the same for ever.
  if (job.mark === null) return await guardStatement(connection, sql, tables)
  return await judgedBefore.get(sql, () => guardStatement(connection, sql, tables))
}

function judgedPostgresql(connection: DuckDBConnection, job: ChildJob, { sql, parameters }: WireStreamOutput) {
  const values = parameters.map(fromWire)
  const judge = () => guardPostgresql(connection, sql, job.tables, values)
  // What comes of it may hang on the values.
  return job.mark === null || values.length > 0 ? judge() : judgedBefore.get(`postgresql ${sql}`, judge)
}

const judgedBefore = new GuardedTexts()
