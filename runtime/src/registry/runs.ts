/**
 * Jobs: an ingestion of a connection, a materialization of a product. Here they are queued, found and cancelled; how
 * workers take them is in `run-claims.ts`, what they report in `run-progress.ts`.
 */
import { SluiceError } from '@sluice/sdk'
import { isForeignKeyViolation } from '../database/errors.ts'
import type { Actor } from './actor.ts'
import type { RecordedError } from './deployments.ts'
import { newId } from './ids.ts'
import { type Page, type PageRequest, pageParameters, toPage } from './paging.ts'
import { change, json, many, maybeOne, one, type Queryable, type Transaction } from './sql.ts'

export const RUN_STATES = ['queued', 'running', 'succeeded', 'failed', 'cancelled'] as const

export type RunState = (typeof RUN_STATES)[number]
export const RUN_KINDS = ['ingestion', 'materialization'] as const
export type RunKind = (typeof RUN_KINDS)[number]
export const RUN_TRIGGERS = ['manual', 'ingestion', 'deploy', 'rollback', 'retry', 'schedule'] as const
export type RunTrigger = (typeof RUN_TRIGGERS)[number]

export interface Run {
  readonly id: string
  readonly tenant: string
  readonly kind: RunKind
  /** Of an ingestion. */
  readonly connectionId: string | null
  /** Of a materialization. */
  readonly productId: string | null
  /** The run that caused this one. */
  readonly parentId: string | null
  readonly trigger: RunTrigger
  readonly state: RunState
  readonly input: Readonly<Record<string, unknown>>
  readonly result: Readonly<Record<string, unknown>> | null
  readonly error: RecordedError | null
  /** 0 before the first claim. */
  readonly attempt: number
  readonly cancelRequested: boolean
  /** When a queued run may begin whose tenant has used its CPU time; else null. */
  readonly spentUntil: Date | null
  readonly createdBy: Actor
  readonly createdAt: Date
  readonly startedAt: Date | null
  readonly finishedAt: Date | null
}

/** Told on every change that may give a worker something to do; the payload is the tenant. */
export const RUNS_CHANNEL = 'sluice_runs'

export const RUN_COLUMNS = `id, tenant, kind, connection_id as "connectionId", product_id as "productId",
  parent_id as "parentId", trigger, state, input, result, error, attempt, cancel_requested as "cancelRequested",
  (select c.spent_until from cpu_budgets c
   where c.tenant = runs.tenant and runs.state = 'queued' and c.spent_until > clock_timestamp()) as "spentUntil",
  created_by as "createdBy", created_at as "createdAt", started_at as "startedAt", finished_at as "finishedAt"`

export type NewRun = {
  readonly tenant: string
  readonly trigger: RunTrigger
  readonly createdBy: Actor
  readonly parentId?: string
  /** What the worker needs beside the target; JSON. */
  readonly input?: Readonly<Record<string, unknown>>
  /** How often it may be tried where workers die or fail transiently. Default 5. */
  readonly maxAttempts?: number
} & (
  | { readonly kind: 'ingestion'; readonly connectionId: string }
  | { readonly kind: 'materialization'; readonly productId: string }
)

/**
 * Queues a run. Workers hear of it when the caller's transaction commits. Throws INVALID_DATA `connection_not_found`, `product_not_found`
 * where what it is for went meanwhile.
 */
export async function enqueueRun(db: Queryable, run: NewRun): Promise<Run> {
  const queued = await insertRun(db, run).catch((error: unknown) => {
    if (!isForeignKeyViolation(error)) throw error
    const what = run.kind === 'ingestion' ? 'connection' : 'product'
    throw new SluiceError('INVALID_DATA', `there is no such ${what} any more`, {
      code: `${what}_not_found`,
      cause: error,
    })
  })
  await announceRuns(db, run.tenant)
  return queued
}

function insertRun(db: Queryable, run: NewRun): Promise<Run> {
  return one<Run>(
    db,
    'queueing the run',
    `insert into runs (id, tenant, kind, connection_id, product_id, parent_id, trigger, input, max_attempts, created_by)
     values ($1, $2, $3, $4, $5, $6, $7, coalesce($8::jsonb, '{}'), coalesce($9, 5), $10) returning ${RUN_COLUMNS}`,
    [
      newId('run'),
      run.tenant,
      run.kind,
      run.kind === 'ingestion' ? run.connectionId : null,
      run.kind === 'materialization' ? run.productId : null,
      run.parentId ?? null,
      run.trigger,
      json(run.input),
      run.maxAttempts ?? null,
      json(run.createdBy),
    ],
  )
}

export async function announceRuns(db: Queryable, tenant: string): Promise<void> {
  await change(db, 'telling the workers', 'select pg_notify($1, $2)', [RUNS_CHANNEL, tenant])
}

