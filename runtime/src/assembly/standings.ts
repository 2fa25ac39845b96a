import type { Standing } from '../http/guard.ts'

/** How long it is believed that a tenant is active, and how many of those are remembered. */
const AGE_MS = 5_000
const MAX_STANDINGS = 10_000
/** From then on it is asked for anew beside the requests, so that none of them has to wait for it. */
const REFRESH_AFTER_MS = 2_500

interface Known {
  readonly standing: Standing
  /** By `performance.now()`, when it was asked for. */
  readonly sinceMs: number
}

/**
 * What every request asks of its tenant, kept for moments; but for tenants that are not active: those may be from now on.
 * The registry is asked once at a time for each: all of a tenant's requests would else ask it in the same moment.
 */
export class Standings {
  readonly #find: (tenant: string) => Promise<Standing>
  readonly #nowMs: () => number
  readonly #active = new Map<string, Known>()
  readonly #asked = new Map<string, Promise<Standing>>()

  /** @param find asks the registry */
  constructor(find: (tenant: string) => Promise<Standing>, nowMs: () => number = () => performance.now()) {
    this.#find = find
    this.#nowMs = nowMs
  }

  /** At once where it is known. Rejected with what `find` throws. */
  get(tenant: string): Standing | Promise<Standing> {
    const known = this.#active.get(tenant)
    const ageMs = known === undefined ? AGE_MS : this.#nowMs() - known.sinceMs
    if (known === undefined || ageMs >= AGE_MS) return this.#load(tenant)
    // What keeps the registry from answering is told to whoever has to wait for it.
    if (ageMs >= REFRESH_AFTER_MS && !this.#asked.has(tenant)) this.#ask(tenant).catch(() => undefined)
    return known.standing
  }

  /** Whoever asked before may have been told that it is not active yet. */
  async #load(tenant: string): Promise<Standing> {
    const asked = this.#asked.get(tenant)
    if (asked === undefined) return this.#ask(tenant)
    const standing = await asked
    return standing.status === 'active' ? standing : this.#ask(tenant)
  }

  #ask(tenant: string): Promise<Standing> {
    const sinceMs = this.#nowMs()
    const asked = this.#find(tenant)
      .then((standing) => this.#note(tenant, standing, sinceMs))
      .finally(() => {
        if (this.#asked.get(tenant) === asked) this.#asked.delete(tenant)
      })
    this.#asked.set(tenant, asked)
    return asked
  }

  #note(tenant: string, standing: Standing, sinceMs: number): Standing {
    if (standing.status !== 'active') {
      this.#active.delete(tenant)
      return standing
    }
    if (this.#active.size >= MAX_STANDINGS) this.#active.clear()
    this.#active.set(tenant, { standing, sinceMs })
    return standing
  }
}
