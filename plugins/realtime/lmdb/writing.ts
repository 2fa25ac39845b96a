/** A write: begin, put the values beside those that are served, switch the marker. */
import { setImmediate as nextTurn } from 'node:timers/promises'
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
import { judge, truncated } from '../keyed-values/admission.ts'
import { type RealtimeConfig, templateOf } from '../keyed-values/endpoint.ts'
import { layoutOf } from '../keyed-values/shape.ts'
import type { Environment } from './environment.ts'
import { prefixOf } from './keys.ts'
import type { Marker } from './markers.ts'
import { RowWriter } from './rows.ts'
import { sweepDataset } from './sweeping.ts'
import type { Turn, Turns } from './turns.ts'

/** Rows between two breaths: the event loop is free after each, so that reads go on. */
const BREATH_ROWS = 250

/** What LMDB holds of a write before it goes to disk: each of these is a transaction of its own. */
const CHUNK_ROWS = 10_000
const CHUNK_BYTES = 16 * 1024 * 1024

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
  await admitted(parts, prefix, commit)
  return parts.turns.take(prefix, commit.fence, async (turn) => {
    const known = await admitted(parts, prefix, commit)
    if (known) {
      await parts.environment.markers.update(prefix, (marker) => ({ ...marker, fence: commit.fence }))
      return known
    }
    return apply(parts, { prefix, target, changes, commit, turn })
  })
}

/** Throws as `admit` does; of a write whose epoch is refused the token counts all the same. */
async function admitted({ environment }: WriteParts, prefix: string, commit: Commit): Promise<Receipt | null> {
  const { receipt, refusal } = judge(markerOf(environment, prefix), commit)
  if (refusal === null) return receipt
  await environment.markers.update(prefix, (marker) =>
    marker.fence < commit.fence ? { ...marker, fence: commit.fence } : marker,
  )
  throw refusal
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
  const upserted = await putAll(parts, work, rows, upsertsOf(rows, work))
  const deleted = await putAll(parts, work, rows, deletesOf(rows, work))
  if (upserted !== changes.upsertCount || deleted !== changes.deleteCount) throw truncated()
  await host.faultPoint('realtime.before-commit')
  stopIfEnded(environment, work)
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

/** Puts one row; the promise is to be awaited with others. */
type Put = () => Promise<unknown>

async function* upsertsOf(rows: RowWriter, { changes }: Work): AsyncGenerator<Iterable<Put>> {
  if (!rows.isKeyedByIdentity) {
    for await (const batch of changes.upserts()) yield putsOf(batch, (row) => rows.upsert(row))
    return
  }
  for await (const chunk of rows.keyedUpserts(changes, BREATH_ROWS)) {
    yield Array.from({ length: chunk.rowCount }, (_, row) => () => rows.upsertKeyed(chunk, row))
  }
}

async function* deletesOf(rows: RowWriter, { changes }: Work): AsyncGenerator<Iterable<Put>> {
  for await (const batch of changes.deletes()) yield putsOf(batch, (row) => rows.delete(row))
}

function* putsOf(batch: ColumnBatch, put: (row: Row) => Promise<unknown>): Generator<Put> {
  for (const row of rowsOf(batch)) yield () => put(row)
}

async function putAll(
  parts: WriteParts,
  work: Work,
  rows: RowWriter,
  batches: AsyncIterable<Iterable<Put>>,
): Promise<number> {
  let count = 0
  let chunk: Promise<unknown>[] = []
  let settledBytes = rows.putBytes
  const settle = async (): Promise<void> => {
    await Promise.all(chunk)
    chunk = []
    settledBytes = rows.putBytes
    stopIfEnded(parts.environment, work)
    await parts.host.faultPoint('realtime.after-chunk')
  }
  try {
    for await (const batch of batches) {
      for (const put of batch) {
        const done = put()
        // Told when the chunk is settled; until then nobody waits for it.
        done.catch(() => undefined)
        chunk.push(done)
        count += 1
        if (chunk.length >= CHUNK_ROWS || rows.putBytes - settledBytes >= CHUNK_BYTES) await settle()
        else if (count % BREATH_ROWS === 0) await breath(parts.environment, work)
      }
    }
    if (chunk.length > 0) await settle()
  } finally {
    // What has been put on its way arrives before the turn ends: a sweep that came first would not find it, and would
    // forget that it counts for nothing.
    await Promise.allSettled(chunk)
  }
  return count
}

async function breath(environment: Environment, work: Work): Promise<void> {
  await nextTurn()
  stopIfEnded(environment, work)
}

function stopIfEnded(environment: Environment, { turn, commit }: Work): void {
  environment.check()
  turn.check()
  if (commit.signal.aborted)
    throw new SluiceError('TRANSIENT', 'the write was ended by its caller', { code: 'aborted' })
}

export function markerOf(environment: Environment, prefix: string): Marker {
  const marker = environment.markers.get(prefix)
  if (marker) return marker
  throw notMaterialized()
}
