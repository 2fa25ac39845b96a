/** Every way to read rows from a store, by every epoch that the store may have beside every one that the registry has of it. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { RecordingLogger, TestHost, VirtualClock } from '@sluice/conformance'
import reference, { ReferenceMemory } from '@sluice/conformance/reference'
import { batchFromRows, CLEAR, isSluiceError, openTenantScope, type TableSchema, type Target } from '@sluice/sdk'
import type { Principal, TenantCall } from '../../flow.ts'
import { lossIn } from '../../materializer/store-review.ts'
import { type Serving, servedBy } from './operation-under-test.fixture.ts'
import { type AskedRead, type EndpointType, type ReadDeps, readEndpoint } from './read-endpoint.ts'
import { readItems } from './read-keys.ts'
import { offeredOperations, readOperation } from './read-operation.ts'

const SCHEMA: TableSchema = {
  columns: [
    { name: 'id', type: 'long', nullable: false },
    { name: 'at', type: 'timestamptz', nullable: false },
    { name: 'name', type: 'string', nullable: true },
  ],
  primaryKey: ['id'],
}
const EPOCHS = [1, 2, 9]
const AT = '2026-01-01T00:00:00.000000Z'
const viewer = { subject: 'vito', groups: ['svc-viewers'], isViewer: true } as unknown as Principal
const { signal } = new AbortController()
const call = { principal: viewer, tenant: 'acme', signal } as unknown as TenantCall
const place = { reference: 'p1', domain: undefined }

interface Way {
  readonly type: string
  readonly config: Readonly<Record<string, unknown>>
  read(deps: ReadDeps, serving: Serving): Promise<string>
}

const single = (type: EndpointType, config: Way['config'], query: AskedRead): Way => ({
  type,
  config,
  read: async (deps) => (await readEndpoint(type, call, 'p1', undefined, query, deps)).json,
})

const KEYED = { key_template: '{id}' }

const items = (store: 'lookup' | 'realtime', config: Way['config']): Way => ({
  type: store,
  config,
  async read(deps) {
    const { answers } = await readItems({ items: [{ product: 'p1', store, keys: [1, 7] }] }, call, deps)
    const [answer] = answers
    if (answer === undefined || 'error' in answer) throw answer?.error
    return `{${answer.json}}`
  },
})

const WAYS: Readonly<Record<string, Way>> = {
  'a point read': single('lookup', {}, { filter: ['id:1'] }),
  'a point read that finds nothing': single('lookup', {}, { filter: ['id:7'] }),
  'a scan': single('lookup', {}, {}),
  'a range': single('timeseries', { time_column: 'at' }, { from: '2025-12-31', to: '2026-01-02' }),
  'an empty range': single('timeseries', { time_column: 'at' }, { from: '1999-12-31', to: '1999-12-31' }),
  'a value by key': single('realtime', KEYED, { key: '1' }),
  'rows by keys': items('lookup', {}),
  'values by keys': items('realtime', KEYED),
  'a declared operation': {
    type: 'reference',
    config: {},
    async read(deps, serving) {
      const [offered] = offeredOperations({ servingTypes: () => [serving] })
      assert.ok(offered)
      return (await readOperation(offered, call, place, { input: { column: 'name', text: 'an' } }, deps)).json
    },
  },
}

async function storeAt(type: string, epoch: number, config: Way['config']): Promise<[Serving, Target]> {
  const host = { clock: new VirtualClock(), logger: new RecordingLogger(), stateDirectory: '', seed: 1 }
  const store = await reference.open({ memory: new ReferenceMemory() }, new TestHost(host))
  const name = { scope: openTenantScope('acme'), domain: 'crm', product: 'people', variant: CLEAR }
  const target = { ...name, schema: SCHEMA, config } as Target
  await store.provision(target as never, 'apply')
  await store.rls.install(target as never, { version: '1', tenantIsolation: 'forced' })
  const changes = {
    ...{ mode: 'full' as const, schema: SCHEMA, upsertCount: 1, deleteCount: 0 },
    async *upserts() {
      yield batchFromRows([[1n, AT, 'ana']], 3)
    },
    async *deletes() {},
  }
  const commit = { epoch, previousEpoch: null, fence: 1n, committedAt: AT, signal }
  await store.write(target as never, changes as never, commit)
  return [{ type, plugin: reference, store }, target]
}

/** The epoch of the answer, or how it was refused; and what the copy was found to be when it was doubted. */
async function outcomeOf(way: Way, has: number, known: number): Promise<readonly unknown[]> {
  const [serving, target] = await storeAt(way.type, has, way.config)
  const product = servedBy(serving, [{ target, maskedColumns: [] }], {}, known)
  const doubted: unknown[] = []
  const deps: ReadDeps = {
    rules: { sensitive: [], strategies: {} } as unknown as ReadDeps['rules'],
    timeoutMs: 20_000,
    find: async () => product,
    forget: () => undefined,
    doubt: async (_, again) => again().catch((error: unknown) => doubted.push(lossIn(error))),
    audit: async () => undefined,
    openCursor: () => undefined,
    sealCursor: () => '',
  }
  try {
    return [JSON.parse(await way.read(deps, serving)).meta.epoch]
  } catch (error) {
    if (!isSluiceError(error) || doubted.length === 0) throw error
    return [error.kind, error.code, ...doubted]
  }
}

describe('rows of an epoch before the one that the registry has are no answer, and the copy is doubted', {
  concurrency: true,
}, () => {
  for (const [name, way] of Object.entries(WAYS)) {
    it(name, async () => {
      const cases = EPOCHS.flatMap((has) => EPOCHS.map((known) => ({ has, known })))
      const found = await Promise.all(cases.map(({ has, known }) => outcomeOf(way, has, known)))
      const wanted = cases.map(({ has, known }) =>
        has < known ? ['TRANSIENT', 'store_rebuilding', 'outdated'] : [has],
      )
      assert.deepEqual(found, wanted, JSON.stringify(cases))
    })
  }
})
