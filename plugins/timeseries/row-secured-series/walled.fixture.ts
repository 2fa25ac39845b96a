/** Two tenants with rows of one product, written in two epochs, for tests of what keeps them apart. */
import { changeSet, commitOf, provide } from '@sluice/lookup/row-secured-postgresql/test-data'
import { openTenantScope, type ServingStore, type TableSchema, type Target } from '@sluice/sdk'
import type { TimeseriesConfig } from './config.ts'

const schema: TableSchema = {
  columns: [
    { name: 'id', type: 'long', nullable: false },
    { name: 'at', type: 'timestamptz', nullable: false },
    { name: 'amount', type: 'decimal(10,2)', nullable: true },
  ],
  primaryKey: ['id'],
}

const config: TimeseriesConfig = {
  continuous_aggregates: [
    { interval: '1 week', columns: ['amount'] },
    { interval: '1 month', columns: ['amount'] },
  ],
}

export const IDS = { one: [1, 3], two: [2, 4] } as const

export function walledTarget(tenant: string): Target<TimeseriesConfig> {
  return { scope: openTenantScope(tenant), domain: 'series', product: 'walled', variant: 'clear', schema, config }
}

export async function fillWalled(store: ServingStore<TimeseriesConfig>): Promise<void> {
  for (const [tenant, ids] of Object.entries(IDS)) {
    const of = walledTarget(tenant)
    await provide(store, of)
    const [first, second] = ids.map((id) => [BigInt(id), `2026-01-0${id}T12:00:00.000000Z`, '1.00'])
    await store.write(of, changeSet(schema, 'full', [first as never]), commitOf(1, null))
    await store.write(of, changeSet(schema, 'delta', [second as never]), commitOf(2, 1))
  }
}
