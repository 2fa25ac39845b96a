/** Runs: found, ended before their time, and queued again. */
import { SluiceError } from '@sluice/sdk'
import { inTransaction } from '../../database/pools.ts'
import type { TenantCall } from '../../flow.ts'
import { erasureOf } from '../../ingestion/erasure/erasure-input.ts'
import { replayOf } from '../../ingestion/replay/replay-input.ts'
import { productPaused } from '../../materializer/pauses.ts'
import { actorOf } from '../../registry/actor.ts'
import { requireStays } from '../../registry/deletions.ts'
import { closeErasures } from '../../registry/erasures.ts'
import type { Page, PageRequest } from '../../registry/paging.ts'
import { isPreviewOver } from '../../registry/previews.ts'
import { findProduct } from '../../registry/products.ts'
import {
  type LogLine,
  runLog,
  type TableProgress,
  tableProgress,
  tableProgresses,
} from '../../registry/run-progress.ts'
import {
  cancelRun,
  enqueueRun,
  findRun,
  listRuns,
  queuedRunLike,
  queuedRunOf,
  type Run,
  type RunFilter,
} from '../../registry/runs.ts'
import type { Transaction } from '../../registry/sql.ts'
import { audited } from '../audit.ts'
import { noPreview } from '../deploy/previews.ts'
import { endRollback, rollbackOf } from '../deploy/rollback.ts'
import type { Keep } from '../keep.ts'
import { notFound } from '../not-found.ts'
import { requireDeveloper } from '../permissions.ts'
import { notDeployed } from '../products/products.ts'
import type { RunsDeps } from './deps.ts'

export const CANCELLED = { code: 'run_cancelled', message: 'the run was cancelled' } as const

/** Another tenant's run is not found. */
export async function runOf(platform: RunsDeps, call: TenantCall, id: string): Promise<Run> {
  const run = await findRun(platform.pool, call.tenant, id)
  if (!run) throw noSuchRun(platform)
  return run
}

/** Whether there ever was one is not kept. */
function noSuchRun({ config }: RunsDeps): SluiceError {
  const { run_days: days, run_most: most } = config.upkeep
  return new SluiceError(
    'INVALID_DATA',
    `there is no such ingestion run, or no more: what ended more than ${days} days ago, or is not among the newest ${most} of its connection or product, is removed`,
    { code: 'ingestion_not_found', remedy: notFound('ingestion').remedy as string },
  )
}

export interface RunWithTables {
  readonly run: Run
  readonly tables: readonly TableProgress[]
}

export async function withTables({ pool }: Pick<RunsDeps, 'pool'>, run: Run): Promise<RunWithTables> {
  return { run, tables: await tableProgress(pool, run.id) }
}

/** Newest first. */
export async function runPage(
  { pool }: Pick<RunsDeps, 'pool'>,
  tenant: string,
  page: PageRequest,
  filter: Pick<RunFilter, 'state'>,
): Promise<Page<RunWithTables>> {
  const { items, next } = await listRuns(pool, tenant, page, filter)
  const tables = await tableProgresses(
    pool,
    items.map(({ id }) => id),
  )
  return { items: items.map((run) => ({ run, tables: tables.get(run.id) ?? [] })), next }
}

export function linesOf({ pool }: Pick<RunsDeps, 'pool'>, { id }: Pick<Run, 'id'>): Promise<readonly LogLine[]> {
  return runLog(pool, id)
}

/** What the run has committed stays; a run that has ended stays as it is. Repeatable. */
export async function endRun(platform: RunsDeps, call: TenantCall, id: string): Promise<Run> {
  requireDeveloper(call.principal)
  return inTransaction(platform.pool, async (tx) => {
    const run = await cancelRun(tx, call.tenant, id)
    if (!run) throw noSuchRun(platform)
    if (run.state === 'cancelled') {
      await endRollback(tx, run, CANCELLED)
      if (erasureOf(run) !== null) await closeErasures(tx, call.tenant)
    }
    await audited(tx, call, call.tenant, 'run.cancel', { type: 'run', id })
    return run
  })
}

/**
 * Queues a run of the same target; one that waits already is answered again. Throws CONFLICT `run_in_progress` while the former has
 * not ended, and where its product is not to be made: `product_paused`, `not_deployed`, `product_being_deleted`, INVALID_DATA
 * `preview_not_found`.
 */
export async function retryRun(platform: RunsDeps, call: TenantCall, id: string, keep: Keep<Run>): Promise<Run> {
  requireDeveloper(call.principal)
  const former = await runOf(platform, call, id)
  if (former.state === 'queued' || former.state === 'running') {
    throw new SluiceError('CONFLICT', 'the run has not ended yet', {
      code: 'run_in_progress',
      remedy: 'Wait, or cancel it.',
    })
  }
  if (rollbackOf(former)) {
    throw new SluiceError('CONFLICT', 'a rollback is not tried again as a run', {
      code: 'deployment_superseded',
      remedy: 'Ask for the rollback of the product again.',
    })
  }
  if (erasureOf(former) !== null) {
    throw new SluiceError('CONFLICT', 'an erasure is not tried again as a run: its key is not kept', {
      code: 'erasure_ended',
      remedy: 'Ask for the erasure again, with the key.',
    })
  }
  const base = { tenant: call.tenant, trigger: 'retry', createdBy: actorOf(call.principal) } as const
  const target =
    former.kind === 'ingestion'
      ? ({ kind: 'ingestion', connectionId: former.connectionId as string } as const)
      : ({ kind: 'materialization', productId: former.productId as string } as const)
  return inTransaction(platform.pool, async (tx) => {
    if (target.kind === 'materialization') await requireMakeable(tx, call.tenant, target.productId)
    const replay = replayOf(former)
    const input = { replay }
    const waiting =
      replay !== null && target.kind === 'ingestion'
        ? await queuedRunLike(tx, { ...target, input })
        : await queuedRunOf(tx, target)
    const run = waiting ?? (await enqueueRun(tx, { ...base, ...target, ...(replay === null ? {} : { input }) }))
    if (waiting === null) await audited(tx, call, call.tenant, 'run.retry', { type: 'run', id }, { run: run.id })
    await keep(tx, run)
    return run
  })
}

/** What its run would find and fail by. */
async function requireMakeable(tx: Transaction, tenant: string, productId: string): Promise<void> {
  await requireStays(tx, productId)
  const product = await findProduct(tx, tenant, productId)
  if (product === null) throw notFound('product')
  if (product.previewOf !== null && (await isPreviewOver(tx, productId))) throw noPreview()
  if (product.currentVersion === null) throw notDeployed()
  if (product.paused !== null) throw productPaused(product.paused)
}
