/** A registry for tests: a fresh database with every table, and the few rows that most tests begin with. */
import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import type pg from 'pg'
import type { MigrationList } from '../database/migrate.ts'
import { inTransaction } from '../database/pools.ts'
import { startTestPostgres, type TestDatabase } from '../database/testing.ts'
import type { Actor } from './actor.ts'
import { type Connection, createConnection } from './connections.ts'
import { type MasterKeys, openMasterKeyFile } from './master-keys.ts'
import { registryMigrations } from './migrations.ts'
import { createProduct, type Product } from './products.ts'
import { createTenantKeys } from './tenant-keys.ts'
import { createTenant, setTenantStatus } from './tenants.ts'
import type { Tier } from './tiers.ts'

export const ANN: Actor = { issuer: 'https://issuer.example', subject: 'ann' }

/** An active tenant with keys of its own, under master keys that lie in the folder. */
export async function tenantWithKeys(pool: pg.Pool, slug: string, folder: string): Promise<MasterKeys> {
  const masters = openMasterKeyFile(join(folder, 'master-keys.json'))
  await inTransaction(pool, async (tx) => {
    await createTenant(tx, { slug, displayName: slug, tier: 'standard' })
    await createTenantKeys(tx, masters, slug)
  })
  await setTenantStatus(pool, slug, 'active')
  return masters
}

export interface TestRegistry extends AsyncDisposable {
  readonly database: TestDatabase
  readonly pool: pg.Pool
  /** An active tenant with a slug of its own. */
  tenant(tier?: Tier): Promise<string>
  connection(tenant: string): Promise<Connection>
  product(tenant: string): Promise<Product>
}

export async function startTestRegistry(others: readonly MigrationList[] = []): Promise<TestRegistry> {
  const migrations = [registryMigrations, ...others]
  const database = await (await startTestPostgres()).createDatabase({ migrations })
  const pool = database.pool({ maxConnections: 12 })
  return {
    database,
    pool,
    async tenant(tier = 'standard') {
      const slug = `t${randomBytes(5).toString('hex')}`
      await inTransaction(pool, (tx) => createTenant(tx, { slug, displayName: slug, tier }))
      await setTenantStatus(pool, slug, 'active')
      return slug
    },
    connection: (tenant) =>
      inTransaction(pool, (tx) =>
        createConnection(tx, { tenant, name: name(), connectorType: 'postgresql', config: {}, createdBy: ANN }),
      ),
    product: (tenant) =>
      inTransaction(pool, (tx) =>
        createProduct(tx, { tenant, domain: 'sales', name: name(), archetype: 'aggregate', createdBy: ANN }),
      ),
    [Symbol.asyncDispose]: () => database.drop(),
  }
}

function name(): string {
  return `n${randomBytes(5).toString('hex')}`
}