/** Another tenant's run is not found. */
export function findRun(db: Queryable, tenant: string, id: string): Promise<Run | null> {
  return maybeOne<Run>(db, 'reading the run', `select ${RUN_COLUMNS} from runs where tenant = $1 and id = $2`, [
    tenant,
    id,
  ])
}

export interface RunFilter {
  readonly kind?: RunKind
  readonly state?: RunState
  readonly connectionId?: string
  readonly productId?: string
}

export async function listRuns(
  db: Queryable,
  tenant: string,
  page: PageRequest,
  filter: RunFilter = {},
): Promise<Page<Run>> {
  const parameters = pageParameters(page)
  const rows = await many<Run>(
    db,
    'listing runs',
    `select ${RUN_COLUMNS} from runs
     where tenant = $4 and ($2::timestamptz is null or (created_at, id) < ($2, $3))
       and ($5::text is null or kind = $5) and ($6::text is null or state = $6)
       and ($7::text is null or connection_id = $7) and ($8::text is null or product_id = $8)
     order by created_at desc, id desc limit $1`,
    [
      ...parameters,
      tenant,
      filter.kind ?? null,
      filter.state ?? null,
      filter.connectionId ?? null,
      filter.productId ?? null,
    ],
  )
  return toPage(rows, parameters, (row) => row)
}

/** Whoever else would queue a run of that connection or product waits until the transaction ends. */
export async function holdQueue(tx: Transaction, id: string): Promise<void> {
  await many(tx, 'looking for a queued run', 'select pg_advisory_xact_lock(hashtextextended($1, 0))', [`runs of ${id}`])
}

/**
 * A run of the same target that has not begun: it will see everything that is there when it begins. Rollbacks see
 * nothing but the past; runs that try rows again, or erase one, read no source, those of a continuous schedule read its log
 * alone, and one that a product is left to makes nothing of what is as it was: none of them counts. Where there is none, nobody else queues one until the transaction ends.
 */
export async function queuedRunOf(
  tx: Transaction,
  target: { readonly connectionId: string } | { readonly productId: string },
): Promise<Run | null> {
  const [column, id] = 'productId' in target ? ['product_id', target.productId] : ['connection_id', target.connectionId]
  await holdQueue(tx, id as string)
  return maybeOne<Run>(
    tx,
    'looking for a queued run',
    `select ${RUN_COLUMNS} from runs where ${column} = $1 and state = 'queued' and not cancel_requested and trigger <> 'rollback'
       and not input ?| array['replay', 'follow', 'erasure', 'left']
     order by created_at limit 1`,
    [id],
  )
}

/** The run of a rollback of the product that has not ended; null: there is none. */
export async function rollbackUnderWay(db: Queryable, productId: string): Promise<string | null> {
  const statement = `select id from runs where product_id = $1 and trigger = 'rollback' and state in ('queued', 'running')
     and not cancel_requested limit 1`
  return (await maybeOne<{ readonly id: string }>(db, 'looking for a rollback', statement, [productId]))?.id ?? null
}

/** A run of the connection that has not begun and was asked for with the same input. As `queuedRunOf`. */
export async function queuedRunLike(
  tx: Transaction,
  { connectionId, input }: { readonly connectionId: string; readonly input: Readonly<Record<string, unknown>> },
): Promise<Run | null> {
  await holdQueue(tx, connectionId)
  return maybeOne<Run>(
    tx,
    'looking for a queued run',
    `select ${RUN_COLUMNS} from runs
     where connection_id = $1 and state = 'queued' and not cancel_requested and input = $2::jsonb
     order by created_at limit 1`,
    [connectionId, json(input)],
  )
}

/**
 * Ends a queued run at once, and asks the worker of a running one to end it; a run that has ended stays as it is. Null
 * where the tenant has no such run. Repeatable.
 */
export async function cancelRun(db: Queryable, tenant: string, id: string): Promise<Run | null> {
  const run = await maybeOne<Run>(
    db,
    'cancelling the run',
    `update runs set cancel_requested = true,
       state = case state when 'queued' then 'cancelled' else state end,
       finished_at = case state when 'queued' then clock_timestamp() else finished_at end
     where tenant = $1 and id = $2 and state in ('queued', 'running') returning ${RUN_COLUMNS}`,
    [tenant, id],
  )
  if (run === null) return findRun(db, tenant, id)
  await announceRuns(db, tenant)
  return run
}

/** When the longest running run of the tenant began; null where none runs. */
export async function oldestRunStart(db: Queryable, tenant: string): Promise<Date | null> {
  const statement = `select min(started_at) as at from runs where tenant = $1 and state = 'running'`
  return (await maybeOne<{ at: Date | null }>(db, 'reading running runs', statement, [tenant]))?.at ?? null
}
