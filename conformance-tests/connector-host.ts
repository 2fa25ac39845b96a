/** The host that checks give to a connector: loopback only, a clock that may be wrong, everything said is kept. */
import { randomBytes } from 'node:crypto'
import { type Clock, type ConnectorHost, type Metrics, type NetworkPolicy, SluiceError } from '@sluice/sdk'
import { type RecordingLogger, simulatedCrash } from './host.ts'

export interface ConnectorHostParts {
  readonly logger: RecordingLogger
  readonly names: readonly string[]
  /** How far the host's clock is ahead of the true time; less than 0 where it is behind. */
  readonly skewMs?: number
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

  constructor({ logger, names, skewMs = 0 }: ConnectorHostParts) {
    this.logger = logger
    this.clock = {
      nowMs: () => Date.now() + skewMs,
      every: (everyMs, run) => {
        const timer = setInterval(() => void run(), everyMs)
        return () => clearInterval(timer)
      },
    }
    this.metrics = {
      count: (name, by, labels) => logger.debug('metric', { name, by, labels }),
      observe: (name, value, labels) => logger.debug('metric', { name, value, labels }),
    }
    const allowed = new Set(['127.0.0.1', 'localhost', ...names])
    this.network = {
      resolve: async (host) => {
        this.hasResolved = true
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
