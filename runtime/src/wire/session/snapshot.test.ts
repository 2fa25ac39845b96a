import assert from 'node:assert/strict'
import { it } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import type { WireError } from '../protocol/wire-error.ts'
import { Snapshot } from './snapshot.ts'
import { Transaction } from './transaction.ts'

const seen = (name: string, snapshotId: string) => ({ name, snapshotId })

it('a transaction has one instant, after all that is committed by then', async () => {
  const [startMs, startedMs] = [Date.UTC(2026, 10, 30), performance.now()]
  const now = () => startMs + (performance.now() - startedMs)
  const committedMs = now()
  const snapshot = new Snapshot(async () => new Date(now()))
  const begunMs = now()
  // Its first statement was of the catalogue; what is committed from then on is not of it.
  await sleep(50)
  const laterMs = now()
  const instant = await snapshot.instant()
  assert.ok(Date.parse(instant) > committedMs, 'what was there before')
  // A clock of whole milliseconds, the one that is added, and what the asking takes.
  assert.ok(Date.parse(instant) <= begunMs + 2 + (now() - laterMs), 'what came later')
  await sleep(5)
  assert.equal(await snapshot.instant(), instant)
})

it('statements of one message are of one transaction, and what follows is of another', () => {
  const transaction = new Transaction()
  const make = () => new Snapshot(async () => new Date())
  const first = transaction.reading(make)
  assert.equal(transaction.reading(make), first)
  transaction.settle()
  const second = transaction.reading(make)
  assert.notEqual(second, first)
  transaction.begin()
  transaction.checkFresh('the isolation level')
  const third = transaction.reading(make)
  assert.notEqual(third, second)
  transaction.settle()
  assert.equal(transaction.reading(make), third)
  assert.throws(() => transaction.checkFresh('the isolation level'), { sqlState: '25001' })
  transaction.end('COMMIT')
  assert.notEqual(transaction.reading(make), third)
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
