/** Histories: a fold over epochs, timed by their commits and by no clock of the store's. */
import { type HistorySelection, isSluiceError, type Row, type TableSchema, toJsonValue } from '@sluice/sdk'
import { type Check, CheckFailure, expect, vacuous } from '../check.ts'
import type { CheckContext } from '../context.ts'
import type { Dataset, PreparedWrite } from '../dataset.ts'
import { answerOf, openPolicy, planOf } from '../reading.ts'
import { applyChanges } from '../reference/content.ts'
import type { RowVersion } from '../reference/memory.ts'
import { historyMode } from '../requirements.ts'
import { changed, HISTORY_SCHEMA, rowsOf, SIMPLE } from '../shapes.ts'

const TRACKED = ['name', 'amount']

export const historyChecks: readonly Check[] = [
  {
    id: 99,
    name: 'type2-intervals-no-gap-no-overlap-one-open',
    level: 'core',
    requires: [historyMode('type_2')],
    async run(context) {
      const { dataset } = await lived(context, 'type_2')
      const rows = await historyOf(context, dataset, { kind: 'all' })
      const versions = Map.groupBy(rows, ([id]) => id)
      expect(rows.length > versions.size, () => vacuous('no key has more than one version'))
      for (const [id, list] of versions) expectIntervals(String(id), list)
    },
  },
  {
    id: 100,
    name: 'type2-untracked-change-no-new-row',
    level: 'core',
    requires: [historyMode('type_2')],
    async run(context) {
      const { dataset, versions } = await lived(context, 'type_2')
      const expected = versions.map(typeTwoRow)
      expectSame(expected, await historyOf(context, dataset, { kind: 'all' }), 'history of all states')
      expect(
        expected.some((row) => row.at(-1) === false),
        () => vacuous('nothing was ever closed'),
      )
      await dataset.expectRows('without a history selection the current rows are given')
      const rows = [...dataset.content.values()].slice(2)
      const anew = await dataset.prepare({ mode: 'full', upserts: rows })
      await dataset.apply(anew)
      const begun = (await folded(versions, anew, 'type_2')).map(typeTwoRow)
      expectSame(
        begun,
        await historyOf(context, dataset, { kind: 'all' }),
        'history after a full set, with which it begins anew',
      )
    },
  },
  {
    id: 101,
    name: 'type2-late-and-out-of-order',
    level: 'core',
    requires: [historyMode('type_2')],
    async run(context) {
      const { dataset, versions } = await lived(context, 'type_2')
      const [row = [], other = []] = [...dataset.content.values()]
      const late = [
        changed(SIMPLE, row, { at: '2019-01-01T00:00:00.000000Z', name: 'late' }),
        changed(SIMPLE, other, { at: '2031-01-01T00:00:00.000000Z', name: 'early' }),
      ]
      const write = await dataset.prepare({ mode: 'delta', upserts: late })
      await dataset.apply(write)
      const expected = (await folded(versions, write, 'type_2')).map(typeTwoRow)
      const why = 'history after rows whose own times lie before and after all others'
      expectSame(expected, await historyOf(context, dataset, { kind: 'all' }), why)
      const older = await dataset.prepare({ mode: 'delta', upserts: [row], commit: { epoch: 2, previousEpoch: 1 } })
      const outcome = await context.store
        .write(dataset.target, older.changes, older.commit)
        .catch((error: unknown) => error)
      expect(isSluiceError(outcome, 'CONFLICT'), () => ({
        what: 'an epoch that comes after a later one was taken',
        where: 'store.write, out of order',
        why: 'a history is a fold over epochs in their order',
        remedy: 'Refuse it with CONFLICT older_epoch.',
      }))
      expectSame(expected, await historyOf(context, dataset, { kind: 'all' }), 'history after an epoch out of order')
    },
  },
  {
    id: 102,
    name: 'type2-delete-closes',
    aliases: ['reinsert-opens'],
    level: 'core',
    requires: [historyMode('type_2')],
    async run(context) {
      const dataset = await context.dataset(SIMPLE, { history: { mode: 'type_2', tracked: TRACKED }, indexed: ['id'] })
      const [row = [], kept = []] = rowsOf(SIMPLE, 1, 2, context.random)
      await dataset.full([row, kept])
      const states = async () => (await historyOf(context, dataset, { kind: 'all' })).filter(([id]) => id === row[0])
      await expectStates(await states(), 1, true, 'after the row came')
      await dataset.delta([], [row])
      await expectStates(await states(), 1, false, 'after it was deleted')
      await dataset.delta([row])
      await expectStates(await states(), 2, true, 'after it came again, unchanged')
      await dataset.expectRows('the current rows are those that were not deleted')
    },
  },
  {
    id: 104,
    name: 'asof-equals-replay-oracle',
    level: 'core',
    requires: [historyMode('type_2')],
    async run(context) {
      const { dataset, versions, instants } = await lived(context, 'type_2')
      for (const instant of ['2020-01-01T00:00:00.000000Z', ...instants.flatMap(around)]) {
        const expected = versions.filter(
          ({ validFrom, validTo }) => validFrom <= instant && (validTo === null || instant < validTo),
        )
        const given = await historyOf(context, dataset, { kind: 'at', instant })
        expectSame(expected.map(typeTwoRow), given, `history at ${instant}`)
      }
    },
  },
  {
    id: 103,
    name: 'type3-previous-value',
    level: 'core',
    requires: [historyMode('type_3')],
    async run(context) {
      const { dataset, versions } = await lived(context, 'type_3')
      const previous = TRACKED.map((name) => ({ ...columnOf(name), name: `previous_${name}`, nullable: true }))
      const schema = { ...SIMPLE, columns: [...SIMPLE.columns, ...previous] }
      const expected = versions.map((one) => [...one.row, ...TRACKED.map((name) => one.previous[name] ?? null)])
      expect(
        expected.some((row) => row.at(-2) !== null),
        () => vacuous('no row has a previous value'),
      )
      expectSame(expected, await rowsWith(context, dataset, schema), 'read of previous_ columns')
    },
  },
  {
    id: 126,
    name: 'history-replayed-after-crash',
    level: 'core',
    requires: [historyMode('type_2')],
    async run(context) {
      const { dataset, versions } = await lived(context, 'type_2')
      const [row = []] = [...dataset.content.values()]
      const upserts = [changed(SIMPLE, row, { name: 'crashed over' })]
      const write = await dataset.prepare({ mode: 'delta', upserts })
      context.host.crashAt(1)
      // It was to be cut off.
      await context.store.write(dataset.target, write.changes, write.commit).catch(() => undefined)
      await context.reopen()
      await dataset.apply(write)
      await dataset.apply(write)
      const expected = (await folded(versions, write, 'type_2')).map(typeTwoRow)
      expectSame(expected, await historyOf(context, dataset, { kind: 'all' }), 'history after a crash and two repeats')
    },
  },
]

