/** Runs of products that a wave has not waited for: queued by the run of a connection, each for one product and what is made of it. */
import type { Actor } from './actor.ts'
import type { RunLease } from './run-claims.ts'
import { enqueueRun, holdQueue, type Run } from './runs.ts'
import { change, maybeOne, one, type Queryable, type Transaction } from './sql.ts'

/** What it was left by. */
export interface LeftBy {
  /** Whose holds are for what fails in it. */
  readonly connectionId: string
  readonly runId: string
  /**
   * By id the products that had failed before, and whose time has come: how often by then. Their holds are put off for this run, and
   * keep it from none of them unless they fail once more. Absent: none had.
   */
  readonly tried?: Readonly<Record<string, number>>
}

export function leftBy({ input }: Pick<Run, 'input'>): LeftBy | null {
  return (input['left'] as LeftBy | undefined) ?? null
}

export interface LeftRun {
  readonly id: string
  /** It has not begun: it will see all that is there by then. */
  readonly isQueued: boolean
}

/** The product's run that has not ended, before any other the one that has not begun; null: none. */
export function leftRunOf(db: Queryable, productId: string): Promise<LeftRun | null> {
  return maybeOne<LeftRun>(
    db,
    'looking for a run that a product is left to',
    `select id, state = 'queued' as "isQueued" from runs
     where product_id = $1 and input ? 'left' and state in ('queued', 'running') and not cancel_requested
     order by state = 'queued' desc, created_at limit 1`,
    [productId],
  )
}

export type Leaving = Pick<LeftBy, 'connectionId' | 'tried'>

const hasAny = (tried: LeftBy['tried']): boolean => Object.keys(tried ?? {}).length > 0

/** Whether a run that waits tries them as well: not where it has begun by now. Holds of another connection keep it from nothing. */
async function triesToo(tx: Transaction, runId: string, { connectionId, tried }: Leaving): Promise<boolean> {
  if (!hasAny(tried)) return true
  const changed = await change(
    tx,
    'noting what a run is to try again',
    `update runs set input = case when input -> 'left' ->> 'connectionId' = $2
       then jsonb_set(input, '{left,tried}', coalesce(input -> 'left' -> 'tried', '{}') || $3::jsonb) else input end
     where id = $1 and state = 'queued'`,
    [runId, connectionId, JSON.stringify(tried)],
  )
  return changed > 0
}

/** Its id; of one that has not begun, where there is one. */
export async function leaveToRun(
  tx: Transaction,
  lease: RunLease,
  { productId, connectionId, tried = {} }: { readonly productId: string } & Leaving,
): Promise<string> {
  await holdQueue(tx, productId)
  const waiting = await leftRunOf(tx, productId)
  if (waiting?.isQueued === true && (await triesToo(tx, waiting.id, { connectionId, tried }))) return waiting.id
  const { createdBy } = await one<{ readonly createdBy: Actor }>(
    tx,
    'reading who asked for the run',
    'select created_by as "createdBy" from runs where id = $1',
    [lease.runId],
  )
  const left: LeftBy = { connectionId, runId: lease.runId, ...(hasAny(tried) ? { tried } : {}) }
  const run = { tenant: lease.tenant, trigger: 'ingestion', createdBy, input: { left } } as const
  return (await enqueueRun(tx, { ...run, kind: 'materialization', productId })).id
}
