/**
 * Forward-only changes of a schema. Each part of the runtime that owns tables exports a list; the lists of one database
 * are run together at start, by one process at a time. Migrations are known by their names: a release runs on a database
 * that has more of them, as long as those only add.
 */
import { createHash } from 'node:crypto'
import { SluiceError } from '@sluice/sdk'
import type pg from 'pg'
import { toDatabaseError } from './errors.ts'
import { inTransaction } from './pools.ts'

export interface Migration {
  /** Unique in its list and never changed: `001_tenants`. */
  readonly id: string
  /** Statements, run in the transaction of the whole migration. Never changed once released. */
  readonly sql: string
  /** Releases that lack it cannot run on what it leaves. Absent: it only adds, and they go on. */
  readonly breaksOlder?: true
}

export interface MigrationList {
  /** Whose tables these are: `registry`, `lake`. */
  readonly name: string
  readonly migrations: readonly Migration[]
}

/** The number has no meaning; it is only the same in every runtime. */
const MIGRATION_LOCK = 7_305_101_918
const LOCK_WAIT = '120s'

const CREATE_JOURNAL = `
create table if not exists schema_migrations (
  list text not null,
  id text not null,
  checksum text not null,
  position integer not null,
  applied_at timestamptz(3) not null default now(),
  primary key (list, id)
)`

/** Null: applied by a release that did not say. */
const SAY_WHAT_BREAKS = 'alter table schema_migrations add column if not exists breaks_older boolean'

export interface AppliedMigration {
  readonly list: string
  readonly id: string
}

export interface MigrateOptions {
  readonly signal?: AbortSignal
  /** Told of those that the database has and these lists do not, where they only add. */
  readonly onNewer?: (newer: readonly AppliedMigration[]) => void
}

/**
 * Applies what the database lacks of the lists, all of it in one transaction, and returns what was new. Repeatable, and
 * safe when several runtimes start at once. Throws a CONFIG error where the database knows a migration of a newer release
 * that does more than add (`database_newer`), or one whose text has changed (`migration_changed`).
 */
export async function migrate(
  pool: pg.Pool,
  lists: readonly MigrationList[],
  options: MigrateOptions = {},
): Promise<readonly AppliedMigration[]> {
  return inTransaction(
    pool,
    async (client) => {
      await client.query(`set local statement_timeout = '${LOCK_WAIT}'`)
      await client.query('select pg_advisory_xact_lock($1)', [MIGRATION_LOCK])
      await client.query('set local statement_timeout = 0')
      await client.query(CREATE_JOURNAL)
      await client.query(SAY_WHAT_BREAKS)
      const newer = await newerMigrations(client, lists)
      if (newer.breaks) throw databaseNewer(newer.migrations)
      if (newer.migrations.length > 0) options.onNewer?.(newer.migrations)
      const applied: AppliedMigration[] = []
      for (const list of lists) applied.push(...(await runList(client, list)))
      return applied
    },
    options,
  )
}

/** What a later release has left in the journal. */
export interface Newer {
  readonly migrations: readonly AppliedMigration[]
  /** One of them says, or does not deny, that releases without it cannot run on what it leaves. */
  readonly breaks: boolean
}

/** Of a database that `migrate` has seen: what has come to it since, lists of their own included. */
export async function newerMigrations(db: pg.Pool | pg.PoolClient, lists: readonly MigrationList[]): Promise<Newer> {
  const { rows } = await db
    .query<AppliedMigration & { readonly breaksOlder: boolean | null }>(
      'select list, id, breaks_older as "breaksOlder" from schema_migrations order by list, position',
    )
    .catch((error: unknown) => {
      throw toDatabaseError(error, 'reading which migrations it has')
    })
  const newer = rows.filter(({ list, id }) => !lists.some((own) => own.name === list && hasMigration(own, id)))
  return {
    migrations: newer.map(({ list, id }) => ({ list, id })),
    breaks: newer.some(({ breaksOlder }) => breaksOlder !== false),
  }
}

function hasMigration({ migrations }: MigrationList, id: string): boolean {
  return migrations.some((migration) => migration.id === id)
}

interface JournalRow {
  readonly id: string
  readonly checksum: string
  readonly position: number
}

async function runList(client: pg.PoolClient, list: MigrationList): Promise<readonly AppliedMigration[]> {
  const { rows } = await client.query<JournalRow>(
    'select id, checksum, position from schema_migrations where list = $1 order by position',
    [list.name],
  )
  for (const row of rows) checkUnchanged(list, row)
  const known = new Set(rows.map(({ id }) => id))
  const missing = list.migrations.filter(({ id }) => !known.has(id))
  const next = Math.max(-1, ...rows.map(({ position }) => position)) + 1
  for (const [index, migration] of missing.entries()) await apply(client, list, migration, next + index)
  return missing.map(({ id }) => ({ list: list.name, id }))
}

async function apply(client: pg.PoolClient, list: MigrationList, migration: Migration, position: number) {
  try {
    await client.query(migration.sql)
  } catch (error) {
    throw toDatabaseError(error, `applying the migration ${list.name}/${migration.id}`)
  }
  await client.query(
    'insert into schema_migrations (list, id, checksum, position, breaks_older) values ($1, $2, $3, $4, $5)',
    [list.name, migration.id, checksum(migration), position, migration.breaksOlder ?? false],
  )
}

function checkUnchanged(list: MigrationList, row: JournalRow): void {
  const own = list.migrations.find(({ id }) => id === row.id)
  if (own === undefined || checksum(own) === row.checksum) return
  throw new SluiceError('CONFIG', `the migration ${list.name}/${row.id} differs from the one that was applied`, {
    code: 'migration_changed',
    remedy: 'Restore the text of that migration and put the change into a new one at the end of the list.',
  })
}

function databaseNewer(newer: readonly AppliedMigration[]): SluiceError {
  const names = newer.map(({ list, id }) => `${list}/${id}`).join(', ')
  return new SluiceError(
    'CONFIG',
    `a later release has changed the registry (${names}), and this one is too old for it`,
    {
      code: 'database_newer',
      remedy: 'Start the release that did it, or a later one; migrations are not undone.',
    },
  )
}

function checksum(migration: Migration): string {
  return createHash('sha256').update(migration.sql).digest('hex')
}
