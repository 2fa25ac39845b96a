import { quoteName, quoteTable } from '@sluice/engine'
import { columnNamed, SluiceError, typeName } from '@sluice/sdk'
import type { Rule } from '../manifest/manifest-set.ts'
import type { CheckCount, CheckTables } from './check-tables.ts'
import { literal } from './literal.ts'

/** Rules about a table as a whole. Each gives one row: what was looked at, and the violations. */

/** Counts by group rather than by row: a repeated key makes all of its rows violations. Empty keys never repeat. */
export function uniqueSql(columns: readonly string[], tables: CheckTables): string {
  const names = columns.map(quoteName).join(', ')
  const present = columns.map((column) => `${quoteName(column)} IS NOT NULL`).join(' AND ')
  const table = quoteTable(tables.output.name)
  const groups = `SELECT count(*) AS members FROM ${table} WHERE ${present} GROUP BY ${names} HAVING count(*) > 1`
  const violations = `SELECT coalesce(CAST(sum(members) AS BIGINT), 0) FROM (${groups})`
  return `SELECT (SELECT count(*) FROM ${table}), (${violations})`
}

export function rowCountSql(rule: Rule & { kind: 'row_count' }, tables: CheckTables): string {
  const outside = [
    ...(rule.min === null ? [] : [`count(*) < ${literal(BigInt(rule.min), 'long')}`]),
    ...(rule.max === null ? [] : [`count(*) > ${literal(BigInt(rule.max), 'long')}`]),
  ].join(' OR ')
  return `SELECT 1, CASE WHEN ${outside} THEN 1 ELSE 0 END FROM ${quoteTable(tables.output.name)}`
}

/** An empty table is not fresh. A date counts until its end, a timestamp without a zone as UTC. */
export function freshnessSql(rule: Rule & { kind: 'freshness' }, tables: CheckTables): string {
  const { type } = columnNamed(tables.output.schema, rule.column)
  const oldest = new Date(tables.nowMs - rule.maxAgeMs).toISOString()
  const bound = typeName(type) === 'date' ? oldest.slice(0, 10) : type === 'timestamp' ? oldest.slice(0, -1) : oldest
  const newest = `max(${quoteName(rule.column)})`
  const fresh = `CASE WHEN ${newest} >= ${literal(bound, type)} THEN 0 ELSE 1 END`
  return `SELECT 1, ${fresh} FROM ${quoteTable(tables.output.name)}`
}

/** One violation for each column that is missing, and with `exact` for each that nobody named. */
export function schemaCount(rule: Rule & { kind: 'schema' }, tables: CheckTables): Omit<CheckCount, 'name'> {
  const table = rule.input === null ? tables.output : tables.inputs.get(rule.input)
  if (table === undefined) {
    throw new SluiceError('INTERNAL', `the check looks at "${rule.input}", which is no input`, { code: 'internal' })
  }
  const there = new Set(table.schema.columns.map((column) => column.name.toLowerCase()))
  const named = new Set(rule.columns.map((column) => column.toLowerCase()))
  const missing = [...named].filter((column) => !there.has(column)).length
  const unnamed = rule.exact ? [...there].filter((column) => !named.has(column)).length : 0
  return { violations: missing + unnamed, total: named.size + unnamed }
}
