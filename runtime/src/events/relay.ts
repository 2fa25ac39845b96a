/**
 * Carries events from the outbox to the bus: each at least once, in the order of its tenant's numbers. Of all processes on
 * a registry one does it at a time, by a lease; one that lost it in the middle can send events twice, and moves nothing.
 */
import { randomUUID } from 'node:crypto'
import { type EventBus, isSluiceError, type Logger } from '@sluice/sdk'
import type pg from 'pg'
import type { DatabaseAddress } from '../database/address.ts'
import { inTransaction } from '../database/pools.ts'
import { busTenant } from './bus-tenant.ts'
import { toBusMessage } from './envelope.ts'
import { hasUnnumbered, listTopics, numberEvents, readEvents } from './outbox.ts'
import {
  acquireRelay,
  enlistTenants,
  moveRelay,
  type RelayLease,
  releaseRelay,
  type TenantPosition,
  tenantsToRelay,
} from './relay-positions.ts'
import { runInRounds } from './rounds.ts'

export interface RelayOptions {
  readonly pool: pg.Pool
  /** For the connection that listens; the same database. */
  readonly address: DatabaseAddress
  readonly bus: EventBus
  readonly logger: Logger
  /** Of the bus: positions are kept for each. */
  readonly name: string
  /** Whether the tenant is there, and nobody makes or removes it. */
  readonly isActive: (tenant: string) => Promise<boolean>
  /** Default 15 s. */
  readonly leaseMs?: number
  /** How often is looked without being told. Default 2 s. */
  readonly pollMs?: number
}

const LEASE_MS = 15_000
const POLL_MS = 2000
const EVENTS_AT_ONCE = 200
const TENANTS_AT_ONCE = 100

export class EventRelay {
  readonly #options: Required<RelayOptions>
  readonly #owner = randomUUID()
  readonly #stop = new AbortController()
  readonly #rounds: Promise<void>
  #lease: RelayLease | null = null
  /** Tenants whose topics were made, or found, since this process began. */
  readonly #topicsOf = new Set<string>()
  /** Tenants that the bus takes nothing of. */
  readonly #refused = new Set<string>()

  constructor(options: RelayOptions) {
    this.#options = { leaseMs: LEASE_MS, pollMs: POLL_MS, ...options }
    const { address, logger, pollMs, pool } = this.#options
    this.#rounds = runInRounds({
      address,
      applicationName: 'sluice-relay',
      pollMs,
      round: () => this.#round(),
      failed: (error, isNews) => {
        const code = isSluiceError(error) ? error.code : 'internal_error'
        if (isNews) logger.warn('events wait for the bus', { code })
      },
      ended: async () => {
        // One that is not given back ends by itself.
        if (this.#lease !== null) await releaseRelay(pool, this.#lease).catch(() => undefined)
      },
      signal: this.#stop.signal,
    })
  }

  /** Ends after the batch that is under way, and lets another process go on. Repeatable. */
  async close(): Promise<void> {
    this.#stop.abort()
    await this.#rounds
  }

  /** Everything that is there now; nothing where another process has the relay. */
  async #round(): Promise<void> {
    const { pool, name, leaseMs } = this.#options
    let hasMore = true
    while (hasMore && !this.#stop.signal.aborted) {
      this.#lease = await acquireRelay(pool, name, this.#owner, leaseMs)
      if (this.#lease === null) return
      hasMore = false
      await enlistTenants(pool, name)
      const positions = await tenantsToRelay(pool, name, TENANTS_AT_ONCE)
      for (const position of positions) hasMore = (await this.#relayTenant(this.#lease, position)) || hasMore
    }
  }

  /** Whether there may be more of the tenant. */
  async #relayTenant(lease: RelayLease, { tenant, sequence }: TenantPosition): Promise<boolean> {
    const { pool, bus, name, leaseMs } = this.#options
    if (this.#stop.signal.aborted) return false
    if (await hasUnnumbered(pool, tenant)) await inTransaction(pool, (tx) => numberEvents(tx, tenant))
    const events = await readEvents(pool, tenant, sequence, EVENTS_AT_ONCE)
    const last = events.at(-1)
    if (last === undefined) return false
    const isTaken = await this.#ensureTopics(tenant)
    // Only who has it still may send: the lease is renewed before each batch, and outlasts the sending of one.
    const renewed = await acquireRelay(pool, name, this.#owner, leaseMs)
    if (renewed?.token !== lease.token) return false
    if (isTaken) await bus.publish(events.map(toBusMessage))
    const position = { tenant, sequence: Number(last.sequence) }
    const isMoved = await inTransaction(pool, (tx) => moveRelay(tx, lease, position))
    return isMoved && events.length === EVENTS_AT_ONCE
  }

  /**
   * A bus may be another one than when the tenant was made, or the first: topics are made before the first event goes there.
   * False where the bus may take nothing of the tenant, whose events are passed over.
   */
  async #ensureTopics(tenant: string): Promise<boolean> {
    const { bus, pool, isActive, logger, name } = this.#options
    if (!bus.admits(tenant)) {
      if (!this.#refused.has(tenant)) {
        const remedy = `Name cleared readers of events.${name} so that no tenant is like them, and start again.`
        logger.warn('the bus takes no events of a tenant whose login would read rows of another', { tenant, remedy })
      }
      this.#refused.add(tenant)
      return false
    }
    if (this.#topicsOf.has(tenant) || !(await isActive(tenant))) return true
    await bus.provision(busTenant(tenant), await listTopics(pool, tenant))
    // Whoever removes the tenant may have removed its topics in between; who begins later finds these.
    if (await isActive(tenant)) this.#topicsOf.add(tenant)
    else await bus.drop(busTenant(tenant))
    return true
  }
}
