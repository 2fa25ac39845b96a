/** The show itself: somebody writes, others read and measure, the runtime is killed, and the stores are compared in the end. */
import { setTimeout as sleep } from 'node:timers/promises'
import type pg from 'pg'
import { type Comparison, compare } from './live-comparison.ts'
import { Freshness } from './live-freshness.ts'
import { type Readers, type Round, readRound, shownChange } from './live-readers.ts'
import { CONNECTION, PATIENCE_MS, type Stage, startRuntime } from './live-runtime.ts'
import { CHART_COLUMNS, inSeconds, LINE_HEAD, lineOf, Picture, screenOf, type View, whole } from './live-screen.ts'
import { MARKER } from './live-source.ts'
import { LiveWriter } from './live-writer.ts'
import { endProcess, type Server } from './server.ts'

const PROBE_MS = 50
const DRAW_MS = 250
const ROUND_MS = 1000

/** The writer, those who read, and the kill. */
export class LiveShow {
  readonly #stage: Stage
  #server: Server
  readonly #readers: Readers
  readonly #source: pg.Client
  readonly #totalS: number
  readonly #signal: AbortSignal
  readonly #freshness = new Freshness()
  readonly #writer: LiveWriter
  readonly #startedMs = performance.now()
  #stoppedMs: number | null = null
  readonly #failures: string[] = []
  readonly #contradictions: string[] = []
  #round: Round | null = null
  #rounds = 0
  #isUp = true
  #isOver = false
  #told = ''
  /** The number of the newest transaction that a lookup has had. */
  #shown = 0

  constructor(stage: Stage, server: Server, readers: Readers, source: pg.Client, totalS: number, signal: AbortSignal) {
    this.#stage = stage
    this.#server = server
    this.#readers = readers
    this.#source = source
    this.#totalS = totalS
    this.#signal = signal
    this.#writer = new LiveWriter(source, (commit) => this.#freshness.committed(commit))
  }

