/** What whoever follows a product should know of the version in service, and do about it. */

import { BUCKET_PROBLEMS } from '@sluice/iceberg'
import type { SluiceError } from '@sluice/sdk'
import { strangeBucket } from '../../lake/registry-catalog.ts'
import type { ManifestSet } from '../../manifest/manifest-set.ts'
import { storeMissing } from '../../materializer/store-missing.ts'
import { findConnectionByName } from '../../registry/connections.ts'
import type { Product } from '../../registry/products.ts'
import { type LoadedTypes, productNotices, raisedColumns } from '../../registry/raised-classes.ts'
import type { Queryable } from '../../registry/sql.ts'
import { toldDrifts } from '../../registry/store-comparisons.ts'
import type { ProductVersion } from '../../registry/versions.ts'
import type { ProductsDeps } from './deps.ts'

export const NOTICE_KINDS = [
  'judged_before_influence',
  'class_raised',
  'lake_emptied',
  'lake_foreign',
  'store_missing',
  'store_drifted',
  'connector_missing',
] as const

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
  platform: Pick<ProductsDeps, 'pool' | 'plugins'>,
  product: Product,
  live: Pick<ProductVersion<ManifestSet>, 'digest' | 'judgedBy' | 'normalised'> | null,
): Promise<readonly ProductNotice[]> {
  if (live === null) return []
  const { pool } = platform
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
  const rest = [
    ...(await bucketNotices(pool, product.tenant)),
    ...(await pluginNotices(platform, product, live.normalised)),
    ...(await driftNotices(pool, product.id)),
  ]
  return live.judgedBy === null ? [BEFORE, ...told, ...rest] : [...told, ...rest]
}

/** By product: kinds of what there is to tell of the versions in service. */
export async function listedNotices(
  { pool, plugins }: Pick<ProductsDeps, 'pool' | 'plugins'>,
  tenant: string,
): Promise<(product: Pick<Product, 'id' | 'currentVersion'>) => readonly NoticeKind[]> {
  const own = Map.groupBy(await productNotices(pool, tenant, loadedTypes(plugins)), ({ productId }) => productId)
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

/** What the plugins of this runtime are for. */
export function loadedTypes(plugins: ProductsDeps['plugins']): LoadedTypes {
  return { serving: plugins.servingTypes().map(({ type }) => type), connectors: plugins.connectorTypes() }
}

/** Of copies that were seen to differ from the lake: for a week, or for as long as they do. */
async function driftNotices(db: Queryable, productId: string): Promise<readonly ProductNotice[]> {
  return (await toldDrifts(db, productId)).map(({ endpoint, driftedAt, isLasting }) => ({
    kind: 'store_drifted',
    message: isLasting
      ? `the copy in the ${endpoint} store differs from the lake each time that it was written anew; last on ${driftedAt.toISOString()}`
      : `the copy in the ${endpoint} store differed from the lake on ${driftedAt.toISOString()}, and was written anew`,
    remedy: isLasting
      ? 'Let the operator find who else writes to that store, and prove its plugin with sluice-conformance; it is written anew once a day.'
      : 'Nothing is to be done; if it comes again, let the operator find who else writes to that store.',
    columns: [],
    blocked: false,
  }))
}

const CONNECTOR_MISSING =
  'Let the operator name the plugin under plugins and start again; until then its connections cannot be synced.'

/** Of a version whose plugins were there when it was deployed, and are not any more. */
async function pluginNotices(
  { pool, plugins }: Pick<ProductsDeps, 'pool' | 'plugins'>,
  { tenant }: Product,
  { serving, inputs }: ManifestSet,
): Promise<readonly ProductNotice[]> {
  const stores = serving.endpoints.map(({ type }) => type).filter((type) => plugins.serving(type) === undefined)
  const names = [...new Set(inputs.map(({ connection }) => connection))]
  const connections = await Promise.all(names.map((name) => findConnectionByName(pool, tenant, name)))
  const types = new Set(connections.flatMap((one) => (one === null ? [] : [one.connectorType])))
  const connectors = [...types].filter((type) => plugins.connector(type) === undefined)
  const notice = { columns: [], blocked: false }
  return [
    ...(stores.length === 0 ? [] : [{ ...notice, kind: 'store_missing' as const, ...wordsOf(storeMissing(stores)) }]),
    ...connectors.map((type) => ({
      ...notice,
      kind: 'connector_missing' as const,
      message: `no connector of the type ${type} is loaded, and an input is read by one`,
      remedy: CONNECTOR_MISSING,
    })),
  ]
}

const wordsOf = ({ message, remedy = '' }: SluiceError) => ({ message, remedy })

const BEFORE: ProductNotice = {
  kind: 'judged_before_influence',
  message:
    'it was put in service before it counted what rows and columns depend on, and may show what should be hidden',
  remedy: 'Plan it anew: the plan names the columns. Deploy it with their classes.',
  columns: [],
  blocked: false,
}

const MOST_NAMED = 50

const TOLD = [
  [
    'judged_before_influence',
    'products were put in service before it counted what their columns depend on: plan and deploy them anew',
  ],
  [
    'store_missing',
    'products have endpoints that no configured store serves: name its plugin under plugins and its driver under serving',
  ],
  [
    'store_drifted',
    'copies in stores differed from the lake lately, and were written anew: find who else writes to those stores',
  ],
  ['connector_missing', 'products read connections whose connector is not loaded: name its plugin under plugins'],
] as const

/** At a start: which products the operator should do something about. They are served as they are, or as far as can be. */
export async function tellNotices({
  pool,
  plugins,
  logger,
}: Pick<ProductsDeps, 'pool' | 'plugins' | 'logger'>): Promise<void> {
  const notices = await productNotices(pool, null, loadedTypes(plugins))
  for (const [told, message] of TOLD) {
    const own = notices.filter(({ kind }) => kind === told)
    if (own.length === 0) continue
    logger.warn(message, {
      code: told,
      count: own.length,
      products: own.slice(0, MOST_NAMED).map(({ tenant, productId }) => `${tenant}/${productId}`),
    })
  }
}
