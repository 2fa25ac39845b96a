/**
 * The change sets of a product's stores that are brought up to date together. Stores that lack the same of the same
 * variant are sent one set, which is computed once and read by one process.
 */
import { mkdir, mkdtemp, rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { Engine, EngineLimits } from '@sluice/engine'
import type { ChangeSet } from '@sluice/sdk'
import { countWithout, deltaChangeSet, fullChangeSet, type OpenChangeSet, stateHaving } from './change-set.ts'
import type { LakeState } from './lake-state.ts'

export interface ChangeSetsDeps {
  readonly engine: Engine
  readonly limits: EngineLimits
  readonly scratchDirectory: string
}

export interface WantedChanges {
  /** What the store has; null: it is sent all rows. */
  readonly before: LakeState | null
  readonly after: LakeState
  /** Rows without a value in that column are not sent; null: all are. */
  readonly having: string | null
  /** Kept until `close`, for the other stores. */
  readonly isShared: boolean
}

export interface StoreChanges {
  readonly changes: ChangeSet
  /** Rows of `after` that are not sent, for want of a value. */
  readonly leftOut: number
  /** To be called when the store has taken them. */
  close(): Promise<void>
}

export class ChangeSets {
  readonly #deps: ChangeSetsDeps
  readonly #shared = new Map<string, Promise<StoreChanges>>()

  constructor(deps: ChangeSetsDeps) {
    this.#deps = deps
  }

  async open(wanted: WantedChanges, signal: AbortSignal): Promise<StoreChanges> {
    if (!wanted.isShared) return this.#compute(wanted, signal)
    const key = keyOf(wanted)
    const computing = this.#shared.get(key) ?? this.#compute(wanted, signal)
    this.#shared.set(key, computing)
    return { ...(await computing), close: async () => undefined }
  }

  /** When no store reads any more. */
  async close(): Promise<void> {
    const computed = await Promise.allSettled(this.#shared.values())
    this.#shared.clear()
    await Promise.all(computed.map((one) => (one.status === 'fulfilled' ? one.value.close() : undefined)))
  }

  async #compute(wanted: WantedChanges, signal: AbortSignal): Promise<StoreChanges> {
    const { engine, limits, scratchDirectory } = this.#deps
    await mkdir(scratchDirectory, { recursive: true, mode: 0o700 })
    const directory = await mkdtemp(join(scratchDirectory, 'changes-'))
    const discard = () => rm(directory, { recursive: true, force: true })
    try {
      const { changes, close, leftOut } = await computed(wanted, { engine, limits, directory, signal })
      return { changes, leftOut, close: () => close().finally(discard) }
    } catch (error) {
      await discard()
      throw error
    }
  }
}

async function computed(
  { before, after, having }: WantedChanges,
  options: Parameters<typeof deltaChangeSet>[2],
): Promise<OpenChangeSet & { readonly leftOut: number }> {
  const leftOut = having === null ? 0 : await countWithout(having, after, options)
  if (before !== null) return { ...(await deltaChangeSet(before, after, options, having)), leftOut }
  const state = having === null || leftOut === 0 ? after : await stateHaving(having, after, options)
  return { ...fullChangeSet(state, options), leftOut }
}

/** Snapshots alone do not say it: the columns are those that the target has today. */
function keyOf({ before, after, having }: WantedChanges): string {
  const told = (state: LakeState) => [state.snapshotId, state.columns, state.primaryKey, state.files]
  return JSON.stringify([before && told(before), told(after), having])
}
