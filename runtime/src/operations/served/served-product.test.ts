import assert from 'node:assert/strict'
import { it } from 'node:test'
import { type MaskedEpoch, rowMasks } from '../../policy/made-masks.ts'
import { orClear, type ReadAccess, refuseUnmade, type ServedProduct, servedTarget } from './served-product.ts'

const access: ReadAccess = {
  variant: 'masked',
  masks: [{ column: 'email', classification: 'pii.identifier', strategy: 'hash' }],
  audit: false,
}

function productWith(
  variants: readonly string[],
  targets: readonly string[],
  coming: readonly string[] = [],
  { lake = 1, store = 1 } = {},
): ServedProduct {
  const endpoint = {
    type: 'lookup',
    targets: new Map(targets.map((variant) => [variant, { epoch: store }])),
    isServed: true,
    rebuilding: new Set(),
    coming: new Set(coming),
    isSettled: true,
  }
  return {
    domain: 'crm',
    name: 'people',
    remaking: { name: 'crm.people', paused: null, toDeploy: [] },
    variants: new Map(variants.map((variant) => [variant, { epoch: lake }])),
    endpoints: new Map([['lookup', endpoint]]),
  } as unknown as ServedProduct
}

it('a copy that a raised class asks for and that is not made yet is pending, not forbidden and not absent', () => {
  const pending = productWith(['clear'], ['clear'])
  assert.throws(() => servedTarget(pending, 'lookup', access), { code: 'mask_pending' })
  assert.throws(() => refuseUnmade(pending, access), { code: 'mask_pending' })
  const keyedByMasked = productWith(['clear', 'masked'], ['clear'])
  assert.throws(() => servedTarget(keyedByMasked, 'lookup', access), { code: 'column_masked' })
  assert.throws(() => servedTarget(productWith([], []), 'lookup', access), { code: 'not_materialized' })
  const halfWritten = productWith(['clear', 'masked'], ['clear'], ['masked'])
  assert.throws(() => servedTarget(halfWritten, 'lookup', access), { code: 'not_materialized' })
  const switching = productWith(['clear', 'masked'], ['clear'], ['masked'], { lake: 2, store: 1 })
  assert.throws(() => servedTarget(switching, 'lookup', access), { code: 'mask_pending' }, 'it was read before')
})

it('rows in clear are for whoever is hidden nothing that they have, where there is no twin', () => {
  const epoch: MaskedEpoch = { maskedColumns: { clear: [] }, masks: { clear: {} } }
  const givenOf = (columns: readonly string[], there: readonly string[]) =>
    orClear(access, (variant) =>
      there.includes(variant)
        ? rowMasks(
            epoch,
            variant,
            columns.map((name) => ({ name })),
          )
        : undefined,
    )
  assert.deepEqual(givenOf(['id', 'city'], ['clear']), { ...access, variant: 'clear', masks: [] })
  assert.deepEqual(givenOf(['id', 'email'], ['clear']), access)
  assert.deepEqual(givenOf(['id', 'city'], ['clear', 'masked']), access, 'the twin is there')
  assert.deepEqual(givenOf(['id', 'city'], []), access)
})
