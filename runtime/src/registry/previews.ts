/**
 * Previews: a version beside the one in service, kept as a product of its own whose name says so. Nobody can register that
 * name, and nothing but this makes such a product.
 */
import { SluiceError } from '@sluice/sdk'
import { isUniqueViolation } from '../database/errors.ts'
import type { Actor } from './actor.ts'
import { lockProduct } from './deletions.ts'
import { newId } from './ids.ts'
import { COLUMNS, type Product } from './products.ts'
import { change, json, many, maybeOne, one, type Queryable, type Transaction } from './sql.ts'
import { reserveRoom } from './tenants.ts'

/** Behind a product's name: its preview. */
export const PREVIEW = '@preview'

const DOING = 'keeping the preview'

/**
 * Counts as a product of the tenant. Throws QUOTA `tier_limit_exceeded`, CONFLICT `preview_exists`, and INVALID_DATA
 * `product_not_found` where the product went meanwhile.
 */
export async function createPreview(
  tx: Transaction,
  { id, tenant, domain, name, archetype }: Product,
  { days, createdBy }: { readonly days: number; readonly createdBy: Actor },
): Promise<Product> {
  await reserveRoom(tx, tenant, 'products')
  if (!(await lockPreviewed(tx, id))) {
    throw new SluiceError('INVALID_DATA', 'there is no such product', { code: 'product_not_found' })
  }
  try {
    const made = await one<Product>(
      tx,
      DOING,
      `insert into products (id, tenant, domain, name, archetype, classification, status, preview_of, preview_ends_at, created_by)
       values ($1, $2, $3, $4, $5, 'restricted', 'draft', $6, clock_timestamp() + make_interval(days => $7), $8)
       returning ${COLUMNS}`,
      [newId('prd'), tenant, domain, `${name}${PREVIEW}`, archetype, id, days, json(createdBy)],
    )
    await change(tx, DOING, 'insert into product_fences (product_id) values ($1)', [made.id])
    return made
  } catch (error) {
    if (!isUniqueViolation(error, 'products_tenant_domain_name_key')) throw error
    throw previewExists(error)
  }
}

/** Keeps the product, and whether it has a preview, as they are until the transaction ends; false where it is gone. */
export async function lockPreviewed(tx: Transaction, productId: string): Promise<boolean> {
  // Whoever commits for the product, or decides its deletion, locks its fence before its row.
  if (!(await lockProduct(tx, productId))) return false
  return (await maybeOne(tx, DOING, 'select id from products where id = $1 for update', [productId])) !== null
}

/** @param cause what the registry said to a second one */
export function previewExists(cause?: unknown): SluiceError {
  return new SluiceError('CONFLICT', 'the product has a preview', {
    code: 'preview_exists',
    remedy: 'Promote it or discard it, and wait until its rows are gone.',
    ...(cause === undefined ? {} : { cause }),
  })
}

/** Also one that is over, until its rows are gone. */
export function previewOf(db: Queryable, productId: string): Promise<Product | null> {
  return maybeOne<Product>(db, 'reading the preview', `select ${COLUMNS} from products where preview_of = $1`, [
    productId,
  ])
}

/** Those of these ids that are previews; also those that are over, until their rows are gone. */
export function previewsAmong(db: Queryable, tenant: string, ids: readonly string[]): Promise<Product[]> {
  return many<Product>(
    db,
    'reading the previews',
    `select ${COLUMNS} from products where tenant = $1 and preview_of is not null and id = any($2) order by domain, name`,
    [tenant, ids],
  )
}

/** By the clock of the registry, which decides. */
export async function isPreviewOver(db: Queryable, id: string): Promise<boolean> {
  const found = await maybeOne<{ readonly isOver: boolean }>(
    db,
    'reading the preview',
    'select preview_ends_at <= clock_timestamp() as "isOver" from products where id = $1 and preview_of is not null',
    [id],
  )
  return found?.isOver ?? true
}

/**
 * It is served no longer, and no run of it writes any more; what is left of it is for the job. False where it was over, or is
 * of another digest.
 */
export async function endPreview(tx: Transaction, id: string, digest: string | null = null): Promise<boolean> {
  const ended = await maybeOne<{ readonly tenant: string }>(
    tx,
    'ending the preview',
    `update products p set preview_ends_at = clock_timestamp(), updated_at = now()
     where id = $1 and preview_of is not null and preview_ends_at > clock_timestamp() and ($2::text is null or exists (
       select from product_versions v where v.product_id = p.id and v.version = p.current_version and v.digest = $2))
     returning tenant`,
    [id, digest],
  )
  if (ended === null) return false
  // Runtimes that keep it in mind drop it.
  await one(tx, 'ending the preview', 'select raise_policy_version($1)', [ended.tenant])
  return true
}

/** Those that are over, the longest first. */
export function previewsDue(db: Queryable, most: number): Promise<Pick<Product, 'id' | 'tenant'>[]> {
  return many(
    db,
    'looking for previews that are over',
    `select p.id, p.tenant from products p join tenants t on t.slug = p.tenant and t.status = 'active'
     where p.preview_of is not null and p.preview_ends_at <= clock_timestamp() order by p.preview_ends_at limit $1`,
    [most],
  )
}
