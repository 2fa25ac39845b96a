/** A write: begin, put the values beside those that are served, switch the marker. */
import {
  type ChangeSet,
  type ColumnBatch,
  type Commit,
  type Host,
  type Receipt,
  rowsOf,
  SluiceError,
  type Target,
} from '@sluice/sdk'
import { type RealtimeConfig, templateOf } from './config.ts'
import type { Environment } from './environment.ts'
import { prefixOf } from './keys.ts'
import { layoutOf, type Marker } from './markers.ts'
import { RowWriter } from './rows.ts'
import { sweepDataset } from './sweeping.ts'
import { fenced, type Turn, type Turns } from './turns.ts'

/** Rows between two breaths: the event loop is free after each, and LMDB holds no more of a write in memory. */
const CHUNK_ROWS = 500

/** So many writes may have come to nothing before the next one clears up after them. */
const MAX_ABORTED = 32

export interface WriteParts {
  readonly environment: Environment
  readonly host: Host
  readonly turns: Turns
}

export async function write(
  parts: WriteParts,
  target: Target<RealtimeConfig>,
  changes: ChangeSet,
  commit: Commit,
): Promise<Receipt> {
  const prefix = prefixOf(target)
  admit(markerOf(parts.environment, prefix), commit)
  return parts.turns.take(prefix, commit.fence, async (turn) => {
    const known = admit(markerOf(parts.environment, prefix), commit)
    if (known) {
      await parts.environment.markers.update(prefix, (marker) => ({ ...marker, fence: commit.fence }))
      return known
    }
    return apply(parts, { prefix, target, changes, commit, turn })
  })
}

interface Work {
  readonly prefix: string
  readonly target: Target<RealtimeConfig>
  readonly changes: ChangeSet
  readonly commit: Commit
  readonly turn: Turn
}

async function apply(parts: WriteParts, work: Work): Promise<Receipt> {
  const { environment, host } = parts
  const { prefix, changes, commit } = work
  if (markerOf(environment, prefix).aborted.length >= MAX_ABORTED) await sweepDataset(environment, prefix, work.turn)
  await begin(environment, prefix, commit)
  await host.faultPoint('realtime.after-begin')
  const rows = rowWriter(environment, work)
  const upserted = await putAll(parts, work, changes.upserts(), (row) => rows.upsert(row))
  const deleted = await putAll(parts, work, changes.deletes(), (row) => rows.delete(row))
  if (upserted !== changes.upsertCount || deleted !== changes.deleteCount) throw truncated()
  await host.faultPoint('realtime.before-commit')
  stopIfEnded(work)
  await switchTo(environment, prefix, changes.mode, commit)
  await host.faultPoint('realtime.after-commit')
  if (rows.withoutKey > 0) {
    host.metrics.count('realtime_rows_without_key', rows.withoutKey)
    host.logger.warn('rows with a null in the key template have no key', { rows: rows.withoutKey })
  }
  return { epoch: commit.epoch, outcome: 'applied', upserted: upserted - rows.withoutKey, deleted }
}

/** The number under which the write's values lie, on disk before the first of them. */
async function begin(environment: Environment, prefix: string, commit: Commit): Promise<void> {
  await environment.markers.update(prefix, (marker) => ({
    ...marker,
    fence: commit.fence,
    aborted: marker.pending === null ? marker.aborted : [...marker.aborted, marker.pending],
    pending: marker.nextWrite,
    nextWrite: marker.nextWrite + 1,
    hasGarbage: marker.hasGarbage || marker.pending !== null,
  }))
}

async function switchTo(
  environment: Environment,
  prefix: string,
  mode: ChangeSet['mode'],
  commit: Commit,
): Promise<void> {
  const { epoch, fence, committedAt } = commit
  await environment.markers.update(prefix, (marker) => ({
    ...marker,
    applied: { epoch, fence, committedAt },
    committed: marker.pending ?? marker.committed,
    floor: mode === 'full' ? (marker.pending ?? marker.floor) : marker.floor,
    pending: null,
    isExpired: false,
    hasGarbage: true,
  }))
}

function rowWriter(environment: Environment, { prefix, target, changes }: Work): RowWriter {
  const marker = markerOf(environment, prefix)
  const { schema } = changes
  const layout = layoutOf(schema, target.config)
  return new RowWriter({
    environment,
    prefix,
    template: templateOf(target.config),
    schema,
    layout,
    layoutIndex: layoutIndexOf(marker, JSON.stringify(layout)),
    write: marker.pending ?? marker.nextWrite,
    visibility: marker,
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

async function putAll(
  parts: WriteParts,
  work: Work,
  batches: AsyncIterable<ColumnBatch>,
  put: (row: ReturnType<typeof rowsOf> extends Generator<infer R> ? R : never) => Promise<unknown>,
): Promise<number> {
  let count = 0
  let chunk: Promise<unknown>[] = []
  const settle = async (): Promise<void> => {
    await Promise.all(chunk)
    chunk = []
    stopIfEnded(work)
    await parts.host.faultPoint('realtime.after-chunk')
  }
  for await (const batch of batches) {
    for (const row of rowsOf(batch)) {
      chunk.push(put(row))
      count += 1
      if (chunk.length >= CHUNK_ROWS) await settle()
    }
  }
  if (chunk.length > 0) await settle()
  return count
}

function stopIfEnded({ turn, commit }: Work): void {
  turn.check()
  if (commit.signal.aborted)
    throw new SluiceError('TRANSIENT', 'the write was ended by its caller', { code: 'aborted' })
}

function truncated(): SluiceError {
  return new SluiceError('TRANSIENT', 'the change set does not hold as many rows as it announced', {
    code: 'truncated_change_set',
    remedy: 'Send it again.',
  })
}

export function markerOf(environment: Environment, prefix: string): Marker {
  const marker = environment.markers.get(prefix)
  if (marker) return marker
  throw new SluiceError('TRANSIENT', 'nothing was materialized here yet', {
    code: 'not_materialized',
    remedy: 'Wait for the first materialization.',
  })
}

/** Checks the token, then the epoch; a receipt where the epoch is already there. */
function admit(marker: Marker, { epoch, previousEpoch, fence }: Commit): Receipt | null {
  if (fence < marker.fence) throw fenced()
  const applied = marker.applied?.epoch ?? null
  if (applied === epoch && !marker.isExpired) return { epoch, outcome: 'already_applied', upserted: 0, deleted: 0 }
  if (applied !== null && epoch < applied) {
    throw new SluiceError('CONFLICT', 'the store has a newer epoch', { code: 'older_epoch' })
  }
  if (previousEpoch !== null && (previousEpoch !== applied || marker.isExpired)) {
    throw new SluiceError('CONFLICT', 'the change set does not start from the epoch that the store has', {
      code: 'epoch_gap',
      remedy: 'Send a full set.',
    })
  }
  return null
}
