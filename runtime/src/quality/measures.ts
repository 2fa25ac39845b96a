/** What anomaly checks measure, as statements of ours for the job that counts for the other checks. */
import { quoteName, quoteTable } from '@sluice/engine'
import { columnNamed } from '@sluice/sdk'
import { distributionOf } from '../manifest/check-anomaly.ts'
import type { AnomalyRule, Check } from '../manifest/manifest-set.ts'
import type { CheckTable } from './check-tables.ts'
import {
  bucketsOf,
  type CategoryProfile,
  type NumberProfile,
  type Profile,
  stabilityIndex,
  sum,
} from './distribution.ts'
import { median } from './learned-bounds.ts'
import { NOTHING, type Taught } from './taught.ts'

export interface Measurement {
  /** Null where there is nothing to measure. */
  readonly value: number | null
  /** Rows, for shares. */
  readonly rows: number
  /** Of a drift, for the epochs to come: of values of rows, so that it is as hidden as these. */
  readonly profile?: Profile
  /** Of a drift with a value: over how many buckets, and what it is by chance. */
  readonly chance?: { readonly buckets: number; readonly noise: number }
}

export interface MeasureStatement {
  readonly check: string
  readonly sql: string
  /** Throws a plain Error where the rows are none that the statement gives. */
  readonly read: (rows: readonly (readonly unknown[])[]) => Measurement
}

/** These rows are compared with so many epochs, each by its own buckets. */
export const MOST_PROFILES = 10

const QUANTILES = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9]
const CATEGORIES = 20

export function measureStatements(
  checks: readonly Check[],
  output: CheckTable,
  taught: ReadonlyMap<string, Taught>,
): readonly MeasureStatement[] {
  return checks.flatMap(({ name, rule }) =>
    rule.kind === 'anomaly' ? [{ check: name, ...measure(rule, output, taught.get(name) ?? NOTHING) }] : [],
  )
}

function measure(rule: AnomalyRule, output: CheckTable, taught: Taught): Omit<MeasureStatement, 'check'> {
  const table = quoteTable(output.name)
  if (rule.metric === 'row_count') {
    return {
      sql: `SELECT count(*) FROM ${table}`,
      read: ([row]) => ({ value: whole(row?.[0]), rows: whole(row?.[0]) }),
    }
  }
  const column = quoteName(rule.column ?? '')
  switch (rule.metric) {
    case 'null_share':
      return { sql: `SELECT count(*), count(${column}) FROM ${table}`, read: ([row]) => nullShare(row) }
    case 'distinct':
      return {
        sql: `SELECT count(*) FROM (SELECT ${column} FROM ${table} WHERE ${column} IS NOT NULL GROUP BY ${column})`,
        read: ([row]) => ({ value: whole(row?.[0]), rows: whole(row?.[0]) }),
      }
    case 'drift': {
      const isNumbers = distributionOf(columnNamed(output.schema, rule.column ?? '').type) === 'numbers'
      return isNumbers ? numberDrift(column, table, taught.profiles) : categoryDrift(column, table, taught.profiles)
    }
  }
}

function nullShare(row: readonly unknown[] | undefined): Measurement {
  const [rows, present] = [whole(row?.[0]), whole(row?.[1])]
  return { value: rows === 0 ? null : (rows - present) / rows, rows }
}

/** The edges of this epoch need not be exact, for what lies between them is counted: they are found without a sort. */
function numberDrift(column: string, table: string, profiles: readonly Profile[]): Omit<MeasureStatement, 'check'> {
  const known = profiles.filter((profile) => profile.kind === 'numbers').filter(isWhole)
  const edges = [...new Set(known.flatMap((profile) => profile.edges))]
  const lowest = [...new Set(known.flatMap((profile) => profile.edges.slice(0, 1)))]
  const own = QUANTILES.map((_, at) => `e[${at + 1}]`)
  const literal = (edge: number) => `CAST('${edge}' AS DOUBLE)`
  const sql = `WITH quantiles AS MATERIALIZED (
      SELECT approx_quantile(CAST(${column} AS DOUBLE), [${QUANTILES.join(', ')}])
        FILTER (WHERE isfinite(CAST(${column} AS DOUBLE))) AS e FROM ${table}
    )
    SELECT ${[
      'count(v)',
      ...own.map((edge) => `any_value(${edge})`),
      ...[...own, ...edges.map(literal)].map((edge) => `count(*) FILTER (WHERE v <= ${edge})`),
      ...[...own, ...lowest.map(literal)].map((edge) => `count(*) FILTER (WHERE v < ${edge})`),
    ].join(', ')}
    FROM (SELECT CAST(${column} AS DOUBLE) AS v FROM ${table}) AS own, quantiles`
  const read = ([row = []]: readonly (readonly unknown[])[]): Measurement => {
    const rows = whole(row[0])
    const found = row.slice(1, 1 + own.length)
    const upTo = countsBy([...found, ...edges], row.slice(1 + own.length))
    const below = countsBy([...found, ...lowest], row.slice(1 + 2 * own.length + edges.length))
    const over = (some: readonly number[]): readonly number[] => {
      const least = some.slice(0, 1).map((edge) => below.get(edge) ?? 0)
      const ends = [least[0] ?? 0, ...some.map((edge) => upTo.get(edge) ?? 0), rows]
      return ends.map((count, at) => count - (ends[at - 1] ?? 0))
    }
    const sorted = [...upTo.keys()].filter((edge) => found.includes(edge)).toSorted((a, b) => a - b)
    const profile: NumberProfile = { kind: 'numbers', edges: sorted, counts: over(sorted) }
    return compared(rows, profile, known, (other) => over(other.edges))
  }
  return { sql, read }
}

