/** What stores say of their logins and walls when they are asked: at a start, from time to time, and before a tenant is made. */
import type { Logger, ServingStore } from '@sluice/sdk'
import type { PluginSet } from './plugin-set.ts'

/** Why the store is not fit to keep rows of tenants apart; null where it is. */
export async function faultOf(store: ServingStore, signal: AbortSignal): Promise<string | null> {
  const { ok, checks } = await store.probe(signal)
  return ok ? null : (checks.find((check) => !check.ok)?.message ?? 'it does not say why')
}

/** For readiness. Throws where the store says that it is down. */
export function readinessOf(store: ServingStore, fault: string | null): Readonly<Record<string, unknown>> {
  const { status } = store.health()
  if (status === 'down') throw new Error('the store is down')
  return fault === null ? { state: status } : { state: 'degraded', fault }
}

const PROBE_TIMEOUT_MS = 20_000

export class StoreProbes {
  readonly #plugins: PluginSet
  readonly #logger: Logger
  readonly #faults = new Map<string, string>()

  constructor(plugins: PluginSet, logger: Logger) {
    this.#plugins = plugins
    this.#logger = logger
  }

  /** Asks every store. One that does not answer is passed over: its health says so. */
  async review(signal: AbortSignal): Promise<void> {
    for (const { type, store } of this.#plugins.servingTypes()) {
      signal.throwIfAborted()
      const limited = AbortSignal.any([signal, AbortSignal.timeout(PROBE_TIMEOUT_MS)])
      // What keeps it from answering is told by its health.
      const fault = await faultOf(store, limited).catch(() => undefined)
      if (fault === undefined) continue
      if (fault !== null && fault !== this.#faults.get(type)) {
        this.#logger.error('a store does not keep tenants apart by itself', { store: type, fault })
      }
      if (fault === null) this.#faults.delete(type)
      else this.#faults.set(type, fault)
    }
  }

  /** As it was at the last review. */
  fault(type: string): string | null {
    return this.#faults.get(type) ?? null
  }
}
