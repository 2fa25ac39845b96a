/**
 * What a draft would give, before it is deployed. Nobody is shown what deploying the draft and reading it would not show
 * him: see docs/decisions/0198-previews-show-what-a-read-would.md.
 */
import type { EngineLimits } from '@sluice/engine'
import { isSluiceError, SluiceError } from '@sluice/sdk'
import type { TenantCall } from '../../flow.ts'
import { SANDBOX } from '../../lake/tenant-layout.ts'
import { qualified } from '../../manifest/context.ts'
import type { Input, ManifestSet } from '../../manifest/manifest-set.ts'
import { keysFor } from '../../materializer/deployed.ts'
import type { InputState } from '../../materializer/input-state.ts'
import { readInputs } from '../../materializer/inputs.ts'
import { limitsFor } from '../../materializer/materialize.ts'
import { type Sample, sampledRows } from '../../materializer/sampled-rows.ts'
import { planVariants, type VariantPlan, variantFor } from '../../materializer/variants.ts'
import { type ClearClasses, decideRead, type ProductGrant } from '../../policy/classification.ts'
import { missingMasks, plannedMasks } from '../../policy/made-masks.ts'
import type { CheckResult } from '../../quality/check-result.ts'
import { databaseNow } from '../../registry/clock.ts'
import { productGrants } from '../../registry/grants.ts'
import { PRODUCTS } from '../../registry/product-sources.ts'
import { productsInServiceReading } from '../../registry/products.ts'
import { maskKey } from '../../registry/tenant-keys.ts'
import { audited } from '../audit.ts'
import type { Checked } from '../deploy/checked.ts'
import { judgeDraft } from '../deploy/deploy.ts'
import { requireSameClasses } from '../deploy/raised-classes.ts'
import { checkRawGrants, lakeCopy } from '../deploy/sources.ts'
import { inTurnOf, type TenantTurns } from '../deploy/tenant-turns.ts'
import { accessBy, type Upstreams, upstreamsOf } from '../deploy/upstreams.ts'
import { requireDeveloper } from '../permissions.ts'
import { connectionsOf } from '../products/products.ts'
import type { ShownRows } from '../products/violating-rows.ts'
import { mayReadInputs, readsAll, type Sight, seesCheck } from '../products/visible-quality.ts'
import { HeldRights, isPermitted } from '../queries/held-rights.ts'
import { accessOrNull } from '../served/served-product.ts'
import type { PreviewsDeps } from './deps.ts'

export interface PreviewRequest {
  /** Of the draft that is meant. */
  readonly digest: string
  /** At most so many. */
  readonly rows: number
  /** Columns whose class the draft may make lower, as a deployment names them. */
  readonly lower?: readonly string[] | undefined
}

export interface PreviewProblem {
  readonly code: string
  readonly message: string
  readonly remedy: string | null
}

export interface Preview extends Pick<Sample, 'inputRows' | 'given' | 'rowsJson' | 'told' | 'leftOut'> {
  readonly digest: string
  readonly columns: readonly { readonly name: string; readonly type: string; readonly masked: boolean }[]
  readonly inputs: readonly InputState[]
  /** Those that the caller may know of. */
  readonly checks: readonly CheckResult[]
  /** By check. */
  readonly violating: ReadonlyMap<string, ShownRows>
  /** What would keep a run from publishing these rows. */
  readonly problems: readonly PreviewProblem[]
}

/** A version that no deployment has: what stands against numbers of versions is no reason against looking. */
const NO_VERSION = '0.0.0'
const MB = 1024 * 1024
/** Of one statement. */
const TIMEOUT_MS = 20_000
/** Of all of them: there may be many checks. */
const ALL_MS = 60_000
/** What the transform may write. */
const MOST_WRITTEN_BYTES = 512 * MB

/**
 * Throws what planning the draft does, and 403 `product_forbidden` where its caller could not read the product by it, 409
 * `input_not_ingested`, `classes_changed`, 422 `preview_unsupported`, `preview_too_large`, 429 `too_many_at_once`, and what a query does.
 */
