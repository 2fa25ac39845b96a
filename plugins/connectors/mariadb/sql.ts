/** Names and texts in statements, in sessions whose `sql_mode` is empty. */

/** The table in a statement that reads rows. */
export const ALIAS = 't'

export function quoteName(name: string): string {
  return `\`${name.replaceAll('`', '``')}\``
}

export function quoteText(text: string): string {
  return `'${text.replaceAll('\\', '\\\\').replaceAll("'", "''").replaceAll('\0', '\\0')}'`
}

export function qualified(table: { readonly schema: string; readonly name: string }): string {
  return `${quoteName(table.schema)}.${quoteName(table.name)}`
}

export function reference(column: string): string {
  return `${ALIAS}.${quoteName(column)}`
}
