/**
 * Brings the dashboard server to what products want, by what the registry has noted: after deploys, materializations and
 * deletions, after changes of policy, and again after failures. Deploys never wait for it.
 *
 * Where fewer may read than before, the rows are shut off in the database first, and opened when the dashboard server
 * knows: while it cannot be told, nobody reads by what was true before.
 */
import { createHash } from 'node:crypto'
import { type DashboardServer, type DashboardSession, isSluiceError, type Logger, SluiceError } from '@sluice/sdk'
import type pg from 'pg'
import { toDatabaseError } from '../database/errors.ts'
import { inTransaction } from '../database/pools.ts'
import { backOffMs } from '../jobs/back-off.ts'
import { askForJobs, type NextDue } from '../jobs/claims.ts'
import type { JobKind, JobSource } from '../jobs/worker.ts'
import type { RecordedError } from '../registry/deployments.ts'
import { subjectRole } from './names.ts'
import { type ServingView, type ServingViews, type StoredDataset, TENANT_COLUMN } from './serving-views.ts'
import {
  type AppliedVariant,
  type ClaimedDashboards,
  claimDashboards,
  DASHBOARDS_JOB,
  dashboardsDue,
  failDashboards,
  finishDashboards,
  forgetDashboards,
  intendDashboards,
  releaseDashboards,
} from './states.ts'
import type { WantedDashboards } from './wanted.ts'

export interface DashboardKeeperOptions {
  /** The registry. */
  readonly pool: pg.Pool
  readonly logger: Logger
  readonly views: ServingViews
  /** Of the driver that the server is told by: what another had is made anew. */
  readonly driver: string
  readonly server: DashboardServer
  /** Null for a product that is gone, or wants none. */
  readonly load: (product: { readonly tenant: string; readonly productId: string }) => Promise<WantedDashboards | null>
}

const DUE_AT_ONCE = 100
/** Longer than one product takes: a process that died gives its turn back by then. */
const LEASE_MS = 180_000
const WORK_MS = 150_000
const NOT_YET_MS = 2_000
/** Of a product's failures, of which its state tells, and of what keeps its state from being read. */
const BACK_OFF = { firstMs: 1_000, lastMs: 60_000 } as const

/** A job for each product, in the runtime one at a time. */
export class DashboardKeeper {
  readonly kind: JobKind
  readonly source: JobSource
  readonly #options: DashboardKeeperOptions

  constructor(options: DashboardKeeperOptions) {
    this.#options = options
    this.kind = {
      kind: DASHBOARDS_JOB,
      failed: 'dashboards could not be seen to; it is tried again',
      backOff: BACK_OFF,
      work: ({ key }, signal) => this.#work(key, signal),
    }
    // At each look, which comes once a second and after each job: a tenant's products follow each other.
    this.source = { everyMs: 0, enlist: () => this.#enlist() }
  }

  async #enlist(): Promise<void> {
    const due = await dashboardsDue(this.#options.pool, DUE_AT_ONCE)
    await askForJobs(
      this.#options.pool,
      due.map(({ productId: key, tenant }) => ({ kind: DASHBOARDS_JOB, key, tenant })),
    )
  }

  /** When it is due again stands in the product's own line, since users are told of it. */
  async #work(productId: string, signal: AbortSignal): Promise<NextDue> {
    const { pool } = this.#options
    const claimed = await inTransaction(pool, (tx) => claimDashboards(tx, productId, LEASE_MS), { signal })
    if (claimed === null) return null
    try {
      await this.#see(claimed, AbortSignal.any([signal, AbortSignal.timeout(WORK_MS)]))
    } catch (error) {
      if (signal.aborted) {
        await releaseDashboards(pool, claimed.productId)
        throw error
      }
      this.#warn('the dashboards of a product could not be made', error, { product: claimed.productId })
      await failDashboards(pool, claimed, recorded(error), backOffMs(claimed.attempts, BACK_OFF))
    }
    return null
  }

