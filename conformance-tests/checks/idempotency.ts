/** Every call may be repeated, and repeating it changes nothing. */
import { isSluiceError } from '@sluice/sdk'
import { type Check, expect, expectRefusal } from '../check.ts'
import { FORCED_POLICY } from '../context.ts'
import type { Dataset } from '../dataset.ts'
import { changed, rowsOf, SIMPLE, WIDER } from '../shapes.ts'

const TIMES = 10

export const idempotencyChecks: readonly Check[] = [
  {
    id: 16,
    name: 'tenant-provision-x10-idempotent',
    level: 'core',
    async run(context) {
      const dataset = await context.filled(9)
      const scope = dataset.target.scope
      for (let time = 0; time < TIMES; time += 1) await context.store.dropTenant(scope)
      await expectGone(dataset, 'a dropped tenant has no rows')
      await context.store.provision(dataset.target, 'apply')
      await context.store.rls.install(dataset.target, FORCED_POLICY)
      await dataset.full(rowsOf(SIMPLE, 50, 4, context.random))
      await dataset.expectRows('after a drop the place can be made and filled again, and nothing of before comes back')
    },
  },
  {
    id: 17,
    name: 'apply-x10-idempotent',
    level: 'core',
    async run(context) {
      const dataset = await context.filled(9)
      for (let time = 0; time < TIMES; time += 1) {
        await context.store.provision(dataset.target, 'apply')
        await context.store.rls.install(dataset.target, FORCED_POLICY)
      }
      await dataset.expectRows('applying the same provision again keeps every row')
      await dataset.delta(rowsOf(SIMPLE, 100, 3, context.random))
      await dataset.expectRows('and the next epoch still follows the last')
    },
  },
  {
    id: 18,
    name: 'plan-after-apply-empty',
    level: 'core',
    async run(context) {
      const dataset = context.unprovisioned(SIMPLE)
      const before = await context.store.provision(dataset.target, 'plan')
      expect(before.steps.length > 0, () => ({
        what: 'the plan for a place that does not exist is empty',
        where: 'store.provision, mode plan',
        why: 'the deployer is shown what will be done',
        remedy: 'Return a step for everything that apply would make.',
      }))
      await context.store.provision(dataset.target, 'apply')
      const after = await context.store.provision(dataset.target, 'plan')
      expect(after.steps.length === 0, () => ({
        what: `after apply the plan still holds: ${after.steps.map((step) => step.description).join('; ')}`,
        where: 'store.provision, mode plan',
        why: 'a plan that never becomes empty hides real drift',
        remedy: 'Compare with what is there, and return only what differs.',
      }))
    },
  },
  {
    id: 19,
    name: 'dry-run-changes-nothing',
    level: 'core',
    async run(context) {
      const { store } = context
      const fresh = context.unprovisioned(SIMPLE)
      const first = await store.provision(fresh.target, 'plan')
      const second = await store.provision(fresh.target, 'plan')
      expect(first.steps.length > 0 && first.hash === second.hash, () => planHadEffect('two plans in a row differ'))
      const dataset = await context.filled(9)
      const { target } = dataset
      await store.provision({ ...target, schema: WIDER }, 'plan').catch(ignoreConflict)
      const drop = await store.drop(target, 'plan')
      expect(drop.steps.length > 0, () => planHadEffect('the plan to drop a dataset with rows is empty'))
      const again = await store.provision(target, 'plan')
      expect(again.steps.length === 0, () => planHadEffect('a plan for wider columns widened them'))
      await dataset.expectRows('planning a change or a drop leaves every row')
    },
  },
  {
    id: 20,
    name: 'plan-hash-stale-refused',
    level: 'core',
    async run(context) {
      const { store } = context
      const dataset = context.unprovisioned(SIMPLE)
      const before = await store.provision(dataset.target, 'plan')
      await expectRefusal(
        {
          kind: 'CONFLICT',
          tried: 'applying with the hash of another plan',
          where: 'store.provision, expectedHash',
          why: 'what is applied must be what was shown',
        },
        () => store.provision(dataset.target, 'apply', `not ${before.hash}`),
      )
      const after = await store.provision(dataset.target, 'plan')
      expect(after.hash === before.hash && after.steps.length > 0, () => planHadEffect('a refused apply had an effect'))
      await store.provision(dataset.target, 'apply', before.hash)
      await store.rls.install(dataset.target, FORCED_POLICY)
      await dataset.full(rowsOf(SIMPLE, 1, 3, context.random))
      await dataset.expectRows('with the right hash it is applied')
    },
  },
  {
    id: 32,
    name: 'drop-one-product-leaves-neighbours',
    level: 'core',
    async run(context) {
      const neighbours = [
        await context.filled(9, { product: 'orders2' }),
        await context.filled(9, { product: 'orders', domain: 'conformance2' }),
        await context.filled(9, { product: 'orders', variant: 'masked' }),
        await context.filled(9, { product: 'orders', tenant: 'b' }),
      ]
      const dropped = await context.filled(9, { product: 'orders' })
      await context.store.drop(dropped.target, 'apply')
      await expectGone(dropped, 'a dropped dataset has no rows')
      const plan = await context.store.drop(dropped.target, 'plan')
      expect(plan.steps.length === 0, () => planHadEffect('the plan to drop what is dropped is not empty'))
      for (const neighbour of neighbours) await neighbour.expectRows('dropping one dataset leaves the others')
    },
  },
  {
    id: 33,
    name: 'drop-tenant-leaves-other-tenants-and-no-residue',
    level: 'core',
    async run(context) {
      const other = await context.filled(9, { product: 'orders', tenant: 'b' })
      const dropped = [
        await context.filled(9, { product: 'orders' }),
        await context.filled(9, { product: 'orders', variant: 'masked' }),
        await context.filled(9, { product: 'items' }),
      ]
      await context.store.dropTenant(context.tenant())
      for (const dataset of dropped) await expectGone(dataset, 'nothing of a dropped tenant is left')
      await other.expectRows('dropping a tenant leaves the others')
      await other.delta(rowsOf(SIMPLE, 70, 2, context.random))
      await other.expectRows('and they can be written to')
    },
  },
  {
    id: 59,
    name: 'commit-x10-idempotent',
    level: 'core',
    async run(context) {
      const dataset = await context.filled(9)
      const rows = [...dataset.content.values()]
      const upserts = rows.slice(0, 3).map((row) => changed(SIMPLE, row, { name: 'again' }))
      const write = await dataset.prepare({ mode: 'delta', upserts, deletes: rows.slice(3, 4) })
      const outcomes: string[] = []
      for (let time = 0; time < TIMES; time += 1) outcomes.push((await dataset.apply(write)).outcome)
      const [first, ...others] = outcomes
      expect(first === 'applied' && others.every((outcome) => outcome === 'already_applied'), () => ({
        what: `ten times the same epoch gave ${outcomes.join(', ')}`,
        where: 'store.write, receipt.outcome',
        why: 'the runtime repeats a write whose answer was lost, and must learn that it is there',
        remedy: 'Compare commit.epoch with the applied epoch before doing anything.',
      }))
      await dataset.expectRows('ten times the same epoch leaves what one time leaves')
    },
  },
  {
    id: 68,
    name: 'epoch-replay-is-noop',
    level: 'core',
    async run(context) {
      const dataset = await context.filled(9)
      const content = [...dataset.content.values()]
      for (const mode of ['full', 'delta'] as const) {
        const upserts = rowsOf(SIMPLE, 500, 3, context.random)
        const replay = await dataset.prepare({ mode, upserts, commit: { epoch: dataset.epoch } })
        const { outcome } = await context.store.write(dataset.target, replay.changes, replay.commit)
        expect(outcome === 'already_applied', () => ({
          what: `an epoch that the store has was ${outcome}`,
          where: `store.write, mode ${mode}`,
          why: 'an epoch is applied once, whatever a later change set of the same number holds',
          remedy: 'Compare commit.epoch with the applied epoch before reading the change set.',
        }))
        await dataset.expectRows('a replayed epoch changes nothing', content)
      }
    },
  },
]

/** Not materialized, or no rows: either way nothing is seen. */
async function expectGone(dataset: Dataset, why: string): Promise<void> {
  try {
    await dataset.expectRows(why, [])
  } catch (error) {
    if (!isSluiceError(error, 'TRANSIENT')) throw error
  }
}

function ignoreConflict(error: unknown): void {
  if (!isSluiceError(error, 'CONFLICT')) throw error
}

function planHadEffect(what: string) {
  return {
    what,
    where: 'store.provision and store.drop',
    why: 'a plan tells exactly what apply would do, and does none of it',
    remedy: 'Compute the steps without executing anything.',
  }
}
