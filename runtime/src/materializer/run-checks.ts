/** Runs a product's quality checks on its staged rows, in the engine, and counts what each finds. */
import type { Engine, EngineLimits, EngineStep, EngineTable, SourceColumn, StepResult } from '@sluice/engine'
import { isSluiceError } from '@sluice/sdk'
import type { Check } from '../manifest/manifest-set.ts'
import { judgeAnomaly } from '../quality/anomaly.ts'
import { type CheckPlan, counting, countsOf, planChecks, type TenantCheck } from '../quality/check-plan.ts'
import { readingOf, readingOfQuery } from '../quality/check-readings.ts'
import type { CheckReading, CheckResult } from '../quality/check-result.ts'
import type { CheckCount, CheckTable } from '../quality/check-tables.ts'
import type { Profile } from '../quality/distribution.ts'
import type { Measurement } from '../quality/measures.ts'
import { NOTHING } from '../quality/taught.ts'
import type { Learned } from '../quality/teaching.ts'
import { judge } from '../quality/verdict.ts'
import type { InputState } from './input-state.ts'
import { stateTable } from './lake-state.ts'
import { type StagedRows, stagedTable } from './staged-rows.ts'
import { checkRows, type RowRules } from './transform.ts'

export interface CheckRun {
  readonly tenant: string
  readonly engine: Pick<Engine, 'run'>
  /** Of the author's SQL. */
  readonly limits: EngineLimits
  /** Of our own statements, which may spill. */
  readonly ownLimits: EngineLimits
  readonly nowMs: number
  readonly signal: AbortSignal
  /** Of anomaly checks. Absent: nothing is known yet. */
  readonly learned?: Learned
}

export interface Checked {
  readonly results: readonly CheckResult[]
  readonly plan: CheckPlan
  /** Names of the columns that queries of checks give, by check. */
  readonly queryColumns: ReadonlyMap<string, readonly string[]>
  /** How the values of columns lie, of which anomaly checks learn. */
  readonly profiles: ReadonlyMap<string, Profile>
}

/** What a check counted, or measured. */
export interface Counted extends CheckCount {
  readonly measurement?: Measurement
}

/** A statement, and what its rows mean. */
export interface Asked {
  readonly sql: string
  readonly read: (rows: readonly (readonly unknown[])[]) => readonly Counted[]
}

/** The alias of the staged rows; no input may have it, for `__` is refused in names. */
export const OUTPUT_ALIAS = '__output'

/**
 * A check that cannot be run has not passed. Throws where the engine is away, where the run ends, and what `rules` say,
 * before any check has seen the rows.
 *
 * @param rules of the staged rows by `OUTPUT_ALIAS`; null: they keep them
 */
export async function runChecks(
  checks: readonly Check[],
  staged: StagedRows,
  inputs: readonly InputState[],
  rules: RowRules | null,
  run: CheckRun,
): Promise<Checked> {
  const output: CheckTable = {
    name: [OUTPUT_ALIAS],
    schema: { columns: staged.columns, primaryKey: staged.primaryKey },
  }
  const plan = planChecks(checks, {
    output,
    inputs: new Map(inputs.map(({ input, state }) => [input.name, inputTable(input.name, state)])),
    nowMs: run.nowMs,
    ...(run.learned === undefined ? {} : { taught: run.learned.byCheck }),
  })
  const tables = [stagedTable(OUTPUT_ALIAS, staged), ...inputs.map(({ input, state }) => stateTable(input.name, state))]
  const counts = new Map<string, Counted>(plan.counts.map((count) => [count.name, count]))
  for (const count of await countKept(askedOf(plan), rules, tables, run)) counts.set(count.name, count)
  const named = inputs.map(({ input }) => input)
  const readings = new Map<string, CheckReading | null>(checks.map(({ name, rule }) => [name, readingOf(rule, named)]))
  const queryColumns = new Map<string, readonly string[]>()
  for (const check of plan.tenantChecks) {
    const counted = await countTenantCheck(check, output, tables, run)
    if (counted === null) continue
    queryColumns.set(check.name, counted.columns)
    counts.set(check.name, counted.count)
    readings.set(check.name, readingOfQuery(counted.named, OUTPUT_ALIAS, named))
  }
  const judged = (check: Check): CheckResult => {
    const [count, reads] = [counts.get(check.name) ?? null, readings.get(check.name) ?? null]
    const { rule } = check
    if (rule.kind !== 'anomaly') return judge(check, count, reads)
    const { measurement } = count ?? {}
    const taught = run.learned?.byCheck.get(check.name) ?? NOTHING
    const basis = run.learned?.basis ?? ''
    return judgeAnomaly({ ...check, rule }, measurement ? { measurement, taught, basis } : null, reads)
  }
  return { plan, queryColumns, profiles: profilesOf(checks, counts), results: checks.map(judged) }
}

