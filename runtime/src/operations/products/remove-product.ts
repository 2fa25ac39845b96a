/** Takes products away with every copy of their rows, and previews that are over. */
import type { TableRef } from '@sluice/iceberg'
import { SluiceError } from '@sluice/sdk'
import { wishDashboards } from '../../dashboards/states.ts'
import { inTransaction } from '../../database/pools.ts'
import { appendEvent } from '../../events/outbox.ts'
import type { FaultPoint } from '../../fault-points.ts'
import type { TenantCall } from '../../flow.ts'
import { forgetJob } from '../../jobs/claims.ts'
import { registryCatalog } from '../../lake/registry-catalog.ts'
import { afterWriters } from '../../materializer/product-lock.ts'
import { dropAllCopies, requireReachable } from '../../materializer/store-copies.ts'
import { lakeTable, QUARANTINE, tablesOfProduct } from '../../materializer/variants.ts'
import { actorOf } from '../../registry/actor.ts'
import { beginDeletion, type DeletionMark, giveUpDeletion, lockProduct } from '../../registry/deletions.ts'
import { endpointsLeaving, variantsEver } from '../../registry/endpoint-states.ts'
import { productInputs } from '../../registry/lineage.ts'
import { isPreviewOver, lockPreviewed, previewExists, previewOf } from '../../registry/previews.ts'
import { deleteProduct, findProduct, type Product } from '../../registry/products.ts'
import { keepLostClasses, lockClasses } from '../../registry/raw-classes.ts'
import { SCHEDULE_JOB } from '../../registry/schedule-job.ts'
import type { Transaction } from '../../registry/sql.ts'
import { audited } from '../audit.ts'
import { notFound } from '../not-found.ts'
import { requireAdmin, requireDeveloper } from '../permissions.ts'
import type { ProductsDeps } from './deps.ts'
import { productOf } from './products.ts'

/** Writers are told within seconds that they are to stop; a copy that is there again after that is told of. */
const WRITERS_MS = 20_000

/**
 * The product with every copy: stores first, then the lake's pointers with the registry's row, then the files.
 * @param abandon types of endpoints whose rows may stay where their plugin is not loaded; said by administrators
 * Throws CONFIG `store_missing`, PERMISSION `admin_required`, CONFLICT `product_in_use`, `preview_exists`, INVALID_DATA
 * `product_not_found`, also where another deletion was done first.
 */
export async function removeProduct(
  platform: ProductsDeps,
  call: TenantCall,
  reference: string,
  abandon: readonly string[],
): Promise<void> {
  requireDeveloper(call.principal)
  if (abandon.length > 0) requireAdmin(call.principal)
  const product = await productOf(platform, call, reference)
  const { mark, abandoned } = await inTransaction(platform.pool, (tx) => decideDeletion(tx, platform, product, abandon))
  platform.served.drop(call.tenant)
  try {
    await afterWriters(platform.pool, product.id, WRITERS_MS, call.signal, () =>
      dropProduct(platform, call, product, abandoned),
    )
  } catch (error) {
    // Where the registry does not hear of it, the mark ends by itself.
    await giveUpDeletion(platform.pool, product.id, mark).catch(() => undefined)
    throw error
  } finally {
    platform.served.drop(call.tenant)
  }
}

/**
 * All that can refuse the deletion is asked before anything is dropped, and stays as it was answered: what would change it is
 * committed under the same lock, and sees the mark.
 */
async function decideDeletion(
  tx: Transaction,
  { plugins }: ProductsDeps,
  product: Product,
  abandon: readonly string[],
): Promise<{ readonly mark: DeletionMark; readonly abandoned: readonly string[] }> {
  await lockClasses(tx, product.tenant)
  const mark = await beginDeletion(tx, product.id)
  if (mark === null) throw notFound('product')
  await requireUnused(tx, product)
  const place = { tenant: product.tenant, productId: product.id }
  const abandoned = await requireReachable(place, abandon, { pool: tx, plugins })
  await stopWriters(tx, product)
  return { mark, abandoned }
}

/** Runs of the product publish nothing any more, and nobody brings back copies that are missing from now on. */
export async function stopWriters(tx: Transaction, { id, tenant }: Pick<Product, 'id' | 'tenant'>): Promise<void> {
  await tx.query('update product_fences set token = token + 1 where product_id = $1', [id])
  await endpointsLeaving(tx, tenant, id)
}

/**
 * What is left of a preview that is over: copies, files, and what the registry has of it. Repeatable after every step. Throws
 * CONFIG `store_missing` where the plugin of a store that has rows of it is not loaded.
 */