/** One kept by an earlier release may lack the bucket below its edges: it is nothing to compare with. */
const isWhole = ({ edges, counts }: NumberProfile): boolean => counts.length === edges.length + 2

/** By edge, those that are finite. */
function countsBy(edges: readonly unknown[], counts: readonly unknown[]): ReadonlyMap<number, number> {
  const told = edges.map((edge, at) => [edge, counts[at]] as const)
  return new Map(
    told.flatMap(([edge, count]) => (typeof edge === 'number' && Number.isFinite(edge) ? [[edge, whole(count)]] : [])),
  )
}

/** A category is known by a fingerprint: no value of the column stands in a statement, or leaves the engine. */
function categoryDrift(column: string, table: string, profiles: readonly Profile[]): Omit<MeasureStatement, 'check'> {
  const known = profiles.filter((profile) => profile.kind === 'categories')
  const names = [...new Set(known.flatMap((profile) => profile.names))].filter((name) => /^[0-9a-f]{64}$/.test(name))
  const listed = names.length === 0 ? 'false' : `name IN (${names.map((name) => `'${name}'`).join(', ')})`
  const sql = `WITH found AS MATERIALIZED (
      SELECT sha256(value) AS name, n FROM (
        SELECT CAST(${column} AS VARCHAR) AS value, count(*) AS n FROM ${table} WHERE ${column} IS NOT NULL GROUP BY 1
      )
    ), ranked AS (SELECT name, n, row_number() OVER (ORDER BY n DESC, name) AS place FROM found)
    SELECT name, n, place <= ${CATEGORIES} FROM ranked WHERE place <= ${CATEGORIES} OR ${listed}
    UNION ALL SELECT NULL, CAST(coalesce(sum(n), 0) AS BIGINT), false FROM found`
  const read = (found: readonly (readonly unknown[])[]): Measurement => {
    const rows = whole(found.find(([name]) => name === null)?.[1])
    const counts = new Map(found.flatMap(([name, n]) => (typeof name === 'string' ? [[name, whole(n)] as const] : [])))
    const over = (some: readonly string[]) => {
      const each = some.map((name) => counts.get(name) ?? 0)
      return { counts: each, others: rows - sum(each) }
    }
    const own = found.flatMap(([name, , isOwn]) => (typeof name === 'string' && isOwn === true ? [name] : []))
    const profile: CategoryProfile = { kind: 'categories', names: own, ...over(own) }
    return compared(rows, profile, known, (other) => {
      const { counts: each, others } = over(other.names)
      return [...each, others]
    })
  }
  return { sql, read }
}

/** The drift is the middle one of those from each epoch: one odd epoch among them decides nothing. */
function compared<P extends Profile>(
  rows: number,
  profile: P,
  known: readonly P[],
  over: (other: P) => readonly number[],
): Measurement {
  const others = known.filter((other) => sum(bucketsOf(other)) > 0)
  if (rows === 0 || others.length === 0) return { value: null, rows, profile }
  const drifts = others.map((other) => stabilityIndex(bucketsOf(other), over(other)))
  const noise = median(others.map((other) => 1 / rows + 1 / sum(bucketsOf(other))))
  const buckets = Math.max(...others.map((other) => bucketsOf(other).length))
  return { value: Math.round(median(drifts) * 1e6) / 1e6, rows, profile, chance: { buckets, noise } }
}

function whole(value: unknown): number {
  if (typeof value !== 'bigint' && typeof value !== 'number') throw new Error('a count is no number')
  return Number(value)
}
