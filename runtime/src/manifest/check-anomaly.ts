/** What an anomaly check says, and whether its column has what is to be measured. */
import type { Columns } from './columns.ts'
import type { CheckFields } from './files/quality.ts'
import type { AnomalyRule, Metric } from './manifest-set.ts'
import type { Finding, Path } from './problem.ts'

const MIN_HISTORY = 7
const WINDOW = 30

export function anomalyRule(written: NonNullable<CheckFields['anomaly']>): AnomalyRule {
  const { metric, column = null, sensitivity = 'normal', min_history: minHistory = MIN_HISTORY } = written
  const window = written.window ?? Math.max(WINDOW, minHistory)
  return {
    kind: 'anomaly',
    metric,
    column: metric === 'row_count' ? null : column,
    sensitivity,
    minHistory,
    window,
    learnFrom: written.learn_from ?? null,
  }
}

export function anomalyFindings(
  path: Path,
  rule: AnomalyRule,
  written: CheckFields['anomaly'],
  columns: Columns | null,
): readonly Finding[] {
  const findings: Finding[] = []
  const say = (field: string, message: string, hint?: string) =>
    findings.push({ manifest: 'quality', path: [...path, field], message, ...(hint === undefined ? {} : { hint }) })
  const { metric, minHistory, window, learnFrom } = rule
  const column = written?.column
  if (metric === 'row_count' && column !== undefined) {
    say('column', 'row_count counts rows, whatever they hold', 'Remove column, or measure distinct or null_share.')
  } else if (metric !== 'row_count' && column === undefined) {
    findings.push({ manifest: 'quality', path, message: `${metric} needs a column` })
  } else if (column !== undefined) {
    findings.push(...(columns?.missing('quality', [...path, 'column'], column) ?? []))
    const why = unmeasurable(metric, column, columns)
    if (why !== null) say('column', why)
  }
  if (window < minHistory) {
    say('window', `a window of ${window} epochs never holds the ${minHistory} that min_history asks for`)
  }
  if (learnFrom !== null && !isDay(learnFrom)) say('learn_from', `there is no day ${learnFrom}`)
  return findings
}

const OF_NUMBERS: ReadonlySet<string> = new Set(['integer', 'long', 'float', 'double'])
const OF_CATEGORIES: ReadonlySet<string> = new Set(['string', 'boolean'])

/** How values of a type lie is told by buckets of numbers, or by categories; null: neither. */
export function distributionOf(type: string): 'numbers' | 'categories' | null {
  if (OF_NUMBERS.has(type) || type.startsWith('decimal(')) return 'numbers'
  return OF_CATEGORIES.has(type) ? 'categories' : null
}

function unmeasurable(metric: Metric, name: string, columns: Columns | null): string | null {
  const column = columns?.get(name)
  if (column === undefined) return null
  if (metric === 'null_share' && (!column.nullable || column.role === 'identity')) {
    return `"${name}" holds a value in every row by output.yaml, so that its null_share is always 0`
  }
  if (metric === 'drift' && distributionOf(column.type) === null) {
    return `drift needs a column of numbers, string or boolean, and "${name}" is of type ${column.type}`
  }
  return null
}

/** The pattern lets the 31st of every month pass. */
function isDay(text: string): boolean {
  const at = new Date(`${text}T00:00:00Z`)
  return !Number.isNaN(at.getTime()) && at.toISOString().startsWith(text)
}
