import { quoteName, quoteTable } from '@sluice/engine'
import { columnNamed, type TableSchema } from '@sluice/sdk'
import type { Rule, Scalar } from '../manifest/manifest-set.ts'
import { typedValue } from '../manifest/scalar-values.ts'
import type { CheckTable, CheckTables } from './check-tables.ts'
import { literal } from './literal.ts'

/**
 * The condition that is true for rows that violate a rule, over the output under the alias `this`; null where the
 * rule does not speak of rows. An empty value violates `not_null` and nothing else.
 */
export function badRow(rule: Rule, tables: CheckTables): string | null {
  const condition = conditionOf(rule, tables)
  return condition === null ? null : `CASE WHEN ${condition} THEN true ELSE false END`
}

function conditionOf(rule: Rule, tables: CheckTables): string | null {
  const { schema } = tables.output
  switch (rule.kind) {
    case 'not_null':
      return rule.columns.map((column) => `${cell(column)} IS NULL`).join(' OR ')
    case 'accepted_values':
      return `${cell(rule.column)} NOT IN (${rule.values.map((value) => typed(value, rule.column, schema)).join(', ')})`
    case 'range':
      return rangeCondition(rule, schema)
    case 'matches':
      return `NOT regexp_full_match(${cell(rule.column)}, ${literal(rule.pattern, 'string')})`
    case 'unique':
      return repeatedCondition(rule.columns, tables.output)
    case 'references':
      return danglingCondition(rule, tables)
    case 'sql':
    case 'row_count':
    case 'freshness':
    case 'schema':
    case 'anomaly':
      return null
  }
}

function cell(column: string): string {
  return `"this".${quoteName(column)}`
}

/** Validation has made sure that the value fits; a plain Error says that it was left out. */
function typed(value: Scalar, column: string, schema: TableSchema): string {
  const { type } = columnNamed(schema, column)
  const fitting = typedValue(value, type)
  if (fitting === null) throw new Error(`a value of the check on "${column}" does not fit its type`)
  return literal(fitting, type)
}

function rangeCondition(rule: Rule & { kind: 'range' }, schema: TableSchema): string {
  const { type } = columnNamed(schema, rule.column)
  const [below, above] = rule.exclusive ? ['<=', '>='] : ['<', '>']
  const conditions: string[] = []
  if (rule.min !== null) conditions.push(`${cell(rule.column)} ${below} ${typed(rule.min, rule.column, schema)}`)
  if (rule.max !== null) conditions.push(`${cell(rule.column)} ${above} ${typed(rule.max, rule.column, schema)}`)
  // DuckDB sorts NaN above all numbers, but it lies in no range.
  if (type === 'float' || type === 'double') conditions.push(`${cell(rule.column)} = ${literal(Number.NaN, type)}`)
  return conditions.join(' OR ')
}

/** Every row of a repeated key is bad: none of them is the right one. */
function repeatedCondition(columns: readonly string[], output: CheckTable): string {
  const names = columns.map(quoteName).join(', ')
  const repeated = `SELECT ${names} FROM ${quoteTable(output.name)} GROUP BY ${names} HAVING count(*) > 1`
  const same = columns.map((column) => `twice.${quoteName(column)} = ${cell(column)}`).join(' AND ')
  return `EXISTS (SELECT 1 FROM (${repeated}) AS twice WHERE ${same})`
}

/** As foreign keys have it: a row with an empty part refers to nothing, and is fine. */
function danglingCondition(rule: Rule & { kind: 'references' }, tables: CheckTables): string {
  const target = tables.inputs.get(rule.input)
  if (target === undefined) throw new Error(`the check refers to "${rule.input}", which is no input`)
  const pairs = rule.columns.map(
    (column, index) => [cell(column), quoteName(rule.inputColumns[index] ?? column)] as const,
  )
  const present = pairs.map(([own]) => `${own} IS NOT NULL`)
  const same = pairs.map(([own, other]) => `"target".${other} = ${own}`).join(' AND ')
  const found = `EXISTS (SELECT 1 FROM ${quoteTable(target.name)} AS "target" WHERE ${same})`
  return `${present.join(' AND ')} AND NOT ${found}`
}
