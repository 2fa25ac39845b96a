/** The tables of a log: which can be told, what befalls their columns, and how calls end. */
import { type ChangeSource, isSluiceError, type RefusedStream } from '@sluice/sdk'
import { streamOf } from '../change-mirror.ts'
import { expect } from '../check.ts'
import { Capture, logOf, sourceOf } from '../connector-capture.ts'
import { rowsOf, SIMPLE } from '../shapes.ts'
import type { ConnectorCheck } from './check.ts'
import { expectNoSessions } from './reading.ts'

export const logTableChecks: readonly ConnectorCheck[] = [
  {
    id: 'C40',
    name: 'log-is-offered-as-declared',
    level: 'core',
    requires: 'cdc',
    async run(context) {
      const { connector } = await context.open()
      const source = sourceOf(connector)
      const missing = HOOKS.filter((name) => typeof source[name] !== 'function')
      expect(missing.length === 0, () => ({
        ...wrongTable(`changes lacks ${missing.join(', ')}`, HOOKS.join(', ')),
        where: 'connector.changes',
      }))
      const { capture, table } = await Capture.filled(context, 3)
      await capture.owner.write({ kind: 'insert', table, rows: rowsOf(SIMPLE, 50, 2, context.random) })
      await capture.follow()
      capture.expectTrue('a row that is written is told')
    },
  },
  {
    id: 'C57',
    name: 'log-columns-change-in-mid-stream',
    level: 'core',
    requires: 'cdc',
    async run(context) {
      const { capture, owner, table } = await Capture.filled(context, 4)
      const wider = { ...table, columns: [...table.columns, { name: 'more', type: 'string' as const, nullable: true }] }
      await owner.write({ kind: 'insert', table, rows: rowsOf(SIMPLE, 50, 2, context.random) })
      await context.alter(table, wider)
      capture.tables = [wider]
      owner.knows(
        wider,
        owner.rows(table).map((row) => [...row, null]),
      )
      await owner.write({ kind: 'insert', table: wider, rows: rowsOf(wider, 60, 2, context.random) })
      await capture.follow()
      capture.expectTrue('a column that was added is told with the rows that have it')
      const narrow = { ...wider, columns: wider.columns.filter(({ name }) => name !== 'rank') }
      await context.alter(wider, narrow)
      capture.tables = [narrow]
      owner.knows(
        narrow,
        owner.rows(wider).map((row) => row.toSpliced(4, 1)),
      )
      await owner.write({ kind: 'insert', table: narrow, rows: rowsOf(narrow, 70, 2, context.random) })
      await capture.follow()
      capture.expectTrue('a column that was dropped is told no more')
      const isText = ({ name }: { readonly name: string }) => name === 'amount'
      const retyped = {
        ...narrow,
        columns: narrow.columns.map((one) => (isText(one) ? { ...one, type: 'string' as const } : one)),
      }
      await context.alter(narrow, retyped)
      capture.tables = [retyped]
      const at = narrow.columns.findIndex(isText)
      owner.knows(
        retyped,
        owner.rows(narrow).map((row) => row.with(at, row[at] == null ? null : String(row[at]))),
      )
      await owner.write({ kind: 'insert', table: retyped, rows: rowsOf(retyped, 80, 2, context.random) })
      await capture.follow()
      capture.expectTrue('of a column with another type every row has the new one')
    },
  },
  {
    id: 'C58',
    name: 'log-says-which-tables-are-to-be-read-whole',
    level: 'core',
    requires: 'cdc',
    async run(context) {
      const { table, rows } = await context.filled(4)
      const { table: other, rows: kept } = await context.filled(3)
      const capture = await Capture.of(context, table, other)
      const { owner, mirror } = capture
      owner.knows(table, rows)
      owner.knows(other, kept)
      for (let time = 0; time < 2; time += 1) await capture.prepare()
      expect(mirror.stale.size === 0, () =>
        wrongTable('a table that nobody changed is another incarnation', 'the same'),
      )
      await capture.follow()
      // One and the same name, other rows: the log has not told that they came.
      await context.fixture.drop(table)
      await context.fixture.create(table)
      owner.knows(table, rowsOf(SIMPLE, 50, 3, context.random))
      await context.put(table, owner.rows(table))
      await capture.follow()
      capture.expectTrue('a table made anew under its name is read whole, and its former rows are gone')
      const column = { name: 'filled', type: 'string' as const, nullable: true }
      const filled = { ...table, columns: [...table.columns, column] }
      await logOf(context).addFilled?.(table, column, 'by its owner')
      if (logOf(context).addFilled !== undefined) {
        capture.tables = [filled, other]
        owner.knows(
          filled,
          owner.rows(table).map((row) => [...row, 'by its owner']),
        )
        await capture.follow()
        capture.expectTrue('a column that older rows have a value in is read of them')
      }
      const [now = table] = capture.tables
      capture.tables = [other]
      await capture.prepare()
      capture.tables = [now, other]
      const gap = rowsOf(now, 90, 2, context.random)
      await owner.write({ kind: 'insert', table: now, rows: gap })
      await capture.follow()
      capture.expectTrue('a table that the log did not tell for a while is read whole once it does')
    },
  },
  {
    id: 'C59',
    name: 'log-refuses-what-it-cannot-tell',
    level: 'core',
    requires: 'cdc',
    async run(context) {
      const { table, rows } = await context.filled(4)
      const { fixture } = context
      const hidden = await context.table({ hidden: true })
      const untold = { ...SIMPLE, name: `${table.name}_untold` }
      const { createUntold } = logOf(context)
      const otherKey = { name: table.name, primaryKey: ['name'] }
      const absent = { name: `${table.name}_absent`, primaryKey: ['id'] }
      const wrong = [hidden, absent, ...(createUntold ? [untold] : [])].map((one) => streamOf(fixture.schema, one))
      await createUntold?.(untold)
      context.atEnd(async () => {
        if (createUntold) await fixture.drop(untold)
      })
      const capture = Capture.begun(context, table)
      capture.owner.knows(table, rows)
      const places = async () => (await logOf(context).places()).join(', ')
      const before = await places()
      const { name, signal } = capture
      await capture.with(async (source) => {
        const said = await source.refusals?.({ streams: [...capture.streams, ...wrong], signal })
        if (said) expectRefused(said, wrong)
        const key = [streamOf(fixture.schema, otherKey)]
        if (source.refusals) expectRefused(await source.refusals({ streams: key, signal }), key)
        expect((await places()) === before, () =>
          wrongTable('what would be refused was looked at, and something made', before || 'nothing is kept'),
        )
        const { refused } = await source.prepare({ capture: name, streams: [...capture.streams, ...wrong], signal })
        expectRefused(refused, wrong)
      })
      await capture.prepare()
      await capture.readWhole()
      const more = rowsOf(SIMPLE, 50, 3, context.random)
      for (const one of createUntold ? [table, untold] : [table]) {
        await expectWritable(async () => capture.owner.write({ kind: 'insert', table: one, rows: more }))
        const [first = []] = more
        await expectWritable(async () => capture.owner.write({ kind: 'remove', table: one, row: first }))
      }
      capture.owner.knows(table, [...rows, ...more.slice(1)])
      await capture.follow()
      capture.expectTrue('tables that can be told are told beside those that are refused')
    },
  },
  {
    id: 'C60',
    name: 'log-abort-ends-and-close-changes-nothing',
    level: 'core',
    requires: 'cdc',
    async run(context) {
      const { capture, table } = await Capture.filled(context, 4)
      for (let index = 0; index < 4; index += 1)
        await capture.owner.write({ kind: 'insert', table, rows: rowsOf(SIMPLE, 50 + index * 10, 8, context.random) })
      const { name, streams, position } = capture
      const whole = await capture.with((source) =>
        Array.fromAsync(source.changes({ capture: name, after: position, streams, signal: capture.signal })),
      )
      // Once no more than the last checkpoint is left, whoever lets go may get it.
      for (let events = 0; events < Math.min(3, whole.length - 1); events += 1) {
        const abort = new AbortController()
        await capture.with(async (source) => {
          const request = { capture: name, after: position, streams, signal: abort.signal }
          const reading = source.changes(request)[Symbol.asyncIterator]()
          for (let event = 0; event < events; event += 1) await reading.next()
          abort.abort()
          expectEnded(await drained(reading), `a log whose reader let go after ${events} of ${whole.length} events`)
        })
      }
      await capture.with(async (source) => {
        const request = { capture: name, after: position, streams, signal: capture.signal }
        const reading = source.changes(request)[Symbol.asyncIterator]()
        await reading.next()
        await context.fixture.breakNetwork?.()
        const outcome = await drained(reading)
        // What had come already may be told to its end.
        if (outcome !== null) expectEnded(outcome, 'a log whose connection was cut')
      })
      await expectNoSessions(context)
      const before = (await logOf(context).places()).join(', ')
      const late = Capture.begun(context, table)
      const { connector } = await context.open()
      const source = sourceOf(connector)
      const calls = callsOf(source, { late: late.name, capture, signal: AbortSignal.abort() })
      for (const [call, made] of calls) expectEnded(await outcomeOf(made), `${call} with an aborted signal`)
      await connector.close()
      const closed = callsOf(source, { late: late.name, capture, signal: capture.signal })
      for (const [call, made] of closed) expectEnded(await outcomeOf(made), `${call} after close`)
      await expectNoSessions(context)
      expect((await logOf(context).places()).join(', ') === before, () =>
        wrongTable('a call that was ended has changed what the source keeps', before || 'nothing'),
      )
      await capture.follow()
      capture.expectTrue('the log is read on afterwards, from where it was')
    },
  },
  {
    id: 'C61',
    name: 'log-health-says-what-befalls',
    level: 'core',
    requires: 'cdc',
    async run(context) {
      const { table } = await context.filled(3)
      const capture = Capture.begun(context, table)
      const states: string[] = [(await capture.health(null)).state]
      await capture.prepare()
      states.push((await capture.health(null)).state, (await capture.health()).state)
      const release = await logOf(context).press?.()
      if (release !== undefined) {
        try {
          const pressed = await capture.health()
          expect((pressed.remedy ?? '') !== '' && pressed.message !== '', () =>
            wrongTable('health does not say what to do for a log that will soon be gone', 'a message and a remedy'),
          )
          states.push(pressed.state)
        } finally {
          await release()
        }
      }
      await capture.release()
      await capture.prepare()
      states.push((await capture.health(capture.position)).state)
      const wanted = ['ok', 'ok', 'ok', ...(release === undefined ? [] : ['at_risk']), 'lost']
      expect(states.join() === wanted.join(), () => ({
        ...wrongTable('health says otherwise what has befallen the log', wanted.join(', ')),
        came: states.join(', '),
        where: 'connector.changes.health before prepare, after it, near the limit, and of a place that is gone',
      }))
    },
  },
]

