/**
 * `npm run demo -- --live`: orders change in a PostgreSQL all the time, and are read back by every door while they do. In
 * the middle the runtime is killed and started again on its folder. At the end the writer stops, and every store is compared with the
 * source. All figures that are shown are measured in this run.
 */
import { closeSync, openSync, readFileSync, rmSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { issueToken } from '../../runtime/src/auth/embedded-issuer.ts'
import { Api, deploy, type Json, upload } from './api.ts'
import { type Comparison, compare } from './live-comparison.ts'
import { Freshness } from './live-freshness.ts'
import { IcebergReader } from './live-iceberg.ts'
import { PRODUCT, type Readers, type Round, readRound } from './live-readers.ts'
import { CHART_COLUMNS, inSeconds, LINE_HEAD, lineOf, Picture, screenOf, type View, whole } from './live-screen.ts'
import { type LiveSource, ROWS, startLiveSource } from './live-source.ts'
import { LiveWriter, MARKER } from './live-writer.ts'
import { endServer, type Server, startServer } from './server.ts'
import { step } from './step.ts'

export interface LiveOptions {
  readonly seconds: number
  readonly keep: boolean
}

/** What differs from the defaults, and is said at the start. */
const SETTINGS = { SLUICE_LIMITS__SCHEDULE_INTERVAL_MS: '1000', SLUICE_LIMITS__LEASE_MS: '5000' }
const SAID = `Two settings of this runtime are not the defaults: a schedule may come every second
(default: every minute), and what a killed runtime had in hand is taken up after
5 s (default: 30 s). Syncs come by the connection's schedule, "every": "1s".`
const PROBE_MS = 50
const DRAW_MS = 250
const ROUND_MS = 1000
const APPLIED_WITHIN_MS = 180_000
/** npm hands on the Ctrl-C that the terminal has sent us already. */
const SAME_SIGNAL_MS = 500

/** Everything that runs, and goes at the end. */
interface Stage {
  readonly folder: string
  readonly data: string
  readonly log: number
  readonly source: LiveSource
  server: Server
}

/** Returns the exit code: 0 where each store has what the source has, and nothing was shown that should not be. */
export async function showLive(options: LiveOptions): Promise<number> {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-live-'))
  const closing: (() => unknown)[] = [() => rm(folder, { recursive: true, force: true, maxRetries: 20 })]
  const stopping = stopByUser(() => endAtOnce(folder, stage))
  let stage: Stage | null = null
  try {
    const data = join(folder, 'data')
    const log = openSync(join(folder, 'runtime.log'), 'a')
    closing.push(() => closeSync(log))
    console.log(`${SAID}\n`)
    const [source, server] = await step(
      'start a source database and the runtime',
      async () => {
        const starting = startLiveSource(join(folder, 'source'))
        closing.push(async () => (await starting).server.stop())
        const started = startServer(data, { env: SETTINGS, log, isApart: true })
        closing.push(async () => stage ?? endServer(await started, 'SIGTERM'))
        return [await starting, await started] as const
      },
      ([, { url }]) => url,
    )
    const running: Stage = { folder, data, log, source, server }
    stage = running
    closing.push(() => endServer(running.server, 'SIGTERM'))
    const tokens = await tokensOf(data)
    const developer = new Api(server.url, tokens.developer)
    await onboard(new Api(server.url, tokens.admin), new Api(server.url, tokens.admin, 'acme'), developer, source)
    const settings = { uri: `${server.url}/iceberg`, warehouse: 'acme', table: PRODUCT }
    const iceberg = await step(
      'look for a Python with PyIceberg',
      () => IcebergReader.start(settings, log),
      (found) => (found === null ? 'none is found: that reader is skipped' : 'found'),
    )
    closing.push(() => iceberg?.stop())
    const viewer = new Api(server.url, tokens.viewer)
    const readers = { developer, viewer, developerToken: tokens.developer, iceberg }
    const client = await source.connect()
    closing.push(() => client.end())
    const code = await new LiveShow(running, readers, client, options.seconds, stopping.signal).run()
    if (options.keep) {
      console.log(whereItIs(running, tokens))
      await stopping.asked()
    }
    return code
  } catch (error) {
    console.error(`${(error as Error).stack}\nThe end of the runtime's log:\n${tailOf(join(folder, 'runtime.log'))}`)
    return 1
  } finally {
    for (const close of closing.toReversed()) {
      await Promise.resolve(close()).catch((error: Error) => console.error(error.message))
    }
    stopping.forget()
  }
}

async function tokensOf(data: string) {
  const token = (group: string, user: string) =>
    issueToken(data, { tenant: 'acme', groups: [group], user }, { ttlS: 86_400 })
  return {
    admin: await issueToken(data, { role: 'admin' }, { ttlS: 3600 }),
    developer: await token('svc-developers', 'dora'),
    viewer: await token('svc-viewers', 'vito'),
  }
}

async function onboard(admin: Api, ofTenant: Api, developer: Api, source: LiveSource): Promise<void> {
  await step('create the tenant "acme"', () =>
    admin.post('/api/v1/tenants', { slug: 'acme', display_name: 'Acme Corp.', tier: 'enterprise' }),
  )
  await step('register the connection "shop", synced by itself', () =>
    developer.post('/api/v1/connections', {
      name: 'shop',
      connector_type: 'postgresql',
      config_encrypted: JSON.stringify(source.login),
      schedule: { every: '1s' },
    }),
  )
  await step(`deploy ${PRODUCT}, read by the log of its source`, async () => {
    const id = await upload(developer, 'shop', 'orders', 'source_aligned')
    await deploy(developer, id, true)
    await deploy(developer, id, false)
  })
  const clearance = { subject: { user: 'dora' }, may: 'unmask', classes: ['*'] }
  await step('an administrator clears the developer', () =>
    ofTenant.post(`/api/v1/products/${PRODUCT}/grants`, clearance),
  )
  await step(
    'wait until a first sync has come',
    () => firstRows(developer),
    (rows) => `${whole(rows)} rows`,
  )
}

async function firstRows(developer: Api): Promise<number> {
  for (const deadline = performance.now() + APPLIED_WITHIN_MS; ; await sleep(100)) {
    const found = await shownChange(developer).catch((error: Error) => error)
    if (found === 0) return ROWS
    if (performance.now() > deadline) throw found
  }
}

/** The number of the newest transaction that the lookup has. */
async function shownChange(developer: Api): Promise<number> {
  const answer = await developer.get(`/api/v1/products/${PRODUCT}/latest?filter=order_no:${MARKER}&columns=change_no`)
  return answer['data'][0].change_no
}

/** The writer, those who read, and the kill. */
class LiveShow {
  readonly #stage: Stage
  readonly #readers: Readers
  readonly #source: import('pg').Client
  readonly #totalS: number
  readonly #signal: AbortSignal
  readonly #freshness = new Freshness()
  readonly #writer: LiveWriter
  readonly #startedMs = performance.now()
  readonly #failures: string[] = []
  readonly #contradictions: string[] = []
  #round: Round | null = null
  #rounds = 0
  #isUp = true
  #isOver = false
  #told = ''

  constructor(stage: Stage, readers: Readers, source: import('pg').Client, totalS: number, signal: AbortSignal) {
    this.#stage = stage
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
    await Promise.race([waited.catch(() => undefined), this.#writer.running])
    over.abort()
  }

  async #killRuntime(): Promise<void> {
    const { data, log, server } = this.#stage
    const busy = await this.#untilRunning()
    this.#isUp = false
    const killedMs = performance.now()
    const lastChange = this.#writer.changeNo
    await endServer(server, 'SIGKILL')
    this.#tell(`kill -9 of the runtime at ${Math.floor(this.#elapsedS())} s, ${busy}; it is started again`)
    const { port } = new URL(server.url)
    this.#stage.server = await startServer(data, { env: SETTINGS, log, port, isApart: true })
    this.#isUp = true
    const upMs = performance.now() - killedMs
    this.#tell(`killed (-9) ${busy}; it answered again after ${inSeconds(upMs)}`)
    void this.#untilReadable(lastChange).then(() => {
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

  async #untilReadable(changeNo: number): Promise<void> {
    while (!this.#isOver && this.#shown <= changeNo) await sleep(10)
  }

  #shown = 0

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
        const round = await readRound(this.#readers, this.#writer.lastKey)
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
    const { server } = this.#stage
    try {
      await read()
    } catch (error) {
      if (this.#isUp && server === this.#stage.server) this.#failures.push(`${what}: ${(error as Error).message}`)
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
      isUp: this.#isUp,
      written,
      perSecond: written.transactions / Math.max(1, elapsedS),
      recent: this.#writer.recent,
      round: this.#round,
      spread: this.#freshness.spread(),
      waiting: this.#freshness.waiting,
      seconds: this.#freshness.seconds(this.#startedMs, nowMs, CHART_COLUMNS),
      told: this.#told,
    }
  }

  /** The lookup has the last commit, and all answers name its epoch: `readRound` takes no other. */
  async #untilApplied(): Promise<void> {
    const last = this.#writer.changeNo
    for (const deadline = performance.now() + APPLIED_WITHIN_MS; ; await sleep(100)) {
      if (this.#shown === last && this.#round?.sql.changeNo === last) return
      if (performance.now() > deadline) throw new Error(`change ${last} was not readable within three minutes`)
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

interface Stopping {
  readonly signal: AbortSignal
  /** Resolves at the next signal that asks to end. */
  asked(): Promise<void>
  forget(): void
}

/** The first signal ends the show, the second everything at once. */
function stopByUser(atOnce: () => void): Stopping {
  const asked = new AbortController()
  let firstMs: number | null = null
  let next: () => void = () => undefined
  let isWaiting = false
  const heard = () => {
    if (isWaiting) return next()
    const nowMs = performance.now()
    if (firstMs !== null && nowMs - firstMs > SAME_SIGNAL_MS) atOnce()
    firstMs ??= nowMs
    asked.abort()
  }
  const signals = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const
  for (const signal of signals) process.on(signal, heard)
  return {
    signal: asked.signal,
    async asked() {
      isWaiting = true
      await new Promise<void>((resolve) => {
        next = resolve
      })
      isWaiting = false
      firstMs = performance.now()
    },
    forget() {
      for (const signal of signals) process.off(signal, heard)
    },
  }
}

/** Nothing is waited for, and nothing is left: servers are ended the hard way, their folder is removed. */
function endAtOnce(folder: string, stage: Stage | null): never {
  process.stdout.write('\x1b[?25h')
  stage?.server.process.kill('SIGKILL')
  for (const part of ['data', 'source']) {
    const pid = Number(readText(join(folder, part, 'postgres/cluster/postmaster.pid')).split('\n')[0])
    if (pid > 1) endQuickly(pid)
  }
  rmSync(folder, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 })
  process.exit(130)
}

function readText(path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return ''
  }
}

/** PostgreSQL's immediate shutdown. */
function endQuickly(pid: number): void {
  try {
    process.kill(pid, 'SIGQUIT')
  } catch {
    // It has ended by itself.
  }
}

const tailOf = (path: string): string => readText(path).slice(-3000)

function whereItIs({ server, source, folder }: Stage, tokens: { readonly developer: string; readonly viewer: string }) {
  const { host, port, database, user, password } = source.login as Json
  return `
Server     ${server.url}
Reference  ${server.url}/docs
Source     postgresql://${user}:${password}@${host}:${port}/${database}   table orders
Log        ${join(folder, 'runtime.log')}
Developer  ${tokens.developer}
Viewer     ${tokens.viewer}

Nobody writes any more, and syncs go on: change a row at the source, and read it here.
  export SLUICE_URL=${server.url} SLUICE_TOKEN=${tokens.developer}
  npx sluice query 'SELECT status, count(*) AS orders FROM ${PRODUCT} GROUP BY 1'
Ctrl-C ends it.`
}
