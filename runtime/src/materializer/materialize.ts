/** One materialization of one product: prepare, commit in one transaction, then bring every store up to date. */
import { isSluiceError, type Logger, openTenantScope, SluiceError, type Target } from '@sluice/sdk'
import type pg from 'pg'
import { inTransaction } from '../database/pools.ts'
import type { EngineLimits, StorageRoom } from '../engine/engine.ts'
import type { Lake, Scan, TableRef, TableState } from '../lake/lake.ts'
import { registryCatalog } from '../lake/registry-catalog.ts'
import { SANDBOX } from '../lake/tenant-layout.ts'
import { DEFAULT_SCHEMA, rawTableName } from '../manifest/context.ts'
import type { Input, ManifestSet } from '../manifest/manifest-set.ts'
import type { PluginSet } from '../plugins/plugin-set.ts'
import type { ProductGrant } from '../policy/classification.ts'
import type { MaskingRules } from '../policy/masking.ts'
import { type CarriedInput, carriedRows } from '../quality/carried-rows.ts'
import { type CheckResult, scoreOf } from '../quality/verdict.ts'
import { findConnectionByName, isOfSource } from '../registry/connections.ts'
import type { RecordedError } from '../registry/deployments.ts'
import {
  type EndpointState,
  endpointApplied,
  endpointFailed,
  endpointPending,
  endpointStates,
  forgetEndpoint,
  isUnreadable,
  loseTable,
  lostCopy,
} from '../registry/endpoint-states.ts'
import { raiseFence } from '../registry/fences.ts'
import {
  epochsFrom,
  findEpoch,
  latestEpoch,
  lostCounts,
  type Materialization,
  materializationOfRun,
  type NewMaterialization,
  recordBlocked,
  recordEpoch,
  reserveEpoch,
} from '../registry/materializations.ts'
import { type Pause, type Product, pauseOf, updateProduct } from '../registry/products.ts'
import { findVersion } from '../registry/versions.ts'
import { noteEpoch, pauseIfOutdated } from './epoch-note.ts'
import { type LakeState, stateOfScan, stateSchema, UNKNOWN_FIELD } from './lake-state.ts'
import { type MaskKey, maskKey } from './mask-sql.ts'
import { type PrepareDeps, type Prepared, prepare, QualityBlocked } from './prepare.ts'
import { ifProductIsFree, withProductLock } from './product-lock.ts'
import { lacksValues, MOMENT, ROWS_REJECTED } from './raw-summary.ts'
import { changesSince } from './source-changes.ts'
import { dropCopy } from './store-copies.ts'
import { type EpochState, type StoreSyncDeps, type SyncReceipt, syncStore } from './store-sync.ts'
import type { InputState } from './transform.ts'
import { configFor, lakeTable, planVariants, servesVariant, type VariantPlan } from './variants.ts'
import type { ViolationsByVariant } from './violating-rows.ts'

export interface MaterializeDeps extends PrepareDeps, StoreSyncDeps {
  readonly pool: pg.Pool
  readonly plugins: PluginSet
  readonly rules: MaskingRules
  readonly logger: Logger
  /** Of authors' SQL, unless compute.yaml says less. */
  readonly transformLimits: EngineLimits
  grants(productId: string): Promise<readonly ProductGrant[]>
  maskSecret(tenant: string, classification: string): Promise<Uint8Array>
  /** Those whose results everybody may know. */
  openChecks(product: Product, version: string, checks: readonly CheckResult[]): Promise<readonly CheckResult[]>
  /** In place of those of the materialization before. */
  keepViolations(tx: pg.PoolClient, materialization: Materialization, found: ViolationsByVariant): Promise<void>
  /** Appends to the tenant's events, in the transaction of the commit. */
  announce(tx: pg.PoolClient, product: Product, materialization: Materialization): Promise<void>
  /** What the tenant may still store. Throws QUOTA `tier_limit_exceeded`. */
  checkStorage(tenant: string): Promise<StorageRoom>
}

export interface MaterializeRequest {
  readonly product: Product
  readonly runId: string
  readonly signal: AbortSignal
}

