import { isDeepStrictEqual } from 'node:util'
import {
  answerFromRows,
  batchFromRows,
  type ChangeSet,
  type Commit,
  checkPlanHash,
  checkReadPlan,
  type Host,
  judgeCommit,
  notMaterialized,
  type PlanStep,
  planOfSteps,
  policyMissing,
  projectRow,
  type ReadBatch,
  type ReadPlan,
  type Receipt,
  type ServingStore,
  SluiceError,
  schemaConflict,
  type TableSchema,
  type Target,
  tenantOf,
} from '@sluice/sdk'
import { capabilities } from './capabilities.ts'
import type { Config } from './index.ts'
import type { Dataset, Space } from './memory.ts'
import { changed } from './rows.ts'

export function openStore(space: Space, host: Host): ServingStore<Config> {
  return {
    async provision(target, mode, expectedHash) {
      const plan = planOfSteps(provisionSteps(space.get(target), target))
      if (mode === 'plan') return plan
      checkPlanHash(plan, expectedHash)
      const { schema, config } = target
      const former = space.get(target)
      space.put(target, { ...(former ?? emptyDataset(target)), schema, config })
      await host.faultPoint('store.after-provision')
      return plan
    },

    rls: {
      async install(target, policy) {
        space.put(target, { ...datasetOf(space, target), policy })
      },
      async describe(target) {
        const { policy } = datasetOf(space, target)
        if (policy === null) throw policyMissing()
        return { ...policy, enforcedBy: 'every dataset is addressed by its tenant' }
      },
    },

    write: (target, changes, commit) => write(space, host, target, changes, commit),

    read: (target, plan) => read(space, target, plan),

    async recover(target) {
      const { content } = datasetOf(space, target)
      return content && { epoch: content.epoch, fence: content.fence, committedAt: content.committedAt }
    },

    async drop(target, mode) {
      const steps: PlanStep[] = space.get(target) ? [{ action: 'drop', description: 'forget the dataset' }] : []
      if (mode === 'apply') space.remove(target)
      return planOfSteps(steps)
    },

    async dropTenant(scope) {
      space.removeTenant(tenantOf(scope))
    },

    async probe() {
      const message = 'every dataset is addressed by its tenant'
      return { ok: true, checks: [{ name: 'tenant walls', ok: true, message }] }
    },

    health: () => ({ status: 'ok' }),

    async close() {},
  }
}

function provisionSteps(dataset: Dataset | undefined, target: Target<Config>): readonly PlanStep[] {
  const name = `${target.domain}.${target.product}`
  if (dataset === undefined) return [{ action: 'create', description: `make a place for ${name}` }]
  if (!growsInto(dataset.schema, target.schema)) throw schemaConflict()
  if (isDeepStrictEqual([dataset.schema, dataset.config], [target.schema, target.config])) return []
  return [{ action: 'alter', description: `change ${name} to its new columns` }]
}

/** Rows stay where they are: new columns come last and may be null. */
function growsInto(former: TableSchema, next: TableSchema): boolean {
  const kept = next.columns.slice(0, former.columns.length)
  const added = next.columns.slice(former.columns.length)
  return (
    isDeepStrictEqual([former.columns, former.primaryKey], [kept, next.primaryKey]) &&
    added.every(({ nullable }) => nullable)
  )
}

async function write(
  space: Space,
  host: Host,
  target: Target<Config>,
  changes: ChangeSet,
  commit: Commit,
): Promise<Receipt> {
  const done = admit(space, target, commit)
  if (done) return done
  await host.faultPoint('store.after-fence')
  const former = datasetOf(space, target).content?.rows ?? new Map()
  const { rows, upserted, deleted } = await changed(former, changes, commit.signal)
  await host.faultPoint('store.after-stage')
  // Another writer may have come by while the rows were read: what follows is one step, with nothing awaited in it.
  const overtaken = admit(space, target, commit)
  if (overtaken) return overtaken
  const { epoch, fence, committedAt } = commit
  space.put(target, { ...datasetOf(space, target), content: { epoch, fence, committedAt, rows } })
  await host.faultPoint('store.after-commit')
  return { epoch, outcome: 'applied', upserted, deleted }
}

/** Notes the writer's token before anything else is decided. */
function admit(space: Space, target: Target<Config>, commit: Commit): Receipt | null {
  const dataset = datasetOf(space, target)
  const seen = { epoch: dataset.content?.epoch ?? null, fence: dataset.fence }
  const { receipt, refusal } = judgeCommit(seen, commit)
  space.put(target, { ...dataset, fence: commit.fence })
  if (refusal) throw refusal
  return receipt
}

async function* read(space: Space, target: Target<Config>, plan: ReadPlan): AsyncGenerator<ReadBatch> {
  checkReadPlan(plan, capabilities)
  const { content, policy, schema } = datasetOf(space, target)
  if (content === null) throw notMaterialized()
  if (plan.signal.aborted) throw new SluiceError('TRANSIENT', 'the read was ended by its caller', { code: 'aborted' })
  if (plan.timeoutMs <= 0)
    throw new SluiceError('TRANSIENT', 'the read has no time left', { code: 'deadline_exceeded' })
  // Without a policy there are no rows, whatever was written.
  const { rows, next } = answerFromRows(plan, schema, policy === null ? [] : content.rows.values())
  const page = rows.map((row) => projectRow(row, schema, plan.columns))
  yield { ...batchFromRows(page, plan.columns.length), epoch: content.epoch, ...(next ? { next } : {}) }
}

function datasetOf(space: Space, target: Target<Config>): Dataset {
  const dataset = space.get(target)
  if (dataset === undefined) throw notMaterialized()
  return dataset
}

function emptyDataset({ scope, schema, config }: Target<Config>): Dataset {
  return { tenant: tenantOf(scope), schema, config, policy: null, fence: null, content: null }
}
