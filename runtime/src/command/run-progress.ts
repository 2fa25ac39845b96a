/** Follows a run: rows, rate and time left, rewritten in place on a terminal and as plain lines elsewhere. */
import type { Client } from './client.ts'
import { watchOutput } from './output.ts'

export interface TableOfRun {
  readonly name: string
  readonly rows_read: number
  readonly rows_written: number
  readonly rows_rejected?: number
  readonly rows_superseded?: number | null
  readonly state: string
}

export interface ProductOfRun {
  readonly id: string
  readonly name?: string
  readonly state: string
  readonly epoch?: number | null
  readonly rows?: number | null
  readonly quarantined_rows?: number | null
  readonly lossy_values?: Readonly<Record<string, number>>
  readonly behind?: readonly string[]
  readonly stores?: readonly StoreOfRun[]
  readonly current_epoch?: number | null
  readonly reason?: { readonly message: string; readonly remedy?: string } | null
}

export interface StoreOfRun {
  readonly endpoint: string
  readonly state: string
  readonly epoch: number | null
  readonly error: { readonly message: string; readonly remedy?: string } | null
}

export interface RunAnswer {
  readonly id: string
  readonly state: 'queued' | 'running' | 'succeeded' | 'failed' | 'cancelled'
  /** It tries rows of a quarantine again. */
  readonly replay?: boolean
  readonly tables: readonly TableOfRun[]
  readonly products: readonly ProductOfRun[]
  /** The product that is being made. */
  readonly progress?: {
    readonly product: string
    readonly phase: string
    readonly stores: readonly StoreOfRun[]
  } | null
  /** Of one run, not of lists. */
  readonly failed_checks?: readonly { readonly product: string; readonly summary: string }[]
  readonly error: { readonly code: string; readonly message: string; readonly remedy?: string } | null
  /** Why it does not begin yet, and until when. */
  readonly waiting?: { readonly message: string; readonly until: string } | null
  readonly started_at: string | null
  readonly finished_at: string | null
}

export interface ProgressOutput {
  readonly isTerminal: boolean
  write(text: string): void
}

const POLL_MS = 300
/** Elsewhere than on a terminal a line is written only where something happened, and not more often. */
const LINE_EVERY_MS = 5_000

export const STDERR: ProgressOutput = {
  isTerminal: process.stderr.isTTY === true,
  write: (text) => {
    watchOutput()
    process.stderr.write(text)
  },
}

/**
 * Waits until the run has ended. `expectedRows` gives the time left. Throws where the run failed or was cancelled, with
 * its remedy.
 */
export async function followRun(
  client: Client,
  id: string,
  expectedRows: number | null,
  output: ProgressOutput = STDERR,
): Promise<RunAnswer> {
  const line = new ProgressLine(output, expectedRows)
  for (;;) {
    const run = (await client.request('GET', `/api/v1/ingestion/${encodeURIComponent(id)}`)) as RunAnswer
    line.show(run, Date.now())
    if (run.state === 'queued' || run.state === 'running') {
      await new Promise((resolve) => setTimeout(resolve, POLL_MS))
      continue
    }
    line.end()
    if (run.state === 'succeeded') return run
    throw Object.assign(
      new Error(
        [
          `the run ${run.state === 'cancelled' ? 'was cancelled' : `failed: ${run.error?.message}`}`,
          ...run.products.map((product) => `  ${productLine(withoutRemedy(product, run.error?.remedy))}`),
          ...checkLines(run),
        ].join('\n'),
      ),
      {
        ...(run.error?.remedy === undefined ? {} : { remedy: run.error.remedy }),
      },
    )
  }
}

/** What the run itself advises is said once, at the end. */
function withoutRemedy(product: ProductOfRun, said: string | undefined): ProductOfRun {
  if (said === undefined || product.reason?.remedy !== said) return product
  return { ...product, reason: { message: product.reason.message } }
}

/** What became of one product: what was published, which store serves it not yet and why, or why nothing was. */
export function productLine({
  id,
  name = id,
  state,
  epoch,
  rows,
  behind = [],
  reason,
  ...product
}: ProductOfRun): string {
  const published = epoch === null || epoch === undefined ? state : `${state}, epoch ${epoch} with ${rows} rows`
  const left = product.quarantined_rows ? [`${product.quarantined_rows} rows in quarantine`] : []
  const lost = Object.entries(product.lossy_values ?? {}).map(([column, values]) => `${values} values of ${column} cut`)
  const failed = (product.stores ?? []).filter((store) => store.state === 'failed')
  const late =
    failed.length === 0 && behind.length > 0 ? [`not served yet by ${behind.join(', ')}`] : failed.map(lateStore)
  const kept = epoch === null ? keptEpoch(product) : []
  const why = reason ? [reason.message, ...kept, ...(reason.remedy ? [reason.remedy] : [])] : kept
  return [`${name}: ${published}`, ...left, ...lost, ...late, ...why].join('; ')
}

