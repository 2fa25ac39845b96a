/** Compares the copies in stores with the lake, by turns of tenants, and has those written anew that differ. */
import { isSluiceError } from '@sluice/sdk'
import { inTransaction } from '../database/pools.ts'
import { appendEvent } from '../events/outbox.ts'
import { delayJobs, expectForTenants, type NextDue } from '../jobs/claims.ts'
import type { JobKind, JobSource } from '../jobs/worker.ts'
import { endpointLost } from '../registry/endpoint-states.ts'
import {
  type ComparedCopy,
  compareAllWithin,
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
import { type CompareCopyDeps, type ComparePace, compareCopy, type Found, lossFound } from './compare-copy.ts'
import { Pace } from './copy-rows.ts'
import { ifProductIsFree } from './product-lock.ts'
import { confirmLoss, lossIn, reviewBeside } from './store-review.ts'

/** `moved`: it was written meanwhile, or a second look did not find what the first one had. `failed`: the store, or the lake, did not answer. */
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
/** After a start, and for a tenant that is new: others have more to do then. */
const FIRST_MS = 5 * MINUTE_MS
/** Copies that nobody looked at while no runtime was up are compared before that. */
const STARTED_MS = 60 * MINUTE_MS

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
        await expectForTenants(deps.pool, { [COMPARISON_JOB]: LONGEST_WAIT_MS }, FIRST_MS)
        if (!isFirst) return
        await compareAllWithin(deps.pool, STARTED_MS)
        await delayJobs(deps.pool, COMPARISON_JOB, FIRST_MS)
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
    const found = await compareTwice(copy, { pace, rowsPerSecond: settings.rowsPerSecond }, deps, signal)
    if (!(await isUntouched(pool, copy))) return await later('moved', copy, MINUTE_MS, deps)
    if (found.kind === 'in_order') await copyInOrder(pool, copy, found.known, settings.everyMs)
    else if (found.kind === 'drifted') return await settleDrift(copy, found.drift, deps)
    else return await later(found.kind, copy, settings.everyMs, deps)
    return found.kind
  } catch (error) {
    signal.throwIfAborted()
    if (lossIn(error) !== null) return await settleLoss(copy, settings, deps, signal)
    return await notCompared(error, copy, settings, deps)
  }
}

/** Nothing is taken from readers on a single look: what differs is compared anew, from its beginning. */
async function compareTwice(
  copy: ComparedCopy,
  pace: ComparePace,
  deps: ComparisonDeps,
  signal: AbortSignal,
): Promise<Found> {
  const found = await compareCopy(copy, pace, deps, signal)
  return found.kind === 'drifted' ? await compareCopy(copy, pace, deps, signal) : found
}

async function notCompared(
  error: unknown,
  copy: ComparedCopy,
  { everyMs }: ComparisonSettings,
  deps: ComparisonDeps,
): Promise<ComparisonEnd> {
  const isMoved = isSluiceError(error) && error.code === 'epoch_moved'
  if (!isMoved) warn('a copy in a store could not be compared with the lake', copy, deps, error)
  return later(isMoved ? 'moved' : 'failed', copy, isMoved ? MINUTE_MS : everyMs, deps)
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
  settings: ComparisonSettings,
  deps: ComparisonDeps,
  signal: AbortSignal,
): Promise<ComparisonEnd> {
  try {
    const loss = await confirmLoss(deps, copy, copy.epoch, () => lossFound(copy, deps, signal))
    if (loss === null) return await later('moved', copy, MINUTE_MS, deps)
    if (loss === 'unreadable') await reviewBeside(copy, deps, signal)
  } catch (error) {
    signal.throwIfAborted()
    return await notCompared(error, copy, settings, deps)
  }
  deps.onLost(copy.tenant)
  return later('lost', copy, settings.everyMs, deps)
}

/**
 * It is written anew, by what brings stores up to date. A copy that differs each time it was is compared once a day: either
 * somebody else goes on writing there, or the store does not give back what it is given.
 */
async function settleDrift(copy: ComparedCopy, drift: Drift, deps: ComparisonDeps): Promise<ComparisonEnd> {
  const { driftsInARow } = await comparisonOf(deps.pool, copy)
  const { productId, endpoint, epoch } = copy
  const note = () =>
    inTransaction(deps.pool, async (tx) => {
      if (!(await endpointLost(tx, copy, 'drifted'))) return false
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
  // Whoever has the product now is about to write it.
  if (!(await ifProductIsFree(deps.pool, productId, note))) return later('moved', copy, MINUTE_MS, deps)
  warn('a copy in a store differs from the lake; it is written anew', copy, deps, undefined, drift)
  deps.onLost(copy.tenant)
  return 'drifted'
}

function warn(message: string, copy: ComparedCopy, { logger }: ComparisonDeps, error?: unknown, drift?: Drift): void {
  const { tenant, productId: product, endpoint, variant, epoch } = copy
  const code = isSluiceError(error) ? error.code : undefined
  logger.warn(message, { tenant, product, endpoint, variant, epoch, found_by: drift, code })
}
