/** Whether the checks of a version can run: held against the output and the inputs, before a row is there. */

import type { EngineTable, Within } from '@sluice/engine'
import { type Column, isSluiceError, SluiceError } from '@sluice/sdk'
import type { TenantCall } from '../../flow.ts'
import type { Check, Expectation, ManifestSet, Rule } from '../../manifest/manifest-set.ts'
import { isTimeType, outputSchema } from '../../manifest/manifest-set.ts'
import { typedValue } from '../../manifest/scalar-values.ts'
import { placeOfCheck } from '../../manifest/used-checks.ts'
import { OUTPUT_ALIAS } from '../../materializer/run-checks.ts'
import { stagedColumns } from '../../materializer/staged-columns.ts'
import { stagedTable } from '../../materializer/staged-rows.ts'
import { counting, givesNumber, SHAPE, type TenantCheck, tenantChecks } from '../../quality/check-plan.ts'
import { readingOf, readingOfQuery } from '../../quality/check-readings.ts'
import type { CheckReading } from '../../quality/check-result.ts'
import type { CheckTable } from '../../quality/check-tables.ts'
import { literal } from '../../quality/literal.ts'
import { bind, CHECK_LIMITS } from './bind-sql.ts'
import type { DeployDeps } from './deps.ts'
import { emptyInput, lakeCopy, type Sources } from './sources.ts'

/** Why a check cannot run, and at which of its fields that stands. */
interface Fault {
  readonly field: string
  readonly message: string
  readonly hint: string
}

/** By the check's name, to be asked where the answer is needed. */
export type Faults = ReadonlyMap<string, () => Promise<Fault>>

/** One of `errors`, still without line and column. */
interface Unplaced {
  readonly manifest: 'quality'
  readonly path: string
  readonly message: string
  readonly hint: string
}

/** What checks read, all of it empty. */
interface Ground {
  readonly output: CheckTable
  readonly staged: EngineTable
  /** By alias; null where nobody could say which columns the input has. */
  readonly inputs: ReadonlyMap<string, EngineTable | null>
}

/**
 * Throws INVALID_DATA `check_invalid`, whose `errors` name the checks that cannot run. What a check names of a source
 * that could not be asked is not judged. What an input's source has no longer, and its copy in the lake has still, can
 * be read until the next sync.
 */
export async function checkQuality(
  platform: DeployDeps,
  call: TenantCall,
  manifests: ManifestSet,
  sources: Sources['tables'],
): Promise<void> {
  const { checks } = manifests.quality
  const whole = manifests.inputs.map((input) => ({ ...input, columns: null }))
  const asked = whole.map((input) => emptyInput(input, sources.get(input.connection) ?? null))
  const found = await brokenChecks(platform, call, checks, groundOf(manifests, asked))
  await checkExpectations(platform, call, manifests, sources)
  if (found.size === 0) return
  const kept = await Promise.all(
    whole.map(async (input, index) => asked[index] && emptyInput(input, await lakeCopy(platform, call, input))),
  )
  const former = asked.map((table, index) => kept[index] ?? table)
  const isOther = JSON.stringify(former) !== JSON.stringify(asked)
  const suspects = checks.filter(({ name }) => found.has(name))
  const lasting = isOther ? await brokenChecks(platform, call, suspects, groundOf(manifests, former)) : found
  const errors: Unplaced[] = []
  for (const [index, { name }] of checks.entries()) {
    const why = lasting.has(name) ? found.get(name) : undefined
    if (why === undefined) continue
    const { field, message, hint } = await why()
    const place = placeOfCheck(manifests.quality, index)
    // Of a check of another product the fields stand there.
    const path = checks[index]?.from === undefined ? `${place}.${field}` : place
    errors.push({ manifest: 'quality', path, message: `the check "${name}" cannot run: ${message}`, hint })
  }
  const [first] = errors
  if (first !== undefined) throw checksInvalid(first, errors)
}

