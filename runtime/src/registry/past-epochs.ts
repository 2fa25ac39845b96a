/** What is kept of a product's epochs for checks that learn from them: what they measured, and how values lay. */
import type { MasterKeys } from './master-keys.ts'
import type { Materialization } from './materializations.ts'
import { seal, unseal } from './sealing.ts'
import { change, many, type Queryable, type Transaction } from './sql.ts'
import { rowsKey } from './tenant-keys.ts'

/** Of a result of a check, what it measured: kept as `quality.checks[].measured`. */
export interface PastMeasure {
  readonly metric: string
  readonly column: string | null
  readonly value: number | null
  readonly basis: string
}

export interface PastEpoch extends Pick<Materialization, 'id' | 'kind' | 'inputs' | 'committedAt'> {
  readonly epoch: number
  /** Of a rollback: which one it brought back; null: of no rollback, or not known. */
  readonly restoredEpoch: number | null
  readonly measured: readonly PastMeasure[]
}

/** Newest first, what was published alone. */
export function pastEpochs(db: Queryable, productId: string, most: number): Promise<PastEpoch[]> {
  return many<PastEpoch>(
    db,
    'reading what epochs have measured',
    `select id, kind, epoch, restored_epoch as "restoredEpoch", inputs, committed_at as "committedAt",
       jsonb_path_query_array(coalesce(quality, '{}'), 'lax $.checks[*].measured') as measured
     from materializations where product_id = $1 and epoch is not null order by epoch desc limit $2`,
    [productId, most],
  )
}

type Owner = Pick<Materialization, 'tenant' | 'productId' | 'id'>

/** Of no more epochs of a product, the newest ones. */
const KEPT_EPOCHS = 150

/** @param profiles by column: values of rows may be told from them, so that they are sealed with a key of the tenant */
export async function keepProfiles(
  tx: Transaction,
  masters: MasterKeys,
  { tenant, productId, id }: Owner,
  profiles: ReadonlyMap<string, unknown>,
): Promise<void> {
  if (profiles.size === 0) return
  const key = await rowsKey(tx, masters, tenant)
  for (const [column, profile] of profiles) {
    const sealed = seal(key, Buffer.from(JSON.stringify(profile)), context(tenant, id, column))
    await change(
      tx,
      'keeping how values lie',
      'insert into column_profiles (product_id, materialization_id, column_name, sealed) values ($1, $2, $3, $4)',
      [productId, id, column, sealed],
    )
  }
  await change(
    tx,
    'removing how values lay',
    `delete from column_profiles where product_id = $1 and materialization_id in
       (select id from materializations where product_id = $1 and epoch is not null order by epoch desc offset $2)`,
    [productId, KEPT_EPOCHS],
  )
}

/** By materialization and column, those that there are. */
export async function profilesOf(
  db: Queryable,
  masters: MasterKeys,
  { tenant, productId }: Omit<Owner, 'id'>,
  materializationIds: readonly string[],
): Promise<ReadonlyMap<string, ReadonlyMap<string, unknown>>> {
  const found = new Map<string, Map<string, unknown>>()
  if (materializationIds.length === 0) return found
  const rows = await many<{ id: string; column: string; sealed: Buffer }>(
    db,
    'reading how values lay',
    `select materialization_id as id, column_name as column, sealed from column_profiles
     where product_id = $1 and materialization_id = any($2)`,
    [productId, materializationIds],
  )
  if (rows.length === 0) return found
  const key = await rowsKey(db, masters, tenant)
  for (const { id, column, sealed } of rows) {
    const opened = unseal(key, sealed, context(tenant, id, column))
    const ofOne = found.get(id) ?? new Map<string, unknown>()
    found.set(id, ofOne.set(column, JSON.parse(opened.toString('utf8'))))
  }
  return found
}

function context(tenant: string, materializationId: string, column: string): readonly string[] {
  return ['column-profile', tenant, materializationId, column]
}

/** How values lay in other epochs of the product. */
export async function forgetProfiles(tx: Transaction, productId: string, kept: string): Promise<void> {
  const statement = 'delete from column_profiles where product_id = $1 and materialization_id <> $2'
  await change(tx, 'removing how values lay', statement, [productId, kept])
}
