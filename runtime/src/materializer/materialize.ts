/** One materialization of one product: prepare, commit in one transaction, then bring every store up to date. */

import type { EngineLimits } from '@sluice/engine'
import type pg from 'pg'
import { inTransaction } from '../database/pools.ts'
import { registryCatalog } from '../lake/registry-catalog.ts'
import type { ManifestSet } from '../manifest/manifest-set.ts'
import { takesAnyShape } from '../manifest/schema-contract.ts'
import { epochMasks } from '../policy/made-masks.ts'
import { type CarriedInput, carriedRows } from '../quality/carried-rows.ts'
import type { CheckResult } from '../quality/check-result.ts'
import { scoreOf } from '../quality/verdict.ts'
import { raiseFence } from '../registry/fences.ts'
import { noteMaking } from '../registry/makings.ts'
import {
  lostCounts,
  type Materialization,
  materializationOfRun,
  type NewMaterialization,
  recordBlocked,
  recordEpoch,
  reserveEpoch,
} from '../registry/materializations.ts'
import { findProduct, type Product } from '../registry/products.ts'
import { noteHeldShapes } from '../registry/versions.ts'
import { awaitedOf, comparedWithServed, goBack, settleDeployment } from './awaited-deployment.ts'
import { type Deployed, deployedVersion, keysFor } from './deployed.ts'
import type { MaterializeDeps } from './deps.ts'
import { inputsOf, isOfOthers, requireChanged, requireNoPause } from './due.ts'
import { noteEpoch } from './epoch-note.ts'
import type { ErasedKey } from './erased-key.ts'
import { forgetBefore, isAsWritten, requireTellable } from './erasure.ts'
import type { Expected } from './expected.ts'
import { expectedOf, requireExpected } from './expected-rows.ts'
import { expiredByCommit } from './expirable-snapshots.ts'
import type { InputState } from './input-state.ts'
import { prepare, QualityBlocked } from './prepare.ts'
import type { Prepared } from './prepared.ts'
import { withProductLock } from './product-lock.ts'
import { expectStores, type StoreOutcome, syncEndpoints } from './sync-endpoints.ts'
import { VersionDiffers } from './version-comparison.ts'

export interface MaterializeRequest {
  readonly product: Product
  readonly runId: string
  readonly signal: AbortSignal
  /** Nothing is made where it would be what it is. */
  readonly ifChanged?: boolean
  /** Somebody asked for this product by itself: a table of it that cannot be read is begun anew. */
  readonly isAsked?: boolean
  /**
   * Everything is made anew, and nothing is kept of what was before: no row with this key of the product's own, no former
   * snapshot, no copy. `key` null: the inputs alone say which rows there are.
   */
  readonly erased?: { readonly key: ErasedKey | null }
  /** Told when there is something to make, before its work. */
  readonly begun?: () => void
  /** Told of the epoch that was published, and of its stores as they take it. */
  readonly report?: (epoch: number, stores: readonly StoreOutcome[]) => void
}

export interface MaterializeResult {
  readonly materialization: Materialization
  /** Those that could not be brought up to date are tried again. */
  readonly stores: readonly StoreOutcome[]
  /** Rows that checks put aside; null where not everybody may know what those look at. */
  readonly quarantined: number | null
  /** What contracts of inputs have done to the rows of this epoch, in words; none where the epoch was there before. */
  readonly contractNotes: readonly string[]
}

/**
 * Repeatable: a run that has committed its epoch goes on with the stores; in a wave, where it has read more since, it makes one more. Throws CONFLICT `product_paused`, and
 * `inputs_unchanged` where that is asked for.
 */
export async function materialize(request: MaterializeRequest, deps: MaterializeDeps): Promise<MaterializeResult> {
  const { product, signal } = request
  return withProductLock(deps.pool, product.id, signal, async () => {
    await deps.faultPoint('materializer.started')
    const committed = await materializationOfRun(deps.pool, product.id, request.runId)
    // What was brought back after it, or merged since, is not what was to be left.
    const isToDo =
      committed === null ||
      (request.erased && !(await isAsWritten(product, committed, deps))) ||
      (request.ifChanged === true && (await isOfOthers(request, committed, deps)))
    const contractNotes: string[] = []
    return timed(request, deps, async (begun) => {
      const materialization = isToDo ? await commitNewEpoch({ ...request, begun }, contractNotes, deps) : committed
      if (request.erased) await forgetBefore(product, materialization, signal, deps)
      const report = (all: readonly StoreOutcome[]) => request.report?.(materialization.epoch as number, all)
      const stores = await syncEndpoints(product, signal, deps, report, materialization)
      const quarantined = await openlyQuarantined(product, materialization, deps)
      return { materialization, stores, quarantined, contractNotes }
    })
  })
}