/** Throws INVALID_DATA `check_invalid` for expectations that cannot run over what their input shows whoever deploys. */
async function checkExpectations(
  platform: DeployDeps,
  call: TenantCall,
  { inputs, quality }: ManifestSet,
  sources: Sources['tables'],
): Promise<void> {
  const errors: Unplaced[] = []
  const all = quality.expectations ?? []
  for (const input of inputs) {
    const own = all.filter(({ on }) => on === input.name)
    const table = own.length === 0 ? null : emptyInput(input, sources.get(input.connection) ?? null)
    if (table === null) continue
    for (const [name, why] of await brokenExpectations(platform, call, own, table.columns)) {
      const { field, message, hint } = await why()
      const path = `expectations[${all.findIndex((one) => one.name === name)}].${field}`
      errors.push({ manifest: 'quality', path, message: `the expectation "${name}" cannot run: ${message}`, hint })
    }
  }
  const [first] = errors
  if (first !== undefined) throw checksInvalid(first, errors)
}

/** By name, those that cannot run over rows with such columns, or would fail whatever the rows are. */
export async function brokenExpectations(
  platform: DeployDeps,
  call: TenantCall,
  expectations: readonly Expectation[],
  columns: readonly Pick<Column, 'name' | 'type'>[],
): Promise<Faults> {
  const known = columns.map(({ name, type }) => ({ name, type, nullable: true }))
  const ground: Ground = {
    output: { name: [OUTPUT_ALIAS], schema: { columns: known, primaryKey: [] } },
    staged: stagedTable(OUTPUT_ALIAS, { files: [], columns: stagedColumns(known) }),
    inputs: new Map(),
  }
  const misfits = expectations.flatMap(({ name, rule }) => {
    const fault = columnFault(rule, known)
    return fault === null ? [] : [[name, async () => fault] as const]
  })
  const others = expectations.filter(({ name }) => !misfits.some(([one]) => one === name))
  return new Map([...misfits, ...(await brokenChecks(platform, call, others, ground))])
}

/** What a rule says of columns by their names, where they are not there or of another type. */
function columnFault(rule: Rule, columns: readonly Column[]): Fault | null {
  const named = rule.kind === 'schema' ? rule.columns : (readingOf(rule, [])?.output ?? [])
  const missing = named.filter((name) => !columns.some((column) => column.name === name))
  const hint = 'Name columns that the input has.'
  if (missing.length > 0) {
    const message = `its input has no column ${missing.map((name) => `"${name}"`).join(', ')}`
    return { field: rule.kind, message, hint }
  }
  const typeOf = (name: string) => columns.find((column) => column.name === name)?.type ?? 'string'
  const values = rule.kind === 'range' ? [rule.min, rule.max] : rule.kind === 'accepted_values' ? rule.values : []
  const [column = ''] = named
  const isUnfit =
    (rule.kind === 'matches' && typeOf(column) !== 'string') ||
    (rule.kind === 'freshness' && !isTimeType(typeOf(column))) ||
    values.some((value) => value !== null && typedValue(value, typeOf(column)) === null)
  return isUnfit
    ? { field: rule.kind, message: `it does not fit the type ${typeOf(column)} of "${column}"`, hint }
    : null
}

/** What each check looks at; null where nobody can say it yet. Of queries only those are asked that could be run. */
export async function checkReadings(
  platform: DeployDeps,
  call: TenantCall,
  manifests: ManifestSet,
  sources: Sources['tables'],
): Promise<ReadonlyMap<string, CheckReading | null>> {
  const { inputs, quality } = manifests
  const known = inputs.map((input) => emptyInput({ ...input, columns: null }, sources.get(input.connection) ?? null))
  const ground = groundOf(manifests, known)
  const tables = [ground.staged, ...known.filter((table) => table !== null)]
  const readings = new Map(quality.checks.map(({ name, rule }) => [name, readingOf(rule, inputs)]))
  for (const { name, sql } of tenantChecks(quality.checks, ground.output)) {
    try {
      const { lineage } = await bind(platform, call, { kind: 'inspect', sql }, tables)
      const named = lineage.flatMap(({ direct, influence }) => [...direct, ...influence])
      readings.set(name, readingOfQuery(named, OUTPUT_ALIAS, inputs))
    } catch (error) {
      if (!isSluiceError(error) || error.kind !== 'INVALID_DATA') throw error
    }
  }
  return readings
}

