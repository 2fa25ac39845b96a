/**
 * A serving store in a few hundred lines: everything the contract asks, on a Map. It is the suite's oracle and a
 * tutorial for authors of stores; nothing of it survives the process, so no runtime offers it.
 */
import {
  batchFromRows,
  type ChangeSet,
  type Commit,
  checkOperationPlan,
  checkPlanHash,
  type Digest,
  type Health,
  type Host,
  type InstalledPolicy,
  type LogicalType,
  type OperationPlan,
  type PlanStep,
  type ProbeReport,
  planOfSteps,
  type ReadBatch,
  type ReadPlan,
  type Receipt,
  type Row,
  type ServingStore,
  SluiceError,
  type Target,
  tenantOf,
  toJsonValue,
  ttlMs,
} from '@sluice/sdk'
import { answer } from './answer.ts'
import { capabilities, type ReferenceConfig } from './config.ts'
import { rowsContaining } from './containing.ts'
import { applyChanges, refuseWithoutKey, stage } from './content.ts'
import { digestOf } from './digest.ts'
import type { Content, ReferenceMemory, StoredDataset } from './memory.ts'
import { judge, provisionSteps } from './provision.ts'

type ReferenceTarget = Target<ReferenceConfig>

/** So many epochs stay, for `activate`. */
const KEPT_EPOCHS = 3

/** So many rows stand in one batch of an answer. */
const BATCH_ROWS = 500

export function openReferenceStore(
  memory: ReferenceMemory,
  host: Host,
  privileged: boolean,
): ServingStore<ReferenceConfig> {
  return {
    async provision(target, mode, expectedHash) {
      tenantOf(target.scope)
      const plan = planOfSteps(provisionSteps(memory, target))
      if (mode === 'plan') return plan
      checkPlanHash(plan, expectedHash)
      const stored = memory.get(target)
      if (stored) Object.assign(stored, { schema: target.schema, config: target.config })
      else memory.set(target, emptyDataset(target))
      await host.faultPoint('reference.after-provision')
      return plan
    },

    rls: {
      async install(target, policy) {
        datasetOf(memory, target).policy = { ...policy }
      },
      async describe(target) {
        return describePolicy(datasetOf(memory, target))
      },
    },

    write: (target, changes, commit) => write(memory, host, target, changes, commit),

    read: (target, plan) => read(memory, host, target, plan),

    operate: (target, plan) => operate(memory, host, target, plan),

    async recover(target) {
      return newest(datasetOf(memory, target))?.applied ?? null
    },

    async validate(target, previous) {
      return judge(memory.get(target)?.schema ?? previous, target.schema)
    },

    async activate(target, epoch) {
      const stored = datasetOf(memory, target)
      if (!stored.contents.some((content) => content.applied.epoch === epoch)) throw epochNotKept(epoch)
      stored.servedEpoch = epoch
    },

    async digest(target, signal): Promise<Digest> {
      signal.throwIfAborted()
      return digestOf(served(datasetOf(memory, target)))
    },

    async drop(target, mode) {
      tenantOf(target.scope)
      const steps: PlanStep[] = memory.get(target) ? [{ action: 'drop', description: 'forget the dataset' }] : []
      if (mode === 'apply') memory.delete(target)
      return planOfSteps(steps)
    },

    async dropTenant(scope) {
      memory.deleteTenant(tenantOf(scope))
    },

    async probe(): Promise<ProbeReport> {
      const message = privileged ? 'this login could pass by them' : 'every dataset is addressed by its tenant'
      return { ok: !privileged, checks: [{ name: 'tenant walls', ok: !privileged, message }] }
    },

    health: (): Health => ({ status: 'ok' }),

    async close() {},
  }
}

async function write(
  memory: ReferenceMemory,
  host: Host,
  target: ReferenceTarget,
  changes: ChangeSet,
  commit: Commit,
): Promise<Receipt> {
  const stored = datasetOf(memory, target)
  const refused = admit(stored, commit)
  if (refused) return refused
  await host.faultPoint('reference.after-fence')
  const staged = await stage(changes, commit.signal)
  refuseWithoutKey(staged.upserts, stored.schema)
  await host.faultPoint('reference.after-stage')
  // Another writer may have come by while the rows were read: what follows is one step, with nothing awaited in it.
  const overtaken = admit(stored, commit)
  if (overtaken) return overtaken
  const content = applyChanges(newest(stored)?.versions ?? [], staged, stored, commit)
  stored.contents = [...stored.contents, content].slice(-KEPT_EPOCHS)
  stored.servedEpoch = commit.epoch
  await host.faultPoint('reference.after-commit')
  return {
    epoch: commit.epoch,
    outcome: 'applied',
    upserted: staged.upserts.length,
    deleted: staged.deletedKeys.length,
  }
}

