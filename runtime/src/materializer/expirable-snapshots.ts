/** Which snapshots of a lake table nobody has a claim to any more. */
import type { Lake, SnapshotId, SnapshotInfo, TableRef, TableState } from '@sluice/iceberg'
import type pg from 'pg'
import type { Config } from '../config.ts'
import { keepsHistory } from '../manifest/contract-config.ts'
import type { LadderRetention, ManifestSet, SnapshotLadder, SnapshotRetention } from '../manifest/manifest-set.ts'
import { changeTopicsOf } from '../registry/change-topics.ts'
import { cautiousNowMs } from '../registry/clock.ts'
import { endpointStates } from '../registry/endpoint-states.ts'
import { epochsAt, epochsFrom, latestEpoch, snapshotsReadFrom } from '../registry/materializations.ts'
import type { Product } from '../registry/products.ts'
import { oldestRunStart } from '../registry/runs.ts'
import { findVersion } from '../registry/versions.ts'
import { webhookEpochs } from '../registry/webhooks.ts'
import { connectionOf } from './inputs.ts'
import { isFollowed, isMadeAsChangesCome } from './made-as-changes-come.ts'
import { CONTINUOUS_LADDER, keptByLadder, MOST_SNAPSHOTS } from './snapshot-ladder.ts'

const MINUTE_MS = 60_000
const HOUR_MS = 60 * MINUTE_MS
/** A table with a ladder has so many commits that it cannot keep one of each moment for as long as the longest run takes. */
const RUN_MS = 15 * MINUTE_MS
const MAX_EPOCHS = 10_000
/** With fewer snapshots a commit takes its time for nothing. */
const MANY_SNAPSHOTS = 100

export interface ExpiryDeps {
  readonly pool: pg.Pool
  readonly config: { readonly upkeep: Pick<Config['upkeep'], 'raw_keep_last' | 'raw_keep_days'> }
}

/**
 * Kept in every case: the current one, those that a tag names, those younger than an hour or that were current when a
 * running run began, those that a store or a receiver of changes still has to start from, and those that a product's newest
 * epoch was made of. Of the rest the product's `retention` decides, and of raw tables the configuration. Where a ladder
 * decides, a minute stands for the hour, and of runs that take long only what was current when the longest began is kept.
 */
export async function expirableOf(
  { pool, config }: ExpiryDeps,
  product: Product | null,
  ref: TableRef,
  snapshots: readonly SnapshotInfo[],
  current: SnapshotId | null,
): Promise<readonly SnapshotId[]> {
  const { raw_keep_last: keepLast, raw_keep_days: days } = config.upkeep
  const raw = { keepLast, maxAgeMs: days * 24 * HOUR_MS }
  const rules = await rulesOf(pool, product, ref, raw)
  return rules === null ? [] : released(pool, product, ref, { ...rules, snapshots, current, most: MOST_SNAPSHOTS })
}

/**
 * What goes with the next commit on that state: of tables with a ladder, which nobody else could keep up with. None of others.
 */
export async function expiredByCommit(
  pool: pg.Pool,
  product: Product | null,
  lake: Lake,
  base: TableState | null,
): Promise<readonly SnapshotId[]> {
  if (base === null || base.metadata.snapshots.length < MANY_SNAPSHOTS) return []
  const ladder = (await rulesOf(pool, product, base.ref, null))?.ladder ?? null
  if (ladder === null) return []
  const [snapshots, current, most] = [lake.snapshots(base), base.snapshotId, MOST_SNAPSHOTS - 1]
  return released(pool, product, base.ref, { ladder, bounds: null, snapshots, current, most })
}

/** A snapshot goes where either of them lets it go. */
interface Rules {
  readonly ladder: SnapshotLadder | null
  readonly bounds: SnapshotRetention | null
}

interface Releasing extends Rules {
  readonly snapshots: readonly SnapshotInfo[]
  readonly current: SnapshotId | null
  /** That a ladder keeps. */
  readonly most: number
}

async function released(
  pool: pg.Pool,
  product: Product | null,
  ref: TableRef,
  { ladder, bounds, snapshots, current, most }: Releasing,
): Promise<readonly SnapshotId[]> {
  const nowMs = await cautiousNowMs(pool)
  const gone = [
    ...(ladder === null ? [] : beyondLadder(ladder, snapshots, nowMs, most)),
    ...(bounds === null ? [] : expiredBy(bounds, snapshots, nowMs)),
  ]
  if (gone.length === 0) return []
  const claimed = product === null ? new Set<string>() : await neededByStores(pool, product)
  if (claimed === 'all') return []
  const inputs = new Set(await snapshotsReadFrom(pool, ref.warehouse))
  const runsSinceMs = (await oldestRunStart(pool, ref.warehouse))?.getTime() ?? Number.POSITIVE_INFINITY
  const youngMs = nowMs - (ladder === null ? HOUR_MS : MINUTE_MS)
  const keepSinceMs = Math.min(youngMs, ladder === null ? runsSinceMs : Math.max(runsSinceMs, nowMs - RUN_MS))
  const isFree = ({ snapshot, replacedAtMs }: Candidate) => {
    const { snapshotId, committedAtMs, refs } = snapshot
    const isOfRun = committedAtMs <= runsSinceMs && replacedAtMs > runsSinceMs
    const isTaken = refs.length > 0 || snapshotId === current || claimed.has(snapshotId) || inputs.has(snapshotId)
    return !isTaken && !isOfRun && replacedAtMs < keepSinceMs
  }
  return [...new Set(gone.filter(isFree).map(({ snapshot }) => snapshot.snapshotId))]
}

