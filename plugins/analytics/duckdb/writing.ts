/** A write moves no row: it registers which files the epoch is. */
import {
  type ChangeSet,
  type Commit,
  type Host,
  notMaterialized,
  type Receipt,
  SluiceError,
  type Target,
} from '@sluice/sdk'
import { filesOf, type Registration, type Registrations } from './registrations.ts'

export async function register(
  registrations: Registrations,
  host: Host,
  target: Target,
  changes: ChangeSet,
  commit: Commit,
): Promise<Receipt> {
  if (commit.signal.aborted)
    throw new SluiceError('TRANSIENT', 'the write was ended by its caller', { code: 'aborted' })
  const outcome = { receipt: null as Receipt | null, refusal: null as SluiceError | null }
  await host.faultPoint('analytics.before-register')
  await registrations.update(target, (now) => {
    if (now === null) throw notMaterialized()
    if (commit.fence < now.fence) throw fenced()
    const seen = commit.fence > now.fence ? { ...now, fence: commit.fence } : null
    outcome.refusal = refusalOf(now, commit)
    outcome.receipt = receiptOf(now, changes, commit)
    const isRegistered = outcome.refusal !== null || outcome.receipt.outcome === 'already_applied'
    return isRegistered ? seen : registered(now, changes, commit)
  })
  if (outcome.refusal !== null) throw outcome.refusal
  await host.faultPoint('analytics.after-register')
  return outcome.receipt ?? receiptOf(null, changes, commit)
}

function registered(now: Registration, changes: ChangeSet, commit: Commit): Registration {
  const { epoch, fence, committedAt } = commit
  return {
    ...now,
    fence,
    formerFiles: now.current === null ? [] : filesOf(now.current.snapshot),
    current: { applied: { epoch, fence, committedAt }, schema: changes.schema, snapshot: changes.lake },
  }
}

function receiptOf(now: Registration | null, changes: ChangeSet, { epoch }: Commit): Receipt {
  if (now?.current?.applied.epoch === epoch) return { epoch, outcome: 'already_applied', upserted: 0, deleted: 0 }
  return { epoch, outcome: 'applied', upserted: changes.upsertCount, deleted: changes.deleteCount }
}

function refusalOf({ current }: Registration, { epoch, previousEpoch }: Commit): SluiceError | null {
  const applied = current?.applied.epoch ?? null
  if (applied === epoch) return null
  if (applied !== null && epoch < applied) {
    return new SluiceError('CONFLICT', 'the store has a newer epoch', { code: 'older_epoch' })
  }
  if (previousEpoch === null || previousEpoch === applied) return null
  return new SluiceError('CONFLICT', 'the change set does not start from the epoch that the store has', {
    code: 'epoch_gap',
    remedy: 'Send a full set.',
  })
}

function fenced(): SluiceError {
  return new SluiceError('FENCED', 'a newer writer has taken over this dataset', { code: 'stale_fence' })
}
