/** How much the rows of a new version differ from those that are served, and whether that is within its bounds. */
import { quoteName, sqlType } from '@sluice/engine'
import type { Column, TableSchema } from '@sluice/sdk'
import { NEW_VERSION } from '../manifest/check-new-version.ts'
import type { Threshold, VersionBound } from '../manifest/manifest-set.ts'
import type { CheckResult, Compared } from './check-result.ts'

/** What is compared: both tables, and the names that they have in the engine. */
export interface ComparedTables {
  readonly bounds: readonly VersionBound[]
  readonly former: TableSchema & { readonly name: string }
  readonly next: TableSchema & { readonly name: string }
}

/** Null: it could not be counted. */
export interface ComparedCounts {
  /** Rows, then of each column of `null_share` the rows with a value. */
  readonly former: readonly number[] | null
  readonly next: readonly number[] | null
  /** Rows whose identity both have, then of each column of `changed` those in which it holds another value. */
  readonly matched: readonly number[] | null
}

export interface ComparisonSql {
  readonly former: string
  readonly next: string
  /** Null: no bound needs it, or the versions tell rows apart by other columns. */
  readonly matched: string | null
}

/** Of columns that both have; one that is new has nothing to be compared with. */
function columnsOf(metric: VersionBound['metric'], { bounds, former, next }: ComparedTables): readonly string[] {
  const isIn = (schema: TableSchema, name: string) => schema.columns.some((column) => column.name === name)
  return bounds.flatMap((bound) =>
    bound.metric === metric && bound.column !== null && isIn(former, bound.column) && isIn(next, bound.column)
      ? [bound.column]
      : [],
  )
}

const BY_IDENTITY: ReadonlySet<string> = new Set(['leaving', 'joining', 'changed'])

export function comparisonSql(tables: ComparedTables): ComparisonSql {
  const { bounds, former, next } = tables
  const counted = columnsOf('null_share', tables).map((name) => `, count(${quoteName(name)})`)
  const countsOf = (name: string) => `SELECT count(*)${counted.join('')} FROM ${quoteName(name)}`
  const isNeeded = bounds.some(({ metric }) => BY_IDENTITY.has(metric))
  const sameKey = next.primaryKey.map((name) => `b.${quoteName(name)} = a.${quoteName(name)}`)
  const changed = columnsOf('changed', tables).map(
    (name) => `, count(CASE WHEN ${isOther(columnOf(former, name), columnOf(next, name))} THEN 1 END)`,
  )
  const matched = `SELECT count(*)${changed.join('')} FROM ${quoteName(former.name)} b JOIN ${quoteName(next.name)} a
    ON ${sameKey.join(' AND ')}`
  const isKnown = sameNames(former.primaryKey, next.primaryKey) && sameKey.length > 0
  return { former: countsOf(former.name), next: countsOf(next.name), matched: isNeeded && isKnown ? matched : null }
}

function sameNames(some: readonly string[], others: readonly string[]): boolean {
  return some.length === others.length && some.every((name) => others.includes(name))
}

function columnOf({ columns }: TableSchema, name: string): Column {
  return columns.find((column) => column.name === name) as Column
}

/** A value of another type is the same where it is that value in the type of today. */
function isOther(before: Column, after: Column): string {
  const [old, now] = [`b.${quoteName(before.name)}`, `a.${quoteName(after.name)}`]
  if (before.type === after.type) return `${old} IS DISTINCT FROM ${now}`
  const cast = `TRY_CAST(${old} AS ${sqlType(after.type)})`
  return `(${old} IS NULL) <> (${now} IS NULL) OR ${cast} IS DISTINCT FROM ${now}`
}

/** @param classesOf that hide columns of the rows that are served */
export function judgeComparison(
  tables: ComparedTables,
  counts: ComparedCounts,
  { accepted, classesOf }: { readonly accepted: boolean; classesOf(columns: readonly string[]): readonly string[] },
): readonly CheckResult[] {
  return tables.bounds.map((bound) => {
    const { metric, column, atMost } = bound
    const found = foundOf(bound, tables, counts)
    const key = BY_IDENTITY.has(metric) ? [...new Set([...tables.next.primaryKey, ...tables.former.primaryKey])] : []
    const output = [...key, ...(column === null ? [] : [column])]
    return {
      name: `${NEW_VERSION}${column === null ? metric : `${metric} ${column}`}`,
      severity: accepted ? 'warn' : 'error',
      dimension: 'consistency',
      weight: 0,
      onError: 'block',
      passed: found?.isWithin ?? false,
      violations: found?.differing ?? null,
      total: found?.of ?? null,
      reads: { output, raw: [], classes: classesOf(output) },
      compared: { metric, column, former: null, now: null, ...found?.values, atMost: written(atMost), accepted },
    }
  })
}

interface Found {
  readonly differing: number
  readonly of: number
  readonly isWithin: boolean
  readonly values?: Pick<Compared, 'former' | 'now'>
}

function foundOf(
  { metric, column, atMost }: VersionBound,
  tables: ComparedTables,
  counts: ComparedCounts,
): Found | null {
  const { former, next, matched } = counts
  if (former === null || next === null) return null
  const [before = 0, after = 0] = [former[0], next[0]]
  const counted = (differing: number, of: number): Found => ({ differing, of, isWithin: bears(atMost, differing, of) })
  if (metric === 'rows') {
    return { ...counted(Math.abs(after - before), before), values: { former: before, now: after } }
  }
  if (metric === 'null_share') {
    const at = columnsOf(metric, tables).indexOf(column as string)
    if (at === -1 || before === 0 || after === 0) return { differing: 0, of: 0, isWithin: true }
    const lacking = [before - (former[at + 1] ?? 0), after - (next[at + 1] ?? 0)] as const
    // Of both shares without a division, so that what is just within its bound is not taken for more.
    const isWithin = bears(atMost, Math.abs(lacking[1] * before - lacking[0] * after), before * after)
    const values = { former: share(lacking[0], before), now: share(lacking[1], after) }
    return { differing: isWithin ? 0 : 1, of: 1, isWithin, values }
  }
  if (matched === null) return null
  const [both = 0] = matched
  if (metric === 'leaving') return counted(before - both, before)
  if (metric === 'joining') return counted(after - both, before)
  const at = columnsOf(metric, tables).indexOf(column as string)
  return at === -1 ? counted(0, 0) : counted(matched[at + 1] ?? 0, both)
}

function bears(atMost: Threshold, differing: number, of: number): boolean {
  return 'rows' in atMost ? differing <= atMost.rows : differing * 100 <= atMost.percent * of
}

const share = (part: number, whole: number) => Math.round((part / whole) * 1_000_000) / 1_000_000

function written(atMost: Threshold): number | string {
  return 'rows' in atMost ? atMost.rows : `${atMost.percent}%`
}
