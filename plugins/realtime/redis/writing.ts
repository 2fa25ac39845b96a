/** A write: begin, put the values beside those that are served, switch the marker. */
import {
  type ChangeSet,
  type ColumnBatch,
  type Commit,
  type Host,
  notMaterialized,
  type Receipt,
  type Row,
  rowsOf,
  SluiceError,
  type Target,
} from '@sluice/sdk'
import { admit, fenced, judge, truncated } from '../keyed-values/admission.ts'
import { type RealtimeConfig, templateOf } from '../keyed-values/endpoint.ts'
import { layoutOf } from '../keyed-values/shape.ts'
import { type Connections, keysBeginningWith, runForKeys } from './connections.ts'
import { placeKey, prefixOf } from './keys.ts'
import { endOf, type Marker, type Markers, ttlOf } from './markers.ts'
import { RowWriter } from './rows.ts'
import { RENEW } from './scripts.ts'

/** So much goes to the server at once: it serves nobody else while it takes a chunk in. */
const CHUNK_ROWS = 500
const CHUNK_BYTES = 1 << 20

/** So many chunks are on their way while the next is made; the server takes them one after the other. */
const CHUNKS_UNDER_WAY = 4

/** After so many writes that came to nothing a full set is asked for, which leaves none of them to be told apart. */
const MAX_ABORTED = 64

export interface WriteParts {
  readonly connections: Connections
  readonly markers: Markers
  readonly host: Host
  /** Throws once the store is closing. */
  readonly checkOpen: () => void
}

interface Work {
  readonly prefix: string
  readonly target: Target<RealtimeConfig>
  readonly changes: ChangeSet
  readonly commit: Commit
  /** As it stood when the write began. */
  readonly begun: Marker
  readonly write: number
  /** Until then the server keeps what this write puts, by the host's clock. */
  readonly keepUntilMs: number
}

export async function write(
  parts: WriteParts,
  target: Target<RealtimeConfig>,
  changes: ChangeSet,
  commit: Commit,
): Promise<Receipt> {
  const prefix = prefixOf(target)
  let receipt: Receipt | null = null
  let begun: Marker | null = null
  let refused: SluiceError | null = null
  await parts.markers.update(prefix, (marker) => {
    const there = existing(marker)
    const judged = judge(there, commit)
    receipt = judged.receipt
    refused = judged.refusal
    begun = null
    // Of a write whose epoch is refused the token counts all the same.
    if (receipt !== null || refused !== null)
      return there.fence === commit.fence ? there : { ...there, fence: commit.fence }
    begun = begin(there, commit)
    return begun
  })
  if (refused !== null) throw refused
  if (begun === null) return receipt as unknown as Receipt
  return apply(parts, workOf(begun, { prefix, target, changes, commit }))
}

function existing(marker: Marker | undefined): Marker {
  if (marker === undefined || marker.isDropped) throw notMaterialized()
  return marker
}

/** The number under which the write's values lie, known to all before the first of them. */
function begin(marker: Marker, commit: Commit): Marker {
  const aborted = marker.pending === null ? marker.aborted : [...marker.aborted, marker.pending]
  if (commit.previousEpoch !== null && aborted.length > MAX_ABORTED) throw tooManyAborted()
  return {
    ...marker,
    fence: commit.fence,
    aborted,
    pending: marker.nextWrite,
    nextWrite: marker.nextWrite + 1,
    hasGarbage: marker.hasGarbage || marker.pending !== null,
  }
}

function workOf(begun: Marker, given: Pick<Work, 'prefix' | 'target' | 'changes' | 'commit'>): Work {
  const endsAtMs = endOf(given.commit.committedAt, begun.config)
  const keepUntilMs = Math.max(endsAtMs + ttlOf(begun.config), begun.keptUntilMs)
  return { ...given, begun, write: begun.pending ?? begun.nextWrite, keepUntilMs }
}

