/** Brings one target of one store to the newest epoch, from wherever it is. */
import {
  isSluiceError,
  type Plan,
  type Receipt,
  type ServingPlugin,
  type ServingStore,
  SluiceError,
  type TableSchema,
  type Target,
} from '@sluice/sdk'
import type { FaultPoint } from '../fault-points.ts'
import { sharesHistory } from '../manifest/compatibility-columns.ts'
import { keepsHistory } from '../manifest/contract-config.ts'
import type { ChangeSets, WantedChanges } from './change-sets.ts'
import { type LakeState, sameFields } from './lake-state.ts'
import { dropIfThere } from './places.ts'

/** One epoch of the product as this target's variant has it. */
export interface EpochState {
  readonly epoch: number
  readonly committedAt: string
  /** In the columns and under the key that the target has today. */
  readonly state: LakeState
  /** As the epoch's own version had it. */
  readonly schema: TableSchema
}

export interface StoreSyncDeps {
  readonly faultPoint: FaultPoint
}

export interface StoreSync {
  readonly plugin: ServingPlugin
  readonly store: ServingStore
  /** In the place that is served, or is to be. */
  readonly target: Target
  /** Where rows are written that its place cannot take; null where there is no other place, or nothing of this one is read. */
  readonly beside: Beside | null
  readonly fence: bigint
  /** The epoch that the registry believes the store has, with content of the same shape; null: none. */
  readonly applied: number | null
  /** Whether the version that is to be brought there is another one than that of the epoch which the registry believes it has. */
  readonly isNewVersion: boolean
  /** Of the plan by which its place is to be made: what the deployment has shown. Null: whatever is needed. */
  readonly plannedHash: string | null
  /** Told where the store would do something else by now. */
  onPlannedAnew?(plan: Plan): void
  /** What the store says of its copy is not to be believed: it is dropped first. */
  readonly isToBeDropped: boolean
  /** Told when that is done. */
  onDropped?(): void
  readonly policyVersion: string
  readonly signal: AbortSignal
  /** Of the product's stores that are brought up to date together. */
  readonly changes: ChangeSets
  /** The product's newest epoch, at which the store is to arrive. */
  readonly newest: number
  /** When the product committed that epoch; null where it has none of that number. */
  committedAt(epoch: number): Promise<string | null>
  /** The variant at that epoch; null where the lake has not kept it. */
  at(epoch: number): Promise<EpochState | null>
  /** The epochs after that one of which the lake has kept the variant, oldest first. */
  after(epoch: number): AsyncIterable<EpochState>
}

/** The other place of a copy that is served meanwhile. */
export interface Beside {
  readonly target: Target
  /** Before the store is given anything there. */
  onBegun(): Promise<void>
}

/** What a store has taken. */
export interface SyncReceipt extends Receipt {
  /** In the other place, which is not served yet. */
  readonly isBeside: boolean
  /** Rows of the newest epoch that the endpoint cannot serve, and was not sent; null: it had that epoch already. */
  readonly leftOut: number | null
}

/**
 * Provisions the target, then writes: to the other place what this one cannot take. Stores with history get every epoch in
 * order, since their rows are a fold over epochs; others go straight to the newest. May be repeated after any failure.
 */
export async function syncStore(sync: StoreSync, deps: StoreSyncDeps): Promise<SyncReceipt> {
  if (sync.isToBeDropped) {
    await sync.store.drop(sync.target, 'apply')
    sync.onDropped?.()
  }
  const place = await makePlace(sync)
  if (place === 'in_the_way') return buildBeside(sync, deps)
  await installWall(sync)
  const recovered = place === 'rebuilt' ? null : await ownEpoch(sync)
  if (recovered === sync.newest) {
    return { epoch: recovered, outcome: 'already_applied', upserted: 0, deleted: 0, leftOut: null, isBeside: false }
  }
  const from = recovered === null ? null : await stateAt(recovered, sync)
  if (recovered !== null && from === null) return startOver(sync, deps)
  try {
    return await walk(from, sync, deps)
  } catch (error) {
    if (from === null || !(isSluiceError(error, 'CONFLICT') || isUnreadable(error, sync))) throw error
    return startOver(sync, deps)
  }
}

