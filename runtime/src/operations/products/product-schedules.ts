/** When products are made by themselves, as it is told of them. */
import { readAtOf } from '../../registry/data-ages.ts'
import type { Materialization } from '../../registry/materializations.ts'
import { type Scheduled, scheduledOf } from '../../registry/schedules.ts'
import type { Queryable } from '../../registry/sql.ts'

/** @param newest for who may know how old the rows are; null: nobody who may, or there are none */
export async function productSchedule(
  db: Queryable,
  productId: string,
  newest: Materialization | null,
): Promise<Scheduled> {
  const scheduled = (await scheduledOf(db, 'product', [productId])).get(productId) as Scheduled
  const { row } = scheduled
  return row === null ? scheduled : { ...scheduled, row: { ...row, readAt: newest && readAtOf(newest) } }
}

/** Of many, without how old their rows are. */
export async function productSchedules(db: Queryable, ids: readonly string[]): Promise<ReadonlyMap<string, Scheduled>> {
  return scheduledOf(db, 'product', ids)
}
