/** Brings every store of a product up to date, each by itself; one that fails leaves the others served. */
import { isSluiceError, type Logger } from '@sluice/sdk'
import type pg from 'pg'
import { backOffMs } from '../jobs/back-off.ts'
import { tenantScratch } from '../lake/tenant-layout.ts'
import type { ManifestSet } from '../manifest/manifest-set.ts'
import type { PluginSet } from '../plugins/plugin-set.ts'
import { plannedStores, type RecordedError, recordedError } from '../registry/deployments.ts'
import {
  type EndpointState,
  endpointApplied,
  endpointFailed,
  endpointOutlived,
  endpointStates,
  endpointsPending,
  forgetEndpoint,
  isToBeDropped,
  isUnreadable,
  leftoverExpected,
  lostCopy,
} from '../registry/endpoint-states.ts'
import { fenced, isNewestWriter, passTokens, raiseFence, whileNewestWriter } from '../registry/fences.ts'
import { latestEpoch, type Materialization } from '../registry/materializations.ts'
import { type Product, updateProduct } from '../registry/products.ts'
import { ChangeSets, type ChangeSetsDeps } from './change-sets.ts'
import { type Deployed, type DeployedDeps, deployedVersion } from './deployed.ts'
import { clearOther, serveFromOther } from './other-place.ts'
import { hasPlaces, otherPlace } from './places.ts'
import { ifProductIsFree } from './product-lock.ts'
import { dropCopy } from './store-copies.ts'
import { storeMissing } from './store-missing.ts'
import { lossIn, reviewBeside } from './store-review.ts'
import { type StoreSync, type StoreSyncDeps, type SyncReceipt, syncStore } from './store-sync.ts'
import { epochsOf, pastOf, type TargetDeps, targetFor } from './targets.ts'
import { servesVariant, type VariantPlan } from './variants.ts'

export interface SyncEndpointsDeps extends StoreSyncDeps, ChangeSetsDeps, DeployedDeps, TargetDeps {
  readonly plugins: PluginSet
  readonly logger: Logger
}

/** Tries stores again that are behind; after a failure or a start. False where a run has the product, and does it. */
export async function catchUp(product: Product, signal: AbortSignal, deps: SyncEndpointsDeps): Promise<boolean> {
  return (await ifProductIsFree(deps.pool, product.id, () => syncEndpoints(product, signal, deps))) !== null
}

/** Every store of the version has the new epoch to come. */
export async function expectStores(tx: pg.PoolClient, product: Product, deployed: Deployed): Promise<void> {
  const { serving, output } = deployed.manifests
  const copies = serving.endpoints.flatMap(({ type, config }) =>
    deployed.variants
      .filter((plan) => servesVariant(type, config, plan, output))
      .map(({ variant }) => ({ endpoint: type, variant })),
  )
  await endpointsPending(tx, product.id, copies)
}

/** What a store answers whose tables are not those that it has written down, although it was provisioned right before. */
const isDamage = (error: unknown) => lossIn(error) === 'unreadable'

const BACK_OFF = { firstMs: 2_000, lastMs: 300_000 } as const

/** An endpoint while its store is brought to the newest epoch, and after. */
export interface StoreOutcome {
  readonly endpoint: string
  readonly state: 'writing' | 'ok' | 'failed'
  /** What all its readers are served; null: nothing. */
  readonly epoch: number | null
  readonly error: RecordedError | null
}

/**
 * Brings every endpoint of the version in service to the newest epoch, in parallel; says what became of each. `report` is
 * told of all of them at the beginning, and whenever one is done. `made`: an epoch that the caller has published or found.
 */
