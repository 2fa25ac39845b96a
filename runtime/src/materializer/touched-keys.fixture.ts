/** Three source tables in the lake, products that join and group them, and a DuckDB beside it that makes the same of the same rows. */
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { join } from 'node:path'
import { DuckDBInstance } from '@duckdb/node-api'
import { type Engine, rowsOf as rowsIn } from '@sluice/engine'
import type { TableRef } from '@sluice/iceberg'
import { commitStep, LIMITS, publish } from '@sluice/iceberg/testing'
import type { LogicalType, Row, TableSchema } from '@sluice/sdk'
import type { RegistryLake } from '../lake/testing.ts'
import type { ManifestSet } from '../manifest/manifest-set.ts'
import { pseudonym, SECRET } from './changed-rows.fixture.ts'
import type { InputState } from './input-state.ts'
import { type LakeState, stateOfScan, stateTable } from './lake-state.ts'
import { maskKey } from './mask-sql.ts'
import { prepare } from './prepare.ts'
import { lakeTable, type VariantPlan } from './variants.ts'

const text = (name: string) => ({ name, type: 'string', nullable: true }) as const
const long = (name: string) => ({ name, type: 'long', nullable: true }) as const
export const SOURCE: TableSchema = {
  columns: [
    { name: 'id', type: 'long', nullable: false },
    ...['pay', 'grp', 'lvl', 'day'].map(long),
    ...['email', 'alt', 'city'].map(text),
    { name: 'cost', type: 'decimal(10,2)', nullable: true },
    { name: 'rate', type: 'double', nullable: true },
  ],
  primaryKey: ['id'],
}
const NAMES = SOURCE.columns.map(({ name }) => name)
const TYPES: Readonly<Record<string, string>> = {
  long: 'BIGINT',
  string: 'VARCHAR',
  double: 'DOUBLE',
  'decimal(10,2)': 'DECIMAL(10,2)',
}

/** Rows by table. A file of 10,000 rows stays when some of them are gone; of a smaller one all rows are written anew. */
export const SIZES = { people: 12_000, staff: 400, seen: 300 } as const
export type SourceName = keyof typeof SIZES

export interface Asked {
  readonly sql: string | null
  readonly keys: readonly { readonly name: string; readonly type: LogicalType }[]
  readonly values: readonly string[]
  readonly tables: readonly string[]
  readonly where?: Readonly<Record<string, string>>
  readonly writeMode?: string
}

const firstRows = (name: SourceName) =>
  `SELECT i::BIGINT AS id, (i * 5 % 401)::BIGINT AS pay, nullif(i % 300, 7)::BIGINT AS grp, (i % 97)::BIGINT AS lvl,
    nullif(i * 3 % 211, 5)::BIGINT AS day, 'm' || i % 200 AS email, nullif('M' || i % 50, 'M3') AS alt,
    ['oslo', 'Oslo', NULL, 'rome'][1 + i % 4] AS city, (i % 60 / 4)::DECIMAL(10,2) AS cost,
    [0.1, 1e17, -1e17, 'nan'::DOUBLE][1 + i % 4] AS rate FROM range(1, ${SIZES[name] + 1}) t(i)`

