/**
 * Which rows an incremental read takes, so that none is lost that was committed late.
 *
 * These servers do not show by which transaction a row was written, so that a column has to tell what has changed. Its value is set
 * when a row is written, not when it is committed: each read starts before the greatest value seen, by an overlap and by the time
 * that the oldest transaction had been open when the snapshot was taken. Of the rows from there on the state keeps a count and a
 * sum; where both are as they were, nothing has changed and no row comes again.
 *
 * Times mean something within one history only: after a start of the server, in a table that was made anew, and where the greatest
 * value is gone, every row is read once.
 */
import { createHash } from 'node:crypto'
import { type ConnectorState, type ReadRequest, SluiceError } from '@sluice/sdk'
import type { Relation, RelationColumn } from './relation.ts'
import type { Session, Way } from './session.ts'
import { ALIAS, qualified, quoteText, reference } from './sql.ts'
import { type CursorState, parseState, type State, toConnectorState } from './state.ts'
import { expressed } from './types.ts'

export interface Increment {
  /** SQL for the rows to take; null: all. */
  readonly where: string | null
  /** The state after a read that took `rowsSeen` rows, rejected ones included. */
  nextState(rowsSeen: number): ConnectorState
}

/** A clock that is set meanwhile, and seconds that are rounded, move the start that a server tells of. */
const SAME_START_S = 5
/** A table made anew within it may have the same time of creation. */
const YOUNG_S = 3

export async function planIncrement(
  way: Way,
  session: Session,
  relation: Relation,
  columns: readonly RelationColumn[],
  request: ReadRequest,
): Promise<Increment> {
  const former = parseState(request.state)
  const cursor = cursorOf(relation, request)
  const server = await serverOf(session)
  const table = await identityOf(session, relation, server)
  const known = {
    strategy: 'cursor',
    columns: digestOf(columns),
    cursor: cursor.name,
    startedS: server.startedS,
  } as const
  const ask = new Asked(way, session, relation, columns, cursor)
  const plan =
    table === null
      ? { where: null, next: { strategy: 'full' } as const }
      : await planned(ask, { ...known, table }, former)
  return {
    where: plan.where,
    nextState: (rowsSeen) =>
      request.state !== null && plan.where !== null && (rowsSeen === 0 || plan.next === former)
        ? request.state
        : toConnectorState(plan.next),
  }
}

interface Plan {
  readonly where: string | null
  readonly next: State
}

type Known = Pick<CursorState, 'strategy' | 'table' | 'columns' | 'cursor' | 'startedS'>

async function planned(ask: Asked, known: Known, former: State | null): Promise<Plan> {
  if (former?.strategy === 'cursor' && isSame(former, known)) {
    const since = ask.since(former.from)
    if ((await ask.window(former.from)) === former.window) return { where: 'FALSE', next: former }
    const { position, from } = await ask.bounds(since)
    if (position === null && former.position !== null) return { where: since, next: former }
    const isBehind = former.position !== null && position !== null && padded(position) < padded(former.position)
    if (!isBehind) return { where: since, next: { ...known, position, from, window: await ask.window(from) } }
    // The newest row that was read is gone: it was deleted, or the source is not what it was then.
  }
  const { position, from } = await ask.bounds(null)
  return { where: null, next: { ...known, position, from, window: await ask.window(from) } }
}

function isSame(former: CursorState, now: Known): boolean {
  return (
    former.table === now.table &&
    former.columns === now.columns &&
    former.cursor === now.cursor &&
    Math.abs(former.startedS - now.startedS) <= SAME_START_S
  )
}

/** Times are compared as texts: with all of their digits. */
function padded(time: string): string {
  const [whole = '', fraction = ''] = time.split('.')
  return `${whole}.${fraction.padEnd(6, '0')}`
}

/** What is asked of the table's rows, of the session's instant. */
class Asked {
  readonly #session: Session
  readonly #from: string
  readonly #cursor: string
  readonly #isNullable: boolean
  readonly #backS: number
  readonly #now: string
  readonly #sum: string

  constructor(
    { source }: Way,
    session: Session,
    relation: Relation,
    columns: readonly RelationColumn[],
    cursor: RelationColumn,
  ) {
    this.#session = session
    this.#from = `${qualified(relation)} AS ${ALIAS}`
    this.#cursor = reference(cursor.name)
    this.#isNullable = cursor.nullable
    this.#backS = source.cursorOverlapS + (session.openSinceS ?? 0)
    // A time ahead of the clock counts as now, lest one row of a skewed clock hide all that follow; one without a zone may be
    // local to anywhere, 14 hours ahead at most.
    this.#now = cursor.carriage.kind === 'instant' ? 'NOW(6)' : 'NOW(6) + INTERVAL 14 HOUR'
    const cells = columns.map(({ name, carriage }) => `IFNULL(MD5(${expressed(name, carriage)}), '-')`)
    this.#sum = `BIT_XOR(CAST(CONV(LEFT(MD5(CONCAT(${cells.join(', ')})), 16), 16, 10) AS UNSIGNED))`
  }

