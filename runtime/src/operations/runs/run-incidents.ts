/** What the end of a run is for incidents: of the connection that it read, and of each product that it made. */
import type { ProductOutcome } from '../../ingestion/product-outcome.ts'
import { closeIncidents, NOT_OF_RUNS, openIncident } from '../../registry/incidents.ts'
import type { RunOutcome } from '../../registry/run-claims.ts'
import { findRun, type Run } from '../../registry/runs.ts'
import type { Transaction } from '../../registry/sql.ts'

interface Made {
  readonly products?: readonly ProductOutcome[]
  /** Tables that the run passed over. */
  readonly held?: readonly string[]
}

/** In the transaction that tells of the end. A run that was cancelled says nothing. */
export async function noteIncidents(
  tx: Transaction,
  { id, tenant, connectionId, productId }: Run,
  outcome: RunOutcome,
): Promise<void> {
  if (outcome.state === 'cancelled') return
  const made = (await findRun(tx, tenant, id))?.result as Made | null
  const products = made?.products ?? []
  for (const product of products) await noteProduct(tx, tenant, id, product)
  const failure = outcome.state === 'failed' ? outcome.error : null
  const isOfProduct =
    failure !== null && products.some(({ reason }) => reason !== null && failure.message.includes(reason.message))
  const subject = connectionId === null ? { productId: productId as string } : { connectionId }
  if (failure === null || (isOfProduct && connectionId !== null)) {
    // A table that waits for another try is as it was, and so is a product that the run has not made.
    if ((made?.held?.length ?? 0) > 0) return
    if (products.some(({ id: own, state }) => own === productId && state === 'skipped')) return
    await closeIncidents(tx, subject, { except: NOT_OF_RUNS })
  } else if (!isOfProduct) {
    await openIncident(tx, tenant, subject, { cause: failure.code, runId: id })
  }
}

async function noteProduct(tx: Transaction, tenant: string, runId: string, outcome: ProductOutcome): Promise<void> {
  const subject = { productId: outcome.id }
  if (outcome.state === 'failed' && outcome.reason !== null) {
    await openIncident(tx, tenant, subject, { cause: outcome.reason.code, runId })
  } else if (outcome.state === 'succeeded') await closeIncidents(tx, subject, { except: NOT_OF_RUNS })
}
