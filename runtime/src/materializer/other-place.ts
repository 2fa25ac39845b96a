/** The place of a copy that is not served: emptied when nobody reads it, and brought into service when the store has it whole. */
import type { ServingStore, Target } from '@sluice/sdk'
import type pg from 'pg'
import { wishDashboards } from '../dashboards/states.ts'
import { inTransaction } from '../database/pools.ts'
import type { FaultPoint } from '../fault-points.ts'
import { type EndpointState, endpointSwitched, leftoverDropped } from '../registry/endpoint-states.ts'
import { checkFence, fenced } from '../registry/fences.ts'
import { dropIfThere, otherPlace } from './places.ts'

/**
 * Drops what nobody reads any more, or nobody ever did.
 * @param other null of a store that has one place alone: what a plugin before it has left is not there to be dropped
 */
export async function clearOther(
  store: ServingStore,
  other: Target | null,
  known: EndpointState | null,
  { pool }: { readonly pool: pg.Pool },
): Promise<void> {
  if (other !== null) await dropIfThere(store, other)
  if (known?.leftover) await leftoverDropped(pool, known)
}

/** Longer than a runtime goes on with a product as it has loaded it, and than a read that began then. */
const LEFT_FOR_MS = 15_000

/** From here on readers get what was written beside: all of it at once. Throws FENCED where another writer has taken over. */
export async function serveFromOther(
  known: EndpointState,
  { epoch, rowsLeftOut }: { readonly epoch: number | null; readonly rowsLeftOut: number | null },
  token: bigint,
  { pool, faultPoint }: { readonly pool: pg.Pool; readonly faultPoint: FaultPoint },
): Promise<void> {
  const taken = { place: otherPlace(known.place), epoch: epoch as number, rowsLeftOut }
  await inTransaction(pool, async (tx) => {
    await checkFence(tx, known.productId, token)
    if (!(await endpointSwitched(tx, known, taken, LEFT_FOR_MS))) throw fenced()
    await wishDashboards(tx, known.productId)
  })
  await faultPoint('materializer.switched')
}
