/** Tables of tenants for tests: pointers in a registry of their own, files in a folder. */
import { startLakeOver, type TestLake } from '@sluice/iceberg/testing'
import type pg from 'pg'
import type { MigrationList } from '../database/migrate.ts'
import { inTransaction } from '../database/pools.ts'
import { startTestPostgres } from '../database/testing.ts'
import { LAKE_MIGRATIONS } from './migrations.ts'
import { registryCatalog } from './registry-catalog.ts'
import { catalogName } from './tenant-layout.ts'

export interface RegistryLake extends TestLake {
  readonly pool: pg.Pool
}

/** @param others tables that the same database is to have beside the lake's */
export async function startRegistryLake(others: readonly MigrationList[] = []): Promise<RegistryLake> {
  const postgres = await startTestPostgres()
  const database = await postgres.createDatabase({ migrations: [...others, LAKE_MIGRATIONS] })
  const pool = database.pool()
  const test = await startLakeOver(() => registryCatalog(pool))
  return {
    ...test,
    pool,
    publish: (staged) => inTransaction(pool, (tx) => test.lake.publish(registryCatalog(tx), staged)),
    async [Symbol.asyncDispose]() {
      await test[Symbol.asyncDispose]()
      await database.drop()
    },
  }
}

/** Bytes that the tenant's tables take, all snapshots together: exact after a cleaning. */
export async function lakeBytes(pool: pg.Pool, tenant: string): Promise<number> {
  const { rows } = await pool.query<{ bytes: string }>(
    'select coalesce(sum(stored_bytes), 0)::text as bytes from lake_storage where catalog_name = $1',
    [catalogName(tenant)],
  )
  return Number(rows[0]?.bytes)
}
