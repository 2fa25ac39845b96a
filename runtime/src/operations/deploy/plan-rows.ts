/** How many rows a version takes from its product and adds to it: counted for a plan, within what a plan may cost. */
import type { EngineLimits } from '@sluice/engine'
import { isSluiceError, SluiceError } from '@sluice/sdk'
import type { TenantCall } from '../../flow.ts'
import { digestOf } from '../../manifest/digest.ts'
import { keepsMissing, type ManifestSet } from '../../manifest/manifest-set.ts'
import { asWritten } from '../../manifest/open-modes.ts'
import { type CountedRows, countRows, type Uncounted } from '../../materializer/counted-rows.ts'
import type { InputDeps } from '../../materializer/inputs.ts'
import { limitsFor } from '../../materializer/materialize.ts'
import { masksFor } from '../../policy/masking.ts'
import { onAccountOf } from '../../registry/cpu-accounts.ts'
import type { Product } from '../../registry/products.ts'
import type { VersionUpstreams } from '../../registry/versions.ts'
import { clearColumns } from '../products/clear-columns.ts'
import { sightOf } from '../products/visible-quality.ts'
import { accessOrNull, type ServedProduct } from '../served/served-product.ts'
import type { DeployDeps } from './deps.ts'
import type { JudgedColumns } from './judged-columns.ts'
import { inTurnOf } from './tenant-turns.ts'

/** Null: not counted, or not for whoever asks. */
export interface RowsPlan {
  /** In the lake today. */
  readonly before: number | null
  /** By what the lake has of the inputs, before checks put any aside. */
  readonly after: number | null
  /** Of today, by key. */
  readonly leaving: number | null
  readonly coming: number | null
  /** Why something of it was not counted; no sentence. Null: all of it was. */
  readonly notCounted: string | null
}

/** What whoever plans may know of the rows that are there. */
export interface RowSight {
  readonly mayRead: boolean
  /** Whether no column is hidden from him: how long values are tells of them. */
  readonly seesAll: boolean
  isClear(column: string): boolean
}

/** Of all that is run for a count together, its wait for others included. */
const COUNT_TIMEOUT_MS = 20_000
const MB = 1024 * 1024
/** By one statement. */
const MOST_WRITTEN_BYTES = 512 * MB
const MOST_INPUT_ROWS = 20_000_000

/** By the caller's own rights to read the product, or to read all that its rows came from. */
export async function rowSight(
  platform: DeployDeps,
  call: TenantCall,
  served: ServedProduct | null,
): Promise<RowSight> {
  // What lies under its name is of one that is gone.
  if (served === null) return { mayRead: false, seesAll: false, isClear: () => false }
  const { clear, columns, rules } = await sightOf(platform, call, served.id)
  return {
    mayRead: clear === 'all' || accessOrNull(served, call.principal, rules) !== null,
    seesAll: masksFor(columns, clear, rules).length === 0,
    isClear: await clearColumns(platform, call, served.id),
  }
}

export interface RowsAsked {
  readonly product: Product
  readonly live: ManifestSet | null
  readonly next: ManifestSet
  readonly sight: RowSight
  readonly upstreamOf: InputDeps['upstreamOf']
  /** As whom the versions read products: what they make of the same text differs by it. */
  readonly reads: { readonly live: VersionUpstreams | null; readonly next: VersionUpstreams | null }
  /** Of the inputs, as a run of the version would have them. */
  readonly judged: Pick<JudgedColumns, 'inputs' | 'shapes'>
}

/** Nothing is written, and no epoch made. What cannot be counted within the time says why, and stands in no plan's way. */
export async function planRows(
  platform: DeployDeps,
  asked: RowsAsked,
  signal: AbortSignal,
  timeoutMs = COUNT_TIMEOUT_MS,
): Promise<RowsPlan> {
  const why = uncountedBecause(asked)
  if (why !== null) return uncounted(why)
  const deadline = AbortSignal.timeout(timeoutMs)
  const stop = AbortSignal.any([signal, deadline])
  const { tenant } = asked.product
  try {
    platform.cpu.refuseSpent(tenant)
    const work = () => onAccountOf(tenant, () => counted(platform, asked, stop))
    return told(asked, await platform.counts.within(tenant, stop, work))
  } catch (error) {
    signal.throwIfAborted()
    if (deadline.aborted)
      return uncounted(
        `it takes longer than ${timeoutMs / 1000} seconds, other counts of the tenant before it included`,
      )
    if (isSluiceError(error)) return uncounted(error.message)
    throw error
  }
}

