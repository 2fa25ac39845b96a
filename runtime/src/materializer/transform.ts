/** Turns the inputs' rows into staged rows: parquet files in a scratch folder that nobody else reads. */
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import {
  type EngineStep,
  type EngineTable,
  filesOf,
  lostValues,
  quoteName,
  type StepResult,
  type Within,
} from '@sluice/engine'
import { type Column, SluiceError, type TableSchema } from '@sluice/sdk'
import { SANDBOX } from '../lake/tenant-layout.ts'
import type { Input, ManifestSet } from '../manifest/manifest-set.ts'
import { PRODUCTS } from '../registry/product-sources.ts'
import { keyViolations } from './difference.ts'
import { distributedRows } from './distributed-rows.ts'
import type { InputState } from './input-state.ts'
import { type LakeColumn, stateTable } from './lake-state.ts'
import { withSourceChanges } from './source-changes.ts'
import { stagedColumns } from './staged-columns.ts'
import { type StagedRows, stagedTable } from './staged-rows.ts'
import type { TransformDeps } from './transform-deps.ts'

/** What gives the rows of a product, as refusals of them speak of it. */
export interface RowGiver {
  /** Subject of a sentence: `the transform`, or the table that is taken as it is. */
  readonly name: string
  /** Where such rows are to be corrected. */
  readonly remedy: string
}

export function rowGiver({ compute, inputs }: Pick<ManifestSet, 'compute' | 'inputs'>): RowGiver {
  const [input] = inputs
  if (compute.transform !== null || input === undefined) {
    return {
      name: 'the transform',
      remedy: 'Correct the transform in compute.yaml, or the columns and identity in output.yaml.',
    }
  }
  return {
    name:
      input.connection === PRODUCTS
        ? `the product ${input.table}`
        : `the source table ${input.table} of the connection ${input.connection}`,
    remedy:
      'Correct the rows at the source, leave them out by where in inputs.yaml or a transform in compute.yaml, or change the columns and identity in output.yaml.',
  }
}

/** Runs the author's SELECT over the inputs, as hostile text. What came out is to be held against `rowRules`. */
export async function transformRows(
  inputs: readonly InputState[],
  manifests: ManifestSet,
  schema: TableSchema,
  deps: TransformDeps,
): Promise<StagedRows> {
  const isDistributed = manifests.compute.engine === 'distributed'
  const transformed = (isDistributed ? distributedRows : embeddedRows)(inputs, manifests, schema.columns, deps)
  const rows = await transformed.catch((error: unknown) => {
    throw withSourceChanges(
      error,
      manifests,
      inputs.flatMap(({ input, state, changes }) => {
        if (changes === undefined) return []
        return [{ input, changes, columns: chosenColumns({ input, state }).map(({ name }) => name) }]
      }),
    )
  })
  return { ...rows, primaryKey: schema.primaryKey }
}

async function embeddedRows(
  inputs: readonly InputState[],
  manifests: ManifestSet,
  columns: readonly Column[],
  deps: TransformDeps,
): Promise<Omit<StagedRows, 'primaryKey'>> {
  const first = inputs[0] as InputState
  if (manifests.compute.transform === null && deps.mostInputRows === undefined) {
    const asTheyLie = sameRows(first, columns)
    if (asTheyLie !== null) return asTheyLie
  }
  const tables: EngineTable[] = []
  for (const input of inputs) tables.push(await inputTable(input, deps))
  return writeRows('output', transformOf(manifests, tables), stagedColumns(columns), tables, deps)
}

/** Without one, the rows of the first input. */
function transformOf({ compute }: ManifestSet, [first]: readonly EngineTable[]): string {
  return compute.transform ?? `SELECT * FROM ${quoteName(first?.name[0] ?? '')}`
}

/** Some rows of an input. */
export interface InputRows {
  readonly input: Input
  readonly columns: readonly LakeColumn[]
  /** In these columns; under which name does not matter. */
  readonly rows: EngineTable
}

