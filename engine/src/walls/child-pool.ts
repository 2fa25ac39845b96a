import type { ChildProcess } from 'node:child_process'
import { closeSync, openSync } from 'node:fs'
import { SluiceError } from '@sluice/sdk'
import { KeptChildren } from './kept-children.ts'

/** A process that takes one job, and ends with it, unless it is given back. */
export interface PooledChild {
  /** Fulfilled when it can take a job; rejected when it ends before that. */
  readonly ready: Promise<void>
  /** Fulfilled when the process is gone. Never rejected. */
  readonly ended: Promise<unknown>
  kill(): void
}

export interface PoolLimits {
  /** Children with a job at the same time. */
  readonly maxChildren: number
  /** Children that wait for a job: starting one takes up to a second. */
  readonly warmChildren: number
  /** As many wait until somebody's first job, and so for as long as nobody has any. Default: `warmChildren`. */
  readonly warmAtFirst?: number
  /**
   * The next is started by `warmUp`, and this long after a job has ended, so that its start takes nothing from the job,
   * nor from what follows it. Default: at once, whenever one is missing.
   */
  readonly warmAfterMs?: number
  /** Jobs that may wait for a child; one more is refused. */
  readonly maxQueued: number
  /** Called when a job has to wait: whoever keeps a child without a need ends it. */
  readonly onWait?: () => void
  /** How long a child that was given back waits for another job of its kind. Default: it ends. */
  readonly keepMs?: number
}

export interface PoolLoad {
  readonly slots: number
  /** Slots whose children are at work. */
  readonly busy: number
  /** Jobs that wait for a slot. */
  readonly waiting: number
}

interface Waiter<Child> {
  readonly owner: Owner
  readonly kind: string | null
  /** How many of its owner's that came later were served first, because a child of theirs was there. */
  overtaken: number
  /** With a child that is ready, or with a free slot. */
  readonly admit: (child: Child | null) => void
  readonly refuse: (error: SluiceError) => void
}

/** More would let one kind of job wait for as long as another comes. */
const MAX_OVERTAKEN = 8

export interface TakenChild<Child extends PooledChild> {
  readonly child: Child
  /** Whether it has done a job of this kind before. */
  readonly isKept: boolean
  /** How long all slots were others'; a child's own start is not in it. */
  readonly queuedMs: number
}

/** The deadline came after the slot, and before its child was ready. */
export class LateStart extends Error {
  override readonly name = 'LateStart'
  readonly queuedMs: number

  constructor(queuedMs: number) {
    super('the child was not ready in time')
    this.queuedMs = queuedMs
  }
}

/** Whose job it is: a tenant's, or, where it is null, the runtime's own. */
type Owner = string | null

/**
 * Hands out children, each once, or again for jobs of the kind that it has done. Slots count children that have a job; warm ones come on top. No owner ever has all
 * slots: a tenant's statements leave one to the others, and so do the runtime's own jobs, which wait for as long as a
 * store does that takes their rows. Of those that wait, whoever's owner has the fewest goes first, and of
 * equals those whose owner has not just been served.
 */
export class ChildPool<Child extends PooledChild> {
  readonly #startChild: () => Child
  readonly #limits: PoolLimits
  readonly #warm: Child[] = []
  readonly #all = new Set<Child>()
  readonly #waiters: Waiter<Child>[] = []
  readonly #kept: KeptChildren<Child>
  readonly #busyOf = new Map<Owner, number>()
  #busy = 0
  #warming: NodeJS.Timeout | null = null
  /** Somebody has had a job; the runtime's own, such as its look at the walls, are no sign of more to come. */
  #isAsked = false
  #closed = false

  constructor(startChild: () => Child, limits: PoolLimits) {
    this.#startChild = startChild
    this.#limits = limits
    this.#kept = new KeptChildren(limits.keepMs ?? 0)
    if (limits.warmAfterMs === undefined) this.warmUp()
  }

