/** Sources that change while they are read, refuse, or are left. */
import { isSluiceError } from '@sluice/sdk'
import { expect } from '../check.ts'
import { type ConnectorContext, expectRows } from '../connector-context.ts'
import { gather } from '../connector-reading.ts'
import { changed, rowsOf, SIMPLE } from '../shapes.ts'
import type { ConnectorCheck } from './check.ts'
import { expectNoSessions } from './reading.ts'
import { expectMerged } from './resuming.ts'

export const changingChecks: readonly ConnectorCheck[] = [
  {
    id: 'C26',
    name: 'schema-add-drop-retype-mid-run',
    level: 'core',
    async run(context) {
      const { table, rows } = await context.filled(12)
      const added = { ...table, columns: [...table.columns, { name: 'more', type: 'string' as const, nullable: true }] }
      const { connector } = await context.open()
      // The source may let its change wait for the read, or the read may see either shape; never both.
      const reading = context.events(connector, table)[Symbol.asyncIterator]()
      const first = await reading.next()
      const altering = context.fixture.alter(table, added)
      const rest = { [Symbol.asyncIterator]: () => reading }
      const during = await gather(joined(first, rest))
      await altering
      const width = during.schema.columns.length
      expect(during.rows.length === rows.length && during.rows.every((row) => row.length === width), () =>
        mixed('a column was added'),
      )
      const wider = rows.map((row) => [...row, null])
      const after = await context.read(connector, added)
      expectRows(added, wider, after.rows, 'after a column was added every row has it')
      const dropped = { ...added, columns: added.columns.filter(({ name }) => name !== 'rank') }
      await context.fixture.alter(added, dropped)
      const narrow = wider.map((row) => row.filter((_, index) => index !== 4))
      expectRows(
        dropped,
        narrow,
        (await context.read(connector, dropped)).rows,
        'after a column was dropped the others are read',
      )
      const named = await context.read(connector, dropped, { columns: ['id', 'rank'] }).catch((error: unknown) => error)
      expect(isSluiceError(named), () => mixed('a column that was dropped is read by name'))
      const retyped = {
        ...dropped,
        columns: dropped.columns.map((column) =>
          column.name === 'amount' ? { ...column, type: 'string' as const } : column,
        ),
      }
      await context.fixture.alter(dropped, retyped)
      const given = await context.read(connector, retyped)
      const texts = given.rows.map((row) => row[3])
      const isText =
        given.schema.columns[3]?.type === 'string' && texts.every((text) => text === null || typeof text === 'string')
      expect(isText && given.rows.length === rows.length, () => mixed('a column was given another type'))
    },
  },
  {
    id: 'C28',
    name: 'cdc-insert-update-delete-order',
    level: 'core',
    requires: 'cdc',
    async run(context) {
      const { table, rows } = await context.filled(8)
      const { state } = await context.resume(table, null)
      const [first = [], second = []] = rows
      const [fresh = [], passing = []] = rowsOf(SIMPLE, 50, 2, context.random)
      for (const name of ['one', 'two', 'three']) await context.fixture.put(table, [changed(SIMPLE, first, { name })])
      await context.fixture.put(table, [fresh, passing])
      await context.fixture.put(table, [changed(SIMPLE, fresh, { name: 'then' })])
      await context.fixture.remove(table, [passing])
      await context.fixture.remove(table, [second])
      await context.fixture.put(table, [changed(SIMPLE, second, { name: 'back' })])
      const next = await context.resume(table, state)
      const whole = (await context.read((await context.open()).connector, table)).rows
      expectMerged(table, whole, [rows, next.rows], 'rows that came, changed, went and came back, in their last state')
    },
  },
  {
    id: 'C29',
    name: 'cdc-ack-only-after-commit',
    level: 'core',
    requires: 'cdc',
    async run(context) {
      const { table, rows } = await context.filled(8)
      const { state } = await context.resume(table, null)
      const later = rowsOf(SIMPLE, 60, 5, context.random)
      await context.fixture.put(table, later)
      const unacknowledged = await context.resume(table, state)
      const again = await context.resume(table, state)
      expectMerged(
        table,
        [...rows, ...later],
        [rows, again.rows],
        'what nobody has acknowledged is read again from the same state',
      )
      const { connector } = await context.open()
      const about = { schema: context.fixture.schema, table: table.name }
      for (let time = 0; time < 3; time += 1) await connector.ack(about, unacknowledged.state)
      const after = await context.resume(table, unacknowledged.state)
      expect(after.rows.length <= (context.fixture.repeatedRows ?? 0), () => ({
        ...mixed(''),
        what: `after the ack ${after.rows.length} rows come again`,
      }))
      const more = rowsOf(SIMPLE, 80, 2, context.random)
      await context.fixture.put(table, more)
      const next = await context.resume(table, after.state)
      expectMerged(table, more, [next.rows.filter(([id]) => Number(id) >= 80)], 'and what comes after it is found')
    },
  },
  {
    id: 'C30',
    name: 'cdc-slot-resume-and-teardown-leaves-none',
    level: 'core',
    requires: 'cdc',
    async run(context) {
      const { table, rows } = await context.filled(8)
      const before = await context.fixture.digest()
      const { connector } = await context.open()
      const { state } = await context.read(connector, table, { mode: 'incremental' })
      await context.read(connector, table, { mode: 'incremental', state })
      const left = context.events(connector, table)[Symbol.asyncIterator]()
      await left.next()
      await connector.close()
      await connector.close()
      await left.next().catch((error: unknown) => {
        if (!isSluiceError(error)) throw error
      })
      await left.return?.()
      await expectNoSessions(context)
      expect(before === (await context.fixture.digest()), () => ({
        ...mixed(''),
        what: 'after the connector was closed the source is another',
      }))
      expectMerged(
        table,
        rows,
        [rows, (await context.resume(table, state)).rows],
        'and the next connector goes on from the state',
      )
    },
  },
  {
    id: 'C31',
    name: 'rate-limit-backoff-and-status',
    level: 'core',
    async run(context) {
      const { table, rows } = await context.filled(8)
      const release = await context.fixture.refuse?.()
      if (release !== undefined) {
        try {
          await expectTurnedAway(context, table)
        } finally {
          await release()
        }
      }
      await expectNoSessions(context)
      expectRows(
        table,
        rows,
        (await context.read((await context.open()).connector, table)).rows,
        'once the source lets in again everything is read',
      )
    },
  },
  {
    id: 'C33',
    name: 'abort-within-1s-no-leaked-session',
    level: 'core',
    async run(context) {
      const { table, rows } = await context.filled(30)
      const { connector } = await context.open()
      for (let events = 0; events < 3; events += 1) {
        const abort = new AbortController()
        const reading = context.events(connector, table, { signal: abort.signal })[Symbol.asyncIterator]()
        for (let event = 0; event < events; event += 1) await reading.next()
        abort.abort()
        const outcome = await drained(reading).catch((error: unknown) => error)
        expect(isSluiceError(outcome, 'TRANSIENT'), () => ({
          ...mixed(''),
          what: `a read whose caller let go after ${events} events ended with ${String(outcome)}`,
        }))
      }
      const aborted = await connector.check(AbortSignal.abort()).catch((error: unknown) => error)
      const isEnded = isSluiceError(aborted, 'TRANSIENT') || (aborted as { readonly ok?: boolean }).ok === false
      expect(isEnded || (aborted as { readonly ok?: boolean }).ok === true, () => ({
        ...mixed(''),
        what: 'check with an aborted signal threw no SluiceError',
      }))
      await expectNoSessions(context)
      expectRows(table, rows, (await context.read(connector, table)).rows, 'the connector reads on afterwards')
    },
  },
]

