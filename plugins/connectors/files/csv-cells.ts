import type { Dialect } from './table-settings.ts'

/** Why a record has no cells, in words without a value. */
export class BadRecord {
  readonly reason: string
  constructor(reason: string) {
    this.reason = reason
  }
}

/** The values of one record (RFC 4180); what equals `nullText` and is not quoted is null. */
export function csvCells(
  text: string,
  { delimiter, quote, nullText }: Dialect,
): readonly (string | null)[] | BadRecord {
  const plain = (cell: string) => (cell === nullText ? null : cell)
  if (quote === null || !text.includes(quote)) return text.split(delimiter).map(plain)
  const cells: (string | null)[] = []
  for (let at = 0; at <= text.length; ) {
    if (text[at] === quote) {
      const cell = quotedCell(text, at + 1, quote)
      if (cell === null) return new BadRecord('a quote is not closed')
      if (cell.end < text.length && text[cell.end] !== delimiter)
        return new BadRecord('something follows a closing quote')
      cells.push(cell.value)
      at = cell.end + 1
      continue
    }
    const found = text.indexOf(delimiter, at)
    const end = found < 0 ? text.length : found
    const cell = text.slice(at, end)
    if (cell.includes(quote)) return new BadRecord('a quote stands within a value that is not quoted')
    cells.push(plain(cell))
    at = end + 1
  }
  return cells
}

function quotedCell(
  text: string,
  from: number,
  quote: string,
): { readonly value: string; readonly end: number } | null {
  for (let at = text.indexOf(quote, from); at >= 0; at = text.indexOf(quote, at + 2)) {
    if (text[at + 1] === quote) continue
    return { value: text.slice(from, at).replaceAll(quote + quote, quote), end: at + 1 }
  }
  return null
}
