/**
 * Tells when rows of a product are older than `slo.freshness` of its product.yaml, and when they are not any more: an event
 * each, however long it lasts and however many runtimes there are.
 */
import { isSluiceError } from '@sluice/sdk'
import type pg from 'pg'
import { inTransaction } from '../../database/pools.ts'
import { appendEvent } from '../../events/outbox.ts'
import type { NextDue } from '../../jobs/claims.ts'
import type { JobKind } from '../../jobs/worker.ts'
import { lockFence } from '../../registry/fences.ts'
import { closeIncidents, openIncident, STALE } from '../../registry/incidents.ts'
import { type Freshness, freshnessTurns, turnFreshness } from '../../registry/product-freshness.ts'

export const FRESHNESS_JOB = 'freshness'

/** A miss is told so late at most. */
const EVERY_MS = 15_000
const AT_ONCE = 100

export function freshnessWatch(pool: pg.Pool): JobKind {
  return {
    kind: FRESHNESS_JOB,
    failed: 'whether products are as fresh as they should be could not be looked at; it is tried again',
    backOff: { firstMs: EVERY_MS, lastMs: EVERY_MS },
    async work(_, signal): Promise<NextDue> {
      await tellFreshness(pool, signal)
      return { from: 'start', ms: EVERY_MS }
    },
  }
}

/** Repeatable: what is told is noted with it. */
export async function tellFreshness(pool: pg.Pool, signal: AbortSignal): Promise<void> {
  for (;;) {
    const products = await freshnessTurns(pool, AT_ONCE)
    for (const id of products) {
      signal.throwIfAborted()
      await tell(pool, id)
    }
    if (products.length < AT_ONCE) return
  }
}

async function tell(pool: pg.Pool, productId: string): Promise<void> {
  try {
    await inTransaction(pool, async (tx) => {
      // As every event of a product asks for: it keeps its place among them.
      await lockFence(tx, productId)
      const turned = await turnFreshness(tx, productId)
      if (turned === null) return
      await appendEvent(tx, eventOf(turned))
      if (turned.isMissed) await openIncident(tx, turned.tenant, { productId }, { cause: STALE })
      else await closeIncidents(tx, { productId }, { only: STALE })
    })
  } catch (error) {
    // The product has been deleted since, or its tenant is being removed.
    if (!isSluiceError(error, 'FENCED') && !(isSluiceError(error) && error.code === 'tenant_not_active')) throw error
  }
}

function eventOf({ tenant, productId, name, domain, readAt, objectiveMs, missedSince, isMissed }: Freshness) {
  const objective = { objective_s: objectiveMs === null ? null : objectiveMs / 1000 }
  const data = { product: name, namespace: domain, read_at: readAt.toISOString(), ...objective }
  const about = { tenant, kind: 'quality', subject: productId } as const
  return isMissed
    ? { ...about, name: 'freshness_missed', data }
    : { ...about, name: 'freshness_met', data: { ...data, missed_since: missedSince?.toISOString() ?? null } }
}
