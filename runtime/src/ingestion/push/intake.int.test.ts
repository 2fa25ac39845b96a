import assert from 'node:assert/strict'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { isSluiceError } from '@sluice/sdk'
import { until } from '../../../../test/until.ts'
import { inTransaction } from '../../database/pools.ts'
import { type Connection, createConnection, updateConnection } from '../../registry/connections.ts'
import type { MasterKeys } from '../../registry/master-keys.ts'
import { forgetPushes, lockPushSpool, prunePushKeys, pushedEvents, pushLoad } from '../../registry/push-spool.ts'
import { ANN, startTestRegistry, type TestRegistry, tenantWithKeys } from '../../registry/testing.ts'
import { PushIntake, type PushLimits, type PushRequest, pushKey } from './intake.ts'

const LIMITS: PushLimits = { rows: 100, bytes: 10_000, keys: 5, keepKeysMs: 3_600_000, syncAfterMs: 1000 }

let folder: string
let registry: TestRegistry
let masters: MasterKeys
let connection: Connection

before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sluice-intake-'))
  registry = await startTestRegistry()
  masters = await tenantWithKeys(registry.pool, 'acme', folder)
  connection = await made('shop')
})
after(async () => {
  await registry[Symbol.asyncDispose]()
  await rm(folder, { recursive: true, force: true })
})

const made = (name: string) =>
  inTransaction(registry.pool, (tx) =>
    createConnection(tx, { tenant: 'acme', name, connectorType: 'push', config: {}, createdBy: ANN }),
  )

const intake = (limits: Partial<PushLimits> = {}) =>
  new PushIntake({ pool: registry.pool, masters, limits: { ...LIMITS, ...limits }, faultPoint: async () => undefined })

function request(to: Connection, { rows = 1, text = 'x', key = null as string | null } = {}): PushRequest {
  return {
    tenant: 'acme',
    connectionId: to.id,
    changedAt: to.updatedAt,
    table: 'public.t',
    rows,
    changes: Buffer.from(text),
    key: key === null ? null : pushKey(['ann', key], [text]),
    signal: AbortSignal.timeout(60_000),
  }
}

const refusal = (work: Promise<unknown>) =>
  work.then(
    () => null,
    (error: unknown) => (isSluiceError(error) ? error.code : error),
  )

async function texts(of: Connection): Promise<readonly string[]> {
  const place = { tenant: 'acme', connectionId: of.id, table: 'public.t' }
  const events = pushedEvents(registry.pool, masters, place, { after: 0, upTo: 1000 })
  return (await Array.fromAsync(events)).map(({ changes }) => changes.toString())
}

test('requests of two runtimes at once are in one order, and each key is done once', async () => {
  const runtimes = [intake(), intake()]
  const stored = await Promise.all(
    Array.from({ length: 60 }, (_, at) =>
      (runtimes[at % 2] as PushIntake).store(
        request(connection, { text: at < 40 ? `n${at}` : 'same', key: at < 40 ? null : 'k' }),
      ),
    ),
  )
  const numbers = stored.map(({ answer }) => answer.sequence)
  assert.deepEqual(
    [...new Set(numbers)].toSorted((one, other) => one - other),
    Array.from({ length: 41 }, (_, at) => at + 1),
  )
  assert.equal(stored.filter(({ isReplay }) => isReplay).length, 19)
  const found = await texts(connection)
  for (const [at, { answer }] of stored.entries()) assert.equal(found[answer.sequence - 1], at < 40 ? `n${at}` : 'same')
  assert.equal(
    await refusal(intake().store(request(connection, { text: 'other', key: 'k' }))),
    'idempotency_key_reused',
  )
  const { rows } = await registry.pool.query('select sealed from push_events limit 1')
  assert.doesNotMatch(rows[0].sealed.toString('latin1'), /same|n\d/)
})

test('what waits has an end, and room comes with what a run has taken', async () => {
  assert.equal(await refusal(intake().store(request(connection, { rows: 60 }))), 'push_full')
  assert.equal(await refusal(intake().store(request(connection, { text: 'x'.repeat(10_000) }))), 'push_full')
  const place = { tenant: 'acme', connectionId: connection.id, table: 'public.t' }
  assert.equal(await inTransaction(registry.pool, (tx) => forgetPushes(tx, place, 41)), 41)
  assert.deepEqual(await pushLoad(registry.pool), { rows: 0, bytes: 0, ageSeconds: 0 })
  assert.equal((await intake().store(request(connection, { rows: 60 }))).answer.sequence, 42)
})

test('keys have an end in number and in time', async () => {
  const other = await made('keys')
  const brief = intake({ keepKeysMs: 1 })
  for (let at = 0; at < 5; at += 1) await brief.store(request(other, { text: 'then', key: `k${at}` }))
  assert.equal(await refusal(brief.store(request(other, { key: 'k9' }))), 'push_full')
  let removed = 0
  while (removed < 5) removed += await inTransaction(registry.pool, (tx) => prunePushKeys(tx, 2))
  assert.equal(await inTransaction(registry.pool, (tx) => prunePushKeys(tx, 2)), 0)
  const again = await intake().store(request(other, { text: 'now', key: 'k1' }))
  assert.deepEqual([again.isReplay, again.answer.sequence], [false, 6])
})

test('what was read by former settings is not stored, nor what goes to a connection that is gone', async () => {
  const changed = await made('changed')
  await updateConnection(registry.pool, 'acme', changed.id, { config: { a: 1 } })
  assert.equal(await refusal(intake().store(request(changed))), 'connection_changed')
  assert.equal(await refusal(intake().store({ ...request(changed), tenant: 'globex' })), 'connection_not_found')
  assert.equal(await refusal(intake().store(request({ ...changed, id: 'con_none' }))), 'connection_not_found')
  assert.deepEqual(await texts(changed), [])
})

test('nor what waited for its turn while they were changed', async () => {
  const late = await made('late')
  await intake().store(request(late, { text: 'before' }))
  let pushed: Promise<unknown> | undefined
  await inTransaction(registry.pool, async (tx) => {
    await lockPushSpool(tx, { tenant: 'acme', connectionId: late.id })
    pushed = refusal(intake().store(request(late, { text: 'late' })))
    await until('it waits', async () => {
      const waiting = `select from pg_stat_activity where wait_event_type = 'Lock' and query like '%push_spools%'`
      return (await registry.pool.query(waiting)).rows.length === 1
    })
    await updateConnection(tx, 'acme', late.id, { config: { a: 1 } })
  })
  assert.equal(await pushed, 'connection_changed')
  assert.deepEqual(await texts(late), ['before'])
})
