import assert from 'node:assert/strict'
import { it } from 'node:test'
import type { ManifestSet } from '../manifest/manifest-set.ts'
import { masksFor } from '../policy/masking.ts'
import { recipeOf } from './changed-rows.ts'

const column = { name: 'phone', type: 'long', nullable: true, classification: 'pii.name' } as const

it('a product is what it was as long as its rows are masked in the same way', () => {
  const manifests = {} as ManifestSet
  const recipe = (masks: ReturnType<typeof masksFor>) =>
    recipeOf(manifests, { variant: 'masked', masks, schema: { columns: [column], primaryKey: [] } }, [], [])
  const kept = [{ column: 'phone', classification: 'pii.name', strategy: 'null' }] as const
  const told = masksFor([column], new Set(), { sensitive: [], strategies: {} })
  assert.equal(told[0]?.elsewhere, 'redact')
  // What masks say besides, of a type that the column does not have, makes no row another one.
  assert.equal(recipe(told), recipe(kept))
  assert.notEqual(recipe([{ ...kept[0], strategy: 'omit' }]), recipe(kept))
})
