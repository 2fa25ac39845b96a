/** Children that have done a job and wait for another of the same kind. */
import type { PooledChild } from './child-pool.ts'

interface Kept<Child> {
  readonly child: Child
  readonly owner: string | null
  readonly kind: string
  readonly timer: NodeJS.Timeout
}

/** Each ends when nobody has asked for it in time, and when its place is wanted. */
export class KeptChildren<Child extends PooledChild> {
  readonly #keepMs: number
  /** Whoever waits the longest is first. */
  #idle: readonly Kept<Child>[] = []

  constructor(keepMs: number) {
    this.#keepMs = keepMs
  }

  get size(): number {
    return this.#idle.length
  }

  add(child: Child, owner: string | null, kind: string): void {
    const timer = setTimeout(() => child.kill(), this.#keepMs).unref()
    this.#idle = [...this.#idle, { child, owner, kind, timer }]
    void child.ended.then(() => this.#remove(child))
  }

  /** The one that was at work last, since what it has read before lies nearest. */
  take(kind: string): Child | null {
    const kept = this.#idle.findLast((one) => one.kind === kind)
    if (kept === undefined) return null
    this.#remove(kept.child)
    return kept.child
  }

  /**
   * Ends one, so that its place is free soon: the owner's own, who may have no more places than he has, or else
   * whichever has waited the longest.
   */
  giveWay(owner: string | null): void {
    const kept = this.#idle.find((one) => one.owner === owner) ?? this.#idle[0]
    if (kept === undefined) return
    this.#remove(kept.child)
    kept.child.kill()
  }

  #remove(child: Child): void {
    for (const { timer } of this.#idle.filter((one) => one.child === child)) clearTimeout(timer)
    this.#idle = this.#idle.filter((one) => one.child !== child)
  }
}
