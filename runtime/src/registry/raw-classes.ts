/**
 * The classes that products give to raw columns: what is made of them elsewhere inherits these. A class that a product gives
 * no more is kept, unless the owner of the source has taken it away. See docs/decisions/0101-classes-outlive-products.md.
 */
import type { Actor } from './actor.ts'
import { PRODUCTS } from './product-sources.ts'
import type { Product } from './products.ts'
import { change, many, type Queryable, type Transaction } from './sql.ts'

export interface SaveOptions {
  /** Whether what was known of the product stays beside it: for classes that are guessed. */
  readonly keepFormer?: boolean
}

type OfProduct = Pick<Product, 'id' | 'tenant'>
type Classes = ReadonlyMap<string, readonly string[]>

/** Column and class of each, as two lists. */
function pairsOf(classes: Classes): readonly [columns: readonly string[], names: readonly string[]] {
  const pairs = [...classes].flatMap(([column, names]) => names.map((name) => [column, name] as const))
  return [pairs.map(([column]) => column), pairs.map(([, name]) => name)]
}

/**
 * Makes what gives classes and what is judged by them one after the other in a tenant, until the transaction ends: versions that come
 * into service, and the deletion of what they are made of.
 */
export async function lockClasses(tx: Transaction, tenant: string): Promise<void> {
  await many(tx, 'locking the classes', 'select pg_advisory_xact_lock(hashtextextended($1, 0))', [
    `classes of ${tenant}`,
  ])
}

/**
 * Keeps what the product gives now and will not give then, of connections that `by` has not made. Before the product's own
 * are replaced, or go with it.
 * @param next what it gives from now on
 */
export async function keepLostClasses(
  tx: Transaction,
  { id, tenant }: OfProduct,
  next: Classes,
  by: Actor,
): Promise<void> {
  const statement = `insert into kept_raw_classes (tenant, connection_id, raw_column, class)
     select r.tenant, c.id, r.raw_column, r.class from raw_column_classes r
     join connections c on c.tenant = r.tenant and c.name = r.raw_column::jsonb ->> 0
     where r.product_id = $1 and r.tenant = $2 and r.class <> 'public'
       and (c.created_by ->> 'issuer', c.created_by ->> 'subject') is distinct from ($3::text, $4::text)
       and (r.raw_column, r.class) not in (select * from unnest($5::text[], $6::text[]))
     on conflict do nothing`
  await change(tx, 'keeping classes', statement, [id, tenant, by.issuer, by.subject, ...pairsOf(next)])
}

/** The owner of their source has named columns that have their values. */
export async function endKeptClasses(tx: Transaction, tenant: string, rawColumns: readonly string[]): Promise<void> {
  const statement = 'delete from kept_raw_classes where tenant = $1 and raw_column = any($2)'
  await change(tx, 'ending kept classes', statement, [tenant, rawColumns])
}

/** Replaces what is known of the product. */
export async function saveRawClasses(
  tx: Transaction,
  product: OfProduct,
  classes: Classes,
  { keepFormer = false }: SaveOptions = {},
): Promise<void> {
  if (!keepFormer) {
    await change(tx, 'recording classes', 'delete from raw_column_classes where product_id = $1', [product.id])
  }
  const statement = `insert into raw_column_classes (product_id, tenant, raw_column, class)
     select $1, $2, c.raw_column, c.class from unnest($3::text[], $4::text[]) as c(raw_column, class)
     on conflict do nothing`
  await change(tx, 'recording classes', statement, [product.id, product.tenant, ...pairsOf(classes)])
}

/**
 * By raw column, all that the tenant's products in service say of it, and what is kept of others; of columns of products that
 * others may be made of, what they are and what has raised them. Complete: what was left out would be shown.
 * @param only the raw columns that are asked about, where it is not all: others may be told of, too
 */
export async function rawClasses(db: Queryable, tenant: string, only?: readonly string[]): Promise<Classes> {
  return byColumn([...(await sourceClasses(db, tenant, only)), ...(await productClasses(db, tenant, only))])
}

async function productClasses(
  db: Queryable,
  tenant: string,
  only: readonly string[] | undefined,
): Promise<readonly ClassRow[]> {
  const products = only && [...new Set(only.flatMap(productOfColumn))]
  if (products?.length === 0) return []
  const rows = await many<ProductColumn>(
    db,
    'reading classes',
    `with live as (
       select p.id, p.domain || '.' || p.name as product, v.digest, v.normalised
       from products p join product_versions v on v.product_id = p.id and v.version = p.current_version
       where p.tenant = $1 and p.status <> 'retired' and ($2::text[] is null or (p.domain, p.name) in (
         select split_part(asked, '.', 1), split_part(asked, '.', 2) from unnest($2::text[]) asked)))
     select product, item ->> 'name' as "column", item ->> 'classification' as class
     from live, jsonb_array_elements(normalised #> '{output,columns}') item where item ->> 'classification' <> 'public'
     union select live.product, r.column_name, r.class
     from live join raised_columns r on r.product_id = live.id and r.digest = live.digest where r.blocks`,
    [tenant, products ?? null],
  )
  return rows.map(({ product, column, class: name }) => ({ rawColumn: productColumn(product, column), class: name }))
}

interface ProductColumn {
  readonly product: string
  readonly column: string
  readonly class: string
}

/** As `rawColumn` names the column of an input that is that product. @param product `namespace.name` */
export function productColumn(product: string, column: string): string {
  return JSON.stringify([PRODUCTS, product, column.toLowerCase()])
}

/** The product that a raw column is of, as `productColumn` names it; none: it is of a source. */
function productOfColumn(rawColumn: string): readonly string[] {
  const [connection, product] = JSON.parse(rawColumn) as readonly string[]
  return connection === PRODUCTS && product !== undefined ? [product] : []
}

async function sourceClasses(
  db: Queryable,
  tenant: string,
  only: readonly string[] | undefined,
): Promise<readonly ClassRow[]> {
  return many<ClassRow>(
    db,
    'reading classes',
    `select raw_column as "rawColumn", class from raw_column_classes
       where tenant = $1 and class <> 'public' and ($2::text[] is null or raw_column = any ($2))
     union select raw_column, class from kept_raw_classes
       where tenant = $1 and ($2::text[] is null or raw_column = any ($2))`,
    [tenant, only ?? null],
  )
}

/** As `rawClasses`, of one product. */
export async function rawClassesOf(db: Queryable, productId: string): Promise<Classes> {
  const statement = `select raw_column as "rawColumn", class from raw_column_classes where product_id = $1 and class <> 'public'`
  return byColumn(await many<ClassRow>(db, 'reading classes', statement, [productId]))
}

interface ClassRow {
  readonly rawColumn: string
  readonly class: string
}

function byColumn(rows: readonly ClassRow[]): Classes {
  const found = Map.groupBy(rows, (row) => row.rawColumn)
  return new Map([...found].map(([column, own]) => [column, [...new Set(own.map((row) => row.class))]]))
}
