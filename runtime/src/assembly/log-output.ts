/** Where lines of the log go: a file, a terminal, or a pipe whose reader may stop reading without closing it. */
import { constants, fstatSync, openSync } from 'node:fs'
import { isatty } from 'node:tty'
import { pino } from 'pino'

/** What waits for the reader, at most; what comes then is dropped, and counted. */
const MAX_WAITING_BYTES = 4 * 1024 * 1024
const RETRY_MS = 20
/** At the end of the process, for a reader who takes nothing. */
const END_MS = 3_000

/**
 * Never waits for the reader: a line is written at once or kept, in order, and tried again. Once one was dropped, all are
 * until nothing waits any more, so that a gap is one and is told where it is.
 */
export class LogOutput {
  readonly #stream: ReturnType<typeof pino.destination>
  readonly #onGap: (lines: number) => void
  #isStuck = false
  #isGone = false
  #timer: NodeJS.Timeout | null = null
  #gap = 0
  #dropped = 0
  #writes = 0

  constructor(fd: number, onGap: (lines: number) => void) {
    this.#onGap = onGap
    // Synchronous on a descriptor that does not block: what the pipe has room for is out before a crash, in order. The
    // stream's own asynchronous mode loses what it is writing when the process ends, and its `flushSync` writes twice.
    this.#stream = pino.destination({ dest: fd, sync: true, maxLength: MAX_WAITING_BYTES, retryEAGAIN: () => false })
    this.#stream.on('error', (error: NodeJS.ErrnoException) => {
      // A full disk passes as a full pipe does. A reader who has gone does not come back.
      if (error.code === 'EPIPE') this.#isGone = true
      else this.#isStuck = true
    })
    this.#stream.on('drop', () => {
      this.#isStuck = true
      this.#drop()
    })
    this.#stream.on('write', () => {
      this.#writes += 1
    })
    process.on('exit', () => this.#end())
  }

  /** Lines that were dropped since the start. */
  get dropped(): number {
    return this.#dropped
  }

  write(line: string): void {
    if (this.#gap > 0 && !this.flush()) this.#drop()
    else this.#put(line)
  }

  /** Whether nothing waits any more. */
  flush(): boolean {
    if (this.#isStuck) this.#put('')
    if (this.#isStuck || this.#isGone) return !this.#isStuck
    const lines = this.#gap
    this.#gap = 0
    if (lines > 0) this.#onGap(lines)
    return !this.#isStuck
  }

  #put(text: string): void {
    if (this.#isGone) return
    this.#isStuck = false
    this.#stream.write(text)
    if (this.#isStuck) this.#retryLater()
  }

  #drop(): void {
    this.#gap += 1
    this.#dropped += 1
  }

  #retryLater(): void {
    this.#timer ??= setTimeout(() => {
      this.#timer = null
      this.flush()
    }, RETRY_MS).unref()
  }

  /** Nothing is done by the clock any more: whoever reads slowly is waited for. */
  #end(): void {
    const pause = new Int32Array(new SharedArrayBuffer(4))
    let untilMs = performance.now() + END_MS
    while (!this.flush() && performance.now() < untilMs) {
      const before = this.#writes
      Atomics.wait(pause, 0, 0, RETRY_MS)
      this.#put('')
      if (this.#writes > before) untilMs = performance.now() + END_MS
    }
  }
}

/**
 * Standard error as this process alone has it: whether its pipe blocks is otherwise for all who share it to say, and
 * another process may say so at any time. Sockets cannot be opened again; Node makes those not block when asked for them.
 */
export function standardError(): number {
  const fd = 2
  // As big integers: the plain call leaves what it read where Node's realpathSync takes it for its own, which then leaves
  // links in paths as they are (node/lib/fs.js, "break if a pipe/socket"), and modules are not found where they lie.
  if (!fstatSync(fd, { bigint: true }).isFIFO() && !isatty(fd)) {
    void process.stderr
    return fd
  }
  try {
    return openSync(`/proc/self/fd/${fd}`, constants.O_WRONLY | constants.O_NONBLOCK | constants.O_NOCTTY)
  } catch {
    // Of another user, or no such folder: as Node has made it.
    void process.stderr
    return fd
  }
}
