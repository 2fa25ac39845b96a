import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { ManifestSet } from '../manifest/manifest-set.ts'
import type { Materialization } from '../registry/materializations.ts'
import { valuesAge } from './unchanged.ts'

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
