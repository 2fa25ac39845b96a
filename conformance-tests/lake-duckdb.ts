/**
 * The lake of a check, in one folder: DuckDB writes a dataset's content as a Parquet file with field ids, and runs the
 * queries that a store hands to its host. In process and unguarded: the suite's statements are its own.
 */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DuckDBBlobValue, type DuckDBConnection, DuckDBInstance } from '@duckdb/node-api'
import accessors from '@duckdb/node-api/lib/vectors/dataAccessors.js'
import {
  type LakeEngine,
  type LakeQuery,
  type LakeQueryResult,
  type LakeSnapshot,
  type LakeTable,
  type LogicalType,
  type Row,
  SluiceError,
  type Target,
  type Value,
} from '@sluice/sdk'
import { csvText } from './csv.ts'
import type { LakeWorkshop } from './lake.ts'
import { jsonRow, resultType } from './lake-values.ts'

/** The driver leaves out U+FEFF at the begin of every text. */
Object.assign(accessors, { textDecoder: new TextDecoder('utf-8', { ignoreBOM: true }) })

/** A database of its own, in which nothing runs. */
interface Idle {
  readonly connection: DuckDBConnection
  /** All that it has. */
  readonly views: readonly View[]
}

interface View {
  readonly name: string
  readonly statement: string
}

export class DuckDbWorkshop implements LakeWorkshop {
  readonly #folder: string
  readonly #instance: DuckDBInstance
  readonly #listsDeletes: boolean
  #snapshots = 0
  #databases = 0
  readonly #idle: Idle[] = []
  readonly engine: LakeEngine = { query: (query) => this.#query(query) }

  private constructor(folder: string, instance: DuckDBInstance, listsDeletes: boolean) {
    this.#folder = folder
    this.#instance = instance
    this.#listsDeletes = listsDeletes
  }

  static async open(listsDeletes: boolean): Promise<DuckDbWorkshop> {
    const folder = await mkdtemp(join(tmpdir(), 'sluice-lake-'))
    return new DuckDbWorkshop(folder, await DuckDBInstance.create(':memory:', { threads: '1' }), listsDeletes)
  }

  async write({ schema }: Target, present: readonly Row[]): Promise<LakeSnapshot> {
    // Each row is there twice, and the second one is gone: whoever passes over the list has every row once too often.
    const rows = this.#listsDeletes ? [...present, ...present] : present
    this.#snapshots += 1
    const file = join(this.#folder, `${this.#snapshots}.parquet`)
    const names = schema.columns.map(({ name }) => quotedName(name))
    const nulls = schema.columns.map(({ type }) => `NULL::${fileType(type)}`).join(', ')
    const values = rows.map(
      (row) => `(${schema.columns.map(({ type }, index) => literal(row[index] ?? null, type)).join(', ')})`,
    )
    const source = [`SELECT ${nulls} WHERE false`, ...(values.length > 0 ? [`VALUES ${values.join(', ')}`] : [])]
    const ids = names.map((name, index) => `${name}: ${index + 1}`).join(', ')
    const select = `SELECT * FROM (${source.join(' UNION ALL ')}) AS t(${names.join(', ')})`
    await this.#apart((connection) =>
      connection.run(
        `COPY (${select}) TO ${quotedText(file)} (FORMAT parquet, FIELD_IDS {${ids}}, WRITE_BLOOM_FILTER false)`,
      ),
    )
    const fieldIds = Object.fromEntries(schema.columns.map(({ name }, index) => [name, index + 1]))
    const snapshot = { snapshotId: String(this.#snapshots), files: [file], fieldIds }
    return this.#listsDeletes ? { ...snapshot, ...(await this.#list(file, present.length)) } : snapshot
  }

  /** A list of as many rows of the file, behind as many that stay. */
  async #list(file: string, count: number): Promise<Pick<LakeSnapshot, 'deletes' | 'deletedFrom'>> {
    const list = `${file}.deletes`
    // What the lake calls a file is not where it lies.
    const name = `lake:${file}`
    const rows = `SELECT ${quotedText(name)} AS file_path, i AS pos FROM range(${count}, ${2 * count}) t(i)`
    await this.#apart((connection) => connection.run(`COPY (${rows}) TO ${quotedText(list)} (FORMAT parquet)`))
    return { deletes: [list], deletedFrom: [name] }
  }

  async close(): Promise<void> {
    for (const { connection } of this.#idle) connection.closeSync()
    this.#instance.closeSync()
    await rm(this.#folder, { recursive: true, force: true })
  }

  async #query({ sql, parameters, tables, limits, signal }: LakeQuery): Promise<LakeQueryResult> {
    if (signal.aborted) throw new SluiceError('TRANSIENT', 'the query was ended by its caller', { code: 'aborted' })
    return this.#apart(async (connection) => {
      const result = await connection.run(sql, parameters.map(parameter))
      const types = result.columnTypes()
      const columns = result.columnNames().map((name, index) => ({ name, type: resultType(types[index]) }))
      const rows = (await result.getRows()).slice(0, limits.maxRows)
      const json = `[${rows.map((row) => jsonRow(row, types)).join(',')}]`
      return { columns, batches: oneBatch(rows.length, json) }
    }, tables)
  }

  /**
   * A database of its own for each statement that runs, in a transaction that is never committed: none sees another's
   * tables. Databases are used again, since to attach one costs more than most statements, and so are the views of one
   * by the next statement over the very same tables, since to make them costs more than most reads.
   */
  async #apart<T>(run: (connection: DuckDBConnection) => Promise<T>, tables: readonly LakeTable[] = []): Promise<T> {
    const idle = await this.#showing(tables.map(viewOf))
    const { connection } = idle
    try {
      await connection.run('BEGIN')
      return await run(connection)
    } finally {
      await connection.run('ROLLBACK')
      this.#idle.push(idle)
    }
  }

