/**
 * Threads that take apart what tenants send. A text of some hundred KiB can take a second to read, and while the event
 * loop reads, nobody else is answered: here it has a thread with a deadline and an end to its memory, and nobody has
 * more than one of them.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import {
  isMainThread,
  MessageChannel,
  type MessagePort,
  parentPort,
  receiveMessageOnPort,
  Worker,
  workerData,
} from 'node:worker_threads'
import { type ErrorKind, isSluiceError, SluiceError } from '@sluice/sdk'

export interface ParseTask {
  /** One of those that the program answers. */
  readonly name: string
  /** What the thread is given, by structured clone. */
  readonly input: unknown
  /** Whose it is: of the tasks of one key one is done at a time, and keys take turns. */
  readonly key: string
  readonly signal?: AbortSignal
  /** Answers what the thread asks in the middle of the task; what it throws fails the task. */
  answer?(question: unknown): unknown
}

export interface ParseThreadsOptions {
  /** The program: a module that calls `answerTasks`. Asked for once, when the first thread is needed. */
  readonly program: () => Promise<URL>
  /** Default 2: with one, a single sender could hold up all others. */
  readonly threads?: number
  /** Processor time of a task. Default 15 s. */
  readonly deadlineMs?: number
  /** Of a task by the clock, from when its thread has it: others may keep the processors busy. Default four times `deadlineMs`. */
  readonly clockMs?: number
  /** Of JavaScript values of a thread. Default 192 MB. */
  readonly memoryMb?: number
  /** Tasks of one key that may wait. Default 8. */
  readonly mostWaiting?: number
}

interface Job {
  readonly task: ParseTask
  readonly settle: PromiseWithResolvers<unknown>
  /** What `answer` threw. */
  failure: unknown
}

type FromThread =
  | { readonly kind: 'done'; readonly output: unknown }
  | { readonly kind: 'failed'; readonly error: WireError }
  | { readonly kind: 'asked'; readonly question: unknown }

interface WireError {
  readonly kind: ErrorKind | null
  readonly message: string
  readonly code: string
  readonly remedy?: string | undefined
  readonly details?: Readonly<Record<string, unknown>> | undefined
}

const DEADLINE_MS = 15_000
/** How busy the machine is says nothing of what was sent. */
const CLOCK_PER_DEADLINE = 4
const MEMORY_MB = 192
const MOST_WAITING = 8
/** The first thread stays; others end after so long without a task. */
const IDLE_MS = 60_000

export class ParseThreads {
  readonly #options: ParseThreadsOptions
  readonly #most: number
  /** By key, each with its first task at the head; the key whose turn is next comes first. */
  readonly #waiting = new Map<string, Job[]>()
  readonly #busyKeys = new Set<string>()
  readonly #threads = new Set<Thread>()
  #program: Promise<URL> | null = null
  #closed = false

  constructor(options: ParseThreadsOptions) {
    this.#options = options
    this.#most = options.threads ?? 2
  }

