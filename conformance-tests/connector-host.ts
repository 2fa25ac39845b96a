/** The host that checks give to a connector: loopback only, a clock that may be wrong, everything said is kept. */
import { randomBytes } from 'node:crypto'
import { type Clock, type ConnectorHost, type Metrics, type NetworkPolicy, SluiceError } from '@sluice/sdk'
import { type RecordingLogger, simulatedCrash } from './host.ts'

export interface ConnectorHostParts {
  readonly logger: RecordingLogger
  readonly names: readonly string[]
  /** How far the host's clock is ahead of the true time; less than 0 where it is behind. */
  readonly skewMs?: number
  /** Where the host lets what it is asked for wait. */
  readonly hold?: Hold
}

/**
 * Keeps who asks for an address until it is released, or who asks has left; while it does, no timer of the host's clock goes off,
 * so that nothing but its caller's leaving can end a call.
 */
export class Hold {
  readonly #reached = Promise.withResolvers<void>()
  readonly #released = Promise.withResolvers<void>()
  isHeld = true

  /** Resolves once somebody waits. */
  get reached(): Promise<void> {
    return this.#reached.promise
  }

  reach(): void {
    this.#reached.resolve()
  }

  release(): void {
    this.isHeld = false
    this.#released.resolve()
  }

  async wait(signal: AbortSignal): Promise<void> {
    if (!this.isHeld) return
    this.reach()
    const { promise: left, resolve: leave } = Promise.withResolvers<void>()
    const onAbort = () => leave()
    signal.addEventListener('abort', onAbort)
    if (!signal.aborted) await Promise.race([this.#released.promise, left])
    signal.removeEventListener('abort', onAbort)
    if (signal.aborted) throw new SluiceError('TRANSIENT', 'whoever asked has left', { code: 'aborted' })
  }
}

export class TestConnectorHost implements ConnectorHost {
  readonly logger: RecordingLogger
  readonly clock: Clock
  readonly metrics: Metrics
  readonly network: NetworkPolicy
  readonly met: string[] = []
  /** Whether the connector has asked for an address. */
  hasResolved = false
  #crashAt: number | null = null

  constructor({ logger, names, skewMs = 0, hold }: ConnectorHostParts) {
    this.logger = logger
    this.clock = {
      nowMs: () => Date.now() + skewMs,
      every: (everyMs, run) => {
        const timer = setInterval(() => void (hold?.isHeld || run()), everyMs)
        return () => clearInterval(timer)
      },
    }
    this.metrics = {
      count: (name, by, labels) => logger.debug('metric', { name, by, labels }),
      observe: (name, value, labels) => logger.debug('metric', { name, value, labels }),
    }
    const allowed = new Set(['127.0.0.1', 'localhost', ...names])
    this.network = {
      resolve: async (host, _port, signal) => {
        this.hasResolved = true
        await hold?.wait(signal)
        if (allowed.has(host)) return { address: '127.0.0.1', family: 4 }
        throw new SluiceError('PERMISSION', `connections to ${host} are not allowed`, {
          code: 'address_refused',
          remedy: 'Name a host that the network policy allows.',
        })
      },
      allowsCleartextPassword: () => false,
    }
  }

  /** Ends the process at the n-th fault point from now, counted from 0. */
  crashAt(index: number): void {
    this.#crashAt = this.met.length + index
  }

  randomBytes(count: number): Uint8Array {
    return randomBytes(count)
  }

  faultPoint = async (name: string): Promise<void> => {
    const index = this.met.length
    this.met.push(name)
    if (this.#crashAt !== null && index >= this.#crashAt) throw simulatedCrash(name)
  }
}