const HOOKS = ['prepare', 'changes', 'ack', 'health', 'release'] as const

interface CallParts {
  readonly late: string
  readonly capture: Capture
  readonly signal: AbortSignal
}

/** Each call once, those that would change something for a capture that is not there yet. */
function callsOf(source: ChangeSource, { late, capture, signal }: CallParts) {
  const { name, streams, position } = capture
  return [
    ['prepare', () => source.prepare({ capture: late, streams, signal })],
    ['changes', () => Array.fromAsync(source.changes({ capture: name, after: position, streams, signal }))],
    ['ack', () => source.ack({ capture: name, position, signal })],
    ['health', () => source.health({ capture: name, saved: position, signal })],
    ['release', () => source.release({ capture: name, signal })],
  ] as const satisfies readonly (readonly [string, () => Promise<unknown>])[]
}

function outcomeOf(call: () => Promise<unknown>): Promise<unknown> {
  return call().catch((error: unknown) => error)
}

function expectEnded(outcome: unknown, tried: string): void {
  expect(isSluiceError(outcome, 'TRANSIENT'), () => ({
    ...wrongTable(`${tried} did not end as one that was ended`, 'a SluiceError of kind TRANSIENT'),
    came: isSluiceError(outcome)
      ? `${outcome.kind} ${outcome.code}`
      : outcome instanceof Error
        ? String(outcome)
        : 'no error',
    remedy: 'Look at request.signal, and at close, before each step; throw TRANSIENT.',
  }))
}

