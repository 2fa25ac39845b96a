/** What products in service are made of, as walks over many of them need it: a little of each, and the columns of few. */
import type { Level } from '../flow.ts'
import { SERVES_OR_MAY } from './deployments.ts'
import { PRODUCTS } from './product-sources.ts'
import { many, type Queryable } from './sql.ts'

export interface LinkedInput {
  /** The alias. */
  readonly name: string
  readonly connection: string
  /** As written; of a product `namespace.name`. */
  readonly table: string
}

export interface LinkedProduct {
  readonly id: string
  /** `namespace.name`. */
  readonly full: string
  readonly domain: string
  readonly name: string
  readonly classification: Level
  /** Null: it has no version in service, so that there are no inputs. */
  readonly version: string | null
  readonly owner: { readonly team: string | null; readonly email: string | null }
  readonly inputs: readonly LinkedInput[]
}

const LINKED = `p.id, p.domain || '.' || p.name as "full", p.domain, p.name, p.classification, v.version,
  coalesce(v.normalised #> '{product,owner}', '{"team": null, "email": null}') as owner,
  coalesce((
    select jsonb_agg(jsonb_build_object('name', i -> 'name', 'connection', i -> 'connection', 'table', i -> 'table') order by n)
    from jsonb_array_elements(v.normalised -> 'inputs') with ordinality as e(i, n)), '[]') as inputs
  from products p left join product_versions v on v.product_id = p.id and v.version = p.current_version`

/** Those of these names (`namespace.name`) that there are. */
export async function linkedProducts(
  db: Queryable,
  tenant: string,
  names: readonly string[],
): Promise<readonly LinkedProduct[]> {
  if (names.length === 0) return []
  return many<LinkedProduct>(
    db,
    'reading lineage',
    `select ${LINKED} where p.tenant = $1 and p.status <> 'retired' and p.preview_of is null and p.domain || '.' || p.name = any($2)
     order by p.domain, p.name`,
    [tenant, names],
  )
}

/** A table that products may be made of: of a connection, or a product as inputs name it. */
export type LinkedSource = Pick<LinkedInput, 'connection' | 'table'>

/**
 * The products in service that have one of these for an input, by namespace and name. A table is named as the inputs write
 * it, so that one of the default schema is there by both names.
 * @param bounds.ids those alone; null: whichever
 */
export async function productsMadeOfAny(
  db: Queryable,
  tenant: string,
  sources: readonly LinkedSource[],
  bounds: { readonly most: number; readonly ids: readonly string[] | null },
): Promise<readonly LinkedProduct[]> {
  const { most, ids } = bounds
  if (sources.length === 0) return []
  return many<LinkedProduct>(
    db,
    'reading lineage',
    `select ${LINKED} where p.tenant = $1 and p.status <> 'retired' and p.preview_of is null and exists (
       select from jsonb_array_elements(v.normalised -> 'inputs') i
       where (i ->> 'connection', i ->> 'table') in (select * from unnest($2::text[], $3::text[])))
       and ($5::text[] is null or p.id = any($5))
     order by p.domain, p.name limit $4`,
    [tenant, sources.map(({ connection }) => connection), sources.map(({ table }) => table), most, ids],
  )
}

/** Those that are made of the product, at most 10,000: as `productsMadeOfAny`. */
export function productsMadeOf(
  db: Queryable,
  { tenant, domain, name }: { readonly tenant: string; readonly domain: string; readonly name: string },
): Promise<readonly LinkedProduct[]> {
  return productsMadeOfAny(db, tenant, [asSource({ full: `${domain}.${name}` })], { most: 10_000, ids: null })
}

/**
 * By the name (`namespace.name`) of each product that has products for inputs, those: of the version in service, and of those that
 * may come back into it by what is under way.
 */
export async function productInputs(db: Queryable, tenant: string): Promise<ReadonlyMap<string, readonly string[]>> {
  const rows = await many<{ readonly full: string; readonly inputs: readonly string[] }>(
    db,
    'reading what products are made of',
    `select p.domain || '.' || p.name as "full", array_agg(distinct i ->> 'table') as inputs
     from products p join product_versions v on v.product_id = p.id
     cross join lateral jsonb_array_elements(v.normalised -> 'inputs') i
     where p.tenant = $1 and p.status <> 'retired' and p.preview_of is null and i ->> 'connection' = $2 and ${SERVES_OR_MAY}
     group by p.id order by p.domain, p.name limit 10000`,
    [tenant, PRODUCTS],
  )
  return new Map(rows.map(({ full, inputs }) => [full, inputs]))
}

/** A product as an input of others. */
export const asSource = ({ full }: Pick<LinkedProduct, 'full'>): LinkedSource => ({ connection: PRODUCTS, table: full })

export interface ProductColumns<Column, Input, Origin> {
  readonly productId: string
  readonly columns: readonly Column[]
  readonly inputs: readonly Input[]
  /** Null where it was not kept. */
  readonly origins: readonly Origin[] | null
}

/** Of the versions in service of those products. */
export async function columnsInService<Column, Input, Origin>(
  db: Queryable,
  tenant: string,
  ids: readonly string[],
): Promise<readonly ProductColumns<Column, Input, Origin>[]> {
  return many(
    db,
    'reading lineage',
    `select p.id as "productId", v.normalised #> '{output,columns}' as columns, v.normalised -> 'inputs' as inputs, v.origins
     from products p join product_versions v on v.product_id = p.id and v.version = p.current_version
     where p.tenant = $1 and p.id = any($2)`,
    [tenant, ids],
  )
}
