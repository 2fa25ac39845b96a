/** Waiting at a log: for what concerns the streams, for no longer than asked, and without a trace. */
import { type ChangeNews, isSluiceError } from '@sluice/sdk'
import { isRow } from '../change-reading.ts'
import { CheckFailure, expect, expectRefusal, vacuous } from '../check.ts'
import { Capture, sourceOf } from '../connector-capture.ts'
import type { ConnectorContext } from '../connector-context.ts'
import { NothingToTry } from '../overheard.ts'
import { rowsOf, SIMPLE } from '../shapes.ts'
import type { ConnectorCheck } from './check.ts'

/** Within which nothing has to come: a wait that ends without news. */
const SHORT_MS = 200
/** In which a change that is made meanwhile is seen at once. */
const LONG_MS = 5_000
/** Longer than any call: only news, or its caller, ends such a wait. */
const ENDLESS_MS = 3_600_000
/** How long a caller who has left waits for the wait to end. No machine is so slow, and no wait so long by accident. */
export const LEFT_MS = 20_000
const MOST_WAITS = 40
/** Rows that the log tells of what is written in the course of C74, at least. */
const WRITTEN = 7

export const logWaitChecks: readonly ConnectorCheck[] = [
  {
    id: 'C74',
    name: 'log-is-waited-at-until-its-streams-change',
    level: 'core',
    requires: 'cdc',
    async run(context) {
      const { table, rows } = await context.filled(6)
      const capture = await Capture.of(context, table)
      const { owner } = capture
      owner.knows(table, rows)
      await expectWaits(capture)
      const begin = capture.position
      expectQuiet(await wait(capture, SHORT_MS), capture, 'nothing was written')
      const other = await context.table()
      await owner.write({ kind: 'insert', table: other, rows: rowsOf(SIMPLE, 1, 3, context.random) })
      expectQuiet(await wait(capture, SHORT_MS), capture, 'others wrote to a table of theirs')
      const open = await owner.begin()
      await open.write({ kind: 'insert', table, rows: rowsOf(SIMPLE, 50, 2, context.random) })
      const undone = await owner.begin()
      await undone.write({ kind: 'insert', table, rows: rowsOf(SIMPLE, 60, 2, context.random) })
      await undone.rollback()
      await owner.write({ kind: 'remove', table: other, row: owner.rows(other)[0] ?? [] })
      const quiet = expectQuiet(await wait(capture, SHORT_MS), capture, 'what was written is open or rolled back')
      // What was begun before the place that was called quiet is told after it.
      capture.movedTo(quiet)
      const waiting = wait(capture, LONG_MS)
      await open.commit()
      await expectFound(capture, await waiting, 'a transaction was committed')
      await capture.follow()
      capture.expectTrue('the place up to which a log is quiet lies before every change that has not come')
      await expectEachFound(capture)
      const { told } = await capture.kept(begin)
      expect(told.filter(isRow).length >= WRITTEN, () => ({
        ...waitedWrong,
        what: 'a wait has let the source forget what nobody has acknowledged',
        expected: 'all that came after the first position',
        came: `${told.filter(isRow).length} rows`,
      }))
    },
  },
  {
    id: 'C75',
    name: 'log-wait-ends-with-its-caller-and-says-what-is-lost',
    level: 'core',
    requires: 'cdc',
    async run(context) {
      const { capture } = await Capture.filled(context, 2)
      await expectWaits(capture)
      const { lineage, order } = capture.position
      const refusal = {
        kind: 'CONFLICT',
        codes: ['position_lost'],
        where: 'connector.changes.awaitChanges, request.after',
        why: 'whoever waits at a log that is not there waits for ever, and its table grows old in silence',
      } as const
      await expectRefusal({ ...refusal, tried: 'a wait at a position of another lineage' }, () =>
        wait(capture, SHORT_MS, { after: { lineage: `${lineage}0`, order } }),
      )
      await expectLeft(context, capture)
      await capture.release()
      await expectRefusal({ ...refusal, tried: 'a wait at a capture that was released' }, () => wait(capture, SHORT_MS))
    },
  },
]

type Parts = { readonly after?: Capture['position']; readonly signal?: AbortSignal }

function wait(capture: Capture, waitMs: number, { after, signal }: Parts = {}): Promise<ChangeNews> {
  const { name, streams, position } = capture
  return capture.with(async (source) => {
    const asked = { capture: name, after: after ?? position, streams, waitMs, signal: signal ?? capture.signal }
    const news = await source.awaitChanges?.(asked)
    if (news) return news
    throw new Error('there is no awaitChanges')
  })
}

/** Without it the log is read from time to time, which needs no proof of its own. */
async function expectWaits(capture: Capture): Promise<void> {
  const waits = await capture.with(async (source) => source.awaitChanges !== undefined)
  if (!waits) throw new NothingToTry('the connector does not wait at its log (awaitChanges)')
}

