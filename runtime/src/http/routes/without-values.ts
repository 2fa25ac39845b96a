/** Of answers that have no place for a word beside the rows: which columns lack values. */

export const WITHOUT_VALUES = 'Columns-Without-Values'

/** Heads as a whole have 16 KiB with most clients. */
export const MOST_HEADER_BYTES = 4096

/**
 * The header for columns by raw table, as JSON in ASCII; none where there are no tables. One too long for a header has
 * numbers of columns in place of lists, or, of too many tables, not even these.
 */
export function withoutValuesHeader(byTable: Readonly<Record<string, readonly string[]>>): Record<string, string> {
  const tables = Object.entries(byTable)
  if (tables.length === 0) return {}
  const numbers = Object.fromEntries(tables.map(([name, columns]) => [name, columns.length]))
  const text = [byTable, numbers].map(asciiJson).find(({ length }) => length <= MOST_HEADER_BYTES) ?? '{}'
  return { [WITHOUT_VALUES]: text }
}

export const asciiJson = (value: unknown): string =>
  JSON.stringify(value).replace(/[^\x20-\x7e]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`)