export async function previewDraft(
  platform: PreviewsDeps,
  call: TenantCall,
  reference: string,
  request: PreviewRequest,
  turns: TenantTurns,
): Promise<Preview> {
  requireDeveloper(call.principal)
  // All of it in the turn: who waits is judged when he has waited.
  return turns.within(call.tenant, call.signal, () => previewNow(platform, call, reference, request))
}

async function previewNow(
  platform: PreviewsDeps,
  call: TenantCall,
  reference: string,
  { digest, rows, lower }: PreviewRequest,
): Promise<Preview> {
  const asked = { version: NO_VERSION, dryRun: true, digest, lower }
  const { checked, found } = await judgeDraft(platform, call, reference, asked)
  // That a version would break somebody is told by its plan, and hides no row; a class that nobody has meant to lower does.
  const lowered = found.find(({ code }) => code === 'class_lowering_unnamed')
  if (lowered !== undefined) throw lowered
  const { manifests } = checked
  refuseDistributed(manifests)
  platform.cpu.refuseSpent(call.tenant)
  const { clear, variant } = await shownBy(platform, call, checked)
  const rights = new HeldRights(platform, call, {
    tables: heldTables(platform, call, checked, variant),
    timeoutMs: ALL_MS,
  })
  try {
    const deadline = AbortSignal.timeout(ALL_MS)
    const signal = AbortSignal.any([rights.signal, deadline])
    const inputs = await inputsOf(platform, { ...call, signal }, checked)
    await recordReading(platform, call, checked, digest)
    const sample = await sampleOf(platform, call, { manifests, inputs, variant, rows, signal }).catch(
      (error: unknown) => {
        throw deadline.aborted && !call.signal.aborted ? tookTooLong() : error
      },
    )
    rights.throwIfEnded()
    // A column that was given a class meanwhile is judged anew by the next one.
    await requireSameClasses(platform.pool, platform, call.tenant, manifests, checked.judged.hidden)
    return await answerOf(platform, call, checked, clear, { digest, inputs, variant, sample })
  } catch (error) {
    throw rights.explained(error)
  } finally {
    rights.release()
  }
}

/** Outside rows would be written into tables first. */
function refuseDistributed({ compute }: ManifestSet): void {
  if (compute.engine !== 'distributed') return
  throw new SluiceError('INVALID_DATA', 'transforms in an engine outside have no preview', {
    code: 'preview_unsupported',
    remedy: 'Deploy the version and read the product.',
  })
}

/** What the caller would be shown of the product. */
interface Shown {
  readonly clear: ClearClasses
  /** That he would be given; as by `accessTo`, one that masks everything where there is none of just his classes. */
  readonly variant: VariantPlan
}

/** By the grants that there are once the draft is deployed. Throws PERMISSION `product_forbidden` where that is nothing. */
async function shownBy(
  { pool, rules }: Pick<PreviewsDeps, 'pool' | 'rules'>,
  call: TenantCall,
  { product, manifests, readers }: Pick<Checked, 'product' | 'manifests' | 'readers'>,
): Promise<Shown> {
  const named = readers.map((reader) => ({ ...reader, may: 'read', classes: [] }) as const)
  const grants: readonly ProductGrant[] = [...(await productGrants(pool, call.tenant, product.id)), ...named]
  const { classification } = manifests.product
  const decision = decideRead(call.principal, { id: product.id, classification, isPreview: false }, grants)
  if (!decision.allowed) {
    const name = `${product.domain}.${product.name}`
    throw new SluiceError('PERMISSION', `deployed, ${name} could not be read by you: ${decision.reason}`, {
      code: 'product_forbidden',
      remedy: decision.remedy,
    })
  }
  const clear = decision.clearClasses
  const exact = variantFor(manifests.output, clear, rules)
  const isMade = planVariants(manifests.output, grants, rules).some(({ variant }) => variant === exact.variant)
  return { clear, variant: isMade ? exact : variantFor(manifests.output, new Set(), rules) }
}

