/** What the conformance suite cannot see from outside: how keys lie in the server, what a slow writer may do, evictions. */
import assert from 'node:assert/strict'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { after, afterEach, beforeEach, test } from 'node:test'
import { RecordingLogger, TestHost, VirtualClock } from '@sluice/conformance'
import {
  batchFromRows,
  type ChangeSet,
  type Commit,
  isJsonBatch,
  openTenantScope,
  type Row,
  type ServingStore,
  type TableSchema,
  type Target,
} from '@sluice/sdk'
import { Redis } from 'ioredis'
import type { RealtimeConfig } from '../keyed-values/endpoint.ts'
import { keyedTexts, keyPlan } from '../keyed-values/test-data.ts'
import plugin from './index.ts'
import { PUT } from './scripts.ts'

const SCHEMA: TableSchema = {
  columns: [
    { name: 'id', type: 'long', nullable: false },
    { name: 'name', type: 'string', nullable: true },
  ],
  primaryKey: ['id'],
}
const HOUR_MS = 3_600_000

const url = process.env['SLUICE_TEST_REDIS_URL'] ?? ''
const server = new Redis(url)
after(() => server.disconnect())

let clock: VirtualClock
let host: TestHost
let store: ServingStore<RealtimeConfig>

beforeEach(async () => {
  await server.flushall()
  await server.config('RESETSTAT')
  await server.config('SET', 'maxmemory-policy', 'noeviction')
  clock = new VirtualClock()
  host = newHost()
  store = await plugin.open({ url }, host)
})

afterEach(() => store.close())

function newHost(): TestHost {
  return new TestHost({ clock, logger: new RecordingLogger(), stateDirectory: '/nowhere', seed: 1 })
}

async function provisioned(config: RealtimeConfig = { key_template: 'order:{id}', ttl: '2h' }) {
  const target: Target<RealtimeConfig> = {
    scope: openTenantScope('acme'),
    domain: 'sales',
    product: 'orders',
    variant: 'clear',
    schema: SCHEMA,
    config,
  }
  await store.provision(target, 'apply')
  await store.rls.install(target, { version: '1', tenantIsolation: 'forced' })
  return target
}

function changes(mode: ChangeSet['mode'], upserts: readonly Row[], deletes: readonly Row[] = []): ChangeSet {
  const batches = async function* (rows: readonly Row[], width: number) {
    if (rows.length > 0) yield batchFromRows(rows, width)
  }
  return {
    mode,
    schema: SCHEMA,
    upsertCount: upserts.length,
    deleteCount: deletes.length,
    upserts: () => batches(upserts, 2),
    deletes: () => batches(deletes, 1),
    upsertsCsv: () => assert.fail('not asked for'),
    deletesCsv: () => assert.fail('not asked for'),
    upsertsKeyed: (template, columns) => keyedTexts(SCHEMA, upserts, template, columns),
    lake: { snapshotId: '0', files: [], fieldIds: {} },
  }
}

function commit(epoch: number, parts: Partial<Commit> = {}): Commit {
  const previousEpoch = epoch === 1 ? null : epoch - 1
  return {
    epoch,
    previousEpoch,
    fence: 1n,
    committedAt: clock.nowText(),
    signal: AbortSignal.timeout(60_000),
    ...parts,
  }
}

async function find(target: Target<RealtimeConfig>, key: string, from = store) {
  for await (const batch of from.read(target, keyPlan(key, ['id', 'name']))) {
    assert.ok(isJsonBatch(batch))
    return { epoch: batch.epoch, names: (JSON.parse(batch.json) as { name: string }[]).map(({ name }) => name) }
  }
  return assert.fail('no batch')
}

test('keys are the tenant, the domain, the product and the rendered key, and nothing else of a tenant’s', async () => {
  const target = await provisioned()
  await store.write(
    target,
    changes('full', [
      [1n, 'ada'],
      [2n, 'bob'],
    ]),
    commit(1),
  )
  const keys = (await server.keys('*')).sort()
  assert.deepEqual(keys, [
    '%marker:acme:sales:orders:',
    '%store:datasets',
    'acme:sales:orders:order:1',
    'acme:sales:orders:order:2',
  ])
  const liveMs = await server.pttl('acme:sales:orders:order:1')
  assert.ok(liveMs > 2 * HOUR_MS && liveMs <= 4 * HOUR_MS, `${liveMs}`)
  await store.dropTenant(target.scope)
  assert.deepEqual(await server.keys('*'), [])
})

