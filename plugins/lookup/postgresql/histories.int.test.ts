import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { openTenantScope, type Row, type ServingStore, type TableSchema, type Target } from '@sluice/sdk'
import fc from 'fast-check'
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

function target(product: string, config: LookupConfig): Target<LookupConfig> {
  return { scope: openTenantScope('acme'), domain: 'histories', product, variant: 'clear', schema, config }
}

type Step = { readonly upserts: readonly (readonly [number, string, string])[]; readonly deletes: readonly number[] }

const steps: fc.Arbitrary<readonly Step[]> = fc.array(
  fc
    .uniqueArray(
      fc.record({
        id: fc.integer({ min: 1, max: 5 }),
        city: fc.constantFrom('a', 'b', 'c'),
        note: fc.constantFrom('1', '2'),
        remove: fc.boolean(),
      }),
      { selector: (change) => change.id, maxLength: 5 },
    )
    .map((changes) => ({
      upserts: changes.filter((change) => !change.remove).map(({ id, city, note }) => [id, city, note] as const),
      deletes: changes.filter((change) => change.remove).map((change) => change.id),
    })),
  { minLength: 1, maxLength: 6 },
)

interface Version {
  readonly id: number
  readonly city: string
  readonly note: number
  readonly valid_from: string
  readonly valid_to: string | null
  readonly is_current: boolean
}

/** What type_2 means: a new version where a tracked value changes, closed by the next or by a removal. */
function replay(history: readonly Step[], at: (epoch: number) => string): readonly Version[] {
  const versions: Version[] = []
  const open = (id: number) => versions.findIndex((version) => version.id === id && version.is_current)
  const close = (index: number, instant: string) => {
    const version = versions[index]
    if (version) versions[index] = { ...version, valid_to: instant, is_current: false }
  }
  for (const [index, step] of history.entries()) {
    const instant = at(index + 1)
    for (const id of step.deletes) close(open(id), instant)
    for (const [id, city, note] of step.upserts) {
      const found = open(id)
      const before = versions[found]
      if (before && before.city === city) {
        versions[found] = { ...before, note: Number(note) }
        continue
      }
      close(found, instant)
      versions.push({ id, city, note: Number(note), valid_from: instant, valid_to: null, is_current: true })
    }
  }
  return versions.sort((left, right) => left.id - right.id || (left.valid_from < right.valid_from ? -1 : 1))
}

let histories = 0

test('type_2 equals the replay of its epochs, now, at any instant, and in full', async () => {
  const config: LookupConfig = { history_mode: 'type_2', tracked_columns: ['city'] }
  const columns = ['id', 'city', 'note', 'valid_from', 'valid_to', 'is_current']
  await fc.assert(
    fc.asyncProperty(steps, fc.boolean(), async (history, clocksDisagree) => {
      histories += 1
      const of = target(`type2_${histories}`, config)
      // Where the clocks of two workers disagree, an epoch still comes after the one before it.
      const committed = (epoch: number) => commitOf(clocksDisagree ? 1 : epoch, null).committedAt
      const instant = (epoch: number) => (clocksDisagree ? `2026-03-01T00:00:01.00000${epoch - 1}Z` : committed(epoch))
      await provide(store, of)
      for (const [index, step] of history.entries()) {
        const upserts = step.upserts.map(([id, city, note]): Row => [BigInt(id), city, note])
        const set = changeSet(
          schema,
          index === 0 ? 'full' : 'delta',
          upserts,
          index === 0 ? [] : step.deletes.map((id) => [BigInt(id)]),
        )
        await store.write(of, set, commitOf(index + 1, index || null, { committedAt: committed(index + 1) }))
      }
      const expected = replay([{ upserts: history[0]?.upserts ?? [], deletes: [] }, ...history.slice(1)], instant)
      const base = planOf(of, { operation: 'scan', columns })
      const plan = { ...base, policy: { ...base.policy, visibleColumns: columns } }
      assert.deepEqual(await rowsRead(store, of, { ...plan, history: { kind: 'all' } }), expected)
      assert.deepEqual(
        await rowsRead(store, of, plan),
        expected.filter((version) => version.is_current),
      )
      for (let epoch = 1; epoch <= history.length; epoch += 1) {
        const at = instant(epoch)
        const held = expected.filter(
          (version) => version.valid_from <= at && (version.valid_to === null || version.valid_to > at),
        )
        assert.deepEqual(await rowsRead(store, of, { ...plan, history: { kind: 'at', instant: at } }), held)
      }
      await store.drop(of, 'apply')
    }),
    { numRuns: 12 },
  )
})

test('type_3 keeps what a tracked column held before its last change', async () => {
  const config: LookupConfig = { history_mode: 'type_3', tracked_columns: ['city'] }
  const of = target('type3', config)
  await provide(store, of)
  const columns = ['id', 'city', 'previous_city']
  const base = planOf(of, { operation: 'scan', columns })
  const plan = { ...base, policy: { ...base.policy, visibleColumns: columns } }
  const expectRows = async (...expected: (readonly [number, string | null, string | null])[]) => {
    const found = await rowsRead(store, of, plan)
    assert.deepEqual(
      found.map((row) => columns.map((name) => row[name])),
      expected,
    )
  }
  await store.write(
    of,
    changeSet(schema, 'full', [
      [1n, 'a', null],
      [2n, 'x', null],
    ]),
    commitOf(1, null),
  )
  await expectRows([1, 'a', null], [2, 'x', null])
  await store.write(
    of,
    changeSet(schema, 'delta', [
      [1n, 'b', null],
      [2n, 'x', '{}'],
    ]),
    commitOf(2, 1),
  )
  await expectRows([1, 'b', 'a'], [2, 'x', null])
  await store.write(
    of,
    changeSet(schema, 'delta', [
      [1n, 'b', '[]'],
      [2n, null, '{}'],
    ]),
    commitOf(3, 2),
  )
  await expectRows([1, 'b', 'a'], [2, null, 'x'])
  await store.write(of, changeSet(schema, 'delta', [[2n, 'y', null]], [[1n]]), commitOf(4, 3))
  await expectRows([2, 'y', null])
  await store.write(of, changeSet(schema, 'delta', [[1n, 'c', null]]), commitOf(5, 4))
  await expectRows([1, 'c', null], [2, 'y', null])
  const masked = {
    ...plan,
    policy: { ...plan.policy, maskedColumns: ['city'] },
    orderBy: [{ column: 'previous_city', direction: 'asc' as const }],
  }
  await assert.rejects(rowsRead(store, of, masked), { code: 'column_masked' })
})