export interface MaterializeResult {
  readonly materialization: Materialization
  /** Endpoints that could not be brought up to date; they are tried again. */
  readonly failedEndpoints: readonly string[]
  /** Rows that checks put aside; null where not everybody may know what those look at. */
  readonly quarantined: number | null
}

/** Repeatable: a run that has committed its epoch goes on with the stores. Throws CONFLICT `product_paused`. */
export async function materialize(request: MaterializeRequest, deps: MaterializeDeps): Promise<MaterializeResult> {
  const { product, signal } = request
  return withProductLock(deps.pool, product.id, signal, async () => {
    await deps.faultPoint('materializer.started')
    const committed = await materializationOfRun(deps.pool, product.id, request.runId)
    const materialization = committed ?? (await commitNewEpoch(request, deps))
    const failedEndpoints = await syncEndpoints(product, signal, deps)
    return { materialization, failedEndpoints, quarantined: await openlyQuarantined(product, materialization, deps) }
  })
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

/** Tries stores again that are behind, unless a run has the product and will do it; after a failure or a start. */
export async function catchUp(product: Product, signal: AbortSignal, deps: MaterializeDeps): Promise<void> {
  await ifProductIsFree(deps.pool, product.id, () => syncEndpoints(product, signal, deps))
}

/** A version with the variants that it has today. */
export interface Deployed {
  readonly version: string
  readonly digest: string
  readonly manifests: ManifestSet
  readonly variants: readonly VariantPlan[]
}

/** Throws CONFLICT `not_deployed`. */
export async function deployedVersion(
  product: Product,
  version: string | null,
  deps: MaterializeDeps,
): Promise<Deployed> {
  const kept = version === null ? null : await findVersion<ManifestSet>(deps.pool, product.id, version)
  if (kept === null) {
    throw new SluiceError('CONFLICT', `${product.domain}.${product.name} has no version in service`, {
      code: 'not_deployed',
      remedy: 'Deploy a version of the product first.',
    })
  }
  const variants = planVariants(kept.normalised.output, await deps.grants(product.id), deps.rules)
  return { version: kept.version, digest: kept.digest, manifests: kept.normalised, variants }
}

async function commitNewEpoch(request: MaterializeRequest, deps: MaterializeDeps): Promise<Materialization> {
  const { product, signal } = request
  const pause = await pauseOf(deps.pool, product.id)
  const paused = pause ?? (await pauseIfOutdated(product, deps))
  if (paused !== null) throw productPaused(paused)
  const fence = await inTransaction(deps.pool, (tx) => raiseFence(tx, product.id))
  const current = await inTransaction(deps.pool, async (tx) => currentVersion(tx, product.id))
  const deployed = await deployedVersion(product, current, deps)
  const room = await deps.checkStorage(product.tenant)
  const inputs = await readInputs(product, deployed.manifests, signal, deps)
  const record = recordFor(request, deployed, inputs)
  let prepared: Prepared
  try {
    prepared = await prepare(
      {
        tenant: product.tenant,
        domain: product.domain,
        product: product.name,
        version: deployed.version,
        manifests: deployed.manifests,
        variants: deployed.variants,
        keys: await keysFor(product.tenant, deployed.variants, deps),
        inputs,
        runId: request.runId,
        epoch: fence.epoch + 1,
        limits: { ...limitsFor(deployed.manifests, deps.transformLimits), room },
        ownLimits: { ...deps.limits, room },
        signal,
      },
      deps,
    )
  } catch (error) {
    if (!(error instanceof QualityBlocked)) throw error
    const { checks, violations } = error
    await inTransaction(deps.pool, async (tx) => {
      await deps.keepViolations(tx, await recordBlocked(tx, { ...record, ...qualityOf(checks) }), violations)
    })
    const open = await deps.openChecks(product, deployed.version, checks)
    throw error.without(checks.filter((check) => !open.includes(check)))
  }
  await deps.faultPoint('materializer.before-commit')
  const materialization = await inTransaction(
    deps.pool,
    async (tx) => commitEpoch(tx, product, deployed, fence.token, record, prepared, inputs, deps),
    { signal },
  )
  await noteEpoch(product, materialization, prepared.commits, deps)
  await deps.faultPoint('materializer.after-commit')
  return materialization
}

const SETTLE =
  'Say which one is right: POST /api/v1/products/{id}/resume?right=lake (or registry), or sluice product resume --right.'

/** What a paused product answers to whoever would make it anew. */
export function productPaused(pause: Pause): SluiceError {
  return new SluiceError('CONFLICT', pauseText(pause), {
    code: 'product_paused',
    remedy:
      pause.reason === 'registry_outdated'
        ? SETTLE
        : 'Resume the product with POST /api/v1/products/{id}/resume or sluice product resume, or deploy a version.',
  })
}

/** In words, for plans, runs and answers. */
export function pauseText({ reason, version, since }: Pause): string {
  if (reason === 'registry_outdated') {
    return `the lake has an epoch of version ${version} of ${since} that the registry does not know`
  }
  return `materialization is paused since the rollback to version ${version} at ${since}`
}

/** Everything that the epoch changes, or nothing of it. */
async function commitEpoch(
  tx: pg.PoolClient,
  product: Product,
  deployed: Deployed,
  token: bigint,
  record: NewMaterialization,
  prepared: Prepared,
  inputs: readonly InputState[],
  deps: MaterializeDeps,
): Promise<Materialization> {
  const epoch = await reserveEpoch(tx, product.id, token)
  await deps.lake.publish(registryCatalog(tx), prepared.commits)
  const materialization = await recordEpoch(tx, epoch, {
    ...record,
    ...qualityOf([...prepared.checks, ...carriedRows(inputs.map(carriedInput), prepared.rowCount)]),
    snapshots: prepared.snapshots,
    counts: { rows: prepared.rowCount, quarantined: prepared.quarantined, ...lostCounts(prepared.lost) },
  })
  await deps.keepViolations(tx, materialization, prepared.violations)
  await expectStores(tx, product, deployed)
  await deps.announce(tx, product, materialization)
  return materialization
}

/** Every store of the version has the new epoch to come. */
export async function expectStores(tx: pg.PoolClient, product: Product, deployed: Deployed): Promise<void> {
  for (const { type, config } of deployed.manifests.serving.endpoints) {
    for (const plan of deployed.variants) {
      if (!servesVariant(type, config, plan, deployed.manifests.output)) continue
      await endpointPending(tx, { productId: product.id, endpoint: type, variant: plan.variant })
    }
  }
}

async function currentVersion(tx: pg.PoolClient, productId: string): Promise<string | null> {
  const { rows } = await tx.query('select current_version from products where id = $1', [productId])
  return (rows[0] as { current_version: string | null } | undefined)?.current_version ?? null
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
    inputs: Object.fromEntries(
      inputs.map(({ input, state, moment }) => [input.name, { snapshot_id: state.snapshotId, moment }]),
    ),
    counts: {},
    quality: null,
    qualityScore: null,
  }
}

