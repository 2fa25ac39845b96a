/**
 * The steps that bring a dataset from one epoch to the next, whatever its rows look like: raise the fence, judge the
 * epoch, stage without a lock, then lock the dataset's line, judge again, move rows and epoch in one transaction.
 */
import { type ChangeSet, type Commit, type Host, type Receipt, SluiceError } from '@sluice/sdk'
import {
  checkFence,
  type Dataset,
  type DatasetKey,
  historyInstant,
  loadDataset,
  moveDataset,
  notProvisioned,
  raiseFence,
  requirePlace,
  retiredPartitions,
  setEpoch,
} from './datasets.ts'
import {
  attachPartition,
  beginDefinitions,
  createPartition,
  ensureParent,
  finishPartition,
  partitionName,
  sweepRetired,
} from './partitions.ts'
import type { WantedTable } from './provisioning.ts'
import { begin, type Client, type Sessions } from './sessions.ts'
import { shapeHash } from './table-shape.ts'

export interface Counts {
  readonly upserted: number
  readonly deleted: number
}

/** A table kept beside the rows and moved with them, such as an aggregate. */
export interface Companion {
  readonly wanted: WantedTable
  /** Fills its new partition from the new partition of the rows; both are the tenant's alone. */
  fill(client: Client, partition: string, rows: string): Promise<void>
}

/** How a kind of table takes rows. */
export interface EpochSteps {
  readonly companions?: readonly Companion[]
  /** Ends the partition's `create table`, where it is partitioned further. */
  readonly partitionBy?: string
  /** Fills a new partition, by COPY, and finishes it: indexes and policies. Nobody else sees it yet. */
  build(client: Client, partition: string, instant: string): Promise<Counts>
  /** Shows the filled partition to readers. Default: attached to the parent of its shape, which tenants share. */
  place?(client: Client, partition: string): Promise<void>
  /** Brings what is to be merged next to the rows, in tables of the session, without touching rows. */
  stage(client: Client): Promise<void>
  /** Makes room that only the owner may make, before the merge; a repeat finds it made. */
  prepare?(client: Client, dataset: Dataset): Promise<void>
  /** Changes rows as the writer, under the tenant's policy, while the dataset's line is locked. */
  merge(client: Client, dataset: Dataset, instant: string): Promise<Counts>
}

/** A connection that has gone silent inside its transaction must not hold the dataset's line for ever. */
const WRITER_TIMEOUTS = `set local lock_timeout = '30s'; set local idle_in_transaction_session_timeout = '120s'`

export async function writeEpoch(
  sessions: Sessions,
  host: Host,
  wanted: WantedTable,
  changes: ChangeSet,
  commit: Commit,
  steps: EpochSteps,
): Promise<Receipt> {
  const { key } = wanted
  const doing = `writing ${key.domain}.${key.product}`
  const dataset = await sessions.transaction(
    'writer',
    key.tenant,
    doing,
    async (client) => {
      for (const companion of steps.companions ?? []) await checkCompanion(client, companion.wanted)
      return await raiseFence(client, key, commit.fence)
    },
    commit.signal,
  )
  requirePlace(dataset, key)
  if (!isDue(dataset, wanted, changes, commit)) return alreadyApplied(commit)
  const write: Write = { sessions, host, wanted, changes, commit, steps, doing }
  return dataset.partition === null ? await build(write) : await merge(write)
}

async function checkCompanion(client: Client, wanted: WantedTable): Promise<void> {
  const dataset = await loadDataset(client, wanted.key)
  if (dataset === null) throw notProvisioned(wanted.key)
  if (dataset.shapeHash !== shapeHash(wanted.shape)) throw otherShape(wanted.key)
}

function otherShape(key: DatasetKey): SluiceError {
  return new SluiceError('CONFLICT', `${key.domain}.${key.product} is provisioned for another schema or config`, {
    code: 'schema_conflict',
    remedy: 'Provision the endpoint, then repeat the write.',
  })
}

interface Write {
  readonly sessions: Sessions
  readonly host: Host
  readonly wanted: WantedTable
  readonly changes: ChangeSet
  readonly commit: Commit
  readonly steps: EpochSteps
  readonly doing: string
}

function alreadyApplied(commit: Commit): Receipt {
  return { epoch: commit.epoch, outcome: 'already_applied', upserted: 0, deleted: 0 }
}

/** False where the epoch is in already. Throws CONFLICT for one that does not follow. */
export function isDue(dataset: Dataset, wanted: WantedTable, changes: ChangeSet, commit: Commit): boolean {
  const where = `${wanted.key.domain}.${wanted.key.product}`
  if (dataset.epoch === commit.epoch) return false
  if (dataset.epoch !== null && dataset.epoch > commit.epoch) {
    throw new SluiceError('CONFLICT', `${where} is past epoch ${commit.epoch} already`, {
      code: 'older_epoch',
      remedy: 'Materialize anew: older content comes back as a new epoch.',
      details: { applied: dataset.epoch, epoch: commit.epoch },
    })
  }
  const follows = changes.mode === 'full' && commit.previousEpoch === null
  if (!follows && commit.previousEpoch !== dataset.epoch) {
    throw new SluiceError('CONFLICT', `${where} is not at the epoch that the changes start from`, {
      code: 'epoch_gap',
      remedy: 'Send a full set.',
      details: { applied: dataset.epoch, previousEpoch: commit.previousEpoch },
    })
  }
  if (dataset.shapeHash !== shapeHash(wanted.shape)) throw otherShape(wanted.key)
  return true
}

