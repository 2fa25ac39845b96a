import { type Clock, SluiceError } from '@sluice/sdk'

/** How late a time-out may be noticed. */
const TICK_MS = 25

/** The time-outs of many short reads on one timer, which runs only while there are any. */
export class Deadlines {
  readonly #clock: Clock
  readonly #open = new Set<Deadline>()
  #stop: (() => void) | null = null

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** `end` has to be called, whatever happened. */
  start(timeoutMs: number, caller: AbortSignal): Deadline {
    const deadline = new Deadline(this.#clock.nowMs() + timeoutMs, caller, (ended) => this.#close(ended))
    this.#open.add(deadline)
    this.#stop ??= this.#clock.every(TICK_MS, () => this.#tick())
    return deadline
  }

  #tick(): void {
    const nowMs = this.#clock.nowMs()
    for (const deadline of this.#open) if (deadline.atMs <= nowMs) deadline.exceed()
  }

  #close(deadline: Deadline): void {
    this.#open.delete(deadline)
    if (this.#open.size > 0) return
    this.#stop?.()
    this.#stop = null
  }
}

/** When a read has to end: its time-out, or its caller's signal. */
export class Deadline {
  readonly atMs: number
  readonly #caller: AbortSignal
  readonly #onEnd: (deadline: Deadline) => void
  readonly #abort = () => this.#fail(calledOff(this.#caller))
  #reject: ((error: SluiceError) => void) | null = null
  #failure: SluiceError | null = null
  #controller: AbortController | null = null

  constructor(atMs: number, caller: AbortSignal, onEnd: (deadline: Deadline) => void) {
    this.atMs = atMs
    this.#caller = caller
    this.#onEnd = onEnd
    if (caller.aborted) this.#abort()
    else caller.addEventListener('abort', this.#abort)
  }

  get isOver(): boolean {
    return this.#failure !== null
  }

  /** For work that can be stopped. */
  get signal(): AbortSignal {
    this.#controller ??= new AbortController()
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

  exceed(): void {
    this.#fail(deadlineExceeded())
  }

  end(): void {
    this.#caller.removeEventListener('abort', this.#abort)
    this.#onEnd(this)
  }

  #fail(error: SluiceError): void {
    if (this.#failure) return
    this.#failure = error
    this.#reject?.(error)
    this.#controller?.abort(error)
  }
}

function calledOff(signal: AbortSignal): SluiceError {
  return new SluiceError('TRANSIENT', 'the read was called off', { code: 'aborted', cause: signal.reason })
}

function deadlineExceeded(): SluiceError {
  return new SluiceError('TRANSIENT', 'the read did not end within its time-out', {
    code: 'deadline_exceeded',
    remedy: 'Ask for fewer rows, or allow more time.',
  })
}