function uncountedBecause({ live, next, reads, sight }: RowsAsked): string | null {
  if (live === null) return 'no version of it is in service'
  if (!sight.mayRead) return 'you may not read its rows'
  if (makes(live, reads.live) === makes(next, reads.next)) return 'it makes its rows as the version in service does'
  if (next.output.writeMode === 'append') return 'rows are only ever added'
  if (next.compute.engine === 'distributed') return 'its rows are made by an engine outside'
  return null
}

/** Of all that decides which rows there are. */
function makes({ inputs, compute: { engine, transform }, output }: ManifestSet, upstreams: VersionUpstreams | null) {
  const columns = output.columns.map(({ name, type, nullable }) => [name, type, nullable])
  const variants = inputs.map(({ name }) => upstreams?.[name]?.variant ?? null)
  return digestOf([
    inputs.map(asWritten),
    variants,
    engine,
    transform,
    columns,
    output.primaryKey,
    output.writeMode,
    keepsMissing(output),
  ])
}

function counted(
  { pool, engine, distributed, lake, scratchDirectory, config }: DeployDeps,
  { product, next, sight: { isClear }, upstreamOf, judged }: RowsAsked,
  signal: AbortSignal,
): Promise<CountedRows | Uncounted> {
  const most: EngineLimits = {
    timeoutMs: COUNT_TIMEOUT_MS,
    threads: 1,
    memoryBytes: config.limits.transform_memory_mb * MB,
    tempBytes: MOST_WRITTEN_BYTES,
    room: { bytes: MOST_WRITTEN_BYTES, exceeded: wroteTooMuch },
  }
  const bounds = { limits: limitsFor(next, most), mostInputRows: MOST_INPUT_ROWS }
  const inputs = { pool, lake, upstreamOf, judgedColumns: judged.inputs, heldShapes: judged.shapes }
  const own = { engine: inTurnOf(engine, product.tenant), distributed, scratchDirectory, isClear }
  return countRows(product, next, { ...inputs, ...own, ...bounds }, signal)
}

/** Told as what was not counted, and to nobody as an error. */
function wroteTooMuch(): SluiceError {
  const message = `it gives more than ${MOST_WRITTEN_BYTES / MB} MiB of rows, and a plan writes no more to count them`
  return new SluiceError('INVALID_DATA', message, {
    code: 'query_result_too_large',
    remedy: 'Deploy the version, or let its transform give less.',
  })
}

function told({ next, sight }: RowsAsked, rows: CountedRows | Uncounted): RowsPlan {
  if ('uncounted' in rows) return uncounted(rows.uncounted)
  const { before, made, byKey } = rows
  const stay = keepsMissing(next.output)
  const after = stay ? null : made
  if (byKey === null) return { ...NONE, before, after, notCounted: withoutKey(next, sight) }
  const { coming } = byKey
  if (stay) return { before, after: before + coming, leaving: 0, coming, notCounted: null }
  return { before, after, leaving: byKey.leaving, coming, notCounted: null }
}

function withoutKey({ output: { primaryKey } }: ManifestSet, { isClear }: RowSight): string {
  if (primaryKey.length === 0) return 'it has no key to compare rows by'
  const hidden = primaryKey.filter((name) => !isClear(name))
  if (hidden.length > 0) return `rows are compared by ${hidden.join(', ')}, which is hidden from you`
  return 'rows of today have another key'
}

const NONE = { before: null, after: null, leaving: null, coming: null }

const uncounted = (notCounted: string): RowsPlan => ({ ...NONE, notCounted })
