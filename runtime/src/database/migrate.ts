/**
 * Ordered, forward-only changes of a schema. Each part of the runtime that owns tables exports a list; the lists of one
 * database are run together at start, by one process at a time.
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

export interface AppliedMigration {
  readonly list: string
  readonly id: string
}

/**
 * Brings the database up to the lists' ends, all of it in one transaction, and returns what was new. Repeatable, and safe
 * when several runtimes start at once. Throws a CONFIG error where the database knows a migration that these lists do
 * not (a newer release was here) or one whose text has changed.
 */
export async function migrate(
  pool: pg.Pool,
  lists: readonly MigrationList[],
  options: { readonly signal?: AbortSignal } = {},
): Promise<readonly AppliedMigration[]> {
  return inTransaction(
    pool,
    async (client) => {
      await client.query(`set local statement_timeout = '${LOCK_WAIT}'`)
      await client.query('select pg_advisory_xact_lock($1)', [MIGRATION_LOCK])
      await client.query('set local statement_timeout = 0')
      await client.query(CREATE_JOURNAL)
      const applied: AppliedMigration[] = []
      for (const list of lists) applied.push(...(await runList(client, list)))
      return applied
    },
    options,
  )
}

async function runList(client: pg.PoolClient, list: MigrationList): Promise<readonly AppliedMigration[]> {
  const journal = await client.query<{ id: string; checksum: string }>(
    'select id, checksum from schema_migrations where list = $1 order by position',
    [list.name],
  )
  journal.rows.forEach((row, position) => {
    checkAgainst(list, row, position)
  })
  const missing = list.migrations.slice(journal.rows.length)
  for (const [index, migration] of missing.entries()) {
    try {
      await client.query(migration.sql)
    } catch (error) {
      throw toDatabaseError(error, `applying the migration ${list.name}/${migration.id}`)
    }
    await client.query('insert into schema_migrations (list, id, checksum, position) values ($1, $2, $3, $4)', [
      list.name,
      migration.id,
      checksum(migration),
      journal.rows.length + index,
    ])
  }
  return missing.map(({ id }) => ({ list: list.name, id }))
}

function checkAgainst(list: MigrationList, row: { id: string; checksum: string }, position: number): void {
  const expected = list.migrations[position]
  if (!expected) {
    throw new SluiceError('CONFIG', `the database has the migration ${list.name}/${row.id}, which this release lacks`, {
      code: 'database_newer',
      remedy: 'Start the release that made it, or a later one; migrations are not undone.',
    })
  }
  if (expected.id !== row.id || checksum(expected) !== row.checksum) {
    throw new SluiceError('CONFIG', `the migration ${list.name}/${row.id} differs from the one that was applied`, {
      code: 'migration_changed',
      remedy: 'Restore the text of that migration and put the change into a new one at the end of the list.',
    })
  }
}

function checksum(migration: Migration): string {
  return createHash('sha256').update(migration.sql).digest('hex')
}
