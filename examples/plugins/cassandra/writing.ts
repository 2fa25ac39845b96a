import {
  type ChangeSet,
  type ColumnBatch,
  type Commit,
  type Host,
  judgeCommit,
  type Receipt,
  type Row,
  rowsOf,
  SluiceError,
  type Target,
  type Value,
} from '@sluice/sdk'
import { keyText, rowText } from './cells.ts'
import type { Cluster } from './cluster.ts'
import { addressOf, BY_ADDRESS, type Dataset, datasetOf, dropGenerations, PARTS } from './datasets.ts'
import type { Config } from './index.ts'
import { partOf } from './parts.ts'
import { checkAborted } from './reading.ts'
import { randomUuid } from './uuid.ts'

const ATTEMPTS = 20

/** So many epochs lie over each other before everything is written anew. */
const MAX_EPOCHS_OF_GENERATION = 200

const INSERT = 'INSERT INTO rows (dataset, generation, part, key, epoch, attempt, cells) VALUES (?, ?, ?, ?, ?, ?, ?)'

/**
 * Rows are written as versions of an attempt that nobody looks for yet. One conditional statement then takes the attempt
 * into the pointer, and the epoch with it.
 */
export async function writeChanges(
  cluster: Cluster,
  host: Host,
  target: Target<Config>,
  changes: ChangeSet,
  commit: Commit,
): Promise<Receipt> {
  const admitted = await settle(cluster, target, commit, ({ fence }) => ({ set: 'fence = ?', values: [fence] }))
  if ('receipt' in admitted) return admitted.receipt
  await host.faultPoint('lookup.after-fence')
  const { dataset } = admitted
  if (changes.mode === 'delta' && dataset.attempts.size >= MAX_EPOCHS_OF_GENERATION) throw tooManyEpochs()
  const attempt = randomUuid(host)
  const generation = changes.mode === 'full' || dataset.generation === null ? attempt : dataset.generation
  const place = { cluster, dataset, generation, attempt, epoch: BigInt(commit.epoch) }
  if (generation === attempt) {
    const noted = [[dataset.id, generation, place.epoch]]
    await cluster.many('INSERT INTO generations (dataset, generation, epoch) VALUES (?, ?, ?)', noted)
  }
  const counts = await stage(place, changes, commit.signal)
  await host.faultPoint('lookup.after-stage')
  const receipt = await publish(place, target, commit, counts)
  await host.faultPoint('lookup.after-commit')
  await dropGenerations(cluster, { id: dataset.id, generation }, place.epoch)
  return receipt
}

interface Place {
  readonly cluster: Cluster
  readonly dataset: Dataset
  readonly generation: unknown
  readonly attempt: unknown
  readonly epoch: bigint
}

interface Counts {
  readonly upserted: number
  readonly deleted: number
}

async function publish(place: Place, target: Target<Config>, commit: Commit, counts: Counts): Promise<Receipt> {
  const { cluster, generation, attempt, epoch, dataset } = place
  const settled = await settle(cluster, target, commit, (seen) => {
    if (String(seen.id) !== String(dataset.id)) throw replaced()
    const isNew = String(generation) === String(attempt)
    const attempts = new Map<bigint, unknown>(isNew ? [] : seen.attempts).set(epoch, attempt)
    const columns = ['fence', 'epoch', 'epoch_fence', 'committed_at', 'generation', 'attempts']
    return {
      set: columns.map((name) => `${name} = ?`).join(', '),
      values: [commit.fence, epoch, commit.fence, commit.committedAt, generation, Object.fromEntries(attempts)],
    }
  })
  if ('receipt' in settled) return settled.receipt
  return { epoch: commit.epoch, outcome: 'applied', ...counts }
}

interface Change {
  readonly set: string
  readonly values: readonly unknown[]
}