export async function syncEndpoints(
  product: Product,
  signal: AbortSignal,
  deps: SyncEndpointsDeps,
  report: (stores: readonly StoreOutcome[]) => void = () => undefined,
  made: Materialization | null = null,
): Promise<readonly StoreOutcome[]> {
  const newest = made ?? (await latestEpoch(deps.pool, product.id))
  if (newest === null) return []
  const deployed = await deployedVersion(product, newest.version, deps)
  const { token, epoch } = await raiseFence(deps.pool, product.id)
  // Others have published since: what they have is the newest.
  if (made !== null && epoch !== made.epoch) return syncEndpoints(product, signal, deps, report)
  return whileNewestWriter(deps.pool, product.id, token, signal, (held) =>
    syncCopies(product, { newest, deployed, token }, held, deps, report),
  )
}

/** A copy that the version in service has. */
interface Wanted {
  readonly endpoint: ManifestSet['serving']['endpoints'][number]
  readonly plan: VariantPlan
  /** Null of one that is new. */
  readonly known: EndpointState | null
}

/**
 * Of each endpoint the places in `wanted`: first of copies that it is to have and has none of, then of those that are read.
 * Whose rows are masked from the new version on is sent to such a copy as soon as the one in clear is of that version.
 */
function inTurns(wanted: readonly Wanted[]): readonly (readonly [first: readonly number[], then: readonly number[]])[] {
  const own = Map.groupBy(wanted.keys(), (index) => (wanted[index] as Wanted).endpoint.type)
  const isRead = (index: number) => (wanted[index]?.known?.appliedEpoch ?? null) !== null
  return [...own.values()].map((all) => [all.filter((index) => !isRead(index)), all.filter(isRead)] as const)
}

interface ToServe {
  readonly newest: Materialization
  readonly deployed: Deployed
  /** Of the fence. */
  readonly token: bigint
}

