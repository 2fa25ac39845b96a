/** Upkeep of a tenant's lake: small files into fewer, old snapshots out, orphans away, and a look at every file. */

import type { EngineLimits } from '@sluice/engine'
import type { Lake, SnapshotInfo, StagedCommit, TableRef } from '@sluice/iceberg'
import { isSluiceError, SluiceError } from '@sluice/sdk'
import { inTransaction } from '../../database/pools.ts'
import { registryCatalog } from '../../lake/registry-catalog.ts'
import { SANDBOX } from '../../lake/tenant-layout.ts'
import { noteMove } from '../../materializer/epoch-note.ts'
import { expirableOf } from '../../materializer/expirable-snapshots.ts'
import { ifProductIsFree } from '../../materializer/product-lock.ts'
import { productOfTable, tablesOfProduct } from '../../materializer/variants.ts'
import { cautiousNowMs } from '../../registry/clock.ts'
import { noteGoneMasks, pruneAllEpochs } from '../../registry/epoch-retention.ts'
import { findProductsByName, type Product } from '../../registry/products.ts'
import type { UpkeepDeps } from './deps.ts'

export const UPKEEP_TASKS = ['compact', 'expire', 'clean', 'check'] as const
export type UpkeepTask = (typeof UPKEEP_TASKS)[number]

export interface UpkeepRequest {
  readonly tenant: string
  readonly task: UpkeepTask
  /** `domain.table`: only this one. */
  readonly table?: string
  /** `domain.table`: only those behind it, for going on where an earlier call stopped. */
  readonly after?: string
  /** Nothing new is begun behind it, by `performance.now`. */
  readonly untilMs: number
  readonly limits: EngineLimits
}

export interface UpkeepReport {
  readonly task: UpkeepTask
  /** Those where something was done or found. */
  readonly tables: readonly TableUpkeep[]
  readonly tablesSeen: number
  /** Where to go on; null when every table was seen. */
  readonly next: string | null
}

export interface TableUpkeep {
  readonly table: string
  readonly [result: string]: unknown
}

type Outcome = Readonly<Record<string, unknown>> | null

/** Repeatable. What fails at one table is in the report, and the others are seen to all the same. */
export async function keepUp(platform: UpkeepDeps, request: UpkeepRequest, signal: AbortSignal): Promise<UpkeepReport> {
  const tables: TableUpkeep[] = []
  let [seen, last] = [0, null as string | null]
  for (const ref of await tablesOf(platform, request)) {
    const name = nameOf(ref)
    if (performance.now() >= request.untilMs) return { task: request.task, tables, tablesSeen: seen, next: last ?? '' }
    const outcome = await outcomeOf(platform, request, ref, signal)
    if (outcome !== null) tables.push({ table: name, ...outcome })
    seen += 1
    last = name
  }
  return { task: request.task, tables, tablesSeen: seen, next: null }
}

const nameOf = (ref: TableRef): string => `${ref.namespace}.${ref.table}`

async function tablesOf(platform: UpkeepDeps, request: UpkeepRequest): Promise<readonly TableRef[]> {
  const { tenant, task, table, after } = request
  const known = await platform.lake.tables(tenant)
  const looksForLost = (task === 'clean' || task === 'check') && table === undefined
  const lost = looksForLost ? await platform.lake.lostTables(tenant) : []
  const all = [...known, ...lost].sort((a, b) => (nameOf(a) < nameOf(b) ? -1 : 1))
  const wanted = all.filter((ref) => table === undefined || nameOf(ref) === table)
  if (table !== undefined && wanted.length === 0) {
    throw new SluiceError('INVALID_DATA', 'there is no such lake table', {
      code: 'lake_table_not_found',
      remedy: 'Name it as namespace.product, or raw_connection.table.',
    })
  }
  return wanted.filter((ref) => after === undefined || after === '' || nameOf(ref) > after)
}

async function outcomeOf(
  platform: UpkeepDeps,
  request: UpkeepRequest,
  ref: TableRef,
  signal: AbortSignal,
): Promise<Outcome> {
  try {
    return await TASKS[request.task](platform, request, ref, signal)
  } catch (error) {
    signal.throwIfAborted()
    if (!isSluiceError(error)) throw error
    platform.logger.warn('a lake table could not be seen to', {
      tenant: ref.warehouse,
      table: nameOf(ref),
      task: request.task,
      code: error.code,
      cause: error.cause instanceof Error ? error.cause.message : undefined,
    })
    return { error: { code: error.code, message: error.message, remedy: error.remedy } }
  }
}

const TASKS: Readonly<
  Record<UpkeepTask, (p: UpkeepDeps, r: UpkeepRequest, ref: TableRef, signal: AbortSignal) => Promise<Outcome>>
