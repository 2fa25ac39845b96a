import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { after, before, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { openTenantScope, type Row, type ServingStore, SluiceError, type TableSchema, type Target } from '@sluice/sdk'
import { type PostgresFixture, startPostgres } from '../row-secured-postgresql/fixture.ts'
import { changeSet, commitOf, planOf, provide, rowsRead, testHost } from '../row-secured-postgresql/test-data.ts'
import type { LookupConfig } from './config.ts'
import lookup from './index.ts'

const schema: TableSchema = {
  columns: [
    { name: 'id', type: 'long', nullable: false },
    { name: 'city', type: 'string', nullable: true },
    { name: 'note', type: 'json', nullable: true },
  ],
  primaryKey: ['id'],
}

let fixture: PostgresFixture
let store: ServingStore<LookupConfig>

before(async () => {
  fixture = await startPostgres()
  store = await lookup.open(fixture.settings, testHost())
})

after(async () => {
  await store?.close()
  await fixture?.stop()
})

function target(product: string, config: LookupConfig = {}, shape = schema): Target<LookupConfig> {
  return { scope: openTenantScope('acme'), domain: 'writes', product, variant: 'clear', schema: shape, config }
}

function scan(of: Target<LookupConfig>): Promise<readonly Record<string, unknown>[]> {
  return rowsRead(store, of, planOf(of, { operation: 'scan', limit: 1000 }))
}

const rows = (...ids: number[]): Row[] => ids.map((id) => [BigInt(id), `city ${id}`, null])

const ids = async (of: Target<LookupConfig>) => (await scan(of)).map((row) => row.id)

test('epochs are applied once, in order, by the newest writer', async () => {
  const of = target('ordered')
  await assert.rejects(store.write(of, changeSet(schema, 'full', rows(1)), commitOf(1, null)), { kind: 'CONFLICT' })
  await provide(store, of)
  assert.equal(await store.recover?.(of), null)
  await assert.rejects(store.write(of, changeSet(schema, 'delta', rows(1)), commitOf(2, 1)), { code: 'epoch_gap' })
  await store.write(of, changeSet(schema, 'full', rows(1, 2)), commitOf(3, null, { fence: 5n }))
  assert.deepEqual(await store.recover?.(of), { epoch: 3, fence: 5n, committedAt: '2026-03-01T00:00:03.000000Z' })
  const next = changeSet(schema, 'delta', rows(3))
  await assert.rejects(store.write(of, next, commitOf(4, 3, { fence: 4n })), { code: 'stale_fence', kind: 'FENCED' })
  await assert.rejects(store.write(of, next, commitOf(2, 1, { fence: 5n })), { code: 'older_epoch' })
  await assert.rejects(store.write(of, next, commitOf(5, 4, { fence: 5n })), { code: 'epoch_gap' })
  // Seen is seen, though its write was refused.
  await assert.rejects(store.write(of, next, commitOf(5, 4, { fence: 6n })), { code: 'epoch_gap' })
  await assert.rejects(store.write(of, next, commitOf(4, 3, { fence: 5n })), { code: 'stale_fence' })
  await store.write(of, next, commitOf(4, 3, { fence: 6n }))
  assert.deepEqual(await ids(of), [1, 2, 3])
  assert.equal(
    (await store.write(of, changeSet(schema, 'full', []), commitOf(4, null, { fence: 6n }))).outcome,
    'already_applied',
  )
  const full = await store.write(of, changeSet(schema, 'full', rows(2, 9)), commitOf(5, 4, { fence: 6n }))
  assert.deepEqual(full, { epoch: 5, outcome: 'applied', upserted: 2, deleted: 2 })
  assert.deepEqual(await ids(of), [2, 9])
})

test('bad rows leave everything as it was', async () => {
  const of = target('refused')
  await provide(store, of)
  await store.write(of, changeSet(schema, 'full', rows(1)), commitOf(1, null))
  const bad = (upserts: Row[], code: string) =>
    assert.rejects(store.write(of, changeSet(schema, 'delta', upserts), commitOf(2, 1)), (error: SluiceError) => {
      assert.equal(error.code, code, String(error))
      assert.ok(!error.message.includes('secret') && !JSON.stringify(error.details ?? {}).includes('secret'))
      return true
    })
  await bad([[null, 'secret', null]], 'missing_key')
  await bad(
    [
      [7n, 'secret', null],
      [7n, 'secret', null],
    ],
    'duplicate_key',
  )
  await bad([[7n, 'secret\0', null]], 'invalid_value')
  await bad([[7n, 'x', '{secret']], 'invalid_value')
  const short = { ...changeSet(schema, 'delta', rows(5)), upsertCount: 2 }
  await assert.rejects(store.write(of, short, commitOf(2, 1)), { code: 'row_count_mismatch' })
  const stopped = commitOf(2, 1, { signal: AbortSignal.abort() })
  await assert.rejects(store.write(of, changeSet(schema, 'delta', rows(5)), stopped), { code: 'aborted' })
  assert.deepEqual(await ids(of), [1])
})

/** Writes through a store whose host throws once at the point, then repeats as the runtime would. */
async function interrupted(
  of: Target<LookupConfig>,
  point: string,
  write: (via: ServingStore<LookupConfig>) => Promise<unknown>,
) {
  let armed = true
  const host = testHost((name) => {
    if (name !== point || !armed) return
    armed = false
    throw new SluiceError('TRANSIENT', 'crash', { code: 'crash' })
  })
  const via = await lookup.open(fixture.settings, host)
  await assert.rejects(write(via), { code: 'crash' }, point)
  const between = await scan(of).catch((error) => error.code)
  await write(via)
  await via.close()
  return between
}

test('after a failure at any point, a repeat reaches the same end, and nothing half is seen', async () => {
  for (const point of ['lookup.after-stage', 'lookup.before-commit', 'lookup.after-commit']) {
    const of = target(`crash_${point}`, { history_mode: 'type_2', tracked_columns: ['city'] })
    await provide(store, of)
    const first = await interrupted(of, point, (via) =>
      via.write(of, changeSet(schema, 'full', rows(1, 2)), commitOf(1, null)),
    )
    if (point !== 'lookup.after-commit') assert.equal(first, 'not_materialized')
    const delta = changeSet(schema, 'delta', [[2n, 'moved', null], ...rows(3)], [[1n]])
    const second = await interrupted(of, point, (via) => via.write(of, delta, commitOf(2, 1)))
    assert.deepEqual(
      second.map((row: { id: number }) => row.id),
      point === 'lookup.after-commit' ? [2, 3] : [1, 2],
    )
    assert.deepEqual(
      (await scan(of)).map((row) => [row.id, row.city]),
      [
        [2, 'moved'],
        [3, 'city 3'],
      ],
    )
    const all = await rowsRead(store, of, planOf(of, { operation: 'scan', history: { kind: 'all' } }))
    assert.equal(all.length, 4)
  }
  const removed = target('removed')
  await provide(store, removed)
  await store.write(removed, changeSet(schema, 'full', rows(1)), commitOf(1, null))
  await interrupted(removed, 'lookup.drop-after-commit', (via) => via.drop(removed, 'apply'))
  const [left] = await fixture.admin(`select count(*)::int as n from pg_class where relname = 'removed'`)
  assert.equal(left?.n, 0)
  for (const point of ['lookup.provision-planned', 'lookup.provision-before-commit']) {
    const of = target(`provision_${point}`)
    await interrupted(of, point, (via) => via.provision(of, 'apply'))
    assert.deepEqual((await store.provision(of, 'plan')).steps, [])
  }
})

test('a write that is called off in the middle changes nothing, and its connection serves nobody', async () => {
  const of = target('called_off')
  await provide(store, of)
  await store.write(of, changeSet(schema, 'full', rows(1)), commitOf(1, null))
  const controller = new AbortController()
  const stopping = await lookup.open(
    fixture.settings,
    testHost((name) => {
      if (name === 'lookup.before-commit') controller.abort()
    }),
  )
  const commit = commitOf(2, 1, { signal: controller.signal })
  await assert.rejects(stopping.write(of, changeSet(schema, 'delta', rows(2)), commit), { code: 'aborted' })
  assert.deepEqual(await ids(of), [1])
  await stopping.write(of, changeSet(schema, 'delta', rows(2)), commitOf(2, 1))
  assert.deepEqual(await ids(of), [1, 2])
  await stopping.close()
})

test('two writers of one epoch: one applies it, and both succeed', async () => {
  const of = target('raced')
  await provide(store, of)
  const other = await lookup.open(fixture.settings, testHost())
  const both = async (write: (via: ServingStore<LookupConfig>) => ReturnType<typeof store.write>) => {
    const settled = await Promise.allSettled([write(store), write(other)])
    const outcomes = settled.map((one) => (one.status === 'fulfilled' ? one.value.outcome : one.reason.code))
    assert.ok(outcomes.includes('applied'), String(outcomes))
    assert.equal(outcomes.filter((outcome) => outcome === 'applied').length, 1, String(outcomes))
  }
  await both((via) => via.write(of, changeSet(schema, 'full', rows(1, 2)), commitOf(1, null)))
  for (let epoch = 2; epoch < 12; epoch += 1) {
    await both((via) => via.write(of, changeSet(schema, 'delta', rows(epoch)), commitOf(epoch, epoch - 1)))
  }
  assert.equal((await ids(of)).length, 11)
  await other.close()
})

test('a writer that was overtaken while it staged is fenced and changes nothing', async () => {
  const of = target('zombie')
  await provide(store, of)
  await store.write(of, changeSet(schema, 'full', rows(1)), commitOf(1, null, { fence: 1n }))
  const zombie = await lookup.open(
    fixture.settings,
    testHost(async (name) => {
      if (name !== 'lookup.after-stage') return
      await store.write(of, changeSet(schema, 'delta', rows(2)), commitOf(2, 1, { fence: 2n }))
    }),
  )
  await assert.rejects(zombie.write(of, changeSet(schema, 'delta', rows(66)), commitOf(2, 1, { fence: 1n })), {
    kind: 'FENCED',
  })
  assert.deepEqual(await ids(of), [1, 2])
  await zombie.close()
})

const WRITER = fileURLToPath(new URL('./writer-process.test-data.ts', import.meta.url))

async function startWriter(product: string, point: string, epoch: number): Promise<ChildProcess> {
  const child = spawn(
    process.execPath,
    [WRITER, JSON.stringify({ settings: fixture.settings, product, point, epoch })],
    {
      stdio: ['ignore', 'pipe', 'inherit'],
    },
  )
  await once(child.stdout ?? child, 'data')
  return child
}

test('a writer killed in the middle leaves nothing behind that stops the next', async () => {
  for (const point of ['lookup.after-stage', 'lookup.before-commit', 'lookup.after-commit']) {
    const product = `killed_${point.slice(7)}`
    const of = target(product)
    await provide(store, of)
    for (const epoch of [1, 2]) {
      const child = await startWriter(product, point, epoch)
      const gone = once(child, 'exit')
      child.kill('SIGKILL')
      await gone
      const set = changeSet(schema, epoch === 1 ? 'full' : 'delta', rows(epoch))
      const receipt = await store.write(of, set, commitOf(epoch, epoch === 1 ? null : 1, { fence: BigInt(epoch * 10) }))
      assert.equal(receipt.outcome, point === 'lookup.after-commit' ? 'already_applied' : 'applied')
    }
    assert.deepEqual(await ids(of), [1, 2])
  }
})

test('a schema that grows keeps its rows; one that shrinks or turns is a conflict', async () => {
  const of = target('grown')
  await provide(store, of)
  await store.write(of, changeSet(schema, 'full', rows(1, 2)), commitOf(1, null))
  const wide: TableSchema = {
    ...schema,
    columns: [...schema.columns, { name: 'more', type: 'integer', nullable: true }],
  }
  const grown = target('grown', { index_columns: ['city'] }, wide)
  const plan = await store.provision(grown, 'plan')
  assert.deepEqual(
    plan.steps.map((step) => step.action),
    ['alter', 'create'],
  )
  await assert.rejects(store.write(grown, changeSet(wide, 'delta', []), commitOf(2, 1)), { code: 'schema_conflict' })
  await assert.rejects(store.provision(grown, 'apply', 'stale'), { code: 'stale_plan' })
  await store.provision(grown, 'apply', plan.hash)
  assert.deepEqual((await store.provision(grown, 'plan')).steps, [])
  assert.deepEqual(
    (await scan(grown)).map((row) => [row.id, row.more]),
    [
      [1, null],
      [2, null],
    ],
  )
  await store.write(grown, changeSet(wide, 'delta', [[2n, 'two', null, 7]]), commitOf(2, 1))
  assert.deepEqual(
    (await scan(grown)).map((row) => [row.id, row.more]),
    [
      [1, null],
      [2, 7],
    ],
  )
  const wider = {
    ...wide,
    columns: wide.columns.map((column) => (column.name === 'more' ? { ...column, type: 'long' as const } : column)),
  }
  await store.provision(target('grown', {}, wider), 'apply')
  assert.deepEqual(
    (await scan(target('grown', {}, wider))).map((row) => row.more),
    [null, 7],
  )
  const left = await fixture.admin(`select count(*)::int as n from sluice_store.retired_partitions`)
  assert.deepEqual(left, [{ n: 0 }])
  await assert.rejects(store.provision(target('grown'), 'plan'), { code: 'schema_conflict' })
  await assert.rejects(store.provision(grown, 'apply'), { code: 'schema_conflict' })
  const rekeyed = target('grown', {}, { ...wider, primaryKey: ['id', 'city'] })
  await assert.rejects(store.provision(rekeyed, 'plan'), { code: 'schema_conflict' })
  assert.equal((await scan(target('grown', {}, wider))).length, 2)
})

test('a verdict on a schema agrees with what provisioning does', async () => {
  const of = target('judged')
  await provide(store, of)
  const judged = async (shape: TableSchema, previous: TableSchema | null = null) => {
    const next = target('judged', {}, shape)
    const verdicts = (await store.validate?.(next, previous)) ?? []
    assert.equal(verdicts.length, shape.columns.length)
    assert.ok(verdicts.every(({ reason }) => reason.length > 0))
    const refused = await store.provision(next, 'plan').then(
      () => false,
      (error) => error.code === 'schema_conflict',
    )
    assert.equal(
      verdicts.some(({ verdict }) => verdict === 'unsatisfiable'),
      refused,
    )
    return verdicts.map(({ verdict }) => verdict)
  }
  const retyped = (type: 'integer' | 'string'): TableSchema => ({
    ...schema,
    columns: schema.columns.map((column) => (column.name === 'city' ? { ...column, type } : column)),
  })
  assert.deepEqual(await judged(schema), ['required', 'required', 'required'])
  const more: TableSchema = { ...schema, columns: [...schema.columns, { name: 'more', type: 'date', nullable: true }] }
  assert.deepEqual(await judged(more), ['required', 'required', 'required', 'optional'])
  assert.deepEqual(await judged(retyped('integer')), ['required', 'unsatisfiable', 'required'])
  assert.deepEqual(await judged({ ...schema, columns: schema.columns.slice(0, 2) }), ['unsatisfiable', 'unsatisfiable'])
  assert.deepEqual(await judged({ ...schema, primaryKey: ['id', 'city'] }), Array(3).fill('unsatisfiable'))
  const unseen = target('never_seen')
  const verdicts = await store.validate?.(unseen, retyped('integer'))
  assert.deepEqual(
    verdicts?.map(({ verdict }) => verdict),
    ['required', 'unsatisfiable', 'required'],
  )
})

test('the policy is described as it was installed, and missing before', async () => {
  const of = target('policed')
  await assert.rejects(store.rls.describe(of), { code: 'policy_missing' })
  await store.provision(of, 'apply')
  await assert.rejects(store.rls.describe(of), { code: 'policy_missing' })
  await store.rls.install(of, { version: 'v7', tenantIsolation: 'forced' })
  await store.write(of, changeSet(schema, 'full', rows(1)), commitOf(1, null))
  assert.deepEqual(await store.rls.describe(of), {
    version: 'v7',
    tenantIsolation: 'forced',
    enforcedBy: 'row security forced on writes.policed',
  })
  await fixture.admin('alter table writes.policed no force row level security')
  await assert.rejects(store.rls.describe(of), { code: 'policy_missing' })
  await fixture.admin('alter table writes.policed force row level security')
  await fixture.admin('create policy hole on writes.policed using (true)')
  await assert.rejects(store.rls.describe(of), { code: 'policy_missing' })
  await fixture.admin('drop policy hole on writes.policed')
  await store.rls.describe(of)
})

test('closing waits for the write that runs, refuses the next, and may be repeated', async () => {
  const of = target('closed')
  await provide(store, of)
  let closing: Promise<void> | undefined
  const other = await lookup.open(
    fixture.settings,
    testHost((name) => {
      if (name === 'lookup.after-stage') closing = other.close()
    }),
  )
  const receipt = await other.write(of, changeSet(schema, 'full', rows(1)), commitOf(1, null))
  assert.equal(receipt.outcome, 'applied')
  await Promise.all([closing, other.close()])
  assert.equal(other.health().status, 'down')
  await assert.rejects(rowsRead(other, of, planOf(of)), { kind: 'TRANSIENT' })
  await assert.rejects(other.write(of, changeSet(schema, 'full', rows(1)), commitOf(2, null)), { code: 'store_closed' })
  assert.deepEqual(await ids(of), [1])
})

test('settings that cannot be right, and a server that is not there', async () => {
  const bad = { ...fixture.settings, writer: 'postgresql://nobody' }
  await assert.rejects(lookup.open(bad, testHost()), { kind: 'CONFIG' })
  const wrong = { ...fixture.settings, reader: fixture.settings.reader.replace('no-secret', 'wrong') }
  const refused = await lookup.open(wrong, testHost()).catch((error) => error)
  assert.ok(!(refused instanceof Error) || refused instanceof SluiceError)
  if (refused instanceof Error) assert.ok(!refused.message.includes('wrong'))
  else await refused.close()
  const nowhere = 'postgresql://a:b@/c?host=/nowhere'
  await assert.rejects(lookup.open({ owner: nowhere, writer: nowhere, reader: nowhere }, testHost()), {
    kind: 'TRANSIENT',
    code: 'store_unavailable',
  })
})
