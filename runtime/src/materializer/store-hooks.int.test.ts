/**
 * Every hook of a serving store has a caller in the runtime, and one that listens: a store that lies there makes it do
 * something else. What has none is deprecated in the contract.
 */
import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { openTenantScope, planOfSteps, type ServingStore, SluiceError } from '@sluice/sdk'
import type { ManifestSet } from '../manifest/manifest-set.ts'
import type { DeployDeps } from '../operations/deploy/deps.ts'
import { storePlans } from '../operations/deploy/plan.ts'
import { askedBy, servedBy } from '../operations/reads/operation-under-test.fixture.ts'
import { closeStores } from '../plugins/plugin-set.ts'
import { faultOf, readinessOf } from '../plugins/store-probes.ts'
import { endpointStates } from '../registry/endpoint-states.ts'
import type { Product } from '../registry/products.ts'
import { findVersion } from '../registry/versions.ts'
import {
  type Endpoint,
  rowsTo,
  SCHEMA,
  type Store,
  type StoreUnderTest,
  startWorld,
} from './copies-under-test.fixture.ts'
import { dropAllCopies, dropTenantCopies } from './store-copies.ts'

const world = await startWorld(undefined, 'none')
after(() => world[Symbol.asyncDispose]())
const { pool, compare, sync } = world

const LOOKUP: Endpoint = { type: 'lookup', config: {} }
const SIGNAL = new AbortController().signal

type Hook = Exclude<keyof ServingStore, 'rls'> | 'rls.install' | 'rls.describe'

/** What the runtime makes of the product at a store that is honest, or lies. */
interface Lie {
  tell(store: StoreUnderTest): void
  outcome(product: Product, store: StoreUnderTest): Promise<unknown>
}

const statesOf = async (product: Product) =>
  (await endpointStates(pool, product.id)).map(({ variant, state, error }) => [variant, state, error?.code ?? null])

const compared = async (product: Product, store: StoreUnderTest) => {
  await sync(product, store)
  return [await compare(product, store), await statesOf(product)]
}
const synced = async (product: Product, store: StoreUnderTest) => {
  const stores = await sync(product, store)
  return stores.map(({ state, error }) => [state, error?.code ?? null])
}
const refusal = (work: Promise<unknown>) =>
  work.then(
    () => 'done',
    (error: unknown) => (error as SluiceError).code,
  )
const targetOf = ({ tenant, domain, name }: Product) =>
  ({ scope: openTenantScope(tenant), domain, product: name, variant: 'clear', schema: SCHEMA, config: {} }) as const

async function deployedByPlan(product: Product, { honest }: StoreUnderTest): Promise<void> {
  const { steps, hash } = await honest.provision(targetOf(product), 'plan')
  await world.deployment(product, { stores: [{ endpoint: 'lookup', variant: 'clear', steps, hash }] })
}

const LIES: Readonly<Record<Hook, Lie | 'deprecated'>> = {
  provision: {
    // It says that it has done what was planned, and has done nothing.
    tell({ honest, lies }) {
      lies.provision = (target) => honest.provision(target, 'plan')
    },
    outcome: async (product, store) => {
      await deployedByPlan(product, store)
      return synced(product, store)
    },
  },
  'rls.install': {
    tell({ honest, lies }) {
      lies.rls = { ...honest.rls, install: async () => undefined }
    },
    outcome: compared,
  },
  'rls.describe': {
    tell({ honest, lies }) {
      const describe = async () => ({ version: '1.0.0', tenantIsolation: 'none', enforcedBy: 'nobody' }) as never
      lies.rls = { ...honest.rls, describe }
    },
    outcome: compared,
  },
  write: {
    tell({ lies }) {
      lies.write = async () => ({ epoch: 0, outcome: 'applied', upserted: 0, deleted: 0 })
    },
    outcome: synced,
  },
  read: {
    tell({ honest, lies }) {
      lies.read = async function* (target, plan) {
        for await (const batch of honest.read(target, plan))
          yield { ...batch, rowCount: Math.max(0, batch.rowCount - 1) }
      }
    },
    outcome: compared,
  },
  operate: {
    tell({ honest, lies }) {
      lies.operate = (target, plan) => (honest.operate as NonNullable<Store['operate']>)(target, { ...plan, limit: 1 })
    },
    async outcome(product, store) {
      await sync(product, store)
      const served = servedBy(store.serving, [{ target: targetOf(product), maskedColumns: [] }])
      return askedBy(store.serving, served, { input: { column: 'name', text: 'a' }, columns: ['id'] })
    },
  },
  recover: {
    tell({ lies }) {
      lies.recover = async () => ({ epoch: 1, fence: 1n, committedAt: '2020-01-01T00:00:00.000000Z' })
    },
    async outcome(product, store) {
      await sync(product, store)
      let writes = 0
      store.lies.write = (...asked) => {
        writes += 1
        return store.honest.write(...asked)
      }
      await sync(product, store)
      return writes
    },
  },
  validate: {
    tell({ lies }) {
      lies.validate = async (target) =>
        target.schema.columns.map((column) => ({ column, verdict: 'forbidden', reason: 'not on a Sunday' }))
    },
    async outcome(product, store) {
      const { normalised } = (await findVersion<ManifestSet>(pool, product.id, '1.0.0')) as { normalised: ManifestSet }
      const platform = world.deps(store) as unknown as DeployDeps
      const [plan] = await storePlans(platform, product, normalised, null)
      return plan?.columns.map(({ verdict, reason }) => `${verdict}: ${reason}`)
    },
  },
  digest: {
    tell({ honest, lies }) {
      lies.digest = async (target, signal) => ({
        ...(await (honest.digest as NonNullable<Store['digest']>)(target, signal)),
        rowCount: 4,
      })
    },
    outcome: compared,
  },
  drop: {
    tell({ honest, lies }) {
      lies.drop = (target) => honest.drop(target, 'plan')
    },
    async outcome(product, store) {
      await sync(product, store)
      return refusal(dropAllCopies(product, world.deps(store)))
    },
  },
  dropTenant: {
    tell({ lies }) {
      lies.dropTenant = async () => undefined
    },
    async outcome(product, store) {
      await sync(product, store)
      return refusal(dropTenantCopies(product.tenant, world.deps(store)))
    },
  },
  probe: {
    tell({ lies }) {
      lies.probe = async () => ({ ok: false, checks: [{ name: 'walls', ok: false, message: 'there are none' }] })
    },
    outcome: (_, store) => faultOf(store.serving.store, SIGNAL),
  },
  health: {
    tell({ lies }) {
      lies.health = () => ({ status: 'down' })
    },
    outcome: async (_, { serving }) => refusal((async () => readinessOf(serving.store, null))()),
  },
  close: {
    tell({ lies }) {
      lies.close = async () => {
        throw new SluiceError('INTERNAL', 'it does not close', { code: 'internal_error' })
      }
    },
    outcome: (_, { serving: { store } }) =>
      refusal(closeStores([{ store, host: { async [Symbol.asyncDispose]() {} } }])),
  },
  activate: 'deprecated',
  query: 'deprecated',
}

