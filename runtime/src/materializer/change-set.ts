/**
 * The difference between two lake states as a store receives it. It is computed once, by the engine, into two parquet
 * files; every view reads them again, so a store may start over as often as it likes.
 */
import { join } from 'node:path'
import {
  type Engine,
  type EngineLimits,
  type EngineTable,
  type KeyedOutput,
  type PlainOutput,
  quoteName,
  quoteText,
  rowsOf,
} from '@sluice/engine'
import {
  batchFromRows,
  type ChangeSet,
  type ColumnBatch,
  type CsvChunk,
  type KeyedChunk,
  type KeyTemplate,
  type Row,
  SluiceError,
  type TableSchema,
} from '@sluice/sdk'
import { difference } from './difference.ts'
import { type LakeState, sameFields, stateSchema, stateTable } from './lake-state.ts'

export interface ChangeSetOptions {
  readonly engine: Engine
  readonly limits: EngineLimits
  /** An empty folder for the difference; the caller removes it when the stores are done. */
  readonly directory: string
  readonly signal: AbortSignal
}

/** Rows without a value in that column are left out of what the store is sent; null: none are. */
type Having = string | null

/** The whole content: what an empty store, or one without a key, is sent. */
export function fullChangeSet(state: LakeState, options: ChangeSetOptions): ChangeSet {
  const part = { table: stateTable('rows', state), count: state.rowCount }
  return viewOf('full', state, part, null, options)
}

/**
 * What turns `before` into `after`, by key. Both must have the same key. Columns that are others under the same name are
 * compared by their values, which must be readable as the type of today.
 */
export async function deltaChangeSet(
  before: LakeState,
  after: LakeState,
  options: ChangeSetOptions,
  having: Having = null,
): Promise<ChangeSet> {
  const schema = stateSchema(after)
  const [earlier, later] = having === null ? ['before', 'after'] : ['kept_before', 'kept_after']
  const sql = difference(earlier, later, schema)
  const same = sameFields(before, after)
  const tables = same
    ? [stateTable('before', own(before, after), after.columns), stateTable('after', own(after, before))]
    : [stateTable('before', before), stateTable('after', after)]
  const files = {
    upserts: join(options.directory, 'upserts.parquet'),
    deletes: join(options.directory, 'deletes.parquet'),
  }
  const run = await options.engine.run(
    {
      trust: 'own',
      tables,
      steps: [
        ...(having === null ? [] : [keptStep('before', having), keptStep('after', having)]),
        copyStep(sql.upserts, files.upserts, after),
        copyStep(sql.deletes, files.deletes, after),
      ],
      writeDirs: [options.directory],
      limits: options.limits,
    },
    options.signal,
  )
  const [upserts = 0, deletes = 0] = run.results.slice(-2).map((result) => Number(result.rows[0]?.[0] ?? 0))
  const keyColumns = after.columns.filter((column) => after.primaryKey.includes(column.name))
  return viewOf(
    'delta',
    after,
    { table: storedTable(files.upserts, after.columns), count: upserts },
    { table: storedTable(files.deletes, orderedKeys(keyColumns, after.primaryKey)), count: deletes },
    options,
  )
}

/** How many rows have no value in the column. */
export async function countWithout(column: string, state: LakeState, options: ChangeSetOptions): Promise<number> {
  const sql = `SELECT count(*) FROM rows WHERE ${quoteName(column)} IS NULL`
  const run = await options.engine.run(
    { trust: 'own', tables: [stateTable('rows', state)], steps: [{ sql, rows: 'collect' }], limits: options.limits },
    options.signal,
  )
  return Number(run.results[0]?.rows[0]?.[0] ?? 0)
}

/** The state less the rows that have no value in the column, in a file of the folder. */
export async function stateHaving(column: string, state: LakeState, options: ChangeSetOptions): Promise<LakeState> {
  const file = join(options.directory, 'kept.parquet')
  const select = `SELECT * FROM rows WHERE ${quoteName(column)} IS NOT NULL`
  const run = await options.engine.run(
    {
      trust: 'own',
      tables: [stateTable('rows', state)],
      steps: [copyStep(select, file, state)],
      writeDirs: [options.directory],
      limits: options.limits,
    },
    options.signal,
  )
  const { snapshotId, columns, primaryKey } = state
  return { snapshotId, columns, primaryKey, files: [file], rowCount: Number(run.results[0]?.rows[0]?.[0] ?? 0) }
}

function keptStep(relation: 'before' | 'after', column: string) {
  return {
    sql: `CREATE TEMP VIEW kept_${relation} AS SELECT * FROM ${relation} WHERE ${quoteName(column)} IS NOT NULL`,
  }
}

