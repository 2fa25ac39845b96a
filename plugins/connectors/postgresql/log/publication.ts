/**
 * The publication of a capture: exactly the tables that are asked for and can be told. Where somebody else has made it, the
 * login owns neither it nor the tables, and what is in it is for them to say: nothing of it is altered.
 */
import type { ChangeStream, RefusedStream } from '@sluice/sdk'
import { escapeIdentifier, type QueryResultRow } from 'pg'
import { sqlState } from '../failure.ts'
import type { Session, Way } from '../session.ts'
import { GENERATED_SINCE, requireAble, type ServerFacts, unable } from './able.ts'
import { judge, qualifiedName } from './identity.ts'
import { captureName } from './slot.ts'

interface Asked {
  readonly capture: string
  readonly streams: readonly ChangeStream[]
}

interface Publication {
  readonly owned: boolean
  /** It tells every change of whole tables, under their own names. */
  readonly fit: boolean
  readonly generated: boolean
  /** Its tables; without those of which it tells some columns or some rows. */
  readonly members: ReadonlySet<string>
}

interface Verdicts {
  readonly told: readonly ChangeStream[]
  readonly refused: readonly RefusedStream[]
}

const PUBLICATION = `SELECT pg_has_role(p.pubowner, 'USAGE') AS owned, to_jsonb(p) ->> 'pubgencols' = 's' AS generated,
    p.pubinsert AND p.pubupdate AND p.pubdelete AND p.pubtruncate AND p.pubviaroot AND NOT p.puballtables AS fit
  FROM pg_publication p WHERE p.pubname = $1`

const MEMBERS = `SELECT n.nspname::text AS schema, c.relname::text AS table FROM pg_publication_rel r
  JOIN pg_class c ON c.oid = r.prrelid JOIN pg_namespace n ON n.oid = c.relnamespace
  WHERE r.prpubid = (SELECT oid FROM pg_publication WHERE pubname = $1)
    AND to_jsonb(r) ->> 'prqual' IS NULL AND to_jsonb(r) ->> 'prattrs' IS NULL`

interface PublicationRow extends QueryResultRow {
  readonly owned: boolean
  readonly fit: boolean
  readonly generated: boolean | null
}

interface MemberRow extends QueryResultRow {
  readonly schema: string
  readonly table: string
}

async function publicationOf(session: Session, capture: string): Promise<Publication | null> {
  const [row] = await session.query<PublicationRow>(PUBLICATION, [capture])
  if (!row) return null
  const members = await session.query<MemberRow>(MEMBERS, [capture])
  return {
    owned: row.owned,
    fit: row.fit,
    generated: row.generated === true,
    members: new Set(members.map((member) => qualifiedName({ schema: member.schema, table: member.table }))),
  }
}

export async function refusalsOf(
  way: Way,
  session: Session,
  streams: readonly ChangeStream[],
  capture?: string,
): Promise<readonly RefusedStream[]> {
  const facts = await requireAble(session)
  if (capture === undefined) return (await judgeAll(way, session, streams, facts, null)).refused
  const there = await publicationOf(session, captureName(capture))
  if (there && !there.owned) return publishedByOthers(way, session, { capture, streams }, facts, there)
  const { refused } = await judgeAll(way, session, streams, facts, null)
  if (!there) await requireCreator(session, facts)
  return refused
}

async function requireCreator(session: Session, facts: ServerFacts): Promise<void> {
  const [right] = await session.query<{ readonly may: boolean }>(
    `SELECT has_database_privilege(current_database(), 'CREATE') AS may`,
  )
  if (right?.may !== true) throw noCreate(facts)
}

/** Gives what is refused. */
export async function publish(
  way: Way,
  session: Session,
  asked: Asked,
  facts: ServerFacts,
): Promise<readonly RefusedStream[]> {
  const there = await publicationOf(session, asked.capture)
  if (there && !there.owned) return publishedByOthers(way, session, asked, facts, there)
  await session.run('BEGIN')
  try {
    const { told, refused } = await lockedAndJudged(way, session, asked, facts, there)
    await setMembers(session, asked.capture, there, told, facts)
    await session.run('COMMIT')
    return refused
  } catch (error) {
    // What failed is told; a session that cannot even end its transaction is closed by the caller.
    await session.run('ROLLBACK').catch(() => undefined)
    throw sqlState(error) === '42501' ? noCreate(facts) : error
  }
}

