/**
 * Tables and products that failed by themselves in a run of a continuous schedule. They wait for another try, longer each time,
 * while the others go on; any run that they succeed in ends it.
 */
import { isSluiceError, SluiceError } from '@sluice/sdk'
import type pg from 'pg'
import { inTransaction } from '../database/pools.ts'
import { backOffMs } from '../jobs/back-off.ts'
import { hurryNow } from '../jobs/claims.ts'
import { recordedError } from '../registry/deployments.ts'
import {
  addHolds,
  endHolds,
  type FailedPart,
  type Hold,
  holdsOf,
  putOffHolds,
  settleHolds,
} from '../registry/follows.ts'
import { checkRun } from '../registry/run-claims.ts'
import { FOLLOW_JOB } from '../registry/schedule-job.ts'
import type { Transaction } from '../registry/sql.ts'
import type { IngestionRun } from './ingestion-run.ts'
import { isLeftToRun, isUnchanged, type Wave } from './make-wave.ts'
import type { ProductOutcome } from './product-outcome.ts'
import type { SourceTable } from './source-tables.ts'

const BACK_OFF = { firstMs: 10_000, lastMs: 3_600_000 } as const

export interface HeldParts {
  /** What has failed before, whether it waits still or not. */
  readonly known: readonly Hold[]
  isTable(name: string): boolean
  isProduct(id: string): boolean
}

export const NOTHING_HELD: HeldParts = { known: [], isTable: () => false, isProduct: () => false }

/** Whoever asks for a run has all tried. */
export async function heldParts({ connection, isFollowing }: IngestionRun, pool: pg.Pool): Promise<HeldParts> {
  const known = await holdsOf(pool, connection.id)
  const now = isFollowing === true ? known.filter(({ isHeld }) => isHeld) : []
  const has = (kind: Hold['kind'], part: string) => now.some((one) => one.kind === kind && one.part === part)
  return { known, isTable: (name) => has('table', name), isProduct: (id) => has('product', id) }
}

/** By id the products that failed before and are tried now: how often they have failed. */
export function triedAgain({ known }: HeldParts): Readonly<Record<string, number>> {
  const tried = known.filter(({ kind, isHeld }) => kind === 'product' && !isHeld)
  return Object.fromEntries(tried.map(({ part, failures }) => [part, failures]))
}

interface Outcome {
  readonly tables: readonly SourceTable[]
  readonly failures: ReadonlyMap<string, unknown>
  readonly wave: Wave
  readonly held: HeldParts
}

/** Tables that the run passed over, for its result. */
export async function settleParts(
  { connection, lease, isFollowing }: IngestionRun,
  { tables, failures, wave, held }: Outcome,
  pool: pg.Pool,
): Promise<{ readonly held?: readonly string[] }> {
  const left = held.known.filter(({ kind, part }) => (kind === 'table' ? held.isTable(part) : held.isProduct(part)))
  const passedOver = left.flatMap(({ kind, part }) => (kind === 'table' ? [part] : []))
  // Where nothing could be read it is the connection that failed, for which its schedule waits.
  const isOfAll = tables.length > 0 && failures.size === tables.length
  const tableOf = ([part, error]: readonly [string, unknown]) => {
    return { kind: 'table', part, errorCode: recordedError(error).code } as const
  }
  const failedTables = isOfAll ? [] : [...failures].map(tableOf)
  const failed = waitingFor([...failedTables, ...failedProducts(wave.outcomes)], held.known)
  // Of a run that somebody asked for, what has not waited before is told to him, and is tried again when he asks.
  const isKnown = ({ kind, part }: Pick<Hold, 'kind' | 'part'>) =>
    held.known.some((one) => one.kind === kind && one.part === part)
  const waiting = isFollowing === true ? failed : failed.filter(isKnown)
  // What comes of those is told by the run that they are left to, which may have told it by now.
  const toOthers = wave.outcomes.filter(({ reason }) => isLeftToRun(reason))
  const tried = toOthers.map(({ id: part }) => ({ kind: 'product' as const, part, errorCode: '' }))
  if (held.known.length > 0 || waiting.length > 0) {
    await inTransaction(pool, async (tx) => {
      await checkRun(tx, lease)
      const stays = [...waiting, ...left, ...tried]
      const over = held.known.filter((one) => !stays.some(({ kind, part }) => kind === one.kind && part === one.part))
      await settleHolds(tx, connection.id, waiting, over)
      await putOffHolds(tx, connection.id, waitingFor(tried.filter(isKnown), held.known))
    })
  }
  return passedOver.length === 0 ? {} : { held: passedOver }
}

type Failed = Pick<FailedPart, 'kind' | 'part' | 'errorCode'>

const failedProducts = (outcomes: readonly ProductOutcome[]): readonly Failed[] =>
  outcomes.flatMap(({ id: part, state, reason }) =>
    state === 'failed' ? [{ kind: 'product' as const, part, errorCode: reason?.code ?? 'internal_error' }] : [],
  )

/** Longer each time. */
function waitingFor(failed: readonly Failed[], known: readonly Hold[]): readonly FailedPart[] {
  return failed.map(({ kind, part, errorCode }) => {
    const before = known.find((one) => one.kind === kind && one.part === part)?.failures ?? 0
    return { kind, part, errorCode, againMs: backOffMs(before, BACK_OFF) }
  })
}

/** What a run has done that products were left to: those that failed wait, and whoever follows the connection learns until when. */
export async function settleLeft(
  tx: Transaction,
  {
    connectionId,
    outcomes,
    known,
  }: { readonly connectionId: string; readonly outcomes: readonly ProductOutcome[]; readonly known: readonly Hold[] },
): Promise<void> {
  const isDone = (outcome: ProductOutcome) => outcome.epoch !== null || isUnchanged(outcome)
  await endHolds(
    tx,
    connectionId,
    outcomes.filter(isDone).map(({ id }) => id),
  )
  const failed = waitingFor(failedProducts(outcomes), known)
  await addHolds(tx, connectionId, failed)
  if (failed.length > 0) await hurryNow(tx, { kind: FOLLOW_JOB, key: connectionId })
}

/** The part waits for another try by itself, so that the run is not tried again as a whole. */
export function ofPart(error: unknown): unknown {
  if (!isSluiceError(error) || (error.kind !== 'TRANSIENT' && error.code !== 'lake_commit_conflict')) return error
  const { code, message, remedy, details, cause } = error
  return new SluiceError('CONFLICT', message, {
    code,
    cause,
    ...(remedy === undefined ? {} : { remedy }),
    ...(details === undefined ? {} : { details }),
  })
}
