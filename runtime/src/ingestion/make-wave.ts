/** Makes the products of a wave, one after the other: what it was asked for, and what is made of that. */
import { isSluiceError, SluiceError } from '@sluice/sdk'
import type pg from 'pg'
import type { MaterializeDeps } from '../materializer/deps.ts'
import type { MaterializeRequest, MaterializeResult } from '../materializer/materialize.ts'
import { UNCHANGED } from '../materializer/unchanged.ts'
import type { RecordedError } from '../registry/deployments.ts'
import { recordedError } from '../registry/deployments.ts'
import { latestEpoch } from '../registry/materializations.ts'
import type { RunLease } from '../registry/run-claims.ts'
import { appendRunLog, saveRunResult } from '../registry/run-progress.ts'
import {
  fullNameOf,
  outcomeText,
  type ProductOutcome,
  publishedOutcome,
  unpublishedOutcome,
} from './product-outcome.ts'
import { productProgress } from './product-progress.ts'
import { type DeployedProduct, type WaveMember, waveOf } from './wave.ts'

export interface WaveDeps {
  readonly pool: pg.Pool
  /** The tenant's products in service that are made of one of these (`namespace.name`), be it through others. */
  readersOfProducts(tenant: string, names: readonly string[]): Promise<readonly DeployedProduct[]>
  materialize(request: MaterializeRequest): Promise<MaterializeResult>
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
  { unread, isHeld, done }: Before,
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
  for (const member of waveOf(first, await deps.readersOfProducts(tenant, names))) {
    if (outcomes.some(({ id }) => id === member.product.id)) continue
    const reason = isHeld?.(member) === true ? WAITS : leftBecause(member, unread(member), outcomes)
    const { outcome, error, notes = [] } = await outcomeFor(run, member, { reason, done: outcomes }, deps)
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
}

async function outcomeFor(
  run: WaveRun,
  { product }: DeployedProduct,
  { reason, done }: { readonly reason: RecordedError | null; readonly done: readonly ProductOutcome[] },
  deps: WaveDeps,
): Promise<Materialized> {
  const left = async (state: 'failed' | 'skipped', why: RecordedError) =>
    unpublishedOutcome(product, state, why, (await latestEpoch(deps.pool, product.id))?.epoch ?? null)
  if (reason !== null) return { outcome: await left('skipped', reason) }
  const { begun, report, settle } = productProgress(deps.pool, run.lease, product, done)
  try {
    const request = { product, runId: run.lease.runId, signal: run.signal, begun, report, ifChanged: true }
    const made = await deps.materialize(request)
    return { outcome: publishedOutcome(product, made), notes: made.contractNotes }
  } catch (error) {
    run.signal.throwIfAborted()
    const isLeft = isSluiceError(error) && LEFT_AS_IT_IS.has(error.code)
    // What fails before there is anything to do has failed, too.
    if (!isLeft) await deps.noteBegun(product, run.lease.runId, null)
    const outcome = await left(isLeft ? 'skipped' : 'failed', recordedError(error))
    return isLeft ? { outcome } : { outcome, error: about(fullNameOf(product), error) }
  } finally {
    await settle()
  }
}

const isUnchanged = ({ reason }: ProductOutcome): boolean => reason?.code === UNCHANGED

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
    isUnchanged(outcome) ? 'info' : hasLosses ? 'warn' : level[outcome.state],
    outcomeText(outcome),
  )
}
