/**
 * Everything of a materialization up to its commit: transform, checks, twins, staged snapshots. Nothing of it is
 * visible, and nothing has to be undone when it ends half-way.
 */
import { mkdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { isUnreadable, type StagedCommit, type TableState } from '@sluice/iceberg'
import { SluiceError } from '@sluice/sdk'
import { tenantScratch } from '../lake/tenant-layout.ts'
import { outputSchema } from '../manifest/manifest-set.ts'
import type { CheckResult } from '../quality/check-result.ts'
import { decide, quarantineCondition } from '../quality/verdict.ts'
import {
  type ChangedRows,
  changedRows,
  FEW_ROWS,
  HELD,
  INPUTS,
  inputsText,
  isHeld,
  LOST,
  mergeChanged,
  RECIPE,
  recipeOf,
} from './changed-rows.ts'
import type { PrepareDeps } from './deps.ts'
import { heldInputs } from './held-inputs.ts'
import { stateOfScan } from './lake-state.ts'
import { withoutMarkedRows } from './marked-rows.ts'
import type { Prepared, PrepareRequest } from './prepared.ts'
import { OUTPUT_ALIAS, runChecks } from './run-checks.ts'
import { type StagedRows, stagedTable } from './staged-rows.ts'
import { checkRows, type RowRules, rowGiver, rowRules, transformRows } from './transform.ts'
import type { TransformDeps } from './transform-deps.ts'
import type { VariantPlan } from './variants.ts'
import { type ViolationsByVariant, violatingRows } from './violating-rows.ts'
import { MASKED_COLUMNS, maskedColumns, type WrittenTable, writeTables } from './write-tables.ts'

/** Throws INVALID_DATA `quality_blocked` with the failed checks' names; `checks` of the error has the results. */
export class QualityBlocked extends SluiceError {
  readonly checks: readonly CheckResult[]
  readonly violations: ViolationsByVariant
  readonly #names: readonly string[]

  constructor(names: readonly string[], checks: readonly CheckResult[], violations: ViolationsByVariant = new Map()) {
    const why = names.length === 0 ? 'a check of hidden columns failed' : `these checks failed: ${names.join(', ')}`
    super('INVALID_DATA', `nothing was published, because ${why}`, {
      code: 'quality_blocked',
      remedy: 'Review the checks in quality.yaml, and whether the source data is fresh.',
      details: { checks: names },
    })
    this.#names = names
    this.checks = checks
    this.violations = violations
  }

  /** As everybody may be told of it: runs are read by who may not see what some checks look at. */
  without(hidden: readonly CheckResult[]): QualityBlocked {
    const names = this.#names.filter((name) => !hidden.some((check) => check.name === name))
    return new QualityBlocked(names, this.checks)
  }
}

export async function prepare(request: PrepareRequest, deps: PrepareDeps): Promise<Prepared> {
  const { tenant, runId, product, epoch } = request
  const directory = join(tenantScratch(deps.scratchDirectory, tenant), `run-${runId}-${product}-${epoch}`)
  await rm(directory, { recursive: true, force: true })
  await mkdir(directory, { recursive: true, mode: 0o700 })
  try {
    return await prepareIn(directory, request, deps)
  } finally {
    await rm(directory, { recursive: true, force: true })
  }
}

async function prepareIn(directory: string, asked: PrepareRequest, deps: PrepareDeps): Promise<Prepared> {
  const { manifests, ownLimits, signal } = asked
  const own = { engine: deps.engine, ownLimits, directory, signal }
  const inputs = await heldInputs(await withoutMarkedRows(asked.inputs, manifests, own), manifests, own)
  const request = { ...asked, inputs }
  const transform: TransformDeps = {
    tenant: request.tenant,
    engine: deps.engine,
    distributed: deps.distributed,
    limits: request.limits,
    ownLimits,
    directory,
    signal,
  }
  const changed = request.erased ? null : await ifReadable(() => preparedByChanges(request, transform, deps))
  if (changed !== null) return changed
  const schema = outputSchema(manifests.output)
  const staged = await transformRows(inputs, manifests, schema, transform)
  await deps.faultPoint('materializer.transformed')
  const rules = staged.rowCount === 0 ? null : rowRules(OUTPUT_ALIAS, schema, rowGiver(manifests))
  // Rows are held against their rules by the job that counts for the checks. Without checks the job that writes does it, where
  // they are few: a process of its own takes longer than they do. Either ends there where a rule is broken.
  const hasChecks = manifests.quality.checks.length > 0
  const isWithWrite = !hasChecks && staged.rowCount <= (request.fewRows ?? FEW_ROWS)
  if (rules !== null && !hasChecks && !isWithWrite) {
    await checkRows(rules, [stagedTable(OUTPUT_ALIAS, staged)], { engine: deps.engine, ownLimits, signal })
  }
  const { results, bad, violations, profiles } = await judge(staged, hasChecks ? rules : null, request, deps)
  await deps.faultPoint('materializer.checked')
  const written = await writeTables(request.variants, staged, bad, isWithWrite ? rules : null, request, deps)
  await deps.faultPoint('materializer.twins-written')
  const commits = await stageAll(written, staged.lost, request, deps)
  return { ...preparedOf(commits), checks: results, lost: staged.lost, violations, profiles, inputs }
}

/** Null where the product is to be written whole. */
async function preparedByChanges(request: PrepareRequest, transform: TransformDeps, deps: PrepareDeps) {
  const changed = await changedRows(request, transform, deps)
  return changed && prepareChanged(changed, request, deps)
}

/** Null where rows as they were lie in files that cannot be read any more: all are to be written, if the inputs have them. */
async function ifReadable(work: () => Promise<Prepared | null>): Promise<Prepared | null> {
  try {
    return await work()
  } catch (error) {
    if (isUnreadable(error)) return null
    throw error
  }
}

/** Runs the checks over the rows that are to be the product's. Throws `QualityBlocked`, and before that what `rules` say. */
async function judge(staged: StagedRows, rules: RowRules | null, request: PrepareRequest, deps: PrepareDeps) {
  const { manifests, inputs, variants, keys } = request
  const run = {
    tenant: request.tenant,
    engine: deps.engine,
    limits: request.limits,
    ownLimits: request.ownLimits,
    nowMs: deps.nowMs(),
    signal: request.signal,
    ...(request.learned === undefined ? {} : { learned: request.learned }),
  }
  const checked = await runChecks(manifests.quality.checks, staged, inputs, rules, run)
  const { results, plan } = checked
  const violations = await violatingRows(checked, staged, inputs, { output: manifests.output, variants, keys }, run)
  const decision = decide(results)
  if (decision.action === 'block') throw new QualityBlocked(decision.checks, results, violations)
  const bad = decision.action === 'quarantine' ? quarantineCondition(decision.checks, plan.badRows) : null
  return { results, bad, violations, profiles: checked.profiles }
}

/** The clear table is given its changed rows before the checks, which are of all that it holds then; nobody sees it until the commit. */
async function prepareChanged(changed: ChangedRows, request: PrepareRequest, deps: PrepareDeps): Promise<Prepared> {
  const { variants, inputs, manifests, signal } = request
  const { lost } = changed
  const [clear, ...twins] = variants as readonly [VariantPlan, ...VariantPlan[]]
  const first = await stageAll([await mergeTable(clear, changed, request, deps)], lost, request, deps)
  await deps.faultPoint('materializer.transformed')
  const state = stateOfScan(
    await deps.lake.scan(await deps.lake.stagedState((first[0] as StagedTable).commit), {}, signal),
  )
  if (state === null) throw new Error('a staged table has no snapshot')
  const columns = orderedAs(state.columns, manifests.output.columns)
  const staged: StagedRows = { ...state, columns, lost }
  const { results, violations, profiles } = await judge(staged, null, request, deps)
  await deps.faultPoint('materializer.checked')
  const written: WrittenTable[] = []
  for (const twin of twins.filter(({ variant }) => changed.bases.has(variant))) {
    written.push(await mergeTable(twin, changed, request, deps))
  }
  const others = twins.filter(({ variant }) => !changed.bases.has(variant))
  if (others.length > 0) written.push(...(await writeTables(others, staged, null, null, request, deps)))
  await deps.faultPoint('materializer.twins-written')
  const commits = [...first, ...(await stageAll(written, lost, request, deps))]
  return { ...preparedOf(commits), checks: results, lost, violations, profiles, inputs }
}

function orderedAs<C extends { readonly name: string }>(
  columns: readonly C[],
  order: readonly { readonly name: string }[],
) {
  return order.flatMap(({ name }) => columns.filter((column) => column.name === name))
}

async function mergeTable(
  variant: VariantPlan,
  changed: ChangedRows,
  request: PrepareRequest,
  deps: PrepareDeps,
): Promise<WrittenTable> {
  const { written, removed, removedFrom } = await mergeChanged(variant, changed, request, deps)
  const base = changed.bases.get(variant.variant) as TableState
  const change = { operation: 'overwrite', removed, removedFrom } as const
  return { variant, quarantine: false, ref: base.ref, base, change, written }
}

interface StagedTable extends Pick<WrittenTable, 'variant' | 'quarantine' | 'written'> {
  readonly commit: StagedCommit
}

async function stageAll(
  tables: readonly WrittenTable[],
  lost: Prepared['lost'],
  request: PrepareRequest,
  deps: PrepareDeps,
): Promise<readonly StagedTable[]> {
  const staged: StagedTable[] = []
  for (const { variant, quarantine, ref, base, change, written } of tables) {
    const { plan, files, writeId } = written
    const summary = summaryOf(request, variant, lost)
    const leavesNoTrace = request.erased !== undefined
    const tags = [`v${request.version}`]
    const expired = (await request.expiredOf?.(base)) ?? []
    const commit = { base, plan, ...change, files, writeId, summary, tags, leavesNoTrace, expired }
    staged.push({ variant, quarantine, written, commit: await deps.lake.stage(ref, commit, request.signal) })
  }
  await deps.faultPoint('materializer.staged')
  return staged
}

function preparedOf(
  tables: readonly StagedTable[],
): Pick<Prepared, 'commits' | 'snapshots' | 'rowCount' | 'quarantined'> {
  const snapshots: Record<string, string> = {}
  let rowCount = 0
  let quarantined = 0
  for (const { variant, quarantine, written, commit } of tables) {
    const isClear = variant.masks.length === 0
    if (!quarantine) snapshots[variant.variant] = commit.snapshotId as string
    if (isClear && quarantine) quarantined = written.rows
    if (isClear && !quarantine) rowCount = commit.totalRows
  }
  return { commits: tables.map(({ commit }) => commit), snapshots, rowCount, quarantined }
}

/** What each snapshot says of itself to any reader of the lake. */
function summaryOf(
  request: PrepareRequest,
  variant: VariantPlan,
  lost: Prepared['lost'],
): Readonly<Record<string, string>> {
  return {
    'sluice.epoch': String(request.epoch),
    'sluice.run': request.runId,
    'sluice.version': request.version,
    'sluice.variant': variant.variant,
    // Of raw tables, whose own snapshots name the source's cursor: a twin's readers may not know that.
    [INPUTS]: inputsText(request.inputs),
    [RECIPE]: recipeOf(request.manifests, variant, request.keys, request.inputs),
    ...(isHeld(request.inputs) ? { [HELD]: 'true' } : {}),
    ...(variant.masks.length === 0 && Object.keys(lost).length > 0 ? { [LOST]: JSON.stringify(lost) } : {}),
    [MASKED_COLUMNS]: maskedColumns(variant),
  }
}