/** The state without the files that the other one has, too: a key in one of those is in no other file of either. */
function own(state: LakeState, other: LakeState): LakeState {
  if (state.deletes !== undefined || other.deletes !== undefined) return state
  const shared = new Set(other.files)
  return { ...state, files: state.files.filter((file) => !shared.has(file)) }
}

interface Part {
  readonly table: EngineTable
  readonly count: number
}

function orderedKeys(columns: LakeState['columns'], primaryKey: readonly string[]): LakeState['columns'] {
  return primaryKey.flatMap((name) => columns.filter((column) => column.name === name))
}

function storedTable(file: string, columns: LakeState['columns']): EngineTable {
  return {
    name: ['rows'],
    files: [file],
    columns: columns.map((column) => ({ name: column.name, type: column.type, fieldId: column.id })),
  }
}

function copyStep(select: string, file: string, state: LakeState) {
  const ids = state.columns.map((column) => `${quoteName(column.name)}: ${column.id}`)
  const used = select.startsWith('SELECT b.')
    ? state.columns.filter((c) => state.primaryKey.includes(c.name))
    : state.columns
  const fieldIds = used.length === state.columns.length ? ids : used.map((c) => `${quoteName(c.name)}: ${c.id}`)
  return {
    sql: `COPY (${select}) TO ${quoteText(file)} (FORMAT parquet, FIELD_IDS {${fieldIds.join(', ')}})`,
    rows: 'collect' as const,
  }
}

function viewOf(
  mode: ChangeSet['mode'],
  state: LakeState,
  upserts: Part,
  deletes: Part | null,
  options: ChangeSetOptions,
): ChangeSet {
  const schema = stateSchema(state)
  return {
    mode,
    schema,
    upsertCount: upserts.count,
    deleteCount: deletes?.count ?? 0,
    upserts: () =>
      batches(
        upserts,
        schema.columns.map((column) => column.name),
        options,
      ),
    deletes: () => batches(deletes, schema.primaryKey, options),
    upsertsCsv: (columns) => csv(upserts, columns, schema, options),
    deletesCsv: () => csv(deletes, schema.primaryKey, schema, options),
    upsertsKeyed: (template, columns) => keyed(upserts, template, columns, schema, options),
    lake: {
      snapshotId: state.snapshotId,
      files: state.files,
      fieldIds: Object.fromEntries(state.columns.map((column) => [column.name, column.id])),
    },
  }
}

async function* batches(
  part: Part | null,
  columns: readonly string[],
  options: ChangeSetOptions,
): AsyncGenerator<ColumnBatch> {
  if (!part || part.count === 0) return
  const run = await options.engine.run(
    {
      trust: 'own',
      tables: [part.table],
      output: { kind: 'rows', sql: `SELECT ${columns.map(quoteName).join(', ')} FROM rows` },
      limits: options.limits,
    },
    options.signal,
  )
  for await (const rows of rowsOf(run)) {
    for (let start = 0; start < rows.length; start += MAX_BATCH_ROWS) {
      yield batchFromRows(rows.slice(start, start + MAX_BATCH_ROWS) as readonly Row[], columns.length)
    }
  }
  await run.finished
}

const MAX_BATCH_ROWS = 10_000

function csv(
  part: Part | null,
  columns: readonly string[],
  schema: TableSchema,
  options: ChangeSetOptions,
): AsyncGenerator<CsvChunk> {
  return bytes(part, columns, { kind: 'copy-csv' }, schema, options)
}

function keyed(
  part: Part,
  template: KeyTemplate,
  columns: readonly string[],
  schema: TableSchema,
  options: ChangeSetOptions,
): AsyncGenerator<KeyedChunk> {
  const keyColumns = template.parts.map(({ column }) => column)
  // A second thread writes such lines no faster, and takes the time of the server that they go to.
  const limits = { ...options.limits, threads: 1 }
  return bytes(part, [...columns, ...keyColumns], { kind: 'keyed-json', template }, schema, { ...options, limits })
}

async function* bytes(
  part: Part | null,
  columns: readonly string[],
  output: Pick<PlainOutput, 'kind'> | Pick<KeyedOutput, 'kind' | 'template'>,
  schema: TableSchema,
  options: ChangeSetOptions,
): AsyncGenerator<Uint8Array> {
  for (const name of columns) {
    if (!schema.columns.some((column) => column.name === name)) {
      throw new SluiceError('INTERNAL', `the change set has no column "${name}"`, { code: 'internal_error' })
    }
  }
  if (!part || part.count === 0) return
  const run = await options.engine.run(
    {
      trust: 'own',
      tables: [part.table],
      output: { ...output, sql: `SELECT ${columns.map(quoteName).join(', ')} FROM rows` },
      limits: options.limits,
    },
    options.signal,
  )
  yield* run.output
  await run.finished
}
