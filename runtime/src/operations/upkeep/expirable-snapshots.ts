/** Which snapshots of a lake table nobody has a claim to any more. */
import type { SnapshotId, SnapshotInfo, TableRef } from '@sluice/iceberg'
import { keepsHistory } from '../../manifest/contract-config.ts'
import type { ManifestSet, SnapshotRetention } from '../../manifest/manifest-set.ts'
import { changeTopicsOf } from '../../registry/change-topics.ts'
import { cautiousNowMs } from '../../registry/clock.ts'
import { endpointStates } from '../../registry/endpoint-states.ts'
import { epochsFrom, latestEpoch, snapshotsReadFrom } from '../../registry/materializations.ts'
import type { Product } from '../../registry/products.ts'
import { oldestRunStart } from '../../registry/runs.ts'
import { findVersion } from '../../registry/versions.ts'
import type { Platform } from '../platform.ts'

const HOUR_MS = 3_600_000
const MAX_EPOCHS = 10_000

/**
 * Kept in every case: the current one, those that a tag names, those younger than an hour or that were current when a
 * running run began, those that a store still has to start from, and those that a product's newest epoch was made of.
 * Of the rest the product's `retention` decides, and of raw tables the configuration.
 */
export async function expirableOf(
  platform: Platform,
  product: Product | null,
  ref: TableRef,
  snapshots: readonly SnapshotInfo[],
  current: SnapshotId | null,
): Promise<readonly SnapshotId[]> {
  const retention = await retentionOf(platform, product, ref)
  if (retention === null) return []
  const claimed = product === null ? await inputsOf(platform, ref) : await neededByStores(platform, product)
  if (claimed === 'all') return []
  const runsSince = (await oldestRunStart(platform.pool, ref.warehouse))?.getTime() ?? Number.POSITIVE_INFINITY
  const nowMs = await cautiousNowMs(platform.pool)
  const keepSinceMs = Math.min(nowMs - HOUR_MS, runsSince)
  const released = expiredBy(retention, snapshots, nowMs)
  return released
    .filter(({ snapshot, replacedAtMs }) => {
      const free = snapshot.refs.length === 0 && snapshot.snapshotId !== current && replacedAtMs < keepSinceMs
      return free && !claimed.has(snapshot.snapshotId)
    })
    .map(({ snapshot }) => snapshot.snapshotId)
}

interface Candidate {
  readonly snapshot: SnapshotInfo
  readonly replacedAtMs: number
}

/** Those that every bound of the retention lets go. Rewrites of files hold nothing new: they do not count as snapshots. */
export function expiredBy(
  { maxAgeMs, keepLast }: SnapshotRetention,
  snapshots: readonly SnapshotInfo[],
  nowMs: number,
): readonly Candidate[] {
  let newer = snapshots.filter(hasOwnContent).length
  return snapshots
    .map((snapshot, at) => ({
      snapshot,
      fromNewest: hasOwnContent(snapshot) ? --newer : newer,
      replacedAtMs: snapshots[at + 1]?.committedAtMs ?? nowMs,
    }))
    .filter(({ fromNewest }) => keepLast === null || fromNewest >= keepLast)
    .filter(({ snapshot }) => maxAgeMs === null || snapshot.committedAtMs < nowMs - maxAgeMs)
}

const hasOwnContent = ({ summary }: SnapshotInfo): boolean => summary['sluice.upkeep'] === undefined

/** Null: everything is kept, which holds for products unless they say otherwise, and for tables of others always. */
async function retentionOf(
  platform: Platform,
  product: Product | null,
  ref: TableRef,
): Promise<SnapshotRetention | null> {
  if (product !== null) return (await manifestsOf(platform, product))?.output.retention ?? null
  if (!ref.namespace.startsWith('raw_')) return null
  const { raw_keep_last: keepLast, raw_keep_days: days } = platform.config.upkeep
  return { keepLast, maxAgeMs: days * 24 * HOUR_MS }
}

/** Stores and topics of changes begin at the epoch they have; a store that keeps a history is rebuilt from all. */
async function neededByStores(platform: Platform, product: Product): Promise<ReadonlySet<SnapshotId> | 'all'> {
  const manifests = await manifestsOf(platform, product)
  const folds = manifests?.serving.endpoints.some(({ type, config }) => keepsHistory(type, config))
  if (folds === true) return 'all'
  const newest = await latestEpoch(platform.pool, product.id)
  if (newest === null) return new Set()
  const applied = (await endpointStates(platform.pool, product.id)).flatMap((state) => state.appliedEpoch ?? [])
  const sent = (await changeTopicsOf(platform.pool, product.id)).flatMap((topic) => topic.sentEpoch ?? [])
  const oldest = Math.min(newest.epoch as number, ...applied, ...sent)
  const epochs = await epochsFrom(platform.pool, product.id, oldest, MAX_EPOCHS)
  if (epochs.length === MAX_EPOCHS) return 'all'
  return new Set(epochs.flatMap((epoch) => Object.values(epoch.snapshots)))
}

/** Snapshots of raw tables that the newest epochs were made of: the next incremental run begins there. */
async function inputsOf(platform: Platform, ref: TableRef): Promise<ReadonlySet<SnapshotId>> {
  return new Set(await snapshotsReadFrom(platform.pool, ref.warehouse))
}

async function manifestsOf(platform: Platform, product: Product): Promise<ManifestSet | null> {
  if (product.currentVersion === null) return null
  const version = await findVersion<ManifestSet>(platform.pool, product.id, product.currentVersion)
  return version?.normalised ?? null
}