function carriedInput({ input, state, rejected }: InputState): CarriedInput {
  return { input, columns: state.columns.map(({ name }) => name), rejected }
}

function qualityOf(checks: Prepared['checks']): Pick<NewMaterialization, 'quality' | 'qualityScore'> {
  const score = scoreOf(checks)
  return { quality: { checks, by_dimension: score.byDimension }, qualityScore: score.overall }
}

export async function keysFor(
  tenant: string,
  variants: readonly VariantPlan[],
  deps: MaterializeDeps,
): Promise<readonly MaskKey[]> {
  const hashed = variants.flatMap((plan) => plan.masks.filter((mask) => mask.strategy === 'hash'))
  const classes = [...new Set(hashed.map((mask) => mask.classification))].sort()
  return Promise.all(classes.map(async (name) => maskKey(name, await deps.maskSecret(tenant, name))))
}

function limitsFor(manifests: ManifestSet, most: EngineLimits): EngineLimits {
  const { memoryBytes, threads, timeoutMs } = manifests.compute.resources
  return {
    ...most,
    memoryBytes: Math.min(memoryBytes ?? most.memoryBytes, most.memoryBytes),
    threads: Math.min(threads ?? most.threads, most.threads),
    timeoutMs: Math.min(timeoutMs ?? most.timeoutMs, most.timeoutMs),
  }
}

/**
 * The raw table of a source table, in the tenant's own zone of the lake. The connection "sandbox", which nobody can
 * register, stands for the tenant's plain tables.
 */