  async run(): Promise<number> {
    console.log('')
    this.#writer.start()
    const reading = [this.#probe(), this.#readAll(), this.#draw()]
    try {
      await this.#pause(this.#totalS / 2)
      if (!this.#signal.aborted) await this.#killRuntime()
      await this.#pause(this.#totalS - this.#elapsedS())
      await this.#writer.stop()
      this.#stoppedMs = performance.now()
      await this.#untilApplied()
    } finally {
      this.#isOver = true
      await Promise.all(reading)
    }
    return this.#compare()
  }

  #elapsedS(): number {
    return (performance.now() - this.#startedMs) / 1000
  }

  /** Shorter where somebody presses Ctrl-C, and where the writer fails. */
  async #pause(seconds: number): Promise<void> {
    const over = new AbortController()
    const waited = sleep(Math.max(0, seconds * 1000), undefined, {
      signal: AbortSignal.any([this.#signal, over.signal]),
    })
    // It is ended early by whoever presses Ctrl-C.
    await Promise.race([waited.catch(() => undefined), this.#writer.running])
    over.abort()
  }

  async #killRuntime(): Promise<void> {
    const busy = await this.#untilRunning()
    this.#isUp = false
    const killedMs = performance.now()
    const lastChange = this.#writer.changeNo
    await endProcess(this.#server.process, 'SIGKILL')
    this.#tell(`kill -9 of the runtime at ${Math.floor(this.#elapsedS())} s, ${busy}; it is started again`)
    this.#server = await startRuntime(this.#stage, new URL(this.#server.url).port)
    this.#isUp = true
    const upMs = performance.now() - killedMs
    this.#tell(`killed (-9) ${busy}; it answered again after ${inSeconds(upMs)}`)
    void this.#untilReadable(lastChange).then((isReadable) => {
      if (!isReadable) return
      const took = inSeconds(performance.now() - killedMs)
      this.#tell(`killed (-9) ${busy}; answered after ${inSeconds(upMs)}, new rows after ${took}`)
    })
  }

  /** What the runtime does at that moment; a sync, where one comes within three seconds. */
  async #untilRunning(): Promise<string> {
    for (const deadline = performance.now() + 3000; performance.now() < deadline; await sleep(20)) {
      const { data } = await this.#readers.developer.get('/api/v1/ingestion?limit=1')
      if (data[0]?.state === 'running') return 'amid a sync'
    }
    return 'between two syncs'
  }

  /** A transaction after that number; false where the show is over before. */
  async #untilReadable(changeNo: number): Promise<boolean> {
    while (!this.#isOver && this.#shown <= changeNo) await sleep(10)
    return this.#shown > changeNo
  }

  /** Looks for the newest commit all the time: that is how freshness is measured. */
  async #probe(): Promise<void> {
    for (; !this.#isOver; await sleep(PROBE_MS)) {
      await this.#whileUp('lookup', async () => {
        this.#shown = await shownChange(this.#readers.developer)
        this.#freshness.readable(this.#shown, performance.now())
      })
    }
  }

  async #readAll(): Promise<void> {
    while (!this.#isOver) {
      const begunMs = performance.now()
      await this.#whileUp('a round of reads', async () => {
        const round = await readRound(this.#readers, this.#writer.keyUpTo(this.#shown))
        this.#round = round
        this.#rounds += 1
        this.#contradictions.push(...round.contradictions)
      })
      await sleep(Math.max(50, ROUND_MS - (performance.now() - begunMs)))
    }
  }

  /** A killed runtime answers nothing; what is not answered otherwise is counted, and told at the end. */
  async #whileUp(what: string, read: () => Promise<void>): Promise<void> {
    if (!this.#isUp) return
    const server = this.#server
    try {
      await read()
    } catch (error) {
      if (this.#isUp && server === this.#server) this.#failures.push(`${what}: ${(error as Error).message}`)
    }
  }

  async #draw(): Promise<void> {
    if (!process.stdout.isTTY) return this.#printLines()
    const picture = new Picture(process.stdout)
    for (; !this.#isOver; await sleep(DRAW_MS)) picture.draw(screenOf(this.#view()))
    picture.draw(screenOf(this.#view()))
    picture.leave()
  }

  async #printLines(): Promise<void> {
    console.log(LINE_HEAD)
    for (let second = 1; !this.#isOver; ) {
      await sleep(20)
      if (this.#elapsedS() < second) continue
      console.log(lineOf(this.#view()))
      second = Math.floor(this.#elapsedS()) + 1
    }
  }

  #tell(text: string): void {
    this.#told = text
    if (!process.stdout.isTTY) console.log(`       ${text}`)
  }

  #view(): View {
    const elapsedS = this.#elapsedS()
    const { written } = this.#writer
    const nowMs = performance.now()
    return {
      elapsedS,
      totalS: this.#totalS,
      isWriting: this.#stoppedMs === null,
      isUp: this.#isUp,
      written,
      perSecond: written.transactions / Math.max(1, ((this.#stoppedMs ?? nowMs) - this.#startedMs) / 1000),
      recent: this.#writer.recent,
      round: this.#round,
      spread: this.#freshness.spread(),
      waiting: this.#freshness.waiting,
      seconds: this.#freshness.seconds(this.#startedMs, nowMs, CHART_COLUMNS),
      told: this.#told,
    }
  }

  /**
   * The lookup has the last commit. A sync that finds nothing makes an epoch, too, of the same rows: the schedule is taken away, and
   * the last run ends, so that everything can be compared at one. `readRound` takes no answers of different epochs.
   */
  async #untilApplied(): Promise<void> {
    const { developer } = this.#readers
    const last = this.#writer.changeNo
    await this.#within(async () => this.#shown === last, `change ${last} was not readable`)
    await developer.patch(CONNECTION, { schedule: null })
    await this.#within(async () => {
      const { data } = await developer.get('/api/v1/ingestion?limit=1')
      return data[0].state !== 'running' && data[0].state !== 'queued'
    }, 'the last sync did not end')
    await readRound(this.#readers, MARKER)
  }

  async #within(holds: () => Promise<boolean>, otherwise: string): Promise<void> {
    for (const deadline = performance.now() + PATIENCE_MS; !(await holds()); await sleep(50)) {
      if (performance.now() > deadline) throw new Error(`${otherwise} within three minutes`)
    }
  }

  async #compare(): Promise<number> {
    const comparison = await compare(this.#source, this.#readers, this.#writer.nextKey)
    console.log(this.#summary())
    console.log(comparisonText(comparison))
    const unequal = comparison.differences.filter(({ missing, surplus }) => missing + surplus > 0).length
    const isOne = comparison.epochs.length === 1
    if (!isOne) console.log(`The answers named several epochs: ${comparison.epochs.join(', ')}.`)
    return unequal === 0 && isOne && this.#contradictions.length === 0 ? 0 : 1
  }

  #summary(): string {
    const { written } = this.#writer
    const spread = this.#freshness.spread()
    const fresh =
      spread === null
        ? 'no commit was read'
        : `p50 ${inSeconds(spread.p50Ms)}, p95 ${inSeconds(spread.p95Ms)}, longest ${inSeconds(spread.mostMs)}`
    return [
      '',
      `${whole(written.transactions)} transactions: ${whole(written.inserted)} inserts, ${whole(written.updated)} updates, ${whole(written.deleted)} deletes; ${whole(written.rolledBack)} rolled back.`,
      `Freshness, from commit to lookup, of all of them: ${fresh}.`,
      this.#told === '' ? 'The runtime was not killed: it ended before that.' : `The runtime was ${this.#told}.`,
      `${whole(this.#rounds)} rounds of reads, each of one epoch; answers that contradict another: ${this.#contradictions.length}; reads that failed, but for the kill: ${this.#failures.length}.`,
      ...[...this.#contradictions, ...this.#failures].slice(0, 5).map((what) => `  ${what}`),
    ].join('\n')
  }
}

function comparisonText({ epochs, sourceRows, differences, skipped }: Comparison): string {
  const lines = differences.map(({ store, rows, missing, surplus }) => {
    const rest = `${whole(rows).padStart(7)} rows; missing ${missing}, surplus ${surplus}`
    return `  ${store.padEnd(15)} ${whole(missing + surplus).padStart(5)} differing rows  (${rest.trim()})`
  })
  return [
    '',
    `Compared with the ${whole(sourceRows)} rows of the source, both ways, all at epoch ${epochs.join(', ')}:`,
    ...lines,
    ...skipped.map((what) => `  skipped: ${what}`),
  ].join('\n')
}