test('a rebuild leaves the end of the values where it was, and an epoch renews those it does not name', async () => {
  const target = await provisioned()
  const first = commit(1)
  await store.write(
    target,
    changes('full', [
      [1n, 'ada'],
      [2n, 'bob'],
    ]),
    first,
  )
  await clock.advance(HOUR_MS)
  await store.write(
    target,
    changes('full', [
      [1n, 'ada'],
      [2n, 'bob'],
    ]),
    { ...first, epoch: 2 },
  )
  await clock.advance(HOUR_MS - 1)
  assert.deepEqual((await find(target, 'order:2')).names, ['bob'])
  await clock.advance(1)
  assert.deepEqual((await find(target, 'order:2')).names, [])
  await store.write(
    target,
    changes('full', [
      [1n, 'ada'],
      [2n, 'bob'],
    ]),
    commit(3, { previousEpoch: null }),
  )
  await server.pexpire('acme:sales:orders:order:2', 1000 * 60)
  await clock.advance(1.9 * HOUR_MS)
  await store.write(target, changes('delta', [[1n, 'eve']]), commit(4))
  await clock.advance(1.9 * HOUR_MS)
  await store.write(target, changes('delta', [[1n, 'eva']]), commit(5))
  assert.ok((await server.pttl('acme:sales:orders:order:2')) > HOUR_MS, 'the server keeps what the epoch renewed')
  assert.deepEqual(await find(target, 'order:2'), { epoch: 5, names: ['bob'] })
})

test('a first load fills free keys, each with its end, and goes around what a broken one has left', async () => {
  const target = await provisioned()
  const rows = Array.from({ length: 3000 }, (_, index): Row => [BigInt(index), `name ${index} é#😀`])
  const whole = changes('full', rows)
  const broken: ChangeSet = {
    ...whole,
    upsertsKeyed: async function* (...asked) {
      yield* keyedTexts(SCHEMA, rows.slice(0, 700).reverse(), ...asked)
      throw new Error('the lake is gone')
    },
  }
  await assert.rejects(store.write(target, broken, commit(1)))
  assert.equal(await server.exists('acme:sales:orders:order:1'), 1)
  const changed = { ...whole, upsertsKeyed: withNull(whole) }
  const receipt = await store.write(target, changed, commit(1))
  assert.deepEqual(receipt, { epoch: 1, outcome: 'applied', upserted: 2999, deleted: 0 })
  for (const index of [0, 1, 699, 700, 2998]) {
    assert.deepEqual((await find(target, `order:${index}`)).names, [`name ${index} é#😀`])
    assert.ok((await server.pttl(`acme:sales:orders:order:${index}`)) > 2 * HOUR_MS, `${index}`)
  }
  assert.deepEqual((await find(target, 'order:2999')).names, [])
})

test('a first load for which memory does not last is told so, nothing of it counts, and later it comes in whole', async () => {
  const target = await provisioned()
  const whole = changes(
    'full',
    Array.from({ length: 20_000 }, (_, index): Row => [BigInt(index), 'x'.repeat(200)]),
  )
  const used = Number(/used_memory:(\d+)/.exec(await server.info('memory'))?.[1])
  await server.config('SET', 'maxmemory', used + (2 << 20))
  try {
    await assert.rejects(store.write(target, whole, commit(1)), { kind: 'TRANSIENT', code: 'store_exhausted' })
    assert.equal(await server.exists('acme:sales:orders:order:1'), 1)
    await assert.rejects(find(target, 'order:1'), { code: 'not_materialized' })
  } finally {
    await server.config('SET', 'maxmemory', 0)
  }
  assert.equal((await store.write(target, whole, commit(1))).upserted, 20_000)
  for (const index of [0, 19_999]) assert.deepEqual((await find(target, `order:${index}`)).names, ['x'.repeat(200)])
})

/** The last row has no key. */
function withNull(whole: ChangeSet): ChangeSet['upsertsKeyed'] {
  return async function* (...asked) {
    for await (const chunk of whole.upsertsKeyed(...asked)) {
      yield Buffer.from(Buffer.from(chunk).toString().replace('order:2999', '\x1d'))
    }
  }
}

test('a writer that was overtaken in its sleep cannot take away what its successor wrote', async () => {
  const target = await provisioned()
  await store.write(target, changes('full', [[1n, 'ada']]), commit(1))
  const successor = await plugin.open({ url }, newHost())
  host.atEachPoint(async (point) => {
    if (point !== 'realtime.after-begin') return
    await successor.write(
      target,
      changes('full', [
        [1n, 'eve'],
        [2n, 'bob'],
      ]),
      commit(2, { previousEpoch: null, fence: 2n }),
    )
  })
  const overtaken = store.write(
    target,
    changes('delta', [
      [1n, 'late'],
      [3n, 'late'],
    ]),
    commit(2),
  )
  await assert.rejects(overtaken, { kind: 'FENCED', code: 'stale_fence' })
  assert.deepEqual(await find(target, 'order:1'), { epoch: 2, names: ['eve'] })
  assert.deepEqual(await find(target, 'order:3'), { epoch: 2, names: [] })
  await successor.close()
})

