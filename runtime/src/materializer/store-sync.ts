/** Brings one target of one store to the newest epoch, from wherever it is. */
import { mkdir, mkdtemp, rm } from 'node:fs/promises'
import { join } from 'node:path'
import {
  type ChangeSet,
  isSluiceError,
  type Receipt,
  type ServingPlugin,
  type ServingStore,
  type Target,
} from '@sluice/sdk'
import type { Engine, EngineLimits } from '../engine/engine.ts'
import type { FaultPoint } from '../fault-points.ts'
import { deltaChangeSet, fullChangeSet } from './change-set.ts'
import type { LakeState } from './lake-state.ts'

/** One epoch of the product as this target's variant has it. */
export interface EpochState {
  readonly epoch: number
  readonly committedAt: string
  readonly state: LakeState
}

export interface StoreSyncDeps {
  readonly engine: Engine
  readonly limits: EngineLimits
  readonly scratchDirectory: string
  readonly faultPoint: FaultPoint
}

export interface StoreSync {
  readonly plugin: ServingPlugin
  readonly store: ServingStore
  readonly target: Target
  readonly fence: bigint
  /** The epoch that the registry believes the store has, with content of the same shape; null: none. */
  readonly applied: number | null
  readonly policyVersion: string
  readonly signal: AbortSignal
  /** The epochs to walk, oldest first: `from` (where the lake has it), and what the store needs up to the newest. */
  epochs(from: number | null): Promise<readonly EpochState[]>
}

/**
 * Provisions the target, then writes. Stores with history get every epoch in order, since their rows are a fold over
 * epochs; others go straight to the newest. May be repeated after any failure.
 */
export async function syncStore(sync: StoreSync, deps: StoreSyncDeps): Promise<Receipt> {
  const isRebuilt = await makePlace(sync)
  await sync.store.rls.install(sync.target, { version: sync.policyVersion, tenantIsolation: 'forced' })
  const known = sync.store.recover ? ((await sync.store.recover(sync.target))?.epoch ?? null) : sync.applied
  const recovered = isRebuilt ? null : known
  const epochs = await sync.epochs(recovered)
  const start = epochs.findIndex((entry) => entry.epoch === recovered)
  const newest = epochs.at(-1) as EpochState
  if (start >= 0 && recovered === newest.epoch) {
    return { epoch: newest.epoch, outcome: 'already_applied', upserted: 0, deleted: 0 }
  }
  try {
    return await walk(start < 0 ? null : start, epochs, sync, deps)
  } catch (error) {
    if (start < 0 || !isSluiceError(error, 'CONFLICT')) throw error
    return walk(null, await sync.epochs(null), sync, deps)
  }
}

/**
 * Where the store cannot keep its rows under the new schema (a version with other columns, or a way back from one), its
 * copy is dropped and built anew: the lake has everything. Readers are told that it is not there yet meanwhile.
 */
async function makePlace({ store, target }: StoreSync): Promise<boolean> {
  try {
    await store.provision(target, 'apply')
    return false
  } catch (error) {
    if (!isSchemaConflict(error)) throw error
    await store.drop(target, 'apply')
    await store.provision(target, 'apply')
    return true
  }
}

export function isSchemaConflict(error: unknown): boolean {
  return isSluiceError(error, 'CONFLICT') && error.code === 'schema_conflict'
}

async function walk(
  start: number | null,
  epochs: readonly EpochState[],
  sync: StoreSync,
  deps: StoreSyncDeps,
): Promise<Receipt> {
  const path = stepsFrom(start, epochs, keepsHistory(sync))
  let receipt: Receipt | null = null
  for (const [before, after] of path) receipt = await writeStep(before, after, sync, deps)
  return receipt as Receipt
}

function stepsFrom(
  start: number | null,
  epochs: readonly EpochState[],
  everyEpoch: boolean,
): readonly (readonly [EpochState | null, EpochState])[] {
  const newest = epochs.at(-1) as EpochState
  const first = start === null ? null : (epochs[start] as EpochState)
  if (!everyEpoch) return [[first, newest]]
  const rest = start === null ? epochs : epochs.slice(start + 1)
  return rest.map((entry, index) => [index === 0 ? first : (rest[index - 1] as EpochState), entry])
}

function keepsHistory(sync: StoreSync): boolean {
  const mode = (sync.target.config as { readonly history_mode?: string }).history_mode ?? 'current'
  return mode !== 'current'
}

async function writeStep(
  before: EpochState | null,
  after: EpochState,
  sync: StoreSync,
  deps: StoreSyncDeps,
): Promise<Receipt> {
  await mkdir(deps.scratchDirectory, { recursive: true, mode: 0o700 })
  const directory = await mkdtemp(join(deps.scratchDirectory, 'changes-'))
  try {
    const changes = await changesFor(before, after, sync, { ...deps, directory, signal: sync.signal })
    await deps.faultPoint('materializer.before-store')
    const receipt = await sync.store.write(sync.target, changes, {
      epoch: after.epoch,
      previousEpoch: changes.mode === 'delta' ? (before?.epoch ?? null) : null,
      fence: sync.fence,
      committedAt: after.committedAt,
      signal: sync.signal,
    })
    await deps.faultPoint('materializer.after-store')
    return receipt
  } finally {
    await rm(directory, { recursive: true, force: true })
  }
}

async function changesFor(
  before: EpochState | null,
  after: EpochState,
  sync: StoreSync,
  options: Parameters<typeof deltaChangeSet>[2],
): Promise<ChangeSet> {
  const hasKey = after.state.primaryKey.length > 0
  const isCopy = sync.plugin.capabilities.commit !== 'lake'
  if (before && hasKey && isCopy && comparable(before.state, after.state)) {
    return deltaChangeSet(before.state, after.state, options)
  }
  return fullChangeSet(after.state, options)
}

/** A delta needs the same key under the same field ids; a column that came or went is no hindrance. */
export function comparable(before: LakeState, after: LakeState): boolean {
  const keyIds = (state: LakeState) =>
    state.primaryKey.map((name) => state.columns.find((column) => column.name === name)?.id).join(',')
  return keyIds(before) === keyIds(after)
}
