import { quoteTable, type Within } from '@sluice/engine'
import type { Check, Rule } from '../manifest/manifest-set.ts'
import { badRow } from './bad-row.ts'
import type { CheckCount, CheckTable, CheckTables } from './check-tables.ts'
import { type MeasureStatement, measureStatements } from './measures.ts'
import { freshnessSql, rowCountSql, schemaCount, uniqueSql } from './table-rules.ts'

/**
 * SQL of ours that gives one row of whole numbers: the rows that were looked at, then the violations of each of
 * `checks` in turn. Never a row of the data.
 */
export interface CheckStatement {
  readonly sql: string
  readonly checks: readonly string[]
}

/**
 * A tenant's own query, which must pass the guard before anything else happens to it. `{{this}}` stands as the
 * quoted table already. What passed is counted with `counting`.
 */
export interface TenantCheck {
  readonly name: string
  readonly sql: string
}

export interface CheckPlan {
  readonly statements: readonly CheckStatement[]
  /** What anomaly checks measure. */
  readonly measures: readonly MeasureStatement[]
  readonly tenantChecks: readonly TenantCheck[]
  /** Known without looking at a row: whether columns are there. */
  readonly counts: readonly CheckCount[]
  /**
   * For each check that can tell, a condition that is true for bad rows and false for the others, never null. It
   * reads the output under the alias `this`: `SELECT … FROM output AS "this" WHERE <condition>`.
   */
  readonly badRows: ReadonlyMap<string, string>
}

/** Conditions in one statement: all are counted in one pass over the rows. */
const CHECKS_PER_PASS = 50

/** The work that the checks of a materialization come to. Pure; the same checks and tables give the same text. */
export function planChecks(checks: readonly Check[], tables: CheckTables): CheckPlan {
  const badRows = new Map<string, string>()
  for (const { name, rule } of checks) {
    const condition = badRow(rule, tables)
    if (condition !== null) badRows.set(name, condition)
  }
  const inOnePass = checks.filter(({ rule }) => sharesPass(rule))
  const passes = chunks(inOnePass, CHECKS_PER_PASS).map((some) => passOver(some, badRows, tables))
  return {
    statements: [...passes, ...checks.flatMap((check) => ownStatement(check, badRows, tables))],
    measures: measureStatements(checks, tables.output, tables.taught ?? new Map()),
    tenantChecks: tenantChecks(checks, tables.output),
    counts: checks.flatMap(({ name, rule }) =>
      rule.kind === 'schema' ? [{ name, ...schemaCount(rule, tables) }] : [],
    ),
    badRows,
  }
}

/** A pattern that the engine refuses fails its statement, so patterns do not share one; nor do joins. */
function sharesPass(rule: Rule): boolean {
  return rule.kind === 'not_null' || rule.kind === 'accepted_values' || rule.kind === 'range'
}

function chunks<T>(items: readonly T[], size: number): readonly (readonly T[])[] {
  return Array.from({ length: Math.ceil(items.length / size) }, (_, at) => items.slice(at * size, (at + 1) * size))
}

function passOver(checks: readonly Check[], badRows: ReadonlyMap<string, string>, tables: CheckTables): CheckStatement {
  const counts = checks.map(({ name }) => `count(CASE WHEN ${badRows.get(name)} THEN 1 END)`)
  const sql = `SELECT count(*), ${counts.join(', ')} FROM ${quoteTable(tables.output.name)} AS "this"`
  return { sql, checks: checks.map((check) => check.name) }
}

function ownStatement(
  { name, rule }: Check,
  badRows: ReadonlyMap<string, string>,
  tables: CheckTables,
): readonly CheckStatement[] {
  switch (rule.kind) {
    case 'matches':
    case 'references': {
      const bad = `CASE WHEN ${badRows.get(name)} THEN 1 END`
      const sql = `SELECT count(*), count(bad) FROM (SELECT ${bad} AS bad FROM ${quoteTable(tables.output.name)} AS "this")`
      return [{ sql, checks: [name] }]
    }
    case 'unique':
      return [{ sql: uniqueSql(rule.columns, tables), checks: [name] }]
    case 'row_count':
      return [{ sql: rowCountSql(rule, tables), checks: [name] }]
    case 'freshness':
      return [{ sql: freshnessSql(rule, tables), checks: [name] }]
    case 'not_null':
    case 'accepted_values':
    case 'range':
      // In the pass that they share.
      return []
    case 'sql':
    case 'schema':
    case 'anomaly':
      // Among the queries of tenants, what is known without a row, and what is measured.
      return []
  }
}

/** The checks that their author wrote as queries. */
export function tenantChecks(checks: readonly Check[], output: CheckTable): readonly TenantCheck[] {
  return checks.flatMap(({ name, rule }) => (rule.kind === 'sql' ? [{ name, sql: withOutput(rule.sql, output) }] : []))
}

function withOutput(sql: string, output: CheckTable): string {
  return sql.replaceAll(/\{\{\s*this\s*\}\}/g, () => quoteTable(output.name))
}

/** The counts of one statement's row; throws a plain Error where the row is none that `planChecks` asked for. */
export function countsOf(statement: CheckStatement, row: readonly unknown[]): readonly CheckCount[] {
  const [total, ...violations] = row.map(wholeNumber)
  if (total === undefined || violations.length !== statement.checks.length) throw new Error('the row has other columns')
  return statement.checks.map((name, index) => ({ name, violations: violations[index] ?? 0, total }))
}

function wholeNumber(value: unknown): number {
  if (typeof value !== 'bigint' && typeof value !== 'number') throw new Error('a count is no number')
  return Math.max(0, Number(value))
}

/** Around a tenant's query: has its columns, and no row. */
export const SHAPE: Within = { before: 'SELECT * FROM (\n', after: '\n) AS found LIMIT 0', as: 'query' }

/** Whether a query with such a result gives the number of violations, rather than each as a row. */
export function givesNumber(columns: readonly string[]): boolean {
  return columns.length === 1 && columns[0]?.toLowerCase() === 'violations'
}

/**
 * Around a tenant's query: counts its violations, as `countsOf` reads them. `columns` are the names of its result. A
 * single column `violations` is taken for the number, else every row is a violation.
 */
export function counting(columns: readonly string[], output: CheckTable): Within {
  const count = givesNumber(columns) ? 'coalesce(CAST(sum(found.violations) AS BIGINT), 0)' : 'count(*)'
  const before = `SELECT (SELECT count(*) FROM ${quoteTable(output.name)}), ${count} FROM (\n`
  return { before, after: '\n) AS found', as: 'query' }
}