/** By the question, which several hooks share. */
const honestOutcomes = new Map<Lie['outcome'], Promise<unknown>>()

async function outcomeOf({ tell, outcome }: Lie, isLying: boolean): Promise<unknown> {
  const [product, store] = [await world.product([LOOKUP]), await world.openStore('lookup')]
  await world.epoch(product, 1, rowsTo(7))
  if (isLying) tell(store)
  return outcome(product, store)
}

function honestOutcome(lie: Lie): Promise<unknown> {
  const known = honestOutcomes.get(lie.outcome) ?? outcomeOf(lie, false)
  honestOutcomes.set(lie.outcome, known)
  return known
}

for (const [hook, lie] of Object.entries(LIES)) {
  if (lie === 'deprecated') continue
  test(`a store that lies in ${hook} changes what the runtime does`, async () => {
    assert.notDeepEqual(await outcomeOf(lie, true), await honestOutcome(lie))
  })
}

test('every hook of the contract is tried here, or said to be deprecated there', async () => {
  const source = await readFile(join(import.meta.dirname, '../../../sdk/store.ts'), 'utf8')
  const contract = source.slice(source.indexOf('export interface ServingStore'))
  const declared = [...contract.matchAll(/^( {2}| {4})(?:readonly )?(\w+)\??[(:]/gm)].map(([, indent, name]) =>
    indent?.length === 4 ? `rls.${name}` : name,
  )
  assert.deepEqual(declared.filter((name) => name !== 'rls').sort(), Object.keys(LIES).sort())
  for (const [hook, lie] of Object.entries(LIES)) {
    const comment = contract.slice(
      0,
      contract.search(new RegExp(`^\\s+(readonly )?${hook.split('.').at(-1)}\\??[(:]`, 'm')),
    )
    const own = comment.slice(comment.lastIndexOf('/**'))
    assert.equal(own.includes('@deprecated'), lie === 'deprecated', hook)
  }
})

test('what a deployment has planned is what a store is held to; where that is outdated, a new plan is told', async () => {
  const [product, store] = [await world.product([LOOKUP]), await world.openStore('lookup')]
  await deployedByPlan(product, store)
  await world.epoch(product, 1, rowsTo(7))
  const hashes: (string | undefined)[] = []
  store.lies.provision = (target, mode, hash) => {
    if (mode === 'apply' && target.variant === 'clear') hashes.push(hash)
    return store.honest.provision(target, mode, hash)
  }
  const { hash } = await store.honest.provision(targetOf(product), 'plan')
  // Somebody has made the place meanwhile.
  await store.honest.provision(targetOf(product), 'apply')
  assert.deepEqual(await synced(product, store), [['ok', null]])
  assert.deepEqual(hashes, [hash, planOfSteps([]).hash])
  const told = world.logger.lines.filter(({ message }) => message.includes('planned anew'))
  assert.deepEqual(
    told.map(({ fields }) => [fields['product'], fields['steps']]),
    [[product.id, 0]],
  )
  await world.epoch(product, 2, rowsTo(8))
  await sync(product, store)
  assert.equal(hashes.at(-1), undefined, 'later epochs make their place whatever is needed')
})
