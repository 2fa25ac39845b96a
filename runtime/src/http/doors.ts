/** Who may hold a connection: places are few, and whoever takes one without a word, or many, keeps others out. */
import type { Server, Socket } from 'node:net'
import { networkOf } from './address.ts'

export interface DoorLimits {
  /** Until the first byte of a connection. */
  readonly firstByteMs: number
  readonly mostConnections: number
  /** Of one address, or of one /64 of IPv6; null where all come from proxies. */
  readonly mostPerAddress: number | null
}

/** Of all places; above it, who has shown no valid token makes room, the oldest first. */
const CROWDED = 0.9
const SWEEP_MS = 500

/** Connections on which a token was verified. */
const known = new WeakSet<object>()

/** Keeps the connection where others have to make room. */
export function markKnown(socket: object): void {
  known.add(socket)
}

interface Visitor {
  readonly socket: Socket
  readonly sinceMs: number
}

export class Doors {
  readonly #limits: DoorLimits
  readonly #byAddress = new Map<string, number>()
  #count = 0
  /** Oldest first; those that are known leave when they are met. */
  readonly #unknown = new Set<Socket>()
  /** Without a byte, oldest first. */
  readonly #silent = new Set<Visitor>()
  readonly #timer: NodeJS.Timeout

  constructor(server: Server, limits: DoorLimits) {
    this.#limits = limits
    this.#timer = setInterval(() => this.#sweep(), Math.min(SWEEP_MS, limits.firstByteMs)).unref()
    server.prependListener('connection', (socket) => this.#enter(socket))
    server.once('close', () => clearInterval(this.#timer))
  }

  #enter(socket: Socket): void {
    const address = networkOf(socket.remoteAddress ?? '')
    const count = this.#byAddress.get(address) ?? 0
    const { mostPerAddress, mostConnections } = this.#limits
    if (mostPerAddress !== null && count >= mostPerAddress) {
      socket.destroy()
      return
    }
    if (this.#count >= mostConnections * CROWDED) this.#makeRoom()
    this.#count += 1
    this.#byAddress.set(address, count + 1)
    this.#unknown.add(socket)
    const visitor = { socket, sinceMs: performance.now() }
    this.#silent.add(visitor)
    socket.once('close', () => this.#leave(visitor, address))
  }

  #leave(visitor: Visitor, address: string): void {
    this.#count -= 1
    this.#unknown.delete(visitor.socket)
    this.#silent.delete(visitor)
    const count = this.#byAddress.get(address) ?? 0
    if (count > 1) this.#byAddress.set(address, count - 1)
    else this.#byAddress.delete(address)
  }

  #makeRoom(): void {
    for (const socket of this.#unknown) {
      this.#unknown.delete(socket)
      if (known.has(socket) || socket.destroyed) continue
      socket.destroy()
      return
    }
  }

  #sweep(): void {
    const beforeMs = performance.now() - this.#limits.firstByteMs
    const late: Socket[] = []
    for (const visitor of this.#silent) {
      if (visitor.sinceMs > beforeMs) break
      this.#silent.delete(visitor)
      late.push(visitor.socket)
    }
    // After what the kernel has taken meanwhile: where this process was held up for so long, nobody else was.
    const end = () => {
      for (const socket of late) if (socket.bytesRead === 0) socket.destroy()
    }
    if (late.length > 0) setImmediate(end)
  }
}
