/** What runs by the clock beside the runs of tenants: upkeep of the lake, and of tables that only grow. */

import type { EngineLimits } from '@sluice/engine'
import type { Logger } from '@sluice/sdk'
import { inTransaction } from './database/pools.ts'
import { pruneEvents, tenantsWithTopics } from './events/outbox.ts'
import { takeTurn } from './lake/upkeep-turns.ts'
import { reviewStores } from './materializer/store-review.ts'
import type { Platform } from './operations/platform.ts'
import { reviewRegistry } from './operations/products/outdated-registry.ts'
import { undoAbandoned } from './operations/tenants/tenants.ts'
import { keepUp, type UpkeepTask } from './operations/upkeep/lake-upkeep.ts'
import { pruneIdempotencyKeys } from './registry/idempotency.ts'
import type { PagePosition } from './registry/paging.ts'
import { pruneQuarantine } from './registry/quarantine.ts'
import { pruneRateBuckets } from './registry/rate-buckets.ts'
import { listTenants } from './registry/tenants.ts'

const POLL_MS = 30_000
const MINUTE_MS = 60_000
/** Reads look at their own copies; this is for those that nobody reads. */
const REVIEW_MS = 10 * MINUTE_MS
/** Longer than any turn lasts: a runtime that died gives its turn back by then. */
const LEASE_MS = 30 * MINUTE_MS
const TURN_MS = 10 * MINUTE_MS
const PRUNED_AT_ONCE = 1_000
const TENANTS_AT_ONCE = 200

export interface HousekeepingOptions {
  readonly limits: EngineLimits
  /** Between two looks at what is due; default 30 s. */
  readonly pollMs?: number
}

/** One loop a process. Several runtimes share the turns by leases in the registry, so that nothing is done twice. */
export class Housekeeping {
  readonly #platform: Platform
  readonly #options: HousekeepingOptions
  readonly #stop = new AbortController()
  #loop: Promise<void> | null = null
  #reviewedMs = 0

  constructor(platform: Platform, options: HousekeepingOptions) {
    this.#platform = platform
    this.#options = options
  }

  start(): void {
    this.#loop = this.#run()
  }

  /** Ends what is under way at its next step; repeatable. */
  async stop(): Promise<void> {
    this.#stop.abort()
    await this.#loop
  }

  async #run(): Promise<void> {
    const { signal } = this.#stop
    const { logger } = this.#platform
    while (!signal.aborted) {
      await this.#reviewStores(signal)
      await pause(this.#options.pollMs ?? POLL_MS, signal)
      if (signal.aborted) return
      await this.once(signal).catch((error: unknown) => {
        if (!signal.aborted) warn(logger, 'housekeeping failed; it is tried again', error)
      })
    }
  }

  /** At start, and from time to time: each runtime for itself, since stores may be folders of its own. */
  async #reviewStores(signal: AbortSignal): Promise<void> {
    if (Date.now() < this.#reviewedMs + REVIEW_MS) return
    this.#reviewedMs = Date.now()
    await this.#review(signal).catch((error: unknown) => {
      if (!signal.aborted) warn(this.#platform.logger, 'stores could not be reviewed; it is tried again', error)
    })
  }

  async #review(signal: AbortSignal): Promise<void> {
    await reviewStores(this.#platform, signal)
    for await (const tenant of activeTenants(this.#platform)) await reviewRegistry(this.#platform, tenant, signal)
  }

  /** Everything that is due now. */
  async once(signal: AbortSignal): Promise<void> {
    const { upkeep } = this.#platform.config
    await undoAbandoned(this.#platform).catch((error: unknown) =>
      warn(this.#platform.logger, 'tenants whose making was abandoned could not be seen to', error),
    )
    await this.#turn(null, 'prune', upkeep.prune_minutes, () => this.#prune(signal))
    const due: readonly (readonly [UpkeepTask, number])[] = [
      ['expire', upkeep.expire_minutes],
      ['compact', upkeep.compact_minutes],
      ['clean', upkeep.clean_minutes],
    ]
    for await (const tenant of activeTenants(this.#platform)) {
      for (const [task, minutes] of due) {
        signal.throwIfAborted()
        await this.#turn(tenant, task, minutes, () => this.#keepUp(tenant, task, signal))
      }
    }
  }

  async #turn(tenant: string | null, task: string, minutes: number, work: () => Promise<void>): Promise<void> {
    if (minutes === 0) return
    const turn = await takeTurn(this.#platform.pool, tenant, task, { everyMs: minutes * MINUTE_MS, leaseMs: LEASE_MS })
    if (turn === null) return
    try {
      await work()
    } catch (error) {
      if (this.#stop.signal.aborted) return
      warn(this.#platform.logger, `upkeep failed: ${task}`, error)
    } finally {
      await turn.end()
    }
  }

  async #keepUp(tenant: string, task: UpkeepTask, signal: AbortSignal): Promise<void> {
    const { logger } = this.#platform
    const untilMs = Date.now() + TURN_MS
    const report = await keepUp(this.#platform, { tenant, task, untilMs, limits: this.#options.limits }, signal)
    if (report.tables.length > 0) logger.info('the lake was seen to', { tenant, task, tables: report.tables.length })
  }

  async #prune(signal: AbortSignal): Promise<void> {
    const { pool, config } = this.#platform
    const { quarantine_days: days } = config.upkeep
    while ((await pruneQuarantine(pool, days, PRUNED_AT_ONCE)) === PRUNED_AT_ONCE) signal.throwIfAborted()
    while ((await pruneIdempotencyKeys(pool, PRUNED_AT_ONCE)) === PRUNED_AT_ONCE) signal.throwIfAborted()
    while ((await pruneRateBuckets(pool, PRUNED_AT_ONCE)) === PRUNED_AT_ONCE) signal.throwIfAborted()
    for (const tenant of await tenantsWithTopics(pool)) {
      while ((await inTransaction(pool, (tx) => pruneEvents(tx, tenant))) > 0) signal.throwIfAborted()
    }
  }
}

async function* activeTenants({ pool }: Platform): AsyncGenerator<string> {
  let after: PagePosition | null = null
  do {
    const page: Awaited<ReturnType<typeof listTenants>> = await listTenants(pool, { limit: TENANTS_AT_ONCE, after })
    for (const tenant of page.items) if (tenant.status === 'active') yield tenant.slug
    after = page.next
  } while (after !== null)
}

function warn(logger: Logger, message: string, error: unknown): void {
  logger.warn(message, { error: error instanceof Error ? error.message : String(error) })
}

function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    // Of a signal that came before, no event comes any more.
    if (signal.aborted) return resolve()
    const end = () => {
      clearTimeout(timer)
      resolve()
    }
    const timer = setTimeout(() => {
      signal.removeEventListener('abort', end)
      resolve()
    }, ms)
    signal.addEventListener('abort', end, { once: true })
  })
}
