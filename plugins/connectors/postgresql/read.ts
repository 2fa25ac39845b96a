import { type ReadEvent, type ReadRequest, SluiceError, type TableSchema, unsupported } from '@sluice/sdk'
import { OutOfTime } from '../server/deadline.ts'
import { Interrupted } from '../server/failure.ts'
import { type CopyOut, isRefused } from './copy-out.ts'
import { sourceFailure, sqlState } from './failure.ts'
import { planIncrement } from './increment.ts'
import { type Chosen, carriedRow, rejectsOf } from './reject.ts'
import { findRelation, type Relation, type RelationColumn, toColumn } from './relation.ts'
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
    refuseOutright(way, request, where)
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
  const columns = chosenColumns(relation, request, where)
  const schema = schemaOf(relation, columns, request, where)
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
  await reached(way, 'postgresql.after-snapshot')
  const copy = await session.copyOut(sql, { judged })
  const chosen = { columns, primaryKey: schema.primaryKey, optional: may, marks }
  const carried = yield* carry(copy, chosen, request.signal)
  await reached(way, 'postgresql.before-state')
  await (way.moment ? way.moment.end(session) : session.close())
  const rows = copy.rows + carried
  way.host.metrics.count('source_rows_read', rows)
  const state = increment?.nextState(copy.rows + copy.rejects) ?? FULL_STATE
  yield { kind: 'state', state, rows }
}

async function reached(way: Way, point: string): Promise<void> {
  try {
    await way.host.faultPoint(point)
  } catch (cause) {
    throw new Interrupted(point, { cause })
  }
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

function refuseOutright(way: Way, request: ReadRequest, where: string): void {
  if (request.mode !== 'full' && request.mode !== 'incremental') throw unsupported('reading by that mode')
  // A NUL would end the statement early on its way to the server.
  if (`${request.schema}${request.table}`.includes('\0')) throw tableMissing(where)
  const { schemas } = way.source
  if (schemas === null || schemas.includes(request.schema)) return
  throw new SluiceError('CONFIG', `${where}: its schema is not among those that this connection offers`, {
    code: 'source_schema_not_offered',
    remedy: 'Add the schema to the setting "schemas", or read another table.',
  })
}

function tableMissing(where: string): SluiceError {
  return new SluiceError('INVALID_DATA', `${where}: this is no table or view`, {
    code: 'source_table_missing',
    remedy: 'Name a table, view, materialized view or foreign table; discover lists them.',
  })
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

function chosenColumns(relation: Relation, request: ReadRequest, where: string): readonly RelationColumn[] {
  const byName = new Map(relation.columns.map((column) => [column.name, column]))
  const names = request.columns.length > 0 ? request.columns : [...byName.keys()]
  const missing = names.filter((name) => !byName.has(name))
  if (missing.length > 0) {
    throw new SluiceError('INVALID_DATA', `${where}: the login finds no column ${list(missing)}`, {
      code: 'source_column_missing',
      remedy: 'Discover the table again; the column was dropped, renamed, or is not granted to this login.',
      details: { columns: missing },
    })
  }
  if (names.length === 0) {
    throw new SluiceError('INVALID_DATA', `${where}: it has no columns`, {
      code: 'source_table_empty',
      remedy: 'Read a table that has columns.',
    })
  }
  return names.flatMap((name) => byName.get(name) ?? [])
}

function schemaOf(
  relation: Relation,
  columns: readonly RelationColumn[],
  request: ReadRequest,
  where: string,
): TableSchema {
  const chosen = new Set(columns.map((column) => column.name))
  const missing = request.primaryKey.filter((name) => !chosen.has(name))
  if (missing.length > 0) {
    throw new SluiceError('INVALID_DATA', `${where}: the key names ${list(missing)}, which is not read`, {
      code: 'source_key_not_read',
      remedy: 'Add the key to the columns that are read, or name another key.',
      details: { columns: missing },
    })
  }
  const known = relation.primaryKey.every((name) => chosen.has(name)) ? relation.primaryKey : []
  return { columns: columns.map(toColumn), primaryKey: request.primaryKey.length > 0 ? request.primaryKey : known }
}

function list(names: readonly string[]): string {
  return names.map((name) => JSON.stringify(name)).join(', ')
}