async function syncCopies(
  product: Product,
  { newest, deployed, token }: ToServe,
  signal: AbortSignal,
  deps: SyncEndpointsDeps,
  report: (stores: readonly StoreOutcome[]) => void,
): Promise<readonly StoreOutcome[]> {
  const states = await endpointStates(deps.pool, product.id)
  const wanted: readonly Wanted[] = deployed.manifests.serving.endpoints.flatMap((endpoint) =>
    deployed.variants
      .filter((plan) => newest.snapshots[plan.variant] !== undefined)
      .filter((plan) => servesVariant(endpoint.type, endpoint.config, plan, deployed.manifests.output))
      .map((plan) => ({
        endpoint,
        plan,
        known: states.find((state) => state.endpoint === endpoint.type && state.variant === plan.variant) ?? null,
      })),
  )
  const gone = states.filter(
    ({ endpoint, variant }) => !wanted.some((one) => one.endpoint.type === endpoint && one.plan.variant === variant),
  )
  const isServedStill = ({ endpoint }: EndpointState) => wanted.some((one) => one.endpoint.type === endpoint)
  for (const state of gone) {
    if (isServedStill(state)) await endpointOutlived(deps.pool, state, backOffMs(state.attempts, BACK_OFF))
    else await leaveEndpoint(product, state, deps)
  }
  const copies: StoreOutcome[] = wanted.map(({ endpoint, known }) => {
    return { endpoint: endpoint.type, state: 'writing', epoch: known?.appliedEpoch ?? null, error: null }
  })
  const settle = (index: number, change: Partial<StoreOutcome>): void => {
    copies[index] = { ...(copies[index] as StoreOutcome), ...change }
    report(byEndpoint(copies))
  }
  report(byEndpoint(copies))
  // What was deployed is held to its plan once, when its first epoch comes.
  const isNew = wanted.some(({ known }) => known?.appliedVersion !== newest.version)
  const planned = isNew ? await plannedStores(deps.pool, product.id, newest.version) : []
  const plannedHash = (endpoint: string, variant: string, known: EndpointState | null) =>
    known?.appliedVersion === newest.version
      ? null
      : (planned.find((one) => one.endpoint === endpoint && one.variant === variant)?.hash ?? null)
  const past = pastOf(product, deps, { newest, manifests: deployed.manifests })
  const epochs = new Map(
    deployed.variants.map((plan) => [plan.variant, keptInMind(epochsOf(product, plan, signal, deps, past))]),
  )
  const likely = async () => {
    const found = await Promise.all(
      wanted.flatMap(({ plan, known }) => {
        const at = [newest.epoch, known?.appliedEpoch ?? null].filter((epoch) => epoch !== null)
        return at.map((epoch) => epochs.get(plan.variant)?.at(epoch))
      }),
    )
    return [...new Set(found.flatMap((epoch) => (epoch ? [epoch.state] : [])))]
  }
  const scratchDirectory = tenantScratch(deps.scratchDirectory, product.tenant)
  const changes = new ChangeSets({ ...deps, scratchDirectory }, likely)
  const bring = async ({ endpoint, plan, known }: Wanted, index: number): Promise<void> => {
    const key = { productId: product.id, endpoint: endpoint.type, variant: plan.variant }
    // Until the store has dropped it, whatever else fails: it would say that it has the newest epoch.
    let remaining = isToBeDropped(known?.error ?? null) ? (known as EndpointState).error : null
    let isBegun = false
    const attempt = () =>
      syncEndpoint(
        product,
        endpoint,
        plan,
        known,
        newest,
        token,
        epochs.get(plan.variant) as Epochs,
        changes,
        signal,
        {
          isNewVersion: known?.appliedVersion !== newest.version,
          plannedHash: plannedHash(endpoint.type, plan.variant, known),
          onPlannedAnew: ({ steps }) => tellPlannedAnew(product, endpoint.type, steps.length, deps),
          onDropped() {
            remaining = null
          },
          onBesideBegun() {
            isBegun = true
          },
        },
        deps,
      )
    try {
      const taken = await attempt().catch((error: unknown) => {
        // A place is damaged that is so again right after it was provisioned anew.
        if (signal.aborted || !isDamage(error)) throw error
        return attempt()
      })
      if (taken.isBeside)
        await serveFromOther(known as EndpointState, { ...newest, rowsLeftOut: taken.leftOut }, token, deps)
      else await endpointApplied(deps.pool, key, newest.epoch as number, taken.leftOut, known?.place)
      settle(index, { state: 'ok', epoch: newest.epoch })
    } catch (error) {
      // Whoever has overtaken this writer may have emptied the other place before this one wrote there.
      if (isBegun) await leftoverExpected(deps.pool, known as EndpointState)
      signal.throwIfAborted()
      // The store has seen a newer token than there is: the next attempt has one above.
      if (isSluiceError(error, 'FENCED')) await passTokens(deps.pool, product.id, token)
      // Not of the shape that the store itself has written down: this copy cannot be believed.
      const isDamaged = isDamage(error)
      const recorded = isDamaged ? lostCopy('unreadable') : (remaining ?? recordedError(error))
      settle(index, { state: 'failed', error: recorded, ...(isDamaged ? { epoch: null } : {}) })
      // Whoever removes the product drops its copies from its stores, and is no damage of theirs.
      if (isDamaged && !(await isNewestWriter(deps.pool, product.id, token))) return
      await endpointFailed(deps.pool, key, recorded, backOffMs(known?.attempts ?? 0, BACK_OFF))
      // Once: what dropping has not mended is this copy's own trouble.
      if (isDamaged && !isUnreadable(known?.error ?? null)) await reviewBeside(key, deps, signal)
      deps.logger.warn('a store could not be brought up to date', {
        tenant: product.tenant,
        product: product.id,
        endpoint: endpoint.type,
        code: recordedError(error).code,
        cause:
          error instanceof Error ? (error.cause instanceof Error ? error.cause.message : error.message) : undefined,
      })
    }
  }
  try {
    await Promise.all(
      inTurns(wanted).map(async ([first, then]) => {
        await Promise.all(first.map((index) => bring(wanted[index] as Wanted, index)))
        await Promise.all(then.map((index) => bring(wanted[index] as Wanted, index)))
      }),
    )
  } finally {
    await changes.close()
  }
  // Whoever reads one of those is sent to another one as soon as that has come, and not before.
  for (const state of gone.filter(isServedStill)) {
    const isFollowed = copies.every(({ endpoint, state: is }) => endpoint !== state.endpoint || is === 'ok')
    if (isFollowed) await leaveEndpoint(product, state, deps)
  }
  const isBehind = copies.some(({ state }) => state === 'failed')
  await updateProduct(deps.pool, product.tenant, product.id, { status: isBehind ? 'degraded' : 'deployed' })
  return byEndpoint(copies)
}

