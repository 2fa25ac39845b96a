/**
 * Every way to read rows from a store, in a runtime that has not heard that the product was deleted and made anew under its name:
 * it decides by the former one, in which a column is in clear, and the store has rows of the new one, in which it is masked.
 */
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { isSluiceError } from '@sluice/sdk'
import { inTransaction } from '../../database/pools.ts'
import { materializedTimes } from '../../registry/former-products.fixture.ts'
import { createProduct, deleteProduct, type Product } from '../../registry/products.ts'
import { ANN, startTestRegistry, type TestRegistry } from '../../registry/testing.ts'
import { servedBy } from './operation-under-test.fixture.ts'
import type { ReadDeps } from './read-endpoint.ts'
import { storeAt, UNUSED, WAYS } from './ways-of-reading.fixture.ts'

let registry: TestRegistry

before(async () => {
  registry = await startTestRegistry()
})
after(() => registry?.[Symbol.asyncDispose]())

const RUNS = [1, 2, 3]
/** How often the former product was made, and the new one since. */
const PAIRS = RUNS.flatMap((former) => RUNS.map((since) => ({ former, since })))

function peopleOf(tenant: string): Promise<Product> {
  const people = { tenant, domain: 'crm', name: 'people', archetype: 'aggregate', createdBy: ANN } as const
  return inTransaction(registry.pool, (tx) => createProduct(tx, people))
}

/** The last epoch of the former product, and the one that the new one has in its stores. */
async function epochsOf({ former, since }: (typeof PAIRS)[number]): Promise<readonly [number, number]> {
  const tenant = await registry.tenant()
  const gone = await peopleOf(tenant)
  const held = await materializedTimes(registry.pool, gone, former)
  await inTransaction(registry.pool, (tx) => deleteProduct(tx, tenant, gone.id))
  return [held, await materializedTimes(registry.pool, await peopleOf(tenant), since)]
}

describe('rows of a product that was made anew are shown by no policy of the one that had its name', {
  concurrency: true,
}, () => {
  for (const [name, way] of Object.entries(WAYS)) {
    for (const pair of PAIRS) {
      it(`${name}: made ${pair.former} times before, ${pair.since} since`, async () => {
        const [held, now] = await epochsOf(pair)
        const [serving, clear, masked] = await storeAt(way.type, now, way.config)
        const copies = [
          { target: clear, maskedColumns: [] },
          { target: masked, maskedColumns: ['name'] },
        ]
        const former = servedBy(serving, copies, {}, held)
        const made = { ...servedBy(serving, copies, { name: 'pii.name' }, now), id: 'p2' }
        let found = former
        const deps: ReadDeps = {
          ...UNUSED,
          rules: { sensitive: [], strategies: {} } as unknown as ReadDeps['rules'],
          find: async () => found,
          forget: () => {
            found = made
          },
          // The former one is in no registry any more.
          withCopyAt: async () => null,
          doubt: async () => undefined,
        }
        const answer = await way.read(deps, serving).catch((error: unknown) => {
          if (!isSluiceError(error)) throw error
          return error.code
        })
        assert.doesNotMatch(answer, /ana/)
        // What selects by the column says why it does not any more.
        if (answer === 'column_masked') return assert.match(name, /operation/)
        const { meta } = JSON.parse(answer)
        assert.deepEqual([meta.epoch, meta.masked_columns], [now, ['name']])
      })
    }
  }
})
