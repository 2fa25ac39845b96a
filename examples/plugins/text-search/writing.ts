import {
  admitCommit,
  type ChangeSet,
  type ColumnBatch,
  type Commit,
  type Host,
  isSluiceError,
  type Receipt,
  type Row,
  rowsOf,
  SluiceError,
  type TableSchema,
  type Target,
} from '@sluice/sdk'
import { toCell } from './cells.ts'
import type { Config } from './config.ts'
import type { Database } from './database.ts'
import {
  allColumns,
  columnOf,
  type Dataset,
  datasetOf,
  dropStage,
  dropStages,
  keyColumns,
  rowsTable,
  stageTable,
  wordsTable,
} from './datasets.ts'
import { definitionOf, rebuildWords } from './provisioning.ts'
import { checkAborted } from './reading.ts'

/** Stages the rows piece by piece, then makes them visible in one transaction that checks the token again. */
export async function writeChanges(
  database: Database,
  host: Host,
  target: Target<Config>,
  changes: ChangeSet,
  commit: Commit,
): Promise<Receipt> {
  const done = admit(database, target, commit)
  if (done) return done
  await host.faultPoint('search.after-fence')
  const stage = beginStage(database, target, commit)
  try {
    const counts = await fillStage(database, stage, changes, commit.signal)
    await host.faultPoint('search.after-stage')
    const receipt = publish(database, target, { stage, mode: changes.mode, commit, ...counts })
    await host.faultPoint('search.after-commit')
    return receipt
  } catch (error) {
    // Another writer of this epoch has been faster and has cleaned up: then the epoch is there, which is all that counts.
    if (isSluiceError(error, 'INTERNAL')) return overtaken(database, target, commit, error)
    throw error
  }
}

/** Notes the token, so that an older writer is refused from now on. */
function admit(database: Database, target: Target<Config>, commit: Commit): Receipt | null {
  return database.transaction('IMMEDIATE', () => admitted(database, datasetOf(database, target), commit))
}

function admitted(database: Database, dataset: Dataset, commit: Commit): Receipt | null {
  const receipt = admitCommit({ epoch: dataset.applied?.epoch ?? null, fence: dataset.fence }, commit)
  database.change('UPDATE datasets SET fence = ? WHERE id = ?', String(commit.fence), dataset.id)
  return receipt
}

function overtaken(database: Database, target: Target<Config>, commit: Commit, error: SluiceError): Receipt {
  const receipt = admit(database, target, commit)
  if (receipt) return receipt
  throw error
}

/** The tables that the rows wait in. */
function beginStage(database: Database, target: Target<Config>, { epoch }: Commit): bigint {
  return database.transaction('IMMEDIATE', () => {
    const dataset = datasetOf(database, target)
    const [{ id: stage } = { id: 0n }] = database.all(
      'INSERT INTO stages (dataset, epoch) VALUES (?, ?) RETURNING id',
      dataset.id,
      BigInt(epoch),
    )
    const { schema } = target
    database.run(`CREATE TABLE ${stageTable(stage as bigint, 'upserts')} (${definitionOf(schema)})`)
    const keys = keyColumns(schema).join(', ') || 'no_key'
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
function publish(database: Database, target: Target<Config>, publication: Publication): Receipt {
  const { stage, mode, commit, upserted, deleted } = publication
  return database.transaction('IMMEDIATE', () => {
    const dataset = datasetOf(database, target)
    const done = admitted(database, dataset, commit)
    if (done) {
      dropStage(database, stage)
      return done
    }
    if (mode === 'full') replaceRows(database, dataset, stage)
    else changeRows(database, dataset, stage)
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

function replaceRows(database: Database, dataset: Dataset, stage: bigint): void {
  database.change(`DELETE FROM ${rowsTable(dataset)}`)
  insertStaged(database, dataset, stage)
  rebuildWords(database, dataset)
}

/** What is replaced or deleted leaves the indexes first, while its text can still be read. */
function changeRows(database: Database, dataset: Dataset, stage: bigint): void {
  const rows = rowsTable(dataset)
  const keys = keyColumns(dataset.schema).join(', ')
  if (keys !== '') {
    const staged = (['deletes', 'upserts'] as const).map((part) => `SELECT ${keys} FROM ${stageTable(stage, part)}`)
    const leaving = `(${keys}) IN (${staged.join(' UNION ALL ')})`
    eachIndex(dataset, (words, column) => {
      const gone = `SELECT 'delete', id, ${column} FROM ${rows} WHERE ${leaving}`
      database.change(`INSERT INTO ${words} (${words}, rowid, ${column}) ${gone}`)
    })
    database.change(`DELETE FROM ${rows} WHERE ${leaving}`)
  }
  const [{ last } = { last: 0n }] = database.all(`SELECT coalesce(max(id), 0) AS last FROM ${rows}`)
  insertStaged(database, dataset, stage)
  eachIndex(dataset, (words, column) => {
    database.change(
      `INSERT INTO ${words} (rowid, ${column}) SELECT id, ${column} FROM ${rows} WHERE id > ?`,
      last as bigint,
    )
  })
}

function eachIndex(dataset: Dataset, run: (words: string, column: string) => void): void {
  for (const name of dataset.config.text_columns) run(wordsTable(dataset, name), columnOf(dataset.schema, name))
}

function insertStaged(database: Database, dataset: Dataset, stage: bigint): void {
  const columns = allColumns(dataset.schema).join(', ')
  const from = `SELECT ${columns} FROM ${stageTable(stage, 'upserts')}`
  database.change(`INSERT INTO ${rowsTable(dataset)} (${columns}) ${from}`)
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