/** What has to stay as it was judged while rows are made. */
function heldTables(platform: PreviewsDeps, call: TenantCall, checked: Checked, variant: VariantPlan) {
  const { product, manifests, upstreams } = checked
  const readsInputs = async () => {
    const found: Upstreams[] = []
    const isPermittedStill = await isPermitted(async () => {
      await checkRawGrants(platform, call, manifests, await connectionsOf(platform, call.tenant, manifests))
      found.push(await upstreamsOf(platform, call, manifests))
    })
    return isPermittedStill && found.every((now) => areAsShown(upstreams, now))
  }
  const readsProduct = async () => {
    const found: VariantPlan[] = []
    const isPermittedStill = await isPermitted(async () => {
      found.push((await shownBy(platform, call, checked)).variant)
    })
    const isMasked = (name: string) => variant.masks.some(({ column }) => column === name)
    return isPermittedStill && found.every(({ masks }) => masks.every(({ column }) => isMasked(column)))
  }
  return [
    { name: 'an input of the draft', isStillReadable: readsInputs },
    { name: `${product.domain}.${product.name}`, isStillReadable: readsProduct },
  ]
}

/** Whether each product that is read is there, and hides no more than it did. */
function areAsShown(then: Upstreams, now: Upstreams): boolean {
  return [...then].every(([name, { access }]) => {
    const current = now.get(name)?.access
    if (current?.variant !== access.variant) return false
    const { hidden, masks = [] } = current
    const isStricter = missingMasks(masks, plannedMasks(access.masks ?? [])).length > 0
    return !isStricter && hidden.every((column) => access.hidden.includes(column))
  })
}

async function inputsOf(platform: PreviewsDeps, call: TenantCall, checked: Checked): Promise<readonly InputState[]> {
  const { product, manifests, judged, upstreams } = checked
  const { pool, lake } = platform
  const deps = { pool, lake, judgedColumns: judged.inputs, heldShapes: judged.shapes, upstreamOf: accessBy(upstreams) }
  return readInputs(product, manifests, call.signal, deps).catch(async (error: unknown) => {
    throw isSluiceError(error) && error.code === 'input_not_ingested'
      ? await notSynced(platform, call, manifests, error)
      : error
  })
}

/** A sync reads what products in service read: of a table that none of them reads it would bring nothing. */
async function notSynced(
  platform: PreviewsDeps,
  call: TenantCall,
  { inputs }: ManifestSet,
  error: SluiceError,
): Promise<SluiceError> {
  for (const input of inputs.filter((one) => !isOfLake(one))) {
    const { name, connection, table } = input
    if ((await lakeCopy(platform, call, input)).length > 0) continue
    const readers = await productsInServiceReading<ManifestSet>(platform.pool, call.tenant, connection)
    const isSame = (one: Input) => one.connection === connection && qualified(one.table) === qualified(table)
    if (readers.some(({ normalised }) => normalised.inputs.some(isSame))) continue
    const message = `the input "${name}" has not been ingested yet: no product in service reads ${table} of "${connection}"`
    const remedy = `Deploy the version, then sync the connection "${connection}": a sync reads what deployed products read.`
    return new SluiceError('CONFLICT', message, { code: error.code, remedy, cause: error })
  }
  return error
}

/** No sync brings it. */
const isOfLake = ({ connection }: Input): boolean => connection === SANDBOX || connection === PRODUCTS

/** On record before a row leaves: raw tables always, as by queries; the draft and what it is made of. */
async function recordReading(
  platform: PreviewsDeps,
  call: TenantCall,
  checked: Checked,
  digest: string,
): Promise<void> {
  const { product, manifests, upstreams } = checked
  const connections = await connectionsOf(platform, call.tenant, manifests)
  const record = (action: string, type: string, id: string, details: Readonly<Record<string, unknown>>) =>
    audited(platform.pool, call, call.tenant, action, { type, id }, details)
  for (const { connection: name, table } of manifests.inputs) {
    const connection = connections.get(name)
    if (connection !== undefined) await record('read.raw', 'connection', connection.id, { table: qualified(table) })
  }
  for (const { served } of upstreams.values()) {
    if (accessOrNull(served, call.principal, platform.rules)?.audit !== false) {
      await record('read.preview', 'product', served.id, { of: product.id })
    }
  }
  await record('product.preview', 'product', product.id, { digest })
}

interface Sampling {
  readonly manifests: ManifestSet
  readonly inputs: readonly InputState[]
  readonly variant: VariantPlan
  readonly rows: number
  readonly signal: AbortSignal
}

