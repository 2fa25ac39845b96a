/** What a read gives: all rows, once, in the contract's order of events. */
import { isDeepStrictEqual } from 'node:util'
import type { Row } from '@sluice/sdk'
import { expect } from '../check.ts'
import { type ConnectorContext, expectRows } from '../connector-context.ts'
import type { Gathered } from '../connector-reading.ts'
import { rowsOf, SIMPLE } from '../shapes.ts'
import type { ConnectorCheck } from './check.ts'

/** At `full` more than one batch may hold. */
const MANY = { core: 400, full: 10_400, hard: 30_000 } as const
const MAX_BATCH_ROWS = 10_000
export const MAX_CHUNK_BYTES = 4 << 20

export const readingChecks: readonly ConnectorCheck[] = [
  {
    id: 'C10',
    name: 'full-refresh-equals-source-oracle',
    level: 'core',
    async run(context) {
      const { table, rows } = await context.filled(60)
      const { connector } = await context.open()
      expectRows(table, rows, (await context.read(connector, table)).rows, 'a full read gives every row of the source')
      const goes = context.fixture.remove !== undefined
      const kept = goes ? rows.slice(10) : rows
      if (goes) await context.remove(table, rows.slice(0, 10))
      expectRows(table, kept, (await context.read(connector, table)).rows, 'and none that it no longer has')
      const projected = await context.read(connector, table, { columns: ['rank', 'id'] })
      const isProjected =
        projected.schema.columns.map(({ name }) => name).join() === 'rank,id' &&
        projected.rows.every((row) => row.length === 2)
      expect(isProjected && projected.rows.length === kept.length, () =>
        wrongRead('columns that were asked for by name come otherwise'),
      )
    },
  },
  {
    id: 'C11',
    name: 'two-full-refreshes-identical',
    level: 'core',
    async run(context) {
      const { table, rows } = await context.filled(40)
      const { connector } = await context.open()
      const first = await context.read(connector, table)
      const second = await context.read((await context.open()).connector, table)
      expectRows(table, rows, first.rows, 'the first read gives every row')
      expectRows(table, first.rows, second.rows, 'a second read gives the same')
      expect(isDeepStrictEqual(first.schema, second.schema), () => wrongRead('two reads have two schemas'))
    },
  },
  {
    id: 'C13',
    name: 'status-sequence-valid',
    level: 'core',
    async run(context) {
      const { table, rows } = await context.filled(23)
      const { connector } = await context.open()
      for (const mode of context.plugin.capabilities.modes.filter((name) => name !== 'cdc')) {
        const { kinds, schema, rows: given } = await context.read(connector, table, { mode })
        const order = kinds.join(' ')
        const isRight = /^schema( estimate)?(( batch| csv| reject)* state)+$/.test(order)
        expect(isRight && schema.columns.length === SIMPLE.columns.length, () =>
          wrongRead(`the events came as ${order.slice(0, 200)}`),
        )
        expectRows(table, rows, given, `a ${mode} read from the beginning gives every row`)
      }
    },
  },
  {
    id: 'C27',
    name: 'reject-not-drop',
    level: 'core',
    async run(context) {
      const { table, rows } = await context.filled(9)
      const { putUnfit } = context.fixture
      if (putUnfit === undefined) {
        const { rejects, rows: given } = await context.read((await context.open()).connector, table)
        expect(rejects === 0 && given.length === rows.length, () => wrongRead('rows that are fit were rejected'))
        return
      }
      await putUnfit(table, 4)
      for (const mode of context.plugin.capabilities.modes.filter((name) => name !== 'cdc')) {
        const given = await context.read((await context.open()).connector, table, { mode })
        expectRows(table, rows, given.rows, `the rows that can be carried are, in a ${mode} read`)
        expect(given.rejects === 4, () => ({
          ...wrongRead(`a ${mode} read drops rows that nothing can carry, or rejects others`),
          expected: '4 events of kind reject, one for each such row',
          came: `${given.rejects}`,
        }))
      }
    },
  },
  {
    id: 'C65',
    name: 'marks-say-what-a-row-lacks',
    level: 'core',
    async run(context) {
      const { table, rows } = await context.filled(9)
      const [odd, other, ...fit] = rows as [Row, Row, ...Row[]]
      const column = await context.fixture.putWithout?.(table, odd)
      const marked = table.columns.map(({ name }) => name).filter((name) => !table.primaryKey.includes(name))
      const at = table.columns.findIndex(({ name }) => name === column)
      const without = odd.map((value, index) => (index === at ? null : value))
      for (const mode of context.plugin.capabilities.modes.filter((name) => name !== 'cdc')) {
        const plain = await context.read((await context.open()).connector, table, { mode })
        expectMarks(plain, null, 'a read that was not asked for marks')
        const given = await context.read((await context.open()).connector, table, { mode, marked })
        const comes = given.marks !== null && column !== undefined
        expectRows(
          table,
          [...(column === undefined ? [odd] : comes ? [without] : []), other, ...fit],
          given.rows,
          `a ${mode} read gives the rows that can be carried, and with marks those that lack a value`,
        )
        if (given.marks === null) continue
        expectMarks(given, comes ? { key: odd, column } : { key: null, column: '' }, `a ${mode} read with marks`)
        // The value is in nobody's way any more once it was corrected, and another one is.
        if (mode !== 'incremental' || column === undefined) continue
        await context.put(table, [odd])
        await context.fixture.putWithout?.(table, other)
        const next = await context.resume(table, given.state, { marked })
        expectMarks(next, { key: other, column }, 'a read that goes on')
        await context.put(table, [other])
        await context.fixture.putWithout?.(table, odd)
      }
    },
  },
  {
    id: 'C17',
    name: 'state-counts-match-records',
    level: 'core',
    async run(context) {
      const { table, rows } = await context.filled(37)
      const { connector } = await context.open()
      for (const mode of context.plugin.capabilities.modes.filter((name) => name !== 'cdc')) {
        const { states, rows: given } = await context.read(connector, table, { mode })
        const wrong = states.find(({ rows: told, counted }) => told !== counted)
        const total = states.reduce((sum, { rows: told }) => sum + told, 0)
        expect(wrong === undefined && total === given.length, () =>
          wrongRead(`a state counts ${wrong?.rows ?? total} rows, and ${wrong?.counted ?? given.length} came`),
        )
        expectRows(table, rows, given, 'the rows that are counted are all of them')
      }
    },
  },
  {
    id: 'C23',
    name: 'one-stream-fails-others-finish',
    level: 'core',
    async run(context) {
      const { table, rows } = await context.filled(50)
      const { connector } = await context.open()
      const missing = { ...table, name: 'no_such_table' }
      const [first, failed, second] = await Promise.allSettled([
        context.read(connector, table),
        context.read(connector, missing),
        context.read(connector, table),
      ])
      expect(failed.status === 'rejected', () => wrongRead('a table that is not there was read'))
      for (const outcome of [first, second]) {
        if (outcome.status === 'rejected') throw outcome.reason
        expectRows(table, rows, outcome.value.rows, 'one table that cannot be read leaves the others')
      }
    },
  },
  {
    id: 'C32',
    name: 'backpressure-bounded-memory',
    level: 'core',
    async run(context) {
      const { table, rows: first } = await context.filled(1)
      const more = rowsOf(SIMPLE, 2, MANY[context.level], context.random)
      for (let from = 0; from < more.length; from += 1000) await context.put(table, more.slice(from, from + 1000))
      const rows = [...first, ...more]
      const { connector } = await context.open()
      for (let read = 0; read < 5; read += 1) {
        const reading = context.events(connector, table)[Symbol.asyncIterator]()
        for (let event = 0; event < 3; event += 1) await reading.next()
        await reading.return?.()
      }
      const { largest, rows: given } = await context.read(connector, table)
      expect(largest.rows <= MAX_BATCH_ROWS && largest.bytes <= MAX_CHUNK_BYTES, () =>
        wrongRead(`a piece of a read has ${largest.rows} rows or ${largest.bytes} bytes`),
      )
      expectRows(table, rows, given, 'reads that were left off hold up no other')
      await connector.close()
      await expectNoSessions(context)
    },
  },
]

