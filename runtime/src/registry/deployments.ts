/** The record of what was deployed or rolled back, by whom, and how it ended. */
import { isSluiceError } from '@sluice/sdk'
import type { Level } from '../flow.ts'
import type { Actor } from './actor.ts'
import { newId } from './ids.ts'
import { type Page, type PageRequest, pageParameters, toPage } from './paging.ts'
import { change, json, many, maybeOne, one, type Queryable, type Transaction } from './sql.ts'

export interface Deployment {
  readonly id: string
  readonly tenant: string
  readonly productId: string
  readonly kind: 'deploy' | 'rollback'
  readonly version: string
  readonly digest: string
  readonly state: 'running' | 'succeeded' | 'failed'
  /** The product's fence token under which it works. */
  readonly fence: bigint
  readonly plan: unknown
  readonly error: RecordedError | null
  readonly createdBy: Actor
  readonly createdAt: Date
  readonly finishedAt: Date | null
}

/** An error as it may be shown: from a SluiceError, never a driver's words. */
export interface RecordedError {
  readonly code: string
  readonly message: string
  readonly remedy?: string | undefined
}

export function recordedError(error: unknown): RecordedError {
  if (!isSluiceError(error)) return { code: 'internal_error', message: 'something went wrong that should not have' }
  return { code: error.code, message: error.message, ...(error.remedy ? { remedy: error.remedy } : {}) }
}

const COLUMNS = `id, tenant, product_id as "productId", kind, version, digest, state, fence, plan, error,
  created_by as "createdBy", created_at as "createdAt", finished_at as "finishedAt"`

type Row = Omit<Deployment, 'fence'> & { readonly fence: number }

const toDeployment = (row: Row): Deployment => ({ ...row, fence: BigInt(row.fence) })

/** What a deployment settles with the first rows of its version, which are compared with those that are served. */
export interface AwaitedComparison {
  /** The version comes into service whatever differs. */
  readonly accepted: boolean
  /** Whose newest rows it is compared with: its own, or of a preview those of the product whose preview it is. */
  readonly productId: string
  /** What the product goes back to where too much differs. Null: nothing, of a preview. */
  readonly former: FormerService | null
  /** That the version gives to raw columns, by column; those of the former one count beside them until then. Null: they go on to. */
  readonly classes: readonly (readonly [rawColumn: string, classes: readonly string[]])[] | null
}

/** A product as it was before the deployment. */
export interface FormerService {
  readonly version: string
  readonly classification: Level
  readonly archetype: 'source_aligned' | 'aggregate' | 'consumer_aligned'
  readonly description: string
  readonly schedule: unknown
  readonly paused: unknown
}

export interface AwaitedDeployment {
  readonly id: string
  readonly version: string
  readonly createdBy: Actor
  readonly comparison: AwaitedComparison
}

/** The deployment of the product whose version has no rows yet to be compared; null: there is none. */
export function awaitedDeployment(db: Queryable, productId: string): Promise<AwaitedDeployment | null> {
  return maybeOne<AwaitedDeployment>(
    db,
    'reading what a deployment waits for',
    `select id, version, created_by as "createdBy", comparison from deployments
     where product_id = $1 and state = 'running' and comparison is not null
     order by created_at desc, id desc limit 1`,
    [productId],
  )
}

/**
 * SQL: whether the version `v` of the product `p` is in service, or may come into it without being judged again: by a rollback that
 * waits for its run, or because the rows of the deployed one turn out to differ too much. Whatever such a version rests on has to stay.
 */
export const SERVES_OR_MAY = `(v.version = p.current_version or v.version in (
  select coalesce(d.comparison #>> '{former,version}', d.version) from deployments d
  where d.product_id = p.id and d.state = 'running'))`

export interface NewDeployment {
  readonly tenant: string
  readonly productId: string
  readonly kind: 'deploy' | 'rollback'
  readonly version: string
  readonly digest: string
  readonly fence: bigint
  readonly plan: unknown
  readonly createdBy: Actor
  /** Absent: it waits for no rows to be compared. */
  readonly comparison?: AwaitedComparison | null
}

export async function createDeployment(db: Queryable, deployment: NewDeployment): Promise<Deployment> {
  const row = await one<Row>(
    db,
    'recording the deployment',
    `insert into deployments (id, tenant, product_id, kind, version, digest, fence, plan, created_by, comparison)
     values ($1, $2, $3, $4, $5, $6, $7, coalesce($8::jsonb, '{}'), $9, $10) returning ${COLUMNS}`,
    [
      newId('dep'),
      deployment.tenant,
      deployment.productId,
      deployment.kind,
      deployment.version,
      deployment.digest,
      deployment.fence,
      json(deployment.plan),
      json(deployment.createdBy),
      json(deployment.comparison ?? null),
    ],
  )
  return toDeployment(row)
}

/** Null where it had ended already: the first end counts. */
export async function finishDeployment(
  db: Queryable,
  id: string,
  state: 'succeeded' | 'failed',
  error: RecordedError | null = null,
): Promise<Deployment | null> {
  const row = await maybeOne<Row>(
    db,
    'recording the deployment',
    `update deployments set state = $2, error = $3, finished_at = clock_timestamp()
     where id = $1 and state = 'running' returning ${COLUMNS}`,
    [id, state, json(error)],
  )
  return row && toDeployment(row)
}

/** What a store was to do when the version was deployed. */
export interface PlannedStore {
  readonly endpoint: string
  readonly variant: string
  /** Absent, or null: its copy was to be built anew. */
  readonly hash?: string | null
}

/** By the newest deployment of the product, where that is of this version and was planned; none else. */
export async function plannedStores(
  db: Queryable,
  productId: string,
  version: string,
): Promise<readonly PlannedStore[]> {
  const newest = await maybeOne<{ readonly stores: readonly PlannedStore[] | null }>(
    db,
    'reading what a deployment has planned',
    `select case when kind = 'deploy' and version = $2 then plan -> 'stores' end as stores
     from deployments where product_id = $1 order by created_at desc, id desc limit 1`,
    [productId, version],
  )
  return newest?.stores ?? []
}

/** Of one that a later one ended: nothing came back by its end. */
export const SUPERSEDED = 'deployment_superseded'

/**
 * Ends the product's deployments that are under way: a later one takes their place. Repeatable.
 *
 * @param keepsAwaited the one stays whose first rows are still to be compared: the version is in service until the later one is
 */
export async function supersedeDeployments(
  tx: Transaction,
  productId: string,
  { keepsAwaited = false }: { readonly keepsAwaited?: boolean } = {},
): Promise<void> {
  const error: RecordedError = { code: SUPERSEDED, message: 'a later deployment took its place' }
  await change(
    tx,
    'ending former deployments',
    `update deployments set state = 'failed', error = $2, finished_at = clock_timestamp()
     where product_id = $1 and state = 'running' and (comparison is null or not $3)`,
    [productId, json(error), keepsAwaited],
  )
}

export async function listDeployments(db: Queryable, productId: string, page: PageRequest): Promise<Page<Deployment>> {
  const parameters = pageParameters(page)
  const rows = await many<Row>(
    db,
    'listing deployments',
    `select ${COLUMNS} from deployments
     where product_id = $4 and ($2::timestamptz is null or (created_at, id) < ($2, $3))
     order by created_at desc, id desc limit $1`,
    [...parameters, productId],
  )
  return toPage(rows.map(toDeployment), parameters, (row) => row)
}
