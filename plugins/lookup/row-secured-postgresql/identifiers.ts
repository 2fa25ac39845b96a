import { createHash } from 'node:crypto'
import { physicalName } from '@sluice/sdk'

export function quoteIdentifier(name: string): string {
  return `"${name.replaceAll('"', '""')}"`
}

export function qualified(schema: string, name: string): string {
  return `${quoteIdentifier(schema)}.${quoteIdentifier(name)}`
}

/** For statements that take no parameters (DDL, COPY). Every session runs with standard_conforming_strings. */
export function quoteLiteral(text: string): string {
  return `'${text.replaceAll("'", "''")}'`
}

export function shortHash(text: string, digits = 12): string {
  return createHash('sha256').update(text).digest('hex').slice(0, digits)
}

/** What PostgreSQL keeps for itself in every table, and the columns that the stores add to every table. */
const TAKEN = ['tenant_id', 'row_number', 'tableoid', 'xmin', 'cmin', 'xmax', 'cmax', 'ctid']

/**
 * The column of the table for each column of the product, in the same order. Mostly the same name; a name that is
 * taken or that PostgreSQL would truncate gets another one, which never meets a third.
 */
export function physicalColumns(names: readonly string[]): ReadonlyMap<string, string> {
  const used = new Set(TAKEN)
  const physical = new Map<string, string>()
  const plain = names.filter((name) => !TAKEN.includes(name) && physicalName(name) === name)
  for (const name of plain) {
    physical.set(name, name)
    used.add(name)
  }
  for (const name of names) {
    if (physical.has(name)) continue
    let candidate = physicalName(TAKEN.includes(name) ? `${name}__value` : name)
    while (used.has(candidate)) candidate = physicalName(`${name}__${shortHash(candidate)}`)
    physical.set(name, candidate)
    used.add(candidate)
  }
  return physical
}
