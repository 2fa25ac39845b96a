/**
 * Whether the copy of a variant in a store still equals the lake's rows. Of a copy that was seen to, its digest tells; of
 * another one the rows are read. Nothing is locked: what was found counts only where nobody has written the copy meanwhile.
 */
import { createHash } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { Engine, EngineLimits } from '@sluice/engine'
import {
  batchFromRows,
  type ColumnBatch,
  type Digest,
  type Logger,
  rowsOf,
  type ServingStore,
  SluiceError,
  ttlMs,
} from '@sluice/sdk'
import { contractConfig, keepsHistory } from '../manifest/contract-config.ts'
import type { PluginSet } from '../plugins/plugin-set.ts'
import type { CopyLoss } from '../registry/endpoint-states.ts'
import { findProduct } from '../registry/products.ts'
import { type ComparedCopy, comparisonOf, type Drift, type KnownCopy } from '../registry/store-comparisons.ts'
import { fullChangeSet } from './change-set.ts'
import { accessTo, type CopyAccess, type CopyPlace, compareRows, type Pace, readOne } from './copy-rows.ts'
import { type DeployedDeps, deployedVersion } from './deployed.ts'
import type { LakeState } from './lake-state.ts'
import { lossBy } from './store-review.ts'
import { epochsOf, type TargetDeps, targetFor } from './targets.ts'

export interface CompareCopyDeps extends DeployedDeps, TargetDeps {
  readonly plugins: PluginSet
  readonly engine: Engine
  readonly limits: EngineLimits
  readonly scratchDirectory: string
  readonly logger: Logger
  nowMs(): number
}

/**
 * `unsteady`: the store's digest is another each time. `later`: nothing can be said now, since values are about to expire or
 * the lake has not kept the rows.
 */
export type Found =
  | { readonly kind: 'in_order'; readonly known: KnownCopy }
  | { readonly kind: 'drifted'; readonly drift: Drift }
  | { readonly kind: 'unsteady' | 'later' }

interface Subject extends CopyPlace {
  readonly copy: ComparedCopy
  readonly state: LakeState
  digest(): Promise<Digest>
}

/** So much later than a comparison ends the first value may expire. */
const EXPIRY_MARGIN_MS = 5 * 60_000
/** Rows of a copy for which more time would be needed are counted, and not read. */
const LONGEST_S = 600

export interface ComparePace {
  readonly pace: Pace
  readonly rowsPerSecond: number
}

/** Throws what the store throws; CONFLICT `policy_missing` and its kin where its place is damaged. */
export async function compareCopy(
  copy: ComparedCopy,
  { pace, rowsPerSecond }: ComparePace,
  deps: CompareCopyDeps,
  signal: AbortSignal,
): Promise<Found> {
  const subject = await subjectOf(copy, deps, signal)
  if (subject === null || isExpiring(subject, deps)) return { kind: 'later' }
  await requireWall(subject.store, subject)
  const first = await subject.digest()
  const { known, driftsInARow } = await comparisonOf(deps.pool, copy)
  const basis = basisOf(subject)
  // After a drift the digest alone is not believed.
  const isKnown = known !== null && known.epoch === copy.epoch && known.basis === basis && driftsInARow === 0
  if (isKnown && isSame(first, { sha256: known.digest, rowCount: known.rowCount })) return { kind: 'in_order', known }
  const { drift, depth } = isKnown
    ? { drift: 'digest' as const, depth: known.depth }
    : await driftOf(subject, first, rowsPerSecond, pace, deps, signal)
  if (!isSame(first, await subject.digest())) return { kind: 'unsteady' }
  if (isExpiring(subject, deps)) return { kind: 'later' }
  if (drift !== null) return { kind: 'drifted', drift }
  const { sha256: digest, rowCount } = first
  return { kind: 'in_order', known: { epoch: copy.epoch, basis, digest, rowCount, depth } }
}

const isSame = (one: Digest, other: Digest) => one.sha256 === other.sha256 && one.rowCount === other.rowCount

/** Null where the version in service has no such copy, or the lake has not kept its rows. */
async function subjectOf(copy: ComparedCopy, deps: CompareCopyDeps, signal: AbortSignal): Promise<Subject | null> {
  const serving = deps.plugins.serving(copy.endpoint)
  const product = await findProduct(deps.pool, copy.tenant, copy.productId)
  if (serving?.store.digest === undefined || product === null) return null
  const { store, plugin } = serving
  const deployed = await deployedVersion(product, copy.version, deps)
  const plan = deployed.variants.find(({ variant }) => variant === copy.variant)
  const endpoint = deployed.manifests.serving.endpoints.find(({ type }) => type === copy.endpoint)
  if (plan === undefined || endpoint === undefined) return null
  const epoch = await epochsOf(product, plan, signal, deps).at(copy.epoch)
  if (epoch === null) return null
  const target = targetFor(product, plan, endpoint.config, copy.place)
  return {
    ...{ copy, plugin, store, target, state: epoch.state },
    ...{ epoch: copy.epoch, policyVersion: deployed.digest },
    digest: () => (store.digest as NonNullable<ServingStore['digest']>)(target, signal),
  }
}

