/** What the source keeps for a capture: a publication of exactly its tables, and one slot. Made once, whoever asks. */
import {
  type ChangeSource,
  type ChangeStream,
  type PreparedChanges,
  type RefusedStream,
  SluiceError,
  type TableIncarnation,
} from '@sluice/sdk'
import { escapeIdentifier } from 'pg'
import { sqlState } from '../failure.ts'
import type { Session, Way } from '../session.ts'
import { isRefusal, type Judged, judge } from './identity.ts'
import { lineageText, orderText } from './position.ts'
import { captureName, dropSlot, lineageOf, lockCapture, newSlotName, type Slot, slotsOf } from './slot.ts'

type PrepareRequest = Parameters<ChangeSource['prepare']>[0]

const FAILOVER_SINCE = 170_000

interface ServerFacts {
  readonly wal_level: string
  readonly standby: boolean
  readonly replicates: boolean
  readonly version: number
}

export async function prepareLog(way: Way, session: Session, request: PrepareRequest): Promise<PreparedChanges> {
  const capture = captureName(request.capture)
  const facts = await requireAble(session)
  await session.run("SET lock_timeout = '10s'")
  await lockCapture(session, capture)
  // The publication first: the log is read with the catalog of each moment, and must find it from the first one on.
  const refused = await publish(way, session, capture, request.streams)
  const slot = await onlySlot(way, session, capture, request.anew === true, facts.version)
  const { timeline, ...lineage } = await lineageOf(session, slot.name)
  return {
    position: { lineage: lineageText(lineage), order: orderText({ lsn: slot.confirmed, timeline }) },
    refused,
    incarnations: await session.query<TableIncarnation>(INCARNATIONS, [capture]),
  }
}

/**
 * The membership of a table in a publication has a number of its own: of a table made anew, or left out for a while, it
 * is another. Columns come into it by type, and by the default that rows from before them have.
 */
const INCARNATIONS = `SELECT n.nspname::text AS schema, c.relname::text AS table,
    md5(concat_ws(' ', r.oid, c.oid, (
      SELECT string_agg(format('%s %s %s %s %s', a.attnum, a.attname, a.atttypid, a.atttypmod, a.attmissingval), chr(10) ORDER BY a.attnum)
      FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped))) AS incarnation
  FROM pg_publication p JOIN pg_publication_rel r ON r.prpubid = p.oid JOIN pg_class c ON c.oid = r.prrelid
  JOIN pg_namespace n ON n.oid = c.relnamespace WHERE p.pubname = $1
  ORDER BY n.nspname::text COLLATE "C", c.relname::text COLLATE "C"`

export async function refusalsOf(
  session: Session,
  streams: readonly ChangeStream[],
): Promise<readonly RefusedStream[]> {
  await requireAble(session)
  const refused: RefusedStream[] = []
  for (const stream of streams) {
    const one = await judge(session, stream)
    if (isRefusal(one)) refused.push(one)
    else if (!one.owned) refused.push(notOwned(stream))
  }
  return refused
}

async function requireAble(session: Session): Promise<ServerFacts> {
  const [facts] = await session.query<ServerFacts>(
    `SELECT current_setting('wal_level') AS wal_level, pg_is_in_recovery() AS standby,
      current_setting('server_version_num')::int AS version,
      (SELECT rolreplication OR rolsuper FROM pg_roles WHERE rolname = current_user) AS replicates`,
  )
  if (!facts) throw new Error('the server sent nothing of itself')
  if (facts.standby) {
    throw refusal(
      'CONFIG',
      'the server is a standby, where no log of changes can be kept',
      'changes_standby',
      'Connect to the primary server.',
    )
  }
  if (facts.wal_level !== 'logical') {
    throw refusal(
      'CONFIG',
      `the server's wal_level is ${facts.wal_level}`,
      'changes_wal_level',
      'ALTER SYSTEM SET wal_level = logical, then restart the server.',
    )
  }
  if (!facts.replicates) {
    throw refusal(
      'PERMISSION',
      'the login may not read the log',
      'changes_not_replication',
      'Let a superuser run ALTER ROLE … REPLICATION for this login.',
    )
  }
  return facts
}

function refusal(kind: 'CONFIG' | 'PERMISSION', what: string, code: string, remedy: string): SluiceError {
  return new SluiceError(kind, `changes cannot be read from this source: ${what}`, { code, remedy })
}

