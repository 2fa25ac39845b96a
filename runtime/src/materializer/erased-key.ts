/** By which key a row is erased, in whatever type a table carries it. */
import { quoteName, quoteText, sqlType } from '@sluice/engine'
import type { LogicalType } from '@sluice/sdk'

/** Of the raw table: what it is there, whatever type other tables carry it in. */
export interface ErasedValue {
  /** That the type can be cast from. */
  readonly text: string
  readonly type: LogicalType
}

/** By column. */
export type ErasedKey = Readonly<Record<string, ErasedValue>>

/** A boolean SQL expression over the columns. */
export function keyCondition(
  key: ErasedKey,
  columns: readonly { readonly name: string; readonly type: LogicalType }[],
): string {
  const parts = Object.entries(key).map(([name, { text, type }]) => {
    const column = columns.find((one) => one.name === name)
    if (column === undefined) throw new Error(`the table has no column of the key ${name}`)
    const given = `TRY_CAST(${quoteText(text)} AS ${sqlType(type)})`
    return `${quoteName(name)} = ${type === column.type ? given : `TRY_CAST(${given} AS ${sqlType(column.type)})`}`
  })
  return `coalesce(${parts.join(' AND ')}, false)`
}
