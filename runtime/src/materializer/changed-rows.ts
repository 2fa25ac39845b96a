/**
 * A product whose rows are each made of one row of an input, or of rows that one of its keys names, is brought to the next epoch by
 * what the inputs have changed since the last one: what else it holds stays where it is.
 */
import { createHash } from 'node:crypto'
import { join } from 'node:path'
import type { Engine, EngineLimits, EngineStep, EngineTable } from '@sluice/engine'
import { quoteName } from '@sluice/engine'
import { type ChangedFiles, isUnreadable, type Lake, type Scan, type TableRef, type TableState } from '@sluice/iceberg'
import { isSluiceError, type Variant } from '@sluice/sdk'
import { SANDBOX } from '../lake/tenant-layout.ts'
import { keepsMissing, type ManifestSet, outputSchema } from '../manifest/manifest-set.ts'
import { type ChangeWay, changeWay } from './change-ways.ts'
import type { InputState } from './input-state.ts'
import { type LakeColumn, type LakeState, stateOfScan } from './lake-state.ts'
import { type MaskKey, maskKeySteps, twinSelect } from './mask-sql.ts'
import { ownRows } from './own-rows.ts'
import { stagedTable } from './staged-rows.ts'
import { SIDES, type Side, touchedRows } from './touched-rows.ts'
import { chosenColumns, type InputRows, type RowRules, rowGiver, rowRules, sameRows, transformed } from './transform.ts'
import type { TransformDeps } from './transform-deps.ts'
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
/** Values that lost something by the cast to their column's type, by column; of the clear table alone. */
export const LOST = 'sluice.lost'
/** There where the rows are made of inputs that do not lie in the lake as they were: their contracts have changed them. */
export const HELD = 'sluice.held'

/** Whether some of them are files of their own. */
export function isHeld(inputs: readonly InputState[]): boolean {
  return inputs.some(({ held }) => held?.isWritten === true)
}

const MAX_INPUTS = 50

/** What `INPUTS` says: `orders=4611686018427387905,customers=…`; of too many inputs nothing. */
export function inputsText(inputs: readonly InputState[]): string {
  return inputs.length > MAX_INPUTS
    ? ''
    : inputs.map(({ input, state }) => `${input.name}=${state.snapshotId}`).join(',')
}

/** Equal where the same input rows would be made the same rows of the variant. */
export function recipeOf(
  { inputs, compute, output }: Pick<ManifestSet, 'inputs' | 'compute' | 'output'>,
  { variant, masks, schema }: VariantPlan,
  keys: readonly MaskKey[],
  read: readonly Pick<InputState, 'terms'>[],
): string {
  const fingerprints = keys.map(({ classification, innerPad }) => [
    classification,
    createHash('sha256').update('sluice.recipe').update(innerPad).digest('base64'),
  ])
  const terms = read.map((one) => one.terms?.text ?? null)
  const held = terms.some((text) => text !== null) ? [terms] : []
  // No more of masks than what rows are made by, and that in this order.
  const ways = masks.map(({ column, classification, strategy }) => ({ column, classification, strategy }))
  const told = JSON.stringify([FORMAT, inputs, compute, output, variant, ways, schema, fingerprints, ...held])
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
  /** Somebody asked for this product by itself: a table of it that cannot be read is begun anew. */
  readonly isAsked?: boolean
  /** Of the author's SQL. */
  readonly limits: EngineLimits
  /** Of our own jobs. */
  readonly ownLimits: EngineLimits
  readonly signal: AbortSignal
}

/** What has changed since the product's last epoch. */
export interface ChangedRows {
  /** The relations `before` and `after`, in the columns of the output: they differ as the whole states do. */
  readonly tables: readonly EngineTable[]
  /** By variant: the table that the last epoch has left. Variants that it lacks are to be written whole. */
  readonly bases: ReadonlyMap<Variant, TableState>
  /** Of all rows, by column. */
  readonly lost: Readonly<Record<string, number>>
}

type Deps = { readonly lake: Lake; readonly engine: Engine }

/** Whether the manifests let some rows of the product be made without the others. */
function takesRows({ inputs, compute, output, quality }: ManifestSet): boolean {
  const isOwn = inputs.every(({ connection }) => connection !== SANDBOX)
  const putsAside = quality.checks.some(({ onError }) => onError === 'quarantine')
  const hasKeys = output.writeMode !== 'append' && output.primaryKey.length > 0
  return isOwn && compute.engine !== 'distributed' && hasKeys && !putsAside
}

/**
 * Null where the product is to be written whole. That is decided by manifests, files and counts of rows, never by values: it
 * shows in the files of twins.
 */