async function sampleOf(platform: PreviewsDeps, call: TenantCall, sampling: Sampling): Promise<Sample> {
  const { pool, masters, lake, scratchDirectory, config } = platform
  const { tenant } = call
  const keys = await keysFor(tenant, [sampling.variant], {
    maskSecret: (owner, classification) => maskKey(pool, masters, owner, classification),
  })
  const most: EngineLimits = {
    memoryBytes: config.limits.transform_memory_mb * MB,
    timeoutMs: TIMEOUT_MS,
    threads: 1,
    room: { bytes: MOST_WRITTEN_BYTES, exceeded: wroteTooMuch },
  }
  const limits = limitsFor(sampling.manifests, most)
  const nowMs = (await databaseNow(pool)).getTime()
  const deps = { engine: inTurnOf(platform.engine, tenant), lake, scratchDirectory }
  return sampledRows({ tenant, ...sampling, keys, limits, nowMs }, deps)
}

interface Made {
  readonly digest: string
  readonly inputs: readonly InputState[]
  readonly variant: VariantPlan
  readonly sample: Sample
}

async function answerOf(
  platform: PreviewsDeps,
  call: TenantCall,
  { product, manifests, live, judged }: Checked,
  clear: ClearClasses,
  { digest, inputs, variant, sample }: Made,
): Promise<Preview> {
  // By the classes that the draft gives, too.
  const granted: Sight = { columns: manifests.output.columns, clear, hidden: judged.hidden, rules: platform.rules }
  const readsSources =
    (await readsAll(platform, call, manifests.inputs)) &&
    (live === null || (await mayReadInputs(platform, call, product.id)))
  const sight: Sight = readsSources ? { ...granted, clear: 'all' } : granted
  const checks = sample.checks.filter((check) => seesCheck(sight, check))
  const isMasked = (name: string) => variant.masks.some(({ column }) => column === name)
  return {
    ...sample,
    digest,
    inputs,
    columns: sample.columns.map(({ name, type }) => ({ name, type, masked: isMasked(name) })),
    checks,
    violating: violatingFor(sample, { granted, readsSources }),
    problems: problemsOf(sample, checks),
  }
}

/** Masked as the rows are: values of a check that looks at what is hidden from its reader are not told at all. */
function violatingFor(
  { checks, violating }: Pick<Sample, 'checks' | 'violating'>,
  { granted, readsSources }: { readonly granted: Sight; readonly readsSources: boolean },
): ReadonlyMap<string, ShownRows> {
  const seen = violating.filter(({ check, ofSource }) => {
    const result = checks.find(({ name }) => name === check)
    return result !== undefined && seesCheck(granted, result) && (!ofSource || readsSources)
  })
  return new Map(seen.map(({ check, columns, masked, rows }) => [check, { columns, masked, rows }]))
}

/** Of a check that the caller may not know, only that there is one: everybody would see that nothing was published. */
function problemsOf({ refusal, blocking }: Sample, shown: readonly CheckResult[]): readonly PreviewProblem[] {
  const refused =
    refusal === null ? [] : [{ code: refusal.code, message: refusal.message, remedy: refusal.remedy ?? null }]
  if (blocking.length === 0) return refused
  const named = blocking.filter((name) => shown.some((check) => check.name === name))
  const why = named.length === 0 ? 'a check of hidden columns failed' : `these checks failed: ${named.join(', ')}`
  const remedy = 'Review the checks in quality.yaml, and the rows that they look at.'
  return [...refused, { code: 'quality_blocked', message: `nothing would be published, because ${why}`, remedy }]
}

function tookTooLong(): SluiceError {
  return new SluiceError('QUOTA', `the preview took longer than ${ALL_MS / 1000} s`, {
    code: 'query_timeout',
    remedy: 'Write a simpler transform, or fewer checks, or deploy the version and read the product.',
  })
}

function wroteTooMuch(): SluiceError {
  return new SluiceError('INVALID_DATA', `the transform gives more than ${MOST_WRITTEN_BYTES / MB} MiB of rows`, {
    code: 'preview_too_large',
    remedy: 'Deploy the version and read the product.',
  })
}
