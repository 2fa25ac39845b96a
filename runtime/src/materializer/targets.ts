/** What a store is told of one variant at one endpoint: the target, and the rows that each epoch has. */

import type { Lake } from '@sluice/iceberg'
import { isSluiceError, openTenantScope, SluiceError, type Target } from '@sluice/sdk'
import type pg from 'pg'
import type { ManifestSet } from '../manifest/manifest-set.ts'
import type { Place } from '../registry/endpoint-states.ts'
import { epochsFrom, findEpoch, type Materialization } from '../registry/materializations.ts'
import type { Product } from '../registry/products.ts'
import { findVersion } from '../registry/versions.ts'
import { type LakeState, stateOfScan, stateSchema, UNKNOWN_FIELD } from './lake-state.ts'
import { nameInStore } from './places.ts'
import type { EpochState, StoreSync } from './store-sync.ts'
import { configFor, lakeTable, type VariantPlan } from './variants.ts'

export interface TargetDeps {
  readonly pool: pg.Pool
  readonly lake: Lake
}

/** What every hook of a store is about, for one variant at one endpoint, in one of its places. */
export function targetFor(
  product: Pick<Product, 'tenant' | 'domain' | 'name'>,
  plan: VariantPlan,
  config: Readonly<Record<string, unknown>>,
  place: Place,
): Target {
  return {
    scope: openTenantScope(product.tenant),
    domain: product.domain,
    product: product.name,
    variant: nameInStore(plan.variant, place),
    schema: plan.schema,
    config: configFor(config, plan),
  }
}

/** What the registry has of a product's epochs and versions, asked for once by all that one piece of work does with them. */
export interface ProductPast {
  /** Null where the product has none of that number. */
  epoch(epoch: number): Promise<Materialization | null>
  /** The identity that the version gave its rows; null where there is no such version. */
  keyOf(version: string): Promise<readonly string[] | null>
}

/** @param known the newest epoch and the version that made it, where they were read already */
export function pastOf(
  product: Pick<Product, 'id'>,
  { pool }: Pick<TargetDeps, 'pool'>,
  known?: { readonly newest: Materialization; readonly manifests: ManifestSet },
): ProductPast {
  const epochs = new Map<number, Promise<Materialization | null>>()
  const keys = new Map<string, Promise<readonly string[] | null>>()
  if (known !== undefined) {
    epochs.set(known.newest.epoch as number, Promise.resolve(known.newest))
    keys.set(known.newest.version, Promise.resolve(known.manifests.output.primaryKey))
  }
  return {
    epoch: (epoch) => once(epochs, epoch, () => findEpoch(pool, product.id, epoch)),
    keyOf: (version) =>
      once(keys, version, async () => {
        const kept = await findVersion<ManifestSet>(pool, product.id, version)
        return kept?.normalised.output.primaryKey ?? null
      }),
  }
}

/** What could not be read is asked for again by the next one. */
function once<Key, Found>(known: Map<Key, Promise<Found>>, key: Key, find: () => Promise<Found>): Promise<Found> {
  const before = known.get(key)
  if (before !== undefined) return before
  const finding = find()
  known.set(key, finding)
  finding.catch(() => known.delete(key))
  return finding
}

/** The variant at its epochs, as what brings a store up to date asks for it. */
export function epochsOf(
  product: Product,
  plan: VariantPlan,
  signal: AbortSignal,
  deps: TargetDeps,
  past: ProductPast = pastOf(product, deps),
): Pick<StoreSync, 'committedAt' | 'at' | 'after'> {
  return {
    async committedAt(epoch) {
      const found = await past.epoch(epoch)
      return found && instantOf(found)
    },
    async at(epoch) {
      const found = await past.epoch(epoch)
      return found && epochState(product, plan, found, past, signal, deps)
    },
    after: (epoch) => epochStates(product, plan, epoch, past, signal, deps),
  }
}

const EPOCHS_AT_ONCE = 1_000

/** The variant at each epoch after that one, oldest first, without those that the lake has not kept. */
async function* epochStates(
  product: Product,
  plan: VariantPlan,
  after: number,
  past: ProductPast,
  signal: AbortSignal,
  deps: TargetDeps,
): AsyncGenerator<EpochState> {
  let last = after
  for (;;) {
    const page = await epochsFrom(deps.pool, product.id, last + 1, EPOCHS_AT_ONCE)
    for (const epoch of page) {
      const state = await epochState(product, plan, epoch, past, signal, deps)
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
  past: ProductPast,
  signal: AbortSignal,
  deps: TargetDeps,
): Promise<EpochState | null> {
  const snapshotId = materialization.snapshots[plan.variant]
  if (snapshotId === undefined) return null
  try {
    const kept = await snapshotState(product, plan, snapshotId, signal, deps.lake)
    const primaryKey = (await past.keyOf(materialization.version)) ?? kept.primaryKey
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
