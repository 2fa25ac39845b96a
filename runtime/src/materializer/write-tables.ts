/** Which tables of the lake an epoch writes, and from which rows: the product's own, its twins, and those of rows put aside. */
import { type EngineStep, quoteName } from '@sluice/engine'
import {
  type CommitRequest,
  MARKS,
  type Scan,
  type TableState,
  type WriteTarget,
  type WrittenData,
} from '@sluice/iceberg'
import { keepsMissing, outputSchema } from '../manifest/manifest-set.ts'
import type { PrepareDeps } from './deps.ts'
import { mergeSelect, unseenSelect } from './difference.ts'
import { type ErasedKey, keyCondition } from './erased-key.ts'
import { stateOfScan, stateTable, UNKNOWN_FIELD } from './lake-state.ts'
import { maskKeySteps, twinSelect } from './mask-sql.ts'
import type { PrepareRequest } from './prepared.ts'
import { OUTPUT_ALIAS } from './run-checks.ts'
import { type StagedRows, stagedTable } from './staged-rows.ts'
import type { RowRules } from './transform.ts'
import { lakeTable, layoutOf, QUARANTINE, type VariantPlan } from './variants.ts'

interface Destination {
  readonly variant: VariantPlan
  readonly quarantine: boolean
  readonly target: WriteTarget
  readonly appends: boolean
}

export interface WrittenTable {
  readonly variant: VariantPlan
  readonly quarantine: boolean
  readonly ref: WriteTarget['ref']
  readonly base: TableState | null
  readonly change: Pick<CommitRequest, 'operation' | 'removed' | 'removedFrom'>
  readonly written: WrittenData
}

/** One engine job writes tables of the product from the same rows: of these variants, and of rows that were put aside. */
export async function writeTables(
  variants: readonly VariantPlan[],
  staged: StagedRows,
  bad: string | null,
  rules: RowRules | null,
  request: PrepareRequest,
  deps: PrepareDeps,
): Promise<readonly WrittenTable[]> {
  const bases = new Map<string, TableState | null>()
  for (const { variant } of request.variants) bases.set(variant, await baseOf(variant, request, deps))
  const clear = bases.get('clear') ?? null
  const before = await currentState(clear, request, deps)
  const mayStay = before !== null && !(await holdsMore(clear, request, deps))
  const own = variants.map((variant) => destinationOf(variant, bases.get(variant.variant) ?? null, mayStay, request))
  const destinations = [...own, ...(await quarantineDestinations(bad !== null, request, deps))]
  const good = bad === null ? '' : ` WHERE NOT (${bad})`
  const key = before === null ? null : (request.erased?.key ?? null)
  const steps = [
    ...(rules?.steps ?? []),
    ...maskKeySteps(request.keys),
    ...(key === null ? [] : [leftStep(key, request)]),
    { sql: `CREATE TEMP VIEW output AS SELECT * FROM ${quoteName(OUTPUT_ALIAS)} AS "this"${good}` },
    {
      sql: `CREATE TEMP VIEW rejected AS SELECT * FROM ${quoteName(OUTPUT_ALIAS)} AS "this" WHERE ${bad ?? 'false'}`,
    },
    ...(before !== null && bad !== null && request.manifests.output.primaryKey.length > 0 ? [knownStep(request)] : []),
    { sql: `CREATE TEMP VIEW content AS ${contentSelect(before !== null, bad !== null, request)}` },
  ]
  const inputs = request.inputs.map(({ input, state }) => stateTable(input.name, state))
  const former = before && (key === null ? before : { ...before, name: [WITH_ERASED] })
  const tables = [stagedTable(OUTPUT_ALIAS, staged), ...(bad === null ? [] : inputs), ...(former ? [former] : [])]
  const run = await deps.lake.write(
    { tables, steps, limits: request.ownLimits, ...(rules === null ? {} : { judge: rules.judge }) },
    destinations.map((destination) => destination.target),
    request.signal,
  )
  return destinations.map(({ variant, quarantine, target, appends }, index) => ({
    variant,
    quarantine,
    ref: target.ref,
    base: target.base,
    change: { operation: appends ? 'append' : 'replace' },
    written: run.written[index] as WrittenData,
  }))
}

/** A twin is made of the rows in clear; those of a product that keeps what its inputs have no more are nowhere else. */
function baseOf(variant: string, request: PrepareRequest, { lake }: PrepareDeps): Promise<TableState | null> {
  const ref = refOf(request, variant)
  const isElsewhere = variant !== 'clear' || !keepsMissing(request.manifests.output)
  return request.isAsked && isElsewhere ? lake.loadToReplace(ref, request.signal) : lake.load(ref)
}

const BEFORE = '__before'
/** The same with the rows that are to be nowhere. */
const WITH_ERASED = '__with_erased'

function leftStep(key: ErasedKey, { manifests }: PrepareRequest): EngineStep {
  const gone = keyCondition(key, outputSchema(manifests.output).columns)
  return { sql: `CREATE TEMP VIEW ${quoteName(BEFORE)} AS SELECT * FROM ${quoteName(WITH_ERASED)} WHERE NOT ${gone}` }
}

/** Of those rows, the ones whose key a check has put aside now. */
const KNOWN = '__known'

function knownStep({ manifests }: PrepareRequest): EngineStep {
  const sameKey = manifests.output.primaryKey.map((name) => `b.${quoteName(name)} = r.${quoteName(name)}`)
  const rows = `SELECT b.* FROM ${quoteName(BEFORE)} b SEMI JOIN rejected r ON ${sameKey.join(' AND ')}`
  return { sql: `CREATE TEMP VIEW ${quoteName(KNOWN)} AS ${rows}` }
}