export async function openSources(lake: RegistryLake) {
  const instance = await DuckDBInstance.create(':memory:')
  const oracle = await instance.connect()
  const zone = `raw_${randomUUID().slice(0, 8)}`
  const tableOf = (name: string): TableRef => ({ warehouse: 'acme', namespace: zone, table: name })
  const told = async (sql: string): Promise<Row[]> =>
    (await (await oracle.run(sql)).getRowsJson()).map((row) => row as Row)
  for (const name of Object.keys(SIZES) as SourceName[]) {
    await commitStep(lake, tableOf(name), { operation: 'replace', schema: SOURCE, select: firstRows(name) })
    await oracle.run(`CREATE TABLE raw_${name} AS ${firstRows(name)}`)
  }

  /** In the lake and beside it: rows by all columns, as texts, in place of those with their id; ids that are gone. */
  async function change(
    name: SourceName,
    rows: readonly (readonly (string | null)[])[],
    gone: readonly number[],
  ): Promise<void> {
    const cells = SOURCE.columns.map((column) => `CAST(${column.name} AS ${TYPES[column.type]}) AS ${column.name}`)
    const none = NAMES.map((_, at) => (at === 0 ? '-1' : null))
    const cell = (value: string | null) => (value === null ? 'NULL' : `'${value}'`)
    const values = [none, ...rows].map((row) => `(${row.map(cell).join(', ')})`).join(', ')
    const changed = `SELECT ${cells.join(', ')} FROM (VALUES ${values}) t(${NAMES.join(', ')}) WHERE t.id::BIGINT > 0`
    const left = `SELECT id::BIGINT AS id FROM (VALUES ${[-1, ...gone].map((id) => `(${id})`).join(', ')}) t(id) WHERE id > 0`
    await oracle.run(`CREATE OR REPLACE TEMP TABLE news AS ${changed}`)
    await oracle.run(`DELETE FROM raw_${name} WHERE id IN (SELECT id FROM news) OR id IN (${left})`)
    await oracle.run(`INSERT INTO raw_${name} SELECT * FROM news`)
    const base = await lake.lake.load(tableOf(name))
    assert.ok(base)
    const { written, removed, removedFrom } = await lake.lake.merge(
      {
        base,
        scan: await lake.lake.scan(base),
        schema: SOURCE,
        rows: 'keep',
        key: ['id'],
        job: { limits: LIMITS },
        changed,
        gone: left,
      },
      AbortSignal.timeout(600_000),
    )
    const { plan, files, writeId } = written
    const commit = { base, plan, operation: 'overwrite', removed, removedFrom, files, writeId, summary: {} } as const
    await publish(lake, await lake.lake.stage(tableOf(name), commit))
  }

  /** The product's rows by the oracle, as texts; of a twin with the columns in `hashed` as pseudonyms. */
  async function expected(
    { sql, keys, values, tables, where = {} }: Asked,
    hashed: readonly string[],
  ): Promise<readonly Row[]> {
    for (const name of tables) {
      await oracle.run(`CREATE OR REPLACE VIEW ${name} AS SELECT * FROM raw_${name} WHERE ${where[name] ?? 'true'}`)
    }
    const names = [...keys.map(({ name }) => name), ...values]
    const list = names.map((name) => `CAST(${name} AS VARCHAR) AS ${name}`).join(', ')
    const rows = await told(`SELECT ${list} FROM (${sql ?? `SELECT * FROM ${tables[0]}`})`)
    const shown = (value: Row[number], at: number) =>
      value !== null && hashed.includes(names[at] as string) ? pseudonym(String(value), SECRET) : value
    return sorted(rows.map((row) => row.map(shown)))
  }

  return { zone, told, change, expected, tableOf, close: () => oracle.closeSync() }
}

export type Sources = Awaited<ReturnType<typeof openSources>>

const sorted = (rows: readonly Row[]): readonly Row[] =>
  [...rows].sort((left, right) => (JSON.stringify(left) < JSON.stringify(right) ? -1 : 1))

/** What the jobs of a materialization read and wrote. */
export interface Counted {
  /** Whether the touched keys alone were made. */
  isByKeys: boolean
  /** Rows that transforms gave. */
  made: number
  /** Rows of new files of the clear table. */
  written: number
}