interface Candidate {
  readonly snapshot: SnapshotInfo
  readonly replacedAtMs: number
}

function candidates(snapshots: readonly SnapshotInfo[], nowMs: number): readonly Candidate[] {
  return snapshots.map((snapshot, at) => ({ snapshot, replacedAtMs: snapshots[at + 1]?.committedAtMs ?? nowMs }))
}

/** Those that every bound of the retention lets go. Rewrites of files hold nothing new: they do not count as snapshots. */
export function expiredBy(
  { maxAgeMs, keepLast }: SnapshotRetention,
  snapshots: readonly SnapshotInfo[],
  nowMs: number,
): readonly Candidate[] {
  let newer = snapshots.filter(hasOwnContent).length
  return candidates(snapshots, nowMs)
    .map(({ snapshot, replacedAtMs }) => ({
      snapshot,
      fromNewest: hasOwnContent(snapshot) ? --newer : newer,
      replacedAtMs,
    }))
    .filter(({ fromNewest }) => keepLast === null || fromNewest >= keepLast)
    .filter(({ snapshot }) => maxAgeMs === null || snapshot.committedAtMs < nowMs - maxAgeMs)
}

/** Epochs name the snapshots that they made, so that a rewrite of files is never kept in the place of one. */
function beyondLadder(
  ladder: SnapshotLadder,
  snapshots: readonly SnapshotInfo[],
  nowMs: number,
  most: number,
): readonly Candidate[] {
  const kept = new Set(keptByLadder(ladder, snapshots.filter(hasOwnContent), nowMs, most))
  return candidates(snapshots, nowMs).filter(({ snapshot }) => !kept.has(snapshot))
}

const hasOwnContent = ({ summary }: SnapshotInfo): boolean => summary['sluice.upkeep'] === undefined

/**
 * Null: everything is kept, which holds for products unless they say otherwise or are made as changes come, and for tables of
 * others always. Of raw tables the configuration decides, and the ladder, too, where their changes are followed.
 */
async function rulesOf(
  pool: pg.Pool,
  product: Product | null,
  ref: TableRef,
  raw: SnapshotRetention | null,
): Promise<Rules | null> {
  if (product !== null) {
    const manifests = await manifestsOf(pool, product)
    const retention = manifests === null ? null : await retentionOfProduct(pool, product, manifests)
    if (retention === null) return null
    return 'ladder' in retention ? { ladder: retention.ladder, bounds: null } : { ladder: null, bounds: retention }
  }
  const connection = connectionOf(ref.namespace)
  if (connection === null) return null
  return { ladder: (await isFollowed(pool, ref.warehouse, connection)) ? CONTINUOUS_LADDER : null, bounds: raw }
}

/** Null: every snapshot is kept. */
export async function retentionOfProduct(
  pool: pg.Pool,
  product: Product,
  manifests: ManifestSet,
): Promise<SnapshotRetention | LadderRetention | null> {
  const { retention } = manifests.output
  if (retention !== undefined) return retention === 'all' ? null : retention
  return (await isMadeAsChangesCome(pool, product, manifests)) ? { ladder: CONTINUOUS_LADDER } : null
}

/**
 * Stores and topics of changes begin at the epoch they have, and receivers of webhooks at that one alone; a store that keeps a
 * history is rebuilt from all.
 */
async function neededByStores(pool: pg.Pool, product: Product): Promise<ReadonlySet<SnapshotId> | 'all'> {
  const manifests = await manifestsOf(pool, product)
  const folds = manifests?.serving.endpoints.some(({ type, config }) => keepsHistory(type, config))
  if (folds === true) return 'all'
  const newest = await latestEpoch(pool, product.id)
  if (newest === null) return new Set()
  const applied = (await endpointStates(pool, product.id)).flatMap((state) => state.appliedEpoch ?? [])
  const sent = (await changeTopicsOf(pool, product.id)).flatMap((topic) => topic.sentEpoch ?? [])
  const oldest = Math.min(newest.epoch as number, ...applied, ...sent)
  const epochs = await epochsFrom(pool, product.id, oldest, MAX_EPOCHS)
  if (epochs.length === MAX_EPOCHS) return 'all'
  const placed = await epochsAt(pool, product.id, await webhookEpochs(pool, product.id))
  return new Set([...epochs, ...placed].flatMap((epoch) => Object.values(epoch.snapshots)))
}

async function manifestsOf(pool: pg.Pool, product: Product): Promise<ManifestSet | null> {
  if (product.currentVersion === null) return null
  const version = await findVersion<ManifestSet>(pool, product.id, product.currentVersion)
  return version?.normalised ?? null
}
