/** What the Iceberg catalog asks of many products, or of many epochs, at once. */
import type { Level } from '../flow.ts'
import type { Materialization } from './materializations.ts'
import { many, type Queryable } from './sql.ts'

export interface ListedProduct {
  readonly id: string
  readonly domain: string
  readonly name: string
  readonly classification: Level
  /** Of the version that made the newest epoch. */
  readonly snapshotClassification: Level
}

/** Products in service that have been materialized, with what decides on who may read them. At most 10,000. */
export function listedProducts(db: Queryable, tenant: string, domain: string | null = null): Promise<ListedProduct[]> {
  return many<ListedProduct>(
    db,
    'listing products',
    `select p.id, p.domain, p.name, p.classification,
       coalesce(v.normalised #>> '{product,classification}', p.classification) as "snapshotClassification"
     from products p
     join lateral (
       select version from materializations m where m.product_id = p.id and m.epoch is not null
       order by m.epoch desc limit 1
     ) newest on true
     left join product_versions v on v.product_id = p.id and v.version = newest.version
     where p.tenant = $1 and p.current_version is not null and p.status <> 'retired' and p.preview_of is null
       and ($2::text is null or p.domain = $2)
     order by p.domain, p.name limit 10000`,
    [tenant, domain],
  )
}

export interface VariantEpoch extends Pick<Materialization, 'version' | 'maskedColumns' | 'masks'> {
  readonly snapshotId: string
}

/** The epochs of one variant that made the snapshots. */
export function epochsOfVariant(
  db: Queryable,
  productId: string,
  variant: string,
  snapshotIds: readonly string[],
): Promise<VariantEpoch[]> {
  return many<VariantEpoch>(
    db,
    'reading epochs',
    `select version, snapshots ->> $2 as "snapshotId", masked_columns as "maskedColumns", masks
     from materializations where product_id = $1 and epoch is not null and snapshots ->> $2 = any($3)`,
    [productId, variant, snapshotIds],
  )
}
