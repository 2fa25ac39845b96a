import assert from 'node:assert/strict'
import { after, describe, it } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { until } from '../../../test/until.ts'
import { inTransaction } from '../database/pools.ts'
import { startTestPostgres } from '../database/testing.ts'
import { eventMigrations } from './migrations.ts'
import { appendEvent, provisionTopics } from './outbox.ts'
import { runInRounds } from './rounds.ts'

const database = await (await startTestPostgres()).createDatabase({ migrations: [eventMigrations] })
const pool = database.pool()
await inTransaction(pool, (tx) => provisionTopics(tx, 'acme'))
after(() => database.drop())

const say = () => inTransaction(pool, (tx) => appendEvent(tx, { tenant: 'acme', kind: 'tenant', name: 'told' }))

/** Rounds that look only when told, unless `pollMs` says otherwise, and what is seen of them. */
function begin(round: () => Promise<void> = async () => undefined, pollMs = 600_000) {
  const stop = new AbortController()
  const seen: string[] = []
  const ended = runInRounds({
    address: database.address,
    applicationName: 'rounds',
    pollMs,
    // A connection that is not ended is never taken for lost: rounds come by events alone.
    heartbeatMs: 600_000,
    async round() {
      await round()
      seen.push('round')
    },
    failed: (_, isNews) => void seen.push(isNews ? 'news' : 'failed'),
    ended: async () => void seen.push('ended'),
    signal: stop.signal,
  })
  return {
    seen,
    until: (count: number): Promise<void> => until(`round ${count}`, () => seen.length >= count),
    async close(): Promise<void> {
      stop.abort()
      await ended
    },
  }
}

describe('rounds', () => {
  it('begin at once, come when it is listened and with every event, and end while they wait', async () => {
    const rounds = begin()
    await rounds.until(2)
    await say()
    await rounds.until(3)
    await rounds.close()
    assert.deepEqual(rounds.seen, ['round', 'round', 'round', 'ended'])
  })

  it('come for an event during the one before', async () => {
    let count = 0
    const rounds = begin(async () => {
      count += 1
      if (count !== 2) return
      await say()
      await sleep(200)
    })
    await rounds.until(3)
    await rounds.close()
  })

  it('tell of a failure when it is news', async () => {
    const outcomes = [false, true, true, false, true]
    const rounds = begin(async () => {
      if (outcomes.shift() ?? false) throw new Error('away')
    }, 1)
    await rounds.until(5)
    await rounds.close()
    assert.deepEqual(rounds.seen.slice(0, 5), ['round', 'news', 'failed', 'round', 'news'])
  })

  it('are not asked at every event while they fail', async () => {
    let isAway = false
    const rounds = begin(async () => {
      if (isAway) throw new Error('away')
    })
    await rounds.until(2)
    isAway = true
    await say()
    await rounds.until(3)
    await say()
    await sleep(200)
    await rounds.close()
    assert.deepEqual(rounds.seen, ['round', 'round', 'news', 'ended'])
  })
})
