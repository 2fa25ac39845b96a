/** Reading on from where the last committed read ended. */
import { isDeepStrictEqual } from 'node:util'
import { type ConnectorState, isSluiceError, type Row } from '@sluice/sdk'
import { expect } from '../check.ts'
import { keyText } from '../compare.ts'
import { type ConnectorContext, expectRows } from '../connector-context.ts'
import type { SourceTable } from '../connector-fixture.ts'
import { changed, rowsOf, SIMPLE } from '../shapes.ts'
import type { ConnectorCheck } from './check.ts'

const MAX_STATE_BYTES = 64 << 10

export const resumingChecks: readonly ConnectorCheck[] = [
  {
    id: 'C14',
    name: 'state-after-every-N-or-T',
    level: 'core',
    requires: 'incremental',
    async run(context) {
      const { table, rows } = await context.filled(41)
      const { states, rows: given } = await context.resume(table, null)
      const sizes = states.map(({ state }) => Buffer.byteLength(JSON.stringify(state)))
      const isRight =
        states.length > 0 && states.at(-1)?.rowsBefore === rows.length && sizes.every((size) => size <= MAX_STATE_BYTES)
      expect(isRight, () =>
        lost(
          `${states.length} states came, the last after ${states.at(-1)?.rowsBefore} of ${rows.length} rows, the largest of ${Math.max(...sizes)} bytes`,
        ),
      )
      expectRows(table, rows, given, 'a first incremental read gives every row')
    },
  },
  {
    id: 'C15',
    name: 'resume-from-every-state-loses-nothing',
    level: 'core',
    requires: 'incremental',
    async run(context) {
      const { table, rows } = await context.filled(33)
      for (const batch of [rowsOf(SIMPLE, 34, 9, context.random), rowsOf(SIMPLE, 43, 9, context.random)])
        await context.put(table, batch)
      const first = await context.resume(table, null)
      const later = rowsOf(SIMPLE, 60, 7, context.random)
      const touched = rows.slice(0, context.fixture.appendsOnly ? 0 : 3)
      await context.put(table, [...later, ...touched.map((row) => changed(SIMPLE, row, { name: 'newer' }))])
      const whole = (await context.read((await context.open()).connector, table)).rows
      for (const { state, rowsBefore } of first.states) {
        const rest = await context.resume(table, state)
        expectMerged(table, whole, [first.rows.slice(0, rowsBefore), rest.rows], `read on after ${rowsBefore} rows`)
      }
    },
  },
  {
    id: 'C83',
    name: 'states-stay-small-however-much-was-read',
    level: 'core',
    requires: 'incremental',
    notFor: ({ capabilities: { modes } }) =>
      modes.includes('incremental') ? null : 'a connector that reads in full has nothing to go on from',
    async run(context) {
      const columns = [{ name: 'key', type: 'string', nullable: false }, ...SIMPLE.columns] as SourceTable['columns']
      const table = await context.table({ columns, primaryKey: ['key'] })
      let state: ConnectorState | null = null
      // Of both reads together the keys alone are more than a state may hold.
      for (const from of [1, 401]) {
        const rows = rowsOf({ columns, primaryKey: [] }, from, 400, context.random)
        await context.put(
          table,
          rows.map((row, index) =>
            changed({ columns, primaryKey: [] }, row, { key: `${from + index} `.padEnd(120, 'k') }),
          ),
        )
        const given = await context.resume(table, state)
        const sizes = given.states.map((one) => Buffer.byteLength(JSON.stringify(one.state)))
        expect(given.rows.length >= 400, () => lost(`${given.rows.length} rows of 400 came`))
        expect(Math.max(...sizes) <= MAX_STATE_BYTES, () =>
          lost(`after ${from + 399} rows a state has ${Math.max(...sizes)} bytes, of at most ${MAX_STATE_BYTES}`),
        )
        state = given.state
      }
    },
  },
  {
    id: 'C16',
    name: 'resume-dups-bounded-and-declared',
    level: 'core',
    requires: 'incremental',
    async run(context) {
      const { table } = await context.filled(30)
      const { state } = await context.resume(table, null)
      const allowed = context.fixture.repeatedRows ?? 0
      const again = await context.resume(table, state)
      expect(again.rows.length <= allowed, () => repeated(again.rows.length, allowed))
      const later = rowsOf(SIMPLE, 200, 4, context.random)
      await context.put(table, later)
      const next = await context.resume(table, again.state)
      expect(next.rows.length <= later.length + allowed, () => repeated(next.rows.length - later.length, allowed))
      expectMerged(table, later, [next.rows.filter(([id]) => Number(id) >= 200)], 'what is new has come')
    },
  },
  {
    id: 'C18',
    name: 'empty-read-still-emits-same-state',
    level: 'core',
    requires: 'incremental',
    async run(context) {
      const { table } = await context.filled(8)
      const { state } = await context.resume(table, null)
      const settled = (await context.resume(table, state)).state
      const again = await context.resume(table, settled)
      expect(again.rows.length === 0 && isDeepStrictEqual(again.state, settled), () =>
        lost(`a read that found ${again.rows.length} rows ended with another state`),
      )
    },
  },
  {
    id: 'C19',
    name: 'empty-state-never-overwrites',
    level: 'core',
    requires: 'incremental',
    async run(context) {
      await context.filled(3)
      const table = await context.table()
      const empty = await context.resume(table, null)
      expect(empty.rows.length === 0 && Object.keys(empty.state.value).length > 0, () =>
        lost('the state of an empty table is empty'),
      )
      const rows = rowsOf(SIMPLE, 1, 5, context.random)
      await context.put(table, rows)
      const next = await context.resume(table, empty.state)
      expectMerged(table, rows, [next.rows], 'rows that come into an empty table are found from its state')
      const nothing = await context.resume(table, next.state)
      const more = rowsOf(SIMPLE, 20, 2, context.random)
      await context.put(table, more)
      const last = await context.resume(table, nothing.state)
      expectMerged(
        table,
        more,
        [last.rows.filter(([id]) => Number(id) >= 20)],
        'a read that found nothing leaves a state to go on from',
      )
    },
  },
  {
    id: 'C20',
    name: 'future-state-returns-nothing-and-keeps-state',
    level: 'core',
    requires: 'incremental',
    async run(context) {
      const { table } = await context.filled(6, { cursorColumn: 'at' })
      const { state } = await context.resume(table, null)
      const ahead = context.fixture.future?.(state) ?? null
      if (ahead === null) return await expectForeignRefused(context, table, state)
      const given = await context.resume(table, ahead)
      expect(given.rows.length === 0 && isDeepStrictEqual(given.state, ahead), () =>
        lost(
          `from a state ahead of every row came ${given.rows.length} rows, and ${isDeepStrictEqual(given.state, ahead) ? 'the same' : 'another'} state`,
        ),
      )
    },
  },
  {
    id: 'C21',
    name: 'state-json-round-trip-and-migration',
    level: 'core',
    requires: 'incremental',
    async run(context) {
      const { table, rows } = await context.filled(10)
      const { state } = await context.resume(table, null)
      const copy = JSON.parse(JSON.stringify(state)) as ConnectorState
      expect(isDeepStrictEqual(copy, state) && Number.isInteger(state.version), () =>
        lost('a state is another once it has been kept as JSON'),
      )
      await context.put(table, rowsOf(SIMPLE, 50, 3, context.random))
      const whole = (await context.read((await context.open()).connector, table)).rows
      expectMerged(table, whole, [rows, (await context.resume(table, copy)).rows], 'from the state as it was kept')
      await expectForeignRefused(context, table, state)
    },
  },
  {
    id: 'C22',
    name: 'kill-mid-batch-resume',
    level: 'core',
    requires: 'incremental',
    async run(context) {
      const { table, rows } = await context.filled(20)
      const { state } = await context.resume(table, null)
      const later = rowsOf(SIMPLE, 100, 25, context.random)
      await context.put(table, later)
      for (let point = 0; point < 3; point += 1) {
        const { connector, host } = await context.open()
        host.crashAt(point)
        await context.read(connector, table, { mode: 'incremental', state }).catch((error: unknown) => {
          if (!isSluiceError(error)) throw error
        })
        await connector.close()
      }
      const { connector } = await context.open()
      const reading = context.events(connector, table, { mode: 'incremental', state })[Symbol.asyncIterator]()
      await reading.next()
      await reading.next()
      await context.fixture.breakNetwork?.()
      await reading.return?.()
      const rest = await context.resume(table, state)
      expectMerged(
        table,
        [...rows, ...later],
        [rows, rest.rows],
        'whatever was ended in the middle, the next read from the same state gives all',
      )
    },
  },
  {
    id: 'C24',
    name: 'cursor-ties-at-boundary-not-lost',
    level: 'core',
    requires: 'incremental',
    async run(context) {
      const { table, rows } = await context.filled(6, { cursorColumn: 'at' })
      const at = String(rows.at(-1)?.[1])
      const first = await context.resume(table, null)
      const ties = rowsOf(SIMPLE, 80, 3, context.random).map((row) => changed(SIMPLE, row, { at }))
      await context.put(table, ties)
      const next = await context.resume(table, first.state)
      expectMerged(
        table,
        [...rows, ...ties],
        [first.rows, next.rows],
        'rows with the time of the last one, committed after it was read',
      )
    },
  },
  {
    id: 'C25',
    name: 'null-and-backwards-cursor',
    level: 'core',
    requires: 'incremental',
    async run(context) {
      const columns = SIMPLE.columns.map((column) => (column.name === 'at' ? { ...column, nullable: true } : column))
      const { table, rows } = await context.filled(6, { columns, cursorColumn: 'at' })
      const first = await context.resume(table, null)
      const lastMs = Date.parse(String(rows.at(-1)?.[1]))
      const before = new Date(lastMs - 2000).toISOString().replace('Z', '000Z')
      const [timeless = [], backwards = []] = rowsOf(SIMPLE, 80, 2, context.random)
      const late = [changed(SIMPLE, timeless, { at: null }), changed(SIMPLE, backwards, { at: before })]
      await context.put(table, late)
      const next = await context.resume(table, first.state)
      expectMerged(
        table,
        [...rows, ...late],
        [first.rows, next.rows],
        'a row without a time, and one of a little earlier',
      )
    },
  },
  {
    id: 'C34',
    name: 'clock-skew-overlap-window',
    level: 'core',
    requires: 'incremental',
    async run(context) {
      const { table, rows } = await context.filled(6)
      const held = rowsOf(SIMPLE, 300, 2, context.random)
      const { appendsOnly = false } = context.fixture
      for (const skewMs of [0, -DAY_MS, DAY_MS]) {
        const { connector } = await context.open(undefined, { skewMs })
        const { state } = await context.read(connector, table, { mode: 'incremental' })
        const late = appendsOnly
          ? rowsOf(SIMPLE, 500 + (10 * skewMs) / DAY_MS, 2, context.random)
          : held.map((row) => changed(SIMPLE, row, { name: `skew ${skewMs}` }))
        const release = await context.fixture.hold?.(table, late)
        const during = await context.read(connector, table, { mode: 'incremental', state })
        const more = rowsOf(SIMPLE, 400 + skewMs / DAY_MS, 1, context.random)
        await context.put(table, more)
        const between = await context.read(connector, table, { mode: 'incremental', state: during.state })
        if (release) await release()
        else await context.put(table, late)
        const next = await context.read(connector, table, { mode: 'incremental', state: between.state })
        const came = [...during.rows, ...between.rows, ...next.rows]
        expectMerged(
          table,
          [...late, ...more],
          [came.filter(([id]) => [...late, ...more].some((row) => row[0] === id))],
          `rows committed late, the connector's clock ${skewMs / DAY_MS} days ahead`,
        )
      }
      expectMerged(
        table,
        rows,
        [(await context.resume(table, null)).rows.filter(([id]) => Number(id) < 100)],
        'and all others are there',
      )
    },
  },
  {
    id: 'C85',
    name: 'a-time-ahead-of-the-clock-hides-no-later-row',
    level: 'core',
    requires: 'incremental',
    async run(context) {
      const { table, rows } = await context.filled(6, { cursorColumn: 'at' })
      const timed = (from: number, ms: number) =>
        rowsOf(SIMPLE, from, 2, context.random).map((row) =>
          changed(SIMPLE, row, { at: new Date(ms).toISOString().replace('Z', '000Z') }),
        )
      const ahead = timed(80, Date.now() + 200 * DAY_MS)
      await context.put(table, ahead)
      const first = await context.resume(table, null)
      const later = timed(90, Date.now())
      await context.put(table, later)
      const next = await context.resume(table, first.state)
      const latest = timed(100, Date.now())
      await context.put(table, latest)
      const last = await context.resume(table, next.state)
      expectMerged(
        table,
        [...rows, ...ahead, ...later, ...latest],
        [first.rows, next.rows, last.rows],
        'rows of now, after one whose time is ahead of the clock was read',
      )
    },
  },
]