test('a first write that was overtaken takes nothing away, and one that came to nothing is in nobody’s way', async (context) => {
  const target = await provisioned()
  host.atEachPoint(async (point) => {
    if (point === 'realtime.before-commit') throw new Error('ended here')
  })
  const ended = store.write(target, changes('full', [[1n, 'nobody']]), commit(1))
  await assert.rejects(ended)
  const successor = await plugin.open({ url }, newHost())
  context.after(() => successor.close())
  host.atEachPoint(async (point) => {
    if (point !== 'realtime.after-begin') return
    const rows: readonly Row[] = [
      [1n, 'eve'],
      [2n, 'bob'],
    ]
    await successor.write(target, changes('full', rows), commit(1, { fence: 2n }))
  })
  const late: readonly Row[] = [
    [2n, 'late'],
    [3n, 'late'],
  ]
  await assert.rejects(store.write(target, changes('full', late), commit(1)), { kind: 'FENCED', code: 'stale_fence' })
  for (const [key, names] of [
    ['order:1', ['eve']],
    ['order:2', ['bob']],
    ['order:3', []],
  ] as const)
    assert.deepEqual(await find(target, key), { epoch: 1, names }, key)
})

test('the server refuses a version that is older than one it has', async () => {
  const target = await provisioned()
  await store.write(target, changes('full', [[1n, 'ada']]), commit(1))
  await store.write(target, changes('delta', [[1n, 'late']]), commit(2))
  const marker = JSON.parse((await server.get('%marker:acme:sales:orders:')) ?? '') as { committed: number }
  const put = server.eval(PUT.lua, 1, 'acme:sales:orders:order:1', marker.committed - 1, 0, 0, '', 1000, 0, '', '+{}')
  await assert.rejects(put, /OVERTAKEN/)
  assert.deepEqual((await find(target, 'order:1')).names, ['late'])
})

test('without its marker a dataset is not there yet, which is not the same as an empty one', async () => {
  const target = await provisioned()
  await store.write(target, changes('full', [[1n, 'ada']]), commit(1))
  await server.del('%marker:acme:sales:orders:')
  await assert.rejects(find(target, 'order:1'), { kind: 'TRANSIENT', code: 'not_materialized' })
  await assert.rejects(find(target, 'order:7'), { kind: 'TRANSIENT', code: 'not_materialized' })
})

test('a server that may evict fails the probe, and what was evicted is not taken for what never was', async () => {
  const target = await provisioned()
  await store.write(target, changes('full', [[1n, 'ada']]), commit(1))
  const signal = AbortSignal.timeout(10_000)
  assert.equal((await store.probe(signal)).ok, true)
  await server.config('SET', 'maxmemory-policy', 'allkeys-random')
  const { ok, checks } = await store.probe(signal)
  assert.deepEqual([ok, checks.find(({ name }) => name === 'eviction')?.ok], [false, false])
  await server.config('RESETSTAT')
  await server.set('somebody-elses', 'x'.repeat(100_000))
  await server.config('SET', 'maxmemory', '1')
  await server.set('more', 'x').catch(() => undefined)
  await server.config('SET', 'maxmemory', '0')
  await store.provision(target, 'apply')
  await clock.advance(60_000)
  assert.equal(store.health().status, 'degraded')
  await assert.rejects(find(target, 'order:1'), { code: 'not_materialized' })
  await server.config('SET', 'maxmemory-policy', 'noeviction')
  await clock.advance(60_000)
  assert.equal(store.health().status, 'ok')
  await store.rls.install(target, { version: '1', tenantIsolation: 'forced' })
  await store.write(target, changes('full', [[1n, 'ada']]), commit(1))
  assert.deepEqual((await find(target, 'order:1')).names, ['ada'])
})

test('values are forgotten where only some of them were evicted', async () => {
  const target = await provisioned()
  await store.write(
    target,
    changes('full', [
      [1n, 'ada'],
      [2n, 'bob'],
    ]),
    commit(1),
  )
  await clock.advance(60_000)
  const evicted = Number(/evicted_keys:(\d+)/.exec(await server.info('stats'))?.[1])
  const runId = /run_id:(\w+)/.exec(await server.info('server'))?.[1] ?? ''
  // As if the last look had seen one eviction less than there were.
  await server.hset('%store:evictions', runId, evicted - 1)
  await clock.advance(60_000)
  await assert.rejects(find(target, 'order:2'), { code: 'not_materialized' })
  await assert.rejects(store.write(target, changes('delta', []), commit(2)), { code: 'epoch_gap' })
})