export async function changedRows(
  request: MergeableRequest,
  transform: TransformDeps,
  deps: Deps,
): Promise<ChangedRows | null> {
  const { manifests, inputs } = request
  if (!request.takesDeletes || !takesRows(manifests)) return null
  if (inputs.some(({ marked = [] }) => marked.length > 0) || isHeld(inputs)) return null
  const { fewRows = FEW_ROWS } = request
  const last = await lastEpoch(request, deps.lake)
  if (last === null || Math.max(last.rows, ...inputs.map(({ state }) => state.rowCount)) <= fewRows) return null
  const way = await changeWay(request, deps.engine)
  if (way === null) return null
  const used = way.kind === 'rows' ? [way.input] : way.tables.map(({ input }) => input)
  const formers = await formerStates(used, last, request, deps.lake)
  if (formers === null) return null
  // What is grouped has few rows of many: what it costs is to read those.
  const rows = way.kind === 'rows' ? last.rows : Math.max(last.rows, ...used.map(({ state }) => state.rowCount))
  if (rows <= fewRows) return null
  return way.kind === 'rows'
    ? ofRows(way.input, formers[0] as LakeState, last, request, transform)
    : ofKeys(way.tables, formers, last, request, transform, deps)
}

async function ofRows(
  input: InputState,
  former: LakeState,
  last: LastEpoch,
  { manifests }: MergeableRequest,
  transform: TransformDeps,
): Promise<ChangedRows> {
  const columns = chosenColumns(input)
  const sides = [
    ownRows('before', former, input.state, columns),
    ownRows('after', input.state, former, columns),
  ] as const
  if (manifests.compute.transform === null) {
    const lying = sameRows(input, outputSchema(manifests.output).columns)
    if (lying !== null) {
      const inOrder = (table: EngineTable) => ({ ...table, columns: stagedTable('', lying).columns })
      return { tables: sides.map(inOrder), bases: last.bases, lost: {} }
    }
  }
  const rowsOf = (rows: EngineTable): readonly InputRows[] => [{ input: input.input, columns, rows }]
  return made({ before: rowsOf(sides[0]), after: rowsOf(sides[1]) }, last, manifests, transform)
}

async function ofKeys(
  tables: Extract<ChangeWay, { kind: 'keys' }>['tables'],
  formers: readonly LakeState[],
  last: LastEpoch,
  { manifests, ownLimits, signal }: MergeableRequest,
  transform: TransformDeps,
  { engine }: Deps,
): Promise<ChangedRows> {
  const directory = join(transform.directory, 'touched')
  const touched = await touchedRows({ tables, formers, directory, limits: ownLimits, signal }, engine)
  return made(touched, last, manifests, transform)
}

/** What the transform makes of those rows, as they were and as they are. */
async function made(
  rows: Readonly<Record<Side, readonly InputRows[]>>,
  last: LastEpoch,
  manifests: ManifestSet,
  transform: TransformDeps,
): Promise<ChangedRows> {
  const wanted = outputSchema(manifests.output).columns
  // Each to its end: both write into the folder of this materialization.
  const ended = await Promise.allSettled(
    SIDES.map((side) =>
      transformed(rows[side], manifests, wanted, {
        ...transform,
        directory: join(transform.directory, `changed-${side}`),
      }),
    ),
  )
  const [gone, come] = ended.map((one) => {
    if (one.status === 'rejected') throw one.reason
    return one.value
  }) as [Transformed, Transformed]
  return {
    tables: [stagedTable('before', gone), stagedTable('after', come)],
    bases: last.bases,
    lost: lostNow(last.lost, gone.lost, come.lost),
  }
}

type Transformed = Awaited<ReturnType<typeof transformed>>

/** What the newest snapshot says of itself; what upkeep writes anew says the same. */
export function newestSummary(table: TableState, lake: Lake): Readonly<Record<string, string>> | undefined {
  return lake.snapshots(table).find(({ snapshotId }) => snapshotId === table.snapshotId)?.summary
}

interface LastEpoch extends Pick<ChangedRows, 'bases' | 'lost'> {
  /** By input: what of it the epoch was made of. */
  readonly snapshots: ReadonlyMap<string, string>
  /** Of the clear table. */
  readonly rows: number
}

/** Null where there is none, and where its rows would be made otherwise now. */
async function lastEpoch(request: MergeableRequest, lake: Lake): Promise<LastEpoch | null> {
  const { manifests, variants, keys, signal } = request
  const bases = new Map<Variant, TableState>()
  const origins: (readonly [epoch: string | undefined, inputs: string])[] = []
  let lost = {}
  let rows = 0
  for (const plan of variants) {
    if (plan.schema.primaryKey.length === 0) continue
    const ref = lakeTable(request.tenant, request.domain, request.product, plan.variant)
    const base = await (request.isAsked ? lake.loadToReplace(ref, signal) : lake.load(ref, { signal }))
    const summary = base && newestSummary(base, lake)
    if (!base || summary?.[RECIPE] !== recipeOf(manifests, plan, keys, request.inputs)) continue
    if (summary[HELD] !== undefined) return null
    bases.set(plan.variant, base)
    origins.push([summary['sluice.epoch'], summary[INPUTS] ?? ''])
    if (plan.variant !== 'clear') continue
    rows = Number(summary['total-records'] ?? 0)
    lost = JSON.parse(summary[LOST] ?? '{}')
  }
  const [origin] = origins
  const isOne = origins.every((other) => other[0] === origin?.[0] && other[1] === origin?.[1])
  if (origin === undefined || !isOne || !bases.has('clear')) return null
  return { bases, lost, rows, snapshots: inputsOf(origin[1]) }
}

