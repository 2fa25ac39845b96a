/** Whether the server keeps a log for this login at all, and what would let it. */
import { SluiceError } from '@sluice/sdk'
import { escapeIdentifier, type QueryResultRow } from 'pg'
import type { Session } from '../session.ts'

export interface ServerFacts {
  readonly wal_level: string
  readonly standby: boolean
  readonly replicates: boolean
  readonly version: number
  readonly login: string
  readonly database: string
}

/** The first that has publish_via_partition_root, and says how much log a slot has left. */
const OLDEST = 130_000
export const FAILOVER_SINCE = 170_000
export const GENERATED_SINCE = 180_000

/** Managed servers give the right by a role of theirs. */
const FACTS = `SELECT current_setting('wal_level') AS wal_level, pg_is_in_recovery() AS standby,
    current_setting('server_version_num')::int AS version, current_user::text AS login, current_database()::text AS database,
    (SELECT rolreplication OR rolsuper FROM pg_roles WHERE rolname = current_user) OR EXISTS (
      SELECT FROM pg_roles WHERE rolname = 'rds_replication' AND pg_has_role(oid, 'USAGE')) AS replicates`

export interface Missing {
  readonly kind: 'CONFIG' | 'PERMISSION'
  readonly code: string
  readonly what: string
  readonly remedy: string
}

export async function logFacts(session: Session): Promise<ServerFacts> {
  const [facts] = await session.query<ServerFacts & QueryResultRow>(FACTS)
  if (!facts) throw new Error('the server sent nothing of itself')
  return facts
}

export async function requireAble(session: Session): Promise<ServerFacts> {
  const facts = await logFacts(session)
  const missing = missingForLog(facts)
  if (missing) throw unable(missing.kind, missing.what, { code: missing.code, remedy: missing.remedy })
  return facts
}

/** Null where the log can be read. */
export function missingForLog(facts: ServerFacts): Missing | null {
  if (facts.version < OLDEST) {
    return {
      kind: 'CONFIG',
      code: 'changes_server_too_old',
      what: 'the server is older than PostgreSQL 13',
      remedy: 'Upgrade the server, or read its tables by mode incremental.',
    }
  }
  if (facts.standby) {
    return {
      kind: 'CONFIG',
      code: 'changes_standby',
      what: 'the server is a standby, on which nothing can be kept for a reader',
      remedy: 'Let the connection name the primary server.',
    }
  }
  if (facts.wal_level !== 'logical') {
    return {
      kind: 'CONFIG',
      code: 'changes_wal_level',
      what: `the server's wal_level is ${facts.wal_level}, so that its log does not tell rows`,
      remedy: 'Run ALTER SYSTEM SET wal_level = logical; as a superuser, then restart the server.',
    }
  }
  if (facts.replicates) return null
  return {
    kind: 'PERMISSION',
    code: 'changes_not_replication',
    what: 'the login may not read the log',
    remedy: `Run ALTER ROLE ${escapeIdentifier(facts.login)} REPLICATION; as a superuser.`,
  }
}

export function unable(
  kind: 'CONFIG' | 'PERMISSION' | 'TRANSIENT',
  what: string,
  options: { readonly code: string; readonly remedy: string },
): SluiceError {
  return new SluiceError(kind, `changes cannot be read from this source: ${what}`, options)
}