/** However a row changes, before the wait or while it lasts. */
async function expectEachFound(capture: Capture): Promise<void> {
  const { owner, context, tables } = capture
  const [table] = tables
  if (table === undefined) throw new CheckFailure(vacuous('the capture has no table'))
  const [first = [], second = [], third = []] = owner.rows(table)
  const writes = [
    { kind: 'update', table, row: first, cells: { name: 'waited for' } },
    { kind: 'update', table, row: second, cells: { id: 900n } },
    { kind: 'remove', table, row: third },
    { kind: 'insert', table, rows: rowsOf(SIMPLE, 700, 1, context.random) },
    ...(context.fixture.log?.truncates ? ([{ kind: 'truncate', table }] as const) : []),
  ] as const
  for (const [index, write] of writes.entries()) {
    if (index % 2 === 0) {
      await owner.write(write)
      await expectFound(capture, await wait(capture, SHORT_MS), `${write.kind} was done before the wait`)
    } else {
      const waiting = wait(capture, LONG_MS)
      await owner.write(write)
      await expectFound(capture, await waiting, `${write.kind} was done during the wait`)
    }
    await capture.follow()
    capture.expectTrue('what was waited for is read')
  }
}

/** A short wait may end before the change is seen, and then has to say a place before it. */
async function expectFound(capture: Capture, first: ChangeNews, done: string): Promise<void> {
  let news = first
  for (let count = 0; count < MOST_WAITS; count += 1) {
    if (news.kind === 'changed') return
    const { position } = news
    const { told } = await capture.read(position)
    const isBefore = told.some((one) => one.kind !== 'checkpoint')
    if (isBefore) news = await wait(capture, SHORT_MS)
    if (isBefore) continue
    throw new CheckFailure({
      ...waitedWrong,
      what: `a wait called the log quiet up to a place behind a change: ${done}`,
      expected: 'changed, or a place before the change',
      came: `quiet up to ${position.order}`,
    })
  }
  expect(false, () => ({ ...waitedWrong, expected: `changed: ${done}`, came: `${MOST_WAITS} times quiet` }))
}

/** The wait of a caller who has left ends, with nothing kept open at the source. */
async function expectLeft({ fixture }: ConnectorContext, capture: Capture): Promise<void> {
  const { connector } = await capture.context.open()
  const leave = new AbortController()
  const { name, streams, position } = capture
  const asked = { capture: name, after: position, streams, waitMs: ENDLESS_MS, signal: leave.signal }
  const waiting = (sourceOf(connector).awaitChanges?.(asked) ?? Promise.resolve()).then(
    (news) => news?.kind ?? 'nothing',
    (error: unknown) => error,
  )
  const reached = await until(async () => (await fixture.sessions()) > 0, waiting)
  leave.abort()
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<'late'>((resolve) => (timer = setTimeout(() => resolve('late'), LEFT_MS)))
  const outcome = await Promise.race([waiting, late])
  clearTimeout(timer)
  expect(isSluiceError(outcome, 'TRANSIENT'), () => ({
    ...waitedWrong,
    what: 'the wait of a caller who has left does not end as such calls do',
    expected: 'TRANSIENT',
    came: outcome === 'late' ? 'a wait that goes on' : String(outcome),
    remedy: 'Listen to the signal of the request while you wait, not only before and after.',
  }))
  await connector.close()
  const left = reached ? await fixture.sessions() : 0
  expect(left === 0, () => ({ ...waitedWrong, what: `${left} sessions of a wait are left at the source` }))
}

/** Whether it came about before the call ended by itself; a source may have no sessions to be seen. */
async function until(isSo: () => Promise<boolean>, ended: Promise<unknown>): Promise<boolean> {
  let isOver = false
  void ended.then(() => (isOver = true))
  for (let look = 0; look < MOST_WAITS && !isOver; look += 1) {
    if (await isSo()) return true
    await new Promise((resolve) => setTimeout(resolve, 25))
  }
  return false
}

const waitedWrong = {
  what: 'a wait at the log says other than it should',
  where: 'connector.changes.awaitChanges',
  why: 'a schedule that is continuous reads the log when the wait says so, and no more often',
  remedy: 'Compare it with what ChangeSource says of awaitChanges.',
}

function expectQuiet(news: ChangeNews, capture: Capture, done: string): Capture['position'] {
  const { lineage, order } = capture.position
  const isRight = news.kind === 'quiet' && news.position.lineage === lineage && news.position.order >= order
  expect(isRight, () => ({
    ...waitedWrong,
    expected: `quiet, up to a place of the same lineage and not before it: ${done}`,
    came: news.kind === 'quiet' ? `quiet up to ${news.position.lineage} ${news.position.order}` : 'changed',
  }))
  return news.kind === 'quiet' ? news.position : capture.position
}
