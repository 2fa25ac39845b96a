/** Sources that change while they are read, refuse, or are left. */
import { isSluiceError } from '@sluice/sdk'
import { callDeadline } from '../call-deadline.ts'
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
    notFor: (_, { alter }) => (alter ? null : 'tables of the source keep their columns (alter of the fixture)'),
    async run(context) {
      const { table, rows } = await context.filled(12)
      const added = { ...table, columns: [...table.columns, { name: 'more', type: 'string' as const, nullable: true }] }
      const { connector } = await context.open()
      // The source may let its change wait for the read, or the read may see either shape; never both.
      const reading = context.events(connector, table)[Symbol.asyncIterator]()
      const first = await reading.next()
      const altering = context.alter(table, added)
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
      await context.alter(added, dropped)
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
      await context.alter(dropped, retyped)
      const given = await context.read(connector, retyped)
      const texts = given.rows.map((row) => row[3])
      const isText =
        given.schema.columns[3]?.type === 'string' && texts.every((text) => text === null || typeof text === 'string')
      expect(isText && given.rows.length === rows.length, () => mixed('a column was given another type'))
    },
  },
  {
    id: 'C28',
    name: 'increment-insert-update-delete-order',
    aliases: ['cdc-insert-update-delete-order'],
    level: 'core',
    requires: 'incremental',
    async run(context) {
      const { table, rows } = await context.filled(8)
      const { state } = await context.resume(table, null)
      const [first = [], second = []] = rows
      const [fresh = [], passing = []] = rowsOf(SIMPLE, 50, 2, context.random)
      for (const name of ['one', 'two', 'three']) await context.put(table, [changed(SIMPLE, first, { name })])
      await context.put(table, [fresh, passing])
      await context.put(table, [changed(SIMPLE, fresh, { name: 'then' })])
      await context.remove(table, [passing])
      await context.remove(table, [second])
      await context.put(table, [changed(SIMPLE, second, { name: 'back' })])
      const next = await context.resume(table, state)
      const whole = (await context.read((await context.open()).connector, table)).rows
      expectMerged(table, whole, [rows, next.rows], 'rows that came, changed, went and came back, in their last state')
    },
  },
  {
    id: 'C29',
    name: 'increment-ack-only-after-commit',
    aliases: ['cdc-ack-only-after-commit'],
    level: 'core',
    requires: 'incremental',
    async run(context) {
      const { table, rows } = await context.filled(8)
      const { state } = await context.resume(table, null)
      const later = rowsOf(SIMPLE, 60, 5, context.random)
      await context.put(table, later)
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
      const allowed = context.fixture.repeatedRows ?? 0
      expect(after.rows.length <= allowed, () => ({
        what: `after the ack ${after.rows.length} rows come again`,
        expected: `at most ${allowed} rows, as repeatedRows of the fixture says`,
        came: `${after.rows.length} rows`,
        where: 'connector.ack, and a read from the state that was acknowledged',
        why: 'what is acknowledged lies in the lake, and each row that comes again is merged once more',
        remedy: 'Let ack repeat without effect, and go on after the last row of the state.',
      }))
      const more = rowsOf(SIMPLE, 80, 2, context.random)
      await context.put(table, more)
      const next = await context.resume(table, after.state)
      expectMerged(table, more, [next.rows.filter(([id]) => Number(id) >= 80)], 'and what comes after it is found')
    },
  },
  {
    id: 'C30',
    name: 'increment-resume-and-teardown-leaves-none',
    aliases: ['cdc-slot-resume-and-teardown-leaves-none'],
    level: 'core',
    requires: 'incremental',
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
        what: 'after the connector was closed the source is another',
        expected: 'the digest of the source as it was before open',
        came: 'another digest',
        where: 'fixture.digest, after connector.close',
        why: 'slots, positions and temporary tables that are left at a source fill its disk',
        remedy: 'Remove in close whatever open or read has made at the source.',
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
    notFor: (_, { refuse }) => (refuse ? null : 'the fixture cannot have the source turn callers away (refuse)'),
    async run(context) {
      const { table, rows } = await context.filled(8)
      const release = await context.fixture.refuse?.()
      try {
        await expectTurnedAway(context, table)
      } finally {
        await release?.()
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
          what: `a read whose caller let go after ${events} events did not end as one that was ended`,
          expected: 'a SluiceError of kind TRANSIENT, from the next step of the read',
          came: outcomeText(outcome),
          where: 'connector.read, request.signal',
          why: 'a run that is cancelled has to end within a second, and its next try has to be told from a fault',
          remedy: 'Look at request.signal before each event, and throw TRANSIENT once it is aborted.',
        }))
      }
      const page = await connector
        .discover({ after: null, limit: 5 }, AbortSignal.abort())
        .catch((error: unknown) => error)
      expect(isSluiceError(page, 'TRANSIENT'), () => ({
        what: 'discover with an aborted signal ended otherwise',
        expected: 'a SluiceError of kind TRANSIENT',
        came: outcomeText(page),
        where: 'connector.discover',
        why: 'a list of many tables takes long, and whoever asked may have left',
        remedy:
          'Look at the signal before and between questions to the source, and throw TRANSIENT once it is aborted.',
      }))
      const aborted = await connector.check(AbortSignal.abort()).catch((error: unknown) => error)
      expect(isSluiceError(aborted, 'TRANSIENT') || (aborted as { readonly ok?: boolean }).ok === false, () => ({
        what: 'check with an aborted signal goes on',
        expected: 'a SluiceError of kind TRANSIENT, or a report whose last step has failed',
        came: outcomeText(aborted),
        where: 'connector.check',
        why: 'whoever waits for the check may leave at any moment',
        remedy: 'Look at the signal first, hand it on, and wrap what the driver throws when it is aborted.',
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
  const turnedAway = {
    where: 'a source that lets nobody in for now (fixture.refuse)',
    why: 'the runtime tries again later what may work then, and asks people about everything else',
    remedy: 'Throw TRANSIENT or QUOTA for it in read; let check say at which step it was, and that it may pass.',
  }
  expect(isSluiceError(outcome, 'TRANSIENT') || isSluiceError(outcome, 'QUOTA'), () => ({
    ...turnedAway,
    what: 'a read from a source that lets nobody in for now is not told as such',
    expected: 'a SluiceError of kind TRANSIENT or QUOTA',
    came: outcomeText(outcome),
  }))
  const report = await connector.check(callDeadline())
  const last = report.steps.at(-1)
  expect(!report.ok && last?.ok === false && (last.remedy ?? '') !== '', () => ({
    ...turnedAway,
    what: 'check does not say that the source lets nobody in for now',
    expected: 'ok: false, and a last step with ok: false and a remedy',
    came: JSON.stringify(report.steps),
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

function outcomeText(outcome: unknown): string {
  if (isSluiceError(outcome)) return `${outcome.kind} ${outcome.code}`
  return outcome instanceof Error ? String(outcome) : 'no error'
}

function mixed(when: string) {
  return {
    what: `after ${when} a read gave rows that do not fit its schema`,
    expected: 'rows of one shape, the one that the schema of the same read names',
    where: 'connector.read of a table whose columns change',
    why: 'a read is of one moment, and the lake writes its rows by its schema',
    remedy: 'Read the columns and the rows in one snapshot; refuse by name what is no longer there.',
  }
}
