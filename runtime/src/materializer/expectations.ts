/**
 * What products made of this one expect of its rows, held against rows that nobody has been shown yet: by what each of them may
 * read, in the variant that it is made of. See docs/decisions/0235-expectations-of-those-downstream.md.
 */
import { mkdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { EngineLimits, EngineTable } from '@sluice/engine'
import type { Variant } from '@sluice/sdk'
import { EXPECTED } from '../manifest/check-expectations.ts'
import type { DownstreamExpectations, Expectation, Rule } from '../manifest/manifest-set.ts'
import { planChecks, tenantChecks } from '../quality/check-plan.ts'
import { readingOf, readingOfQuery } from '../quality/check-readings.ts'
import type { CheckReading, CheckResult } from '../quality/check-result.ts'
import type { CheckTable } from '../quality/check-tables.ts'
import { schemaCount } from '../quality/table-rules.ts'
import { judge } from '../quality/verdict.ts'
import type { PrepareDeps } from './deps.ts'
import type { ExpectingInput } from './expected.ts'
import type { UpstreamAccess } from './inputs.ts'
import { type LakeState, stateTable } from './lake-state.ts'
import { askedOf, type CheckRun, type Counted, countStatements, countTenantCheck, OUTPUT_ALIAS } from './run-checks.ts'
import { chosenColumns, inputTable } from './transform.ts'

export interface ExpectationRun {
  readonly tenant: string
  /** A folder of this materialization alone. */
  readonly directory: string
  /** `enforce` alone lets an expectation keep rows from being published. */
  readonly policy: DownstreamExpectations
  /** Of authors' SQL. */
  readonly limits: EngineLimits
  /** Of our own statements, which may spill. */
  readonly ownLimits: EngineLimits
  readonly signal: AbortSignal
  /** Rows that are to be published; null: there are none of that variant, or they hide other columns. */
  candidate(access: UpstreamAccess): Promise<LakeState | null>
  /** Names of the columns that are masked in it. */
  masked(variant: Variant): ReadonlySet<string>
  /** Those that are read today; null: there are none. */
  served(access: UpstreamAccess): Promise<LakeState | null>
}

type ExpectationDeps = Pick<PrepareDeps, 'engine' | 'nowMs'>

/** For all expectations of an epoch together. What has not been counted by then has not been run. */
const BUDGET_MS = 120_000
/** For one statement of a downstream author. */
const STATEMENT_MS = 30_000
/** More are not run. */
const MOST_EXPECTATIONS = 1000

/**
 * Results for the quality of this product's materialization. One that could not be run, or that the rows in service fail just
 * as well, keeps nothing from being published; none of them makes the materialization fail. Throws where the run ends.
 */
export async function heldExpectations(
  expecting: readonly ExpectingInput[],
  run: ExpectationRun,
  deps: ExpectationDeps,
): Promise<readonly CheckResult[]> {
  const asked = numbered(expecting)
  if (asked.length === 0) return []
  const signal = AbortSignal.any([run.signal, AbortSignal.timeout(BUDGET_MS)])
  const bounded = { ...run, signal }
  const found = await counted(asked, run.candidate, bounded, deps)
  const results = asked.map((one) => resultOf(one, found.get(one.key) ?? null))
  const mayBlock = asked.filter(
    ({ expectation }, index) =>
      run.policy === 'enforce' && expectation.severity === 'error' && isBroken(results[index] as CheckResult),
  )
  if (mayBlock.length === 0) return results
  const before = await counted(mayBlock, run.served, bounded, deps)
  return results.map((result, index) => {
    const one = asked[index] as Asked
    if (!mayBlock.includes(one) || result.expected === undefined) return result
    const served = resultOf(one, before.get(one.key) ?? null)
    const alsoServed = served.violations === null ? null : !served.passed
    // What stays in service would be no better.
    const severity = alsoServed === false ? 'error' : 'warn'
    return { ...result, severity, expected: { ...result.expected, alsoServed } }
  })
}

/** Whether rows were found to fail it. */
export const isBroken = ({ passed, violations }: Pick<CheckResult, 'passed' | 'violations'>): boolean =>
  !passed && violations !== null

interface Asked extends ExpectingInput {
  /** Of the input. */
  readonly id: number
  readonly key: string
  readonly expectation: Expectation
}

function numbered(expecting: readonly ExpectingInput[]): readonly Asked[] {
  return expecting
    .flatMap((one, id) =>
      one.expectations.map((expectation) => ({ ...one, expectation, id, key: `${id}:${expectation.name}` })),
    )
    .slice(0, MOST_EXPECTATIONS)
}

interface Found {
  readonly count: Counted | null
  readonly reads: CheckReading | null
}

function resultOf({ productId, product, owner, expectation }: Asked, found: Found | null): CheckResult {
  const judged = judge(expectation, found?.count ?? null, found?.reads ?? null)
  const by = owner === null ? product : `${product} of ${owner}`
  const { name, severity } = expectation
  return {
    ...judged,
    name: `${EXPECTED}${by}: ${name}`,
    severity: 'warn',
    weight: 0,
    onError: 'block',
    expected: { productId, product, owner, name, severity },
  }
}

type Rows = ExpectationRun['candidate']

/** By key. What is not there could not be counted. */
async function counted(
  asked: readonly Asked[],
  rows: Rows,
  run: ExpectationRun,
  deps: ExpectationDeps,
): Promise<ReadonlyMap<string, Found>> {
  const found = new Map<string, Found>()
  for (const variant of new Set(asked.map(({ access }) => access.variant))) {
    const own = asked.filter(({ access }) => access.variant === variant)
    for (const [key, one] of await countedIn(variant, own, rows, run, deps)) found.set(key, one)
  }
  return found
}

/** An input's rows as its product is shown them. */
interface Shown {
  readonly table: CheckTable
  readonly relation: EngineTable
}

/** One job of ours counts what all of them expect of the variant. Each condition of an input, and each query, is a tenant's job. */
async function countedIn(
  variant: Variant,
  asked: readonly Asked[],
  rows: Rows,
  run: ExpectationRun,
  deps: ExpectationDeps,
): Promise<ReadonlyMap<string, Found>> {
  const found = new Map<string, Found>()
  const checks: CheckRun = {
    tenant: run.tenant,
    engine: deps.engine,
    limits: { ...run.limits, timeoutMs: Math.min(run.limits.timeoutMs, STATEMENT_MS) },
    ownLimits: { ...run.ownLimits, timeoutMs: Math.min(run.ownLimits.timeoutMs, BUDGET_MS) },
    nowMs: deps.nowMs(),
    signal: run.signal,
  }
  const directory = join(run.directory, `expected-${variant}`)
  const statements: Statement[] = []
  const relations: EngineTable[] = []
  try {
    for (const id of new Set(asked.map((one) => one.id))) {
      const own = asked.filter((one) => one.id === id)
      const [first] = own as [Asked]
      const shown = await able(run, () => rowsOf(first, `__input${id}`, join(directory, `${id}`), rows, checks))
      if (shown === null) continue
      relations.push(shown.relation)
      for (const [key, one] of await countedAlone(own, shown, checks, run)) found.set(key, one)
      const inOne = own.filter(({ expectation: { rule } }) => !isAlone(rule) && hasColumns(rule, shown.table))
      statements.push(...(await plannedTogether(inOne, shown.table, checks, run)))
      for (const { key, expectation } of inOne) {
        found.set(key, { count: null, reads: readingOf(expectation.rule, []) })
      }
    }
    for (const count of (await able(run, () => countStatements(statements, relations, checks))) ?? []) {
      found.set(count.name, { count, reads: found.get(count.name)?.reads ?? null })
    }
  } finally {
    await rm(directory, { recursive: true, force: true })
  }
  const masked = run.masked(variant)
  return new Map(
    asked.flatMap((one) => {
      const own = found.get(one.key)
      return own === undefined ? [] : [[one.key, { ...own, reads: shownReads(one, own.reads, masked) }] as const]
    }),
  )
}

type Statement = ReturnType<typeof askedOf>[number]

/** What needs no row, and what its author wrote as a query. */
const isAlone = ({ kind }: Rule): boolean => kind === 'schema' || kind === 'sql'

async function countedAlone(
  asked: readonly Asked[],
  shown: Shown,
  checks: CheckRun,
  run: ExpectationRun,
): Promise<ReadonlyMap<string, Found>> {
  const found = new Map<string, Found>()
  for (const one of asked) {
    const { rule } = one.expectation
    if (rule.kind === 'schema') {
      const tables = { output: shown.table, inputs: new Map(), nowMs: checks.nowMs }
      const count = { name: one.key, ...schemaCount(rule, tables) }
      found.set(one.key, { count, reads: readingOf(rule, []) })
    } else if (rule.kind === 'sql') {
      const counting = await able(run, () => countedQuery(one, shown, checks))
      if (counting !== null) found.set(one.key, counting)
    }
  }
  return found
}

/** In as few passes as there may be. A bound that does not fit the type that its column has by now costs the others nothing. */
async function plannedTogether(
  asked: readonly Asked[],
  output: CheckTable,
  { nowMs }: CheckRun,
  run: ExpectationRun,
): Promise<readonly Statement[]> {
  const planned = async (some: readonly Asked[]) => {
    const named = some.map(({ key, expectation }) => ({ ...expectation, name: key }))
    return askedOf(planChecks(named, { output, inputs: new Map(), nowMs }))
  }
  const together = await able(run, () => planned(asked))
  if (together !== null) return together
  const apart: Statement[] = []
  for (const one of asked) apart.push(...((await able(run, () => planned([one]))) ?? []))
  return apart
}

/** Null: they cannot be had, or not as they are to be shown. */
async function rowsOf(
  { input, access }: Asked,
  name: string,
  directory: string,
  rows: Rows,
  run: CheckRun,
): Promise<Shown | null> {
  const whole = await rows(access)
  if (whole === null) return null
  const known = whole.columns.filter((column) => access.columns?.includes(column.name) ?? true)
  const state = { ...whole, columns: known }
  const columns = chosenColumns({ input, state })
  if (columns.length === 0) return null
  const table = { name: [name], schema: { columns, primaryKey: whole.primaryKey } }
  if (input.where === null) return { table, relation: stateTable(name, { ...state, columns }) }
  await mkdir(directory, { recursive: true, mode: 0o700 })
  const transform = { ...run, distributed: null, directory }
  return { table, relation: { ...(await inputTable({ input, state }, transform)), name: [name] } }
}

/** The query sees its input, and nothing else. */
async function countedQuery({ expectation }: Asked, { table, relation }: Shown, run: CheckRun): Promise<Found | null> {
  const output = { ...table, name: [OUTPUT_ALIAS] }
  const [query] = tenantChecks([expectation], output)
  if (query === undefined) return null
  const counting = await countTenantCheck(query, output, [{ ...relation, name: [OUTPUT_ALIAS] }], run)
  return counting && { count: counting.count, reads: readingOfQuery(counting.named, OUTPUT_ALIAS, []) }
}

function hasColumns(rule: Rule, { schema }: CheckTable): boolean {
  const named = readingOf(rule, [])?.output ?? []
  return named.every((name) => schema.columns.some((column) => column.name === name))
}

/**
 * What a result tells of columns. A condition of the input chooses the rows that are counted, by columns that only the engine knows.
 * Of a masked column nothing but its mask was looked at.
 */
function shownReads(
  { input, access }: Asked,
  reads: CheckReading | null,
  masked: ReadonlySet<string>,
): CheckReading | null {
  if (reads === null) return null
  const all = input.where === null ? reads.output : [...reads.output, ...(access.columns ?? input.columns ?? [])]
  return { output: [...new Set(all)].filter((name) => !masked.has(name)), raw: [] }
}

/** Null where it cannot be done, whatever the reason: an author's mistake, his time, an engine that is away. */
async function able<T>({ signal }: ExpectationRun, work: () => Promise<T>): Promise<T | null> {
  try {
    return await work()
  } catch (error) {
    if (signal.aborted && !isTimeout(signal.reason)) throw error
    return null
  }
}

const isTimeout = (reason: unknown): boolean => reason instanceof DOMException && reason.name === 'TimeoutError'