function checksInvalid(first: Unplaced, errors: readonly Unplaced[]): SluiceError {
  const message = errors.length === 1 ? first.message : `${errors.length} checks of quality.yaml cannot run`
  const remedy = errors.length === 1 ? first.hint : 'Correct the checks that errors[] names, each by its hint.'
  return new SluiceError('INVALID_DATA', message, { code: 'check_invalid', remedy, details: { errors } })
}

function groundOf({ inputs, output }: ManifestSet, known: readonly (EngineTable | null)[]): Ground {
  const schema = outputSchema(output)
  return {
    output: { name: [OUTPUT_ALIAS], schema },
    staged: stagedTable(OUTPUT_ALIAS, { files: [], columns: stagedColumns(schema.columns) }),
    inputs: new Map(inputs.map(({ name }, index) => [name, known[index] ?? null])),
  }
}

/** Of shorthands, only `references` and `matches` say what is not checked already where the file is read. */
async function brokenChecks(
  platform: DeployDeps,
  call: TenantCall,
  checks: readonly Check[],
  ground: Ground,
): Promise<Faults> {
  const dangling = checks.flatMap(({ name, rule }) => {
    const fault = rule.kind === 'references' ? referenceFault(rule, ground) : null
    return fault === null ? [] : [[name, async () => fault] as const]
  })
  const patterns = await brokenPatterns(platform, call, checks)
  const queries = await brokenQueries(platform, call, tenantChecks(checks, ground.output), ground)
  return new Map([...dangling, ...patterns, ...queries])
}

/** What a pattern is, its engine alone can say: it would refuse it at every run. */
async function brokenPatterns(platform: DeployDeps, call: TenantCall, checks: readonly Check[]): Promise<Faults> {
  const asked = checks.flatMap(({ name, rule }) =>
    rule.kind === 'matches' ? [{ name, sql: `SELECT regexp_full_match('', ${literal(rule.pattern, 'string')})` }] : [],
  )
  const compile = (some: readonly TenantCheck[]) => {
    const steps = some.map(({ sql }) => ({ sql, rows: 'collect' as const }))
    return platform.engine.run({ trust: 'tenant', tenant: call.tenant, steps, limits: CHECK_LIMITS }, call.signal)
  }
  return new Map((await failing(asked, compile)).map(({ name }) => [name, async () => NO_PATTERN] as const))
}

const NO_PATTERN: Fault = {
  field: 'matches.pattern',
  message: 'the pattern is no regular expression of RE2, or too large for it',
  hint: 'Close every bracket, put a backslash before signs that are meant as they are, and repeat less often.',
}

function referenceFault(rule: Rule & { kind: 'references' }, { inputs }: Ground): Fault | null {
  const there = inputs.get(rule.input)?.columns.map(({ name }) => name.toLowerCase())
  const missing = there === undefined ? [] : rule.inputColumns.filter((name) => !there.includes(name.toLowerCase()))
  if (missing.length === 0) return null
  return {
    field: 'references.input_columns',
    message: `the input "${rule.input}" has no column ${missing.map((name) => `"${name}"`).join(', ')}`,
    hint: 'Name columns of the input’s table in input_columns.',
  }
}

interface Counting extends TenantCheck {
  readonly within: Within
}

const QUERIES_PER_JOB = 50

/** Told at once. The others are told when these are mended. */
const MAX_FAULTS = 20