export function rawTable(tenant: string, connection: string, table: string) {
  if (connection !== SANDBOX) return { warehouse: tenant, namespace: rawDomain(connection), table: rawTableName(table) }
  // The sandbox has no schemas: a dot is part of a name there.
  const own = table.startsWith(`${DEFAULT_SCHEMA}.`) ? table.slice(DEFAULT_SCHEMA.length + 1) : table
  return { warehouse: tenant, namespace: SANDBOX, table: own }
}

/** Where the rows of a connection lie as they came. */
export function rawDomain(connection: string): string {
  return `raw_${connection}`
}

/**
 * The inputs as they lie in the lake now, all of one instant: of tables that were committed together none is seen without the
 * others. Throws CONFLICT `input_not_ingested`.
 */
export async function readInputs(
  product: Product,
  manifests: ManifestSet,
  signal: AbortSignal,
  { lake, pool }: Pick<MaterializeDeps, 'lake' | 'pool'>,
): Promise<readonly InputState[]> {
  const tables = manifests.inputs.map((input) => rawTable(product.tenant, input.connection, input.table))
  const found = await inTransaction(
    pool,
    async (db) => {
      const catalog = registryCatalog(db)
      const states: (TableState | null)[] = []
      for (const table of tables) states.push(await lake.load(table, { signal, catalog }))
      return states
    },
    { isolation: 'repeatable read', readOnly: true, signal },
  )
  return Promise.all(
    manifests.inputs.map(async (input, index) => {
      const base = found[index] ?? null
      const scan = base && (await lake.scan(base, {}, signal))
      const connection =
        input.connection === SANDBOX ? null : await findConnectionByName(pool, product.tenant, input.connection)
      const isFormer = scan !== null && connection !== null && !isOfSource(scan.summary, connection)
      const state = scan && !isFormer && stateOfScan(scan)
      // What anybody may write says nothing of rows that a connection has brought.
      const summary: Scan['summary'] = scan === null || connection === null ? {} : scan.summary
      if (state && lacksValues(summary, manifests, input)) throw inputLacksValues(input)
      if (state) {
        return {
          input,
          state,
          table: tables[index] as TableRef,
          moment: summary[MOMENT] ?? null,
          changes: changesSince(base, state.columns),
          rejected: Number(summary[ROWS_REJECTED] ?? 0),
        }
      }
      throw new SluiceError('CONFLICT', `the input "${input.name}" has not been ingested yet`, {
        code: 'input_not_ingested',
        remedy:
          input.connection === SANDBOX
            ? 'Write the table through the Iceberg catalog first.'
            : `Sync the connection "${input.connection}".`,
      })
    }),
  )
}

/** Which columns these are is known to who may read the table, and to nobody else. */
function inputLacksValues({ name, connection }: Input): SluiceError {
  const message = `the input "${name}" was read when no product used all the columns that this one uses, and lacks values of them`
  return new SluiceError('CONFLICT', message, {
    code: 'input_not_ingested',
    remedy: `Sync the connection "${connection}": it reads the table whole.`,
  })
}

/** What a store answers whose tables are not those that it has written down, although it was provisioned right before. */
const DAMAGES: ReadonlySet<string> = new Set(['schema_conflict', 'policy_missing', 'not_provisioned'])

const FIRST_RETRY_MS = 2_000
const LAST_RETRY_MS = 300_000

