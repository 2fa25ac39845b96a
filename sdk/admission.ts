/** Decisions that every store takes in the same way, so that none has to be worked out again. */
import { createHash } from 'node:crypto'
import type { Commit, Receipt } from './change-set.ts'
import { isSluiceError, SluiceError } from './errors.ts'
import type { Plan, PlanStep } from './store.ts'

/** What a store remembers of a target's writes. */
export interface SeenWrites {
  /** The epoch last applied; null before the first. */
  readonly epoch: number | null
  /** The highest token seen, also of writes that came to nothing; null before the first. */
  readonly fence: bigint | null
}

/**
 * What is to become of a write, for stores that note its token in the same step. Throws FENCED `stale_fence`. A token counts from
 * the moment in which a write brings it, whatever becomes of the write: so note it first, and then throw `refusal`, CONFLICT
 * `older_epoch` or `epoch_gap`, where there is one. `receipt` is of an epoch that is there already.
 */
export function judgeCommit(
  seen: SeenWrites,
  commit: Commit,
): { readonly receipt: Receipt | null; readonly refusal: SluiceError | null } {
  try {
    return { receipt: admitCommit(seen, commit), refusal: null }
  } catch (error) {
    if (isSluiceError(error, 'CONFLICT')) return { receipt: null, refusal: error as SluiceError }
    throw error
  }
}

/**
 * Whether this write is to be done: null where it is, a receipt where the epoch is already there. Throws FENCED
 * `stale_fence`, CONFLICT `older_epoch` and CONFLICT `epoch_gap`, in this order. A store asks before it stages, and
 * again in the step that makes the epoch visible, since another writer may have come by. Whoever notes the token in the same
 * step asks `judgeCommit`.
 */
export function admitCommit(seen: SeenWrites, commit: Commit): Receipt | null {
  if (seen.fence !== null && commit.fence < seen.fence) {
    throw new SluiceError('FENCED', 'a newer writer has taken over this dataset', { code: 'stale_fence' })
  }
  if (seen.epoch === commit.epoch) {
    return { epoch: commit.epoch, outcome: 'already_applied', upserted: 0, deleted: 0 }
  }
  if (seen.epoch !== null && commit.epoch < seen.epoch) {
    throw new SluiceError('CONFLICT', 'the store has a newer epoch', { code: 'older_epoch' })
  }
  if (commit.previousEpoch !== null && commit.previousEpoch !== seen.epoch) {
    throw new SluiceError('CONFLICT', 'the change set does not start from the epoch that the store has', {
      code: 'epoch_gap',
      remedy: 'Send a full set.',
    })
  }
  return null
}

/** A plan with the hash of its steps. */
export function planOfSteps(steps: readonly PlanStep[]): Plan {
  return { steps, hash: createHash('sha256').update(JSON.stringify(steps)).digest('hex') }
}

/** Throws CONFLICT `stale_plan` where what would be done now is not what was planned. */
export function checkPlanHash(plan: Plan, expectedHash: string | undefined): void {
  if (expectedHash === undefined || expectedHash === plan.hash) return
  throw new SluiceError('CONFLICT', 'the plan is no longer what would be done', {
    code: 'stale_plan',
    remedy: 'Plan again.',
  })
}

/** What `read` throws before the first write, and for a target that is not there. */
export function notMaterialized(): SluiceError {
  return new SluiceError('TRANSIENT', 'nothing was materialized here yet', {
    code: 'not_materialized',
    remedy: 'Wait for the first materialization.',
  })
}

/** What `rls.describe` throws where nothing is in place. */
export function policyMissing(): SluiceError {
  return new SluiceError('CONFLICT', 'no policy is in place', { code: 'policy_missing' })
}

/** What `provision` throws where the rows that are there do not fit the new schema. */
export function schemaConflict(): SluiceError {
  return new SluiceError('CONFLICT', 'the rows that are there do not fit the new schema', {
    code: 'schema_conflict',
    remedy: 'Add nullable columns only, or use another product name.',
  })
}
