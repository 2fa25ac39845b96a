/**
 * The statement of a training set. It is ours, and runs as a tenant's all the same: over the relations that its author may
 * read, through the guard. Of the author it has quoted names, which were found among the columns of those relations.
 */
import { quoteName, quoteTable } from '@sluice/engine'
import { LABELS } from './training-labels.ts'

/** A product as labels, in place of rows that were sent. */
export interface LabelRelation {
  readonly name: readonly string[]
  readonly time: string
  readonly columns: readonly string[]
  /** In the order of `k0`…: the column of each. */
  readonly keys: readonly string[]
  /** Tells any two rows apart that differ. */
  readonly order: readonly string[]
}

export interface FeatureRelation {
  readonly name: readonly string[]
  readonly time: string
  /** Which of the labels' `k…` each column has to equal. */
  readonly keys: readonly { readonly column: string; readonly label: number }[]
  readonly maxAgeMs: number | null
  readonly columns: readonly { readonly column: string; readonly as: string }[]
  /** Of two rows of one key and time, that one counts which is greater by these. */
  readonly order: readonly string[]
}

export interface TrainingPlan {
  /** Null: the job has them as the relation `LABELS`. */
  readonly labels: LabelRelation | null
  /** What comes back of the labels: `c0`… by its name. */
  readonly labelColumns: readonly string[]
  readonly features: readonly FeatureRelation[]
}

export function trainingSql({ labels, labelColumns, features }: TrainingPlan): string {
  const parts = [
    ...(labels === null ? [] : [`${LABELS} AS MATERIALIZED (${labelsOf(labels)})`]),
    ...features.map((feature, at) => `${featureName(at)} AS (${valuesOf(feature)})`),
  ]
  const columns = [
    ...labelColumns.map((name, at) => `l.c${at} AS ${quoteName(name)}`),
    ...features.flatMap(({ columns }, at) =>
      columns.map(({ as }, place) => `${featureName(at)}.v${place} AS ${quoteName(as)}`),
    ),
  ]
  const joins = features.map((_, at) => `LEFT JOIN ${featureName(at)} ON ${featureName(at)}.n = l.n`)
  const lead = parts.length === 0 ? '' : `WITH ${parts.join(',\n')}\n`
  return `${lead}SELECT ${columns.join(', ')}\nFROM ${LABELS} AS l ${joins.join(' ')}\nORDER BY l.n`
}

const featureName = (at: number): string => `__feature${at}`

/** Instants compare with instants: a date is its first one, a time without a zone is of UTC. */
const instant = (column: string): string => `CAST(p.${quoteName(column)} AS TIMESTAMPTZ)`

function labelsOf({ name, time, columns, keys, order }: LabelRelation): string {
  const by = [instant(time), ...order.map((column) => `p.${quoteName(column)}`)]
  const cells = [
    `row_number() OVER (ORDER BY ${by.map((each) => `${each} ASC NULLS LAST`).join(', ')}) AS n`,
    `${instant(time)} AS t`,
    ...columns.map((column, at) => `p.${quoteName(column)} AS c${at}`),
    ...keys.map((column, at) => `p.${quoteName(column)} AS k${at}`),
  ]
  return `SELECT ${cells.join(', ')} FROM ${quoteTable(name)} AS p`
}

/**
 * The values of each label that has any. The as-of join finds the time alone: which of several rows of one time it would
 * give is chance, and rows of the labels' own times are few to choose among.
 */
function valuesOf({ name, time, keys, maxAgeMs, columns, order }: FeatureRelation): string {
  const table = quoteTable(name)
  const own = keys.map(({ column }, at) => `p.${quoteName(column)} AS k${at}`)
  const isThere = [time, ...keys.map(({ column }) => column)].map((column) => `p.${quoteName(column)} IS NOT NULL`)
  const matches = keys.map(({ label }, at) => `l.k${label} = f.k${at}`)
  const found = keys.map((_, at) => `f.k${at} AS k${at}`)
  const isYoung = maxAgeMs === null ? '' : ` WHERE f.t >= l.t - to_milliseconds(${maxAgeMs})`
  const asked = keys.map(({ label }) => `k${label}`)
  const isAsked = ['t', ...asked].map((column) => `${column} IS NOT NULL`)
  // DuckDB's as-of join finds rows for a label without a time, where there are more than a few labels.
  // It also compares each label with each row where it believes that there are fewer than 64 labels, and of files of a table
  // it believes that of any number: one row of a range, of which it knows as little, makes them many.
  const many = 'range(10000) AS r(one)'
  const labels = `SELECT n, t, ${[...new Set(asked)].join(', ')} FROM ${LABELS}, ${many} WHERE r.one = 0 AND ${isAsked.join(' AND ')}`
  const times = `SELECT l.n AS n, f.t AS t, ${found.join(', ')}
    FROM (${labels}) AS l
    ASOF JOIN (SELECT ${instant(time)} AS t, ${own.join(', ')} FROM ${table} AS p WHERE ${isThere.join(' AND ')}) AS f
      ON ${matches.join(' AND ')} AND l.t >= f.t${isYoung}`
  const equals = keys.map(({ column }, at) => `p.${quoteName(column)} = m.k${at}`)
  const greatest = order.map((column) => `p.${quoteName(column)} DESC NULLS LAST`)
  return `SELECT DISTINCT ON (m.n) m.n AS n, ${columns.map(({ column }, at) => `p.${quoteName(column)} AS v${at}`).join(', ')}
    FROM (${times}) AS m
    JOIN ${table} AS p ON ${equals.join(' AND ')} AND ${instant(time)} = m.t
    ORDER BY ${['m.n', ...greatest].join(', ')}`
}
