/** What the live demo shows: two columns and a chart on a terminal, a line a second elsewhere. Pure: texts of what is known. */
import type { Json } from './api.ts'
import type { Second, Spread } from './live-freshness.ts'
import type { Round, Totals } from './live-readers.ts'
import type { Written } from './live-writer.ts'

export interface View {
  readonly elapsedS: number
  readonly totalS: number
  readonly isWriting: boolean
  readonly isUp: boolean
  readonly written: Written
  readonly perSecond: number
  readonly recent: readonly string[]
  /** The newest; null before the first. */
  readonly round: Round | null
  readonly spread: Spread | null
  readonly waiting: number
  readonly seconds: readonly Second[]
  /** What befell the runtime, in sentences. */
  readonly told: string
}

export const WIDTH = 80
const LEFT = 34
/** Of the chart, before its columns. */
const AXIS = 8
export const CHART_COLUMNS = WIDTH - AXIS
const CHART_ROWS = 5
const BLOCKS = ' ▁▂▃▄▅▆▇█'
const STEPS_S = [1, 2, 3, 5, 10, 15, 20, 30, 60, 120, 300, 600]

export function screenOf(view: View): readonly string[] {
  const { elapsedS, totalS, isWriting, round, isUp } = view
  const state = isUp ? `epoch ${round?.epoch ?? '–'}` : 'the runtime is down'
  const head = `Sluice, live: ${isWriting ? `${Math.floor(elapsedS)} of ${totalS} s` : 'the writer has stopped'}`
  const [left, right] = [writtenLines(view), readLines(round, isUp)]
  const rows = Math.max(left.length, right.length)
  const columns = Array.from(
    { length: rows },
    (_, at) => `${fit(left[at] ?? '', LEFT)} │ ${fit(right[at] ?? '', WIDTH - LEFT - 3)}`,
  )
  const rule = '─'.repeat(WIDTH)
  return [
    `${fit(head, WIDTH - state.length)}${state}`,
    `${rule.slice(0, LEFT)}─┬${rule.slice(LEFT + 2)}`,
    ...columns,
    `${rule.slice(0, LEFT)}─┴${rule.slice(LEFT + 2)}`,
    ...freshnessLines(view),
    fit(view.told, WIDTH),
  ].map((line) => line.trimEnd())
}

function writtenLines({ written, perSecond, recent }: View): readonly string[] {
  return [
    'WRITTEN to PostgreSQL, the source',
    `${whole(written.transactions)} transactions, ${perSecond.toFixed(0)} a second`,
    `${whole(written.inserted)} INSERT, ${whole(written.updated)} UPDATE`,
    `${whole(written.deleted)} DELETE; ${whole(written.rows)} rows there`,
    `${whole(written.rolledBack)} rolled back`,
    ...recent.map((text) => `  ${text}`),
  ]
}

function readLines(round: Round | null, isUp: boolean): readonly string[] {
  if (round === null) return ['READ BACK: nothing yet']
  const { timeseries } = round
  return [
    isUp ? `READ BACK, all of it epoch ${round.epoch}` : `READ BACK before: epoch ${round.epoch}`,
    `lookup of order ${round.key}`,
    `  as viewer     ${personOf(round.viewer)}`,
    `  as developer  ${personOf(round.developer)}`,
    `  email, viewer ${round.viewer?.['email'] ?? '–'}`,
    `     developer  ${round.developer?.['email'] ?? '–'}`,
    `realtime        ${round.realtime === null ? 'no value' : `${round.realtime['status']} ${round.realtime['amount']}`}`,
    `timeseries      ${whole(timeseries.count)} orders of the last ${timeseries.seconds} s`,
    `SQL             ${totalsOf(round.sql)}`,
    `PyIceberg       ${typeof round.iceberg === 'string' ? round.iceberg : totalsOf(round.iceberg)}`,
    ...round.contradictions,
  ]
}

const personOf = (row: Json | null): string => (row === null ? 'no row' : `${row['customer']}, ${row['status']}`)
const totalsOf = ({ count, amount }: Totals): string => `${whole(count)} rows, ${amount}`

