/** Products: what they are called, who may see them, in which state they are. Their manifests are in `versions.ts`. */
import { SluiceError } from '@sluice/sdk'
import { isUniqueViolation } from '../database/errors.ts'
import type { Level } from '../flow.ts'
import type { Actor } from './actor.ts'
import { SERVES_OR_MAY } from './deployments.ts'
import { newId } from './ids.ts'
import { type Page, type PageRequest, pageParameters, toPage } from './paging.ts'
import { PRODUCTS } from './product-sources.ts'
import { change, json, many, maybeOne, one, type Queryable, type Transaction } from './sql.ts'
import { reserveRoom } from './tenants.ts'

export type ProductStatus = 'draft' | 'ready' | 'deployed' | 'degraded' | 'retired'
export type ProductArchetype = 'source_aligned' | 'aggregate' | 'consumer_aligned'

/** Why a product keeps the content that it has while its connections are synced. */
export interface Pause {
  /** `registry_outdated`: the lake has an epoch that the registry, put back from an older dump, does not know. */
  readonly reason: 'rollback' | 'registry_outdated'
  /** That it went back to; or that made the epoch which is not known. */
  readonly version: string
  /** RFC 3339: of the rollback, or of that epoch. */
  readonly since: string
}

export interface Product {
  readonly id: string
  readonly tenant: string
  readonly domain: string
  readonly name: string
  readonly archetype: ProductArchetype
  readonly description: string
  readonly classification: Level
  readonly status: ProductStatus
  readonly currentVersion: string | null
  /** Null: it is materialized as its manifests say. */
  readonly paused: Pause | null
  /** The product whose preview it is: of a version beside the one in service (`previews.ts`). */
  readonly previewOf: string | null
  /** Of a preview: when it is served no longer. */
  readonly previewEndsAt: Date | null
  readonly createdBy: Actor
  readonly createdAt: Date
  readonly updatedAt: Date
}

export const COLUMNS = `id, tenant, domain, name, archetype, description, classification, status,
  current_version as "currentVersion", paused, preview_of as "previewOf", preview_ends_at as "previewEndsAt", created_by as "createdBy",
  created_at as "createdAt", updated_at as "updatedAt"`

export interface NewProduct {
  readonly tenant: string
  readonly domain: string
  readonly name: string
  readonly archetype: ProductArchetype
  readonly description?: string
  readonly classification?: Level
  readonly createdBy: Actor
}

/** Throws QUOTA `tier_limit_exceeded`, or CONFLICT `product_exists` for a name that is taken in its domain. */
export async function createProduct(tx: Transaction, product: NewProduct): Promise<Product> {
  await reserveRoom(tx, product.tenant, 'products')
  try {
    const created = await one<Product>(
      tx,
      'creating the product',
      `insert into products (id, tenant, domain, name, archetype, description, classification, created_by)
       values ($1, $2, $3, $4, $5, coalesce($6, ''), coalesce($7, 'internal'), $8) returning ${COLUMNS}`,
      [
        newId('prd'),
        product.tenant,
        product.domain,
        product.name,
        product.archetype,
        product.description ?? null,
        product.classification ?? null,
        json(product.createdBy),
      ],
    )
    await change(tx, 'creating the product', 'insert into product_fences (product_id) values ($1)', [created.id])
    return created
  } catch (error) {
    if (!isUniqueViolation(error, 'products_tenant_domain_name_key')) throw error
    throw new SluiceError('CONFLICT', 'the tenant has a product of that name in that namespace', {
      code: 'product_exists',
      remedy: 'Choose another name, or upload new manifests to the product that has it.',
      cause: error,
    })
  }
}

/** Another tenant's product is not found. */
export function findProduct(db: Queryable, tenant: string, id: string): Promise<Product | null> {
  return maybeOne<Product>(db, 'reading the product', `select ${COLUMNS} from products where tenant = $1 and id = $2`, [
    tenant,
    id,
  ])
}

