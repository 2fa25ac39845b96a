/** Events as a stream: what is kept since a given one, then what comes, each exactly once and in order. */
import { SluiceError } from '@sluice/sdk'
import type pg from 'pg'
import type { DatabaseAddress } from '../database/address.ts'
import { type Listener, openListener } from '../database/listener.ts'
import { inTransaction } from '../database/pools.ts'
import { Bell } from '../jobs/bell.ts'
import type { CloudEvent } from './envelope.ts'
import { EVENTS_CHANNEL, eventBounds, hasUnnumbered, numberEvents, readEvents } from './outbox.ts'

export interface EventFeedOptions {
  readonly pool: pg.Pool
  /** For the connection that listens; the same database. */
  readonly address: DatabaseAddress
  /** How often is looked without being told, in case a notification was lost. Default 5 s. */
  readonly pollMs?: number
}

const POLL_MS = 5000
const BATCH = 200

/** All followers of this process share one listening connection. */
export class EventFeed {
  readonly #pool: pg.Pool
  readonly #pollMs: number
  readonly #listener: Listener
  readonly #followers = new Map<string, Set<() => void>>()
  readonly #closing = new AbortController()

  constructor(options: EventFeedOptions) {
    this.#pool = options.pool
    this.#pollMs = options.pollMs ?? POLL_MS
    this.#listener = openListener(options.address, {
      applicationName: 'sluice-events',
      channels: { [EVENTS_CHANNEL]: (tenant) => this.#wake(tenant) },
      onLost: () => undefined,
      // What was announced in between is found by looking.
      onReady: () => this.#wakeAll(),
    })
  }

  /**
   * The tenant's events after that number (0: all that are kept; null: only those to come), until the signal, the
   * feed's end or the tenant's. Throws CONFLICT `events_expired` where retention has removed the next one, and INVALID_DATA
   * `event_unknown` for a number that was never given.
   */
  async *follow(tenant: string, after: number | null, signal: AbortSignal): AsyncGenerator<CloudEvent, void, void> {
    const ended = AbortSignal.any([signal, this.#closing.signal])
    const bell = new Bell()
    this.#add(tenant, bell.ring)
    try {
      let position = after ?? (await this.#last(tenant))
      while (!ended.aborted) {
        bell.clear()
        const events = await this.#next(tenant, position)
        if (events === null) return
        for (const event of events) {
          if (ended.aborted) return
          yield event
          position = Number(event.sequence)
        }
        if (events.length === 0) await bell.heard(this.#pollMs, ended)
      }
    } finally {
      this.#remove(tenant, bell.ring)
    }
  }

  /** Rings with each event of the tenant's, until it is disposed of. */
  announcements(tenant: string): Bell & Disposable {
    const bell = new Bell()
    this.#add(tenant, bell.ring)
    return Object.assign(bell, { [Symbol.dispose]: () => this.#remove(tenant, bell.ring) })
  }

  async close(): Promise<void> {
    this.#closing.abort()
    await this.#listener.close()
  }

  /** Where the stream of those to come begins: after everything that is committed now. */
  async #last(tenant: string): Promise<number> {
    await this.#number(tenant)
    return (await eventBounds(this.#pool, tenant))?.last ?? 0
  }

  /** Null where the tenant's topics are gone. */
  async #next(tenant: string, position: number): Promise<readonly CloudEvent[] | null> {
    await this.#number(tenant)
    const events = await readEvents(this.#pool, tenant, position, BATCH)
    if (events[0] !== undefined && Number(events[0].sequence) === position + 1) return events
    // Read after the events: retention may have come in between.
    const bounds = await eventBounds(this.#pool, tenant)
    if (bounds === null) return null
    // From 0 on means from the oldest that is kept.
    if (position > 0 && position < bounds.removed) throw expired(bounds.removed)
    if (position > bounds.last) throw unknownEvent(bounds.last)
    return events
  }

  async #number(tenant: string): Promise<void> {
    while (await hasUnnumbered(this.#pool, tenant)) {
      const numbered = await inTransaction(this.#pool, (tx) => numberEvents(tx, tenant))
      if (numbered === 0) return
    }
  }

  #add(tenant: string, ring: () => void): void {
    const rings = this.#followers.get(tenant) ?? new Set()
    this.#followers.set(tenant, rings.add(ring))
  }

  #remove(tenant: string, ring: () => void): void {
    const rings = this.#followers.get(tenant)
    rings?.delete(ring)
    if (rings?.size === 0) this.#followers.delete(tenant)
  }

  #wake(tenant: string): void {
    for (const ring of this.#followers.get(tenant) ?? []) ring()
  }

  #wakeAll(): void {
    for (const tenant of this.#followers.keys()) this.#wake(tenant)
  }
}

function expired(removed: number): SluiceError {
  return new SluiceError('CONFLICT', 'the events after that one are no longer kept', {
    code: 'events_expired',
    remedy: 'Read the present state, then follow the events from the oldest that is kept.',
    details: { oldest: removed + 1 },
  })
}

function unknownEvent(last: number): SluiceError {
  return new SluiceError('INVALID_DATA', 'no event has that number yet', {
    code: 'event_unknown',
    remedy: 'Resume from the number of an event that you have received.',
    details: { last },
  })
}
