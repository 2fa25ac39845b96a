import assert from 'node:assert/strict'
import { after, describe, it } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import type pg from 'pg'
import { until } from '../../../test/until.ts'
import { inTransaction } from '../database/pools.ts'
import { startTestPostgres } from '../database/testing.ts'
import type { CloudEvent } from './envelope.ts'
import { EventFeed } from './feed.ts'
import { eventMigrations } from './migrations.ts'
import { appendEvent, dropTopics, listTopics, numberEvents, provisionTopics, pruneEvents } from './outbox.ts'
import { enlistTenants, forgetRelays } from './relay-positions.ts'

const database = await (await startTestPostgres()).createDatabase({ migrations: [eventMigrations] })
const pool = database.pool({ maxConnections: 12 })
/** Looks only when told: a notification that was lost shows. */
const pollMs = 600_000
const feed = new EventFeed({ pool, address: database.address, pollMs })
after(async () => {
  await feed.close()
  await database.drop()
})

let tenants = 0

async function newTenant(): Promise<string> {
  const tenant = `tenant-${tenants++}`
  await inTransaction(pool, (tx) => provisionTopics(tx, tenant))
  return tenant
}

function tell(tx: pg.PoolClient, tenant: string, name: string): Promise<void> {
  return appendEvent(tx, { tenant, kind: 'ingestion', name, subject: 'run_1', data: { name } })
}

function say(tenant: string, name: string): Promise<void> {
  return inTransaction(pool, (tx) => tell(tx, tenant, name))
}

/** Follows until that many have come. */
async function take(tenant: string, from: number | null, count: number, source = feed): Promise<CloudEvent[]> {
  const taken: CloudEvent[] = []
  if (count === 0) return taken
  for await (const event of source.follow(tenant, from, new AbortController().signal)) {
    taken.push(event)
    if (taken.length === count) break
  }
  return taken
}

const sequences = (events: readonly CloudEvent[]): number[] => events.map(({ sequence }) => Number(sequence))
const names = (events: readonly CloudEvent[]): unknown[] => events.map(({ data }) => data.name)