  /**
   * A ready child. Its slot is free again when it has ended. Rejected with TRANSIENT `engine_busy` where no slot was
   * free in time, with `LateStart` where the deadline came before the child was ready, and else with the caller's reason.
   *
   * @param kind what a child that was given back must have been given back with, to be taken again; null: a new one
   */
  async take(
    owner: Owner,
    deadline: AbortSignal,
    caller: AbortSignal,
    kind: string | null = null,
  ): Promise<TakenChild<Child>> {
    if (owner !== null) this.#isAsked = true
    const askedMs = performance.now()
    const kept = await this.#slot(owner, kind, deadline, caller)
    const queuedMs = performance.now() - askedMs
    if (kept !== null) return { child: kept, isKept: true, queuedMs }
    const stop = AbortSignal.any([deadline, caller])
    let child: Child | undefined
    const kill = () => child?.kill()
    stop.addEventListener('abort', kill)
    try {
      child = this.#pick()
      await child.ready
      stop.throwIfAborted()
    } catch (error) {
      child?.kill()
      this.#release(owner)
      caller.throwIfAborted()
      throw deadline.aborted ? new LateStart(queuedMs) : error
    } finally {
      stop.removeEventListener('abort', kill)
    }
    void child.ended.then(() => {
      this.#release(owner)
      this.#warmLater()
    })
    return { child, isKept: false, queuedMs }
  }

  /**
   * A child of the owner's whose job is done, for the next of that kind. It keeps its slot, unless somebody has waited
   * for one longer.
   */
  giveBack(child: Child, owner: Owner, kind: string): void {
    const next = this.#nextAfter(owner)
    if (next === undefined && !this.#closed && this.#limits.keepMs !== undefined) {
      this.#kept.add(child, owner, kind)
      return
    }
    const waiter = next?.owner === owner ? this.#ofKind(next, kind) : undefined
    if (waiter === undefined) {
      child.kill()
      return
    }
    if (waiter !== next && next !== undefined) next.overtaken += 1
    this.#waiters.splice(this.#waiters.indexOf(waiter), 1)
    waiter.admit(child)
  }

  get load(): PoolLoad {
    const busy = this.#busy - this.#kept.size
    return { slots: this.#limits.maxChildren, busy, waiting: this.#waiters.length }
  }

  get closed(): boolean {
    return this.#closed
  }

  async close(): Promise<void> {
    this.#closed = true
    if (this.#warming !== null) clearTimeout(this.#warming)
    for (const waiter of this.#waiters.splice(0)) waiter.refuse(closedError())
    const children = [...this.#all]
    for (const child of children) child.kill()
    await Promise.all(children.map((child) => child.ended))
  }

  #pick(): Child {
    if (this.#closed) throw closedError()
    const warm = this.#warm.shift() ?? this.#start()
    if (this.#limits.warmAfterMs === undefined) this.warmUp()
    return warm
  }

  /** Starts the children that are to wait for jobs, where they are not there. */
  warmUp(): void {
    const { warmChildren, warmAtFirst = warmChildren } = this.#limits
    const wanted = this.#isAsked ? warmChildren : warmAtFirst
    try {
      while (!this.#closed && this.#warm.length < wanted) this.#warm.push(this.#start())
    } catch {
      // None waits then: the next job starts its own, and is told where that cannot be.
    }
  }

  #warmLater(): void {
    const { warmAfterMs } = this.#limits
    if (warmAfterMs === undefined) {
      this.warmUp()
      return
    }
    this.#warming ??= setTimeout(() => {
      this.#warming = null
      this.warmUp()
    }, warmAfterMs).unref()
  }

  #start(): Child {
    const child = this.#started()
    this.#all.add(child)
    void child.ended.then(() => this.#forget(child))
    return child
  }

  #started(): Child {
    try {
      requireDescriptors()
      return this.#startChild()
    } catch (cause) {
      throw new SluiceError('TRANSIENT', 'the runtime may not open more files or start more processes', {
        code: 'process_not_started',
        cause,
      })
    }
  }

  #forget(child: Child): void {
    this.#all.delete(child)
    const index = this.#warm.indexOf(child)
    // A warm child that died is not replaced at once: one that cannot start would be started for ever.
    if (index >= 0) this.#warm.splice(index, 1)
  }

  /** A child that was kept, with its slot; null: a slot for a new one. */
  async #slot(owner: Owner, kind: string | null, deadline: AbortSignal, caller: AbortSignal): Promise<Child | null> {
    caller.throwIfAborted()
    deadline.throwIfAborted()
    if (this.#closed) throw closedError()
    const kept = kind === null ? null : this.#kept.take(kind)
    if (kept !== null) return kept
    if (this.#mayStart(owner)) {
      this.#occupy(owner)
      return null
    }
    if (this.#waiters.length >= this.#limits.maxQueued)
      throw busyError('too many statements are waiting for the engine')
    return await this.#wait(owner, kind, deadline, caller)
  }

  #mayStart(owner: Owner): boolean {
    const { maxChildren } = this.#limits
    if (this.#busy >= maxChildren) return false
    return maxChildren === 1 || this.#count(owner) < maxChildren - 1
  }

  #count(owner: Owner): number {
    return this.#busyOf.get(owner) ?? 0
  }

  #occupy(owner: Owner): void {
    this.#busy += 1
    this.#busyOf.set(owner, this.#count(owner) + 1)
  }