/** What the transform makes of some rows of its inputs, those that their `where` lets through. Inputs that it does not name may be left out. */
export async function transformed(
  inputs: readonly InputRows[],
  manifests: ManifestSet,
  columns: readonly Column[],
  deps: TransformDeps,
): Promise<Omit<StagedRows, 'primaryKey'>> {
  const [first] = inputs
  if (first === undefined || filesOf(first.rows).length === 0) {
    return { files: [], columns: stagedColumns(columns), rowCount: 0, lost: {} }
  }
  const tables: EngineTable[] = []
  for (const { input, columns: own, rows } of inputs) {
    tables.push(await filteredTable(input, own, { ...rows, name: [input.name] }, deps))
  }
  return writeRows('output', transformOf(manifests, tables), stagedColumns(columns), tables, deps)
}

/** Columns of the input that the product may name. */
export function chosenColumns({ input, state }: Pick<InputState, 'input' | 'state'>): readonly LakeColumn[] {
  return input.columns ? state.columns.filter((column) => input.columns?.includes(column.name)) : state.columns
}

/**
 * The input's rows without a copy, where each output column is one of its columns under the same name and of the same type;
 * null where something is to be chosen or cast. Not of the tenant's own files, which are read behind a tenant's walls alone.
 */
export function sameRows(
  { input, state }: InputState,
  wanted: readonly Column[],
): Omit<StagedRows, 'primaryKey'> | null {
  if (input.connection === SANDBOX || input.where !== null) return null
  const columns = wanted.map(({ name, type }) =>
    state.columns.find(
      (own) => own.name === name && own.type === type && (input.columns === null || input.columns.includes(name)),
    ),
  )
  if (columns.includes(undefined)) return null
  const { files, rowCount, deletes } = state
  const gone = deletes === undefined ? {} : { deletes }
  return { files, ...gone, columns: columns as readonly LakeColumn[], rowCount, lost: {} }
}

/** The relation under the input's alias: chosen columns, and only the rows that its `where` lets through, which sees no others. */
export async function inputTable(
  { input, state }: Pick<InputState, 'input' | 'state'>,
  deps: TransformDeps,
): Promise<EngineTable> {
  const columns = chosenColumns({ input, state })
  return filteredTable(input, columns, stateTable(input.name, { ...state, columns }), deps)
}

async function filteredTable(
  input: Input,
  columns: readonly LakeColumn[],
  whole: EngineTable,
  deps: TransformDeps,
): Promise<EngineTable> {
  const { mostInputRows } = deps
  if (input.where === null && mostInputRows === undefined) return whole
  const names = columns.map((column) => quoteName(column.name)).join(', ')
  const from = `SELECT ${names} FROM ${quoteName(input.name)}`
  const limit = mostInputRows === undefined ? '' : ` LIMIT ${mostInputRows}`
  const condition = { before: `${from} WHERE `, after: limit, as: 'condition' } as const
  const [sql, within] = input.where === null ? [`${from}${limit}`] : [input.where, condition]
  const kept = await writeRows(`input-${input.name}`, sql, columns, [whole], deps, within)
  return stagedTable(input.name, kept)
}

async function writeRows(
  folder: string,
  sql: string,
  columns: readonly LakeColumn[],
  tables: readonly EngineTable[],
  deps: TransformDeps,
  within?: Within,
): Promise<Omit<StagedRows, 'primaryKey'>> {
  const dir = join(deps.directory, folder)
  await mkdir(dir, { recursive: true, mode: 0o700 })
  const typed = columns.map((column) => ({ name: column.name, type: column.type, fieldId: column.id }))
  const run = await deps.engine.run(
    {
      trust: 'tenant',
      tenant: deps.tenant,
      tables,
      output: {
        kind: 'parquet-files',
        sql,
        ...(within === undefined ? {} : { within }),
        dir,
        columns: typed,
        countsLosses: true,
      },
      limits: deps.limits,
    },
    deps.signal,
  )
  return {
    files: run.files.filter((file) => file.rows > 0).map((file) => file.path),
    columns,
    rowCount: run.files.reduce((sum, file) => sum + file.rows, 0),
    lost: lostValues(run.files, typed),
  }
}

