import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { Lake } from '@sluice/iceberg'
import type { ManifestSet } from '../manifest/manifest-set.ts'
import type { Materialization } from '../registry/materializations.ts'
import { isUnchanged, type Made, valuesAge } from './unchanged.ts'

const HOUR_MS = 3_600_000
const committedAt = new Date('2026-01-01T00:00:00Z')
const after = (hours: number) => new Date(committedAt.getTime() + hours * HOUR_MS)

function ages(endpoints: readonly { readonly type: string; readonly config: object }[], hours: number): boolean {
  const manifests = { serving: { endpoints } } as unknown as Pick<ManifestSet, 'serving'>
  return valuesAge(manifests, { committedAt } as Materialization, after(hours))
}

describe('values by key of an epoch that stays', () => {
  const realtime = { type: 'realtime', config: { key_template: '{id}', ttl: '24h' } }

  it('are made anew before they end', () => {
    assert.deepEqual(
      [0, 11, 12, 30].map((hours) => ages([{ type: 'lookup', config: {} }, realtime], hours)),
      [false, false, true, true],
    )
  })

  it('are of a type that lets values end', () => {
    assert.equal(ages([{ type: 'lookup', config: {} }], 10_000), false)
    assert.equal(ages([{ type: 'somebodys', config: { ttl: '1h' } }], 10_000), false)
  })
})

it('rows of which nobody knows by which masks they were made are not what they would be made now', async () => {
  const manifests = { inputs: [], compute: { engine: 'auto', transform: null }, output: {}, quality: { checks: [] } }
  const inputs = [{ input: { name: 'source' }, state: { snapshotId: '7' } }]
  const deployed = { version: '1.0.0', digest: 'd', manifests, variants: [] }
  const made = { product: {}, deployed, keys: [], inputs } as unknown as Made
  const epoch = { version: '1.0.0', digest: 'd', epoch: 1, maskedColumns: { clear: [], masked: ['phone'] } }
  const known = [null, {}, { masked: {} }, { masked: { phone: 'hash' } }].map((masks) => {
    return isUnchanged(
      made,
      { ...epoch, masks } as unknown as Materialization,
      {} as Lake,
      new AbortController().signal,
    )
  })
  assert.deepEqual(await Promise.all(known), [false, false, false, true])
})