export async function dropPublication(session: Session, capture: string): Promise<void> {
  const there = await publicationOf(session, captureName(capture))
  if (there?.owned) await session.run(`DROP PUBLICATION IF EXISTS ${escapeIdentifier(capture)}`)
}

/** Before a table is added, it is locked: nobody takes its key away between the look at it and the end. */
async function lockedAndJudged(
  way: Way,
  session: Session,
  { streams }: Asked,
  facts: ServerFacts,
  there: Publication | null,
): Promise<Verdicts> {
  const first = await judgeAll(way, session, streams, facts, null)
  const added = first.told.filter((one) => !there?.members.has(qualifiedName(one)))
  if (added.length === 0) return first
  for (const one of added) {
    await session.run(`LOCK TABLE ONLY ${qualifiedName(one)} IN SHARE UPDATE EXCLUSIVE MODE`)
  }
  return judgeAll(way, session, streams, facts, null)
}

async function judgeAll(
  way: Way,
  session: Session,
  streams: readonly ChangeStream[],
  facts: ServerFacts,
  publication: Publication | null,
): Promise<Verdicts> {
  const told: ChangeStream[] = []
  const refused: RefusedStream[] = []
  for (const one of streams) {
    const verdict = await judge(session, one, { schemas: way.source.schemas, facts, publication })
    if (verdict === null) told.push(one)
    else refused.push(verdict)
  }
  return { told, refused }
}

async function publishedByOthers(
  way: Way,
  session: Session,
  { capture, streams }: Asked,
  facts: ServerFacts,
  there: Publication,
): Promise<readonly RefusedStream[]> {
  const publication = escapeIdentifier(capture)
  if (!there.fit) {
    throw unable('CONFIG', `the publication ${publication}, which somebody else has made, does not tell all changes`, {
      code: 'changes_publication_unfit',
      remedy: `Run ALTER PUBLICATION ${publication} SET (publish = 'insert, update, delete, truncate', publish_via_partition_root = true); as its owner, and let it name its tables.`,
    })
  }
  const { told, refused } = await judgeAll(way, session, streams, facts, there)
  const left = told.filter((one) => !there.members.has(qualifiedName(one)))
  return [
    ...refused,
    ...left.map((one) => ({
      schema: one.schema,
      table: one.table,
      code: 'changes_not_published',
      reason: `it is not, or not whole, in the publication ${publication}, which somebody else has made`,
      remedy: `Run ALTER PUBLICATION ${publication} ADD TABLE ONLY ${qualifiedName(one)}; as its owner.`,
    })),
  ]
}

function noCreate({ login, database }: ServerFacts) {
  return unable('PERMISSION', 'the login may not make a publication in this database', {
    code: 'changes_not_creator',
    remedy: `Run GRANT CREATE ON DATABASE ${escapeIdentifier(database)} TO ${escapeIdentifier(login)}; as its owner.`,
  })
}

/** ONLY: what inherits from a table is a table of its own. */
async function setMembers(
  session: Session,
  capture: string,
  there: Publication | null,
  wanted: readonly ChangeStream[],
  { version }: ServerFacts,
): Promise<void> {
  const publication = escapeIdentifier(capture)
  const names = wanted.map(qualifiedName)
  const list = names.map((name) => `ONLY ${name}`).join(', ')
  const generated = version >= GENERATED_SINCE ? ', publish_generated_columns = stored' : ''
  if (!there) {
    await session.run(
      `CREATE PUBLICATION ${publication}${list && ` FOR TABLE ${list}`} WITH (publish_via_partition_root = true${generated})`,
    )
    return
  }
  if (!there.fit || (generated !== '' && !there.generated)) {
    await session.run(
      `ALTER PUBLICATION ${publication} SET (publish = 'insert, update, delete, truncate', publish_via_partition_root = true${generated})`,
    )
  }
  if (names.length === there.members.size && names.every((name) => there.members.has(name))) return
  if (list) await session.run(`ALTER PUBLICATION ${publication} SET TABLE ${list}`)
  else
    await session.run(
      `ALTER PUBLICATION ${publication} DROP TABLE ${[...there.members].map((name) => `ONLY ${name}`).join(', ')}`,
    )
}