export async function dropPreview(
  platform: ProductsDeps,
  { tenant, id }: Pick<Product, 'tenant' | 'id'>,
  faultPoint: FaultPoint,
  signal: AbortSignal,
): Promise<void> {
  const preview = await findProduct(platform.pool, tenant, id)
  if (preview === null || !(await isPreviewOver(platform.pool, id))) return
  await requireReachable({ tenant, productId: id }, [], platform)
  // Once more: a run that was queued before it was over may have begun since.
  await inTransaction(platform.pool, (tx) => stopWriters(tx, preview))
  await faultPoint('preview.writers-stopped')
  await afterWriters(platform.pool, id, WRITERS_MS, signal, async () => {
    // Whoever had the lock has removed it (an erasure and the job that it asked for are two): what has its name now is another preview.
    if ((await findProduct(platform.pool, tenant, id)) === null) return
    const tables = [...(await dropCopies(platform, preview)), ...(await tablesEver(platform, preview))]
    await faultPoint('preview.copies-dropped')
    await inTransaction(platform.pool, async (tx) => {
      for (const table of tables) await registryCatalog(tx).dropPointer(table)
    })
    await faultPoint('preview.tables-dropped')
    // Before its row goes, which is what another attempt begins with.
    for (const table of tables) await platform.lake.purgeTable(table)
    await faultPoint('preview.files-removed')
    await inTransaction(platform.pool, (tx) => forget(tx, preview, []))
  })
  platform.served.drop(tenant)
}

/** Those that an attempt before may have taken out of the catalog already. */
async function tablesEver({ pool }: ProductsDeps, { id, tenant, domain, name }: Product): Promise<readonly TableRef[]> {
  const variants = [...(await variantsEver(pool, id)), QUARANTINE.slice(2)]
  return variants.map((variant) => lakeTable(tenant, domain, name, variant))
}

/** Throws CONFLICT `product_in_use`, `preview_exists`. */
async function requireUnused(tx: Transaction, product: Product): Promise<void> {
  if ((await previewOf(tx, product.id)) !== null) throw previewExists()
  const own = `${product.domain}.${product.name}`
  const made = await productInputs(tx, product.tenant)
  const names = [...made].filter(([, inputs]) => inputs.includes(own)).map(([full]) => full)
  if (names.length === 0) return
  throw new SluiceError('CONFLICT', `products are made of it: ${names.join(', ')}`, {
    code: 'product_in_use',
    remedy: 'Delete those first, or deploy versions of them that do without it.',
    details: { products: names },
  })
}

async function dropProduct(
  platform: ProductsDeps,
  call: TenantCall,
  product: Product,
  abandoned: readonly string[],
): Promise<void> {
  // Another deletion of it has ended meanwhile: what has its name now is another product, with copies under the same names.
  if ((await findProduct(platform.pool, product.tenant, product.id)) === null) throw notFound('product')
  const tables = await dropCopies(platform, product)
  // With its row the name is free: from then on another product's files come to the same folders.
  const files = await Promise.all(tables.map((table) => platform.lake.filesToPurge(table)))
  await inTransaction(platform.pool, async (tx) => {
    if (!(await lockPreviewed(tx, product.id))) throw notFound('product')
    // Only where the stores took so long that the mark has ended: rows of a preview would be nobody's.
    await requireUnused(tx, product)
    if (!call.principal.isAdmin) await keepLostClasses(tx, product, new Map(), actorOf(call.principal))
    await forget(tx, product, tables)
    await wishDashboards(tx, product.id)
    await audited(tx, call, call.tenant, 'product.delete', { type: 'product', id: product.id }, { abandoned })
    const { tenant, traceparent } = call
    await appendEvent(tx, { tenant, kind: 'deployment', name: 'deleted', subject: product.id, traceparent })
  })
  for (const own of files) await platform.lake.purge(own)
}

/** Gives the tables of the lake that are left, whose pointers go with the product's row. */
async function dropCopies(platform: ProductsDeps, product: Product): Promise<readonly TableRef[]> {
  await dropAllCopies(product, platform)
  // Twins of grants that are no more, too: a product of the same name would go on with their history.
  return tablesOfProduct(product, platform.lake)
}

async function forget(tx: Transaction, { id, tenant }: Product, tables: readonly TableRef[]): Promise<void> {
  await lockProduct(tx, id)
  for (const table of tables) await registryCatalog(tx).dropPointer(table)
  await deleteProduct(tx, tenant, id)
  await forgetJob(tx, { kind: SCHEDULE_JOB, key: id })
}
