/** Makes the products of a wave, one after the other: what it was asked for, and what is made of that. */
import { isSluiceError, SluiceError } from '@sluice/sdk'
import type pg from 'pg'
import { inTransaction } from '../database/pools.ts'
import type { MaterializeDeps } from '../materializer/deps.ts'
import type { MaterializeRequest, MaterializeResult } from '../materializer/materialize.ts'
import { UNCHANGED } from '../materializer/unchanged.ts'
import type { RecordedError } from '../registry/deployments.ts'
import { recordedError } from '../registry/deployments.ts'
import { type Leaving, leaveToRun, leftRunOf } from '../registry/left-runs.ts'
import { makingTimes } from '../registry/makings.ts'
import { latestEpoch } from '../registry/materializations.ts'
import { checkRun, type RunLease } from '../registry/run-claims.ts'
import { appendRunLog, saveRunResult } from '../registry/run-progress.ts'
import {
  fullNameOf,
  outcomeText,
  type ProductOutcome,
  publishedOutcome,
  unpublishedOutcome,
} from './product-outcome.ts'
import { productProgress } from './product-progress.ts'
import { slowGroups } from './slow-products.ts'
import { type DeployedProduct, type WaveMember, waveOf } from './wave.ts'

export interface WaveDeps {
  readonly pool: pg.Pool
  /** The tenant's products in service that are made of one of these (`namespace.name`), be it through others. */
  readersOfProducts(tenant: string, names: readonly string[]): Promise<readonly DeployedProduct[]>
  materialize(request: MaterializeRequest): Promise<MaterializeResult>
  /** Throws what making the product would begin with: `inputs_unchanged`, `product_paused` and so on. Nothing is made, and nobody waited for. */
  requireDue(request: Pick<MaterializeRequest, 'product' | 'signal'>): Promise<void>
  /** As of `MaterializeDeps`. */
  noteBegun: MaterializeDeps['noteBegun']
  /** That products which stay as they are were read later than was known, to whoever keeps them in mind. */
  tellLaterReads(tenant: string): Promise<void>
}

interface WaveRun {
  readonly lease: RunLease
  readonly signal: AbortSignal
}

/** What the run has done by then. */
interface Before {
  /** A table of the product's that could not be read in this run; null: none. */
  unread(deployed: DeployedProduct): string | null
  /** It failed by itself, and waits for another try. Default: none does. */
  isHeld?(deployed: DeployedProduct): boolean
  /** Slow ones are left to runs of their own, whose failures wait with this connection's. Absent: all are made here. */
  readonly leaving?: Leaving
  /** Of products that were made by themselves; what is made of them follows. */
  readonly done: readonly ProductOutcome[]
}

export interface Wave {
  /** Those that were done before, too. */
  readonly outcomes: readonly ProductOutcome[]
  readonly errors: readonly unknown[]
}

/**
 * Each product after those that it is made of. One whose inputs could not be made is left as it is, and so is what is made of
 * it. Repeatable with the same run: what it has published is known again.
 */
