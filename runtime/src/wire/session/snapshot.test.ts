import assert from 'node:assert/strict'
import { it } from 'node:test'
import type { WireError } from '../protocol/wire-error.ts'
import { Snapshot } from './snapshot.ts'

const seen = (name: string, snapshotId: string) => ({ name, snapshotId })

it('a transaction has one instant, after all that is committed by then', async () => {
  let nowMs = Date.UTC(2026, 10, 30)
  const snapshot = new Snapshot(async () => new Date(nowMs++))
  assert.equal(await snapshot.instant(), '2026-11-30T00:00:00.001Z')
  assert.equal(await snapshot.instant(), '2026-11-30T00:00:00.001Z')
})

it('a table of which it would read other rows ends it with 40001', () => {
  const snapshot = new Snapshot(async () => new Date())
  snapshot.check([seen('crm.people', '1'), seen('crm.orders', '2')])
  snapshot.check([seen('crm.orders', '2'), seen('raw_db.other', '3')])
  assert.throws(
    () => snapshot.check([seen('crm.people', '4')]),
    (error: WireError) => error.sqlState === '40001',
  )
})
