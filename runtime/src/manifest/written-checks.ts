/** A check as quality.yaml would say it: what `readQuality` makes the same check of again. */
import { durationText } from './durations.ts'
import type { CheckFields } from './files/quality.ts'
import type { AnomalyRule, Check, Rule, Threshold } from './manifest-set.ts'

/** Every default is said, so that it reads the same in whichever file. */
export function writtenCheck({
  name,
  description,
  severity,
  dimension,
  weight,
  threshold,
  ...check
}: Check): CheckFields {
  const { rule, onError } = check
  return {
    name,
    ...(description === '' ? {} : { description }),
    severity,
    dimension,
    weight,
    ...thresholdOf(threshold),
    on_error: onError,
    ...ruleOf(rule),
  }
}

/** One that is none bears nothing, which kinds that hold or do not never say. */
function thresholdOf(threshold: Threshold): Pick<CheckFields, 'threshold'> {
  if ('percent' in threshold) return { threshold: `${threshold.percent}%` }
  return threshold.rows === 0 ? {} : { threshold: threshold.rows }
}

function ruleOf(rule: Rule): Partial<CheckFields> {
  switch (rule.kind) {
    case 'sql':
      return { sql: rule.sql }
    case 'not_null':
    case 'unique':
      return { [rule.kind]: [...rule.columns] }
    case 'accepted_values':
      return { accepted_values: { column: rule.column, values: [...rule.values] } }
    case 'range': {
      const { column, min, max, exclusive } = rule
      return { range: { column, ...said({ min, max }), ...(exclusive ? { exclusive } : {}) } }
    }
    case 'matches':
      return { matches: { column: rule.column, pattern: rule.pattern } }
    case 'references': {
      const { columns, input, inputColumns } = rule
      return { references: { columns: [...columns], input, input_columns: [...inputColumns] } }
    }
    case 'row_count':
      return { row_count: said({ min: rule.min, max: rule.max }) }
    case 'freshness':
      return { freshness: { column: rule.column, max_age: durationText(rule.maxAgeMs) } }
    case 'schema':
      return { schema: { ...said({ input: rule.input }), columns: [...rule.columns], exact: rule.exact } }
    case 'anomaly':
      return { anomaly: anomalyOf(rule) }
  }
}

function anomalyOf(rule: AnomalyRule): NonNullable<CheckFields['anomaly']> {
  const { metric, column, sensitivity, minHistory, window, learnFrom } = rule
  const bounds = { sensitivity, min_history: minHistory, window }
  return { metric, ...said({ column }), ...bounds, ...said({ learn_from: learnFrom }) }
}

type Said<T> = { [Key in keyof T]?: NonNullable<T[Key]> }

/** Without what is null. */
function said<T extends object>(fields: T): Said<T> {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== null)) as Said<T>
}
