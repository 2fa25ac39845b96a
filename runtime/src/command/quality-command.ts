/** `sluice quality`: what the checks of a product found, and how that went before. */
import { UsageError } from './arguments.ts'
import { type Command, type CommandCall, segment } from './command.ts'
import { plain, textTable } from './text-table.ts'

/** Of a check, what its reader is shown. */
export interface CheckAnswer {
  readonly name: string
  readonly severity: string
  readonly passed: boolean
  readonly learning: boolean
  readonly violations: number | null
  readonly total: number | null
  readonly measured: {
    readonly metric: string
    readonly column: string | null
    readonly value: number | null
    readonly lower: number | null
    readonly upper: number | null
    readonly epochs: number
  } | null
  /** Of a bound of a new version. */
  readonly compared?: {
    readonly metric: string
    readonly column: string | null
    readonly former: number | null
    readonly now: number | null
    readonly at_most: number | string
    readonly accepted: boolean
  } | null
  /** Of what a product made of this one expects. */
  readonly expected?: {
    readonly product: string
    readonly owner: string | null
    readonly name: string
    readonly severity: string
    readonly also_served: boolean | null
  }
  readonly violating: {
    readonly columns: readonly string[]
    readonly masked_columns: readonly string[]
    readonly rows: readonly (readonly (string | null)[])[]
  } | null
}

/** What a product expects of an input. */
export interface ExpectationAnswer {
  readonly input: string
  readonly product: string
  readonly name: string
  readonly severity: string
  readonly may: string | null
  readonly last: {
    readonly passed: boolean
    readonly violations: number | null
    readonly total: number | null
    readonly state: string
    readonly epoch: number | null
  } | null
}

export interface QualityAnswer {
  readonly state: 'committed' | 'blocked'
  readonly kind: string
  readonly version: string
  readonly epoch: number | null
  readonly rows: number | null
  readonly quality_score: number | null
  readonly committed_at: string
  readonly quality: { readonly checks: readonly CheckAnswer[] } | null
}

const LAST = 10
const MOST = 100

export const QUALITY_COMMAND: Command = {
  usage: 'quality PRODUCT [--last N]',
  summary: 'what the checks of a product found last, with the rows that failed them, and how it went before',
  flags: { last: `of how many materializations, ${MOST} at most; default ${LAST}, with --json the newest alone` },
  remote: true,
  async run(call) {
    const last = lastOf(call)
    const product = `/api/v1/products/${segment(call, 0, 'PRODUCT')}`
    const client = await call.client()
    const { data } = (await client.request('GET', `${product}/quality?limit=${last ?? LAST}`)) as {
      readonly data: readonly QualityAnswer[]
    }
    if (call.args.flags['json']) return last === null ? (data[0] ?? null) : data
    const { expectations } = (await client.request('GET', product)) as {
      readonly expectations: readonly ExpectationAnswer[]
    }
    return `${qualityText(data)}${expectationsText(expectations)}`
  },
}

/** Null where it is not said. */
function lastOf({ args }: CommandCall): number | null {
  const { last } = args.flags
  if (last === undefined) return null
  const number = typeof last === 'string' && /^[1-9][0-9]{0,2}$/.test(last) ? Number(last) : 0
  if (number < 1 || number > MOST) throw new UsageError(`--last is a number from 1 to ${MOST}`)
  return number
}

/** @param all newest first */
export function qualityText(all: readonly QualityAnswer[]): string {
  const [newest] = all
  if (newest === undefined) return 'The product has not been made yet.'
  const { state, version, committed_at: at, quality_score: score, quality } = newest
  const published = state === 'blocked' ? 'was not published' : 'was published'
  const head = `Version ${plain(version)} ${published} at ${at}${score === null ? '' : `, with a score of ${score}`}.`
  const checks = quality?.checks ?? []
  const own = checks.filter(({ expected }) => expected === undefined)
  const shown =
    checks.length === 0
      ? ['It has no checks that you may see.']
      : [
          ...(own.length === 0 ? [] : [checkTable(own)]),
          ...learnedTable(checks),
          ...comparedTable(checks),
          ...expectedTable(checks),
          ...checks.flatMap(violatingText),
        ]
  return [head, ...shown, ...(all.length > 1 ? [trend(all)] : [])].join('\n')
}

