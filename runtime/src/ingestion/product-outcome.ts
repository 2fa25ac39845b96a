/** What a run did to a product, in numbers and in words: which epoch, who serves it, what was left out and why. */
import type { MaterializeResult } from '../materializer/materialize.ts'
import type { StoreOutcome } from '../materializer/sync-endpoints.ts'
import type { RecordedError } from '../registry/deployments.ts'
import { lostIn, type Materialization } from '../registry/materializations.ts'
import type { Product } from '../registry/products.ts'

export interface ProductOutcome {
  readonly id: string
  readonly name: string
  readonly materialization_id: string | null
  /** Null: nothing was published. */
  readonly epoch: number | null
  readonly state: 'succeeded' | 'degraded' | 'failed' | 'skipped'
  readonly rows: number | null
  /** Null where not everybody may know what the checks look at that put rows aside. */
  readonly quarantined_rows: number | null
  /** By column that nobody's view hides: values that lost something by the cast to its type. */
  readonly lossy_values: Readonly<Record<string, number>>
  /** Endpoints that do not serve the epoch yet; they are tried again. */
  readonly behind: readonly string[]
  /** What became of each endpoint; none where nothing was published. */
  readonly stores: readonly StoreOutcome[]
  /** The newest epoch that there is after it; null: none, and readers get nothing. */
  readonly current_epoch: number | null
  /** Why the product was left as it is. */
  readonly reason: RecordedError | null
}

/** `namespace.name` */
export function fullNameOf({ domain, name }: Pick<Product, 'domain' | 'name'>): string {
  return `${domain}.${name}`
}

export function publishedOutcome(
  product: Product,
  { materialization, stores, quarantined }: MaterializeResult,
): ProductOutcome {
  const behind = stores.filter(({ state }) => state === 'failed').map(({ endpoint }) => endpoint)
  return {
    id: product.id,
    name: fullNameOf(product),
    materialization_id: materialization.id,
    epoch: materialization.epoch,
    state: behind.length === 0 ? 'succeeded' : 'degraded',
    rows: materialization.counts['rows'] ?? null,
    quarantined_rows: quarantined,
    lossy_values: openLosses(materialization),
    behind,
    stores,
    current_epoch: materialization.epoch,
    reason: null,
  }
}

export function unpublishedOutcome(
  product: Product,
  state: 'failed' | 'skipped',
  reason: RecordedError,
  currentEpoch: number | null,
): ProductOutcome {
  return {
    id: product.id,
    name: fullNameOf(product),
    materialization_id: null,
    epoch: null,
    state,
    rows: null,
    quarantined_rows: 0,
    lossy_values: {},
    behind: [],
    stores: [],
    current_epoch: currentEpoch,
    reason,
  }
}

/** Every member of the tenant sees runs: what depends on hidden values is told on the product, to whom it may be. */
function openLosses(materialization: Materialization): Readonly<Record<string, number>> {
  const hidden = new Set(Object.values(materialization.maskedColumns).flat())
  return Object.fromEntries(Object.entries(lostIn(materialization)).filter(([column]) => !hidden.has(column)))
}

/** One line for the log of the run. */
export function outcomeText({ name, epoch, rows, reason, ...outcome }: ProductOutcome): string {
  if (epoch === null) {
    const why = reason?.message ?? ''
    const said = why.startsWith('nothing was published') ? why : `nothing was published: ${why}`
    const kept =
      outcome.current_epoch === null ? 'it has no rows yet' : `epoch ${outcome.current_epoch} is served as before`
    return `${name}: ${said}; ${kept}`
  }
  const late = outcome.stores.filter(({ state }) => state === 'failed').map(lateText)
  return [`${name}: epoch ${epoch} with ${rows} rows is published`, ...countTexts(outcome), ...late].join('; ')
}

/** Parts of `outcomeText` that may be of columns which are hidden later. */
export function countTexts(outcome: Pick<ProductOutcome, 'quarantined_rows' | 'lossy_values'>): readonly string[] {
  const left = !outcome.quarantined_rows ? [] : [`${outcome.quarantined_rows} rows in quarantine`]
  const lost = Object.entries(outcome.lossy_values ?? {}).map(
    ([column, values]) => `${values} values of ${column} lost something by the cast to its type`,
  )
  return [...left, ...lost]
}

function lateText({ endpoint, epoch, error }: StoreOutcome): string {
  const still = epoch === null ? 'serves nothing yet' : `still serves epoch ${epoch}`
  return `${endpoint} ${still}, and is tried again: ${error?.message ?? ''}`
}