function lateStore({ endpoint, epoch, error }: StoreOfRun): string {
  const still = epoch === null ? 'serves nothing yet' : `still serves epoch ${epoch}`
  const why = error === null ? '' : `: ${error.message}${error.remedy ? ` (${error.remedy})` : ''}`
  return `${endpoint} ${still}, and is tried again${why}`
}

function keptEpoch({ current_epoch: current }: Pick<ProductOfRun, 'current_epoch'>): readonly string[] {
  if (current === undefined) return []
  return [current === null ? 'it has no rows yet' : `epoch ${current} is served as before`]
}

/** `  sales.orders: prices_are_positive: 3 of 1,000 rows, first: id=7 price=-1` */
export function checkLines({ failed_checks: failed = [] }: Pick<RunAnswer, 'failed_checks'>): readonly string[] {
  return failed.map(({ product, summary }) => `  ${product}: ${summary}`)
}

class ProgressLine {
  readonly #output: ProgressOutput
  readonly #expectedRows: number | null
  #last = ''
  #lastAtMs = Number.NEGATIVE_INFINITY
  #lastState = ''

  constructor(output: ProgressOutput, expectedRows: number | null) {
    this.#output = output
    this.#expectedRows = expectedRows
  }

  show(run: RunAnswer, nowMs: number): void {
    const text = describeRun(run, this.#expectedRows, nowMs)
    if (this.#output.isTerminal) {
      this.#output.write(`\r\u001b[K${text}`)
    } else if (run.state !== this.#lastState || (text !== this.#last && nowMs - this.#lastAtMs >= LINE_EVERY_MS)) {
      this.#output.write(`${text}\n`)
      this.#lastAtMs = nowMs
    }
    this.#last = text
    this.#lastState = run.state
  }

  end(): void {
    if (this.#output.isTerminal) this.#output.write('\n')
  }
}

/** One line: state, rows, rows a second, and the time left where it is known how many rows there will be. */
export function describeRun(run: RunAnswer, expectedRows: number | null, nowMs: number): string {
  const rows = run.tables.reduce((sum, table) => sum + table.rows_read, 0)
  const done = run.tables.filter((table) => table.state !== 'pending' && table.state !== 'running').length
  const endMs = run.finished_at === null ? nowMs : Date.parse(run.finished_at)
  const seconds = run.started_at === null ? 0 : Math.max(0.001, (endMs - Date.parse(run.started_at)) / 1000)
  const rate = seconds > 0 ? rows / seconds : 0
  const counts = run.tables.length > 0 ? [`${done}/${run.tables.length} tables`, `${grouped(rows)} rows`] : []
  const state = run.waiting ? `${run.state} until ${run.waiting.until}: ${run.waiting.message}` : run.state
  const parts = [state, ...doing(run), ...counts]
  if (rate > 0) parts.push(`${grouped(Math.round(rate))} rows/s`)
  if (run.state === 'running' && expectedRows !== null && rate > 0 && expectedRows > rows) {
    parts.push(`about ${duration((expectedRows - rows) / rate)} left`)
  }
  if (seconds > 0) parts.push(duration(seconds))
  return parts.join(', ')
}

/** `reading public.orders`, `making sales.orders`, `writing sales.orders to lookup and realtime` */
function doing({ state, tables, progress = null }: RunAnswer): readonly string[] {
  if (state !== 'running') return []
  if (progress === null) return tables.filter((table) => table.state === 'running').map(({ name }) => `reading ${name}`)
  const stores = progress.stores.filter((store) => store.state === 'writing').map(({ endpoint }) => endpoint)
  const to = stores.length === 0 ? '' : ` to ${stores.join(' and ')}`
  return [`${progress.phase} ${progress.product}${to}`]
}

const grouped = (count: number): string => count.toLocaleString('en-US')

function duration(seconds: number): string {
  const whole = Math.round(seconds)
  if (whole < 60) return `${whole} s`
  return whole < 3600
    ? `${Math.floor(whole / 60)} min ${whole % 60} s`
    : `${Math.floor(whole / 3600)} h ${Math.floor((whole % 3600) / 60)} min`
}
