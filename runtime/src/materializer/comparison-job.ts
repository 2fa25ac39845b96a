/** Compares the copies in stores with the lake, by turns of tenants, and has those written anew that differ. */
import { isSluiceError } from '@sluice/sdk'
import { inTransaction } from '../database/pools.ts'
import { appendEvent } from '../events/outbox.ts'
import { expectForTenants, hastenJobs, type NextDue } from '../jobs/claims.ts'
import type { JobKind, JobSource } from '../jobs/worker.ts'
import { type CopyLoss, endpointLost } from '../registry/endpoint-states.ts'
import {
  type ComparedCopy,
  compareAllSoon,
  comparedLater,
  comparisonOf,
  copyDrifted,
  copyInOrder,
  type Drift,
  isUntouched,
  MAX_REPAIRS,
  nextComparisonInMs,
  nextToCompare,
} from '../registry/store-comparisons.ts'
import { type CompareCopyDeps, compareCopy, type Found, lossIn } from './compare-copy.ts'
import { Pace } from './copy-rows.ts'
import { noteLoss } from './store-review.ts'

/** `moved`: it was written meanwhile. `failed`: the store, or the lake, did not answer. */
export type ComparisonEnd = Found['kind'] | 'lost' | 'moved' | 'failed'

export interface ComparisonSettings {
  /** Between two comparisons of one copy. */
  readonly everyMs: number
  readonly rowsPerSecond: number
  readonly share: number
}

export interface ComparisonDeps extends CompareCopyDeps {
  /** Rows of the tenant's products are not to be read as they were. */
  onLost(tenant: string): void
  onCompared(endpoint: string, end: ComparisonEnd): void
}

const MINUTE_MS = 60_000
const DAY_MS = 24 * 60 * MINUTE_MS
/** A tenant's turn; the comparison that has begun then is ended. */
const TURN_MS = 5 * MINUTE_MS
const ENLIST_MS = 30_000
const LONGEST_WAIT_MS = 10 * MINUTE_MS

export const COMPARISON_JOB = 'stores.compare'

export interface ComparisonJob {
  readonly kind: JobKind
  readonly source: JobSource
}

export function comparisonJob(settings: ComparisonSettings, deps: ComparisonDeps): ComparisonJob {
  const pace = new Pace(settings)
  let isFirst = true
  return {
    kind: {
      kind: COMPARISON_JOB,
      failed: 'copies in stores could not be compared with the lake; it is tried again',
      backOff: { firstMs: MINUTE_MS, lastMs: 60 * MINUTE_MS },
      work: ({ key: tenant }, signal) => compareTenant(tenant, settings, pace, deps, signal),
    },
    source: {
      everyMs: ENLIST_MS,
      async enlist() {
        await expectForTenants(deps.pool, { [COMPARISON_JOB]: LONGEST_WAIT_MS }, 0)
        if (!isFirst) return
        // At a start: nobody has looked for a while.
        await compareAllSoon(deps.pool)
        await hastenJobs(deps.pool, COMPARISON_JOB)
        isFirst = false
      },
    },
  }
}

/** The tenant's copies that are due, until its turn is over. */
async function compareTenant(
  tenant: string,
  settings: ComparisonSettings,
  pace: Pace,
  deps: ComparisonDeps,
  signal: AbortSignal,
): Promise<NextDue> {
  const { pool, plugins } = deps
  const endpoints = plugins.servingTypes().flatMap(({ type, store }) => (store.digest ? [type] : []))
  const untilMs = performance.now() + TURN_MS
  while (performance.now() < untilMs) {
    signal.throwIfAborted()
    const copy = await nextToCompare(pool, tenant, endpoints)
    if (copy === null) {
      const waitMs = (await nextComparisonInMs(pool, tenant)) ?? LONGEST_WAIT_MS
      return { from: 'end', ms: Math.min(Math.max(waitMs, MINUTE_MS), LONGEST_WAIT_MS) }
    }
    deps.onCompared(copy.endpoint, await pace.within(signal, () => compareOne(copy, settings, pace, deps, signal)))
  }
  return { from: 'end', ms: 0 }
}

/** Looks at one copy, and notes what there is to note. */
export async function compareOne(
  copy: ComparedCopy,
  settings: ComparisonSettings,
  pace: Pace,
  deps: ComparisonDeps,
  signal: AbortSignal,
): Promise<ComparisonEnd> {
  const { pool } = deps
  try {
    const found = await compareCopy(copy, { pace, rowsPerSecond: settings.rowsPerSecond }, deps, signal)
    if (!(await isUntouched(pool, copy))) return await later('moved', copy, MINUTE_MS, deps)
    if (found.kind === 'in_order') await copyInOrder(pool, copy, found.known, settings.everyMs)
    else if (found.kind === 'drifted') return await settleDrift(copy, found.drift, deps)
    else return await later(found.kind, copy, settings.everyMs, deps)
    return found.kind
  } catch (error) {
    signal.throwIfAborted()
    const loss = lossIn(error)
    if (loss !== null && (await isUntouched(pool, copy))) return await settleLoss(copy, loss, settings, deps)
    const isMoved = isSluiceError(error) && error.code === 'epoch_moved'
    if (!isMoved) warn('a copy in a store could not be compared with the lake', copy, deps, error)
    return await later(isMoved ? 'moved' : 'failed', copy, isMoved ? MINUTE_MS : settings.everyMs, deps)
  }
}

async function later<End extends ComparisonEnd>(
  end: End,
  copy: ComparedCopy,
  ms: number,
  deps: ComparisonDeps,
): Promise<End> {
  if (end === 'unsteady') warn('a store gives another digest of the same copy each time', copy, deps)
  await comparedLater(deps.pool, copy, ms)
  return end
}

async function settleLoss(
  copy: ComparedCopy,
  loss: CopyLoss,
  { everyMs }: ComparisonSettings,
  deps: ComparisonDeps,
): Promise<ComparisonEnd> {
  if (await noteLoss(deps, copy, copy.epoch, loss)) deps.onLost(copy.tenant)
  await comparedLater(deps.pool, copy, everyMs)
  return 'lost'
}

/**
 * It is written anew, by what brings stores up to date. A copy that differs each time it was is compared once a day: either
 * somebody else goes on writing there, or the store does not give back what it is given.
 */
async function settleDrift(copy: ComparedCopy, drift: Drift, deps: ComparisonDeps): Promise<ComparisonEnd> {
  const { driftsInARow } = await comparisonOf(deps.pool, copy)
  const { productId, endpoint, epoch } = copy
  const isNoted = await inTransaction(deps.pool, async (tx) => {
    if (!(await endpointLost(tx, copy, epoch, 'drifted'))) return false
    await copyDrifted(tx, copy, { epoch, drift }, driftsInARow < MAX_REPAIRS ? MINUTE_MS : DAY_MS)
    const data = { endpoint, epoch, found_by: drift }
    await appendEvent(tx, {
      tenant: copy.tenant,
      kind: 'materialization',
      name: 'store_drifted',
      subject: productId,
      data,
    })
    return true
  })
  if (!isNoted) return later('moved', copy, MINUTE_MS, deps)
  warn('a copy in a store differs from the lake; it is written anew', copy, deps, undefined, drift)
  deps.onLost(copy.tenant)
  return 'drifted'
}

function warn(message: string, copy: ComparedCopy, { logger }: ComparisonDeps, error?: unknown, drift?: Drift): void {
  const { tenant, productId: product, endpoint, variant, epoch } = copy
  const code = isSluiceError(error) ? error.code : undefined
  logger.warn(message, { tenant, product, endpoint, variant, epoch, found_by: drift, code })
}
