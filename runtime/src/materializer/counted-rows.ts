/** What a version would take from the rows of a product, and what it would add to them: counted, and nothing of it kept. */
import { mkdir, mkdtemp, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { type Engine, type EngineLimits, type EngineTable, quoteName } from '@sluice/engine'
import type { TableSchema } from '@sluice/sdk'
import { type ManifestSet, outputSchema } from '../manifest/manifest-set.ts'
import type { Product } from '../registry/products.ts'
import type { MaterializeDeps } from './deps.ts'
import { heldInputs } from './held-inputs.ts'
import type { InputState } from './input-state.ts'
import { type InputDeps, readInputs } from './inputs.ts'
import { type LakeState, stateOfScan, stateTable } from './lake-state.ts'
import { withoutMarkedRows } from './marked-rows.ts'
import { stagedTable } from './staged-rows.ts'
import { rowGiver, rowRules, transformRows } from './transform.ts'
import { lakeTable } from './variants.ts'

export interface CountDeps extends InputDeps, Pick<MaterializeDeps, 'distributed' | 'scratchDirectory'> {
  readonly engine: Pick<Engine, 'run'>
  /** Of the author's SQL, and of ours. */
  readonly limits: EngineLimits
  /** With more rows in all inputs together nothing is counted. */
  readonly mostInputRows: number
  /** Whether whoever asks may know which rows have that value of the column. */
  isClear(column: string): boolean
}

export interface CountedRows {
  /** In the lake today. */
  readonly before: number
  /** That the manifests make of what the lake has of the inputs, before any check puts some aside. */
  readonly made: number
  /** By key. Null: there is none to compare by, or it is hidden from whoever asks. */
  readonly byKey: { readonly leaving: number; readonly coming: number } | null
}

/** Why it was not counted; no sentence. */
export interface Uncounted {
  readonly uncounted: string
}

/**
 * Held against what the lake has of the product. Writes nothing but files of its own, which go. Throws as a materialization
 * does.
 */
export async function countRows(
  product: Product,
  manifests: ManifestSet,
  deps: CountDeps,
  signal: AbortSignal,
): Promise<CountedRows | Uncounted> {
  const before = await stateOf(product, deps, signal)
  if (before === null) return { uncounted: 'the lake has no rows of it yet' }
  const inputs = await readInputs(product, manifests, signal, deps)
  const rows = inputs.reduce((sum, { state }) => sum + state.rowCount, 0)
  const most = deps.mostInputRows
  if (rows > most) return { uncounted: `its inputs have ${rows} rows, and a plan counts by no more than ${most}` }
  await mkdir(deps.scratchDirectory, { recursive: true, mode: 0o700 })
  const directory = await mkdtemp(join(deps.scratchDirectory, 'plan-'))
  try {
    return await countIn(directory, { product, manifests, inputs, before }, deps, signal)
  } finally {
    await rm(directory, { recursive: true, force: true })
  }
}

async function stateOf({ tenant, domain, name }: Product, { lake }: CountDeps, signal: AbortSignal) {
  const table = await lake.load(lakeTable(tenant, domain, name, 'clear'), { signal })
  return table && stateOfScan(await lake.scan(table, {}, signal))
}

interface Counting {
  readonly product: Product
  readonly manifests: ManifestSet
  readonly inputs: readonly InputState[]
  readonly before: LakeState
}

async function countIn(
  directory: string,
  { product, manifests, inputs: read, before }: Counting,
  { engine, distributed, limits, isClear }: CountDeps,
  signal: AbortSignal,
): Promise<CountedRows> {
  const schema = outputSchema(manifests.output)
  const own = { tenant: product.tenant, engine, distributed, limits, ownLimits: limits, directory, signal }
  const inputs = await heldInputs(await withoutMarkedRows(read, manifests, own), manifests, own)
  const staged = await transformRows(inputs, manifests, schema, own)
  const rules = rowRules('output', schema, rowGiver(manifests))
  const [former, output] = [stateTable('before', before), stagedTable('output', staged)]
  const isComparable = hasKey(schema, before) && schema.primaryKey.every(isClear)
  const counts = isComparable ? [missing(schema, former, output), missing(schema, output, former)] : []
  const steps = [...rules.steps, ...counts.map((sql) => ({ sql, rows: 'collect' as const }))]
  const { results } = await engine.run({ trust: 'own', tables: [former, output], steps, limits }, signal)
  rules.judge(results.slice(0, rules.steps.length))
  const [leaving, coming] = results.slice(rules.steps.length).map(({ rows }) => Number(rows[0]?.[0] ?? 0))
  const byKey = leaving === undefined || coming === undefined ? null : { leaving, coming }
  return { before: before.rowCount, made: staged.rowCount, byKey }
}

/** Whether the rows that are there have a key of their own by what these are to have as theirs: else many would be of one. */
function hasKey({ primaryKey, columns }: TableSchema, before: LakeState): boolean {
  const typeOf = (some: readonly { readonly name: string; readonly type: unknown }[], name: string) =>
    some.find((column) => column.name === name)?.type
  const isOneEach = before.primaryKey.length > 0 && before.primaryKey.every((name) => primaryKey.includes(name))
  return isOneEach && primaryKey.every((name) => typeOf(before.columns, name) === typeOf(columns, name))
}

/** How many rows of one relation have no row of their key in the other. */
function missing({ primaryKey }: TableSchema, { name: [from = ''] }: EngineTable, { name: [other = ''] }: EngineTable) {
  const sameKey = primaryKey.map((name) => `a.${quoteName(name)} = b.${quoteName(name)}`).join(' AND ')
  return `SELECT count(*) FROM ${quoteName(from)} a ANTI JOIN ${quoteName(other)} b ON ${sameKey}`
}