  async #see(claimed: ClaimedDashboards, signal: AbortSignal): Promise<void> {
    const { pool, views, load, driver } = this.#options
    const wanted = await load(claimed)
    const datasets = wanted === null ? [] : await describeAll(views, wanted, signal)
    const digest = digestOf(wanted, datasets, { driver, at: views.shown })
    const applied = datasets.map(({ stored, roles }) => ({ variant: stored.variant, roles }))
    const notYet = wanted?.isIncomplete === true || datasets.length < (wanted?.variants.length ?? 0)
    if (claimed.digest !== digest) await this.#bring(claimed, wanted, datasets, signal)
    if (wanted === null) {
      await forgetDashboards(pool, claimed)
      await releaseDashboards(pool, claimed.productId)
      return
    }
    await finishDashboards(pool, claimed, { digest, applied, againMs: notYet ? NOT_YET_MS : null })
  }

  async #bring(
    claimed: ClaimedDashboards,
    wanted: WantedDashboards | null,
    datasets: readonly Described[],
    signal: AbortSignal,
  ): Promise<void> {
    const { pool, views, server } = this.#options
    const next = new Map(datasets.map(({ stored, roles }) => [stored.variant, roles]))
    await intendDashboards(pool, claimed.productId, merged(claimed.applied, next))
    for (const { variant, roles } of claimed.applied) {
      const isNarrower = roles.some((role) => next.get(variant)?.includes(role) !== true)
      if (isNarrower) await views.setOpen({ productId: claimed.productId, variant }, false)
    }
    const session = await ofDriver(() => server.open(signal))
    for (const { variant } of claimed.applied.filter((former) => !next.has(former.variant))) {
      const dataset = { productId: claimed.productId, variant }
      await ofDriver(() => session.remove(dataset))
      await views.remove(dataset)
    }
    if (wanted === null) return
    for (const described of datasets) {
      const formerRoles = claimed.applied.find(({ variant }) => variant === described.stored.variant)?.roles ?? []
      await this.#put(session, wanted, { ...described, formerRoles }, signal)
    }
  }

  async #put(
    session: DashboardSession,
    wanted: WantedDashboards,
    { stored, view, roles, formerRoles }: Described & { readonly formerRoles: readonly string[] },
    signal: AbortSignal,
  ): Promise<void> {
    const { views } = this.#options
    const address = await views.provision(stored, view, signal)
    const { variants: _, isIncomplete: __, endpoint: ___, ...shown } = wanted
    const table = { ...view, tenantColumn: TENANT_COLUMN }
    const dataset = { ...shown, variant: stored.variant, table, address }
    await ofDriver(() => session.put(dataset, { tenant: wanted.tenant, roles, formerRoles }))
    await views.setOpen(stored, true)
  }

  #warn(message: string, error: unknown, details: Readonly<Record<string, unknown>>): void {
    const { code, message: what } = recorded(error)
    const at = isSluiceError(error) && code === DRIVER_FAILED ? { at: placeOf(error.cause) } : {}
    this.#options.logger.warn(message, { ...details, code, error: what, ...at })
  }
}

interface Described {
  readonly stored: StoredDataset
  readonly view: ServingView
  readonly roles: readonly string[]
}

/** Those of the variants that the store has. */
async function describeAll(
  views: ServingViews,
  wanted: WantedDashboards,
  signal: AbortSignal,
): Promise<readonly Described[]> {
  const described: Described[] = []
  for (const { variant, subjects, storedAs } of wanted.variants) {
    const { productId, tenant, domain, product, endpoint } = wanted
    const stored = { productId, tenant, domain, product, endpoint, variant, ...(storedAs && { storedAs }) }
    const view = await views.describe(stored, signal)
    const roles = [...new Set(subjects.map((subject) => subjectRole(tenant, subject)))].sort()
    if (view !== null) described.push({ stored, view, roles })
  }
  return described
}

/** Of all that is brought there, and of where it lies, so that equal wishes ask nothing of anybody. */
function digestOf(wanted: WantedDashboards | null, datasets: readonly Described[], server: object): string {
  const { variants: _, isIncomplete: __, ...what } = wanted ?? { variants: [], isIncomplete: false }
  return createHash('sha256')
    .update(JSON.stringify([what, datasets, server]))
    .digest('hex')
}

/** What may be there while it is being changed: all roles of before and of now. */
function merged(
  before: readonly AppliedVariant[],
  next: ReadonlyMap<string, readonly string[]>,
): readonly AppliedVariant[] {
  const all = new Map<string, ReadonlySet<string>>(before.map(({ variant, roles }) => [variant, new Set(roles)]))
  for (const [variant, roles] of next) all.set(variant, new Set([...(all.get(variant) ?? []), ...roles]))
  return [...all].map(([variant, roles]) => ({ variant, roles: [...roles].sort() }))
}

const DRIVER_FAILED = 'dashboards_driver_failed'

/** What is no SluiceError a driver has not meant for people: not a refusal of the database, and its words are told to nobody. */
async function ofDriver<Result>(ask: () => Promise<Result>): Promise<Result> {
  try {
    return await ask()
  } catch (error) {
    if (isSluiceError(error)) throw error
    throw new SluiceError('INTERNAL', 'the driver of dashboards failed', {
      code: DRIVER_FAILED,
      cause: error,
    })
  }
}

/** For the log: where the driver failed, and not by which words, since those may hold the password that `put` is given. */
function placeOf(error: unknown): string {
  if (!(error instanceof Error)) return typeof error
  const frames = (error.stack ?? '').split('\n').filter((line) => /^ +at /.test(line))
  return [error.name, ...frames].join('\n')
}

function recorded(error: unknown): RecordedError {
  const { code, message, remedy } = isSluiceError(error) ? error : toDatabaseError(error, 'seeing to dashboards')
  return { code, message, remedy }
}
