/**
 * A process of its own that may write only small files: a store is filled until there is no place left, then asked for
 * what it had, then closed. Says what came of it on one line.
 */
import { RecordingLogger, TestHost, VirtualClock } from '@sluice/conformance'
import { type ChangeSet, isSluiceError, openTenantScope, type Row, type Target } from '@sluice/sdk'
import type { RealtimeConfig } from '../keyed-values/endpoint.ts'
import { keyedTexts } from '../keyed-values/test-data.ts'
import plugin from './index.ts'

const schema: Target['schema'] = {
  columns: [
    { name: 'id', type: 'long', nullable: false },
    { name: 'name', type: 'string', nullable: true },
  ],
  primaryKey: ['id'],
}
const target: Target<RealtimeConfig> = {
  scope: openTenantScope('acme'),
  domain: 'sales',
  product: 'orders',
  variant: 'clear',
  schema,
  config: { key_template: '{id}' },
}

function full(count: number): ChangeSet {
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

async function nameOf(key: string): Promise<unknown> {
  const policy = {
    version: '1',
    rows: { op: 'all' },
    claims: {},
    visibleColumns: ['id', 'name'],
    maskedColumns: [],
  } as const
  const plan = {
    operation: 'key',
    key,
    columns: ['id', 'name'],
    filters: [],
    orderBy: [],
    limit: 1,
    policy,
    timeoutMs: 1000,
    signal: AbortSignal.timeout(60_000),
    encoding: 'json',
  } as const
  for await (const batch of store.read(target, plan)) {
    return JSON.parse((batch as unknown as { readonly json: string }).json)[0]?.name.split(':')[0]
  }
  return null
}

const clock = new VirtualClock()
const host = new TestHost({ clock, logger: new RecordingLogger(), stateDirectory: process.argv[2] as string, seed: 1 })
const store = await plugin.open({}, host)
await store.provision(target, 'apply')
await store.rls.install(target, { version: '1', tenantIsolation: 'forced' })
const commit = (epoch: number) => ({
  epoch,
  previousEpoch: epoch === 1 ? null : 1,
  fence: BigInt(epoch),
  committedAt: clock.nowText(),
  signal: AbortSignal.timeout(60_000),
})
await store.write(target, full(10), commit(1))
const told: unknown[] = []
for (const epoch of [2, 3]) {
  try {
    await store.write(target, full(60_000), commit(epoch))
    told.push('written')
  } catch (error) {
    told.push(isSluiceError(error) ? [error.kind, error.code] : String(error))
  }
}
console.log(JSON.stringify({ told, served: await nameOf('7'), applied: (await store.recover?.(target))?.epoch }))
await store.close()
