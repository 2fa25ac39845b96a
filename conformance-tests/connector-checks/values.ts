/** What a source may hold that its author did not think of, and what it does while it is read. */
import { type DiscoverPage, isSluiceError, type LogicalType, type Row } from '@sluice/sdk'
import { callDeadline } from '../call-deadline.ts'
import { expect, type FailureParts } from '../check.ts'
import { indexOf } from '../compare.ts'
import { type ConnectorContext, expectRows } from '../connector-context.ts'
import type { SourceTable } from '../connector-fixture.ts'
import { gather } from '../connector-reading.ts'
import { inZones } from '../machine-zone.ts'
import { COMPOSITE, changed, extremeRows, rowsOf, SIMPLE } from '../shapes.ts'
import type { ConnectorCheck } from './check.ts'
import { typesOf } from './discovery.ts'
import { expectMerged } from './resuming.ts'

export const EVERY_TYPE: readonly LogicalType[] = [
  ...([
    'string',
    'boolean',
    'integer',
    'long',
    'float',
    'double',
    'date',
    'timestamp',
    'uuid',
    'binary',
    'json',
  ] as const),
  ...(['decimal(38,0)', 'decimal(38,10)', 'decimal(3,3)'] as const),
]

export const valueChecks: readonly ConnectorCheck[] = [
  {
    id: 'C35',
    name: 'expected-records',
    level: 'core',
    notFor: (_, { expected }) =>
      expected?.length ? null : 'the fixture names no table with records that are expected',
    async run(context) {
      await context.filled()
      for (const { table, rows } of context.fixture.expected ?? []) {
        const { connector } = await context.open()
        const given = await context.read(connector, table)
        expectRows(table, rows, given.rows, 'the fixture says what a read of this table gives')
        const types = (columns: SourceTable['columns']) => columns.map(({ name, type }) => `${name} ${type}`).join(', ')
        expect(types(given.schema.columns) === types(table.columns), () => ({
          what: 'a table that is expected has other columns',
          expected: types(table.columns),
          came: types(given.schema.columns),
          where: `connector.read of ${table.name}, its schema`,
          why: 'the fixture says what the columns of this table are read as',
          remedy: 'Map the types of the source as the fixture says, or correct the fixture.',
        }))
      }
    },
  },
  {
    id: 'C36',
    name: 'extreme-values-at-the-source',
    level: 'core',
    async run(context) {
      const types = typesOf(context, EVERY_TYPE)
      const named = types.map((type) => ({ name: `c_${type.replaceAll(/\W+/g, '_')}`, type, nullable: true }))
      const table = await context.table({ columns: [...SIMPLE.columns.slice(0, 2), ...named] })
      const rows = extremeRows(table, context.random)
      for (let from = 0; from < rows.length; from += 20) await context.put(table, rows.slice(from, from + 20))
      for (const mode of context.plugin.capabilities.modes.filter((one) => one !== 'cdc')) {
        const { connector } = await context.open()
        const given = await context.read(connector, table, { mode })
        expectRows(table, rows, given.rows, `a ${mode} read carries the ends of every type as they are`)
      }
    },
  },
  {
    id: 'C37',
    name: 'composite-keys-at-the-source',
    level: 'core',
    async run(context) {
      const table = await context.table({ columns: COMPOSITE.columns, primaryKey: COMPOSITE.primaryKey })
      const at = '2026-03-01T00:00:00.000000Z'
      const rows: readonly Row[] = [
        ['a', 'b:c', 1, at, 'one'],
        ['a:b', 'c', 1, at, 'two'],
        ['', 'a', 0, at, null],
        ['a', '', 0, at, 'three'],
        ['A', '', 0, at, 'four'],
        ['a', '', -1, at, 'five'],
      ]
      await context.put(table, rows)
      const { connector } = await context.open()
      const given = await context.read(connector, table)
      expectRows(table, rows, given.rows, 'keys of several columns are told apart')
      const key = given.schema.primaryKey
      expect(key.join() === table.primaryKey.join(), () => ({
        what: 'a key of several columns is given otherwise',
        expected: table.primaryKey.join(', '),
        came: key.join(', ') || 'no key',
        where: 'the schema of a read',
        why: 'rows are merged by it, in the order in which the source has its columns',
        remedy: 'Give the columns of the key as the request names them, or as the source has them.',
      }))
    },
  },
  {
    id: 'C38',
    name: 'writes-during-a-read',
    level: 'core',
    async run(context) {
      for (const mode of context.plugin.capabilities.modes.filter((one) => one !== 'cdc')) {
        for (const events of [1, 3]) await expectOneMoment(context, mode as 'full' | 'incremental', events)
      }
    },
  },
  {
    id: 'C39',
    name: 'whole-where-it-begins-anew',
    level: 'core',
    requires: 'incremental',
    notFor: ({ capabilities: { modes } }) =>
      modes.includes('incremental') ? null : 'a connector that reads in full begins anew every time',
    async run(context) {
      const { table } = await context.filled(9)
      const { state } = await context.resume(table, null)
      await context.fixture.drop(table)
      await context.fixture.create(table)
      const rows = rowsOf(SIMPLE, 100, 4, context.random)
      await context.put(table, rows)
      const next = await context.resume(table, state).catch((error: unknown) => error)
      if (isSluiceError(next, 'CONFIG')) return
      if (next instanceof Error) throw next
      const { whole, rows: given } = next as Awaited<ReturnType<ConnectorContext['resume']>>
      expect(whole, () => ({
        what: 'a read from the state of a table that is gone does not say that it brings every row',
        expected: 'whole: true with the schema, or a SluiceError of kind CONFIG',
        came: `a read of ${given.length} rows without it`,
        where: 'connector.read of a table that was dropped and made anew',
        why: 'rows of the former table stay in the lake: only what is whole replaces them',
        remedy: 'Keep in the state which table it is of; where that is another one, give every row and say whole.',
      }))
      expectRows(table, rows, given, 'a read that says whole gives every row of the table that there is')
    },
  },
  {
    id: 'C66',
    name: 'columns-and-keys-as-they-are-asked-and-kept',
    level: 'core',
    async run(context) {
      const { table, rows } = await context.filled(6, COMPOSITE)
      const names = ['note', 'number', 'right', 'left']
      for (const mode of context.plugin.capabilities.modes.filter((one) => one !== 'cdc')) {
        const { connector } = await context.open()
        const given = await context.read(connector, table, { mode, columns: names })
        const columns = names.flatMap((name) => table.columns.find((column) => column.name === name) ?? [])
        const told = given.schema.columns.map(({ name }) => name)
        expect(told.join() === names.join(), () => wrongColumns(names.join(', '), told.join(', ')))
        const at = names.map((name) => indexOf(COMPOSITE, name))
        const wanted = rows.map((row) => at.map((index) => row[index] ?? null))
        expectRows({ ...table, columns }, wanted, given.rows, 'columns come in the order in which they are asked for')
      }
      await expectDiscoveredKey(context, table)
    },
  },
  {
    id: 'C64',
    name: 'reads-hold-in-every-time-zone-of-the-machine',
    level: 'core',
    async run(context) {
      await inZones(['Pacific/Kiritimati', 'America/St_Johns'], async (zone) => {
        const types = typesOf(context, ['timestamp', 'timestamptz', 'date'])
        const timed = types.map((type) => ({ name: `c_${type}`, type, nullable: true }))
        const table = await context.table({ columns: [...SIMPLE.columns.slice(0, 2), ...timed] })
        const rows = extremeRows(table, context.random).slice(0, 20)
        await context.put(table, rows)
        const { connector } = await context.open()
        expectRows(table, rows, (await context.read(connector, table)).rows, `the zone of the machine is ${zone}`)
        await connector.close()
      })
    },
  },
]