/** Checks the writer's token and the epoch, in this order; a receipt where the epoch is already there. */
function admit(stored: StoredDataset, commit: Commit): Receipt | null {
  if (commit.fence < stored.fence) {
    throw new SluiceError('FENCED', 'a newer writer has taken over this dataset', { code: 'stale_fence' })
  }
  stored.fence = commit.fence
  const applied = newest(stored)?.applied.epoch ?? null
  if (applied === commit.epoch) {
    return { epoch: commit.epoch, outcome: 'already_applied', upserted: 0, deleted: 0 }
  }
  if (applied !== null && commit.epoch < applied) {
    throw new SluiceError('CONFLICT', 'the store has a newer epoch', { code: 'older_epoch' })
  }
  if (commit.previousEpoch !== null && commit.previousEpoch !== applied) {
    throw new SluiceError('CONFLICT', 'the change set does not start from the epoch that the store has', {
      code: 'epoch_gap',
      remedy: 'Send a full set.',
    })
  }
  return null
}

async function* read(
  memory: ReferenceMemory,
  host: Host,
  target: ReferenceTarget,
  plan: ReadPlan,
): AsyncGenerator<ReadBatch> {
  const endsAtMs = host.clock.nowMs() + plan.timeoutMs
  const stored = datasetOf(memory, target)
  const { alive, epoch, ttl } = readable(stored, plan, host)
  const { rows, types, next } = answer(stored, alive, plan, capabilities)
  for (let at = 0; at === 0 || at < rows.length; at += BATCH_ROWS) {
    // Between two batches the caller may have gone, and the time may be over.
    checkAwaited(plan.signal, endsAtMs, host)
    const part = rows.slice(at, at + BATCH_ROWS)
    const batch =
      plan.encoding === 'json'
        ? { rowCount: part.length, json: JSON.stringify(part.map((row) => jsonRow(plan.columns, types, row))) }
        : batchFromRows(part, plan.columns.length)
    const isLast = at + BATCH_ROWS >= rows.length
    yield { ...batch, epoch, ...ttl, ...(next === undefined || !isLast ? {} : { next }) }
  }
}

async function* operate(
  memory: ReferenceMemory,
  host: Host,
  target: ReferenceTarget,
  plan: OperationPlan,
): AsyncGenerator<ReadBatch> {
  const stored = datasetOf(memory, target)
  checkOperationPlan(plan, capabilities)
  const { alive, epoch, ttl } = readable(stored, plan, host)
  yield { ...rowsContaining(stored, alive, plan), epoch, ...ttl }
}

/** What is there at this moment, and for how long. */
function readable(stored: StoredDataset, { signal, timeoutMs }: Pick<ReadPlan, 'signal' | 'timeoutMs'>, host: Host) {
  checkAwaited(signal, host.clock.nowMs() + timeoutMs, host)
  const content = served(stored)
  const { epoch } = content.applied
  const remainingMs = remainingTtlMs(stored, content, host.clock.nowMs())
  const alive = remainingMs === null || remainingMs > 0 ? content : { ...content, versions: [] }
  const ttl = remainingMs === null ? {} : { ttlRemainingS: Math.max(0, Math.floor(remainingMs / 1000)) }
  return { alive, epoch, ttl }
}

/** Throws TRANSIENT `aborted` or `deadline_exceeded` where nobody waits for the read any more. */
function checkAwaited(signal: AbortSignal, endsAtMs: number, { clock }: Host): void {
  if (signal.aborted) throw new SluiceError('TRANSIENT', 'the read was ended by its caller', { code: 'aborted' })
  if (clock.nowMs() < endsAtMs) return
  throw new SluiceError('TRANSIENT', 'the read did not end within its time', {
    code: 'deadline_exceeded',
    remedy: 'Ask for less, or allow more time.',
  })
}

function jsonRow(names: readonly string[], types: readonly LogicalType[], row: Row): Record<string, unknown> {
  return Object.fromEntries(
    names.map((name, index) => [name, toJsonValue(row[index] ?? null, types[index] ?? 'string')]),
  )
}

function remainingTtlMs(stored: StoredDataset, content: Content, nowMs: number): number | null {
  if (stored.config.ttl === undefined) return null
  return Date.parse(content.applied.committedAt) + ttlMs(stored.config.ttl) - nowMs
}

function datasetOf(memory: ReferenceMemory, target: ReferenceTarget): StoredDataset {
  tenantOf(target.scope)
  const stored = memory.get(target)
  if (stored) return stored
  throw new SluiceError('TRANSIENT', 'nothing was materialized here yet', { code: 'not_materialized' })
}

function newest(stored: StoredDataset): Content | undefined {
  return stored.contents.at(-1)
}

function served(stored: StoredDataset): Content {
  const content = stored.contents.find(({ applied }) => applied.epoch === stored.servedEpoch)
  if (content) return content
  throw new SluiceError('TRANSIENT', 'nothing was materialized here yet', { code: 'not_materialized' })
}

function emptyDataset(target: ReferenceTarget): StoredDataset {
  return {
    tenant: tenantOf(target.scope),
    schema: target.schema,
    config: target.config,
    policy: null,
    fence: 0n,
    contents: [],
    servedEpoch: null,
  }
}

function epochNotKept(epoch: number): SluiceError {
  return new SluiceError('CONFLICT', 'the store does not keep this epoch', {
    code: 'epoch_not_kept',
    details: { epoch },
  })
}

function describePolicy(stored: StoredDataset): InstalledPolicy {
  if (stored.policy) return { ...stored.policy, enforcedBy: 'every dataset is addressed by its tenant' }
  throw new SluiceError('CONFLICT', 'no policy is in place', { code: 'policy_missing' })
}
