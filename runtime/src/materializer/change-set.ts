/**
 * The difference between two lake states as a store receives it. It is computed once, by the engine, into two parquet
 * files; every view reads them again, so a store may start over as often as it likes.
 */
import { join } from 'node:path'
import {
  type Engine,
  type EngineLimits,
  type EngineRun,
  type EngineSession,
  type EngineStep,
  type EngineTable,
  parquetOptions,
  quoteName,
  quoteText,
  rowsOf,
  type SessionOutput,
  type StepResult,
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
import { ownRows } from './own-rows.ts'

export interface ChangeSetOptions {
  readonly engine: Engine
  readonly limits: EngineLimits
  /** An empty folder for the difference; the caller removes it when the stores are done. */
  readonly directory: string
  readonly signal: AbortSignal
  /** Whether a difference is read in the order of the key, so that computed again it is the same to the byte. Default: in none. */
  readonly isOrdered?: boolean
  /** Lends a process that may open the states' files and write below the folder, if one can be had; whoever lends it ends it. */
  readonly lend?: () => Promise<EngineSession | null>
}

/** Rows without a value in that column are left out of what the store is sent; null: none are. */
type Having = string | null

/** A change set, and the process that may still be there for it. */
export interface OpenChangeSet {
  readonly changes: ChangeSet
  /** To be called when nobody reads it any more. Never rejected. */
  close(): Promise<void>
}

/** The whole content: what an empty store, or one without a key, is sent. */
export function fullChangeSet(state: LakeState, options: ChangeSetOptions): OpenChangeSet {
  const part = { table: stateTable('rows', state), count: state.rowCount }
  return opened('full', state, part, null, new PartReader([part], null, options))
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
): Promise<OpenChangeSet> {
  const schema = stateSchema(after)
  const [earlier, later] = having === null ? ['before', 'after'] : ['kept_before', 'kept_after']
  const sql = difference(earlier, later, schema)
  const tables = sameFields(before, after)
    ? [ownRows('before', before, after, after.columns), ownRows('after', after, before, after.columns)]
    : [stateTable('before', before), stateTable('after', after)]
  const files = {
    upserts: join(options.directory, 'upserts.parquet'),
    deletes: join(options.directory, 'deletes.parquet'),
  }
  const steps = [
    ...(having === null ? [] : [keptStep('before', having), keptStep('after', having)]),
    copyStep(sql.upserts, files.upserts, after, options.isOrdered),
    copyStep(sql.deletes, files.deletes, after, options.isOrdered),
  ]
  const lent = await askLent(tables, steps, options)
  const session = lent === null ? await openFor(tables, steps, options) : null
  const results = lent ?? session?.results ?? []
  const [upsertCount = 0, deleteCount = 0] = results.slice(-2).map(({ rows }) => Number(rows[0]?.[0] ?? 0))
  const keyColumns = after.columns.filter((column) => after.primaryKey.includes(column.name))
  const upserts = { table: storedTable(files.upserts, after.columns), count: upsertCount }
  const deletes = {
    table: storedTable(files.deletes, orderedKeys(keyColumns, after.primaryKey)),
    count: deleteCount,
  }
  return opened('delta', after, upserts, deletes, new PartReader([upserts, deletes], session, options))
}

function openFor(tables: readonly EngineTable[], steps: readonly EngineStep[], options: ChangeSetOptions) {
  const { engine, directory, limits, signal } = options
  return engine.open({ trust: 'own', tables, steps, writeDirs: [directory], limits }, signal)
}

/** Null where no process is lent, or it has ended: a process of its own is to do it. */
async function askLent(
  tables: readonly EngineTable[],
  steps: readonly EngineStep[],
  { lend }: ChangeSetOptions,
): Promise<readonly StepResult[] | null> {
  const session = await lend?.()
  if (!session?.isOpen) return null
  // What ended it, or was refused there, is told by the process that tries it next.
  try {
    return (await session.run({ tables, steps })).results
  } catch {
    return null
  }
}

/** What steps count over the tables. */
async function collected(
  tables: readonly EngineTable[],
  steps: readonly EngineStep[],
  options: ChangeSetOptions,
): Promise<readonly StepResult[]> {
  const lent = await askLent(tables, steps, options)
  if (lent !== null) return lent
  const { engine, directory, limits, signal } = options
  return (await engine.run({ trust: 'own', tables, steps, writeDirs: [directory], limits }, signal)).results
}

/** So few rows are read by a process that stays for the next view: starting another one takes longer. */
const FEW_ROWS = 10_000

/** Reads the parts of a change set, as often as they are asked for. */
class PartReader {
  readonly #small: readonly Part[]
  readonly #options: ChangeSetOptions
  #session: Promise<EngineSession> | null

  /** @param session one that may read the parts, if there is one already */
  constructor(parts: readonly Part[], session: EngineSession | null, options: ChangeSetOptions) {
    this.#small = parts.filter(({ count }) => count > 0 && count <= FEW_ROWS)
    this.#options = options
    this.#session = session === null ? null : Promise.resolve(session)
    if (this.#small.length === 0) void session?.close()
  }

  async read(part: Part, output: SessionOutput, threads = this.#options.limits.threads): Promise<EngineRun> {
    const { engine, limits, signal } = this.#options
    const session = this.#small.includes(part) ? await this.#forSmall() : null
    // It may have given its place to others just now.
    if (session?.isOpen) return session.run({ tables: [part.table], output })
    return engine.run({ trust: 'own', tables: [part.table], output, limits: { ...limits, threads } }, signal)
  }

  async close(): Promise<void> {
    // Whoever wanted it has been told.
    const session = await this.#session?.catch(() => null)
    await session?.close()
  }

  async #forSmall(): Promise<EngineSession> {
    const lent = await this.#options.lend?.()
    return lent?.isOpen ? lent : this.#opened()
  }

  /** The session, or a new one where it has ended because nobody asked for a while. */
  async #opened(): Promise<EngineSession> {
    const last = this.#session
    // One that could not be had is asked for anew.
    const session = await last?.catch(() => null)
    if (session?.isOpen) return session
    if (this.#session === last) {
      const { engine, limits, signal } = this.#options
      const tables = this.#small.map(({ table }, at) => ({ ...table, name: [`part_${at}`] }))
      this.#session = engine.open({ trust: 'own', tables, limits }, signal)
    }
    return this.#session as Promise<EngineSession>
  }
}