function checkTable(checks: readonly CheckAnswer[]): string {
  const lines = checks.map((check) => [check.name, resultOf(check), check.severity, check.violations, check.total])
  return textTable(['check', 'result', 'severity', 'violations', 'of'], lines)
}

function resultOf({ passed, learning, violations }: Pick<CheckAnswer, 'passed' | 'learning' | 'violations'>): string {
  if (learning) return 'learning'
  if (passed) return 'passed'
  return violations === null ? 'could not be run' : 'failed'
}

function learnedTable(checks: readonly CheckAnswer[]): readonly string[] {
  const lines = checks.flatMap(({ name, measured }) => {
    if (measured === null) return []
    const { metric, column, value, lower, upper, epochs } = measured
    const found = value ?? 'nothing to measure'
    return [[name, column === null ? metric : `${metric} of ${column}`, found, lower, upper, epochs]]
  })
  const header = ['check', 'measures', 'value', 'from', 'to', 'learned from epochs']
  return lines.length === 0 ? [] : [`\n${textTable(header, lines)}`]
}

/** A new version beside the rows that were served. */
function comparedTable(checks: readonly CheckAnswer[]): readonly string[] {
  const lines = checks.flatMap(({ name, compared, violations, total }) => {
    if (compared == null) return []
    const { metric, former, now, at_most: most, accepted } = compared
    const isLevel = metric === 'rows' || metric === 'null_share'
    const differs = isLevel ? [former, now] : [null, violations === null ? null : `${violations} of ${total}`]
    return [[name, ...differs, most, accepted ? 'accepted' : '']]
  })
  return lines.length === 0 ? [] : [`\n${textTable(['new version', 'served', 'now', 'at most', ''], lines)}`]
}

/** What those downstream expect. */
function expectedTable(checks: readonly CheckAnswer[]): readonly string[] {
  const lines = checks.flatMap((check) => {
    if (check.expected === undefined) return []
    const { product, owner, name, severity, also_served: isServed } = check.expected
    const kept = check.severity === 'error' && !check.passed
    const came = kept ? 'kept from being published' : isServed === true ? 'as the rows in service' : ''
    return [[product, owner, name, severity, resultOf(check), check.violations, check.total, came]]
  })
  const header = ['expected by', 'owner', 'expectation', 'severity', 'result', 'violations', 'of', '']
  return lines.length === 0 ? [] : [`\n${textTable(header, lines)}`]
}

/** What the product itself expects of its inputs; empty where that is nothing. */
export function expectationsText(all: readonly ExpectationAnswer[]): string {
  if (all.length === 0) return ''
  const lines = all.map(({ product, name, severity, may, last }) => {
    const result = last === null ? 'not known' : resultOf({ ...last, learning: false })
    const of = last === null ? null : last.state === 'blocked' ? 'not published' : `epoch ${last.epoch}`
    return [product, name, severity, may, result, last?.violations, last?.total, of]
  })
  const header = ['expects of', 'expectation', 'severity', 'which may', 'result', 'violations', 'of', 'in']
  return `\n\n${textTable(header, lines)}`
}

function violatingText({ name, violations, violating }: CheckAnswer): readonly string[] {
  if (violating === null || violating.rows.length === 0) return []
  const header = violating.columns.map((column) => (violating.masked_columns.includes(column) ? `${column}*` : column))
  const count = violations === violating.rows.length ? '' : ` (${violating.rows.length} of ${violations})`
  const masked = violating.masked_columns.length > 0 ? '\n* masked for you' : ''
  return [`\n${plain(name)}: rows that failed it${count}\n${textTable(header, violating.rows)}${masked}`]
}

function trend(all: readonly QualityAnswer[]): string {
  const lines = all.map(({ committed_at: at, version, state, kind, epoch, rows, quality_score: score, quality }) => {
    const failed = (quality?.checks ?? []).filter(({ passed }) => !passed).map(({ name }) => name)
    const outcome = state === 'blocked' ? 'not published' : kind === 'rollback' ? 'rolled back to' : 'published'
    return [at, outcome, version, epoch, rows, score, failed.join(', ')]
  })
  const header = ['at', 'outcome', 'version', 'epoch', 'rows', 'score', 'failed']
  return `\nThe last ${all.length}, newest first:\n${textTable(header, lines)}`
}