async function expectTurnedAway(
  context: ConnectorContext,
  table: Parameters<ConnectorContext['read']>[1],
): Promise<void> {
  const { connector } = await context.open()
  const outcome = await context.read(connector, table).catch((error: unknown) => error)
  expect(isSluiceError(outcome, 'TRANSIENT') || isSluiceError(outcome, 'QUOTA'), () => ({
    ...mixed(''),
    what: `a source that lets nobody in for now gave ${isSluiceError(outcome) ? `${outcome.kind} ${outcome.code}` : String(outcome)}`,
  }))
  const report = await connector.check(AbortSignal.timeout(60_000))
  const last = report.steps.at(-1)
  expect(!report.ok && last?.ok === false && (last.remedy ?? '') !== '', () => ({
    ...mixed(''),
    what: `check says of it ${JSON.stringify(report.steps)}`,
  }))
  await connector.close()
}

async function* joined<T>(first: IteratorResult<T>, rest: AsyncIterable<T>): AsyncGenerator<T> {
  if (!first.done) yield first.value
  yield* rest
}

async function drained(reading: AsyncIterator<unknown>): Promise<number> {
  for (let events = 0; ; events += 1) if ((await reading.next()).done) return events
}

function mixed(when: string) {
  return {
    what: `while ${when} a read gave rows that do not fit its schema`,
    where: 'connector.read of a source that changes or refuses',
    why: 'a read is of one moment, and one that cannot be made is told by its kind',
    remedy:
      'Read catalog and rows in one snapshot; throw TRANSIENT for what may work later; end the session whatever happens.',
  }
}
