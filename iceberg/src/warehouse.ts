import type { EngineLimits } from '@sluice/engine'
import { type Row, SluiceError, type TableSchema } from '@sluice/sdk'
import type { Catalog } from './catalog.ts'
import { toTableSchema } from './format/table-schema.ts'
import { type ChangedFiles, Lake, type SnapshotInfo } from './lake.ts'
import { engineTable } from './scan.ts'
import type { ObjectStore } from './store/object-store.ts'
import { StoreCatalog } from './store-catalog.ts'
import { describeTable, type TableRef } from './table-ref.ts'
import type { SnapshotChoice, SnapshotId, TableState } from './table-state.ts'
import type { JobRunner, WriteJob } from './write.ts'

export interface WarehouseOptions {
  readonly store: ObjectStore
  /** Writes and reads the files. Over a `BucketStore`: one that `withObjects` gives. */
  readonly engine: JobRunner
  /** Default: a `StoreCatalog` of the store. */
  readonly catalog?: Catalog
  /** Default `warehouse`. */
  readonly name?: string
  /** Of each job. Default: 1 GiB, two threads, ten minutes. */
  readonly limits?: EngineLimits
}

/** What a statement reads besides the engine's own functions: tables, parquet files, rows as CSV. */
export type Reading = Pick<WriteJob, 'tables' | 'readPaths' | 'csvInput'>

const DEFAULT_LIMITS: EngineLimits = { memoryBytes: 1024 ** 3, timeoutMs: 600_000, threads: 2 }
const CONTENT = 'content'

/** Iceberg tables in one place, without a server: the short way to a `Lake`, which can do more. */
export class Warehouse {
  /** The same tables, step by step. */
  readonly lake: Lake
  readonly #options: WarehouseOptions
  readonly #catalog: Catalog