type RowCheckDeps = Pick<TransformDeps, 'engine' | 'ownLimits' | 'signal'>

/** What staged rows must keep, as steps of an own job and what their results mean. */
export interface RowRules {
  readonly steps: readonly EngineStep[]
  /** Throws INVALID_DATA that says which rule was broken, never a value. */
  judge(results: readonly StepResult[]): void
}

/**
 * Of the rows in `relation`: every required value is there, every date is one of the calendar, and every key occurs
 * once.
 */
export function rowRules(relation: string, schema: TableSchema, giver: RowGiver): RowRules {
  const required = schema.columns.filter((column) => !column.nullable || schema.primaryKey.includes(column.name))
  const dates = schema.columns.filter(({ type }) => CALENDAR[type] !== undefined)
  const counts = [
    ...required.map(({ name }) => `count(*) FILTER (WHERE ${quoteName(name)} IS NULL)`),
    ...dates.map(({ name, type }) => `count(*) FILTER (WHERE ${quoteName(name)} NOT BETWEEN ${CALENDAR[type]})`),
  ]
  const gate = (sql: string): EngineStep => ({ sql, rows: 'collect', gate: true })
  return {
    steps: [
      ...(counts.length > 0 ? [gate(`SELECT ${counts.join(', ')} FROM ${quoteName(relation)}`)] : []),
      ...(schema.primaryKey.length > 0 ? [gate(keyViolations(relation, schema))] : []),
    ],
    judge([found, keys]) {
      const named = (columns: readonly Column[], from: number) =>
        columns.filter((_, index) => Number(found?.rows[0]?.[from + index]) > 0).map(({ name }) => name)
      checkMissing(named(required, 0), giver)
      checkDates(named(dates, required.length), giver)
      checkRepeated(Number(keys?.rows[0]?.[1] ?? 0), schema, giver)
    },
  }
}

/** In a job of its own. Throws what the rules say. */
export async function checkRows(
  { steps, judge }: RowRules,
  tables: readonly EngineTable[],
  { engine, ownLimits, signal }: RowCheckDeps,
): Promise<void> {
  if (steps.length === 0) return
  judge((await engine.run({ trust: 'own', tables, steps, limits: ownLimits }, signal)).results)
}

function checkMissing(columns: readonly string[], { name, remedy }: RowGiver): void {
  if (columns.length === 0) return
  const message = `${name} gives no value for ${columns.join(', ')} in some rows, which output.yaml requires`
  throw invalidOutput('required_value_missing', message, `${remedy} Columns with nullable: true may lack values.`)
}

function checkDates(columns: readonly string[], { name, remedy }: RowGiver): void {
  if (columns.length === 0) return
  const message = `${name} gives dates for ${columns.join(', ')} that are infinite, or outside of the years 1 to 9999`
  throw invalidOutput('date_out_of_range', message, remedy)
}

function checkRepeated(keys: number, { primaryKey }: TableSchema, { name, remedy }: RowGiver): void {
  if (keys === 0) return
  const key = primaryKey.join(', ')
  throw invalidOutput('duplicate_key', `${keys} keys (${key}) occur more than once in what ${name} gives`, remedy)
}

/** By type, the first and the last value that has a form in which every store keeps it and every answer spells it. */
const CALENDAR: Readonly<Record<string, string>> = {
  date: "DATE '0001-01-01' AND DATE '9999-12-31'",
  timestamp: "TIMESTAMP '0001-01-01 00:00:00' AND TIMESTAMP '9999-12-31 23:59:59.999999'",
  timestamptz: "TIMESTAMPTZ '0001-01-01 00:00:00+00' AND TIMESTAMPTZ '9999-12-31 23:59:59.999999+00'",
}

function invalidOutput(code: string, message: string, remedy: string): SluiceError {
  return new SluiceError('INVALID_DATA', message, { code, remedy })
}
