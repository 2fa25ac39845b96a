/** Epochs of releases that did not note how columns are masked, and what is noted of them afterwards. */
import type { EpochMasks, Materialization } from './materializations.ts'
import { change, json, many, type Queryable } from './sql.ts'

export interface EpochWithoutMasks
  extends Pick<
    Materialization,
    'id' | 'tenant' | 'productId' | 'epoch' | 'version' | 'snapshots' | 'maskedColumns' | 'counts'
  > {
  readonly domain: string
  readonly name: string
}

/** Those whose version is known. */
const WITHOUT = `m.masks is null and exists (
  select from product_versions v where v.product_id = m.product_id and v.version = m.version)`

/** Products that have such epochs, or attempts at one. */
export async function productsWithoutMasks(db: Queryable): Promise<readonly string[]> {
  const statement = `select distinct m.product_id as id from materializations m where ${WITHOUT} order by 1`
  return (await many<{ id: string }>(db, 'looking for epochs without masks', statement)).map(({ id }) => id)
}

/** Of the product, the newest first. */
export function epochsWithoutMasks(db: Queryable, productId: string): Promise<EpochWithoutMasks[]> {
  return many<EpochWithoutMasks>(
    db,
    'looking for epochs without masks',
    `select m.id, m.tenant, m.product_id as "productId", p.domain, p.name, m.epoch::int, m.version, m.snapshots,
       m.masked_columns as "maskedColumns", m.counts
     from materializations m join products p on p.id = m.product_id
     where m.product_id = $1 and ${WITHOUT} order by m.committed_at desc, m.id desc`,
    [productId],
  )
}

/** Notes that nothing is masked in those that mask nothing. Repeatable. */
export async function noteUnmasked(db: Queryable): Promise<void> {
  await change(
    db,
    'noting the masks of epochs',
    `update materializations m set masks = (
       select coalesce(jsonb_object_agg(v.key, '{}'::jsonb), '{}') from jsonb_each(m.masked_columns) v)
     where ${WITHOUT} and not exists (select from jsonb_each(m.masked_columns) v where v.value <> '[]')`,
    [],
  )
}

export interface FoundMasks {
  /** Of the epoch, or the attempt. */
  readonly id: string
  readonly masks: EpochMasks
}

/** What is noted stays. */
export async function noteMasks(db: Queryable, found: readonly FoundMasks[]): Promise<void> {
  await change(
    db,
    'noting the masks of epochs',
    `update materializations m set masks = found.masks
     from jsonb_to_recordset($1::jsonb) as found (id text, masks jsonb) where m.id = found.id and m.masks is null`,
    [json(found)],
  )
}