  /** Rows without a time, or with one that is zero, have no place in the order: they are taken every time. */
  since(from: string | null): string {
    if (from === null) return 'TRUE'
    // Nothing but ranges of the column, which an index on it can answer.
    const timeless = `${this.#cursor} = '0000-00-00 00:00:00'${this.#isNullable ? ` OR ${this.#cursor} IS NULL` : ''}`
    return `(${this.#cursor} >= ${quoteText(from)} OR ${timeless})`
  }

  /** The greatest time, and where the next read has to start; null where that is everywhere. */
  async bounds(where: string | null): Promise<{ readonly position: string | null; readonly from: string | null }> {
    const [row] = await this.#session.query(
      `SELECT CAST(m.position AS CHAR), CAST(LEAST(m.position, ${this.#now}) - INTERVAL ${this.#backS} SECOND AS CHAR)
       FROM (SELECT MAX(${this.#cursor}) AS position FROM ${this.#from} ${where === null ? '' : `WHERE ${where}`}) AS m`,
    )
    const [position = null, from = null] = row ?? []
    return position === null || position.startsWith('0000') ? { position: null, from: null } : { position, from }
  }

  /** Of the rows from there on. */
  async window(from: string | null): Promise<string> {
    const [row] = await this.#session.query(
      `SELECT CONCAT(COUNT(*), ' ', ${this.#sum}) FROM ${this.#from} WHERE ${this.since(from)}`,
    )
    return row?.[0] ?? '0 0'
  }
}

interface Server {
  readonly identity: string
  readonly startedS: number
  readonly nowS: number
}

async function serverOf(session: Session): Promise<Server> {
  const names = await session.query(
    `SHOW GLOBAL VARIABLES WHERE Variable_name IN ('server_uid', 'server_uuid', 'hostname', 'port', 'datadir')`,
  )
  const [uptime] = await session.query(`SHOW GLOBAL STATUS LIKE 'Uptime'`)
  const [now] = await session.query('SELECT UNIX_TIMESTAMP()')
  const nowS = Number(now?.[0] ?? 0)
  return { identity: JSON.stringify(names), startedS: nowS - Number(uptime?.[1] ?? 0), nowS }
}

/** Another text once the table was dropped and made anew, or rebuilt; null where that could not be told. */
async function identityOf(session: Session, relation: Relation, server: Server): Promise<string | null> {
  const facts = (...more: readonly unknown[]) => hash([server.identity, relation.schema, relation.name, ...more])
  if (relation.kind === 'view') return facts('view', await definitionOf(session, relation))
  const ids = relation.engine === 'InnoDB' ? await engineIds(session, relation) : null
  if (ids !== null) return facts('ids', ids)
  // Its partitions change places with other tables, whose rows bring their times with them, and nothing else tells of that.
  if (relation.kind === 'partitioned_table') return null
  const { createdS } = relation
  return createdS === null || server.nowS - createdS <= YOUNG_S ? null : facts('created', createdS)
}

async function definitionOf(session: Session, { schema, name }: Relation): Promise<string> {
  const [row] = await session.query(
    `SELECT VIEW_DEFINITION FROM information_schema.VIEWS
     WHERE TABLE_SCHEMA = ${quoteText(schema)} AND TABLE_NAME = ${quoteText(name)}`,
  )
  return row?.[0] ?? ''
}

/** The numbers by which the engine knows the table and its partitions; null where the login may not see them. */
async function engineIds(session: Session, { schema, name }: Relation): Promise<string | null> {
  if (session.openSinceS === null) return null
  const table = session.isMariaDb ? 'INNODB_SYS_TABLES' : 'INNODB_TABLES'
  const file = (text: string) => `CAST(CONVERT(${quoteText(text)} USING filename) AS BINARY)`
  const path = `CONCAT(${file(schema)}, '/', ${file(name)})`
  const [row] = await session.query(
    `SELECT GROUP_CONCAT(TABLE_ID ORDER BY TABLE_ID) FROM information_schema.${table}
     WHERE BINARY NAME = ${path} OR UPPER(LEFT(NAME, CHAR_LENGTH(${path}) + 3)) = UPPER(CONCAT(CONVERT(${path} USING utf8mb4), '#P#'))`,
  )
  return row?.[0] ?? null
}

/** The one that was asked for; without one, the one that the server itself sets with every change. */
function cursorOf(relation: Relation, request: ReadRequest): RelationColumn {
  const column =
    request.cursorColumn === null
      ? relation.columns.find((one) => one.isChangeTime && !one.nullable)
      : relation.columns.find((one) => one.name === request.cursorColumn)
  if (column && (column.carriage.kind === 'instant' || column.carriage.kind === 'datetime')) return column
  const name = request.cursorColumn === null ? 'no column' : `column ${JSON.stringify(request.cursorColumn)}`
  throw new SluiceError('CONFIG', `${qualified(relation)} cannot be read incrementally by ${name}`, {
    code: 'source_cursor_unsafe',
    remedy:
      'Name a TIMESTAMP or DATETIME column that changes with every change, best one with ON UPDATE CURRENT_TIMESTAMP; or read it in full.',
  })
}

function digestOf(columns: readonly RelationColumn[]): string {
  return hash(
    columns.map(({ ordinal, name, sourceType, generation, carriage }) => [
      ordinal,
      name,
      sourceType,
      generation,
      carriage.type,
    ]),
  )
}

function hash(facts: unknown): string {
  return createHash('sha256').update(JSON.stringify(facts)).digest('base64url').slice(0, 22)
}
