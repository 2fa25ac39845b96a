import type { ReadEvent, ReadRequest } from '@sluice/sdk'
import { OutOfTime } from '../server/deadline.ts'
import { Interrupted } from '../server/failure.ts'
import { chosenColumns, reached, refuseOutright, requestedSchema, tableMissing } from '../server/request.ts'
import { schemasOf } from './discover.ts'
import { sourceFailure } from './failure.ts'
import { planIncrement } from './increment.ts'
import { findRelation, type Relation, toColumn } from './relation.ts'
import { Rows } from './rows.ts'
import { openSession, type Session, type Way } from './session.ts'
import { ALIAS, qualified } from './sql.ts'
import { FULL_STATE } from './state.ts'
import { expressed } from './types.ts'

/** Beside the time that the rows may take, which the server watches too: to log in, and to find the table. */
const BEFORE_ROWS_MS = 60_000

/** See `Connector.read`. The table is kept from ALTER and read in one snapshot from catalog to last row. */
export async function* readTable(way: Way, request: ReadRequest, closed: AbortSignal): AsyncGenerator<ReadEvent> {
  const where = `table ${JSON.stringify(request.schema)}.${JSON.stringify(request.table)}`
  const timeoutMs = way.source.statementTimeoutMs + BEFORE_ROWS_MS
  const late = new AbortController()
  // The server has the same limit, and need not keep it.
  const stopWatch = way.host.clock.every(timeoutMs, () => late.abort(new OutOfTime(timeoutMs)))
  const signal = AbortSignal.any([request.signal, late.signal])
  try {
    refuseOutright(schemasOf(way), request, where)
    const within = (session: Session) => stream(way, session, { ...request, signal }, where)
    yield* way.moment ? readAtMoment(way, signal, closed, within) : readAlone(way, signal, within)
  } catch (error) {
    const cause = late.signal.aborted && !request.signal.aborted ? late.signal.reason : error
    throw error instanceof Interrupted ? error.cause : sourceFailure(cause, where, request.signal)
  } finally {
    stopWatch()
  }
}

type Stream = (session: Session) => AsyncGenerator<ReadEvent>

async function* readAlone(way: Way, signal: AbortSignal, within: Stream): AsyncGenerator<ReadEvent> {
  const session = await openSession(way, signal)
  try {
    await session.begin()
    yield* within(session)
  } finally {
    await session.close()
  }
}

/** The session outlives this read, unless it fails or is left in the middle. */
async function* readAtMoment(
  way: Way,
  signal: AbortSignal,
  closed: AbortSignal,
  within: Stream,
): AsyncGenerator<ReadEvent> {
  const { moment } = way
  if (moment === null) return
  signal.throwIfAborted()
  const { session, leave } = await moment.take(() => openSession(way, closed), signal)
  const onAbort = () => void session.close()
  signal.addEventListener('abort', onAbort, { once: true })
  let isRead = false
  try {
    yield* within(session)
    isRead = true
    moment.end()
  } catch (error) {
    throw moment.told(error)
  } finally {
    signal.removeEventListener('abort', onAbort)
    if (!isRead) await moment.fail()
    leave()
  }
}

async function* stream(way: Way, session: Session, request: ReadRequest, where: string): AsyncGenerator<ReadEvent> {
  const relation = await keptRelation(session, request, where)
  // Invisible columns come where they are named.
  const shown = relation.columns.filter(({ isInvisible }) => !isInvisible)
  const columns = chosenColumns(relation.columns, shown, request, where)
  const schema = requestedSchema(columns.map(toColumn), relation.primaryKey, request, where)
  const increment =
    request.mode === 'incremental' ? await planIncrement(way, session, relation, columns, request) : null
  const { optional = [], marked } = request
  const isOthers = (name: string) => !schema.primaryKey.includes(name) && name !== request.cursorColumn
  const may = new Set([...optional, ...(marked ?? [])].filter(isOthers))
  const marks = marked !== undefined
  yield { kind: 'schema', schema, whole: !increment?.where, ...(marks ? { marks } : {}) }
  yield { kind: 'estimate', rows: increment?.where ? null : relation.estimatedRows }
  await reached(way.host, 'mariadb.after-snapshot')
  const rows = new Rows({ columns, primaryKey: schema.primaryKey, optional: may, marks })
  const list = columns.map(({ name, carriage }) => expressed(name, carriage)).join(', ')
  const filter = increment?.where ? ` WHERE ${increment.where}` : ''
  const sql = `SELECT ${list} FROM ${qualified(relation)} AS ${ALIAS}${filter}`
  for await (const event of session.stream(sql, columns.length, (packets) => rows.take(packets))) {
    request.signal.throwIfAborted()
    yield event
  }
  await reached(way.host, 'mariadb.before-state')
  if (way.moment === null) await session.close()
  way.host.metrics.count('source_rows_read', rows.carried)
  const state = increment?.nextState(rows.carried + rows.refused) ?? FULL_STATE
  yield { kind: 'state', state, rows: rows.carried }
}

/** What was named in a transaction cannot be altered before its end: catalog and rows are of one shape. */
async function keptRelation(session: Session, request: ReadRequest, where: string): Promise<Relation> {
  // No name ends with a space: the server refuses the statement as such, in words that say nothing of a table.
  if ([request.schema, request.table].some((name) => name.endsWith(' '))) throw tableMissing(where)
  await session.query(`SELECT 1 FROM ${qualified({ schema: request.schema, name: request.table })} LIMIT 0`)
  const relation = await findRelation(session, request.schema, request.table)
  if (relation) return relation
  throw tableMissing(where)
}
