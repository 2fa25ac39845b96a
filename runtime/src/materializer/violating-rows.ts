/**
 * The first rows that failing checks found bad: their identity, and the columns that the check names, each as the variant
 * shows it. A variant has nothing of a check that looks at what the variant hides.
 */
import { quoteName, quoteTable } from '@sluice/engine'
import type { Variant } from '@sluice/sdk'
import type { OutputManifest } from '../manifest/manifest-set.ts'
import { type CheckPlan, givesNumber, type TenantCheck } from '../quality/check-plan.ts'
import type { CheckReading, CheckResult } from '../quality/check-result.ts'
import type { ViolatingRows } from '../registry/violating-rows.ts'
import type { InputState } from './input-state.ts'
import { stateTable } from './lake-state.ts'
import { type MaskKey, maskKeySteps, twinSelect } from './mask-sql.ts'
import { type CheckRun, OUTPUT_ALIAS, orUnable } from './run-checks.ts'
import { type StagedRows, stagedTable } from './staged-rows.ts'
import type { VariantPlan } from './variants.ts'

/** Of one check. */
const MAX_ROWS = 100
/** Of a query; identity and named columns are few. */
const MAX_COLUMNS = 20
const MAX_CHARACTERS = 200
/** As a read tells them in CSV. One character more than is shown, so that it is known where there is more. */
const COLLECTED = { rows: 'collect', textCharacters: MAX_CHARACTERS + 1 } as const
/** Of all that is kept of one variant; checks beyond it have their counts alone. */
const MAX_TOTAL_CHARACTERS = 500_000

export type ViolationsByVariant = ReadonlyMap<Variant, readonly ViolatingRows[]>

export interface FailedChecks {
  readonly results: readonly CheckResult[]
  readonly plan: CheckPlan
  /** Names of the columns that queries of checks give, by check. */
  readonly queryColumns: ReadonlyMap<string, readonly string[]>
}

export async function violatingRows(
  checked: FailedChecks,
  staged: StagedRows,
  inputs: readonly InputState[],
  shape: {
    readonly output: OutputManifest
    readonly variants: readonly VariantPlan[]
    readonly keys: readonly MaskKey[]
  },
  run: CheckRun,
): Promise<ViolationsByVariant> {
  const failed = checked.results.filter(({ passed, violations }) => !passed && (violations ?? 0) > 0)
  if (failed.length === 0) return new Map()
  const tables = [stagedTable(OUTPUT_ALIAS, staged), ...inputs.map(({ input, state }) => stateTable(input.name, state))]
  const found: Found[] = []
  const asked = failed.flatMap((check) => ruleQueries(check, checked.plan, shape))
  if (asked.length > 0) found.push(...(await rowsOfRules(asked, shape.keys, tables, run)))
  for (const check of failed) {
    const query = checked.plan.tenantChecks.find(({ name }) => name === check.name)
    const columns = checked.queryColumns.get(check.name) ?? []
    if (query === undefined || columns.length === 0 || givesNumber(columns)) continue
    const rows = await rowsOfQuery(query, columns, check, tables, run)
    if (rows !== null) found.push(...seeing(check.reads, shape.variants).map(({ variant }) => ({ variant, rows })))
  }
  const inOrder = failed.flatMap(({ name }) => found.filter(({ rows }) => rows.check === name))
  return new Map(shape.variants.map(({ variant }) => [variant, bounded(inOrder, variant)] as const))
}

interface Found {
  readonly variant: Variant
  readonly rows: ViolatingRows
}

/** What is read of source tables is for who may read those, who are given the clear variant. */
function seeing(reads: CheckReading | null | undefined, variants: readonly VariantPlan[]): readonly VariantPlan[] {
  return variants.filter(({ masks }) => {
    if (masks.length === 0) return true
    if (reads === null || reads === undefined || reads.raw.length > 0) return false
    return !masks.some(({ column }) => names(reads.output, column))
  })
}

function names(columns: readonly string[], column: string): boolean {
  return columns.some((name) => name.toLowerCase() === column.toLowerCase())
}

interface RuleQuery {
  readonly check: string
  readonly variant: Variant
  readonly condition: string
  readonly columns: readonly string[]
  readonly masked: readonly string[]
  readonly twin: (source: string, keys: readonly MaskKey[]) => string
}