/** Brings every endpoint of the version in service to the newest epoch, in parallel; says which could not be. */
export async function syncEndpoints(
  product: Product,
  signal: AbortSignal,
  deps: MaterializeDeps,
): Promise<readonly string[]> {
  const newest = await latestEpoch(deps.pool, product.id)
  if (newest === null) return []
  const deployed = await deployedVersion(product, newest.version, deps)
  const fence = await inTransaction(deps.pool, (tx) => raiseFence(tx, product.id))
  const states = await endpointStates(deps.pool, product.id)
  const wanted = deployed.manifests.serving.endpoints.flatMap((endpoint) =>
    deployed.variants
      .filter((plan) => newest.snapshots[plan.variant] !== undefined)
      .filter((plan) => servesVariant(endpoint.type, endpoint.config, plan, deployed.manifests.output))
      .map((plan) => ({ endpoint, plan })),
  )
  for (const state of states) {
    const kept = wanted.some(({ endpoint, plan }) => endpoint.type === state.endpoint && plan.variant === state.variant)
    if (!kept) await leaveEndpoint(product, state, deps)
  }
  const outcomes = await Promise.all(
    wanted.map(async ({ endpoint, plan }) => {
      const known = states.find((state) => state.endpoint === endpoint.type && state.variant === plan.variant)
      const key = { productId: product.id, endpoint: endpoint.type, variant: plan.variant }
      try {
        const taken = await syncEndpoint(product, endpoint, plan, known ?? null, newest, fence.token, signal, deps)
        await endpointApplied(deps.pool, key, newest.epoch as number, taken.leftOut)
        return null
      } catch (error) {
        signal.throwIfAborted()
        // Not of the shape that the store itself has written down: neither this copy nor those beside it can be believed.
        const isDamaged = isSluiceError(error) && DAMAGES.has(error.code)
        const recorded = isDamaged ? lostCopy('unreadable') : recordedError(error)
        await endpointFailed(deps.pool, key, recorded, retryAfterMs(known?.attempts ?? 0))
        // Once: what dropping has not mended is this copy's own trouble.
        if (isDamaged && !isUnreadable(known?.error ?? null)) await loseTable(deps.pool, product.id, endpoint.type)
        deps.logger.warn('a store could not be brought up to date', {
          tenant: product.tenant,
          product: product.id,
          endpoint: endpoint.type,
          code: recordedError(error).code,
          cause:
            error instanceof Error ? (error.cause instanceof Error ? error.cause.message : error.message) : undefined,
        })
        return endpoint.type
      }
    }),
  )
  const failed = [...new Set(outcomes.filter((outcome) => outcome !== null))]
  await updateProduct(deps.pool, product.tenant, product.id, { status: failed.length > 0 ? 'degraded' : 'deployed' })
  return failed
}

/** What the product has no more at an endpoint; it is kept in mind until the store has dropped it. */
async function leaveEndpoint(product: Product, state: EndpointState, deps: MaterializeDeps): Promise<void> {
  try {
    await dropCopy(product, state, deps)
    await forgetEndpoint(deps.pool, state)
  } catch (error) {
    await endpointFailed(deps.pool, state, recordedError(error), retryAfterMs(state.attempts))
    deps.logger.warn('a store could not drop what it has no more to serve', {
      tenant: product.tenant,
      product: product.id,
      endpoint: state.endpoint,
      code: recordedError(error).code,
    })
  }
}

function retryAfterMs(attempts: number): number {
  return Math.min(FIRST_RETRY_MS * 2 ** Math.min(attempts, 10), LAST_RETRY_MS)
}

export function recordedError(error: unknown): RecordedError {
  if (!isSluiceError(error)) return { code: 'internal_error', message: 'something went wrong that should not have' }
  return { code: error.code, message: error.message, ...(error.remedy ? { remedy: error.remedy } : {}) }
}

async function syncEndpoint(
  product: Product,
  endpoint: ManifestSet['serving']['endpoints'][number],
  plan: VariantPlan,
  known: EndpointState | null,
  newest: Materialization,
  fence: bigint,
  signal: AbortSignal,
  deps: MaterializeDeps,
): Promise<SyncReceipt> {
  const serving = deps.plugins.serving(endpoint.type)
  if (!serving) {
    throw new SluiceError('CONFIG', `no store is configured for ${endpoint.type} endpoints`, {
      code: 'unknown_driver',
      remedy: 'Choose a driver for it under "serving" in sluice.yaml.',
    })
  }
  const target = targetFor(product, plan, endpoint.config)
  const keyOf = keysOfVersions(product, deps)
  return syncStore(
    {
      plugin: serving.plugin,
      store: serving.store,
      target,
      fence,
      applied: known?.appliedEpoch ?? null,
      isUnreadable: isUnreadable(known?.error ?? null),
      policyVersion: newest.digest,
      signal,
      newest: newest.epoch as number,
      async committedAt(epoch) {
        const found = await findEpoch(deps.pool, product.id, epoch)
        return found && instantOf(found)
      },
      async at(epoch) {
        const found = await findEpoch(deps.pool, product.id, epoch)
        return found && epochState(product, plan, found, keyOf, signal, deps)
      },
      after: (epoch) => epochStates(product, plan, epoch, keyOf, signal, deps),
    },
    deps,
  )
}