/** What is said of files of the lake that are gone or broken. */
const UNREADABLE: ReadonlySet<string> = new Set([
  'lake_file_corrupted',
  'object_missing',
  'object_truncated',
  'engine_io_failed',
])

/**
 * The difference from what the store has cannot be told without the files of then; the newest epoch may be whole. Not of
 * histories: those would lose what only the store has.
 */
function isUnreadable(error: unknown, sync: StoreSync): boolean {
  return isSluiceError(error) && UNREADABLE.has(error.code) && !keepsHistory(sync.plugin.type, sync.target.config)
}

/** Null where the lake has not kept it, or cannot read it any more. */
async function stateAt(epoch: number, sync: StoreSync): Promise<EpochState | null> {
  try {
    return await sync.at(epoch)
  } catch (error) {
    if (isUnreadable(error, sync)) return null
    throw error
  }
}

/**
 * The epoch that the store has. What a former product of the same name has left there goes: its epochs have the same
 * numbers, and none of them was committed when one of this product's was.
 */
async function ownEpoch(sync: StoreSync): Promise<number | null> {
  if (!sync.store.recover) return sync.applied
  const found = await sync.store.recover(sync.target)
  if (found === null) return null
  const committedAt = await sync.committedAt(found.epoch)
  if (committedAt !== null && Date.parse(committedAt) === Date.parse(found.committedAt)) return found.epoch
  await remake(sync)
  return null
}

/** From a full set. A fold goes anew through all that the lake has kept, so that its place must be empty. */
async function startOver(sync: StoreSync, deps: StoreSyncDeps): Promise<SyncReceipt> {
  if (!keepsHistory(sync.plugin.type, sync.target.config)) return walk(null, sync, deps)
  if (sync.beside !== null) return buildBeside(sync, deps)
  await remake(sync)
  return walk(null, sync, deps)
}

/** All of it in the other place, from nothing: what an attempt before may have left there goes first. */
async function buildBeside(sync: StoreSync, deps: StoreSyncDeps): Promise<SyncReceipt> {
  const { store, beside } = sync
  const { target, onBegun } = beside as Beside
  await onBegun()
  await dropIfThere(store, target)
  const there: StoreSync = { ...sync, target, beside: null }
  await store.provision(target, 'apply')
  await installWall(there)
  const receipt = await walk(null, there, deps)
  await deps.faultPoint('materializer.filled')
  return { ...receipt, isBeside: true }
}

async function remake(sync: StoreSync): Promise<void> {
  await sync.store.drop(sync.target, 'apply')
  await sync.store.provision(sync.target, 'apply')
  await installWall(sync)
}

function installWall({ store, target, policyVersion }: StoreSync): Promise<void> {
  return store.rls.install(target, { version: policyVersion, tenantIsolation: 'forced' })
}

/**
 * `in_the_way`: the store cannot keep its rows under the new schema (a version with other columns, or a way back from one), or
 * would forget them, and they are read meanwhile. Where nobody reads them, or there is no other place, they are dropped and
 * built anew: the lake has everything.
 */
async function makePlace(sync: StoreSync): Promise<'kept' | 'rebuilt' | 'in_the_way'> {
  const { store, target, plannedHash, beside } = sync
  try {
    if (beside !== null && sync.isNewVersion && (await replacesRows(sync))) return 'in_the_way'
    if (plannedHash === null) await store.provision(target, 'apply')
    else await provisionAsPlanned(plannedHash, sync)
    return 'kept'
  } catch (error) {
    if (!isSchemaConflict(error)) throw error
    if (beside !== null) return 'in_the_way'
    await store.drop(target, 'apply')
    await store.provision(target, 'apply')
    return 'rebuilt'
  }
}

/** Whether the store can take the new version in its place, but only without what is served there. */
async function replacesRows({ store, target }: StoreSync): Promise<boolean> {
  const { steps } = await store.provision(target, 'plan')
  return steps.some(({ action }) => action === 'replace')
}

const PLANS = 3

/**
 * Does what was planned and nothing else. Where the store's state is another by now, a new plan is made and told, and done
 * just so; no plan of a store loses rows, since the lake has them.
 */