async function apply(parts: WriteParts, work: Work): Promise<Receipt> {
  await parts.host.faultPoint('realtime.after-begin')
  const rows = rowWriter(parts, work)
  try {
    return await put(parts, work, rows)
  } finally {
    await rows.close()
  }
}

async function put(parts: WriteParts, work: Work, rows: RowWriter): Promise<Receipt> {
  const { host } = parts
  const { changes, commit } = work
  const upserted = rows.isKeyedByIdentity
    ? await putKeyed(parts, work, rows)
    : await putAll(parts, work, rows, changes.upserts(), (row) => rows.upserted(row))
  const deleted = await putAll(parts, work, rows, changes.deletes(), (row) => rows.deleted(row))
  if (upserted !== changes.upsertCount || deleted !== changes.deleteCount) throw truncated()
  const isRenewed = await renew(parts, work)
  await replicate(parts, rows, commit.signal)
  await host.faultPoint('realtime.before-commit')
  stopIfEnded(parts, work)
  await parts.markers.update(work.prefix, (marker) => committed(existing(marker), work, isRenewed))
  await host.faultPoint('realtime.after-commit')
  if (rows.withoutKey > 0) {
    host.metrics.count('realtime_rows_without_key', rows.withoutKey)
    host.logger.warn('rows with a null in the key template have no key', { rows: rows.withoutKey })
  }
  return { epoch: commit.epoch, outcome: 'applied', upserted: upserted - rows.withoutKey, deleted }
}

/** The step in which all values change hands. The same again where its answer was lost. */
function committed(marker: Marker, work: Work, isRenewed: boolean): Marker {
  const { write: own, changes, commit, keepUntilMs } = work
  if (marker.committed === own) return marker
  if (marker.pending !== own) throw overtaken(marker, work)
  admit(marker, commit)
  const { epoch, fence, committedAt } = commit
  const isFull = changes.mode === 'full'
  const keptUntilMs = isFull || isRenewed ? keepUntilMs : marker.keptUntilMs
  return {
    ...marker,
    applied: { epoch, fence, committedAt },
    committed: own,
    floor: isFull ? own : marker.floor,
    aborted: isFull ? [] : marker.aborted,
    pending: null,
    keptUntilMs,
    isExpired: false,
    // What lies under keys of a place that was never used is this write's alone.
    hasGarbage: marker.hasGarbage || marker.applied !== null,
  }
}

function rowWriter(
  { connections, host }: WriteParts,
  { prefix, target, changes, begun, write: own, keepUntilMs }: Work,
) {
  const { schema } = changes
  const layout = layoutOf(schema, target.config)
  return new RowWriter({
    connections,
    prefix,
    template: templateOf(target.config),
    schema,
    layout,
    layoutIndex: layoutIndexOf(begun, JSON.stringify(layout)),
    write: own,
    visibility: begun,
    isFirst: begun.applied === null,
    liveForMs: () => Math.max(1, keepUntilMs - host.clock.nowMs()),
  })
}

function layoutIndexOf({ layouts }: Marker, wanted: string): number {
  const index = layouts.findIndex((layout) => JSON.stringify(layout) === wanted)
  if (index >= 0) return index
  throw new SluiceError('CONFLICT', 'the change set has other columns than the place was made for', {
    code: 'schema_conflict',
    remedy: 'Deploy the version whose rows these are.',
  })
}

/** Sends chunks while the next are made. `finish` resolves when all of them are there, `settled` when none is under way. */
function senderOf(parts: WriteParts, work: Work) {
  const underWay: Promise<unknown>[] = []
  return {
    async send(chunk: Promise<void>): Promise<void> {
      const sent = Promise.all([chunk, stopIfOvertaken(parts, work)])
      sent.catch(() => undefined)
      underWay.push(sent)
      if (underWay.length >= CHUNKS_UNDER_WAY) await underWay.shift()
      stopIfEnded(parts, work)
      await parts.host.faultPoint('realtime.after-chunk')
    },
    finish: () => Promise.all(underWay),
    settled: () => Promise.allSettled(underWay),
  }
}