const DAY_MS = 86_400_000

/** The parts one after the other, merged by key as the lake does, are the whole. */
export function expectMerged(
  table: SourceTable,
  whole: readonly Row[],
  parts: readonly (readonly Row[])[],
  when: string,
): void {
  const schema = { columns: table.columns, primaryKey: table.primaryKey }
  const merged = new Map(parts.flat().map((row) => [keyText(schema, row), row]))
  expectRows(table, whole, [...merged.values()], `${when}: reads that go on from a state lose nothing`)
}

/** A state of another version is not guessed at. */
async function expectForeignRefused(
  context: ConnectorContext,
  table: SourceTable,
  state: ConnectorState,
): Promise<void> {
  for (const foreign of [
    { ...state, version: state.version + 1000 },
    { ...state, value: { nonsense: true } },
  ]) {
    const outcome = await context.resume(table, foreign).catch((error: unknown) => error)
    expect(isSluiceError(outcome, 'CONFIG') || isSluiceError(outcome, 'INVALID_DATA'), () => ({
      what: 'a state that this version has not written was read from',
      where: 'connector.read, request.state',
      why: 'guessing at a position loses rows without a word',
      remedy: 'Migrate the versions that are known, and throw CONFIG for any other.',
    }))
  }
}

function lost(what: string) {
  return {
    what,
    where: 'connector.read, states',
    why: 'the next read goes on from the last state that was committed',
    remedy: 'Give a state for what has been sent and nothing more; where nothing was new, the one that was given.',
  }
}

function repeated(count: number, allowed: number) {
  return {
    what: `${count} rows came again although they had not changed, and ${allowed} may`,
    where: 'connector.read from a state',
    why: 'each of them is merged into the lake again',
    remedy: 'Go on after the last committed row; say in repeatedRows of the fixture how many an overlap repeats.',
  }
}