function wrongColumns(expected: string, came: string): FailureParts {
  return {
    what: 'columns come in another order than was asked for',
    expected,
    came,
    where: 'the schema of a read of some columns',
    why: 'rows are taken by the places of their columns',
    remedy: 'Select the columns that the request names, in its order.',
  }
}

/** Where the source keeps a key at all, all of its columns are discovered, in their order; none of them is a cursor. */
async function expectDiscoveredKey(context: ConnectorContext, table: SourceTable): Promise<void> {
  const { connector } = await context.open()
  let after: string | null = null
  do {
    const page: DiscoverPage = await connector.discover({ after, limit: 100 }, callDeadline())
    for (const found of page.tables.filter(({ name }) => name === table.name)) {
      const isKept = found.primaryKey.length === 0 || found.primaryKey.join() === table.primaryKey.join()
      expect(isKept && !table.primaryKey.includes(found.suggestedCursor ?? ''), () => ({
        what: 'a key of several columns is discovered otherwise, or one of them is suggested as a cursor',
        expected: table.primaryKey.join(', '),
        came: `${found.primaryKey.join(', ')}; cursor ${found.suggestedCursor ?? 'none'}`,
        where: `connector.discover, table ${table.name}`,
        why: 'rows are merged by the key that was discovered: by a part of it they replace each other',
        remedy: 'Give all columns of the key, in the order of the key, and suggest none of them as a cursor.',
      }))
    }
    after = page.next
  } while (after !== null)
}