/** Every product of that name, in one domain or in all; more than one only where no domain is given. At most 100. */
export function findProductsByName(
  db: Queryable,
  tenant: string,
  name: string,
  domain: string | null = null,
): Promise<Product[]> {
  return many<Product>(
    db,
    'reading the product',
    `select ${COLUMNS} from products where tenant = $1 and name = $2 and ($3::text is null or domain = $3)
     order by domain limit 100`,
    [tenant, name, domain],
  )
}

export interface ProductFilter {
  readonly domain?: string
  readonly status?: readonly ProductStatus[]
  /** Of those only. */
  readonly ids?: readonly string[]
}

export async function listProducts(
  db: Queryable,
  tenant: string,
  page: PageRequest,
  filter: ProductFilter = {},
): Promise<Page<Product>> {
  const parameters = pageParameters(page)
  const rows = await many<Product>(
    db,
    'listing products',
    `select ${COLUMNS} from products
     where tenant = $4 and preview_of is null and ($2::timestamptz is null or (created_at, id) < ($2, $3))
       and ($5::text is null or domain = $5) and ($6::text[] is null or status = any($6))
       and ($7::text[] is null or id = any($7))
     order by created_at desc, id desc limit $1`,
    [...parameters, tenant, filter.domain ?? null, filter.status ?? null, filter.ids ?? null],
  )
  return toPage(rows, parameters, (row) => row)
}

/** Whose grants hold for the product: a preview has none of its own. */
export function holderOfGrants({ id, previewOf }: Pick<Product, 'id' | 'previewOf'>): string {
  return previewOf ?? id
}

/** The products that engines may be given: those with a version in service, and previews that are not over. At most 10,000. */
export function deployedProducts(db: Queryable, tenant: string): Promise<Product[]> {
  return many<Product>(
    db,
    'listing products',
    `select ${COLUMNS} from products where tenant = $1 and current_version is not null and status <> 'retired'
       and (preview_of is null or preview_ends_at > clock_timestamp())
     order by domain, name limit 10000`,
    [tenant],
  )
}

export interface ProductInService<Normalised> {
  readonly product: Product
  readonly normalised: Normalised
}

/** The products in service, without previews, whose version has an input of that connection, by namespace and name. At most 10,000. */
export async function productsInServiceReading<Normalised>(
  db: Queryable,
  tenant: string,
  connectionName: string,
): Promise<readonly ProductInService<Normalised>[]> {
  // By the index of what versions are made of: a tenant's other products cost nothing.
  const rows = await many<Product & { readonly normalised: Normalised }>(
    db,
    'listing products',
    `with reading as (select product_id, version, normalised from product_versions where normalised -> 'inputs' @> $2)
     select ${COLUMNS}, normalised from products join reading on product_id = id and version = current_version
     where tenant = $1 and status <> 'retired' and preview_of is null order by domain, name limit 10000`,
    [tenant, json([{ connection: connectionName }])],
  )
  return rows.map(({ normalised, ...product }) => ({ product, normalised }))
}

/**
 * The products in service, without previews, that are made of one of these (`namespace.name`), be it through others, by namespace
 * and name. At most 10,000.
 */
export async function productsInServiceOf<Normalised>(
  db: Queryable,
  tenant: string,
  names: readonly string[],
): Promise<readonly ProductInService<Normalised>[]> {
  const rows = await many<Product & { readonly normalised: Normalised }>(
    db,
    'listing products that are made of others',
    `with recursive reached as (
       select unnest($2::text[]) as name, null::text as product_id
       union
       select p.domain || '.' || p.name, p.id
       from reached r
         join product_versions v on v.normalised -> 'inputs'
           @> jsonb_build_array(jsonb_build_object('connection', $3::text, 'table', r.name))
         join products p on p.id = v.product_id and p.current_version = v.version
       where p.tenant = $1 and p.status <> 'retired' and p.preview_of is null),
     reading as (
       select product_id, version, normalised from product_versions
       where product_id in (select product_id from reached))
     select ${COLUMNS}, normalised from products join reading on product_id = id and version = current_version
     order by domain, name limit 10000`,
    [tenant, names, PRODUCTS],
  )
  return rows.map(({ normalised, ...product }) => ({ product, normalised }))
}