  /**
   * Gives what the program made of the input. Throws the program's SluiceErrors, QUOTA `too_many_at_once` where too many
   * of the key wait, and QUOTA `input_too_costly` where the task took too long or too much memory.
   */
  run(task: ParseTask): Promise<unknown> {
    if (this.#closed) return Promise.reject(closedError())
    const waiting = this.#waiting.get(task.key) ?? []
    if (waiting.length >= (this.#options.mostWaiting ?? MOST_WAITING)) return Promise.reject(tooManyError())
    const job: Job = { task, settle: Promise.withResolvers(), failure: null }
    waiting.push(job)
    this.#waiting.set(task.key, waiting)
    this.#forgetOnAbort(job)
    this.#next()
    return job.settle.promise
  }

  /** Starts the first thread before it is needed. */
  warm(): void {
    if (this.#threads.size === 0 && !this.#closed) this.#start()
  }

  async close(): Promise<void> {
    this.#closed = true
    for (const job of [...this.#waiting.values()].flat()) job.settle.reject(closedError())
    this.#waiting.clear()
    await Promise.all([...this.#threads].map((thread) => thread.end(closedError())))
  }

  /** Nobody waits for it any more. A thread that has begun goes on: who sends and leaves gains nothing by it. */
  #forgetOnAbort({ settle, task }: Job): void {
    const { signal } = task
    if (signal === undefined) return
    const leave = (): void => {
      const left = this.#waiting.get(task.key)?.filter((job) => job.settle !== settle) ?? []
      if (left.length > 0) this.#waiting.set(task.key, left)
      else this.#waiting.delete(task.key)
      settle.reject(signal.reason)
    }
    if (signal.aborted) leave()
    else signal.addEventListener('abort', leave, { once: true })
    const forget = () => signal.removeEventListener('abort', leave)
    settle.promise.then(forget, forget)
  }

  #next(): void {
    for (const [key, jobs] of [...this.#waiting]) {
      if (this.#busyKeys.has(key)) continue
      const thread = this.#idleThread()
      if (thread === null) return
      const job = jobs.shift() as Job
      this.#waiting.delete(key)
      if (jobs.length > 0) this.#waiting.set(key, jobs)
      this.#busyKeys.add(key)
      void thread.do(job).then(() => {
        this.#busyKeys.delete(key)
        this.#next()
      })
    }
  }

  #idleThread(): Thread | null {
    for (const thread of this.#threads) if (!thread.isBusy) return thread
    return this.#threads.size < this.#most ? this.#start() : null
  }

  #start(): Thread {
    this.#program ??= this.#options.program()
    const { deadlineMs = DEADLINE_MS, clockMs = deadlineMs * CLOCK_PER_DEADLINE, memoryMb = MEMORY_MB } = this.#options
    const thread: Thread = new Thread({
      program: this.#program,
      deadlineMs,
      clockMs,
      memoryMb,
      idleMs: this.#threads.size === 0 ? null : IDLE_MS,
      onEnd: () => this.#threads.delete(thread),
    })
    this.#threads.add(thread)
    return thread
  }
}

interface ThreadOptions {
  readonly program: Promise<URL>
  readonly deadlineMs: number
  readonly clockMs: number
  readonly memoryMb: number
  /** Null: it stays. */
  readonly idleMs: number | null
  readonly onEnd: () => void
}

/** One worker, and the one task that it has. */
class Thread {
  readonly #options: ThreadOptions
  readonly #worker: Promise<Worker>
  readonly #answers: MessagePort
  readonly #flag = new Int32Array(new SharedArrayBuffer(4))
  #job: Job | null = null
  #idle: NodeJS.Timeout | null = null

  constructor(options: ThreadOptions) {
    this.#options = options
    const { port1, port2 } = new MessageChannel()
    this.#answers = port1
    port1.unref()
    this.#worker = options.program.then((program) => this.#open(program, port2))
    this.#worker.catch((error: unknown) => this.end(error))
  }

  get isBusy(): boolean {
    return this.#job !== null
  }

  /** Settles the job, and fulfils when the thread is free again or has ended. */
  async do(job: Job): Promise<void> {
    this.#job = job
    if (this.#idle !== null) clearTimeout(this.#idle)
    const settled = job.settle.promise.then(ignore, ignore)
    const freed = this.#free.promise
    const worker = await this.#worker.catch(ignore)
    if (worker === undefined) return settled
    const { deadlineMs, clockMs } = this.#options
    const done = new AbortController()
    const clock = setTimeout(() => void this.end(tooCostlyError()), clockMs)
    this.#watch(worker, deadlineMs, done.signal).catch((error: unknown) => this.end(error))
    worker.ref()
    worker.postMessage({ name: job.task.name, input: job.task.input })
    await freed
    done.abort()
    clearTimeout(clock)
    worker.unref()
    this.#idleFrom()
  }

  /** Ends the thread where its task uses more of the processors. */
  async #watch(worker: Worker, deadlineMs: number, done: AbortSignal): Promise<void> {
    const before = await processorMs(worker)
    for (let leftMs = deadlineMs; leftMs > 0; leftMs = deadlineMs - ((await processorMs(worker)) - before)) {
      await sleep(leftMs, undefined, { signal: done }).catch(ignore)
      if (done.aborted) return
    }
    if (!done.aborted) await this.end(tooCostlyError())
  }

  /** Fails the task that it has. */
  async end(reason: unknown): Promise<void> {
    this.#options.onEnd()
    this.#finish((job) => job.settle.reject(job.failure ?? reason))
    this.#answers.close()
    const worker = await this.#worker.catch(ignore)
    await worker?.terminate()
  }

  #free = Promise.withResolvers<void>()

  #open(program: URL, port: MessagePort): Worker {
    const worker = new Worker(program, {
      // Nothing of this process is for what reads hostile text.
      env: {},
      workerData: { flag: this.#flag, port },
      transferList: [port],
      resourceLimits: { maxOldGenerationSizeMb: this.#options.memoryMb },
      stdin: false,
    })
    worker.unref()
    worker.on('message', (message: FromThread) => this.#hear(message))
    worker.on('error', (error: NodeJS.ErrnoException) => {
      void this.end(error.code === 'ERR_WORKER_OUT_OF_MEMORY' ? tooCostlyError(error) : error)
    })
    worker.on('exit', () => void this.end(closedError()))
    return worker
  }

  #hear(message: FromThread): void {
    if (message.kind === 'asked') this.#answer(message.question)
    else if (message.kind === 'done') this.#finish((job) => job.settle.resolve(message.output))
    else this.#finish((job) => job.settle.reject(job.failure ?? fromWire(message.error)))
  }

  /** The thread stands still until it has the answer. */
  #answer(question: unknown): void {
    let answer: unknown
    try {
      answer = { value: this.#job?.task.answer?.(question) }
    } catch (error) {
      if (this.#job !== null) this.#job.failure = error
      answer = { failed: true }
    }
    this.#answers.postMessage(answer)
    Atomics.store(this.#flag, 0, 1)
    Atomics.notify(this.#flag, 0)
  }

  #finish(settle: (job: Job) => void): void {
    const job = this.#job
    this.#job = null
    if (job === null) return
    settle(job)
    this.#free.resolve()
    this.#free = Promise.withResolvers()
  }

  #idleFrom(): void {
    const { idleMs } = this.#options
    if (idleMs === null) return
    this.#idle = setTimeout(() => {
      if (!this.isBusy) void this.end(closedError())
    }, idleMs).unref()
  }
}

/** What the thread has used of the processors; 0 before it runs, and when it has ended. */
async function processorMs(worker: Worker): Promise<number> {
  try {
    const { user, system } = await worker.cpuUsage()
    return (user + system) / 1_000
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ERR_WORKER_NOT_RUNNING') return 0
    throw error
  }
}

/** Answers a question of the task, asked of the thread that gave it; waits for it. */
export type Ask = (question: unknown) => unknown

export type TaskAnswers = Readonly<Record<string, (input: never, ask: Ask) => unknown>>

/** In the program of a thread: does tasks as they come, for as long as the thread lives. */
export function answerTasks(tasks: TaskAnswers): void {
  if (isMainThread || parentPort === null) throw new Error('this is the program of a thread')
  const { flag, port } = workerData as { readonly flag: Int32Array; readonly port: MessagePort }
  const parent = parentPort
  const ask: Ask = (question) => {
    Atomics.store(flag, 0, 0)
    parent.postMessage({ kind: 'asked', question })
    // The notice of the answer before may come only now.
    while (Atomics.load(flag, 0) === 0) Atomics.wait(flag, 0, 0)
    const answer = receiveMessageOnPort(port)?.message as { readonly value: unknown; readonly failed?: true }
    if (answer.failed) throw new Error('the question had no answer')
    return answer.value
  }
  parent.on('message', async ({ name, input }: { readonly name: string; readonly input: never }) => {
    try {
      const output = await tasks[name]?.(input, ask)
      parent.postMessage({ kind: 'done', output })
    } catch (error) {
      parent.postMessage({ kind: 'failed', error: toWire(error) })
    }
  })
}

function toWire(error: unknown): WireError {
  if (!isSluiceError(error)) return { kind: null, message: String((error as Error).stack), code: '' }
  const { kind, message, code, remedy, details } = error
  return { kind, message, code, remedy, details }
}

function fromWire({ kind, message, code, remedy, details }: WireError): Error {
  if (kind === null) return new Error('a thread failed', { cause: message })
  return new SluiceError(kind, message, {
    code,
    ...(remedy === undefined ? {} : { remedy }),
    ...(details === undefined ? {} : { details }),
  })
}

function tooCostlyError(cause?: unknown): SluiceError {
  return new SluiceError('QUOTA', 'what was sent takes longer, or more memory, to read than it may', {
    code: 'input_too_costly',
    remedy: 'Send less at once.',
    cause,
  })
}

function tooManyError(): SluiceError {
  return new SluiceError('QUOTA', 'too many large requests of this tenant wait to be read', {
    code: 'too_many_at_once',
    remedy: 'Send them one after the other.',
    retryAfterMs: 1_000,
  })
}

function closedError(): SluiceError {
  return new SluiceError('TRANSIENT', 'the server is shutting down', {
    code: 'shutting_down',
    remedy: 'Try again.',
    retryAfterMs: 1_000,
  })
}

function ignore(): undefined {
  return undefined
}
