/** The host that checks give to a store: time that stands still, crashes at will, logs that are kept. */

import { inspect } from 'node:util'
import { type Clock, type Host, type LakeEngine, type Logger, type Metrics, SluiceError } from '@sluice/sdk'
import { Random } from './random.ts'

/** 2026-03-01, a Sunday: where every check's time begins. */
const START_MS = Date.UTC(2026, 2, 1)

interface Timer {
  dueMs: number
  readonly everyMs: number
  readonly run: () => void | Promise<void>
}

/** Time that only `advance` moves. */
export class VirtualClock implements Clock {
  #nowMs = START_MS
  /** How far the store's clock is ahead of the lake's, by which commits are dated. */
  skewMs = 0
  readonly #timers = new Set<Timer>()

  nowMs(): number {
    return this.#nowMs + this.skewMs
  }

  /** RFC 3339 UTC with microseconds, as commits are dated. */
  nowText(): string {
    return new Date(this.#nowMs).toISOString().replace('Z', '000Z')
  }

  every(everyMs: number, run: () => void | Promise<void>): () => void {
    const timer = { dueMs: this.#nowMs + everyMs, everyMs, run }
    this.#timers.add(timer)
    return () => this.#timers.delete(timer)
  }

  get timerCount(): number {
    return this.#timers.size
  }

  /** Jumps ahead; each timer that fell due runs once, as after a process that was asleep, and is awaited. */
  async advance(byMs: number): Promise<void> {
    this.#nowMs += byMs
    for (const timer of [...this.#timers]) {
      if (timer.dueMs > this.#nowMs || !this.#timers.has(timer)) continue
      timer.dueMs = this.#nowMs + timer.everyMs
      await timer.run()
    }
  }
}

export interface LogLine {
  readonly level: keyof Logger
  readonly message: string
  readonly fields: Readonly<Record<string, unknown>>
}

/** Keeps every line, so that a check can look for what must not stand there. */
export class RecordingLogger implements Logger {
  readonly lines: LogLine[] = []

  debug = this.#keep('debug')
  info = this.#keep('info')
  warn = this.#keep('warn')
  error = this.#keep('error')

  /** Every line with all that hangs on it, errors' causes included. */
  text(): string {
    return this.lines.map((line) => inspect(line, { depth: 8, maxStringLength: null })).join('\n')
  }

  #keep(level: keyof Logger): (message: string, fields?: Readonly<Record<string, unknown>>) => void {
    return (message, fields = {}) => void this.lines.push({ level, message, fields })
  }
}

export interface Measurement {
  readonly name: string
  readonly value: number
  readonly labels: Readonly<Record<string, string>>
}

/** Thrown where a check ends the process; the store it happens in is never used again. */
export function simulatedCrash(point: string): SluiceError {
  return new SluiceError('TRANSIENT', `the process was ended by the suite at ${point}`, { code: 'simulated_crash' })
}

export interface HostParts {
  readonly clock: VirtualClock
  readonly logger: RecordingLogger
  readonly stateDirectory: string
  readonly seed: number
  readonly lakeEngine?: LakeEngine
}

/**
 * The host of one opened store, which stands for one process: it can be made to crash once, and after that every way
 * out of it fails.
 */
export class TestHost implements Host {
  readonly clock: Clock
  readonly logger: RecordingLogger
  readonly stateDirectory: string
  readonly lakeEngine?: LakeEngine
  /** The fault points met so far, in order. */
  readonly met: string[] = []
  /** What was counted and observed, with its labels. */
  readonly measured: Measurement[] = []
  readonly metrics: Metrics = {
    count: (name, value = 1, labels = {}) => void this.measured.push({ name, value, labels }),
    observe: (name, value, labels = {}) => void this.measured.push({ name, value, labels }),
  }
  readonly #random: Random
  #crashAt: number | null = null
  #crashed = false
  #failure: { readonly at: number; readonly error: SluiceError } | null = null
  #onPoint: ((point: string, index: number) => void | Promise<void>) | null = null

  constructor(parts: HostParts) {
    this.clock = parts.clock
    this.logger = parts.logger
    this.stateDirectory = parts.stateDirectory
    this.#random = new Random(parts.seed)
    if (parts.lakeEngine) this.lakeEngine = parts.lakeEngine
  }

  get crashed(): boolean {
    return this.#crashed
  }

  /** Ends the process at the n-th fault point from now, counted from 0. */
  crashAt(index: number): void {
    this.#crashAt = this.met.length + index
  }

  /** The n-th fault point from now throws, once, and the process lives on: a full disk, say. */
  failAt(index: number, error: SluiceError): void {
    this.#failure = { at: this.met.length + index, error }
  }

  /** Forgets crashes and failures that were asked for and have not come. */
  calm(): void {
    this.#crashAt = null
    this.#failure = null
  }

  /** Runs something while the store waits at its fault points: another writer, a reader. */
  atEachPoint(run: ((point: string, index: number) => void | Promise<void>) | null): void {
    this.#onPoint = run
  }

  randomBytes(count: number): Uint8Array {
    return this.#random.bytes(count)
  }

  faultPoint = async (name: string): Promise<void> => {
    if (this.#crashed) throw simulatedCrash(name)
    const index = this.met.length
    this.met.push(name)
    if (this.#crashAt === index) {
      this.#crashed = true
      throw simulatedCrash(name)
    }
    if (this.#failure?.at === index) {
      const { error } = this.#failure
      this.#failure = null
      throw error
    }
    await this.#onPoint?.(name, index)
  }
}
