/** Every way to read rows from a store, by every epoch that the store may have beside every one that the registry has of it. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { RecordingLogger, TestHost, VirtualClock } from '@sluice/conformance'
import reference, { ReferenceMemory } from '@sluice/conformance/reference'
import {
  batchFromRows,
  CLEAR,
  isSluiceError,
  openTenantScope,
  type Row,
  type TableSchema,
  type Target,
} from '@sluice/sdk'
import type { Principal, TenantCall } from '../../flow.ts'
import { lossIn } from '../../materializer/store-review.ts'
import type { ServedEndpoint, ServedProduct, ServedTarget } from '../served/served-product.ts'
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

const CLEAR_ROW = [1n, AT, 'ana'] as const
const MASKED_ROW = [1n, AT, 'hidden'] as const

async function storeAt(type: string, epoch: number, config: Way['config']): Promise<[Serving, Target, Target]> {
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

const UNUSED = {
  timeoutMs: 20_000,
  audit: async () => undefined,
  openCursor: () => undefined,
  sealCursor: () => '',
}

/**
 * The epoch of the answer, or how it was refused; and what the copy was found to be when it was doubted.
 * @param isOfProduct whether the registry has that epoch of the product
 */
async function outcomeOf(way: Way, has: number, known: number, isOfProduct: boolean): Promise<readonly unknown[]> {
  const [serving, target] = await storeAt(way.type, has, way.config)
  const at = (epoch: number) => servedBy(serving, [{ target, maskedColumns: [] }], {}, epoch)
  const product = at(known)
  const doubted: unknown[] = []
  const deps: ReadDeps = {
    ...UNUSED,
    rules: { sensitive: [], strategies: {} } as unknown as ReadDeps['rules'],
    find: async () => product,
    forget: () => undefined,
    withCopyAt: async (_, __, { epoch }) => (isOfProduct ? at(epoch) : null),
    doubt: async (_, again) => again().catch((error: unknown) => doubted.push(lossIn(error))),
  }
  try {
    return [JSON.parse(await way.read(deps, serving)).meta.epoch]
  } catch (error) {
    if (!isSluiceError(error, 'TRANSIENT')) throw error
    return [error.code, ...doubted]
  }
}

describe('rows are an answer by the epoch that was decided, of an older one the copy is doubted', {
  concurrency: true,
}, () => {
  for (const [name, way] of Object.entries(WAYS)) {
    it(name, async () => {
      const cases = EPOCHS.flatMap((has) =>
        EPOCHS.flatMap((known) => [true, false].map((isOfProduct) => ({ has, known, isOfProduct }))),
      )
      const found = await Promise.all(
        cases.map(({ has, known, isOfProduct }) => outcomeOf(way, has, known, isOfProduct)),
      )
      const wanted = cases.map(({ has, known, isOfProduct }) => {
        if (has < known) return ['store_rebuilding', 'outdated']
        return has === known || isOfProduct ? [has] : ['epoch_moved']
      })
      assert.deepEqual(found, wanted, JSON.stringify(cases))
    })
  }
})

/** The column is in clear by the version that a runtime has in mind, and masked by the one that made what stores have by now. */
const CLASSES = { name: 'pii.name' }
const HELD = 3

interface Told {
  /** What the registry says of the product once it is asked again. */
  fresh(held: ServedProduct, now: (epoch: number) => ServedProduct): ServedProduct
  readonly knowsEpoch: boolean
  readonly isAnswered: boolean
}

const TOLD: Readonly<Record<string, Told>> = {
  'the registry has all of it': { fresh: (_, now) => now(7), knowsEpoch: true, isAnswered: true },
  'the registry has the version, and not yet that stores have its rows': {
    fresh: (_, now) => now(HELD),
    knowsEpoch: true,
    isAnswered: true,
  },
  'nothing tells of the version but its epoch': {
    fresh: (held) => ({ ...held }),
    knowsEpoch: true,
    isAnswered: true,
  },
  'they are another product’s, made under the same name': {
    fresh: (_, now) => ({ ...now(7), id: 'p2' }),
    knowsEpoch: false,
    isAnswered: true,
  },
  'nobody knows whose they are': { fresh: (held) => held, knowsEpoch: false, isAnswered: false },
}

describe('rows of a later epoch are shown by no policy of an earlier one', { concurrency: true }, () => {
  for (const [name, way] of Object.entries(WAYS)) {
    for (const [how, { fresh, knowsEpoch, isAnswered }] of Object.entries(TOLD)) {
      it(`${name}: ${how}`, async () => {
        const [serving, clear, masked] = await storeAt(way.type, 7, way.config)
        const copies = [
          { target: clear, maskedColumns: [] },
          { target: masked, maskedColumns: ['name'] },
        ]
        const held = servedBy(serving, copies, {}, HELD)
        const now = (epoch: number) => servedBy(serving, copies, CLASSES, epoch)
        let product = held
        const deps: ReadDeps = {
          ...UNUSED,
          rules: { sensitive: [], strategies: {} } as unknown as ReadDeps['rules'],
          find: async () => product,
          forget: () => {
            product = fresh(held, now)
          },
          withCopyAt: async (found, type, { variant, epoch }) =>
            knowsEpoch ? madeNow(found, type, variant, epoch) : null,
          doubt: async () => undefined,
        }
        const answer = await way.read(deps, serving).catch((error: unknown) => {
          if (!isSluiceError(error)) throw error
          return error.code
        })
        assert.doesNotMatch(answer, /ana/)
        if (!isAnswered) return assert.equal(answer, 'epoch_moved')
        // What selects by the column says why it does not any more.
        if (answer === 'column_masked' || answer === 'key_not_found') return assert.match(name, /operation/)
        const { meta } = JSON.parse(answer)
        assert.deepEqual([meta.epoch, meta.masked_columns], [7, ['name']])
      })
    }
  }
})

function madeNow(product: ServedProduct, type: string, variant: string, epoch: number): ServedProduct {
  const endpoint = product.endpoints.get(type) as ServedEndpoint
  const copy = endpoint.targets.get(variant) as ServedTarget
  const columns = SCHEMA.columns.map((column) => ({
    ...column,
    classification: CLASSES[column.name as 'name'] ?? 'none',
  }))
  const madeBy = { ...copy.madeBy, output: { ...copy.madeBy.output, columns } } as unknown as ServedTarget['madeBy']
  const targets = new Map(endpoint.targets).set(variant, { ...copy, madeBy, epoch })
  return { ...product, endpoints: new Map(product.endpoints).set(type, { ...endpoint, targets }) }
}
