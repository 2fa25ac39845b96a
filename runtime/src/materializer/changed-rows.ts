/**
 * A product that takes its input as it lies is brought to the next epoch by the rows that the input has changed since the last one:
 * what else it holds stays where it is.
 */
import { createHash } from 'node:crypto'
import { type EngineLimits, type EngineStep, type EngineTable, quoteName } from '@sluice/engine'
import type { ChangedFiles, Lake, Scan, TableRef, TableState } from '@sluice/iceberg'
import { isSluiceError, type Variant } from '@sluice/sdk'
import { keepsMissing, type ManifestSet, outputSchema } from '../manifest/manifest-set.ts'
import { type LakeColumn, type LakeState, stateOfScan } from './lake-state.ts'
import { type MaskKey, maskKeySteps, twinSelect } from './mask-sql.ts'
import { ownRows } from './own-rows.ts'
import { type InputState, type RowRules, rowGiver, rowRules, type StagedRows } from './transform.ts'
import { lakeTable, layoutOf, type VariantPlan } from './variants.ts'

/** Of a product with fewer rows all are written anew: one job does that, and finding what has changed takes two a variant. */
export const FEW_ROWS = 100_000
/** Where more of the input's files are others, most of the product is written anew in any case. */
const MAX_CHANGED_SHARE = 0.25

/** Bytes and order of what a release writes for the same manifests. To be raised where a release writes others. */
const FORMAT = 1

/** What a variant's snapshot says of how its rows are made. */
export const RECIPE = 'sluice.recipe'
export const INPUTS = 'sluice.inputs'

/** Equal where the same input rows would be made the same rows of the variant. */
export function recipeOf(
  { inputs, compute, output }: Pick<ManifestSet, 'inputs' | 'compute' | 'output'>,
  { variant, masks, schema }: VariantPlan,
  keys: readonly MaskKey[],
): string {
  const fingerprints = keys.map(({ classification, innerPad }) => [
    classification,
    createHash('sha256').update('sluice.recipe').update(innerPad).digest('base64'),
  ])
  const told = JSON.stringify([FORMAT, inputs, compute, output, variant, masks, schema, fingerprints])
  return createHash('sha256').update(told).digest('base64url').slice(0, 22)
}

/** What of a materialization decides whether, and how, only changed rows are written. */
export interface MergeableRequest {
  readonly tenant: string
  readonly domain: string
  readonly product: string
  readonly manifests: ManifestSet
  readonly variants: readonly VariantPlan[]
  readonly keys: readonly MaskKey[]
  readonly inputs: readonly InputState[]
  /** Whether all stores of the product pass over rows that the lake lists as gone. */
  readonly takesDeletes: boolean
  /** A product of so few rows is written whole. Default `FEW_ROWS`. */
  readonly fewRows?: number
  /** Of our own jobs. */
  readonly ownLimits: EngineLimits
  readonly signal: AbortSignal
}

/** How the input has changed since the product's last epoch. */
export interface ChangedInput {
  /** The relations `before` and `after`, in the columns of the output: they differ as the whole states do. */
  readonly tables: readonly EngineTable[]
  readonly steps: readonly EngineStep[]
  /** By variant: the table that the last epoch has left. Variants that it lacks are to be written whole. */
  readonly bases: ReadonlyMap<Variant, TableState>
}

type Deps = { readonly lake: Lake }

/** Whether the manifests say that a row of the product is one of its only input, by the same key. */
function takesRows({ inputs, compute, output, quality }: ManifestSet): boolean {
  const [input] = inputs
  const isCopy = inputs.length === 1 && input?.where === null && compute.transform === null
  const putsAside = quality.checks.some(({ onError }) => onError === 'quarantine')
  const hasKeys = output.writeMode !== 'append' && output.primaryKey.length > 0
  return isCopy && compute.engine !== 'distributed' && hasKeys && !putsAside
}

/**
 * Null where the product is to be written whole. That is decided by manifests, files and counts of rows, never by values: it
 * shows in the files of twins.
 */
