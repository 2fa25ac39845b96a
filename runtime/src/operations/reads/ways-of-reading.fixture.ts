/** Every way to read rows from a store, and a store with one row in clear and masked. */
import assert from 'node:assert/strict'
import { RecordingLogger, TestHost, VirtualClock } from '@sluice/conformance'
import reference, { ReferenceMemory } from '@sluice/conformance/reference'
import { batchFromRows, CLEAR, openTenantScope, type Row, type TableSchema, type Target } from '@sluice/sdk'
import type { Principal, TenantCall } from '../../flow.ts'
import type { Serving } from './operation-under-test.fixture.ts'
import { type AskedRead, type EndpointType, type ReadDeps, readEndpoint } from './read-endpoint.ts'
import { readItems } from './read-keys.ts'
import { offeredOperations, readOperation } from './read-operation.ts'

export const SCHEMA: TableSchema = {
  columns: [
    { name: 'id', type: 'long', nullable: false },
    { name: 'at', type: 'timestamptz', nullable: false },
    { name: 'name', type: 'string', nullable: true },
  ],
  primaryKey: ['id'],
}
const AT = '2026-01-01T00:00:00.000000Z'
const viewer = { subject: 'vito', groups: ['svc-viewers'], isViewer: true } as unknown as Principal
const { signal } = new AbortController()
const call = { principal: viewer, tenant: 'acme', signal } as unknown as TenantCall
const place = { reference: 'p1', domain: undefined }

export interface Way {
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

export const WAYS: Readonly<Record<string, Way>> = {
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

const CLEAR_ROW = [1n, AT, 'ana'] as const
const MASKED_ROW = [1n, AT, 'hidden'] as const

/** A store that has one row of that epoch: in clear with `ana`, masked without. Gives it with both targets. */
export async function storeAt(type: string, epoch: number, config: Way['config']): Promise<[Serving, Target, Target]> {
  const host = { clock: new VirtualClock(), logger: new RecordingLogger(), stateDirectory: '', seed: 1 }
  const store = await reference.open({ memory: new ReferenceMemory() }, new TestHost(host))
  const write = async (variant: string, row: Row) => {
    const name = { scope: openTenantScope('acme'), domain: 'crm', product: 'people', variant }
    const target = { ...name, schema: SCHEMA, config } as Target
    await store.provision(target as never, 'apply')
    await store.rls.install(target as never, { version: '1', tenantIsolation: 'forced' })
    const changes = {
      ...{ mode: 'full' as const, schema: SCHEMA, upsertCount: 1, deleteCount: 0 },
      async *upserts() {
        yield batchFromRows([row], 3)
      },
      async *deletes() {},
    }
    const commit = { epoch, previousEpoch: null, fence: 1n, committedAt: AT, signal }
    await store.write(target as never, changes as never, commit)
    return target
  }
  const targets = [await write(CLEAR, CLEAR_ROW), await write('masked', MASKED_ROW)] as const
  return [{ type, plugin: reference, store }, ...targets]
}

/** Of `ReadDeps`, what no test of reads looks at. */
export const UNUSED = {
  timeoutMs: 20_000,
  audit: async () => undefined,
  openCursor: () => undefined,
  sealCursor: () => '',
}