/** @param lacking null: nothing is said of marks; the row that has one, `key` null: none has */
function expectMarks(
  { rows, marks, carried }: Gathered,
  lacking: { readonly key: Row | null; readonly column: string } | null,
  where: string,
): void {
  const came = marks === null ? null : rows.flatMap(([id], at) => (marks[at] ?? []).map((name) => `${id}: ${name}`))
  const key = lacking?.key ?? null
  const expected = lacking === null ? null : key === null ? [] : [`${key[0]}: ${lacking.column}`]
  expect(isDeepStrictEqual(came, expected) && carried === (expected?.length ?? 0), () => ({
    what: 'marks, or rejects that are carried, are not those of the rows that lack a value',
    expected: expected === null ? 'none, and no word of marks' : expected.join(', ') || 'none',
    came: `${came === null ? 'no word of marks' : came.join(', ') || 'none'}, and ${carried} such rejects`,
    where: `connector.read, ${where}`,
    why: 'a product that uses the column would take null for what the source has, and any other would lose the row',
    remedy: 'Put the names of the columns into the last cell of the row, and give one reject that is carried for each.',
  }))
}

/** Sessions end a moment after their sockets do. */
export async function expectNoSessions(context: ConnectorContext): Promise<void> {
  let left = await context.fixture.sessions()
  for (let look = 0; left > 0 && look < 100; look += 1) {
    await new Promise((resolve) => setTimeout(resolve, 50))
    left = await context.fixture.sessions()
  }
  expect(left === 0, () => ({
    what: `${left} sessions of the connector are left at the source`,
    where: 'after close, or after a read that was ended',
    why: 'sources have few of them',
    remedy: 'End the session in a finally, also where the reader returns early.',
  }))
}

function wrongRead(what: string) {
  return {
    what,
    where: 'connector.read',
    why: 'what the lake commits is what the events say, no more and no less',
    remedy: 'One schema, then rows and rejects, each counted by the state that follows them.',
  }
}