/** Binds the queries, many in a job: only those of a job that fails are tried apart. */
async function brokenQueries(
  platform: DeployDeps,
  call: TenantCall,
  queries: readonly TenantCheck[],
  ground: Ground,
): Promise<Faults> {
  const tables = [ground.staged, ...[...ground.inputs.values()].filter((table) => table !== null)]
  const faults = new Map<string, () => Promise<Fault>>()
  const numbers: Counting[] = []
  const collect = async (some: readonly Counting[]) => {
    const steps = some.map(({ sql, within }) => ({ sql, within, rows: 'collect' as const }))
    const job = { trust: 'tenant' as const, tenant: call.tenant, tables, steps, limits: CHECK_LIMITS }
    return (await platform.engine.run(job, call.signal)).results
  }
  const shapes = async (some: readonly TenantCheck[]) => {
    const results = await collect(some.map((query) => ({ ...query, within: SHAPE })))
    for (const [index, query] of some.entries()) {
      const columns = (results[index]?.columns ?? []).map(({ name }) => name)
      if (givesNumber(columns)) numbers.push({ ...query, within: withoutRows(counting(columns, ground.output)) })
    }
  }
  for (const item of await failing(queries, shapes, (error) => namesUnknown(error, ground))) {
    faults.set(item.name, async () => {
      // Alone, so that the lines it counts are those of its author.
      const alone = await refusalOf(bind(platform, call, { kind: 'inspect', sql: item.sql }, tables))
      return alone === null ? NOT_ONE : faultOf(alone, ground)
    })
  }
  for (const item of await failing(numbers, collect)) faults.set(item.name, async () => NO_NUMBER)
  return faults
}

/** What fails over rows that are not there may yet run over those that are. */
function withoutRows({ before, after, as }: Within): Within {
  return { before: `SELECT * FROM (\n${before}`, after: `${after}\n) AS counted LIMIT 0`, as }
}

/** It could run by itself, but not in brackets. */
const NOT_ONE: Fault = {
  field: 'sql',
  message: 'the statement is not valid SQL within another one',
  hint: 'Write one SELECT, without a semicolon behind it.',
}

const NO_NUMBER: Fault = {
  field: 'sql',
  message: 'its one column, violations, is no number',
  hint: 'Give the number of violations, or rename the column: each row is then a violation.',
}

/** Those that fail when they are tried alone, at most `MAX_FAULTS`: what holds together is not taken apart. */
async function failing<T>(
  items: readonly T[],
  attempt: (some: readonly T[]) => Promise<unknown>,
  mayBe: (error: SluiceError) => boolean = () => false,
): Promise<readonly T[]> {
  const found: T[] = []
  const open: (readonly T[])[] = []
  for (let at = 0; at < items.length; at += QUERIES_PER_JOB) open.push(items.slice(at, at + QUERIES_PER_JOB))
  for (let some = open.shift(); some !== undefined && found.length < MAX_FAULTS; some = open.shift()) {
    const error = await refusalOf(attempt(some))
    const [item] = some
    if (error === null || item === undefined) continue
    const middle = Math.ceil(some.length / 2)
    if (some.length > 1) open.unshift(some.slice(0, middle), some.slice(middle))
    else if (!mayBe(error)) found.push(item)
  }
  return found
}

/** Why a text could not be bound; what has other causes is thrown. */
async function refusalOf(binding: Promise<unknown>): Promise<SluiceError | null> {
  try {
    await binding
    return null
  } catch (error) {
    if (isSluiceError(error) && error.kind === 'INVALID_DATA') return error
    throw error
  }
}

function namesUnknown({ code, details }: SluiceError, { inputs }: Ground): boolean {
  if (code !== 'table_not_found') return false
  const table = String(details?.['table']).toLowerCase()
  return [...inputs].some(([name, known]) => known === null && name.toLowerCase() === table)
}

function faultOf({ code, message, remedy }: SluiceError, { inputs }: Ground): Fault {
  const readable =
    inputs.size === 0 ? '{{this}}' : `{{this}} and the inputs by their names: ${[...inputs.keys()].join(', ')}`
  const hints: Readonly<Record<string, string>> = {
    table_not_found:
      inputs.size === 0 ? 'An expectation reads {{this}} alone: the rows of its input.' : `A check reads ${readable}.`,
    column_not_found: '{{this}} has the columns of output.yaml, an input those of its table.',
  }
  return { field: 'sql', message, hint: hints[code] ?? remedy ?? `Write one SELECT over ${readable}.` }
}