export async function makeWave(
  run: WaveRun,
  first: readonly DeployedProduct[],
  { unread, isHeld, leaving, done }: Before,
  deps: WaveDeps,
): Promise<Wave> {
  const [one] = first
  if (one === undefined) return { outcomes: done, errors: [] }
  const { tenant } = one.product
  const outcomes = [...done]
  const errors: unknown[] = []
  const save = () => saveRunResult(deps.pool, run.lease, { products: outcomes })
  let isSaved = true
  const names = first.map(({ product }) => fullNameOf(product))
  const members = waveOf(first, await deps.readersOfProducts(tenant, names))
  const groups = leaving === undefined ? NONE : await groupsOf(members, deps)
  const runs = new Map<string, string>()
  const leaveAnew = async (slow: string): Promise<string> => {
    const { product } = members.find((one) => fullNameOf(one.product) === slow) as WaveMember
    const runId = await leave(run, product.id, leaving as Leaving, deps)
    runs.set(slow, runId)
    return runId
  }
  for (const member of members) {
    if (outcomes.some(({ id }) => id === member.product.id)) continue
    const slow = groups.get(fullNameOf(member.product))
    const waits = isHeld?.(member) === true
    const begun = slow === undefined ? undefined : runs.get(slow)
    const isAnew = begun !== undefined && !waits && takesOthers(member, groups)
    const leftTo = isAnew ? await leaveAnew(slow as string) : begun
    const why = leftTo === undefined ? leftBecause(member, unread(member), outcomes) : leftToRun(leftTo)
    const reason = waits ? WAITS : why
    const leaves = slow === fullNameOf(member.product) ? leaving : undefined
    const {
      outcome,
      error,
      notes = [],
      runId,
    } = await outcomeFor(run, member, { reason, leaves, done: outcomes }, deps)
    if (slow !== undefined && runId !== undefined) runs.set(slow, runId)
    outcomes.push(outcome)
    if (error !== undefined) errors.push(error)
    // The list grows with the wave: written for each product that stays as it is, it would cost more than they do.
    isSaved = !isUnchanged(outcome)
    if (isSaved) await save()
    await tell(run, outcome, notes, deps)
  }
  if (!isSaved) await save()
  if (outcomes.some(isUnchanged)) await deps.tellLaterReads(tenant)
  return { outcomes, errors }
}

const NONE: ReadonlyMap<string, string> = new Map()

async function groupsOf(members: readonly WaveMember[], { pool }: WaveDeps): Promise<ReadonlyMap<string, string>> {
  const ids = members.map(({ product }) => product.id)
  return slowGroups(members, await makingTimes(pool, ids))
}

/**
 * Whether it takes products that the wave has made meanwhile as they are. The run that it is left to may have come to it before: where
 * that has begun, it is left to one more.
 */
function takesOthers({ product, manifests }: WaveMember, groups: ReadonlyMap<string, string>): boolean {
  const slow = groups.get(fullNameOf(product))
  return manifests.inputs.some(({ table, epoch }) => epoch === 'latest' && groups.get(table) !== slow)
}

/** The id of the run that makes it. */
function leave({ lease }: WaveRun, productId: string, leaving: Leaving, { pool }: WaveDeps): Promise<string> {
  return inTransaction(pool, async (tx) => {
    await checkRun(tx, lease)
    return leaveToRun(tx, lease, { productId, ...leaving })
  })
}

/** Why nothing is to be made of it now; null: it is made. */
function leftBecause(
  { upstream }: WaveMember,
  unread: string | null,
  outcomes: readonly ProductOutcome[],
): RecordedError | null {
  if (unread !== null) return inputFailed(unread)
  const left = upstream.find((name) => {
    const outcome = outcomes.find((one) => one.name === name)
    return outcome?.epoch === null && !isUnchanged(outcome)
  })
  return left === undefined ? null : inputBehind(left)
}

interface Materialized {
  readonly outcome: ProductOutcome
  /** What contracts of its inputs have done to its rows. */
  readonly notes?: readonly string[]
  /** What makes the whole run a failure. */
  readonly error?: unknown
  /** That makes it, and what is made of it. */
  readonly runId?: string
}

interface Todo {
  /** Why nothing is made; null: it is made. */
  readonly reason: RecordedError | null
  /** It is left to a run of its own, for this connection. */
  readonly leaves: Leaving | undefined
  readonly done: readonly ProductOutcome[]
}

