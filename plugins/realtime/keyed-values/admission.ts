/** Who may write which epoch. */
import { type AppliedEpoch, type Commit, isSluiceError, type Receipt, SluiceError } from '@sluice/sdk'

/** What of a dataset's marker decides about a write. */
export interface Standing {
  readonly applied: AppliedEpoch | null
  /** The highest token seen. */
  readonly fence: bigint
  /** The values are gone; the next write has to bring them all. */
  readonly isExpired: boolean
}

/** As `admit`, but that a refusal of the epoch is given and not thrown: the token counts, so note it first. */
export function judge(
  marker: Standing,
  commit: Commit,
): { readonly receipt: Receipt | null; readonly refusal: SluiceError | null } {
  try {
    return { receipt: admit(marker, commit), refusal: null }
  } catch (error) {
    if (isSluiceError(error, 'CONFLICT')) return { receipt: null, refusal: error }
    throw error
  }
}

/** Checks the token, then the epoch; a receipt where the epoch is already there. */
export function admit(marker: Standing, { epoch, previousEpoch, fence }: Commit): Receipt | null {
  if (fence < marker.fence) throw fenced()
  const applied = marker.applied?.epoch ?? null
  if (applied === epoch && !marker.isExpired) return { epoch, outcome: 'already_applied', upserted: 0, deleted: 0 }
  if (applied !== null && epoch < applied) {
    throw new SluiceError('CONFLICT', 'the store has a newer epoch', { code: 'older_epoch' })
  }
  if (previousEpoch !== null && (previousEpoch !== applied || marker.isExpired)) {
    throw new SluiceError('CONFLICT', 'the change set does not start from the epoch that the store has', {
      code: 'epoch_gap',
      remedy: 'Send a full set.',
    })
  }
  return null
}

export function fenced(): SluiceError {
  return new SluiceError('FENCED', 'a newer writer has taken over this dataset', { code: 'stale_fence' })
}

export function truncated(): SluiceError {
  return new SluiceError('TRANSIENT', 'the change set does not hold as many rows as it announced', {
    code: 'truncated_change_set',
    remedy: 'Send it again.',
  })
}