test('what a full set replaced goes with the next sweep, and what is served stays', async () => {
  const target = await provisioned({ key_template: '{name}', ttl: '9d' })
  await store.write(
    target,
    changes('full', [
      [1n, 'ada'],
      [2n, 'bob'],
    ]),
    commit(1),
  )
  await store.write(
    target,
    changes('full', [
      [1n, 'ada'],
      [3n, 'eve'],
    ]),
    commit(2, { previousEpoch: null }),
  )
  await clock.advance(20 * 60_000)
  const keys = (await server.keys('*sales*')).sort()
  assert.deepEqual(keys, [
    '%marker:acme:sales:orders:',
    '%place:acme:sales:orders:v09223372036854775809',
    '%place:acme:sales:orders:v09223372036854775811',
    'acme:sales:orders:ada',
    'acme:sales:orders:eve',
  ])
  assert.deepEqual((await find(target, 'eve')).names, ['eve'])
})

/** The call's answer, from the moment on when it is not refused any more for want of a connection. */
async function onceAvailable<T>(call: () => Promise<T>): Promise<T> {
  for (;;) {
    try {
      return await call()
    } catch (error) {
      assert.equal((error as { readonly code: string }).code, 'store_unavailable')
    }
    await new Promise((resolve) => setImmediate(resolve))
  }
}

test('a connection that was lost is made again, and calls meanwhile are refused at once', async () => {
  const target = await provisioned()
  await store.write(target, changes('full', [[1n, 'ada']]), commit(1))
  await server.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes')
  // Reads and writes have a connection each, and neither waits for the other.
  assert.deepEqual(await onceAvailable(() => find(target, 'order:1')), { epoch: 1, names: ['ada'] })
  await onceAvailable(() => store.write(target, changes('delta', [[2n, 'bob']]), commit(2)))
  assert.deepEqual(await find(target, 'order:2'), { epoch: 2, names: ['bob'] })
})

test('a connection that says nothing any more is given up, and another one serves', async (context) => {
  const target = await provisioned()
  await store.write(target, changes('full', [[1n, 'ada']]), commit(1))
  const ends: Socket[] = []
  const { hostname, port } = new URL(url)
  const way = createServer((client) => {
    const behind = connect(Number(port), hostname)
    ends.push(client, behind)
    client.on('error', () => undefined).pipe(behind)
    behind.on('error', () => undefined).pipe(client)
  })
  await new Promise<void>((resolve) => way.listen(0, '127.0.0.1', resolve))
  const through = Object.assign(new URL(url), { host: `127.0.0.1:${(way.address() as AddressInfo).port}` }).href
  const far = await plugin.open({ url: through, command_timeout_ms: 300 }, newHost())
  context.after(async () => {
    await far.close()
    for (const end of ends) end.destroy()
    way.close()
  })
  const found = { epoch: 1, names: ['ada'] }
  assert.deepEqual(await find(target, 'order:1', far), found)
  for (const end of ends) end.unpipe().pause()
  await assert.rejects(find(target, 'order:1', far), { kind: 'TRANSIENT', code: 'store_unavailable' })
  assert.deepEqual(await onceAvailable(() => find(target, 'order:1', far)), found)
})

test('a login may be narrowed to what the store needs', async (t) => {
  const commands = 'get mget set del pexpire eval evalsha scan sadd srem smembers hget hset time info wait'
  const rights = ['on', '>narrow', '~*', '-@all', ...commands.split(' ').map((name) => `+${name}`), '+client']
  await server.acl('SETUSER', 'sluice', ...rights)
  const { host: address } = new URL(url)
  const narrow = await plugin.open({ url: `redis://${address}`, username: 'sluice', password: 'narrow' }, newHost())
  t.after(() => narrow.close())
  const target = await provisioned()
  await narrow.write(target, changes('full', [[1n, 'ada']]), commit(1))
  assert.equal((await narrow.probe(AbortSignal.timeout(5000))).ok, true)
  assert.deepEqual((await find(target, 'order:1', narrow)).names, ['ada'])
  await narrow.dropTenant(target.scope)
  await narrow.close()
  const wrong = plugin.open({ url: `redis://${address}`, username: 'sluice', password: 'another' }, newHost())
  await assert.rejects(wrong, { kind: 'CONFIG', code: 'login_refused' })
  await server.acl('DELUSER', 'sluice')
})