/** The dataset's line, locked until the transaction ends; null where the epoch has come in meanwhile. */
async function lockForWrite(client: Client, write: Write): Promise<Dataset | null> {
  const { wanted, changes, commit } = write
  const dataset = checkFence(await loadDataset(client, wanted.key, true), wanted.key, commit.fence)
  requirePlace(dataset, wanted.key)
  return isDue(dataset, wanted, changes, commit) ? dataset : null
}

async function build(write: Write): Promise<Receipt> {
  const { sessions, host, wanted, commit, steps } = write
  const { key, shape } = wanted
  const companions = steps.companions ?? []
  await sweepLeftovers(sessions, key)
  const receipt = await sessions.use(
    'owner',
    write.doing,
    async (client): Promise<Receipt> => {
      const partition = partitionName(host.randomBytes(12))
      await beginDefinitions(client, key.tenant)
      await createPartition(client, partition, key.tenant, shape, steps.partitionBy)
      const instant = await historyInstant(client, key, commit, write.changes.mode === 'full')
      const counts = await steps.build(client, partition, instant)
      const beside: string[] = []
      for (const companion of companions) beside.push(await buildCompanion(client, host, companion, partition))
      await host.faultPoint(`${key.endpoint}.after-stage`)
      const dataset = await lockForWrite(client, write)
      if (dataset === null) return await giveUp(client, alreadyApplied(commit))
      if (dataset.partition !== null) throw overtaken(write)
      if (steps.place) await steps.place(client, partition)
      else await placePartition(client, sessions, wanted, partition)
      for (const [index, companion] of companions.entries()) {
        await placePartition(client, sessions, companion.wanted, beside[index] ?? '')
      }
      await commitEpoch(client, write, instant)
      return { epoch: commit.epoch, outcome: 'applied', ...counts }
    },
    commit.signal,
  )
  await host.faultPoint(`${key.endpoint}.after-commit`)
  return receipt
}

/** A filled partition for what is kept beside the rows, not attached yet; its name. */
export async function buildCompanion(client: Client, host: Host, companion: Companion, rows: string): Promise<string> {
  const { key, shape } = companion.wanted
  const partition = partitionName(host.randomBytes(12))
  await createPartition(client, partition, key.tenant, shape)
  await companion.fill(client, partition, rows)
  await finishPartition(client, partition, shape)
  return partition
}

/** Attaches the partition to the parent of its shape and says so in the register. */
export async function placePartition(
  client: Client,
  sessions: Sessions,
  wanted: WantedTable,
  partition: string,
): Promise<void> {
  const { key, schema, table, shape } = wanted
  const relation = await ensureParent(client, sessions.roles, schema, table, shape)
  await attachPartition(client, schema, relation, partition, key.tenant)
  await moveDataset(client, key, { relation, partition, shape, hash: shapeHash(shape) })
}

/** A partition of the tenant that waits for its removal may still stand in the place of the new one. */
async function sweepLeftovers(sessions: Sessions, key: DatasetKey): Promise<void> {
  const left = await sessions.transaction('owner', key.tenant, 'looking for retired partitions', (client) =>
    retiredPartitions(client, key.tenant),
  )
  if (left.length > 0) await sweepRetired(sessions, key.tenant)
}

async function merge(write: Write): Promise<Receipt> {
  const { sessions, host, wanted, commit, steps } = write
  const receipt = await sessions.use(
    'writer',
    write.doing,
    async (client): Promise<Receipt> => {
      await begin(client, wanted.key.tenant, '', `${WRITER_TIMEOUTS};`)
      await steps.stage(client)
      await host.faultPoint(`${wanted.key.endpoint}.after-stage`)
      if (steps.prepare) await prepare(write, client)
      const dataset = await lockForWrite(client, write)
      if (dataset === null) return await giveUp(client, alreadyApplied(commit))
      if (dataset.partition === null) throw overtaken(write)
      const instant = await historyInstant(client, wanted.key, commit, write.changes.mode === 'full')
      const counts = await steps.merge(client, dataset, instant)
      await commitEpoch(client, write, instant)
      return { epoch: commit.epoch, outcome: 'applied', ...counts }
    },
    commit.signal,
  )
  await host.faultPoint(`${wanted.key.endpoint}.after-commit`)
  return receipt
}

async function prepare(write: Write, client: Client): Promise<void> {
  const dataset = checkFence(await loadDataset(client, write.wanted.key), write.wanted.key, write.commit.fence)
  await write.steps.prepare?.(client, dataset)
}

async function commitEpoch(client: Client, write: Write, instant: string): Promise<void> {
  const { host, wanted, commit, steps } = write
  await setEpoch(client, wanted.key, commit, instant)
  for (const { wanted: beside } of steps.companions ?? []) await setEpoch(client, beside.key, commit, instant)
  await host.faultPoint(`${wanted.key.endpoint}.before-commit`)
  await client.query('commit')
}

async function giveUp(client: Client, receipt: Receipt): Promise<Receipt> {
  await client.query('rollback')
  return receipt
}

function overtaken(write: Write): SluiceError {
  return new SluiceError('TRANSIENT', `${write.doing}: the table was replaced meanwhile`, {
    code: 'store_contention',
    remedy: 'Repeat the write.',
  })
}