  constructor(options: WarehouseOptions) {
    this.#options = options
    this.#catalog = options.catalog ?? new StoreCatalog(options.store)
    this.lake = new Lake({ store: options.store, catalog: this.#catalog, engine: options.engine })
  }

  /** A table that is there, or that its first write makes. */
  table(namespace: string, table: string): Table {
    const { engine, limits = DEFAULT_LIMITS } = this.#options
    return new Table(
      { lake: this.lake, catalog: this.#catalog, engine, limits },
      { ...this.#place(), namespace, table },
    )
  }

  /** By name, at most 10,000. */
  tables(namespace?: string): Promise<readonly TableRef[]> {
    return this.lake.tables(this.#place().warehouse, namespace)
  }

  #place(): { readonly warehouse: string } {
    return { warehouse: this.#options.name ?? 'warehouse' }
  }
}

interface Deps {
  readonly lake: Lake
  readonly catalog: Catalog
  readonly engine: JobRunner
  readonly limits: EngineLimits
}

/**
 * Reads and writes one table. Each write is one snapshot, whose id it gives. Throws CONFLICT `lake_commit_conflict` where
 * somebody else has written meanwhile (nothing is changed then, and it may be done again), and what the engine throws.
 */
export class Table {
  readonly ref: TableRef
  readonly #deps: Deps

  constructor(deps: Deps, ref: TableRef) {
    this.#deps = deps
    this.ref = ref
  }

  /**
   * Adds the rows of a statement.
   * @param schema what the table is to have, where it is new or its columns change; columns of the statement go by name
   */
  append(select: string, schema?: TableSchema, reading: Reading = {}): Promise<SnapshotId> {
    return this.#write('append', select, schema, reading)
  }

  /** The rows of the statement are all that the table has. */
  replace(select: string, schema?: TableSchema, reading: Reading = {}): Promise<SnapshotId> {
    return this.#write('replace', select, schema, reading)
  }

  /**
   * The rows of the statement take the place of those with their key, or are new.
   * @param key default: the table's primary key
   */
  async merge(select: string, key?: readonly string[], reading: Reading = {}): Promise<SnapshotId> {
    return this.#deps.lake.writing(async (lake) => {
      const base = await this.#state()
      const schema = toTableSchema(base.schema)
      const scan = await lake.scan(base)
      const job = { ...reading, limits: this.#deps.limits }
      const request = { base, scan, schema, rows: 'keep', key: key ?? schema.primaryKey, job, changed: select } as const
      return this.#exchange(lake, base, await lake.merge(request, this.#signal()))
    })
  }

  /** Rows for which the SQL expression is true go. Null where there was none. */
  async deleteWhere(where: string): Promise<SnapshotId | null> {
    return this.#deps.lake.writing(async (lake) => {
      const base = await this.#state()
      const request = { base, scan: await lake.scan(base), where, job: { limits: this.#deps.limits } }
      const changed = await lake.deleteWhere(request, this.#signal())
      return changed === null ? null : this.#exchange(lake, base, changed)
    })
  }

  /**
   * The table's rows, each by the names of its columns, or those of `select`, which reads them as `content`; at most 10,000.
   * @param choice a snapshot, a moment or a tag; default: as it is now
   */
  async rows(
    choice: SnapshotChoice = {},
    select = `SELECT * FROM ${CONTENT}`,
  ): Promise<readonly Readonly<Record<string, Row[number]>>[]> {
    const scan = await this.#deps.lake.scan(this.ref, choice)
    const job = {
      trust: 'own',
      tables: [engineTable(scan, [CONTENT])],
      steps: [{ sql: select, rows: 'collect' }],
      limits: this.#deps.limits,
    } as const
    const [result] = (await this.#deps.engine.run(job, this.#signal())).results
    if (result === undefined) throw new Error('the engine gave no rows')
    const names = result.columns.map(({ name }) => name)
    return result.rows.map((row) => Object.fromEntries(names.map((name, at) => [name, row[at] as Row[number]])))
  }

  /** Oldest first; none where there is no table. */
  async snapshots(): Promise<readonly SnapshotInfo[]> {
    const state = await this.#deps.lake.load(this.ref)
    return state === null ? [] : this.#deps.lake.snapshots(state)
  }

  /** The address of the current metadata file, by which any Iceberg reader finds the table; null where there is none. */
  async metadataLocation(): Promise<string | null> {
    return (await this.#deps.lake.load(this.ref))?.location ?? null
  }

  #write(
    operation: 'append' | 'replace',
    select: string,
    given: TableSchema | undefined,
    reading: Reading,
  ): Promise<SnapshotId> {
    return this.#deps.lake.writing(async (lake) => {
      await lake.provision(this.ref.warehouse)
      const base = await lake.load(this.ref)
      const schema = given ?? (base === null ? null : toTableSchema(base.schema))
      if (schema === null) throw noTable(this.ref)
      const rows = operation === 'append' ? 'keep' : 'rewrite'
      const target = { ref: this.ref, base, select, schema, rows } as const
      const job = { ...reading, limits: this.#deps.limits }
      const [data] = (await lake.write(job, [target], this.#signal())).written
      if (data === undefined) throw new Error('nothing was written')
      const { plan, files, writeId } = data
      return this.#publish(lake, { base, plan, operation, files, writeId, summary: {} })
    })
  }

  #exchange(lake: Lake, base: TableState, changed: ChangedFiles): Promise<SnapshotId> {
    const { written, removed, removedFrom } = changed
    const { plan, files, writeId } = written
    const request = { base, plan, operation: 'overwrite', files, removed, removedFrom, writeId, summary: {} } as const
    return this.#publish(lake, request)
  }

  async #publish(lake: Lake, request: Parameters<Lake['stage']>[1]): Promise<SnapshotId> {
    const staged = await lake.stage(this.ref, request)
    await lake.publish(this.#deps.catalog, [staged])
    if (staged.snapshotId === null) throw new Error('a write made no snapshot')
    return staged.snapshotId
  }

  async #state(): Promise<TableState> {
    const state = await this.#deps.lake.load(this.ref)
    if (state === null) throw noTable(this.ref)
    return state
  }

  #signal(): AbortSignal {
    return AbortSignal.timeout(this.#deps.limits.timeoutMs)
  }
}

function noTable(ref: TableRef): SluiceError {
  return new SluiceError('INVALID_DATA', `there is no lake table ${describeTable(ref)} yet`, {
    code: 'lake_table_not_found',
    remedy: 'Make it with its first rows: append them, and say which columns it is to have.',
  })
}
