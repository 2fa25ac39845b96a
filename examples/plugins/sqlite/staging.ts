/** Writes that become visible at once: rows wait in tables beside, which a store of its own kind then takes over. */
import {
  type ChangeSet,
  type ColumnBatch,
  type Commit,
  type Host,
  isSluiceError,
  judgeCommit,
  type Receipt,
  type Row,
  rowsOf,
  SluiceError,
  type TableSchema,
  type Target,
} from '@sluice/sdk'
import { toCell } from './cells.ts'
import type { Database } from './database.ts'
import { columnOf, type Dataset, datasetOf, dropStage, dropStages, keyColumns, stageTable } from './datasets.ts'

/** What a store does with rows that wait. */
export interface Staging<C> {
  /** Its fault points begin with it. */
  readonly name: string
  /** What stands between the brackets of a table of such rows. */
  definition(schema: TableSchema): string
  /** Puts the rows of a stage where they are read, in the transaction that makes the epoch. */
  apply(database: Database, dataset: Dataset<C>, mode: ChangeSet['mode'], stage: bigint): void
}

/** Stages the rows piece by piece, then makes them visible in one transaction that checks the token again. */
export async function writeStaged<C>(
  database: Database,
  host: Host,
  target: Target<C>,
  changes: ChangeSet,
  commit: Commit,
  staging: Staging<C>,
): Promise<Receipt> {
  const done = admit(database, target, commit)
  if (done) return done
  await host.faultPoint(`${staging.name}.after-fence`)
  const stage = beginStage(database, target, commit, staging)
  try {
    const counts = await fillStage(database, stage, changes, commit.signal)
    await host.faultPoint(`${staging.name}.after-stage`)
    const receipt = publish(database, target, { stage, mode: changes.mode, commit, ...counts }, staging)
    await host.faultPoint(`${staging.name}.after-commit`)
    return receipt
  } catch (error) {
    // Another writer of this epoch has been faster and has cleaned up: then the epoch is there, which is all that counts.
    if (isSluiceError(error, 'INTERNAL')) return overtaken(database, target, commit, error)
    throw error
  }
}

/** Notes the token, so that an older writer is refused from now on. */
function admit(database: Database, target: Target<unknown>, commit: Commit): Receipt | null {
  const { receipt, refusal } = database.transaction('IMMEDIATE', () =>
    judged(database, datasetOf(database, target), commit),
  )
  if (refusal) throw refusal
  return receipt
}

/** The token is kept whatever is to become of the write. */
function judged(database: Database, dataset: Dataset<unknown>, commit: Commit): ReturnType<typeof judgeCommit> {
  const outcome = judgeCommit({ epoch: dataset.applied?.epoch ?? null, fence: dataset.fence }, commit)
  database.change('UPDATE datasets SET fence = ? WHERE id = ?', String(commit.fence), dataset.id)
  return outcome
}

function admitted(database: Database, dataset: Dataset<unknown>, commit: Commit): Receipt | null {
  const { receipt, refusal } = judged(database, dataset, commit)
  if (refusal) throw refusal
  return receipt
}

function overtaken(database: Database, target: Target<unknown>, commit: Commit, error: SluiceError): Receipt {
  const receipt = admit(database, target, commit)
  if (receipt) return receipt
  throw error
}

/** The tables that the rows wait in. */
function beginStage<C>(database: Database, target: Target<C>, { epoch }: Commit, { definition }: Staging<C>): bigint {
  return database.transaction('IMMEDIATE', () => {
    const dataset = datasetOf(database, target)
    const [{ id: stage } = { id: 0n }] = database.all(
      'INSERT INTO stages (dataset, epoch) VALUES (?, ?) RETURNING id',
      dataset.id,
      BigInt(epoch),
    )
    const keys = keyColumns(target.schema).join(', ') || 'no_key'
    database.run(`CREATE TABLE ${stageTable(stage as bigint, 'upserts')} (${definition(target.schema)})`)
    database.run(`CREATE TABLE ${stageTable(stage as bigint, 'deletes')} (${keys})`)
    return stage as bigint
  })
}

interface StagedCounts {
  readonly upserted: number
  readonly deleted: number
}

async function fillStage(
  database: Database,
  stage: bigint,
  changes: ChangeSet,
  signal: AbortSignal,
): Promise<StagedCounts> {
  const { schema } = changes
  const all = schema.columns.map(({ name }) => name)
  const upserted = await fill(database, stageTable(stage, 'upserts'), {
    schema,
    names: all,
    batches: changes.upserts(),
    signal,
  })
  const keys = { schema, names: schema.primaryKey, batches: changes.deletes(), signal }
  const deleted = schema.primaryKey.length === 0 ? 0 : await fill(database, stageTable(stage, 'deletes'), keys)
  // A source that ended early must not make an epoch.
  if (upserted !== changes.upsertCount || deleted !== changes.deleteCount) throw truncated()
  return { upserted, deleted }
}

interface Filling {
  readonly schema: TableSchema
  readonly names: readonly string[]
  readonly batches: AsyncIterable<ColumnBatch>
  readonly signal: AbortSignal
}

async function fill(database: Database, table: string, { schema, names, batches, signal }: Filling): Promise<number> {
  const columns = names.map((name) => columnOf(schema, name))
  const types = names.map((name) => schema.columns.find((column) => column.name === name)?.type ?? 'string')
  const isKey = names.map((name) => schema.primaryKey.includes(name))
  // Of rows with one key the last one counts.
  const sql = `INSERT OR REPLACE INTO ${table} (${columns.join(', ')}) VALUES (${columns.map(() => '?').join(', ')})`
  const insert = (row: Row) => {
    if (row.some((value, index) => value === null && isKey[index])) throw missingKey()
    database.change(sql, ...types.map((type, index) => toCell(row[index] ?? null, type)))
  }
  let count = 0
  for await (const batch of batches) {
    checkAborted(signal)
    database.transaction('IMMEDIATE', () => {
      for (const row of rowsOf(batch)) insert(row)
    })
    count += batch.rowCount
  }
  return count
}

interface Publication extends StagedCounts {
  readonly stage: bigint
  readonly mode: ChangeSet['mode']
  readonly commit: Commit
}

/** Token, rows and epoch in one step. */
function publish<C>(database: Database, target: Target<C>, publication: Publication, staging: Staging<C>): Receipt {
  const { stage, mode, commit, upserted, deleted } = publication
  return database.transaction('IMMEDIATE', () => {
    const dataset = datasetOf(database, target)
    const done = admitted(database, dataset, commit)
    if (done) {
      dropStage(database, stage)
      return done
    }
    staging.apply(database, dataset, mode, stage)
    const { epoch, fence, committedAt } = commit
    const applied = [BigInt(epoch), String(fence), committedAt]
    database.change(
      'UPDATE datasets SET epoch = ?, epoch_fence = ?, committed_at = ? WHERE id = ?',
      ...applied,
      dataset.id,
    )
    dropStages(database, dataset, epoch)
    return { epoch, outcome: 'applied', upserted, deleted }
  })
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

export function checkAborted(signal: AbortSignal): void {
  if (signal.aborted) throw new SluiceError('TRANSIENT', 'the call was ended by its caller', { code: 'aborted' })
}