/** Values by key expire so long after their epoch, all of them together. */
function isExpiring({ copy, plugin, target }: Subject, { nowMs }: CompareCopyDeps): boolean {
  if (plugin.capabilities.ttl === undefined || copy.endpoint !== 'realtime') return false
  const { ttl = DEFAULT_TTL } = contractConfig(plugin.type, target.config)
  return copy.committedAt.getTime() + ttlMs(ttl) < nowMs() + EXPIRY_MARGIN_MS
}

const DEFAULT_TTL = '24h'

/** Rows that no policy guards are served to nobody, or to everybody. */
async function requireWall(store: ServingStore, { target }: CopyPlace): Promise<void> {
  const { tenantIsolation } = await store.rls.describe(target)
  if (tenantIsolation === 'forced') return
  throw new SluiceError('CONFLICT', 'the policy of the copy does not part tenants', { code: 'policy_missing' })
}

/** Of another plugin, or another release of it, digests may be others for the same rows. */
function basisOf({ plugin, target, state }: Subject): string {
  const { name, version } = plugin
  const facts = [name, version, target.schema, target.config, state.snapshotId]
  return createHash('sha256').update(JSON.stringify(facts)).digest('hex')
}

async function driftOf(
  subject: Subject,
  digest: Digest,
  rowsPerSecond: number,
  pace: Pace,
  deps: CompareCopyDeps,
  signal: AbortSignal,
): Promise<{ readonly drift: Drift | null; readonly depth: KnownCopy['depth'] }> {
  const { state } = subject
  const access = accessTo(subject)
  if (access.kind === 'none' || state.rowCount > rowsPerSecond * LONGEST_S) {
    const isCounted = countsRows(subject) && needsNoValue(subject)
    return { drift: isCounted && digest.rowCount !== state.rowCount ? 'count' : null, depth: 'count' }
  }
  const { isEqual, count } = await readAndCompare(subject, access, pace, deps, signal)
  if (countsRows(subject) && digest.rowCount !== count) return { drift: 'count', depth: 'rows' }
  return { drift: isEqual ? null : 'rows', depth: 'rows' }
}

async function readAndCompare(
  subject: Subject,
  access: Exclude<CopyAccess, { kind: 'none' }>,
  pace: Pace,
  { engine, limits, scratchDirectory }: CompareCopyDeps,
  signal: AbortSignal,
) {
  const directory = await mkdtemp(join(scratchDirectory, 'comparison-'))
  // The rows wait for the pace, and the process with them.
  const patient = { ...limits, timeoutMs: Math.max(limits.timeoutMs, LONGEST_S * 2_000) }
  const { changes, close } = fullChangeSet(subject.state, { engine, limits: patient, directory, signal })
  try {
    const lake = having(changes.upserts(), neededAt(subject))
    return await compareRows(subject, access, lake, pace, signal)
  } finally {
    await close()
    await rm(directory, { recursive: true, force: true })
  }
}

/** Where each row that is there has one state: of a history the digest may count all of them. */
function countsRows({ target, ...subject }: Subject): boolean {
  return (
    !keepsHistory(subject.plugin.type, target.config) &&
    (subject.copy.endpoint !== 'realtime' || accessTo({ ...subject, target }).kind === 'keys')
  )
}

/** Whether every row of the lake is one that the store is sent, and can be found there. */
function needsNoValue(subject: Subject): boolean {
  return subject.copy.endpoint !== 'realtime' && neededAt(subject) === null
}

/** Rows without a time are in no time series: the place of that column in a row, where it may be null. */
function neededAt({ copy, target: { config, schema } }: Subject): number | null {
  if (copy.endpoint !== 'timeseries') return null
  const { time_column: name } = config as { readonly time_column?: string }
  const at = schema.columns.findIndex((column) => column.name === name && column.nullable)
  return at < 0 ? null : at
}

async function* having(batches: AsyncIterable<ColumnBatch>, at: number | null): AsyncGenerator<ColumnBatch> {
  for await (const batch of batches) {
    const needed = at === null ? null : batch.columns[at]
    yield needed
      ? batchFromRows(
          [...rowsOf(batch)].filter((_, row) => needed[row] !== null),
          batch.columns.length,
        )
      : batch
  }
}

/**
 * A look at a copy of which a comparison could not be made, short enough to be had while nobody may write it: its policy,
 * and one row with all that rows have.
 */
export async function lossFound(
  copy: ComparedCopy,
  deps: CompareCopyDeps,
  signal: AbortSignal,
): Promise<CopyLoss | null> {
  const subject = await subjectOf(copy, deps, signal)
  if (subject === null) return null
  const look = async () => {
    await requireWall(subject.store, subject)
    await readOne(subject, signal)
  }
  return lossBy(look, subject.store, subject.target)
}
