/** Where one open connection may go: what its names led to when they were first asked for, and nowhere else. */
import { type NetworkPolicy, SluiceError } from '@sluice/sdk'
import type { ResolvedAddress } from './source-protocol.ts'

/** Of host and port. A driver of a cluster has several. */
const MAX_PLACES = 64

export class SourcePlaces {
  readonly #network: NetworkPolicy
  /** Null: the settings name no host of their own, so that the connector knows where to go. */
  readonly #host: string | null
  readonly #found = new Map<string, Promise<ResolvedAddress>>()
  #isReached = false

  constructor(network: NetworkPolicy, settings: Readonly<Record<string, unknown>>) {
    this.#network = network
    const host = settings['host']
    this.#host = typeof host === 'string' ? host : null
  }

  /** The address of that host, looked up once. Throws PERMISSION `address_refused`. */
  resolve(host: string, port: number, signal: AbortSignal): Promise<ResolvedAddress> {
    const key = `${host} ${port}`
    const known = this.#found.get(key)
    if (known) return known
    if (this.#host !== null && host !== this.#host) throw refused()
    if (this.#found.size >= MAX_PLACES) throw refused()
    const found = this.#lookUp(host, port, signal)
    this.#found.set(key, found)
    found.catch(() => this.#found.delete(key))
    return found
  }

  /** Throws PERMISSION `address_refused` where that address has not been found for this connection. */
  async known(address: string, port: number, signal: AbortSignal): Promise<ResolvedAddress> {
    for (const [key, found] of this.#found) {
      // Whoever looked that one up was told; here only those count that were found.
      const place = await found.catch(() => null)
      if (place?.address === address && key.endsWith(` ${port}`)) return place
    }
    return this.resolve(address, port, signal)
  }

  /** Whether the source has been spoken to: a failure is then its own, or of what it said. */
  get isReached(): boolean {
    return this.#isReached
  }

  reached(): void {
    this.#isReached = true
  }

  get isResolved(): boolean {
    return this.#found.size > 0
  }

  /** Where nothing answers, the next attempt looks anew: a server may have moved. */
  forget(address: string): void {
    for (const [key, found] of this.#found) {
      void found.then(
        (place) => {
          if (place.address === address) this.#found.delete(key)
        },
        () => undefined,
      )
    }
  }

  async #lookUp(host: string, port: number, signal: AbortSignal): Promise<ResolvedAddress> {
    const { address, family } = await this.#network.resolve(host, port, signal)
    return { address, family, allowsCleartextPassword: this.#network.allowsCleartextPassword(address) }
  }
}

function refused(): SluiceError {
  return new SluiceError('PERMISSION', 'connections to that address are not allowed', {
    code: 'address_refused',
    remedy: 'Name in the settings the host that is to be read.',
  })
}
