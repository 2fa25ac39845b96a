/**
 * Tables and products that failed by themselves in a run of a continuous schedule. They wait for another try, longer each time,
 * while the others go on; any run that they succeed in ends it.
 */
import { isSluiceError, SluiceError } from '@sluice/sdk'
import type pg from 'pg'
import { inTransaction } from '../database/pools.ts'
import { backOffMs } from '../jobs/back-off.ts'
import { recordedError } from '../registry/deployments.ts'
import { type Hold, holdsOf, settleHolds } from '../registry/follows.ts'
import { checkRun } from '../registry/run-claims.ts'
import type { IngestionRun } from './ingestion-run.ts'
import type { Wave } from './make-wave.ts'
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
  const failedProducts = wave.outcomes.flatMap(({ id: part, state, reason }) =>
    state === 'failed' ? [{ kind: 'product' as const, part, errorCode: reason?.code ?? 'internal_error' }] : [],
  )
  const failed = [...failedTables, ...failedProducts].map(({ kind, part, errorCode }) => {
    const before = held.known.find((one) => one.kind === kind && one.part === part)?.failures ?? 0
    return { kind, part, errorCode, againMs: backOffMs(before, BACK_OFF) }
  })
  // Of a run that somebody asked for, what has not waited before is told to him, and is tried again when he asks.
  const isKnown = ({ kind, part }: Pick<Hold, 'kind' | 'part'>) =>
    held.known.some((one) => one.kind === kind && one.part === part)
  const waiting = isFollowing === true ? failed : failed.filter(isKnown)
  if (held.known.length > 0 || waiting.length > 0) {
    await inTransaction(pool, async (tx) => {
      await checkRun(tx, lease)
      await settleHolds(tx, connection.id, waiting, left)
    })
  }
  return passedOver.length === 0 ? {} : { held: passedOver }
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