/** What the product holds now, in the columns it is to have; null where a merge or append begins with nothing. */
async function currentState(clear: TableState | null, request: PrepareRequest, deps: PrepareDeps) {
  if (clear === null || request.manifests.output.writeMode === 'replace') return null
  const state = stateOfScan(await deps.lake.scan(clear, {}, request.signal))
  if (state === null) return null
  const wanted = outputSchema(request.manifests.output).columns
  const known = wanted.map((column) => state.columns.find((own) => own.name === column.name))
  const columns = wanted.map((column, index) => ({ ...column, id: known[index]?.id ?? UNKNOWN_FIELD - index }))
  return stateTable(BEFORE, state, columns)
}

/**
 * Whether files of what is appended to hold values of columns that the version has not. Who reads the snapshot's files by the catalog
 * would find them there, whatever class they had.
 */
async function holdsMore(
  clear: TableState | null,
  { manifests: { output }, signal }: PrepareRequest,
  { lake }: PrepareDeps,
): Promise<boolean> {
  if (clear === null || output.writeMode !== 'append') return false
  const names = new Set(outputSchema(output).columns.map(({ name }) => name))
  const isWanted = ({ name }: { readonly name: string }) => names.has(name)
  if (!clear.schema.fields.every(isWanted)) return true
  // Releases before this one have left such files.
  const known = new Set([...clear.schema.fields.map(({ id }) => id), MARKS.id])
  const { files } = await lake.scan(clear, {}, signal)
  return files.some(({ file }) => [...file.columnSizes.keys(), ...file.valueCounts.keys()].some((id) => !known.has(id)))
}

function contentSelect(hasBefore: boolean, hasRejects: boolean, request: PrepareRequest): string {
  const schema = outputSchema(request.manifests.output)
  const all = `SELECT ${schema.columns.map((column) => quoteName(column.name)).join(', ')} FROM output`
  if (!hasBefore) return all
  if (request.manifests.output.writeMode === 'merge') {
    if (keepsMissing(request.manifests.output)) return mergeSelect(BEFORE, 'output', schema)
    // A key that a check put aside is not missing: its former row stays until a good one comes.
    return hasRejects ? mergeSelect(KNOWN, 'output', schema) : all
  }
  const own = schema.columns.map((column) => quoteName(column.name)).join(', ')
  return `SELECT ${own} FROM ${quoteName(BEFORE)} UNION ALL ${unseenSelect(BEFORE, 'output', schema)}`
}

function destinationOf(
  variant: VariantPlan,
  base: TableState | null,
  /** Whether the files that are there may. */
  mayStay: boolean,
  request: PrepareRequest,
): Destination {
  const { output } = request.manifests
  const isClear = variant.masks.length === 0
  const appends = isClear && mayStay && output.writeMode === 'append' && !request.erased
  const target: WriteTarget = {
    ref: refOf(request, variant.variant),
    base,
    select: appends
      ? unseenSelect(BEFORE, 'output', outputSchema(output))
      : isClear
        ? 'SELECT * FROM content'
        : twinSelect('content', output.columns, variant.masks, request.keys),
    schema: variant.schema,
    rows: appends ? 'keep' : 'rewrite',
    ...layoutOf(variant, output),
  }
  return { variant, quarantine: false, target, appends }
}

/**
 * Rows that a check put aside, beside the product: in clear and, as the product is, in twins. Without such rows in
 * this epoch those of an earlier one go: they lie there as masked as that epoch's classes had them.
 */
async function quarantineDestinations(
  hasRejects: boolean,
  request: PrepareRequest,
  deps: PrepareDeps,
): Promise<readonly Destination[]> {
  const destinations: Destination[] = []
  let isNeeded = hasRejects
  for (const variant of request.variants) {
    const ref = lakeTable(request.tenant, request.domain, `${request.product}${QUARANTINE}`, variant.variant)
    const base = await (request.isAsked ? deps.lake.loadToReplace(ref, request.signal) : deps.lake.load(ref))
    isNeeded ||= base !== null && isOutdated(await deps.lake.scan(base, {}, request.signal), variant)
    destinations.push(quarantineDestination(variant, ref, base, request))
  }
  return isNeeded ? destinations : []
}

function isOutdated({ rows, summary }: Scan, variant: VariantPlan): boolean {
  return rows > 0 || summary[MASKED_COLUMNS] !== maskedColumns(variant)
}

function quarantineDestination(
  variant: VariantPlan,
  ref: WriteTarget['ref'],
  base: TableState | null,
  request: PrepareRequest,
): Destination {
  const columns = variant.schema.columns.map((column) => ({ ...column, nullable: true }))
  const isClear = variant.masks.length === 0
  return {
    variant,
    quarantine: true,
    appends: false,
    target: {
      ref,
      base,
      select: isClear
        ? 'SELECT * FROM rejected'
        : twinSelect('rejected', request.manifests.output.columns, variant.masks, request.keys),
      schema: { columns, primaryKey: [] },
      partitioning: [],
      rows: 'rewrite',
      ...(isClear ? {} : { sortBy: columns.map((column) => column.name) }),
    },
  }
}

function refOf(request: PrepareRequest, variant: string) {
  return lakeTable(request.tenant, request.domain, request.product, variant)
}

/** Of a snapshot, in its summary. */
export const MASKED_COLUMNS = 'sluice.masked-columns'

export function maskedColumns(variant: VariantPlan): string {
  return variant.masks.map((mask) => mask.column).join(',')
}