  #wait(owner: Owner, kind: string | null, deadline: AbortSignal, caller: AbortSignal): Promise<Child | null> {
    const { promise, resolve, reject } = Promise.withResolvers<Child | null>()
    const waiter: Waiter<Child> = { owner, kind, overtaken: 0, admit: resolve, refuse: reject }
    const giveUp = (reason: unknown) => {
      const at = this.#waiters.indexOf(waiter)
      if (at < 0) return
      this.#waiters.splice(at, 1)
      reject(reason)
    }
    const late = () => giveUp(busyError('the engine was busy with other statements for all of the time'))
    const called = () => giveUp(caller.reason)
    deadline.addEventListener('abort', late)
    caller.addEventListener('abort', called)
    this.#waiters.push(waiter)
    this.#kept.giveWay(owner)
    this.#limits.onWait?.()
    // Not by the option `signal`: of several listeners to one signal Node forgets to remove all but the last.
    return promise.finally(() => {
      deadline.removeEventListener('abort', late)
      caller.removeEventListener('abort', called)
    })
  }

  #release(owner: Owner): void {
    this.#vacate(owner)
    const next = this.#next(owner)
    if (!next) return
    this.#waiters.splice(this.#waiters.indexOf(next), 1)
    this.#occupy(next.owner)
    next.admit(null)
  }

  #vacate(owner: Owner): void {
    this.#busy -= 1
    const left = this.#count(owner) - 1
    if (left > 0) this.#busyOf.set(owner, left)
    else this.#busyOf.delete(owner)
  }

  /** Who would be next if a slot of the owner's became free now. */
  #nextAfter(owner: Owner): Waiter<Child> | undefined {
    this.#vacate(owner)
    const next = this.#next(owner)
    this.#occupy(owner)
    return next
  }

  /** The next one itself, or another of its owner's that the child can serve at once. */
  #ofKind(next: Waiter<Child>, kind: string): Waiter<Child> | undefined {
    if (next.kind === kind || next.overtaken >= MAX_OVERTAKEN) return next.kind === kind ? next : undefined
    return this.#waiters.find((waiter) => waiter.owner === next.owner && waiter.kind === kind)
  }

  /** @param served whose slot it was: of equals, all others come before him */
  #next(served: Owner): Waiter<Child> | undefined {
    const ready = this.#waiters.filter((waiter) => this.#mayStart(waiter.owner))
    const place = ({ owner }: Waiter<Child>) => this.#count(owner) + (owner === served ? 0.5 : 0)
    const [first] = ready
    return ready.reduce((best, waiter) => (best && place(best) <= place(waiter) ? best : waiter), first)
  }
}

/** Of a process of ours with all its lines there are at most ten while it is started. */
const DESCRIPTORS_OF_START = 16

/** Throws where there are fewer: with some of its lines made, Node leaves those open for good where the next cannot be. */
function requireDescriptors(): void {
  const held: number[] = []
  try {
    while (held.length < DESCRIPTORS_OF_START) held.push(openSync('/dev/null', 'r'))
  } finally {
    for (const descriptor of held) closeSync(descriptor)
  }
}

/** As it was spawned. Throws where the system had no descriptors left for its lines, of which Node makes a process without any. */
export function withLines<Child extends ChildProcess>(child: Child): Child {
  if ((child.stdio as unknown) !== undefined) return child
  // It is told of by an event as well, which would end this process where nobody listens.
  child.once('error', () => undefined)
  throw new Error('no descriptors are left for a process')
}

export function busyError(message: string): SluiceError {
  return new SluiceError('TRANSIENT', message, {
    code: 'engine_busy',
    remedy: 'Send the statement again in a moment.',
    retryAfterMs: 1000,
  })
}

export function closedError(cause?: unknown): SluiceError {
  return new SluiceError('TRANSIENT', 'the engine is shutting down', { code: 'engine_closed', cause })
}
