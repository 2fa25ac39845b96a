/** What a version costs: how many rows are written anew, and how many bytes that is by what the lake has of them today. */
import type { ManifestSet } from '../../manifest/manifest-set.ts'
import { lakeTable, planVariants, servesVariant, type VariantPlan } from '../../materializer/variants.ts'
import type { ProductGrant } from '../../policy/classification.ts'
import { latestEpoch } from '../../registry/materializations.ts'
import type { Product } from '../../registry/products.ts'
import type { DeployDeps } from './deps.ts'
import type { StorePlan } from './plan.ts'
import type { RowSight, RowsPlan } from './plan-rows.ts'

/** What is written in one place for one variant, at most that: of rows that stay as they are, stores are written nothing. */
export interface PlaceCost {
  /** `lake`, or the endpoint's type. */
  readonly place: string
  readonly variant: string
  /** All of them, by what they are estimated from. Null: nobody knows yet, or whoever asks may not. */
  readonly rows: number | null
  /** As files of the lake hold them; null as `rows`, and where columns are hidden from whoever asks. */
  readonly bytes: number | null
  /** Whether all of it is written, in place of what is there or because nothing is. */
  readonly whole: boolean
}

/** How many rows the product is going to have, and how that is known. */
export interface RowEstimate {
  readonly rows: number | null
  readonly from: 'count' | 'source' | 'last_epoch' | null
}

/** @param source how many the table has that is taken as it is; null: there is none, or its source does not tell */
export async function estimateRows(
  { pool }: Pick<DeployDeps, 'pool'>,
  product: Product,
  { after }: Pick<RowsPlan, 'after'>,
  source: number | null,
  { mayRead }: RowSight,
): Promise<RowEstimate> {
  if (after !== null) return { rows: after, from: 'count' }
  if (source !== null) return { rows: source, from: 'source' }
  const last = mayRead ? ((await latestEpoch(pool, product.id))?.counts['rows'] ?? null) : null
  return { rows: last, from: last === null ? null : 'last_epoch' }
}

interface Costed {
  readonly product: Product
  readonly next: ManifestSet
  readonly grants: readonly ProductGrant[]
  readonly stores: readonly StorePlan[]
  readonly rows: number | null
  readonly sight: RowSight
}

export async function planCost(
  platform: DeployDeps,
  costed: Costed,
  signal: AbortSignal,
): Promise<readonly PlaceCost[]> {
  const { next, grants, stores, rows } = costed
  const places: PlaceCost[] = []
  let clear: number | null = null
  for (const variant of planVariants(next.output, grants, platform.rules)) {
    const { isThere, rowBytes } = await lyingNow(platform, costed, variant, signal)
    clear ??= rowBytes
    // A twin that is new is taken to be like the rows in clear.
    const each = rowBytes ?? clear
    const bytes = each === null || rows === null ? null : Math.round(each * rows)
    const cost = { variant: variant.variant, rows, bytes }
    places.push({ place: 'lake', ...cost, whole: !isThere })
    for (const { type, config } of next.serving.endpoints) {
      if (!servesVariant(type, config, variant, next.output)) continue
      const plan = stores.find((one) => one.endpoint === type && one.variant === variant.variant)
      places.push({ place: type, ...cost, whole: !isThere || plan?.hash === null })
    }
  }
  return places
}

interface Lying {
  readonly isThere: boolean
  /** Null where there are no rows, or where their size is hidden from whoever asks. */
  readonly rowBytes: number | null
}

/** By the newest snapshot of the variant's table. */
async function lyingNow(
  { lake }: DeployDeps,
  { product, sight }: Costed,
  { variant }: VariantPlan,
  signal: AbortSignal,
): Promise<Lying> {
  const table = await lake.load(lakeTable(product.tenant, product.domain, product.name, variant), { signal })
  if (table === null || table.snapshotId === null) return { isThere: false, rowBytes: null }
  if (!sight.seesAll || !sight.mayRead) return { isThere: true, rowBytes: null }
  const { rows, bytes } = await lake.scan(table, {}, signal)
  return { isThere: true, rowBytes: rows === 0 ? null : bytes / rows }
}