async function provisionAsPlanned(hash: string, { store, target, onPlannedAnew }: StoreSync): Promise<void> {
  let planned = hash
  for (let plans = 1; ; plans += 1) {
    try {
      await store.provision(target, 'apply', planned)
      break
    } catch (error) {
      if (!isStale(error) || plans === PLANS) throw error
      const plan = await store.provision(target, 'plan')
      onPlannedAnew?.(plan)
      planned = plan.hash
    }
  }
  const { steps } = await store.provision(target, 'plan')
  if (steps.length === 0) return
  throw new SluiceError('CONFLICT', 'the store has not done what it had planned', {
    code: 'plan_stale',
    remedy: 'It is tried again. If it goes on, the store’s plugin is at fault: prove it with sluice-conformance.',
  })
}

/** By both names that stores give it. */
function isStale(error: unknown): boolean {
  return isSluiceError(error, 'CONFLICT') && (error.code === 'plan_stale' || error.code === 'stale_plan')
}

export function isSchemaConflict(error: unknown): boolean {
  return isSluiceError(error, 'CONFLICT') && error.code === 'schema_conflict'
}

async function walk(from: EpochState | null, sync: StoreSync, deps: StoreSyncDeps): Promise<SyncReceipt> {
  const isFold = keepsHistory(sync.plugin.type, sync.target.config)
  const steps = isFold ? sync.after(from?.epoch ?? 0) : newestOf(sync)
  let before = from
  let receipt: SyncReceipt | null = null
  for await (const after of steps) {
    if (isFold && after.epoch < sync.newest && !sharesHistory(after.schema, sync.target.schema)) {
      // The rows of then cannot be told by today's key and types: the history begins after them.
      if (before !== null && sync.beside !== null) return buildBeside(sync, deps)
      if (before !== null) await remake(sync)
      before = null
      continue
    }
    receipt = await writeStep(before, after, sync, deps)
    before = after
  }
  if (receipt !== null && receipt.epoch >= sync.newest) return receipt
  throw new SluiceError('INTERNAL', 'the newest epoch of the product is missing in the lake', {
    code: 'snapshot_not_found',
  })
}

async function* newestOf(sync: StoreSync): AsyncGenerator<EpochState> {
  const newest = await sync.at(sync.newest)
  if (newest !== null) yield newest
}

async function writeStep(
  before: EpochState | null,
  after: EpochState,
  sync: StoreSync,
  deps: StoreSyncDeps,
): Promise<SyncReceipt> {
  const { changes, leftOut, close } = await sync.changes.open(wantedChanges(before, after, sync), sync.signal)
  try {
    await deps.faultPoint('materializer.before-store')
    const receipt = await sync.store.write(sync.target, changes, {
      epoch: after.epoch,
      previousEpoch: changes.mode === 'delta' ? (before?.epoch ?? null) : null,
      fence: sync.fence,
      committedAt: after.committedAt,
      signal: sync.signal,
    })
    await deps.faultPoint('materializer.after-store')
    return { ...receipt, leftOut, isBeside: false }
  } finally {
    await close()
  }
}

function wantedChanges(before: EpochState | null, after: EpochState, sync: StoreSync): WantedChanges {
  const hasKey = after.state.primaryKey.length > 0
  const isCopy = sync.plugin.capabilities.commit !== 'lake'
  // A full set would end a history, which goes on by the values where its columns have become others.
  const compare = keepsHistory(sync.plugin.type, sync.target.config) ? sameKey : comparable
  const isDelta = before !== null && hasKey && isCopy && compare(before.state, after.state)
  return {
    before: isDelta ? before.state : null,
    after: after.state,
    having: sync.plugin.type === 'timeseries' ? neededColumn(sync.target, after.state) : null,
    isShared: after.epoch === sync.newest,
  }
}

/** By whose value the endpoint finds its rows: one without it could not be served, and would hold up all others. */
function neededColumn({ config }: Target, { columns }: LakeState): string | null {
  const name = (config as { readonly time_column?: string }).time_column
  return columns.some((column) => column.name === name && column.nullable) ? (name as string) : null
}

/** A delta needs the same columns under the same field ids; one that came or went is no hindrance. */
export function comparable(before: LakeState, after: LakeState): boolean {
  return sameKey(before, after) && sameFields(before, after)
}

function sameKey(before: LakeState, after: LakeState): boolean {
  const keyIds = (state: LakeState) =>
    state.primaryKey.map((name) => state.columns.find((column) => column.name === name)?.id).join(',')
  return keyIds(before) === keyIds(after)
}