/** A read begins, the source's owner writes, the read ends: it is of the moment before or of the one after. */
async function expectOneMoment(context: ConnectorContext, mode: 'full' | 'incremental', events: number): Promise<void> {
  const { table, rows: before } = await context.filled(30)
  const { connector } = await context.open()
  const reading = context.events(connector, table, { mode })[Symbol.asyncIterator]()
  const first = []
  for (let event = 0; event < events; event += 1) first.push(await reading.next())
  const { appendsOnly = false, remove } = context.fixture
  const touched = appendsOnly ? 0 : 10
  const kept = remove === undefined ? before.length : 25
  const newer = before.slice(0, touched).map((row) => changed(SIMPLE, row, { name: 'written meanwhile' }))
  const added = rowsOf(SIMPLE, 500, 7, context.random)
  const after = [...newer, ...before.slice(touched, kept), ...added]
  await context.put(table, [...newer, ...added])
  if (remove !== undefined) await context.remove(table, before.slice(kept))
  const given = await gather(continued(first, reading))
  const isOfOne = [before, after].some((whole) => sameRows(table, whole, given.rows))
  expect(isOfOne, () => ({
    what: `a ${mode} read gave rows of two moments: the source was written to after ${events} of its events`,
    expected: `the ${before.length} rows of before, or the ${after.length} of after`,
    came: `${given.rows.length} rows that are neither`,
    where: 'connector.read, with writes between two events',
    why: 'a read is one snapshot: of two moments it shows a state that the source never had',
    remedy: 'Read in one transaction or from one opened file; take a copy where the source has neither.',
  }))
  if (mode === 'full') return
  const there = new Set(after.map((row) => String(row[0])))
  const rest = await context.resume(table, given.state)
  const merged = [...given.rows, ...rest.rows].filter(([id]) => there.has(String(id)))
  expectMerged(table, after, [merged], 'what was written during a read comes with it or with the next')
}

function sameRows(table: SourceTable, wanted: readonly Row[], given: readonly Row[]): boolean {
  try {
    expectRows(table, wanted, given, '')
    return true
  } catch {
    // They differ, which is what is asked.
    return false
  }
}

async function* continued<T>(first: readonly IteratorResult<T>[], rest: AsyncIterator<T>): AsyncGenerator<T> {
  for (const result of first) {
    if (result.done) return
    yield result.value
  }
  yield* { [Symbol.asyncIterator]: () => rest }
}