/** The products in service, without previews, that expect something of an input that is this one (`namespace.name`). At most 1,000. */
export async function productsExpecting<Normalised>(
  db: Queryable,
  tenant: string,
  upstream: string,
): Promise<readonly ProductInService<Normalised>[]> {
  // By the index of versions that expect something: of most tenants there are none.
  const rows = await many<Product & { readonly normalised: Normalised }>(
    db,
    'listing products that expect something',
    `with expecting as (
       select product_id, version, normalised from product_versions where normalised #> '{quality,expectations}' is not null)
     select ${COLUMNS}, normalised from products join expecting on product_id = id and version = current_version
     where tenant = $1 and status <> 'retired' and preview_of is null and exists (
       select from jsonb_array_elements(normalised -> 'inputs') i where i ->> 'connection' = $3 and i ->> 'table' = $2)
     order by domain, name limit 1000`,
    [tenant, upstream, PRODUCTS],
  )
  return rows.map(({ normalised, ...product }) => ({ product, normalised }))
}

export interface ProductChange {
  readonly archetype?: ProductArchetype
  readonly description?: string
  readonly classification?: Level
  readonly status?: ProductStatus
  readonly currentVersion?: string
}

/** Null where the tenant has no such product. A change of what readers may see raises the tenant's policy version. */
export function updateProduct(
  db: Queryable,
  tenant: string,
  id: string,
  update: ProductChange,
): Promise<Product | null> {
  return maybeOne<Product>(
    db,
    'changing the product',
    `update products set archetype = coalesce($3, archetype), description = coalesce($4, description),
       classification = coalesce($5, classification), status = coalesce($6, status),
       current_version = coalesce($7, current_version), updated_at = now()
     where tenant = $1 and id = $2 returning ${COLUMNS}`,
    [
      tenant,
      id,
      update.archetype ?? null,
      update.description ?? null,
      update.classification ?? null,
      update.status ?? null,
      update.currentVersion ?? null,
    ],
  )
}

/** Until it is resumed, no run materializes the product; null lets them go on. False where nothing changed. */
export async function setPause(tx: Transaction, productId: string, pause: Pause | null): Promise<boolean> {
  const statement = `update products set paused = $2::jsonb, updated_at = now()
     where id = $1 and (paused is not null or $2::jsonb is not null) returning id`
  return (await maybeOne(tx, 'pausing the product', statement, [productId, json(pause)])) !== null
}

/** How many products the registry is too old for. */
export async function outdatedProducts(db: Queryable): Promise<number> {
  const { count } = await one<{ readonly count: number }>(
    db,
    'counting products',
    `select count(*)::int as count from products where paused ->> 'reason' = 'registry_outdated'`,
  )
  return count
}

/** Why the product is not materialized for now, or null. */
export async function pauseOf(db: Queryable, productId: string): Promise<Pause | null> {
  const statement = 'select paused from products where id = $1'
  return (await maybeOne<{ paused: Pause | null }>(db, 'reading the product', statement, [productId]))?.paused ?? null
}

/** Removes it with all that hangs on it in the registry; false where there was none. */
export async function deleteProduct(tx: Transaction, tenant: string, id: string): Promise<boolean> {
  const statement = 'delete from products where tenant = $1 and id = $2 returning id'
  return (await maybeOne(tx, 'removing the product', statement, [tenant, id])) !== null
}

/**
 * The products whose manifests read from that connection: those in service, those that may come back into it by what is under way,
 * and drafts. Their normalised form lists `inputs` with the connection's name. At most 100.
 */
export function productsReadingFrom(db: Queryable, tenant: string, connectionName: string): Promise<Product[]> {
  return many<Product>(
    db,
    'looking for products of the connection',
    `select ${COLUMNS} from products p where tenant = $1 and status <> 'retired' and exists (
       select from (
         select normalised from product_versions v where v.product_id = p.id and ${SERVES_OR_MAY}
         union all select normalised from product_drafts d where d.product_id = p.id
       ) manifests
       where jsonb_path_exists(normalised, '$.inputs[*] ? (@.connection == $name)', jsonb_build_object('name', $2::text))
     ) order by domain, name limit 100`,
    [tenant, connectionName],
  )
}