async function putKeyed(parts: WriteParts, work: Work, rows: RowWriter): Promise<number> {
  const sender = senderOf(parts, work)
  let count = 0
  try {
    for await (const chunk of rows.keyedUpserts(work.changes, CHUNK_ROWS)) {
      await sender.send(rows.put(chunk))
      count += chunk.rowCount
    }
    await sender.finish()
  } finally {
    await sender.settled()
  }
  return count
}

type Move = ReturnType<RowWriter['upserted']>

async function putAll(
  parts: WriteParts,
  work: Work,
  rows: RowWriter,
  batches: AsyncIterable<ColumnBatch>,
  moveOf: (row: Row) => Move,
): Promise<number> {
  let count = 0
  let bytes = 0
  let chunk: Move[] = []
  const sender = senderOf(parts, work)
  const settle = async (): Promise<void> => {
    const moving = rows.move(chunk)
    chunk = []
    bytes = 0
    await sender.send(moving)
  }
  try {
    for await (const batch of batches) {
      for (const row of rowsOf(batch)) {
        const move = moveOf(row)
        chunk.push(move)
        count += 1
        bytes += move.value?.length ?? 0
        if (chunk.length >= CHUNK_ROWS || bytes >= CHUNK_BYTES) await settle()
      }
    }
    if (chunk.length > 0) await settle()
    await sender.finish()
  } finally {
    await sender.settled()
  }
  return count
}

async function stopIfOvertaken(parts: WriteParts, work: Work): Promise<void> {
  stopIfEnded(parts, work)
  const marker = existing(await parts.markers.get(work.prefix))
  if (marker.pending !== work.write) throw overtaken(marker, work)
}

function stopIfEnded({ checkOpen }: WriteParts, { commit }: Work): void {
  checkOpen()
  if (commit.signal.aborted)
    throw new SluiceError('TRANSIENT', 'the write was ended by its caller', { code: 'aborted' })
}

/**
 * Lets values that are not in the change set live on: an epoch renews every key that it holds. The server keeps values for
 * twice their ttl, so this pass over all of them is due once in a ttl and not at every epoch.
 */
async function renew(parts: WriteParts, work: Work): Promise<boolean> {
  const { connections, host } = parts
  const { prefix, begun, changes, commit, keepUntilMs } = work
  if (changes.mode === 'full' || endOf(commit.committedAt, begun.config) <= begun.keptUntilMs) return false
  for (const text of [prefix, placeKey(prefix, '')]) {
    for await (const keys of keysBeginningWith(connections, text)) {
      await stopIfOvertaken(parts, work)
      await runForKeys(connections, RENEW, keys, [Math.ceil(Math.max(1, keepUntilMs - host.clock.nowMs()))])
    }
  }
  return true
}

const REPLICATION_TIMEOUT_MS = 10_000

/** So that a replica that takes over has what the marker is about to promise. */
async function replicate({ connections }: WriteParts, rows: RowWriter, signal: AbortSignal): Promise<void> {
  const { replicas } = connections
  if (replicas === 0) return
  const reached = signal.aborted ? 0 : await rows.replicated(replicas, REPLICATION_TIMEOUT_MS)
  if (reached >= replicas) return
  throw new SluiceError('TRANSIENT', 'too few replicas of the realtime store have the values', {
    code: 'store_unavailable',
    remedy: 'Check the replicas of the Redis server, or lower the setting replicas.',
    details: { reached, replicas },
  })
}

function overtaken(marker: Marker, { commit, write: own }: Work): SluiceError {
  if (marker.fence > commit.fence || marker.nextWrite > own + 1) return fenced()
  return new SluiceError('TRANSIENT', 'the dataset was changed while it was written', {
    code: 'store_contention',
    remedy: 'Repeat the call.',
    retryAfterMs: 1000,
  })
}

function tooManyAborted(): SluiceError {
  return new SluiceError('CONFLICT', 'many writes before this one came to nothing', {
    code: 'epoch_gap',
    remedy: 'Send a full set.',
  })
}