/** So many states, and whether one of them is open. */
async function expectStates(states: readonly Row[], count: number, isOpen: boolean, when: string): Promise<void> {
  const open = states.filter((state) => state[7] === null)
  expect(states.length === count && open.length === (isOpen ? 1 : 0), () => ({
    what: `${when} the key has ${states.length} states, ${open.length} of them open, instead of ${count} and ${isOpen ? 1 : 0}`,
    where: 'history of all states',
    why: 'a delete closes the open state, and a row that comes back opens a new one',
    remedy: 'Close at the commit of the delete; never open a closed state again.',
  }))
}

/** Some epochs with changes of tracked and of other columns, deletes, returns and full sets; and what they fold to. */
async function lived(context: CheckContext, mode: 'type_2' | 'type_3') {
  const dataset = await context.dataset(SIMPLE, { history: { mode, tracked: TRACKED }, indexed: ['id'] })
  const rows = rowsOf(SIMPLE, 1, 8, context.random).map((row) => changed(SIMPLE, row, { name: 'first' }))
  const named = (name: string | null, from: number, to: number) =>
    rows.slice(from, to).map((row) => changed(SIMPLE, row, { name }))
  const ranked = rows.slice(5, 7).map((row) => changed(SIMPLE, row, { rank: 4711 }))
  const epochs = [
    { mode: 'full', upserts: rows },
    { mode: 'delta', upserts: [...named('second', 0, 2), ...ranked], deletes: rows.slice(2, 4) },
    { mode: 'delta', upserts: [...named(null, 0, 1), ...named('returned', 2, 3)] },
    { mode: 'delta', upserts: [] },
    { mode: 'delta', upserts: [...named('last', 0, 2), ...rows.slice(3, 5)], deletes: rows.slice(7, 8) },
  ] as const
  let versions: readonly RowVersion[] = []
  const instants: string[] = []
  for (const wish of epochs) {
    const write = await dataset.prepare(wish)
    await dataset.apply(write)
    versions = await folded(versions, write, mode)
    instants.push(write.commit.committedAt)
  }
  await dataset.expectRows('the current rows must be right before their history can be')
  return { dataset, versions, instants }
}

