/** What whoever follows a product should know of the version in service, and do about it. */
import { BUCKET_PROBLEMS } from '../../lake/lake.ts'
import { strangeBucket } from '../../lake/registry-catalog.ts'
import type { Product } from '../../registry/products.ts'
import { productNotices, raisedColumns } from '../../registry/raised-classes.ts'
import type { Queryable } from '../../registry/sql.ts'
import type { ProductVersion } from '../../registry/versions.ts'
import type { Platform } from '../platform.ts'

export const NOTICE_KINDS = ['judged_before_influence', 'class_raised', 'lake_emptied', 'lake_foreign'] as const

export type NoticeKind = (typeof NOTICE_KINDS)[number]

export interface ProductNotice {
  readonly kind: NoticeKind
  readonly message: string
  readonly remedy: string
  /** Those concerned; none where nobody knows. */
  readonly columns: readonly string[]
  /** Whether readers without clearance are refused for it. */
  readonly blocked: boolean
}

/** None of a product without a version in service. */
export async function noticesOf(
  { pool }: Pick<Platform, 'pool'>,
  product: Product,
  live: Pick<ProductVersion, 'digest' | 'judgedBy'> | null,
): Promise<readonly ProductNotice[]> {
  if (live === null) return []
  const raised = (await raisedColumns(pool, product.id)).filter(({ digest }) => digest === live.digest)
  const byClass = Map.groupBy(raised, ({ classification, blocks }) => JSON.stringify([classification, blocks]))
  const told = [...byClass.values()].map((own): ProductNotice => {
    const [{ classification, blocks }] = own as [(typeof raised)[number]]
    const columns = own.map(({ column }) => column)
    const then = blocks ? ', and who is not cleared for it is refused' : ''
    return {
      kind: 'class_raised',
      message: `${columns.join(', ')}: made of columns that were given the class ${classification} afterwards${then}`,
      remedy:
        'Deploy a version whose columns have that class, or one without them; or let the owner of the source name them in lower.',
      columns,
      blocked: blocks,
    }
  })
  const bucket = await bucketNotices(pool, product.tenant)
  return live.judgedBy === null ? [BEFORE, ...told, ...bucket] : [...told, ...bucket]
}

/** By product: kinds of what there is to tell of the versions in service. */
export async function listedNotices(
  { pool }: Pick<Platform, 'pool'>,
  tenant: string,
): Promise<(product: Pick<Product, 'id' | 'currentVersion'>) => readonly NoticeKind[]> {
  const own = Map.groupBy(await productNotices(pool, tenant), ({ productId }) => productId)
  const shared = (await bucketNotices(pool, tenant)).map(({ kind }) => kind)
  return ({ id, currentVersion }) => [
    ...(own.get(id) ?? []).map(({ kind }) => kind),
    ...(currentVersion === null ? [] : shared),
  ]
}

/** Of a tenant whose bucket is not its own. */
async function bucketNotices(db: Queryable, tenant: string): Promise<readonly ProductNotice[]> {
  const state = await strangeBucket(db, tenant)
  if (state === null) return []
  const { code, message, remedy } = BUCKET_PROBLEMS[state]
  return [{ kind: code, message, remedy, columns: [], blocked: false }]
}

const BEFORE: ProductNotice = {
  kind: 'judged_before_influence',
  message:
    'it was put in service before it counted what rows and columns depend on, and may show what should be hidden',
  remedy: 'Plan it anew: the plan names the columns. Deploy it with their classes.',
  columns: [],
  blocked: false,
}

const MOST_NAMED = 50

/** At a start: which products the operator should have deployed anew. They are served as they are. */
export async function tellNotices({ pool, logger }: Pick<Platform, 'pool' | 'logger'>): Promise<void> {
  const before = (await productNotices(pool, null)).filter(({ kind }) => kind === 'judged_before_influence')
  if (before.length === 0) return
  logger.warn(
    'products were put in service before it counted what their columns depend on: plan and deploy them anew',
    {
      count: before.length,
      products: before.slice(0, MOST_NAMED).map(({ tenant, productId }) => `${tenant}/${productId}`),
    },
  )
}
