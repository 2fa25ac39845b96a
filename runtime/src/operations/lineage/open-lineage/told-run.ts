/**
 * What may be told of a run by OpenLineage, and by which end. Whoever reads where it is told is nobody that we know, so it is
 * what events on the bus say: what is told to readers of the product who are shown no hidden column, by the classes of today.
 */
import type { ProductOutcome } from '../../../ingestion/product-outcome.ts'
import type { ManifestSet } from '../../../manifest/manifest-set.ts'
import { QualityBlocked } from '../../../materializer/prepare.ts'
import { lakeTable } from '../../../materializer/variants.ts'
import { masksFor } from '../../../policy/masking.ts'
import type { CheckResult } from '../../../quality/check-result.ts'
import type { RecordedError } from '../../../registry/deployments.ts'
import {
  type Materialization,
  materializationOfRun,
  materializationsOfRun,
} from '../../../registry/materializations.ts'
import type { NamedProductRun } from '../../../registry/openlineage-runs.ts'
import { originsOfVersion, type RunEnd, type UnendedRun, type WaitingRun } from '../../../registry/openlineage-runs.ts'
import { findProduct, type Product } from '../../../registry/products.ts'
import type { Run } from '../../../registry/runs.ts'
import { findRun } from '../../../registry/runs.ts'
import { findVersion } from '../../../registry/versions.ts'
import type { ColumnOrigin } from '../../deploy/column-classes.ts'
import { blockedText, type KeptQuality, openSightOf, type Sight, seesCheck } from '../../products/visible-quality.ts'
import type { LineageDeps } from '../deps.ts'

/** Of the lake's table at the epoch. */
export interface TableFiles {
  readonly bytes: number
  readonly count: number
}

/** What is told of one run and product at one moment. All of it may be told to readers of the product who are shown no hidden column. */
export interface ToldRun {
  readonly event: 'START' | RunEnd
  readonly at: Date
  readonly of: NamedProductRun
  /** Null: it is not kept any more. */
  readonly run: Pick<Run, 'trigger' | 'createdAt'> | null
  /** Null: it failed before that was known. */
  readonly version: string | null
  readonly manifests: ManifestSet | null
  readonly origins: readonly ColumnOrigin[] | null
  /** Columns that are masked for whoever has no grant. */
  readonly masked: ReadonlySet<string>
  /** By alias, what was read; empty where that is not known (yet). */
  readonly inputs: Readonly<Record<string, unknown>>
  readonly checks: readonly CheckResult[]
  /** Of what was published; null: nothing was. */
  readonly made: { readonly epoch: number; readonly rows: number | null; readonly files: TableFiles | null } | null
  /** In words, as the run tells it. */
  readonly error: string | null
}

export type ToldRunDeps = Pick<LineageDeps, 'pool' | 'lake' | 'rules'>

/** The code of a run that was given up, whichever products it was at. */
const GIVEN_UP = 'run_attempts_exhausted'
/** Characters. */
const MAX_MESSAGE = 2_000

/**
 * How a product fared in a run that has ended. One that the run left as it is after it had begun with it, or did not come to
 * again, is told as ended early: ABORT.
 */
export function endOf({ productId, isOfProduct, state, error, result }: UnendedRun): {
  readonly ended: RunEnd
  readonly error: RecordedError | null
} {
  const { products = [] } = (result ?? {}) as { readonly products?: readonly ProductOutcome[] }
  const outcome = products.find(({ id }) => id === productId)
  if (outcome !== undefined && outcome.epoch !== null) return { ended: 'COMPLETE', error: null }
  if (outcome?.state === 'failed' && state !== 'cancelled') return { ended: 'FAIL', error: outcome.reason }
  // The error of a run of several products may be another's.
  const isOwn = isOfProduct || error?.code === GIVEN_UP
  if (state === 'failed' && outcome === undefined && isOwn) return { ended: 'FAIL', error }
  return { ended: 'ABORT', error: outcome?.reason ?? null }
}

/** Of a product that was deleted meanwhile there is little left to tell, and the end of its run. */
export async function toldRun(deps: ToldRunDeps, waiting: WaitingRun, signal: AbortSignal): Promise<ToldRun> {
  const { pool, rules } = deps
  const { tenant, productId, runId } = waiting
  const event = waiting.isBeginTold ? (waiting.ended as RunEnd) : 'START'
  const found = event === 'START' ? null : await madeBy(deps, waiting, event)
  const version = found?.version ?? waiting.version
  const kept = version === null ? null : await findVersion<ManifestSet>(pool, productId, version)
  const quality = (found?.quality ?? { checks: [] }) as KeptQuality
  const of = { id: productId, tenant }
  // Without the version nobody knows what its columns hide.
  const sight = kept === null ? null : await openSightOf(pool, of, kept.version, quality.checks, rules)
  return {
    event,
    at: event === 'START' ? waiting.begunAt : (waiting.endedAt as Date),
    of: waiting,
    run: await findRun(pool, tenant, runId),
    version,
    manifests: kept?.normalised ?? null,
    origins: kept === null ? null : await originsOfVersion<ColumnOrigin>(pool, productId, kept.version),
    masked: new Set(sight === null ? [] : masksFor(sight.columns, new Set(), rules).map(({ column }) => column)),
    inputs: found?.inputs ?? {},
    checks: sight === null ? [] : quality.checks.filter((check) => seesCheck(sight, check)),
    made: found === null ? null : await madeOf(deps, found, signal),
    error: event === 'START' ? null : errorText(waiting.error, sight, found),
  }
}

/** The epoch that the run has committed, or what its checks have kept from becoming one. */
async function madeBy(
  { pool }: ToldRunDeps,
  { tenant, productId, runId }: WaitingRun,
  event: RunEnd,
): Promise<Materialization | null> {
  if (event === 'COMPLETE') return materializationOfRun(pool, productId, runId)
  const all = await materializationsOfRun(pool, tenant, runId)
  return all.find((one) => one.productId === productId && one.state === 'blocked') ?? null
}

async function madeOf(deps: ToldRunDeps, found: Materialization, signal: AbortSignal): Promise<ToldRun['made']> {
  const { tenant, productId, epoch, counts, snapshots } = found
  if (epoch === null) return null
  const product = await findProduct(deps.pool, tenant, productId)
  const files = product === null ? null : await filesOf(deps, product, snapshots['clear'], signal)
  return { epoch, rows: counts['rows'] ?? null, files }
}

/** A class that was raised since hides what a check said, too. */
function errorText(error: RecordedError | null, sight: Sight | null, found: Materialization | null): string | null {
  if (error === null || error.code !== 'quality_blocked') return error?.message.slice(0, MAX_MESSAGE) ?? null
  if (sight === null || found === null) return new QualityBlocked([], []).message
  return blockedText(sight, found.quality as KeptQuality) ?? error.message
}

/** Null where the lake has not kept the snapshot, or cannot say it now. */
async function filesOf(
  { lake }: ToldRunDeps,
  { tenant, domain, name }: Product,
  snapshotId: string | undefined,
  signal: AbortSignal,
): Promise<TableFiles | null> {
  // The epoch is told, be it without its size.
  const table = await lake.load(lakeTable(tenant, domain, name, 'clear'), { signal }).catch(() => null)
  signal.throwIfAborted()
  const found = table?.metadata.snapshots.find((snapshot) => String(snapshot['snapshot-id']) === snapshotId)
  const bytes = Number(found?.summary?.['total-files-size'])
  const count = Number(found?.summary?.['total-data-files'])
  return Number.isSafeInteger(bytes) && Number.isSafeInteger(count) ? { bytes, count } : null
}