function ruleQueries(
  { name, reads }: CheckResult,
  plan: CheckPlan,
  { output, variants }: { readonly output: OutputManifest; readonly variants: readonly VariantPlan[] },
): readonly RuleQuery[] {
  const condition = plan.badRows.get(name)
  if (condition === undefined) return []
  // Which keys a source has is told by the check's count already, to whoever sees the check.
  const own = reads ? { ...reads, raw: [] } : null
  return seeing(own, variants).map(({ variant, masks, schema }) => {
    const wanted = [...output.primaryKey, ...(reads?.output ?? [])]
    const columns = [...new Set(wanted)].filter((column) => schema.columns.some((shown) => shown.name === column))
    const masked = masks.map(({ column }) => column).filter((column) => columns.includes(column))
    const twin = (source: string, keys: readonly MaskKey[]) => twinSelect(source, output.columns, masks, keys)
    return { check: name, variant, condition, columns, masked, twin }
  })
}

/**
 * All in one job. Which rows are shown, of many, and in which order, is chosen by what they show and nothing else: by what is
 * in clear first, for pseudonyms sort by chance.
 */
async function rowsOfRules(
  queries: readonly RuleQuery[],
  keys: readonly MaskKey[],
  tables: ReturnType<typeof stagedTable>[],
  run: CheckRun,
): Promise<readonly Found[]> {
  const before = [
    ...maskKeySteps(keys),
    ...queries.map(({ condition }, index) => ({
      sql: `CREATE TEMP VIEW ${quoteName(`__bad_${index}`)} AS SELECT * FROM ${quoteTable([OUTPUT_ALIAS])} AS "this" WHERE ${condition}`,
    })),
  ]
  const reads = queries.map(({ columns, masked, twin }, index) => {
    const order = [...columns.filter((column) => !masked.includes(column)), ...masked]
    return {
      sql: `SELECT ${columns.map(quoteName).join(', ')} FROM (${twin(`__bad_${index}`, keys)}) AS bad
        ORDER BY ${order.map((column) => `bad.${quoteName(column)}`).join(', ')} LIMIT ${MAX_ROWS}`,
      ...COLLECTED,
    }
  })
  const job = { trust: 'own' as const, tables, steps: [...before, ...reads], limits: run.ownLimits }
  const done = await orUnable(run, () => run.engine.run(job, run.signal))
  if (done === null) return []
  return queries.map(({ check, variant, columns, masked }, index) => ({
    variant,
    rows: { check, columns, masked, ofSource: false, rows: textRows(done.results[index]?.rows) },
  }))
}

/** In a query's own columns, whatever it calls them. */
async function rowsOfQuery(
  { sql, name }: TenantCheck,
  columns: readonly string[],
  { reads }: CheckResult,
  tables: ReturnType<typeof stagedTable>[],
  run: CheckRun,
): Promise<ViolatingRows | null> {
  const own = columns.map((_, index) => `c${index}`)
  const shown = own.slice(0, MAX_COLUMNS)
  const within = {
    before: `SELECT ${shown.join(', ')} FROM (\n`,
    after: `\n) AS bad(${own.join(', ')}) ORDER BY ${shown.map((cell) => `bad.${cell}`).join(', ')} LIMIT ${MAX_ROWS}`,
    as: 'query' as const,
  }
  const job = { trust: 'tenant' as const, tenant: run.tenant, tables, limits: run.limits }
  const steps = [{ sql, within, ...COLLECTED }]
  const done = await orUnable(run, () => run.engine.run({ ...job, steps }, run.signal))
  if (done === null) return null
  const ofSource = reads === null || reads === undefined || reads.raw.length > 0
  return {
    check: name,
    columns: columns.slice(0, MAX_COLUMNS),
    masked: [],
    ofSource,
    rows: textRows(done.results[0]?.rows),
  }
}

function textRows(rows: readonly (readonly unknown[])[] = []): ViolatingRows['rows'] {
  return rows.map((row) => row.map((value) => (value === null || value === undefined ? null : cut(String(value)))))
}

function cut(text: string): string {
  const characters = [...text]
  return characters.length <= MAX_CHARACTERS ? text : `${characters.slice(0, MAX_CHARACTERS).join('')}…`
}

function bounded(found: readonly Found[], variant: Variant): readonly ViolatingRows[] {
  let left = MAX_TOTAL_CHARACTERS
  const kept: ViolatingRows[] = []
  for (const one of found) {
    if (one.variant !== variant) continue
    const rows: ViolatingRows['rows'][number][] = []
    for (const row of one.rows.rows) {
      left -= row.reduce((sum, value) => sum + (value?.length ?? 0) + 3, 2)
      if (left < 0) break
      rows.push(row)
    }
    kept.push({ ...one.rows, rows })
  }
  return kept
}
