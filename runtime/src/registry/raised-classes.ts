/** What was made of raw columns before their class was raised: columns of versions, by digest. */
import type { Actor } from './actor.ts'
import { change, json, many, one, type Queryable, type Transaction } from './sql.ts'
import { COMPARED, TOLD_DRIFT } from './store-comparisons.ts'

export interface RaisedColumn {
  readonly productId: string
  /** Of the manifests that made it. */
  readonly digest: string
  readonly column: string
  /** That hides it besides its own. */
  readonly classification: string
  /** As `rawColumn` names them. */
  readonly rawColumns: readonly string[]
  /** Whether readers without that class are refused; else it is told, and no more. */
  readonly blocks: boolean
  /** The product whose deployment raised it. */
  readonly raisedIn: string
  readonly raisedBy: Actor
  readonly raisedAt: Date
}

export type NewRaisedColumn = Omit<RaisedColumn, 'raisedAt'>

const COLUMNS = `product_id as "productId", digest, column_name as "column", class as "classification",
  raw_columns as "rawColumns", blocks, raised_in as "raisedIn", raised_by as "raisedBy", raised_at as "raisedAt"`

/** Repeatable; what blocked once goes on to block. */
export async function saveRaisedColumns(
  tx: Transaction,
  tenant: string,
  raised: readonly NewRaisedColumn[],
): Promise<void> {
  for (const one of raised) {
    await change(
      tx,
      'recording raised classes',
      `insert into raised_columns as r
         (product_id, tenant, digest, column_name, class, raw_columns, blocks, raised_in, raised_by)
       values ($1, $2, $3, $4, $5, $6, $7, $8, $9)
       on conflict (product_id, digest, column_name, class) do update
         set blocks = r.blocks or excluded.blocks,
           raw_columns = array(select distinct raw from unnest(r.raw_columns || excluded.raw_columns) raw order by raw)`,
      [
        one.productId,
        tenant,
        one.digest,
        one.column,
        one.classification,
        one.rawColumns,
        one.blocks,
        one.raisedIn,
        json(one.raisedBy),
      ],
    )
  }
}

export function raisedColumns(db: Queryable, productId: string): Promise<RaisedColumn[]> {
  const statement = `select ${COLUMNS} from raised_columns where product_id = $1 order by raised_at, digest, column_name, class`
  return many<RaisedColumn>(db, 'reading raised classes', statement, [productId])
}

export function raisedColumnsOfTenant(db: Queryable, tenant: string): Promise<RaisedColumn[]> {
  const statement = `select ${COLUMNS} from raised_columns where tenant = $1 order by product_id, digest, column_name, class`
  return many<RaisedColumn>(db, 'reading raised classes', statement, [tenant])
}

/** By digest, those that readers without the class are refused. */
export type RaisedByDigest = ReadonlyMap<string, readonly RaisedColumn[]>

export async function blockingColumns(db: Queryable, productId: string): Promise<RaisedByDigest> {
  const blocking = (await raisedColumns(db, productId)).filter(({ blocks }) => blocks)
  return Map.groupBy(blocking, ({ digest }) => digest)
}

/** A deployment has judged these manifests by the classes of today, and these columns were approved by name. */
export async function settleRaisedColumns(
  tx: Transaction,
  productId: string,
  digest: string,
  approved: readonly string[],
): Promise<void> {
  const statement = 'delete from raised_columns where product_id = $1 and (digest = $2 or column_name = any($3))'
  await change(tx, 'settling raised classes', statement, [productId, digest, approved])
}

/** Versions in service of a tenant's products, or of all tenants, about which there is something to tell. */
export interface Notice {
  readonly productId: string
  readonly tenant: string
  readonly kind: 'judged_before_influence' | 'class_raised' | 'store_missing' | 'store_drifted' | 'connector_missing'
}

/** Of the plugins that are loaded. */
export interface LoadedTypes {
  readonly serving: readonly string[]
  readonly connectors: readonly string[]
}

/** @param loaded null: whatever they need is taken to be there */
export function productNotices(
  db: Queryable,
  tenant: string | null,
  loaded: LoadedTypes | null = null,
): Promise<Notice[]> {
  return many<Notice>(
    db,
    'listing notices',
    `select p.id as "productId", p.tenant, n.kind
     from products p
     join product_versions v on v.product_id = p.id and v.version = p.current_version
     cross join lateral (
       select 'judged_before_influence' as kind where v.judged_by is null
       union all
       select 'class_raised' where exists (
         select from raised_columns r where r.product_id = p.id and r.digest = v.digest)
       union all
       select 'store_missing' where exists (
         select from jsonb_array_elements(v.normalised -> 'serving' -> 'endpoints') e where e ->> 'type' <> all ($2::text[]))
       union all
       select 'store_drifted' where exists (
         select from store_comparisons c join endpoint_states s on ${COMPARED} where c.product_id = p.id and ${TOLD_DRIFT})
       union all
       select 'connector_missing' where exists (
         select from jsonb_array_elements(v.normalised -> 'inputs') i
         join connections c on c.tenant = p.tenant and c.name = i ->> 'connection'
         where c.connector_type <> all ($3::text[]))
     ) n
     where ($1::text is null or p.tenant = $1) and p.status <> 'retired'
     order by p.tenant, p.id, n.kind limit 100000`,
    [tenant, loaded?.serving ?? null, loaded?.connectors ?? null],
  )
}

/** How many products and connections need a plugin that is not loaded. */
export function unservable(
  db: Queryable,
  loaded: LoadedTypes,
): Promise<{ readonly products: number; readonly connections: number }> {
  return one(
    db,
    'counting what needs a plugin that is not loaded',
    `select (select count(distinct product_id)::int from endpoint_states where endpoint <> all ($1::text[])) as products,
       (select count(*)::int from connections where connector_type <> all ($2::text[])) as connections`,
    [loaded.serving, loaded.connectors],
  )
}