async function drained(reading: AsyncIterator<unknown>): Promise<unknown> {
  try {
    while (!(await reading.next()).done);
    return null
  } catch (error) {
    return error
  }
}

function expectRefused(
  refused: readonly RefusedStream[],
  wanted: readonly { readonly schema: string; readonly table: string }[],
): void {
  const names = (all: typeof wanted) =>
    all
      .map(({ schema, table }) => `${schema}.${table}`)
      .toSorted()
      .join(', ')
  expect(names(refused) === names(wanted), () => ({
    ...wrongTable('other tables are refused than cannot be told', names(wanted)),
    came: names(refused) || 'none',
  }))
  expect(
    refused.every(({ code, reason, remedy }) => code && reason && remedy),
    () =>
      wrongTable('a table is refused without saying why, or what would let the log tell it', 'code, reason and remedy'),
  )
}

async function expectWritable(write: () => Promise<void>): Promise<void> {
  const failure = await write().then(
    () => null,
    (error: unknown) => error,
  )
  expect(failure === null, () => ({
    ...wrongTable('a statement of the source’s owner fails since prepare', 'prepare leaves writers as they were'),
    came: String(failure),
  }))
}

function wrongTable(what: string, expected: string) {
  return {
    what,
    expected,
    came: 'otherwise',
    where: 'connector.changes',
    why: 'a table whose log is not whole is served as if it were',
    remedy: 'Compare it with what ChangeSource says of this call.',
  }
}
