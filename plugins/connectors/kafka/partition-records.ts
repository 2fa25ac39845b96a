/** The records of one partition, from an offset to before another: those that are committed, in their order. */
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { ClusterClient } from './cluster.ts'
import { changedMeanwhile, ERRORS, kafkaFailure, stalled, stopIfAborted } from './failure.ts'
import type { Fetched } from './wire/answers.ts'
import { BrokenAnswer } from './wire/bytes.ts'
import { batchesOf, type KafkaRecord, type RecordBatch } from './wire/records.ts'

const FETCH_BYTES = 4 * 1024 * 1024
const WAIT_MS = 500
/** A leader that moves, a quota, or a store of old segments that is away may hold records back for so long. */
const STALLED_MS = 5 * 60_000
/** The first batch comes whole, whatever is asked for. */
const HEAD_BYTES = 1
const PIECE_RECORDS = 1000
const PIECE_BYTES = 1024 * 1024

export interface Span {
  readonly topic: string
  readonly topicId: string
  readonly partition: number
  readonly from: number
  readonly to: number
}

/** In pieces. Throws SluiceErrors only. `epochs` is told in which epoch the batch right before the end was written. */
export async function* recordsIn(
  span: Span,
  client: ClusterClient,
  signal: AbortSignal,
  epochs?: Map<number, number>,
): AsyncGenerator<readonly KafkaRecord[]> {
  const { partition, to } = span
  let offset = span.from
  while (offset < to) {
    const fetched = await fetchedFrom(span, offset, FETCH_BYTES, client, signal)
    if (fetched === null) return
    const before: number = offset
    try {
      for (const batch of committedOf(fetched)) {
        if (batch.lastOffset < offset) continue
        if (batch.marker === null && !batch.isAborted) yield* piecesOf(batch.batch, offset, to)
        stopIfAborted(signal)
        offset = batch.lastOffset + 1
        if (offset === to) epochs?.set(partition, batch.leaderEpoch)
        if (offset >= to) break
      }
      if (offset === before) throw new BrokenAnswer('an answer holds no whole batch of records')
    } catch (error) {
      throw kafkaFailure(error, `reading the topic, partition ${partition} from offset ${offset}`, signal)
    }
    await nextTurn()
  }
}

/** What a span has from an offset on, waited for where it is held back; null: nothing more. Throws SluiceErrors only. */
export async function fetchedFrom(
  span: Span,
  offset: number,
  maxBytes: number,
  client: ClusterClient,
  signal: AbortSignal,
): Promise<Fetched | null> {
  const { topic, topicId, partition, to } = span
  const sinceMs = client.nowMs()
  for (;;) {
    stopIfAborted(signal)
    const fetched = await client.fetch(topic, { topicId, partition, offset, maxBytes, maxWaitMs: WAIT_MS }, signal)
    if (fetched.error === ERRORS.offsetOutOfRange) throw changedMeanwhile(topic, 'has lost records to its retention')
    if (fetched.records.length > 0) return fetched
    const mayHaveEnded = fetched.throttleMs === 0 && fetched.end >= to
    if (mayHaveEnded && (await liesBehind(span, offset, client, signal))) return null
    if (client.nowMs() - sinceMs >= STALLED_MS) throw stalled(topic, partition, offset)
    await client.pause(Math.max(fetched.throttleMs, WAIT_MS), signal)
  }
}

/**
 * Whether the next batch of the log stands at the end of the span or behind it: then compaction has taken what was left of it.
 * An answer without records proves nothing, since it also stands for records that could not be got in time.
 */
async function liesBehind(
  { topic, topicId, partition, to }: Span,
  offset: number,
  client: ClusterClient,
  signal: AbortSignal,
): Promise<boolean> {
  const question = { topicId, partition, offset, maxBytes: HEAD_BYTES, maxWaitMs: 0, sees: 'all' } as const
  const { error, records } = await client.fetch(topic, question, signal)
  if (error === ERRORS.offsetOutOfRange) throw changedMeanwhile(topic, 'has lost records to its retention')
  try {
    for (const { firstOffset, lastOffset } of batchesOf(records)) if (lastOffset >= offset) return firstOffset >= to
  } catch (failure) {
    throw kafkaFailure(failure, `reading the topic, partition ${partition} from offset ${offset}`, signal)
  }
  return false
}

interface JudgedBatch {
  readonly batch: RecordBatch
  readonly lastOffset: number
  readonly leaderEpoch: number
  readonly marker: RecordBatch['marker']
  readonly isAborted: boolean
}

/** The broker says which transactions were given up, and a marker in the log where each of them ends. */
export function* committedOf({ records, aborted }: Pick<Fetched, 'records' | 'aborted'>): Generator<JudgedBatch> {
  const waiting = [...aborted].sort((one, other) => other.firstOffset - one.firstOffset)
  const givenUp = new Set<bigint>()
  for (const batch of batchesOf(records)) {
    for (let next = waiting.at(-1); next !== undefined && next.firstOffset <= batch.lastOffset; next = waiting.at(-1)) {
      givenUp.add(next.producerId)
      waiting.pop()
    }
    const { lastOffset, leaderEpoch, marker, producerId, isTransactional } = batch
    if (marker === 'abort') givenUp.delete(producerId)
    yield { batch, lastOffset, leaderEpoch, marker, isAborted: isTransactional && givenUp.has(producerId) }
  }
}

function* piecesOf(batch: RecordBatch, from: number, to: number): Generator<readonly KafkaRecord[]> {
  let piece: KafkaRecord[] = []
  let bytes = 0
  for (const record of batch.records()) {
    if (record.offset < from) continue
    if (record.offset >= to) break
    piece.push(record)
    bytes += (record.value?.length ?? 0) + (record.key?.length ?? 0)
    if (piece.length < PIECE_RECORDS && bytes < PIECE_BYTES) continue
    yield piece
    piece = []
    bytes = 0
  }
  if (piece.length > 0) yield piece
}
