/**
 * What a version would give, of what its inputs hold now: its transform, its checks and its masks over rows that nobody
 * keeps. Nothing is written but files of its own, which go.
 */
import { mkdir, mkdtemp, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { type Engine, type EngineLimits, quoteName, type ResultColumn } from '@sluice/engine'
import type { Lake } from '@sluice/iceberg'
import { isSluiceError, SluiceError } from '@sluice/sdk'
import { type Check, type ManifestSet, outputSchema } from '../manifest/manifest-set.ts'
import type { CheckResult } from '../quality/check-result.ts'
import { decide, quarantineCondition } from '../quality/verdict.ts'
import type { ViolatingRows } from '../registry/violating-rows.ts'
import { heldInputs } from './held-inputs.ts'
import type { InputState } from './input-state.ts'
import { stateTable } from './lake-state.ts'
import { withoutMarkedRows } from './marked-rows.ts'
import { type MaskKey, maskKeySteps, twinSelect } from './mask-sql.ts'
import { keysCopied } from './row-wise.ts'
import { type Checked, OUTPUT_ALIAS, runChecks } from './run-checks.ts'
import { type StagedRows, stagedTable } from './staged-rows.ts'
import { checkRows, rowGiver, rowRules, transformRows } from './transform.ts'
import type { TransformDeps } from './transform-deps.ts'
import type { VariantPlan } from './variants.ts'
import { violatingRows } from './violating-rows.ts'

/** Of one input, where each row of the product is made of one of it. */
export const SAMPLED_ROWS = 10_000
/** Of the files of all inputs, where a row may be made of any of them. */
export const MOST_WHOLE_BYTES = 256 * 1024 * 1024
/** Of the rows as they are told. */
const MOST_TOLD_BYTES = 2 * 1024 * 1024
/** What only all rows of a product can tell. */
const OF_ALL_ROWS: readonly Check['rule']['kind'][] = ['row_count', 'freshness']

export interface SampleRequest {
  readonly tenant: string
  readonly manifests: ManifestSet
  readonly inputs: readonly InputState[]
  /** As its reader is shown the product. */
  readonly variant: VariantPlan
  readonly keys: readonly MaskKey[]
  /** Told, at most. */
  readonly rows: number
  /** Of the author's SQL, and of ours. */
  readonly limits: EngineLimits
  readonly nowMs: number
  readonly signal: AbortSignal
}

export interface SampleDeps {
  readonly engine: Pick<Engine, 'run'>
  readonly lake: Lake
  readonly scratchDirectory: string
}

export interface Sample {
  /** How many rows of the input it is made of, at most; null: of all rows of all inputs. */
  readonly inputRows: number | null
  /** Rows that a run would publish of these: how many a check puts aside is not for everybody. */
  readonly given: number
  readonly columns: readonly ResultColumn[]
  /** JSON arrays of values as answers tell them, with commas between them. */
  readonly rowsJson: string
  readonly told: number
  readonly checks: readonly CheckResult[]
  /** As the variant shows them. */
  readonly violating: readonly ViolatingRows[]
  /** Names of checks that a sample cannot answer; those that learn from epochs among them. */
  readonly leftOut: readonly string[]
  /** Names of those that would keep a run from publishing. */
  readonly blocking: readonly string[]
  /** Why a run would fail with these rows. */
  readonly refusal: SluiceError | null
}

/**
 * Throws what a transform throws, and INVALID_DATA `preview_too_large` where all rows of the inputs are needed and are too many.
 */
export async function sampledRows(request: SampleRequest, deps: SampleDeps): Promise<Sample> {
  await mkdir(deps.scratchDirectory, { recursive: true, mode: 0o700 })
  const directory = await mkdtemp(join(deps.scratchDirectory, 'preview-'))
  try {
    return await sampleIn(directory, request, deps)
  } finally {
    await rm(directory, { recursive: true, force: true })
  }
}

async function sampleIn(directory: string, request: SampleRequest, deps: SampleDeps): Promise<Sample> {
  const { tenant, manifests, limits, signal } = request
  const { engine } = deps
  const inputRows = (await isRowWise(request, engine)) ? SAMPLED_ROWS : null
  if (inputRows === null) await refuseLarge(request.inputs, deps.lake, signal)
  const own = { engine, ownLimits: limits, directory, signal }
  const inputs = await heldInputs(await withoutMarkedRows(request.inputs, manifests, own), manifests, own)
  const transform: TransformDeps = {
    tenant,
    engine,
    distributed: null,
    limits,
    ownLimits: limits,
    directory,
    signal,
    ...(inputRows === null ? {} : { mostInputRows: inputRows }),
  }
  const staged = await transformRows(inputs, manifests, outputSchema(manifests.output), transform)
  const refusal = await refusalOf(staged, manifests, transform)
  const isAnswered = ({ rule }: Check) =>
    rule.kind !== 'anomaly' && (inputRows === null || !OF_ALL_ROWS.includes(rule.kind))
  const asked = manifests.quality.checks.filter(isAnswered)
  const run = { tenant, engine, limits, ownLimits: limits, nowMs: request.nowMs, signal }
  const checked = await runChecks(asked, staged, inputs, null, run)
  const { output } = manifests
  const shape = { output, variants: [request.variant], keys: request.keys }
  const violations = await violatingRows(checked, staged, inputs, shape, run)
  const decision = decide(checked.results)
  return {
    inputRows,
    ...(await shownRows(staged, inputs, badRows(checked), request, engine)),
    checks: checked.results,
    violating: violations.get(request.variant.variant) ?? [],
    leftOut: manifests.quality.checks.filter((check) => !isAnswered(check)).map(({ name }) => name),
    blocking: decision.action === 'block' ? decision.checks : [],
    refusal,
  }
}

/** Whether some rows of the input give what they would give among all others. */
async function isRowWise(request: SampleRequest, engine: SampleDeps['engine']): Promise<boolean> {
  const { manifests, inputs, tenant, limits, signal } = request
  const { transform } = manifests.compute
  const [input] = inputs
  if (input === undefined || inputs.length > 1) return false
  return transform === null || (await keysCopied(engine, transform, input, { tenant, limits, signal })) !== null
}

async function refuseLarge(inputs: readonly InputState[], lake: Lake, signal: AbortSignal): Promise<void> {
  let bytes = 0
  for (const { table, state } of inputs) {
    bytes += (await lake.scan(table, { snapshotId: state.snapshotId }, signal)).bytes
  }
  if (bytes <= MOST_WHOLE_BYTES) return
  const most = `${MOST_WHOLE_BYTES / (1024 * 1024)} MiB`
  throw new SluiceError('INVALID_DATA', `every row of the inputs may count here, and they have more than ${most}`, {
    code: 'preview_too_large',
    remedy:
      'Deploy the version and read the product. A transform of one input without joins, groups, windows and the like is shown of some rows, however many there are.',
  })
}

/** What the rows lack that a run holds them against. */
async function refusalOf(
  staged: StagedRows,
  manifests: ManifestSet,
  deps: Pick<TransformDeps, 'engine' | 'ownLimits' | 'signal'>,
): Promise<SluiceError | null> {
  if (staged.rowCount === 0) return null
  const rules = rowRules(OUTPUT_ALIAS, outputSchema(manifests.output), rowGiver(manifests))
  try {
    await checkRows(rules, [stagedTable(OUTPUT_ALIAS, staged)], deps)
    return null
  } catch (error) {
    if (isSluiceError(error, 'INVALID_DATA')) return error
    throw error
  }
}

/** The condition of rows that a run would put aside; null: none. */
function badRows({ results, plan }: Checked): string | null {
  const decision = decide(results)
  return decision.action === 'quarantine' ? quarantineCondition(decision.checks, plan.badRows) : null
}

const KEPT = '__kept'

/** The masks are applied here, by statements of ours alone, as when a twin is written. */
async function shownRows(
  staged: StagedRows,
  inputs: readonly InputState[],
  bad: string | null,
  { manifests, variant, keys, rows, limits, signal }: SampleRequest,
  engine: SampleDeps['engine'],
): Promise<Pick<Sample, 'given' | 'columns' | 'rowsJson' | 'told'>> {
  const good = bad === null ? '' : ` WHERE NOT (${bad})`
  const kept = `CREATE TEMP VIEW ${quoteName(KEPT)} AS SELECT * FROM ${quoteName(OUTPUT_ALIAS)} AS "this"${good}`
  const sql = `${twinSelect(KEPT, manifests.output.columns, variant.masks, keys)} LIMIT ${rows}`
  const read = bad === null ? [] : inputs.map(({ input, state }) => stateTable(input.name, state))
  const run = await engine.run(
    {
      trust: 'own',
      tables: [stagedTable(OUTPUT_ALIAS, staged), ...read],
      steps: [
        ...maskKeySteps(keys),
        { sql: kept },
        { sql: `SELECT count(*) FROM ${quoteName(KEPT)}`, rows: 'collect' },
      ],
      output: { kind: 'json-rows', sql },
      limits: { ...limits, maxRows: rows, maxOutputBytes: MOST_TOLD_BYTES },
    },
    signal,
  )
  const chunks: Uint8Array[] = []
  for await (const chunk of run.output) chunks.push(chunk)
  const { rows: told } = await run.finished
  const given = Number(run.results[0]?.rows[0]?.[0] ?? 0)
  return { given, columns: run.columns, rowsJson: Buffer.concat(chunks).toString('utf8'), told }
}