/** What every hook of a store is about, for one variant at one endpoint. */
export function targetFor(
  product: Pick<Product, 'tenant' | 'domain' | 'name'>,
  plan: VariantPlan,
  config: Readonly<Record<string, unknown>>,
): Target {
  return {
    scope: openTenantScope(product.tenant),
    domain: product.domain,
    product: product.name,
    variant: plan.variant,
    schema: plan.schema,
    config: configFor(config, plan),
  }
}

type KeyOf = (version: string) => Promise<readonly string[] | null>

/** The identity that each version gave its rows, asked for once; null where there is no such version. */
function keysOfVersions(product: Product, deps: MaterializeDeps): KeyOf {
  const known = new Map<string, readonly string[] | null>()
  return async (version) => {
    if (!known.has(version)) {
      const kept = await findVersion<ManifestSet>(deps.pool, product.id, version)
      known.set(version, kept?.normalised.output.primaryKey ?? null)
    }
    return known.get(version) ?? null
  }
}

const EPOCHS_AT_ONCE = 1_000

/** The variant at each epoch after that one, oldest first, without those that the lake has not kept. */
async function* epochStates(
  product: Product,
  plan: VariantPlan,
  after: number,
  keyOf: KeyOf,
  signal: AbortSignal,
  deps: MaterializeDeps,
): AsyncGenerator<EpochState> {
  let last = after
  for (;;) {
    const page = await epochsFrom(deps.pool, product.id, last + 1, EPOCHS_AT_ONCE)
    for (const epoch of page) {
      const state = await epochState(product, plan, epoch, keyOf, signal, deps)
      if (state !== null) yield state
    }
    if (page.length < EPOCHS_AT_ONCE) return
    last = page.at(-1)?.epoch as number
  }
}

/** Null where the variant was not made then, or the lake has not kept it. */
async function epochState(
  product: Product,
  plan: VariantPlan,
  materialization: Materialization,
  keyOf: KeyOf,
  signal: AbortSignal,
  deps: MaterializeDeps,
): Promise<EpochState | null> {
  const snapshotId = materialization.snapshots[plan.variant]
  if (snapshotId === undefined) return null
  try {
    const kept = await snapshotState(product, plan, snapshotId, signal, deps.lake)
    const primaryKey = (await keyOf(materialization.version)) ?? kept.primaryKey
    return {
      epoch: materialization.epoch as number,
      committedAt: instantOf(materialization),
      state: inColumnsOf(plan, kept),
      schema: { ...stateSchema(kept), primaryKey },
    }
  } catch (error) {
    if (isSluiceError(error) && error.code === 'snapshot_not_found') return null
    throw error
  }
}

function instantOf({ committedAt }: Materialization): string {
  return committedAt.toISOString().replace('Z', '000Z')
}

/** The variant as a snapshot has it, in the columns of the plan. Throws `snapshot_not_found`. */
export async function variantState(
  product: Product,
  plan: VariantPlan,
  snapshotId: string,
  signal: AbortSignal,
  lake: Lake,
): Promise<LakeState> {
  return inColumnsOf(plan, await snapshotState(product, plan, snapshotId, signal, lake))
}

async function snapshotState(
  product: Product,
  plan: VariantPlan,
  snapshotId: string,
  signal: AbortSignal,
  lake: Lake,
): Promise<LakeState> {
  const ref = lakeTable(product.tenant, product.domain, product.name, plan.variant)
  const state = stateOfScan(await lake.scan(ref, { snapshotId }, signal))
  if (state) return state
  throw new SluiceError('INTERNAL', 'a snapshot of the product is missing in the lake', { code: 'snapshot_not_found' })
}

/** The columns that the target has today, where an epoch of another version had fewer or more. */
function inColumnsOf({ schema }: VariantPlan, state: LakeState): LakeState {
  const columns = schema.columns.map((column, index) => ({
    ...column,
    id: state.columns.find((own) => own.name === column.name)?.id ?? UNKNOWN_FIELD - index,
  }))
  return { ...state, columns, primaryKey: schema.primaryKey }
}