export async function changedInput(
  request: MergeableRequest,
  staged: StagedRows,
  { lake }: Deps,
): Promise<ChangedInput | null> {
  const { manifests, inputs, variants, keys, signal } = request
  const [input] = inputs
  if (
    !request.takesDeletes ||
    input === undefined ||
    staged.rowCount <= (request.fewRows ?? FEW_ROWS) ||
    !takesRows(manifests)
  )
    return null
  if ((input.marked ?? []).length > 0 || !isSameSet(manifests.output.primaryKey, input.state.primaryKey)) return null
  const bases = new Map<Variant, TableState>()
  const origins: (readonly [epoch: string | undefined, inputs: string])[] = []
  for (const plan of variants) {
    if (plan.schema.primaryKey.length === 0) continue
    const ref = lakeTable(request.tenant, request.domain, request.product, plan.variant)
    const base = await lake.load(ref, { signal })
    // What upkeep writes anew says the same of itself.
    const summary = base && lake.snapshots(base).find(({ snapshotId }) => snapshotId === base.snapshotId)?.summary
    if (!base || summary?.[RECIPE] !== recipeOf(manifests, plan, keys)) continue
    bases.set(plan.variant, base)
    origins.push([summary['sluice.epoch'], summary[INPUTS] ?? ''])
  }
  const [origin] = origins
  const isOne = origins.every((other) => other[0] === origin?.[0] && other[1] === origin?.[1])
  const prefix = `${input.input.name}=`
  if (origin === undefined || !isOne || !bases.has('clear') || !origin[1].startsWith(prefix)) return null
  const former = await formerScan(input.table, origin[1].slice(prefix.length), lake, signal)
  const now = await lake.scan(input.table, { snapshotId: input.state.snapshotId }, signal)
  if (former === null || changedShare(former, now) > MAX_CHANGED_SHARE) return null
  const state = stateOfScan(former)
  if (state === null || !hasColumns(state, staged.columns)) return null
  const before = ownRows('before', state, input.state, staged.columns)
  const after = ownRows('after', input.state, state, staged.columns)
  return {
    tables: [...before.tables, ...after.tables],
    steps: [before, after].flatMap(({ step }) => step ?? []),
    bases,
  }
}

const isSameSet = (left: readonly string[], right: readonly string[]): boolean =>
  left.length === right.length && left.every((name) => right.includes(name))

/** Null where it has expired. */
async function formerScan(table: TableRef, snapshotId: string, lake: Lake, signal: AbortSignal): Promise<Scan | null> {
  try {
    return await lake.scan(table, { snapshotId }, signal)
  } catch (error) {
    if (isSluiceError(error) && error.code === 'snapshot_not_found') return null
    throw error
  }
}

/** At most this share of the rows lies where files, or lists of rows that are gone, are not the same. */
function changedShare(former: Scan, now: Scan): number {
  const only = (one: Scan, other: Scan) => {
    const known = new Set([...other.files, ...other.deletes].map(({ uri }) => uri))
    const own = [...one.files, ...one.deletes].filter(({ uri }) => !known.has(uri))
    return own.reduce((sum, { rows }) => sum + rows, 0)
  }
  return (only(former, now) + only(now, former)) / Math.max(1, former.rows + now.rows)
}

/** The same columns, under the same ids and of the same types. */
function hasColumns(state: LakeState, columns: readonly LakeColumn[]): boolean {
  return columns.every(({ id, name, type }) =>
    state.columns.some((own) => own.id === id && own.name === name && own.type === type),
  )
}

/**
 * Writes the rows of one variant that are others than before; rows that look the same in it stay where they are, so that it does
 * not tell that hidden values have changed. Throws INVALID_DATA for rows that break the product's rules.
 */
export async function mergeChanged(
  plan: VariantPlan,
  { tables, steps, bases }: ChangedInput,
  request: MergeableRequest,
  { lake }: Deps,
): Promise<ChangedFiles> {
  const { manifests, keys, ownLimits, signal } = request
  const { output } = manifests
  const base = bases.get(plan.variant) as TableState
  const key = plan.schema.primaryKey
  const names = (of: readonly { readonly name: string }[]) => of.map(({ name }) => quoteName(name)).join(', ')
  const isClear = plan.masks.length === 0
  const rowsOf = (relation: string) =>
    isClear
      ? `SELECT ${names(output.columns)} FROM ${quoteName(relation)}`
      : twinSelect(relation, output.columns, plan.masks, keys)
  const keyColumns = key.map(quoteName).join(', ')
  // Once, by the variant that has all values.
  const rules: RowRules | null = isClear ? rowRules('after', outputSchema(output), rowGiver(manifests)) : null
  const gone = `SELECT ${keyColumns} FROM (${rowsOf('before')}) ANTI JOIN (${rowsOf('after')}) USING (${keyColumns})`
  const changed = await lake.merge(
    {
      base,
      scan: await lake.scan(base, {}, signal),
      schema: plan.schema,
      rows: 'keep',
      key,
      job: { tables, steps: [...steps, ...maskKeySteps(keys), ...ungated(rules)], limits: ownLimits },
      changed: `${rowsOf('after')} EXCEPT ${rowsOf('before')}`,
      ...(keepsMissing(output) ? {} : { gone }),
      sortBy: layoutOf(plan, output).sortBy,
    },
    signal,
  )
  rules?.judge(changed.results)
  return changed
}

/** A merge does all of its steps: what breaks a rule is written, and never published. */
function ungated(rules: RowRules | null): readonly EngineStep[] {
  return (rules?.steps ?? []).map(({ gate: _, ...step }) => step)
}