describe('events', { timeout: 600_000 }, () => {
  it('are CloudEvents of the tenant’s topics', async () => {
    const tenant = await newTenant()
    await say(tenant, 'started')
    const [event] = await take(tenant, 0, 1)
    const { id, time, ...rest } = event as CloudEvent
    assert.deepEqual(rest, {
      specversion: '1.0',
      source: `/tenants/${tenant}`,
      type: 'sluice.ingestion.started',
      subject: 'run_1',
      datacontenttype: 'application/json',
      tenantid: tenant,
      sequence: '1',
      data: { name: 'started' },
    })
    assert.match(id, /^evt_[0-9a-f]{24}$/)
    assert.equal(new Date(time).toISOString(), time)
    assert.deepEqual(await listTopics(pool, tenant), [
      `sluice.${tenant}.audit`,
      `sluice.${tenant}.deployment`,
      `sluice.${tenant}.ingestion`,
      `sluice.${tenant}.materialization`,
      `sluice.${tenant}.quality`,
      `sluice.${tenant}.tenant`,
    ])
  })

  it('carry the trace of the request that gave rise to them', async () => {
    const tenant = await newTenant()
    const traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'
    const told = { tenant, kind: 'tenant', name: 'told' } as const
    await inTransaction(pool, (tx) => appendEvent(tx, { ...told, traceparent }))
    await inTransaction(pool, (tx) => appendEvent(tx, { ...told, traceparent: null }))
    const [traced, untraced] = await take(tenant, 0, 2)
    assert.equal(traced?.traceparent, traceparent)
    assert.equal(Object.hasOwn(untraced as CloudEvent, 'traceparent'), false)
  })

  it('are there with what they tell, or neither', async () => {
    const tenant = await newTenant()
    const failing = inTransaction(pool, async (tx) => {
      await tell(tx, tenant, 'never')
      throw new Error('no')
    })
    await assert.rejects(failing)
    await say(tenant, 'happened')
    assert.deepEqual(names(await take(tenant, 0, 1)), ['happened'])
  })

  it('are never missed though transactions commit in another order than they wrote', async () => {
    const tenant = await newTenant()
    const seen = take(tenant, 0, 3)
    await inTransaction(pool, async (slow) => {
      await tell(slow, tenant, 'written first')
      await say(tenant, 'committed first')
      // Somebody has read, and numbered, what was there by now.
      assert.deepEqual(names(await take(tenant, 0, 1)), ['committed first'])
      await say(tenant, 'committed second')
      assert.deepEqual(sequences(await take(tenant, 0, 2)), [1, 2])
    })
    const events = await seen
    assert.deepEqual(sequences(events), [1, 2, 3])
    assert.deepEqual(names(events), ['committed first', 'committed second', 'written first'])
  })

  it('come to every follower once and in one order, whoever writes and numbers at the same time', async () => {
    const tenant = await newTenant()
    const writers = 8
    const each = 25
    const second = new EventFeed({ pool, address: database.address, pollMs })
    const following = [take(tenant, 0, writers * each), take(tenant, null, 0), take(tenant, 0, writers * each, second)]
    const write = async (writer: number): Promise<void> => {
      for (let n = 0; n < each; n++) {
        await inTransaction(pool, async (tx) => {
          await tell(tx, tenant, `${writer}-${n}`)
          if (n % 5 === 0) await sleep(writer)
        })
      }
    }
    await Promise.all(Array.from({ length: writers }, (_, writer) => write(writer)))
    const [one, , other] = await Promise.all(following)
    assert.deepEqual(
      sequences(one ?? []),
      Array.from({ length: writers * each }, (_, index) => index + 1),
    )
    assert.deepEqual(other, one)
    assert.equal(new Set(names(one ?? [])).size, writers * each)
    // What one writer committed one after the other keeps its order.
    for (let writer = 0; writer < writers; writer++) {
      const own = names(one ?? []).filter((name) => String(name).startsWith(`${writer}-`))
      assert.deepEqual(
        own,
        Array.from({ length: each }, (_, n) => `${writer}-${n}`),
      )
    }
    await second.close()
  })

  it('are resumed after any of them, over more than one page', async () => {
    const tenant = await newTenant()
    await inTransaction(pool, async (tx) => {
      for (let n = 1; n <= 450; n++) await tell(tx, tenant, String(n))
    })
    assert.deepEqual(
      sequences(await take(tenant, 120, 330)),
      Array.from({ length: 330 }, (_, index) => index + 121),
    )
    await assert.rejects(take(tenant, 451, 1), { code: 'event_unknown' })
    let hasCome = false
    const coming = take(tenant, null, 1).finally(() => {
      hasCome = true
    })
    // Whoever follows from now on begins at some time after this, and hears of what is said after that.
    await until('one comes', async () => {
      if (!hasCome) await say(tenant, 'new')
      return hasCome
    })
    assert.deepEqual(names(await coming), ['new'])
  })

  it('about a product are numbered within it, over as many rounds as it takes', async () => {
    const tenant = await newTenant()
    const about = (subject: string, kind: 'materialization' | 'quality' | 'ingestion') =>
      inTransaction(pool, (tx) => appendEvent(tx, { tenant, kind, name: 'told', subject }))
    for (const subject of ['a', 'b', 'a']) await about(subject, 'materialization')
    await about('a', 'ingestion')
    await take(tenant, 0, 4)
    await about('b', 'quality')
    await about('a', 'quality')
    await inTransaction(pool, (tx) => pruneEvents(tx, tenant, { maxEvents: 0 }))
    await about('a', 'materialization')
    const events = await take(tenant, 6, 1)
    assert.deepEqual(
      events.map(({ subject, productsequence }) => [subject, productsequence]),
      [['a', '4']],
    )
    await about('b', 'materialization')
    const [next] = await take(tenant, 7, 1)
    assert.deepEqual([next?.subject, next?.productsequence], ['b', '3'])
  })

  it('of one tenant are not another’s', async () => {
    const [mine, theirs] = [await newTenant(), await newTenant()]
    await say(theirs, 'secret')
    await say(mine, 'mine')
    assert.deepEqual(names(await take(mine, 0, 1)), ['mine'])
  })

  it('are kept within bounds, and whoever comes too late is told', async () => {
    const tenant = await newTenant()
    for (let n = 1; n <= 10; n++) await say(tenant, String(n))
    await take(tenant, 0, 10)
    const prune = (retention: Parameters<typeof pruneEvents>[2]) =>
      inTransaction(pool, (tx) => pruneEvents(tx, tenant, retention))
    assert.equal(await prune({}), 0)
    assert.equal(await prune({ maxEvents: 6 }), 4)
    assert.deepEqual(sequences(await take(tenant, 0, 6)), [5, 6, 7, 8, 9, 10])
    assert.deepEqual(sequences(await take(tenant, 4, 1)), [5])
    await assert.rejects(take(tenant, 3, 1), { code: 'events_expired', details: { oldest: 5 } })
    await pool.query(`update events set at = at - interval '1 hour' where tenant = $1 and sequence < 8`, [tenant])
    assert.equal(await prune({ maxAgeMs: 60_000 }), 3)
    assert.equal(await prune({ maxEvents: 0 }), 3)
    await assert.rejects(take(tenant, 9, 1), { code: 'events_expired' })
    await say(tenant, '11')
    assert.deepEqual(sequences(await take(tenant, 10, 1)), [11])
  })

  it('wait for the bus that there is, and for none that there was', async () => {
    const tenant = await newTenant()
    for (const name of ['1', '2']) await say(tenant, name)
    await take(tenant, 0, 2)
    const pruned = () => inTransaction(pool, (tx) => pruneEvents(tx, tenant, { maxEvents: 0 }))
    for (const relay of ['former', 'chosen']) await enlistTenants(pool, relay)
    await forgetRelays(pool, 'chosen')
    assert.equal(await pruned(), 0)
    await pool.query(`update event_relay_positions set sequence = 1 where tenant = $1 and relay = 'chosen'`, [tenant])
    assert.equal(await pruned(), 1)
    await forgetRelays(pool, null)
    assert.equal(await pruned(), 1)
  })

  it('are found without a notification', async () => {
    const tenant = await newTenant()
    const patient = new EventFeed({ pool, address: database.address, pollMs: 50 })
    const coming = take(tenant, 0, 1, patient)
    await pool.query(
      `insert into events (id, tenant, kind, type, data) values ('quiet', $1, 'audit', 'sluice.audit.quiet', '{}')`,
      [tenant],
    )
    assert.deepEqual(
      (await coming).map(({ id }) => id),
      ['quiet'],
    )
    await patient.close()
  })

  it('that come while a follower has looked and does not wait yet are not slept over', async () => {
    const tenant = await newTenant()
    let late = true
    // The real pool, but something happens right after its last look for more.
    const eventful = Object.create(pool, {
      query: {
        value: async (query: { text: string }) => {
          const answer = await pool.query(query)
          if (!query.text.includes('event_counters') || !late) return answer
          late = false
          await say(tenant, 'in between')
          await sleep(200)
          return answer
        },
      },
    }) as pg.Pool
    const watched = new EventFeed({ pool: eventful, address: database.address, pollMs })
    await sleep(300)
    assert.deepEqual(names(await take(tenant, 0, 1, watched)), ['in between'])
    await watched.close()
  })

  it('go on after the listening connection was lost', async () => {
    const tenant = await newTenant()
    const coming = take(tenant, 0, 2)
    await say(tenant, 'before')
    await pool.query(
      `select pg_terminate_backend(pid, 5000) from pg_stat_activity where application_name = 'sluice-events'`,
    )
    await say(tenant, 'after')
    assert.deepEqual(names(await coming), ['before', 'after'])
  })

  it('end with the signal, the feed and the tenant', async () => {
    const tenant = await newTenant()
    const begun: Promise<void>[] = []
    const drain = async (source: EventFeed, signal: AbortSignal): Promise<number> => {
      const { promise, resolve } = Promise.withResolvers<void>()
      begun.push(promise)
      let count = 0
      for await (const _ of source.follow(tenant, 0, signal)) {
        count += 1
        resolve()
      }
      return count
    }
    const abort = new AbortController()
    const other = new EventFeed({ pool, address: database.address, pollMs })
    await say(tenant, 'one')
    const bySignal = drain(feed, abort.signal)
    const byFeed = drain(other, new AbortController().signal)
    const third = new EventFeed({ pool, address: database.address, pollMs: 20 })
    const byTenant = drain(third, new AbortController().signal)
    await Promise.all(begun)
    abort.abort()
    assert.equal(await bySignal, 1)
    await other.close()
    assert.equal(await byFeed, 1)
    await inTransaction(pool, (tx) => dropTopics(tx, tenant))
    await inTransaction(pool, (tx) => dropTopics(tx, tenant))
    assert.equal(await byTenant, 1)
    await third.close()
    assert.deepEqual(await listTopics(pool, tenant), [])
    await assert.rejects(say(tenant, 'late'), { kind: 'CONFLICT', code: 'tenant_not_active' })
    assert.equal(await inTransaction(pool, (tx) => numberEvents(tx, tenant)), 0)
  })
})
