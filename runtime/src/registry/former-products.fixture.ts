/** What runs do to the numbers of a product, without rows. */
import type pg from 'pg'
import { inTransaction } from '../database/pools.ts'
import { raiseFence } from './fences.ts'
import { type Materialization, recordEpoch, reserveEpoch } from './materializations.ts'
import type { Product } from './products.ts'

/** One commit of the lake, under a token of its own. */
export function materializedOnce(
  pool: pg.Pool,
  { id, tenant }: Pick<Product, 'id' | 'tenant'>,
): Promise<Materialization> {
  return inTransaction(pool, async (tx) => {
    const { token } = await raiseFence(tx, id)
    const epoch = await reserveEpoch(tx, id, token)
    const of = { tenant, productId: id, kind: 'materialize', runId: null, version: '1.0.0', digest: 'd' } as const
    const found = { maskedColumns: {}, inputs: {}, counts: {}, quality: null, qualityScore: null }
    return recordEpoch(tx, epoch, { ...of, ...found, snapshots: { clear: String(epoch.epoch) } })
  })
}

/** Gives the last epoch. */
export async function materializedTimes(pool: pg.Pool, product: Product, times: number): Promise<number> {
  let last = 0
  for (let run = 0; run < times; run += 1) last = (await materializedOnce(pool, product)).epoch as number
  return last
}
