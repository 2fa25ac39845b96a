import { type Clock, SluiceError } from '@sluice/sdk'
import type pg from 'pg'
import { isConnectionLoss } from './driver-errors.ts'
import { Lane, type Planning, type Statement, type TextRow } from './one-sync.ts'

/** Reads under way on one connection; beyond it callers are turned away rather than queued without end. */
const MAX_IN_FLIGHT = 1000

/** After a connection could not be made, the next attempt waits this long. */
const RECONNECT_PAUSE_MS = 250

/** A fixed number of pipelined connections, each made when it is first needed and again after it was lost. */
export class FastReaders {
  readonly #config: pg.ClientConfig
  readonly #clock: Clock
  readonly #slots: (Promise<Lane> | null)[]
  readonly #open: (Lane | null)[]
  readonly #failedAtMs: number[]
  #closed = false

  constructor(config: pg.ClientConfig, size: number, clock: Clock) {
    this.#config = config
    this.#clock = clock
    this.#slots = Array.from({ length: size }, () => null)
    this.#open = Array.from({ length: size }, () => null)
    this.#failedAtMs = Array.from({ length: size }, () => Number.NEGATIVE_INFINITY)
  }

  /** Throws the driver's errors, and TRANSIENT `store_overloaded`. A read whose connection was lost is read again. */
  async read(
    tenant: string,
    planning: Planning,
    statements: readonly Statement[],
  ): Promise<readonly (readonly TextRow[])[]> {
    const lane = await this.#lane()
    try {
      return await lane.read(tenant, planning, statements)
    } catch (error) {
      if (this.#closed || !isWorthAnother(error)) throw error
      const another = await this.#lane()
      return await another.read(tenant, planning, statements)
    }
  }

  /** Ends after the reads under way. */
  async close(): Promise<void> {
    this.#closed = true
    const lanes = await Promise.allSettled(this.#slots.filter((slot) => slot !== null))
    await Promise.allSettled(lanes.map((lane) => (lane.status === 'fulfilled' ? lane.value.close() : undefined)))
  }

  async #lane(): Promise<Lane> {
    if (this.#closed) throw new SluiceError('TRANSIENT', 'the store is closed', { code: 'store_closed' })
    const index = this.#leastBusy()
    const lane = this.#open[index] ?? (await this.#connect(index))
    if (lane.inFlight < MAX_IN_FLIGHT) return lane
    throw new SluiceError('TRANSIENT', 'too many reads are under way in the PostgreSQL store', {
      code: 'store_overloaded',
      remedy: 'Repeat the read a little later, or raise fast_readers in the settings.',
      retryAfterMs: 100,
    })
  }

  /** A connection that is not open counts as idle, but for one that has just failed. */
  #leastBusy(): number {
    const nowMs = this.#clock.nowMs()
    const load = (index: number): number => {
      const lane = this.#open[index]
      if (lane) return lane.inFlight
      return nowMs - (this.#failedAtMs[index] ?? 0) < RECONNECT_PAUSE_MS ? MAX_IN_FLIGHT : 0
    }
    let best = 0
    for (let index = 1; index < this.#slots.length; index += 1) if (load(index) < load(best)) best = index
    return best
  }

  #connect(index: number): Promise<Lane> {
    const pending = this.#slots[index]
    if (pending) return pending
    const lose = (lane: Lane | null) => {
      if (lane !== null && this.#open[index] !== lane) return
      this.#open[index] = null
      this.#slots[index] = null
    }
    const connecting = Lane.connect(this.#config, lose).then(
      (lane) => {
        if (lane.lost) lose(null)
        else this.#open[index] = lane
        return lane
      },
      (error: unknown) => {
        this.#failedAtMs[index] = this.#clock.nowMs()
        lose(null)
        throw error
      },
    )
    this.#slots[index] = connecting
    return connecting
  }
}

/** A lost connection, or a statement that the server has dropped since: nothing of the read has happened. */
function isWorthAnother(error: unknown): boolean {
  const code = (error as { code?: unknown }).code
  return code === '26000' || code === '0A000' || isConnectionLoss(error)
}