function notOwned({ schema, table }: ChangeStream): RefusedStream {
  const name = `${escapeIdentifier(schema)}.${escapeIdentifier(table)}`
  return {
    schema,
    table,
    code: 'changes_not_owner',
    reason: 'only who owns a table may let the log tell it',
    remedy: `Let an owner run ALTER TABLE ${name} OWNER TO a role that this login is a member of.`,
  }
}

async function publish(
  way: Way,
  session: Session,
  capture: string,
  streams: readonly ChangeStream[],
): Promise<readonly RefusedStream[]> {
  await session.run('BEGIN')
  try {
    const refused: RefusedStream[] = []
    const told: Judged[] = []
    for (const stream of streams) {
      const one = await lockedAndJudged(way, session, stream)
      if (isRefusal(one)) refused.push(one)
      else if (one.owned) told.push(one)
      else refused.push(notOwned(stream))
    }
    await setMembers(
      session,
      capture,
      told.map(({ stream }) => stream),
    )
    await session.run('COMMIT')
    return refused
  } catch (error) {
    // What failed is told; a session that cannot even end its transaction is closed by the caller.
    await session.run('ROLLBACK').catch(() => undefined)
    throw sqlState(error) === '42501' ? noCreate() : error
  }
}

function noCreate(): SluiceError {
  return refusal(
    'PERMISSION',
    'the login may not make a publication in this database',
    'changes_not_creator',
    'Let the owner of the database run GRANT CREATE ON DATABASE … to this login.',
  )
}

/** Locked, so that its identity is the same when it is added. */
async function lockedAndJudged(way: Way, session: Session, stream: ChangeStream): Promise<Judged | RefusedStream> {
  const { schemas } = way.source
  if (schemas !== null && !schemas.includes(stream.schema)) {
    return {
      schema: stream.schema,
      table: stream.table,
      code: 'source_schema_not_offered',
      reason: 'its schema is not among those that this connection offers',
      remedy: 'Add the schema to the setting "schemas".',
    }
  }
  const first = await judge(session, stream)
  if (isRefusal(first) || !first.owned) return first
  await session.run(`LOCK TABLE ${qualifiedName(stream)} IN SHARE UPDATE EXCLUSIVE MODE`)
  return judge(session, stream)
}

const MEMBERS = `SELECT n.nspname::text AS schema, c.relname::text AS table FROM pg_publication p
  JOIN pg_publication_rel r ON r.prpubid = p.oid JOIN pg_class c ON c.oid = r.prrelid
  JOIN pg_namespace n ON n.oid = c.relnamespace WHERE p.pubname = $1`

async function setMembers(session: Session, name: string, wanted: readonly ChangeStream[]): Promise<void> {
  const list = wanted.map(qualifiedName)
  const publication = escapeIdentifier(name)
  const [there] = await session.query('SELECT 1 FROM pg_publication WHERE pubname = $1', [name])
  if (!there) {
    const tables = list.length === 0 ? '' : ` FOR TABLE ${list.join(', ')}`
    await session.run(`CREATE PUBLICATION ${publication}${tables} WITH (publish_via_partition_root = true)`)
    return
  }
  const members = (await session.query<{ schema: string; table: string }>(MEMBERS, [name])).map(qualifiedName)
  if ([...members].sort().join() === [...list].sort().join()) return
  if (list.length > 0) await session.run(`ALTER PUBLICATION ${publication} SET TABLE ${list.join(', ')}`)
  else await session.run(`ALTER PUBLICATION ${publication} DROP TABLE ${members.join(', ')}`)
}

function qualifiedName({ schema, table }: { readonly schema: string; readonly table: string }): string {
  return `${escapeIdentifier(schema)}.${escapeIdentifier(table)}`
}

async function onlySlot(way: Way, session: Session, capture: string, anew: boolean, version: number): Promise<Slot> {
  const there = await slotsOf(session, capture)
  const kept = anew ? undefined : there.find((slot) => !slot.isLost)
  for (const slot of there) if (slot !== kept) await dropSlot(session, capture, slot.name)
  if (kept) return kept
  const name = newSlotName(capture, (count) => way.host.randomBytes(count))
  try {
    const failover = version >= FAILOVER_SINCE ? ', false, false, true' : ''
    await session.query(`SELECT pg_create_logical_replication_slot($1, 'pgoutput'${failover})`, [name])
  } catch (error) {
    if (sqlState(error) !== '53400') throw error
    throw refusal(
      'CONFIG',
      'all its replication slots are taken',
      'changes_no_slot',
      'Raise max_replication_slots at the source, or drop slots that nobody reads.',
    )
  }
  const made = (await slotsOf(session, capture)).find((slot) => slot.name === name)
  if (!made) throw new Error('the server sent no slot that it has made')
  return made
}