async function outcomeFor(
  run: WaveRun,
  { product }: DeployedProduct,
  { reason, leaves, done }: Todo,
  deps: WaveDeps,
): Promise<Materialized> {
  const left = async (state: 'failed' | 'skipped', why: RecordedError) =>
    unpublishedOutcome(product, state, why, (await latestEpoch(deps.pool, product.id))?.epoch ?? null)
  if (reason !== null) return { outcome: await left('skipped', reason) }
  const underWay = leaves === undefined ? null : await leftRunOf(deps.pool, product.id)
  const { begun, report, settle } = productProgress(deps.pool, run.lease, product, done)
  try {
    if (leaves !== undefined) {
      // One that has not begun will see what there is by then.
      if (underWay?.isQueued !== true) await deps.requireDue({ product, signal: run.signal })
      const runId = await leave(run, product.id, leaves, deps)
      return { outcome: await left('skipped', leftToRun(runId)), runId }
    }
    const request = { product, runId: run.lease.runId, signal: run.signal, begun, report, ifChanged: true }
    const made = await deps.materialize(request)
    return { outcome: publishedOutcome(product, made), notes: made.contractNotes }
  } catch (error) {
    run.signal.throwIfAborted()
    const isLeft = isSluiceError(error) && LEFT_AS_IT_IS.has(error.code)
    // What fails before there is anything to do has failed, too.
    if (!isLeft) await deps.noteBegun(product, run.lease.runId, null)
    const outcome = await left(isLeft ? 'skipped' : 'failed', recordedError(error))
    // What is made of it may be what that run is at.
    const runId = underWay === null || !isUnchanged(outcome) ? {} : { runId: underWay.id }
    return isLeft ? { outcome, ...runId } : { outcome, error: about(fullNameOf(product), error) }
  } finally {
    await settle()
  }
}

export const isUnchanged = ({ reason }: ProductOutcome): boolean => reason?.code === UNCHANGED

const LEFT_TO_RUN = 'left_to_run'

export const isLeftToRun = (reason: RecordedError | null): boolean => reason?.code === LEFT_TO_RUN

function leftToRun(runId: string): RecordedError {
  return {
    code: LEFT_TO_RUN,
    message: `it takes longer than the others, and is left to the run ${runId}`,
    remedy: 'Look at that run, or wait for the epoch: it is made of the newest rows.',
  }
}

const WAITS: RecordedError = {
  code: 'backing_off',
  message: 'it failed a while ago, and is tried again later',
  remedy: 'See the incident of the product, or sync the connection to try it now.',
}

/** Codes of what keeps a product from being made anew without being a failure of the run. */
const LEFT_AS_IT_IS: ReadonlySet<string> = new Set([
  UNCHANGED,
  'input_not_ingested',
  'product_paused',
  'inputs_of_several_waves',
])

function inputFailed(table: string): RecordedError {
  return {
    code: 'input_failed',
    message: `its input ${table} could not be read, so it is left as it is`,
    remedy: 'Correct what the table says, then sync again.',
  }
}

function inputBehind(product: string): RecordedError {
  return {
    code: 'input_behind',
    message: `its input ${product} was not made anew, so it is left as it is`,
    remedy: 'Correct what keeps that product from being made.',
  }
}

/** The error of a run of many parts names the part. */
export function about(part: string, error: unknown): unknown {
  if (!isSluiceError(error) || error.message.includes(part)) return error
  const { kind, code, remedy, details, cause, retryAfterMs } = error
  return new SluiceError(kind, `${part}: ${error.message}`, {
    code,
    cause,
    ...(remedy === undefined ? {} : { remedy }),
    ...(details === undefined ? {} : { details }),
    ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
  })
}

async function tell(
  { lease }: WaveRun,
  outcome: ProductOutcome,
  notes: readonly string[],
  { pool }: WaveDeps,
): Promise<void> {
  const level = { succeeded: 'info', degraded: 'warn', skipped: 'warn', failed: 'error' } as const
  const hasLosses = Object.keys(outcome.lossy_values).length > 0
  for (const note of notes) await appendRunLog(pool, lease, 'warn', `${outcome.name}: ${note}`)
  await appendRunLog(
    pool,
    lease,
    isUnchanged(outcome) || isLeftToRun(outcome.reason) ? 'info' : hasLosses ? 'warn' : level[outcome.state],
    outcomeText(outcome),
  )
}