/** Of what `inputsText` says. */
function inputsOf(told: string): ReadonlyMap<string, string> {
  const pairs = told.split(',').map((one) => {
    const at = one.lastIndexOf('=')
    return [one.slice(0, Math.max(at, 0)), one.slice(at + 1)] as const
  })
  return new Map(pairs.filter(([name]) => name !== ''))
}

/** Null where one has expired or had other columns, and where too much of them lies in other files by now. */
async function formerStates(
  inputs: readonly InputState[],
  { snapshots }: LastEpoch,
  { signal }: MergeableRequest,
  lake: Lake,
): Promise<readonly LakeState[] | null> {
  const formers: LakeState[] = []
  let [others, all] = [0, 0]
  for (const { input, state, table } of inputs) {
    const snapshotId = snapshots.get(input.name)
    const former = snapshotId === undefined ? null : await formerScan(table, snapshotId, lake, signal)
    const known = former && stateOfScan(former)
    if (former === null || known === null || !hasColumns(known, chosenColumns({ input, state }))) return null
    const now = await lake.scan(table, { snapshotId: state.snapshotId }, signal)
    formers.push(known)
    others += changedCount(former, now)
    all += former.rows + now.rows
  }
  return others / Math.max(1, all) > MAX_CHANGED_SHARE ? null : formers
}

/** Null where it has expired, or cannot be read any more. */
async function formerScan(table: TableRef, snapshotId: string, lake: Lake, signal: AbortSignal): Promise<Scan | null> {
  try {
    return await lake.scan(table, { snapshotId }, signal)
  } catch (error) {
    if (isSluiceError(error) && (error.code === 'snapshot_not_found' || isUnreadable(error))) return null
    throw error
  }
}

/** No more rows than these lie where files, or lists of rows that are gone, are not the same. */
function changedCount(former: Scan, now: Scan): number {
  const only = (one: Scan, other: Scan) => {
    const known = new Set([...other.files, ...other.deletes].map(({ uri }) => uri))
    const own = [...one.files, ...one.deletes].filter(({ uri }) => !known.has(uri))
    return own.reduce((sum, { rows }) => sum + rows, 0)
  }
  return only(former, now) + only(now, former)
}

/** The same columns, under the same ids and of the same types. */
function hasColumns(state: LakeState, columns: readonly LakeColumn[]): boolean {
  return columns.every(({ id, name, type }) =>
    state.columns.some((own) => own.id === id && own.name === name && own.type === type),
  )
}

type Lost = Readonly<Record<string, number>>

/** Of rows that have not changed nobody has to count again what they lost. */
function lostNow(last: Lost, gone: Lost, come: Lost): Lost {
  const columns = new Set([last, gone, come].flatMap(Object.keys))
  const counts = [...columns].map((name) => [name, (last[name] ?? 0) - (gone[name] ?? 0) + (come[name] ?? 0)] as const)
  return Object.fromEntries(counts.filter(([, count]) => count > 0))
}

/**
 * Writes the rows of one variant that are others than before; rows that look the same in it stay where they are, so that it does
 * not tell that hidden values have changed. Throws INVALID_DATA for rows that break the product's rules.
 */
export async function mergeChanged(
  plan: VariantPlan,
  { tables, bases }: ChangedRows,
  request: MergeableRequest,
  { lake }: Pick<Deps, 'lake'>,
): Promise<ChangedFiles> {
  const { manifests, keys, ownLimits, signal } = request
  const { output } = manifests
  const base = bases.get(plan.variant) as TableState
  const isClear = plan.masks.length === 0
  const names = output.columns.map(({ name }) => quoteName(name)).join(', ')
  const rowsOf = (relation: string) =>
    isClear ? `SELECT ${names} FROM ${quoteName(relation)}` : twinSelect(relation, output.columns, plan.masks, keys)
  const key = plan.schema.primaryKey.map(quoteName).join(', ')
  // Once, by the variant that has all values.
  const rules: RowRules | null = isClear ? rowRules('after', outputSchema(output), rowGiver(manifests)) : null
  const gone = `SELECT ${key} FROM (${rowsOf('before')}) ANTI JOIN (${rowsOf('after')}) USING (${key})`
  const changed = await lake.merge(
    {
      base,
      scan: await lake.scan(base, {}, signal),
      schema: plan.schema,
      rows: 'keep',
      key: plan.schema.primaryKey,
      job: { tables, steps: [...maskKeySteps(keys), ...ungated(rules)], limits: ownLimits },
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
