/** Reads for which nobody waits any more: their time is over, or their caller has gone, at the beginning or in the middle. */
import type { ReadBatch } from '@sluice/sdk'
import { CALL_TIMEOUT_MS, callDeadline } from '../call-deadline.ts'
import { type Check, expect, expectRefusal, vacuous } from '../check.ts'
import type { CheckContext } from '../context.ts'
import type { Dataset } from '../dataset.ts'
import { type Asking, type Readable, readable, takenOf, type Way } from '../ways.ts'

const ROWS = 40
/** Of an answer that a store may well give in several batches. */
const MANY = 1000

export const awaitedChecks: readonly Check[] = [
  {
    id: 175,
    name: 'a-read-whose-time-is-over-says-so',
    level: 'core',
    async run(context) {
      const small = await readable(context, ROWS)
      await expectAllEnded(context, small, 'deadline_exceeded', { timeoutMs: 0 })
      // Each read has time of its own: what has passed before it counts for none.
      await context.clock.advance(2 * CALL_TIMEOUT_MS)
      for (const way of small.ways) await pagesToAsk(context, small.dataset, way)
    },
  },
  {
    id: 176,
    name: 'a-read-called-off-in-the-middle-ends',
    level: 'core',
    async run(context) {
      await expectAllEnded(context, await readable(context, ROWS), 'aborted', { signal: AbortSignal.abort() })
      const large = await readable(context, Math.min(MANY, context.capabilities.limits.maxReadRows))
      for (const way of large.ways) {
        await expectLeft(context, large.dataset, way, 'aborted')
        await expectLeft(context, large.dataset, way, 'deadline_exceeded')
        await pagesToAsk(context, large.dataset, way)
      }
    },
  },
]

type Page = readonly [name: string, asking: Asking]

/** The first page and, where there is one, a later one; both are there. */
async function pagesToAsk({ store }: CheckContext, { target }: Dataset, way: Way): Promise<readonly Page[]> {
  const first = await takenOf(way.read(store, target, { limit: 1 }))
  expect(first.rowCount === 1, () => vacuous(`${way.name} gives ${first.rowCount} rows of one`))
  if (!way.isPaged || first.next === undefined) return [['', { limit: 1 }]]
  const later = { limit: 1, after: first.next }
  const second = await takenOf(way.read(store, target, later))
  expect(second.rowCount === 1, () => vacuous(`${way.name} gives ${second.rowCount} rows on its second page of one`))
  return [
    ['', { limit: 1 }],
    [', on a later page', later],
  ]
}

const TRIED = {
  deadline_exceeded: 'a read with no time left',
  aborted: 'a read whose caller has gone',
} as const

type End = keyof typeof TRIED

const WHY = 'nobody waits for it any more, and whoever began it is told which of the two it was'

/** In every way to read, page and encoding. */
async function expectAllEnded(
  context: CheckContext,
  { dataset, ways }: Readable,
  end: End,
  asked: Pick<Asking, 'signal' | 'timeoutMs'>,
): Promise<void> {
  for (const way of ways) {
    for (const [page, asking] of await pagesToAsk(context, dataset, way)) {
      for (const encoding of way.encodings) {
        await expectEnded(context, dataset, way, end, page, { ...asking, encoding, ...asked })
      }
    }
  }
}

async function expectEnded(
  { store }: CheckContext,
  { target }: Dataset,
  way: Way,
  end: End,
  page: string,
  asking: Asking,
): Promise<void> {
  const tried = `${TRIED[end]}${page}`
  await expectRefusal(
    { kind: 'TRANSIENT', codes: [end], tried, where: `${way.name}, ${asking.encoding}`, why: WHY },
    () => takenOf(way.read(store, target, asking)),
  )
}

/** After the first batch the caller goes, or the time is over: what comes is the end of a whole answer, or the error. */
async function expectLeft(context: CheckContext, { target }: Dataset, way: Way, end: End): Promise<void> {
  const { store, capabilities } = context
  const limit = Math.min(MANY, capabilities.limits.maxReadRows)
  const { rowCount } = await takenOf(way.read(store, target, { limit }))
  const leave = new AbortController()
  const timeoutMs = 60_000
  const reading = way.read(store, target, { limit, timeoutMs, signal: AbortSignal.any([leave.signal, callDeadline()]) })
  const batches = reading[Symbol.asyncIterator]()
  const first = await batches.next()
  if (end === 'aborted') leave.abort()
  else await context.clock.advance(timeoutMs + 1)
  const came = first.done ? 0 : first.value.rowCount
  await expectNoMore(batches, way, end, rowCount - came)
}

async function expectNoMore(batches: AsyncIterator<ReadBatch>, way: Way, end: End, missing: number): Promise<void> {
  const where = `${way.name}, between two batches`
  if (missing > 0) {
    const refusal = {
      kind: 'TRANSIENT',
      codes: [end],
      tried: `${TRIED[end]}, with ${missing} rows to come,`,
      where,
      why: WHY,
    } as const
    await expectRefusal(refusal, () => batches.next())
    return
  }
  const { done } = await batches.next()
  expect(done === true, () => ({
    what: 'a batch came after the last row of the answer',
    where,
    why: 'an answer ends with its last row',
    remedy: 'End the iteration.',
  }))
}