> = { compact, expire, clean, check }

async function compact(platform: UpkeepDeps, request: UpkeepRequest, ref: TableRef, signal: AbortSignal) {
  if (ref.namespace === SANDBOX) return null
  return whereFree(platform, ref, (product) =>
    platform.lake.writing(async (lake) => {
      const staged = await lake.stageCompaction(ref, { limits: request.limits }, signal)
      if (staged === null) return null
      await publish(platform, lake, staged, product)
      return { compacted: true, snapshot_id: staged.snapshotId, rows: staged.addedRows }
    }),
  )
}

/** Tables of the sandbox keep the history that their writers give them, and the files that these wrote. */
async function expire(platform: UpkeepDeps, _: UpkeepRequest, ref: TableRef, signal: AbortSignal) {
  if (ref.namespace === SANDBOX) return null
  return whereFree(platform, ref, async (product) => {
    const state = await platform.lake.load(ref, { signal })
    if (state === null || (await platform.lake.hasOpenWrites(ref))) return null
    const ids = await expirableOf(platform, product, ref, platform.lake.snapshots(state), state.snapshotId)
    if (ids.length === 0) return null
    await publish(platform, platform.lake, await platform.lake.stageExpiry(state, ids), product)
    return { expired_snapshots: ids.length, kept_snapshots: state.metadata.snapshots.length - ids.length }
  })
}

const HOUR_MS = 3_600_000
/** Tables that are followed have an open write every other moment. */
const PATIENCE_MS = 20_000

async function clean(platform: UpkeepDeps, _: UpkeepRequest, ref: TableRef, signal: AbortSignal) {
  const minAgeMs = platform.config.upkeep.clean_min_age_hours * HOUR_MS
  const nowMs = await cautiousNowMs(platform.pool)
  const result = await platform.lake.clean(ref, { minAgeMs, nowMs, patienceMs: PATIENCE_MS }, signal)
  await forgetEpochs(platform, ref, signal)
  if (result.removedFiles === 0) return null
  return { removed_files: result.removedFiles, removed_bytes: result.removedBytes, stored_bytes: result.storedBytes }
}

/**
 * Epochs that the lake has nothing more of. After the files have gone and not where snapshots do: as long as somebody may
 * reach the files, it is looked up who may.
 */
async function forgetEpochs(platform: UpkeepDeps, ref: TableRef, signal: AbortSignal): Promise<void> {
  const { variant } = productOfTable(ref.table)
  const product = variant === 'clear' ? await productOf(platform, ref) : null
  if (product === null || product.paused?.reason === 'registry_outdated') return
  const tables = await tablesOfProduct(product, platform.lake)
  const alive: SnapshotInfo[] = []
  for (const table of tables) {
    const state = await platform.lake.load(table, { signal })
    // What a table has that cannot be found is not known.
    if (state === null) return
    alive.push(...platform.lake.snapshots(state))
  }
  const { run_days: days, run_most: most } = platform.config.upkeep
  const snapshots = alive.map(({ snapshotId }) => snapshotId)
  // Rows in quarantine are of the epoch that last had some.
  const epochs = alive.flatMap(({ summary }) => Number(summary['sluice.epoch'] ?? 0) || [])
  await pruneAllEpochs(platform.pool, product.id, { snapshots, epochs, days, most }, signal)
  await noteGoneMasks(platform.pool, product.id, { snapshots, epochs })
}

async function check(platform: UpkeepDeps, _: UpkeepRequest, ref: TableRef, signal: AbortSignal) {
  const problems = await platform.lake.check(ref, signal)
  return problems.length === 0 ? null : { problems }
}

async function publish(platform: UpkeepDeps, lake: Lake, staged: StagedCommit, product: Product | null): Promise<void> {
  await inTransaction(platform.pool, (tx) => lake.publish(registryCatalog(tx), [staged]))
  if (product !== null) await noteMove(product, staged, lake)
}

/**
 * A product's tables are left to a materialization that runs. Of raw tables the loser of a race computes anew: an
 * ingestion is tried again, and upkeep has its next turn.
 */
async function whereFree(
  platform: UpkeepDeps,
  ref: TableRef,
  work: (product: Product | null) => Promise<Outcome>,
): Promise<Outcome> {
  const product = await productOf(platform, ref)
  if (product === null) return work(null)
  if (product.paused?.reason === 'registry_outdated') return null
  return ifProductIsFree(platform.pool, product.id, () => work(product))
}

async function productOf(platform: UpkeepDeps, ref: TableRef): Promise<Product | null> {
  const found = await findProductsByName(platform.pool, ref.warehouse, productOfTable(ref.table).product)
  return found.find((product) => product.domain === ref.namespace) ?? null
}
