/**
 * The change sets of a product's stores that are brought up to date together. Stores that lack the same of the same
 * variant are sent one set, which is computed once. Small ones are all computed and read by one process.
 */
import { mkdir, mkdtemp, rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { Engine, EngineLimits, EngineSession } from '@sluice/engine'
import type { ChangeSet } from '@sluice/sdk'
import { countWithout, deltaChangeSet, fullChangeSet, type OpenChangeSet, stateHaving } from './change-set.ts'
import { type LakeState, stateTable } from './lake-state.ts'

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

/** Of both states together. Larger ones are computed side by side, each by a process of its own. */
const FEW_ROWS = 1_000_000

export class ChangeSets {
  readonly #deps: ChangeSetsDeps
  readonly #likely: () => Promise<readonly LakeState[]>
  readonly #shared = new Map<string, Promise<StoreChanges>>()
  #folder: Promise<string> | null = null
  #common: Promise<CommonProcess | null> | null = null

  /** @param likely states that stores of the product have, or are to have: one process may open all of them */
  constructor(deps: ChangeSetsDeps, likely: () => Promise<readonly LakeState[]> = async () => []) {
    this.#deps = deps
    this.#likely = likely
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
    await (await this.#common)?.session.close()
    // Whoever wanted a folder that could not be made has been told.
    const folder = await this.#folder?.catch(() => null)
    if (folder) await rm(folder, { recursive: true, force: true })
  }

  async #compute(wanted: WantedChanges, signal: AbortSignal): Promise<StoreChanges> {
    const { engine, limits } = this.#deps
    this.#folder ??= this.#makeFolder()
    const directory = await mkdtemp(join(await this.#folder, 'set-'))
    const discard = () => rm(directory, { recursive: true, force: true })
    try {
      const lend = () => this.#sessionFor(wanted, signal)
      const { changes, close, leftOut } = await computed(wanted, { engine, limits, directory, signal, lend })
      return { changes, leftOut, close: () => close().finally(discard) }
    } catch (error) {
      await discard()
      throw error
    }
  }

  async #makeFolder(): Promise<string> {
    const { scratchDirectory } = this.#deps
    await mkdir(scratchDirectory, { recursive: true, mode: 0o700 })
    return mkdtemp(join(scratchDirectory, 'changes-'))
  }

  /** Null where the states are large, or others than the likely ones. */
  async #sessionFor({ before, after, isShared }: WantedChanges, signal: AbortSignal): Promise<EngineSession | null> {
    if (!isShared || after.rowCount + (before?.rowCount ?? 0) > FEW_ROWS) return null
    this.#common ??= this.#openCommon(signal)
    const common = await this.#common
    const files = [before, after].flatMap((state) => (state === null ? [] : filesOf(state)))
    return common !== null && files.every((file) => common.files.has(file)) ? common.session : null
  }

  async #openCommon(signal: AbortSignal): Promise<CommonProcess | null> {
    const { engine, limits } = this.#deps
    try {
      const states = await this.#likely()
      if (states.length === 0) return null
      const tables = states.map((state, at) => stateTable(`likely_${at}`, state))
      const job = { trust: 'own', tables, writeDirs: [await (this.#folder as Promise<string>)], limits } as const
      return { session: await engine.open(job, signal), files: new Set(states.flatMap(filesOf)) }
    } catch {
      // A store whose own state is lost meets that itself; the others are not to fail for it.
      return null
    }
  }
}

interface CommonProcess {
  readonly session: EngineSession
  readonly files: ReadonlySet<string>
}

function filesOf({ files, deletes }: LakeState): readonly string[] {
  return [...files, ...(deletes?.deletes ?? [])]
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