async function folded(before: readonly RowVersion[], write: PreparedWrite, mode: 'type_2' | 'type_3') {
  const { changes, commit } = write
  const upserts: Row[] = []
  const deletedKeys: string[] = []
  for await (const { columns, rowCount } of changes.upserts()) {
    for (let row = 0; row < rowCount; row += 1) upserts.push(columns.map((column) => column[row] ?? null))
  }
  for await (const { columns, rowCount } of changes.deletes()) {
    for (let row = 0; row < rowCount; row += 1) deletedKeys.push(JSON.stringify([String(columns[0]?.[row])]))
  }
  const place = { schema: SIMPLE, config: { history_mode: mode, tracked_columns: TRACKED } }
  return applyChanges(before, { mode: changes.mode, upserts, deletedKeys }, place, commit).versions
}

function typeTwoRow({ row, validFrom, validTo }: RowVersion): Row {
  return [...row, validFrom, validTo, validTo === null]
}

function columnOf(name: string) {
  return SIMPLE.columns.find((column) => column.name === name) ?? { name, type: 'string' as const, nullable: true }
}

/** Just before, at, and just after. */
function around(instant: string): readonly string[] {
  return [before(instant), instant, instant.replace('.000000Z', '.000001Z')]
}

function before(instant: string): string {
  return new Date(Date.parse(instant) - 1).toISOString().replace('Z', '999Z')
}

function historyOf(context: CheckContext, dataset: Dataset, history: HistorySelection): Promise<readonly Row[]> {
  return rowsWith(context, dataset, HISTORY_SCHEMA, history)
}

async function rowsWith(
  { store, capabilities }: CheckContext,
  dataset: Dataset,
  schema: TableSchema,
  history?: HistorySelection,
): Promise<readonly Row[]> {
  const policy = openPolicy(schema)
  const parts = { policy, ...(history ? { history } : {}) }
  if (capabilities.operations.includes('scan')) {
    return (await answerOf(store, dataset.target, planOf(schema, 'scan', parts))).rows
  }
  const ids = new Set(dataset.candidates.map(([id]) => id as bigint))
  const rows: Row[] = []
  for (const id of ids) {
    const filters = [{ column: 'id', operator: 'eq' as const, values: [id] }]
    rows.push(...(await answerOf(store, dataset.target, planOf(schema, 'get', { ...parts, filters }))).rows)
  }
  return rows
}

function expectSame(expected: readonly Row[], given: readonly Row[], where: string): void {
  const text = (row: Row) => JSON.stringify(row.map((value) => toJsonValue(value, 'string')))
  const [wanted, found] = [expected.map(text).sort(), given.map(text).sort()]
  if (wanted.join('\n') === found.join('\n')) return
  const missing = wanted.filter((line) => !found.includes(line))
  const extra = found.filter((line) => !wanted.includes(line))
  throw new CheckFailure({
    what: `${missing.length} states are missing, ${extra.length} should not be there: ${[missing[0], extra[0]].join(' against ')}`,
    where,
    why: 'a change of a tracked column opens a new state, any other change stays in the open one, a delete closes it, and every time is that of a commit',
    remedy: 'Fold the epochs in order; compare with the reference store’s content.ts.',
  })
}

function expectIntervals(id: string, versions: readonly Row[]): void {
  const [from, to, current] = [6, 7, 8]
  const sorted = [...versions].sort((left, right) => (String(left[from]) < String(right[from]) ? -1 : 1))
  const open = sorted.filter((row) => row[to] === null)
  const overlaps = sorted.some((row, index) => {
    const next = sorted[index + 1]
    return next !== undefined && (row[to] === null || String(row[to]) > String(next[from]))
  })
  const isConsistent = sorted.every((row) => row[current] === (row[to] === null) && row[to] !== row[from])
  if (open.length <= 1 && !overlaps && isConsistent) return
  throw new CheckFailure({
    what: `the states of key ${id} ${overlaps ? 'overlap' : `have ${open.length} open ends`}`,
    where: 'history of all states',
    why: 'at every instant a key has at most one state',
    remedy: 'Close the former state at the commit that opens the next.',
  })
}