/** Decides about the commit and changes the pointer, in one step: overtaken in between, it decides anew. */
async function settle(
  cluster: Cluster,
  target: Target<Config>,
  commit: Commit,
  change: (seen: Dataset & Pick<Commit, 'fence'>) => Change,
): Promise<{ readonly dataset: Dataset } | { readonly receipt: Receipt }> {
  for (let attempt = 0; attempt < ATTEMPTS; attempt += 1) {
    checkAborted(commit.signal)
    const dataset = await datasetOf(cluster, target)
    const seen = { epoch: dataset.applied?.epoch ?? null, fence: dataset.fence }
    const { receipt, refusal } = judgeCommit(seen, commit)
    const { set, values } =
      receipt || refusal ? { set: 'fence = ?', values: [commit.fence] } : change({ ...dataset, fence: commit.fence })
    const condition = [...addressOf(target), dataset.id, dataset.fence, seen.epoch === null ? null : BigInt(seen.epoch)]
    const query = `UPDATE datasets SET ${set} WHERE ${BY_ADDRESS} IF id = ? AND fence = ? AND epoch = ?`
    if (!(await cluster.conditionally(query, [...values, ...condition]))) continue
    // Of a write whose epoch is refused the token counts all the same.
    if (refusal) throw refusal
    return receipt ? { receipt } : { dataset }
  }
  throw new SluiceError('TRANSIENT', 'others keep writing this dataset', { code: 'store_busy', remedy: 'Try again.' })
}

async function stage(place: Place, changes: ChangeSet, signal: AbortSignal): Promise<Counts> {
  const { columns, primaryKey } = changes.schema
  const indexes = primaryKey.map((name) => columns.findIndex((column) => column.name === name))
  const keyOf = (row: Row) => indexes.map((index) => row[index] ?? null)
  const deleted = await put(place, changes.deletes(), signal, (key) => ({ key, cells: null }))
  const upserted = await put(place, changes.upserts(), signal, (row, number) => ({
    // Rows without identity are told apart by who has written them.
    key: primaryKey.length > 0 ? keyOf(row) : [String(place.attempt), BigInt(number)],
    cells: rowText(row),
  }))
  // A source that ended early must not make an epoch.
  if (upserted !== changes.upsertCount || deleted !== changes.deleteCount) throw truncated()
  return { upserted, deleted }
}

interface Version {
  readonly key: readonly Value[]
  /** Null where the row is gone from this epoch on. */
  readonly cells: string | null
}

async function put(
  { cluster, dataset, generation, attempt, epoch }: Place,
  batches: AsyncIterable<ColumnBatch>,
  signal: AbortSignal,
  versionOf: (row: Row, number: number) => Version,
): Promise<number> {
  let count = 0
  for await (const batch of batches) {
    checkAborted(signal)
    // Of rows with one key the last one counts.
    const versions = new Map<string, readonly unknown[]>()
    for (const row of rowsOf(batch)) {
      const { key, cells } = versionOf(row, count)
      if (key.includes(null)) throw missingKey()
      const text = keyText(key)
      versions.set(text, [dataset.id, generation, partOf(text, PARTS), text, epoch, attempt, cells])
      count += 1
    }
    await cluster.many(INSERT, [...versions.values()])
  }
  return count
}

function missingKey(): SluiceError {
  return new SluiceError('INVALID_DATA', 'a row has no value in a column of its key', {
    code: 'missing_key',
    remedy: 'Filter such rows out, or choose another key.',
  })
}

function truncated(): SluiceError {
  return new SluiceError('TRANSIENT', 'the change set does not hold as many rows as it announced', {
    code: 'truncated_change_set',
    remedy: 'Send it again.',
  })
}

function tooManyEpochs(): SluiceError {
  return new SluiceError('CONFLICT', 'the rows are due to be written anew', {
    code: 'epoch_gap',
    remedy: 'Send a full set.',
  })
}

function replaced(): SluiceError {
  return new SluiceError('TRANSIENT', 'the dataset was dropped and made anew', {
    code: 'replaced',
    remedy: 'Try again.',
  })
}
