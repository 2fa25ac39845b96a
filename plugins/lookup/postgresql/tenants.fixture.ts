/** A store over a PostgreSQL of its own, and small datasets of several tenants whose rows say whose they are. */
import { openTenantScope, type ServingStore, type TableSchema, type Target } from '@sluice/sdk'
import { type PostgresFixture, startPostgres } from '../row-secured-postgresql/fixture.ts'
import { changeSet, commitOf, provide, testHost } from '../row-secured-postgresql/test-data.ts'
import type { LookupConfig } from './config.ts'
import lookup from './index.ts'

export const schema: TableSchema = {
  columns: [
    { name: 'id', type: 'long', nullable: false },
    { name: 'owner', type: 'string', nullable: true },
  ],
  primaryKey: ['id'],
}

export interface Opened {
  readonly fixture: PostgresFixture
  readonly store: ServingStore<LookupConfig>
  stop(): Promise<void>
}

export async function openLookup(): Promise<Opened> {
  const fixture = await startPostgres()
  const store = await lookup.open({ ...fixture.settings, slow_readers: 3 }, testHost()).catch(async (error) => {
    await fixture.stop()
    throw error
  })
  return {
    fixture,
    store,
    async stop() {
      await store.close()
      await fixture.stop()
    },
  }
}

export function target(
  tenant: string,
  product: string,
  shape = schema,
  config: LookupConfig = {},
): Target<LookupConfig> {
  return { scope: openTenantScope(tenant), domain: 'sales', product, variant: 'clear', schema: shape, config }
}

/** Rows with the ids 0, 1, 2 and so on, all of that owner, in epoch 1. */
export async function fillIn(
  store: ServingStore<LookupConfig>,
  of: Target<LookupConfig>,
  owner: string,
  rows = 3,
): Promise<void> {
  await provide(store, of)
  const width = of.schema.columns.length
  const content = Array.from({ length: rows }, (_, index) => [BigInt(index), owner, null].slice(0, width))
  await store.write(of, changeSet(of.schema, 'full', content), commitOf(1, null))
}
