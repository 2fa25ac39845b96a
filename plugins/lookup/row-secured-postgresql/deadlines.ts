import { type Clock, isCalledOff, type ReadPlan, SluiceError } from '@sluice/sdk'

/** How late it may be noticed that a read is over. */
const TICK_MS = 25

/** Who waits for a read, and may call it off. */
export type Caller = Pick<ReadPlan, 'signal' | 'isCalledOff'>

/** Something that is looked after while it is watched. */
export interface Watched {
  look(nowMs: number): void
}

/**
 * The ends of many short reads on one timer, which stops where it finds none, and not between two of them: to start it for each,
 * or to listen to a signal of each, would cost more than what else is done for it here.
 */
export class Deadlines {
  readonly #clock: Clock
  readonly #open = new Set<Watched>()
  #stop: (() => void) | null = null
  #isClosed = false

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** `end` has to be called, whatever happened. */
  start(timeoutMs: number, caller: Caller): Deadline {
    const nowMs = this.#clock.nowMs()
    const deadline = new Deadline(nowMs + timeoutMs, caller, (ended) => this.unwatch(ended))
    this.watch(deadline)
    // Not at the next tick, before which an answer may come.
    if (timeoutMs <= 0) deadline.look(nowMs)
    return deadline
  }

  /** Until `unwatch`. */
  watch(watched: Watched): void {
    this.#open.add(watched)
    this.#stop ??= this.#clock.every(TICK_MS, () => this.#tick())
  }

  unwatch(watched: Watched): void {
    this.#open.delete(watched)
    if (this.#isClosed) this.#rest()
  }

  /** From here on the timer goes with the last that is watched. */
  close(): void {
    this.#isClosed = true
    this.#rest()
  }

  #tick(): void {
    const nowMs = this.#clock.nowMs()
    for (const watched of this.#open) watched.look(nowMs)
    this.#rest()
  }

  #rest(): void {
    if (this.#open.size > 0) return
    this.#stop?.()
    this.#stop = null
  }
}

/** Why a read has to end by now; null: it has not. */
export function endOf(atMs: number, nowMs: number, caller: Caller): SluiceError | null {
  if (atMs <= nowMs) return deadlineExceeded()
  return isCalledOff(caller) ? calledOff(caller) : null
}

/** When a read has to end: its time-out, or its caller's word. */
export class Deadline implements Watched {
  readonly atMs: number
  readonly #caller: Caller
  readonly #onEnd: (deadline: Deadline) => void
  readonly #abort = () => this.#fail(calledOff(this.#caller))
  #reject: ((error: SluiceError) => void) | null = null
  #failure: SluiceError | null = null
  #controller: AbortController | null = null

  constructor(atMs: number, caller: Caller, onEnd: (deadline: Deadline) => void) {
    this.atMs = atMs
    this.#caller = caller
    this.#onEnd = onEnd
    if (isCalledOff(caller)) this.#abort()
  }

  get isOver(): boolean {
    return this.#failure !== null
  }

  /** For work that can be stopped, which then ends with its caller at once. */
  get signal(): AbortSignal {
    if (this.#controller === null) {
      this.#controller = new AbortController()
      this.#caller.signal.addEventListener('abort', this.#abort)
    }
    if (this.#failure) this.#controller.abort(this.#failure)
    return this.#controller.signal
  }

  /** The work's result, or its end's error as soon as it comes, whatever the work still does. */
  race<T>(work: Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      this.#reject = reject
      work.then(resolve, reject)
      if (this.#failure) reject(this.#failure)
    })
  }

  look(nowMs: number): void {
    const end = endOf(this.atMs, nowMs, this.#caller)
    if (end !== null) this.#fail(end)
  }

  end(): void {
    if (this.#controller !== null) this.#caller.signal.removeEventListener('abort', this.#abort)
    this.#onEnd(this)
  }

  #fail(error: SluiceError): void {
    if (this.#failure) return
    this.#failure = error
    this.#reject?.(error)
    this.#controller?.abort(error)
  }
}

function calledOff({ signal }: Caller): SluiceError {
  return new SluiceError('TRANSIENT', 'the read was called off', { code: 'aborted', cause: signal.reason })
}

function deadlineExceeded(): SluiceError {
  return new SluiceError('TRANSIENT', 'the read did not end within its time-out', {
    code: 'deadline_exceeded',
    remedy: 'Ask for fewer rows, or allow more time.',
  })
}