function freshnessLines({ spread, waiting, seconds }: View): readonly string[] {
  const figures =
    spread === null
      ? 'nothing is readable yet'
      : `p50 ${inSeconds(spread.p50Ms)}  p95 ${inSeconds(spread.p95Ms)}  longest ${inSeconds(spread.mostMs)}`
  const count = `${whole(spread?.count ?? 0)} commits readable, ${whole(waiting)} not yet`
  return [
    'FRESHNESS, from a commit at the source until the lookup has it',
    `  ${figures}; ${count}`,
    ...chartOf(seconds),
    `${' '.repeat(AXIS)}each column a second of commits, newest right; · not yet readable`,
  ]
}

/** Bars as high as it took; the scale is one that has room for the highest. */
export function chartOf(seconds: readonly Second[]): readonly string[] {
  const highest = Math.max(0, ...seconds.map((second) => (typeof second === 'number' ? second / 1000 : 0)))
  const top = STEPS_S.find((step) => step >= highest) ?? Math.ceil(highest)
  const shown = seconds.slice(-CHART_COLUMNS)
  const lines = Array.from({ length: CHART_ROWS }, (_, at) => {
    const row = CHART_ROWS - 1 - at
    const label = at === 0 || row === 0 ? `${at === 0 ? top : 0} s` : ''
    return `${label.padStart(AXIS - 2)} ┤${shown.map((second) => cellOf(second, row, top)).join('')}`
  })
  return lines.map((line) => line.trimEnd())
}

function cellOf(second: Second, row: number, top: number): string {
  if (second === 'waiting') return row === 0 ? '·' : ' '
  if (second === null) return ' '
  // What was measured is seen, however small.
  const eighths = Math.max(1, Math.round((second / 1000 / top) * CHART_ROWS * 8))
  return BLOCKS[Math.min(8, Math.max(0, eighths - row * 8))] as string
}

export const LINE_HEAD = '  time  epoch  commits  p50 fresh  viewer      developer         rows  PyIceberg'

/** One a second, where there is no terminal. */
export function lineOf({ elapsedS, round, written, spread, isUp }: View): string {
  const iceberg = typeof round?.iceberg === 'object' ? whole(round.iceberg.count) : '–'
  const cells = isUp
    ? [
        String(round?.epoch ?? '–').padStart(7),
        whole(written.transactions).padStart(9),
        (spread === null ? '–' : inSeconds(spread.p50Ms)).padStart(11),
        `  ${fit(round?.viewer?.['customer'] ?? '–', 12)}`,
        fit(round?.developer?.['customer'] ?? '–', 16),
        (round === null ? '–' : whole(round.sql.count)).padStart(6),
        iceberg.padStart(11),
      ]
    : [String('down').padStart(7), whole(written.transactions).padStart(9)]
  return `${String(Math.floor(elapsedS)).padStart(4)} s${cells.join('')}`.trimEnd()
}

export const inSeconds = (ms: number): string => `${(ms / 1000).toFixed(ms < 9_995 ? 2 : 1)} s`
export const whole = (number: number): string => number.toLocaleString('en-US')

function fit(text: string, width: number): string {
  return text.length > width ? `${text.slice(0, width - 1)}…` : text.padEnd(width)
}

/** Draws one picture over the former. What is wider or higher than the terminal is left out, so that lines stay where they are. */
export class Picture {
  readonly #out: NodeJS.WriteStream
  #drawn = 0

  constructor(out: NodeJS.WriteStream) {
    this.#out = out
  }

  draw(lines: readonly string[]): void {
    const { columns = WIDTH, rows = 24 } = this.#out
    const shown = lines.slice(0, Math.max(1, rows - 1)).map((line) => line.slice(0, columns))
    const back = this.#drawn === 0 ? '' : `\x1b[${this.#drawn}A`
    // In one write, and each line is ended before the next begins: nothing flickers.
    this.#out.write(`\x1b[?25l${back}\r${shown.map((line) => `${line}\x1b[K\n`).join('')}\x1b[J`)
    this.#drawn = shown.length
  }

  /** What comes after it stands below. */
  leave(): void {
    this.#out.write('\x1b[?25h')
    this.#drawn = 0
  }
}
