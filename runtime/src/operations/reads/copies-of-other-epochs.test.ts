/** Every way to read rows from a store, by every epoch that the store may have beside every one that the registry has of it. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { isSluiceError } from '@sluice/sdk'
import { lossIn } from '../../materializer/store-review.ts'
import type { ServedEndpoint, ServedProduct, ServedTarget } from '../served/served-product.ts'
import { servedBy } from './operation-under-test.fixture.ts'
import type { ReadDeps } from './read-endpoint.ts'
import { SCHEMA, storeAt, UNUSED, WAYS, type Way } from './ways-of-reading.fixture.ts'

const EPOCHS = [1, 2, 9]

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