/** How many rows have no value in the column. */
export async function countWithout(column: string, state: LakeState, options: ChangeSetOptions): Promise<number> {
  const sql = `SELECT count(*) FROM rows WHERE ${quoteName(column)} IS NULL`
  const [counted] = await collected([stateTable('rows', state)], [{ sql, rows: 'collect' }], options)
  return Number(counted?.rows[0]?.[0] ?? 0)
}

/** The state less the rows that have no value in the column, in a file of the folder. */
export async function stateHaving(column: string, state: LakeState, options: ChangeSetOptions): Promise<LakeState> {
  const file = join(options.directory, 'kept.parquet')
  const select = `SELECT * FROM rows WHERE ${quoteName(column)} IS NOT NULL`
  const [kept] = await collected([stateTable('rows', state)], [copyStep(select, file, state)], options)
  const { snapshotId, columns, primaryKey } = state
  return { snapshotId, columns, primaryKey, files: [file], rowCount: Number(kept?.rows[0]?.[0] ?? 0) }
}

function keptStep(relation: 'before' | 'after', column: string) {
  return {
    sql: `CREATE OR REPLACE TEMP VIEW kept_${relation} AS SELECT * FROM ${relation} WHERE ${quoteName(column)} IS NOT NULL`,
  }
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

function copyStep(select: string, file: string, state: LakeState, isOrdered = false) {
  const ids = state.columns.map((column) => `${quoteName(column.name)}: ${column.id}`)
  const used = select.startsWith('SELECT b.')
    ? state.columns.filter((c) => state.primaryKey.includes(c.name))
    : state.columns
  const fieldIds = used.length === state.columns.length ? ids : used.map((c) => `${quoteName(c.name)}: ${c.id}`)
  const options = [...parquetOptions(used.map(({ type }) => type)), `FIELD_IDS {${fieldIds.join(', ')}}`]
  const rows = isOrdered ? `SELECT * FROM (${select}) ORDER BY ${state.primaryKey.map(quoteName).join(', ')}` : select
  return {
    sql: `COPY (${rows}) TO ${quoteText(file)} (${options.join(', ')})`,
    rows: 'collect' as const,
  }
}

function opened(
  mode: ChangeSet['mode'],
  state: LakeState,
  upserts: Part,
  deletes: Part | null,
  reader: PartReader,
): OpenChangeSet {
  const schema = stateSchema(state)
  const changes: ChangeSet = {
    mode,
    schema,
    upsertCount: upserts.count,
    deleteCount: deletes?.count ?? 0,
    upserts: () =>
      batches(
        upserts,
        schema.columns.map((column) => column.name),
        reader,
      ),
    deletes: () => batches(deletes, schema.primaryKey, reader),
    upsertsCsv: (columns) => csv(upserts, columns, schema, reader),
    deletesCsv: () => csv(deletes, schema.primaryKey, schema, reader),
    upsertsKeyed: (template, columns) => keyed(upserts, template, columns, schema, reader),
    lake: {
      snapshotId: state.snapshotId,
      files: state.files,
      ...state.deletes,
      fieldIds: Object.fromEntries(state.columns.map((column) => [column.name, column.id])),
    },
  }
  return { changes, close: () => reader.close() }
}

async function* batches(
  part: Part | null,
  columns: readonly string[],
  reader: PartReader,
): AsyncGenerator<ColumnBatch> {
  if (!part || part.count === 0) return
  const sql = `SELECT ${columns.map(quoteName).join(', ')} FROM rows`
  const run = await reader.read(part, { kind: 'rows', sql })
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
  reader: PartReader,
): AsyncGenerator<CsvChunk> {
  return bytes(part, columns, schema, (sql) => reader.read(part as Part, { kind: 'copy-csv', sql }))
}

function keyed(
  part: Part,
  template: KeyTemplate,
  columns: readonly string[],
  schema: TableSchema,
  reader: PartReader,
): AsyncGenerator<KeyedChunk> {
  const keyColumns = template.parts.map(({ column }) => column)
  // A second thread writes such lines no faster, and takes the time of the server that they go to.
  const read = (sql: string) => reader.read(part, { kind: 'keyed-json', template, sql }, 1)
  return bytes(part, [...columns, ...keyColumns], schema, read)
}

async function* bytes(
  part: Part | null,
  columns: readonly string[],
  schema: TableSchema,
  read: (sql: string) => Promise<EngineRun>,
): AsyncGenerator<Uint8Array> {
  for (const name of columns) {
    if (!schema.columns.some((column) => column.name === name)) {
      throw new SluiceError('INTERNAL', `the change set has no column "${name}"`, { code: 'internal_error' })
    }
  }
  if (!part || part.count === 0) return
  const run = await read(`SELECT ${columns.map(quoteName).join(', ')} FROM rows`)
  yield* run.output
  await run.finished
}