/** By column: checks that differ in their bounds alone have found the same. */
function profilesOf(checks: readonly Check[], counts: ReadonlyMap<string, Counted>): ReadonlyMap<string, Profile> {
  return new Map(
    checks.flatMap(({ name, rule }) => {
      const profile = counts.get(name)?.measurement?.profile
      return rule.kind !== 'anomaly' || rule.column === null || profile === undefined ? [] : [[rule.column, profile]]
    }),
  )
}

export function askedOf({ statements, measures }: Pick<CheckPlan, 'statements' | 'measures'>): readonly Asked[] {
  return [
    ...statements.map(
      (statement): Asked => ({
        sql: statement.sql,
        read: ([row = []]) => countsOf(statement, row),
      }),
    ),
    ...measures.map(
      ({ check: name, sql, read }): Asked => ({
        sql,
        read: (rows) => [{ name, violations: 0, total: 1, measurement: read(rows) }],
      }),
    ),
  ]
}

function inputTable(name: string, state: InputState['state']): CheckTable {
  return { name: [name], schema: { columns: state.columns, primaryKey: state.primaryKey } }
}

/** Of rows that keep the rules: the job that counts looks at those first, and ends there where one is broken. */
async function countKept(
  statements: readonly Asked[],
  rules: RowRules | null,
  tables: readonly EngineTable[],
  run: CheckRun,
): Promise<readonly Counted[]> {
  if (rules === null) return countStatements(statements, tables, run)
  if (statements.length > 0) {
    const results = await resultsOf([...rules.steps, ...stepsOf(statements)], tables, run)
    if (results !== null) {
      rules.judge(results.slice(0, rules.steps.length))
      return allCounts(statements, results.slice(rules.steps.length))
    }
  }
  await checkRows(rules, tables, run)
  return countStatements(statements, tables, run)
}

/** All in one job; where one statement is at fault, each on its own, so that only that one counts as not run. */
export async function countStatements(
  statements: readonly Asked[],
  tables: readonly EngineTable[],
  run: CheckRun,
): Promise<readonly Counted[]> {
  if (statements.length === 0) return []
  const results = await resultsOf(stepsOf(statements), tables, run)
  if (results !== null) return allCounts(statements, results)
  if (statements.length === 1) return []
  const apart: Counted[] = []
  for (const statement of statements) apart.push(...(await countStatements([statement], tables, run)))
  return apart
}

const stepsOf = (statements: readonly Asked[]) => statements.map(({ sql }) => ({ sql, rows: 'collect' as const }))

function allCounts(statements: readonly Asked[], results: readonly StepResult[]): readonly Counted[] {
  return statements.flatMap(({ read }, index) => read(results[index]?.rows ?? []))
}

/** Null where a statement is at fault. */
function resultsOf(steps: readonly EngineStep[], tables: readonly EngineTable[], run: CheckRun) {
  const job = { trust: 'own', tables, steps, limits: run.ownLimits } as const
  return orUnable(run, async () => (await run.engine.run(job, run.signal)).results)
}

export interface CountedQuery {
  readonly count: CheckCount
  readonly columns: readonly string[]
  readonly named: readonly SourceColumn[]
}

export async function countTenantCheck(
  check: TenantCheck,
  output: CheckTable,
  tables: readonly EngineTable[],
  run: CheckRun,
): Promise<CountedQuery | null> {
  const job = { trust: 'tenant' as const, tenant: run.tenant, tables, limits: run.limits }
  return await orUnable(run, async () => {
    const asked = { kind: 'inspect', sql: check.sql } as const
    const { columns, lineage } = await run.engine.run({ ...job, output: asked }, run.signal)
    const names = columns.map((column) => column.name)
    const within = counting(names, output)
    const steps = [{ sql: check.sql, within, rows: 'collect' as const }]
    const [total = 0, violations = 0] = (await run.engine.run({ ...job, steps }, run.signal)).results[0]?.rows[0] ?? []
    const count = { name: check.name, total: Number(total), violations: Math.max(0, Number(violations)) }
    return { count, columns: names, named: lineage.flatMap(({ direct, influence }) => [...direct, ...influence]) }
  })
}

/** Null where the statement itself is at fault. */
export async function orUnable<T>(run: CheckRun, work: () => Promise<T>): Promise<T | null> {
  try {
    return await work()
  } catch (error) {
    run.signal.throwIfAborted()
    const lasting = isSluiceError(error) && error.kind !== 'TRANSIENT'
    if (!lasting) throw error
    return null
  }
}
