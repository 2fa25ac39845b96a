/** SQL for what separates two states of a table. Relations are named by the job that runs it. */
import { quoteName } from '@sluice/engine'
import type { TableSchema } from '@sluice/sdk'

export interface DifferenceSql {
  /** Rows of `after` that `before` has not, or has otherwise. */
  readonly upserts: string
  /** Keys of `before` that `after` has not. */
  readonly deletes: string
}

/** By primary key; both relations have all columns of the schema. */
export function difference(before: string, after: string, schema: TableSchema): DifferenceSql {
  const columns = schema.columns.map((column) => column.name)
  const keys = schema.primaryKey
  const others = columns.filter((name) => !keys.includes(name))
  const sameKey = keys.map((name) => `b.${quoteName(name)} = a.${quoteName(name)}`).join(' AND ')
  const changed = others.map((name) => `b.${quoteName(name)} IS DISTINCT FROM a.${quoteName(name)}`)
  const isNew = `b.${quoteName(keys[0] as string)} IS NULL`
  const list = (alias: string, names: readonly string[]) =>
    names.map((name) => `${alias}.${quoteName(name)}`).join(', ')
  return {
    upserts: `SELECT ${list('a', columns)} FROM ${quoteName(after)} a LEFT JOIN ${quoteName(before)} b ON ${sameKey}
      WHERE ${[isNew, ...changed].join(' OR ')}`,
    deletes: `SELECT ${list('b', keys)} FROM ${quoteName(before)} b ANTI JOIN ${quoteName(after)} a ON ${sameKey}`,
  }
}

/** The content after a merge of `output` into `before`. */
export function mergeSelect(before: string, output: string, schema: TableSchema): string {
  const list = (alias: string) => schema.columns.map((column) => `${alias}.${quoteName(column.name)}`).join(', ')
  const sameKey = schema.primaryKey.map((name) => `b.${quoteName(name)} = o.${quoteName(name)}`).join(' AND ')
  return `SELECT ${list('o')} FROM ${quoteName(output)} o
    UNION ALL SELECT ${list('b')} FROM ${quoteName(before)} b ANTI JOIN ${quoteName(output)} o ON ${sameKey}`
}

/**
 * What an append adds: the rows of `output` whose key `before` has not. Without a key every row counts, as often as it
 * comes more often than before.
 */
export function unseenSelect(before: string, output: string, schema: TableSchema): string {
  const names = schema.columns.map((column) => quoteName(column.name)).join(', ')
  if (schema.primaryKey.length === 0) {
    // In a query of its own: beside a UNION the parts would be taken from left to right.
    return `SELECT ${names} FROM (SELECT ${names} FROM ${quoteName(output)}
      EXCEPT ALL SELECT ${names} FROM ${quoteName(before)})`
  }
  const list = schema.columns.map((column) => `o.${quoteName(column.name)}`).join(', ')
  const sameKey = schema.primaryKey.map((name) => `b.${quoteName(name)} = o.${quoteName(name)}`).join(' AND ')
  return `SELECT ${list} FROM ${quoteName(output)} o ANTI JOIN ${quoteName(before)} b ON ${sameKey}`
}

/** One row: how many rows have a null in the key, and how many keys occur more than once. */
export function keyViolations(relation: string, schema: TableSchema): string {
  const keys = schema.primaryKey.map(quoteName)
  const isNull = keys.map((key) => `${key} IS NULL`).join(' OR ')
  return `SELECT
    (SELECT count(*) FROM ${quoteName(relation)} WHERE ${isNull}) AS null_keys,
    (SELECT count(*) FROM (SELECT 1 FROM ${quoteName(relation)} GROUP BY ${keys.join(', ')} HAVING count(*) > 1))
      AS repeated_keys`
}