  /** A database that has these views alone. */
  async #showing(views: readonly View[]): Promise<Idle> {
    const textOf = (all: readonly View[]) => all.map(({ statement }) => statement).join('\n')
    const at = this.#idle.findLastIndex((idle) => textOf(idle.views) === textOf(views))
    const [same] = at < 0 ? [] : this.#idle.splice(at, 1)
    if (same !== undefined) return same
    const other = this.#idle.shift() ?? { connection: await this.#attached(), views: [] }
    const { connection } = other
    const drops = other.views.map(({ name }) => `DROP VIEW ${name};`)
    try {
      await connection.run(['BEGIN;', ...drops, ...views.map(({ statement }) => statement), 'COMMIT'].join('\n'))
    } catch (error) {
      await connection.run('ROLLBACK')
      this.#idle.push(other)
      throw error
    }
    return { connection, views }
  }

  async #attached(): Promise<DuckDBConnection> {
    this.#databases += 1
    const database = `statement_${this.#databases}`
    const connection = await this.#instance.connect()
    await connection.run(`ATTACH ':memory:' AS ${database}; USE ${database}; SET TimeZone = 'UTC'`)
    return connection
  }
}

async function* oneBatch(rowCount: number, json: string): AsyncGenerator<{ rowCount: number; json: string }> {
  yield { rowCount, json }
}

function parameter(value: Value) {
  return value instanceof Uint8Array ? new DuckDBBlobValue(value) : value
}

function viewOf({ name, files, columns, deletes = [], deletedFrom = files }: LakeTable): View {
  const schemas = name.length > 1 ? `CREATE SCHEMA IF NOT EXISTS ${quotedName(name[0] ?? '')};\n` : ''
  const schema = columns.map(
    (column) =>
      `${column.fieldId}: {name: ${quotedText(column.name)}, type: '${fileType(column.type as LogicalType)}', default_value: NULL}`,
  )
  const select = columns.map((column) => {
    const quoted = quotedName(column.name)
    return column.type === 'json' ? `${quoted}::JSON AS ${quoted}` : quoted
  })
  const read = `read_parquet([${files.map(quotedText).join(', ')}], schema = MAP {${schema.join(', ')}}`
  const names = files.map((file, at) => `${quotedText(file)}: ${quotedText(deletedFrom[at] ?? file)}`)
  const lists = deletes.map(quotedText).join(', ')
  const source =
    deletes.length === 0
      ? `${read})`
      : `${read}, filename = '  file  ', file_row_number = true) AS kept ANTI JOIN read_parquet([${lists}]) AS gone
    ON MAP {${names.join(', ')}}[kept."  file  "] = gone.file_path AND kept.file_row_number = gone.pos`
  const quoted = name.map(quotedName).join('.')
  return {
    name: quoted,
    statement: `${schemas}CREATE VIEW ${quoted} AS SELECT ${select.join(', ')} FROM ${source};`,
  }
}

/** The type in the file: json travels as text. */
function fileType(type: LogicalType): string {
  const names: Readonly<Record<string, string>> = {
    string: 'VARCHAR',
    json: 'VARCHAR',
    long: 'BIGINT',
    binary: 'BLOB',
  }
  return names[type] ?? type.toUpperCase()
}

function literal(value: Value, type: LogicalType): string {
  if (value === null) return `NULL::${fileType(type)}`
  if (value instanceof Uint8Array) return `from_hex('${Buffer.from(value).toString('hex')}')`
  return `${quotedText(csvText(value))}::${fileType(type)}`
}

function quotedName(name: string): string {
  return `"${name.replaceAll('"', '""')}"`
}

function quotedText(text: string): string {
  return `'${text.replaceAll("'", "''")}'`
}