/** Of an endpoint's variants the one that is worst off speaks for all. */
function byEndpoint(copies: readonly StoreOutcome[]): readonly StoreOutcome[] {
  const worst = ['failed', 'writing', 'ok']
  return [...Map.groupBy(copies, ({ endpoint }) => endpoint).values()].map((own) => {
    const [first] = own.toSorted((a, b) => worst.indexOf(a.state) - worst.indexOf(b.state)) as [StoreOutcome]
    const epochs = own.map(({ epoch }) => epoch ?? 0)
    return { ...first, epoch: Math.min(...epochs) || null }
  })
}

/** What the product has no more at an endpoint; it is kept in mind until the store has dropped it. */
async function leaveEndpoint(product: Product, state: EndpointState, deps: SyncEndpointsDeps): Promise<void> {
  try {
    await dropCopy(product, state, deps)
    await forgetEndpoint(deps.pool, state)
  } catch (error) {
    await endpointFailed(deps.pool, state, recordedError(error), backOffMs(state.attempts, BACK_OFF))
    deps.logger.warn('a store could not drop what it has no more to serve', {
      tenant: product.tenant,
      product: product.id,
      endpoint: state.endpoint,
      code: recordedError(error).code,
    })
  }
}

async function syncEndpoint(
  product: Product,
  endpoint: ManifestSet['serving']['endpoints'][number],
  plan: VariantPlan,
  known: EndpointState | null,
  newest: Materialization,
  fence: bigint,
  epochs: Epochs,
  changes: ChangeSets,
  signal: AbortSignal,
  {
    onBesideBegun,
    ...made
  }: Pick<StoreSync, 'isNewVersion' | 'plannedHash' | 'onPlannedAnew' | 'onDropped'> & {
    onBesideBegun(): void
  },
  deps: SyncEndpointsDeps,
): Promise<SyncReceipt> {
  const serving = deps.plugins.serving(endpoint.type)
  if (!serving) throw storeMissing([endpoint.type])
  const { plugin, store } = serving
  const place = known?.place ?? 'first'
  const applied = known?.appliedEpoch ?? null
  const other = hasPlaces(plugin) ? targetFor(product, plan, endpoint.config, otherPlace(place)) : null
  // Of a copy that is made from nothing the registry may know less than the store: it may have been put back.
  if (applied === null || known?.leftover) await clearOther(store, other, known, deps)
  const onBegun = async () => {
    if (!(await leftoverExpected(deps.pool, known as EndpointState))) throw fenced()
    onBesideBegun()
  }
  return syncStore(
    {
      ...{ plugin, store, target: targetFor(product, plan, endpoint.config, place) },
      beside: other === null || applied === null ? null : { target: other, onBegun },
      fence,
      applied,
      isToBeDropped: isToBeDropped(known?.error ?? null),
      ...made,
      policyVersion: newest.digest,
      signal,
      changes,
      newest: newest.epoch as number,
      ...epochs,
    },
    deps,
  )
}

function tellPlannedAnew(
  { tenant, id: product }: Product,
  endpoint: string,
  steps: number,
  { logger }: SyncEndpointsDeps,
) {
  const message = 'a store was changed since the deployment was planned; it was planned anew'
  logger.warn(message, { tenant, product, endpoint, steps })
}

type Epochs = ReturnType<typeof epochsOf>

/** Asks for each epoch once, for all endpoints of the variant. */
function keptInMind({ at, ...others }: Epochs): Epochs {
  const known = new Map<number, ReturnType<Epochs['at']>>()
  return {
    ...others,
    at(epoch) {
      const found = known.get(epoch) ?? at(epoch)
      known.set(epoch, found)
      return found
    },
  }
}