export function productOf(lake: RegistryLake, sources: Sources, asked: Asked) {
  const product = `p${randomUUID().slice(0, 8)}`
  const { sql, keys, values, tables, where = {}, writeMode = 'replace' } = asked
  const columns = [
    ...keys.map(({ name, type }) => ({ name, type, nullable: false })),
    ...values.map((name) => ({ name, type: 'string', nullable: true }) as const),
  ]
  const [primaryKey, first, lastValue] = [keys.map(({ name }) => name), keys[0], values.at(-1)]
  assert.ok(first && lastValue)
  const variantOf = (variant: string, hashed: string): VariantPlan => ({
    variant,
    masks: [{ column: hashed, classification: 'pii.email', strategy: 'hash' }],
    schema: {
      columns: columns.map((column) => (column.name === hashed ? { ...column, type: 'string' } : column)),
      primaryKey,
    },
  })
  const clear: VariantPlan = { variant: 'clear', masks: [], schema: { columns, primaryKey } }
  const variants = [clear, variantOf('masked', lastValue), variantOf('hashed', first.name)]
  const output = {
    format: 'iceberg',
    columns: columns.map((column) => ({
      ...column,
      role: primaryKey.includes(column.name) ? 'identity' : 'attribute',
      classification: 'none',
    })),
    primaryKey,
    partitioning: [],
    writeMode,
  }
  const inputs = tables.map((name) => ({
    name,
    connection: 'db',
    table: name,
    columns: null,
    where: where[name] ?? null,
  }))
  const refOf = (variant: string) => lakeTable('acme', 'sales', product, variant)
  let epoch = 0
  return {
    hashed: { clear: [], masked: [lastValue], hashed: [first.name] } as Readonly<Record<string, readonly string[]>>,
    async epoch(fewRows = 0): Promise<Counted> {
      const counted: Counted = { isByKeys: false, made: 0, written: 0 }
      const states: InputState[] = []
      for (const input of inputs) {
        const table = sources.tableOf(input.name)
        states.push({
          input,
          state: stateOfScan(await lake.lake.scan(table)) as LakeState,
          table,
        } as unknown as InputState)
      }
      epoch += 1
      const known = await this.files()
      const { commits } = await prepare(
        {
          tenant: 'acme',
          domain: 'sales',
          product,
          version: '1.0.0',
          manifests: {
            output,
            quality: { checks: [] },
            inputs,
            compute: { engine: 'embedded', transform: sql },
          } as unknown as ManifestSet,
          variants,
          keys: [maskKey('pii.email', SECRET)],
          inputs: states,
          runId: `run_${randomUUID()}`,
          epoch,
          takesDeletes: true,
          fewRows,
          limits: LIMITS,
          ownLimits: LIMITS,
          signal: AbortSignal.timeout(600_000),
        },
        {
          engine: counting(lake.engine, counted),
          distributed: null,
          lake: lake.lake,
          faultPoint: async () => undefined,
          scratchDirectory: join(lake.dir, 'materializer'),
          nowMs: Date.now,
        },
      )
      await publish(lake, ...commits)
      const { files } = await lake.lake.scan(refOf('clear'))
      counted.written = files.filter(({ uri }) => !known.includes(uri)).reduce((sum, { rows }) => sum + rows, 0)
      return counted
    },
    async files(): Promise<readonly string[]> {
      if ((await lake.lake.load(refOf('clear'))) === null) return []
      return (await lake.lake.scan(refOf('clear'))).files.map(({ uri }) => uri)
    },
    async rows(variant: string): Promise<readonly Row[]> {
      const state = stateOfScan(await lake.lake.scan(refOf(variant))) as LakeState
      const list = columns.map(({ name }) => `CAST(${name} AS VARCHAR) AS ${name}`).join(', ')
      const run = await lake.engine.run(
        {
          trust: 'own',
          tables: [stateTable('rows', state)],
          output: { kind: 'rows', sql: `SELECT ${list} FROM rows` },
          limits: LIMITS,
        },
        AbortSignal.timeout(600_000),
      )
      const rows: Row[] = []
      for await (const some of rowsIn(run)) rows.push(...(some as readonly Row[]))
      return sorted(rows)
    },
  }
}

function counting(engine: Engine, counted: Counted): Engine {
  return new Proxy(engine, {
    get(target, name) {
      const own = Reflect.get(target, name, target)
      if (name !== 'run') return typeof own === 'function' ? own.bind(target) : own
      return async (...[job, signal]: Parameters<Engine['run']>) => {
        if (job.tables?.some((table) => table.name[0] === 'before_0')) counted.isByKeys = true
        const run = await target.run(job, signal)
        if (job.trust === 'tenant') counted.made += run.files.reduce((sum, { rows }) => sum + rows, 0)
        return run
      }
    },
  })
}
