/** Rows of a store that a process of its own works with. */
import { type ChangeSet, type Commit, openTenantScope, type Row, type ServingStore, type Target } from '@sluice/sdk'
import type { RealtimeConfig } from '../keyed-values/endpoint.ts'
import { keyedTexts, keyPlan } from '../keyed-values/test-data.ts'

export const schema: Target['schema'] = {
  columns: [
    { name: 'id', type: 'long', nullable: false },
    { name: 'name', type: 'string', nullable: true },
  ],
  primaryKey: ['id'],
}
export const target: Target<RealtimeConfig> = {
  scope: openTenantScope('acme'),
  domain: 'sales',
  product: 'orders',
  variant: 'clear',
  schema,
  config: { key_template: '{id}' },
}

export function full(count: number): ChangeSet {
  return {
    mode: 'full',
    schema,
    upsertCount: count,
    deleteCount: 0,
    async *upserts() {},
    async *deletes() {},
    async *upsertsCsv() {},
    async *deletesCsv() {},
    upsertsKeyed: (template, columns) => keyedTexts(schema, rowsOf(count), template, columns),
    lake: { snapshotId: '1', files: [], fieldIds: {} },
  }
}

function* rowsOf(count: number): Generator<Row> {
  for (let row = 0; row < count; row += 1) yield [BigInt(row), `${count}:${'x'.repeat(200)}`]
}

/** The number that the row was written with; null where the key is not there. */
export async function nameOf(store: ServingStore<RealtimeConfig>, key: string): Promise<unknown> {
  for await (const batch of store.read(target, keyPlan(key, ['id', 'name']))) {
    return JSON.parse((batch as unknown as { readonly json: string }).json)[0]?.name.split(':')[0]
  }
  return null
}

export const commitOf = (epoch: number, committedAt: string): Commit => ({
  epoch,
  previousEpoch: epoch === 1 ? null : 1,
  fence: BigInt(epoch),
  committedAt,
  signal: AbortSignal.timeout(60_000),
})