/** Notes how long it took since there was something to make, however it ended. */
async function timed<T>(
  { product, signal, begun }: MaterializeRequest,
  { pool }: MaterializeDeps,
  work: (begun: () => void) => Promise<T>,
): Promise<T> {
  let begunMs: number | null = null
  try {
    return await work(() => {
      begunMs = performance.now()
      begun?.()
    })
  } finally {
    // Nothing that was made hangs on it, and a registry that is away tells so itself.
    if (begunMs !== null && !signal.aborted)
      await noteMaking(pool, product.id, performance.now() - begunMs).catch(() => undefined)
  }
}

export async function openlyQuarantined(
  product: Product,
  { version, quality, counts }: Materialization,
  deps: MaterializeDeps,
): Promise<number | null> {
  const { checks = [] } = (quality ?? {}) as { readonly checks?: readonly CheckResult[] }
  const deciding = checks.filter(({ onError }) => onError === 'quarantine')
  const open = deciding.length === 0 ? [] : await deps.openChecks(product, version, deciding)
  return open.length === deciding.length ? (counts['quarantined'] ?? 0) : null
}

async function commitNewEpoch(
  request: MaterializeRequest,
  contractNotes: string[],
  deps: MaterializeDeps,
): Promise<Materialization> {
  const { product, signal } = request
  await requireNoPause(product, deps)
  const fence = await raiseFence(deps.pool, product.id)
  // After the fence: what is deployed from now on fences this one off.
  const current = (await findProduct(deps.pool, product.tenant, product.id))?.currentVersion ?? null
  const deployed = await deployedVersion(product, current, deps)
  const awaited = await awaitedOf(product, deployed.version, deps)
  if (request.erased) requireTellable(product, deployed.manifests, request.erased.key)
  const [room, inputs, keys] = await Promise.all([
    deps.checkStorage(product.tenant),
    inputsOf(product, deployed, signal, deps),
    keysFor(product.tenant, deployed.variants, deps),
  ])
  if (request.ifChanged === true) await requireChanged({ product, deployed, keys, inputs }, signal, deps)
  const record = recordFor(request, deployed, inputs)
  await deps.noteBegun(product, request.runId, deployed.version)
  request.begun?.()
  const ownLimits = { ...deps.limits, room }
  let prepared: Prepared
  let compared: readonly CheckResult[] = []
  let expected: Expected | null = null
  try {
    prepared = await prepare(
      {
        tenant: product.tenant,
        domain: product.domain,
        product: product.name,
        version: deployed.version,
        manifests: deployed.manifests,
        variants: deployed.variants,
        keys,
        inputs,
        runId: request.runId,
        epoch: fence.nextEpoch,
        takesDeletes: storesTakeDeletes(deployed.manifests, deps),
        learned: await deps.learned(product, deployed.manifests, record.inputs),
        limits: { ...limitsFor(deployed.manifests, deps.transformLimits), room },
        ownLimits,
        ...(request.erased ? { erased: request.erased } : {}),
        ...(request.isAsked ? { isAsked: true } : {}),
        expiredOf: (base) => expiredByCommit(deps.pool, product, deps.lake, base),
        signal,
      },
      deps,
    )
    if (awaited !== null) {
      compared = await comparedWithServed(product, awaited, deployed, prepared, { limits: ownLimits, signal }, deps)
    }
    const limits = { ...limitsFor(deployed.manifests, deps.transformLimits), room }
    // What is to be erased, or tried, is held up by nobody.
    const isHeardOnly = request.erased !== undefined || product.previewOf !== null
    const asked = { runId: request.runId, limits, ownLimits, signal, isHeardOnly }
    expected = await expectedOf(product, deployed, prepared, asked, deps)
    requireExpected(expected, [...prepared.checks, ...compared], prepared)
  } catch (error) {
    if (awaited !== null && error instanceof VersionDiffers) {
      const refused = { error, token: fence.token, isBehind: request.ifChanged === true }
      const blocked = { ...record, ...qualityOf(error.checks) }
      await inTransaction(deps.pool, (tx) => goBack(tx, product, awaited, { ...refused, record: blocked }))
      // What is to be erased is erased from the version that goes on, in the same run.
      if (request.erased && awaited.comparison.former !== null) return commitNewEpoch(request, contractNotes, deps)
      throw error
    }
    if (!(error instanceof QualityBlocked)) throw error
    const { checks, violations } = error
    await inTransaction(deps.pool, async (tx) => {
      await deps.keepViolations(tx, await recordBlocked(tx, { ...record, ...qualityOf(checks) }), violations)
      if (expected !== null) await deps.noteExpectations(tx, product, expected)
    })
    const open = await deps.openChecks(product, deployed.version, checks)
    throw error.without(checks.filter((check) => !open.includes(check)))
  }
  await deps.faultPoint('materializer.before-commit')
  const materialization = await inTransaction(
    deps.pool,
    async (tx) => {
      const found = expected ?? { expecting: [], results: [] }
      const checked = { ...prepared, checks: [...prepared.checks, ...compared, ...found.results] }
      const made = await commitEpoch(tx, product, deployed, fence.token, record, checked, deps)
      await deps.noteExpectations(tx, product, found)
      if (awaited !== null) await settleDeployment(tx, product, awaited)
      return made
    },
    { signal },
  )
  contractNotes.push(...prepared.inputs.flatMap(({ held }) => held?.notes ?? []))
  await noteEpoch(product, materialization, prepared.commits, deps)
  await deps.faultPoint('materializer.after-commit')
  return materialization
}

