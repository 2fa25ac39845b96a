/**
 * The one listener of several processes that serve: it accepts connections, reads nothing of them, and gives each to the
 * process that has the fewest. The kernel would spread them by chance (SO_REUSEPORT), and connections that are kept alive, of
 * which a balancer has few, would stay where chance has put them.
 */
import { createServer, type Socket } from 'node:net'
import { networkOf } from './address.ts'
import { acceptWaiting, listen, type ServerOptions } from './server.ts'
import { passOverConnections } from './shut-door.ts'

export interface ReceptionOptions extends Pick<ServerOptions, 'host' | 'port'> {
  readonly maxConnections: number
  /** Of one address, over all processes; null where all come from proxies. */
  readonly maxPerAddress: number | null
}

/** One process that takes connections. */
export interface Seat {
  /** It has the connection now. Gives what this process has of it; null where it was told before. */
  taken(id: number): Socket | null
  /** A connection that it was given has ended. */
  left(id: number): void
  /**
   * It has heard all that it was told up to this connection. Those that it has not taken by then have not reached it, as where it has
   * no room for another open file: they are given to others.
   */
  heard(id: number): void
  /** Whether it was given a connection that it has not taken. */
  readonly isAwaited: boolean
  /** It is given none any more. Those that it had are forgotten, and those that it has not taken yet are given to others. */
  remove(): void
}

interface Process {
  readonly take: (socket: Socket, id: number) => void
  /** Addresses of those that it was given, until they end. */
  readonly open: Map<number, string>
  readonly untaken: Map<number, Socket>
  /** When it was last found that a connection has not reached it. */
  lostAtMs: number
}

/** One that is held up, or has ended unnoticed, is given no more. */
const MOST_UNTAKEN = 16
/** Nor is one that connections do not reach, for so long. */
const UNREACHED_MS = 5_000

export class Reception {
  readonly #options: ReceptionOptions
  readonly #listener = createServer({ pauseOnConnect: true, allowHalfOpen: true, noDelay: true })
  /** Whoever was given the last connection stands last, so that equals take turns. */
  #processes: readonly Process[] = []
  readonly #byAddress = new Map<string, number>()
  #open = 0
  #last = 0

  constructor(options: ReceptionOptions) {
    this.#options = options
    this.#listener.on('connection', (socket) => this.#receive(socket))
  }

  /** @param take is given connections that are paused, and tells their ends to the seat */
  admit(take: Process['take']): Seat {
    const process: Process = { take, open: new Map(), untaken: new Map(), lostAtMs: Number.NEGATIVE_INFINITY }
    this.#processes = [process, ...this.#processes]
    return {
      taken: (id) => {
        const socket = process.untaken.get(id) ?? null
        process.untaken.delete(id)
        return socket
      },
      left: (id) => this.#leave(process, id),
      heard: (id) => this.#giveLost(process, id),
      get isAwaited() {
        return process.untaken.size > 0
      },
      remove: () => {
        this.#processes = this.#processes.filter((one) => one !== process)
        const untaken = [...process.untaken.values()]
        process.untaken.clear()
        for (const id of [...process.open.keys()]) this.#leave(process, id)
        for (const socket of untaken) this.#receive(socket)
      },
    }
  }

  /** How many processes take connections. */
  get size(): number {
    return this.#processes.length
  }

  /** Rejects where the address cannot be had. */
  async listen(): Promise<void> {
    await listen(this.#listener, this.#options)
  }

  /** @param drain tells all processes, before those who have connected by now are given to them */
  async close(drain: () => void): Promise<void> {
    passOverConnections(this.#listener)
    drain()
    await acceptWaiting(this.#listener)
    this.#listener.close()
  }

  #receive(socket: Socket): void {
    const address = networkOf(socket.remoteAddress ?? '')
    const count = this.#byAddress.get(address) ?? 0
    const { maxConnections, maxPerAddress } = this.#options
    const process = this.#leastBusy()
    const isTooMany = this.#open >= maxConnections || (maxPerAddress !== null && count >= maxPerAddress)
    if (process === null || isTooMany) {
      socket.destroy()
      return
    }
    this.#last += 1
    this.#open += 1
    this.#byAddress.set(address, count + 1)
    process.open.set(this.#last, address)
    process.untaken.set(this.#last, socket)
    process.take(socket, this.#last)
  }

  #giveLost(process: Process, upTo: number): void {
    const lost = [...process.untaken].filter(([id]) => id <= upTo)
    if (lost.length > 0) process.lostAtMs = performance.now()
    for (const [id, socket] of lost) {
      this.#leave(process, id)
      this.#receive(socket)
    }
  }

  #leastBusy(): Process | null {
    let least: Process | null = null
    const reachedMs = performance.now() - UNREACHED_MS
    const ready = this.#processes.filter(({ untaken, lostAtMs }) => untaken.size < MOST_UNTAKEN && lostAtMs < reachedMs)
    for (const process of ready.length > 0 ? ready : this.#processes) {
      if (least === null || process.open.size < least.open.size) least = process
    }
    if (least !== null) this.#processes = [...this.#processes.filter((one) => one !== least), least]
    return least
  }

  #leave(process: Process, id: number): void {
    const address = process.open.get(id)
    if (address === undefined) return
    process.open.delete(id)
    process.untaken.delete(id)
    this.#open -= 1
    const count = this.#byAddress.get(address) ?? 0
    if (count > 1) this.#byAddress.set(address, count - 1)
    else this.#byAddress.delete(address)
  }
}
