import type { ReadEvent, ReadRequest } from '@sluice/sdk'
import { OutOfTime } from '../server/deadline.ts'
import { Interrupted } from '../server/failure.ts'
import { chosenColumns, reached, refuseOutright, requestedSchema, tableMissing } from '../server/request.ts'
import { type CopyOut, isRefused } from './copy-out.ts'
import { sourceFailure, sqlState } from './failure.ts'
import { planIncrement } from './increment.ts'
import { type Chosen, carriedRow, rejectsOf } from './reject.ts'
import { findRelation, type Relation, toColumn } from './relation.ts'
import { copyStatement, qualified } from './select.ts'
import { openSession, type Session, type Way } from './session.ts'
import { FULL_STATE } from './state.ts'

/** Beside the time that the rows may take, which the server watches too: to log in, and to find the table. */
const BEFORE_ROWS_MS = 60_000

/** See `Connector.read`. The table is locked against ALTER and read in one snapshot from catalog to last row. */
export async function* readTable(way: Way, request: ReadRequest): AsyncGenerator<ReadEvent> {
  const where = `table ${JSON.stringify(request.schema)}.${JSON.stringify(request.table)}`
  const timeoutMs = way.source.statementTimeoutMs + BEFORE_ROWS_MS
  const late = new AbortController()
  // The server has the same limit, and need not keep it.
  const stopWatch = way.host.clock.every(timeoutMs, () => late.abort(new OutOfTime(timeoutMs)))
  const signal = AbortSignal.any([request.signal, late.signal])
  let session: Session | null = null
  try {
    refuseOutright(way.source.schemas, request, where)
    session = await openSession(way, signal)
    yield* stream(way, session, { ...request, signal }, where)
  } catch (error) {
    const cause = late.signal.aborted && !request.signal.aborted ? late.signal.reason : error
    throw error instanceof Interrupted ? error.cause : sourceFailure(cause, where, request.signal)
  } finally {
    stopWatch()
    if (session) await (way.moment ? way.moment.leave(session) : session.close())
  }
}

async function* stream(way: Way, session: Session, request: ReadRequest, where: string): AsyncGenerator<ReadEvent> {
  const relation = await lockedRelation(way, session, request, where)
  const columns = chosenColumns(relation.columns, relation.columns, request, where)
  const schema = requestedSchema(columns.map(toColumn), relation.primaryKey, request, where)
  const increment =
    request.mode === 'incremental' ? await planIncrement(way, session, relation, columns, request) : null
  const { optional = [], marked = [] } = request
  const isOthers = (name: string) => !schema.primaryKey.includes(name) && name !== request.cursorColumn
  const may = new Set([...optional, ...marked].filter(isOthers))
  const asked = request.marked !== undefined
  const { sql, judged } = copyStatement(relation, columns, increment?.where ?? null, may, asked)
  const marks = asked && judged
  yield { kind: 'schema', schema, whole: !increment?.where, ...(marks ? { marks } : {}) }
  yield { kind: 'estimate', rows: increment?.where ? null : relation.estimatedRows }
  await reached(way.host, 'postgresql.after-snapshot')
  const copy = await session.copyOut(sql, { judged })
  const chosen = { columns, primaryKey: schema.primaryKey, optional: may, marks }
  const carried = yield* carry(copy, chosen, request.signal)
  await reached(way.host, 'postgresql.before-state')
  await (way.moment ? way.moment.end(session) : session.close())
  const rows = copy.rows + carried
  way.host.metrics.count('source_rows_read', rows)
  const state = increment?.nextState(copy.rows + copy.rejects) ?? FULL_STATE
  yield { kind: 'state', state, rows }
}

/** Gives how many rows came without some of their values. */
async function* carry(copy: CopyOut, chosen: Chosen, signal: AbortSignal): AsyncGenerator<ReadEvent, number> {
  let carried = 0
  for await (const item of copy) {
    signal.throwIfAborted()
    if (!isRefused(item)) {
      yield { kind: 'csv', chunk: item }
      continue
    }
    const row = carriedRow(item, chosen)
    if (row !== null) {
      carried += 1
      yield { kind: 'csv', chunk: row }
    }
    yield* rejectsOf(item, chosen, row !== null)
  }
  return carried
}

/**
 * LOCK TABLE comes first, since it takes no snapshot: after an ALTER that it waited for, both catalog and rows are seen
 * as altered. It does not take materialized views, foreign tables and grants on single columns, which an empty SELECT
 * locks just as well, a race with ALTER excepted, that then fails and is tried again.
 */
async function lockedRelation(way: Way, session: Session, request: ReadRequest, where: string): Promise<Relation> {
  const name = qualified({ schema: request.schema, name: request.table })
  const begin = () => (way.moment ? way.moment.begin(session) : session.begin())
  await begin()
  try {
    await session.run(`LOCK TABLE ${name} IN ACCESS SHARE MODE`)
  } catch (error) {
    if (sqlState(error) !== '42809' && sqlState(error) !== '42501') throw error
    await session.rollback()
    await begin()
    await session.run(`SELECT FROM ${name} LIMIT 0`)
  }
  const relation = await findRelation(session, request.schema, request.table)
  if (relation) await way.moment?.see(session, relation.oid)
  if (relation) return relation
  throw tableMissing(where)
}
