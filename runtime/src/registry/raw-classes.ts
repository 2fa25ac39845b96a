/** The classes that products in service give to raw columns: what is made of them elsewhere inherits these. */
import type { Product } from './products.ts'
import { change, many, type Queryable, type Transaction } from './sql.ts'

export interface SaveOptions {
  /** Whether what was known of the product stays beside it: for classes that are guessed. */
  readonly keepFormer?: boolean
}

/** Replaces what is known of the product. */
export async function saveRawClasses(
  tx: Transaction,
  product: Pick<Product, 'id' | 'tenant'>,
  classes: ReadonlyMap<string, readonly string[]>,
  { keepFormer = false }: SaveOptions = {},
): Promise<void> {
  if (!keepFormer) {
    await change(tx, 'recording classes', 'delete from raw_column_classes where product_id = $1', [product.id])
  }
  const pairs = [...classes].flatMap(([column, names]) => names.map((name) => [column, name] as const))
  const statement = `insert into raw_column_classes (product_id, tenant, raw_column, class)
     select $1, $2, c.raw_column, c.class from unnest($3::text[], $4::text[]) as c(raw_column, class)
     on conflict do nothing`
  await change(tx, 'recording classes', statement, [
    product.id,
    product.tenant,
    pairs.map(([column]) => column),
    pairs.map(([, name]) => name),
  ])
}

/** By raw column, all that the tenant's products in service say of it. Complete: what was left out would be shown. */
export async function rawClasses(db: Queryable, tenant: string): Promise<ReadonlyMap<string, readonly string[]>> {
  const rows = await many<ClassRow>(
    db,
    'reading classes',
    `select distinct raw_column as "rawColumn", class from raw_column_classes
     where tenant = $1 and class <> 'public'`,
    [tenant],
  )
  return byColumn(rows)
}

/** As `rawClasses`, of one product. */
export async function rawClassesOf(db: Queryable, productId: string): Promise<ReadonlyMap<string, readonly string[]>> {
  const statement = `select raw_column as "rawColumn", class from raw_column_classes where product_id = $1 and class <> 'public'`
  return byColumn(await many<ClassRow>(db, 'reading classes', statement, [productId]))
}

interface ClassRow {
  readonly rawColumn: string
  readonly class: string
}

function byColumn(rows: readonly ClassRow[]): ReadonlyMap<string, readonly string[]> {
  const found = Map.groupBy(rows, (row) => row.rawColumn)
  return new Map([...found].map(([column, own]) => [column, own.map((row) => row.class)]))
}