/** Everything that the epoch changes, or nothing of it. */
async function commitEpoch(
  tx: pg.PoolClient,
  product: Product,
  deployed: Deployed,
  token: bigint,
  record: NewMaterialization,
  prepared: Prepared,
  deps: MaterializeDeps,
): Promise<Materialization> {
  const epoch = await reserveEpoch(tx, product.id, token)
  await deps.lake.publish(registryCatalog(tx), prepared.commits)
  const materialization = await recordEpoch(tx, epoch, {
    ...record,
    ...qualityOf([...prepared.checks, ...carriedRows(prepared.inputs.map(carriedInput), prepared.rowCount)]),
    snapshots: prepared.snapshots,
    counts: { rows: prepared.rowCount, quarantined: prepared.quarantined, ...lostCounts(prepared.lost) },
  })
  await deps.keepViolations(tx, materialization, prepared.violations)
  await deps.keepProfiles(tx, materialization, prepared.profiles)
  await deps.keepAside(tx, product, record.runId as string, prepared.inputs)
  await noteShapes(tx, product.id, deployed, prepared.inputs)
  await expectStores(tx, product, deployed)
  await deps.announce(tx, product, materialization)
  return materialization
}

/** A store that reads the lake's own files says whether it does; to any other, rows that are gone are told. */
function storesTakeDeletes({ serving }: ManifestSet, { plugins }: MaterializeDeps): boolean {
  return serving.endpoints.every(({ type }) => {
    const capabilities = plugins.serving(type)?.plugin.capabilities
    return capabilities !== undefined && (capabilities.commit !== 'lake' || capabilities.lakeDeletes === true)
  })
}

function recordFor(request: MaterializeRequest, deployed: Deployed, inputs: readonly InputState[]): NewMaterialization {
  return {
    tenant: request.product.tenant,
    productId: request.product.id,
    kind: 'materialize',
    runId: request.runId,
    version: deployed.version,
    digest: deployed.digest,
    maskedColumns: Object.fromEntries(
      deployed.variants.map((plan) => [plan.variant, plan.masks.map((mask) => mask.column)]),
    ),
    masks: epochMasks(deployed.variants),
    inputs: Object.fromEntries(
      inputs.map(({ input, state, moment, readAt, restsOn = {}, upstream }) => {
        const made = upstream && { product_id: upstream.productId, epoch: upstream.epoch }
        return [
          input.name,
          { snapshot_id: state.snapshotId, moment, read_at: readAt ?? null, rests_on: restsOn, ...made },
        ]
      }),
    ),
    counts: {},
    quality: null,
    qualityScore: null,
  }
}

/** What kept a row out of the whole table may be any of its columns; what kept it out of the product is one that this uses. */
export function carriedInput({ input, state, rejected, used, terms, leftOut = 0 }: InputState): CarriedInput {
  const all = state.columns.map(({ name }) => name)
  const judged = terms === undefined ? [] : [...terms.rows.map(({ column }) => column), ...terms.retyped.map(nameOf)]
  const columns = [...new Set([...(rejected === 0 ? (used ?? all) : all), ...judged])]
  return { input, columns, rejected: rejected + leftOut }
}

const nameOf = ({ name }: { readonly name: string }): string => name

/** Of inputs that a contract holds to a shape and of which none was known when the version was deployed: the one they have now. */
async function noteShapes(
  tx: pg.PoolClient,
  productId: string,
  { version, manifests, heldShapes }: Deployed,
  inputs: readonly InputState[],
): Promise<void> {
  const held = new Set(manifests.inputs.filter((input) => !takesAnyShape(input)).map(nameOf))
  const found = inputs.flatMap(({ input: { name }, shape }) =>
    shape !== undefined && held.has(name) && heldShapes?.[name] === undefined
      ? [[name, shape.map(({ name: column, type, nullable }) => ({ name: column, type, nullable }))] as const]
      : [],
  )
  if (found.length > 0) await noteHeldShapes(tx, productId, version, Object.fromEntries(found))
}

function qualityOf(checks: Prepared['checks']): Pick<NewMaterialization, 'quality' | 'qualityScore'> {
  const score = scoreOf(checks)
  return { quality: { checks, by_dimension: score.byDimension }, qualityScore: score.overall }
}

/** What compute.yaml says, where that is less. */
export function limitsFor(manifests: Pick<ManifestSet, 'compute'>, most: EngineLimits): EngineLimits {
  const { memoryBytes, threads, timeoutMs } = manifests.compute.resources
  return {
    ...most,
    memoryBytes: Math.min(memoryBytes ?? most.memoryBytes, most.memoryBytes),
    threads: Math.min(threads ?? most.threads, most.threads),
    timeoutMs: Math.min(timeoutMs ?? most.timeoutMs, most.timeoutMs),
  }
}
