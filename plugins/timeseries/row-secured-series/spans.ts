/** The spans of time that rows need, each of whole intervals, and how many there may be. */
import { type Interval, intervalEndMs, intervalStartMs, SluiceError } from '@sluice/sdk'

/** Half-open, in milliseconds since the epoch. */
export interface Span {
  readonly fromMs: number
  readonly toMs: number
}

/** Chunks that one load makes at most; beyond, they become longer. */
const MAX_NEW_CHUNKS = 400

/** Every read that is not bounded in time locks them all, each with its indexes. */
const MAX_CHUNKS = 2000

/** The spans that instants need beside the chunks there are, each of whole intervals. */
export function spansFor(instantsMs: readonly number[], every: Interval, existing: readonly Span[]): readonly Span[] {
  const there = [...existing].sort((left, right) => left.fromMs - right.fromMs)
  const starts = [...new Set(instantsMs.map((instant) => intervalStartMs(every, instant)))].sort((a, b) => a - b)
  const missing = starts.filter((start) => !coveredBy(there, start))
  const together = Math.ceil(missing.length / MAX_NEW_CHUNKS)
  const spans: (Span & { readonly intervals: number })[] = []
  for (const start of missing) {
    const toMs = intervalEndMs(every, start)
    const last = spans.at(-1)
    if (last && last.intervals < together && !there.some((span) => span.fromMs >= last.toMs && span.fromMs < start)) {
      spans[spans.length - 1] = { fromMs: last.fromMs, toMs, intervals: last.intervals + 1 }
    } else spans.push({ fromMs: start, toMs, intervals: 1 })
  }
  if (there.length + spans.length > MAX_CHUNKS) throw tooManyChunks()
  return spans.map(({ fromMs, toMs }) => ({ fromMs, toMs }))
}

function coveredBy(sorted: readonly Span[], instant: number): boolean {
  let low = 0
  let high = sorted.length
  while (low < high) {
    const middle = (low + high) >> 1
    if ((sorted[middle]?.toMs ?? 0) <= instant) low = middle + 1
    else high = middle
  }
  const span = sorted[low]
  return span !== undefined && span.fromMs <= instant
}

function tooManyChunks(): SluiceError {
  return new SluiceError('INVALID_DATA', `the rows would need more than ${MAX_CHUNKS} partitions by time`, {
    code: 'too_many_chunks',
    remedy: 'Choose a longer chunk_interval and rebuild the endpoint.',
    details: { limit: MAX_CHUNKS },
  })
}
