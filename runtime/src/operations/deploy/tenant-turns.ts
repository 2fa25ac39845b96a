/** One piece of work of a tenant at a time in a runtime, in the order in which they were asked for: each may fill a part of the disk. */
import type { Engine } from '@sluice/engine'
import { SluiceError } from '@sluice/sdk'

const MOST_WAITING = 10

export class TenantTurns {
  /** Of tenants whose turn it is: those that wait behind it. */
  readonly #waiting = new Map<string, (() => void)[]>()

  /** Gives what ends the turn, to be called once. Rejected with the signal's reason, or QUOTA `too_many_at_once`. */
  async take(tenant: string, signal: AbortSignal): Promise<() => void> {
    signal.throwIfAborted()
    const waiting = this.#waiting.get(tenant)
    if (waiting === undefined) this.#waiting.set(tenant, [])
    else await this.#wait(waiting, signal)
    return () => this.#end(tenant)
  }

  /** Rejected as `take` is, and as the work. */
  async within<T>(tenant: string, signal: AbortSignal, work: () => Promise<T>): Promise<T> {
    const end = await this.take(tenant, signal)
    try {
      return await work()
    } finally {
      end()
    }
  }

  #wait(waiting: (() => void)[], signal: AbortSignal): Promise<void> {
    if (waiting.length >= MOST_WAITING) throw tooMany()
    return new Promise((resolve, reject) => {
      const leave = () => {
        waiting.splice(waiting.indexOf(begin), 1)
        reject(signal.reason)
      }
      const begin = () => {
        signal.removeEventListener('abort', leave)
        resolve()
      }
      signal.addEventListener('abort', leave, { once: true })
      waiting.push(begin)
    })
  }

  #end(tenant: string): void {
    const next = this.#waiting.get(tenant)?.shift()
    if (next === undefined) this.#waiting.delete(tenant)
    else next()
  }
}

function tooMany(): SluiceError {
  return new SluiceError('QUOTA', 'too much of this tenant waits for its turn', {
    code: 'too_many_at_once',
    remedy: 'Wait for earlier ones to end.',
    retryAfterMs: 1_000,
  })
}

/** Statements of ours over the tenant's rows take its turns of the engine too, and are paid for by it. */
export function inTurnOf(engine: Pick<Engine, 'run'>, tenant: string): Pick<Engine, 'run'> {
  return { run: (job, signal) => engine.run({ ...job, tenant }, signal) }
}
