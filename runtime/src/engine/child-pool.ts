import { SluiceError } from '@sluice/sdk'
import { EngineChild } from './engine-child.ts'
import type { OpenPipe } from './pipe.ts'

export interface PoolLimits {
  /** Children with a job at the same time. */
  readonly maxChildren: number
  /** Children that wait for a job: starting one takes up to a second. */
  readonly warmChildren: number
  /** Jobs that may wait for a child; one more is refused. */
  readonly maxQueued: number
  /** A folder of the runtime's own for compiled code: a child that finds it there starts in a third of the time. */
  readonly codeCacheDir?: string
}

interface Waiter {
  readonly admit: () => void
  readonly refuse: (error: SluiceError) => void
}

/** Hands out children, each once. Slots count children that have a job; warm ones come on top. */
export class ChildPool {
  readonly #openPipe: OpenPipe
  readonly #limits: PoolLimits
  readonly #warm: EngineChild[] = []
  readonly #all = new Set<EngineChild>()
  readonly #waiters: Waiter[] = []
  #busy = 0
  #closed = false

  constructor(openPipe: OpenPipe, limits: PoolLimits) {
    this.#openPipe = openPipe
    this.#limits = limits
    this.#refill()
  }

  /** A ready child. Its slot is free again when it has ended. */
  async take(signal: AbortSignal): Promise<EngineChild> {
    await this.#slot(signal)
    let child: EngineChild | undefined
    try {
      child = this.#pick()
      await child.ready
      signal.throwIfAborted()
    } catch (error) {
      child?.kill()
      this.#release()
      throw error
    }
    void child.ended.then(() => this.#release())
    return child
  }

  get closed(): boolean {
    return this.#closed
  }

  async close(): Promise<void> {
    this.#closed = true
    for (const waiter of this.#waiters.splice(0)) waiter.refuse(closedError())
    const children = [...this.#all]
    for (const child of children) child.kill()
    await Promise.all(children.map((child) => child.ended))
  }

  #pick(): EngineChild {
    if (this.#closed) throw closedError()
    const warm = this.#warm.shift() ?? this.#start()
    this.#refill()
    return warm
  }

  #refill(): void {
    while (!this.#closed && this.#warm.length < this.#limits.warmChildren) this.#warm.push(this.#start())
  }

  #start(): EngineChild {
    const child = new EngineChild(this.#openPipe, this.#limits.codeCacheDir ?? null)
    this.#all.add(child)
    void child.ended.then(() => this.#forget(child))
    return child
  }

  #forget(child: EngineChild): void {
    this.#all.delete(child)
    const index = this.#warm.indexOf(child)
    // A warm child that died is not replaced at once: one that cannot start would be started for ever.
    if (index >= 0) this.#warm.splice(index, 1)
  }

  #slot(signal: AbortSignal): Promise<void> {
    signal.throwIfAborted()
    if (this.#closed) throw closedError()
    if (this.#busy < this.#limits.maxChildren) {
      this.#busy++
      return Promise.resolve()
    }
    if (this.#waiters.length >= this.#limits.maxQueued) throw busyError(this.#limits.maxQueued)
    return this.#wait(signal)
  }

  #wait(signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      const leave = () => {
        const index = this.#waiters.indexOf(waiter)
        if (index >= 0) this.#waiters.splice(index, 1)
        reject(signal.reason)
      }
      const waiter: Waiter = {
        admit: () => {
          signal.removeEventListener('abort', leave)
          resolve()
        },
        refuse: (error) => {
          signal.removeEventListener('abort', leave)
          reject(error)
        },
      }
      signal.addEventListener('abort', leave, { once: true })
      this.#waiters.push(waiter)
    })
  }

  #release(): void {
    const next = this.#waiters.shift()
    // The slot passes from one to the next without being free in between.
    if (next) next.admit()
    else this.#busy--
  }
}

function busyError(maxQueued: number): SluiceError {
  return new SluiceError('TRANSIENT', 'too many statements are waiting for the engine', {
    code: 'engine_busy',
    remedy: 'Send the statement again in a moment.',
    retryAfterMs: 1000,
    details: { queued: maxQueued },
  })
}

export function closedError(cause?: unknown): SluiceError {
  return new SluiceError('TRANSIENT', 'the engine is shutting down', { code: 'engine_closed', cause })
}
