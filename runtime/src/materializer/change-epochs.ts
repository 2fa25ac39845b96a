/** Which epochs a topic of changed rows lacks, and what changed in each. */
import { mkdir, mkdtemp, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { type ChangeSet, isSluiceError } from '@sluice/sdk'
import { epochsFrom, latestEpoch, type Materialization } from '../registry/materializations.ts'
import type { Product } from '../registry/products.ts'
import { type PlannedTopic, showsTooMuch } from './change-plan.ts'
import { type ChangeSetOptions, deltaChangeSet, fullChangeSet, type OpenChangeSet } from './change-set.ts'
import type { MaterializeDeps } from './deps.ts'
import type { LakeState } from './lake-state.ts'
import { comparable } from './store-sync.ts'
import { variantState } from './targets.ts'
import type { VariantPlan } from './variants.ts'

/** What a topic lacks for one epoch. */
export interface EpochChanges {
  readonly epoch: Materialization
  readonly changes: ChangeSet
}

export type ChangeDeps = Pick<MaterializeDeps, 'pool' | 'lake' | 'engine' | 'limits' | 'scratchDirectory'>

const EPOCHS_AT_ONCE = 100

/** The lake has not kept what was sent last: the topic has to begin anew. */
export class ChangesLost extends Error {}

/**
 * Epochs after `sent`, oldest first, each with what it changed; where nothing was sent, the newest with all its rows.
 * At most 100 a call. Each change set is to be used before the next one is asked for. Throws ChangesLost.
 */
export async function* changesSince(
  product: Product,
  topic: Pick<PlannedTopic, 'variant' | 'plan'>,
  sent: number | null,
  signal: AbortSignal,
  deps: ChangeDeps,
): AsyncGenerator<EpochChanges> {
  const { plan } = topic
  if (sent === null) {
    const newest = await latestEpoch(deps.pool, product.id)
    if (newest === null || !maySend(newest, topic)) return
    const state = await stateAt(product, plan, newest, signal, deps)
    if (state !== null) yield* inFolder(newest, (options) => fullChangeSet(state, options), signal, deps)
    return
  }
  const [last, ...missing] = await epochsFrom(deps.pool, product.id, sent, EPOCHS_AT_ONCE)
  let before = last?.epoch === sent ? await stateAt(product, plan, last, signal, deps) : null
  for (const epoch of missing) {
    if (before === null) throw new ChangesLost()
    if (!maySend(epoch, topic)) continue
    const [from, to] = [before, await stateAt(product, plan, epoch, signal, deps)]
    // Retention may have taken it, as long as nobody had to begin there: the next one holds its changes too.
    if (to === null) continue
    if (!comparable(from, to)) throw new ChangesLost()
    yield* inFolder(epoch, (options) => deltaChangeSet(from, to, options), signal, deps)
    before = to
  }
}

function maySend(epoch: Materialization, topic: Pick<PlannedTopic, 'variant' | 'plan'>): boolean {
  return epoch.snapshots[topic.plan.variant] !== undefined && !showsTooMuch(epoch, topic)
}

async function stateAt(
  product: Product,
  plan: VariantPlan,
  { snapshots }: Materialization,
  signal: AbortSignal,
  { lake }: ChangeDeps,
): Promise<LakeState | null> {
  const snapshotId = snapshots[plan.variant]
  if (snapshotId === undefined) return null
  try {
    return await variantState(product, plan, snapshotId, signal, lake)
  } catch (error) {
    if (isSluiceError(error) && GONE.includes(error.code)) return null
    throw error
  }
}

const GONE: readonly string[] = ['snapshot_not_found', 'snapshot_expired']

async function* inFolder(
  epoch: Materialization,
  compute: (options: ChangeSetOptions) => OpenChangeSet | Promise<OpenChangeSet>,
  signal: AbortSignal,
  { engine, limits, scratchDirectory }: ChangeDeps,
): AsyncGenerator<EpochChanges> {
  await mkdir(scratchDirectory, { recursive: true, mode: 0o700 })
  const directory = await mkdtemp(join(scratchDirectory, 'sent-'))
  try {
    const opened = await compute({ engine, limits, directory, signal })
    try {
      yield { epoch, changes: opened.changes }
    } finally {
      await opened.close()
    }
  } finally {
    await rm(directory, { recursive: true, force: true })
  }
}
