import type { DuckDBType } from '@duckdb/node-api'
import { type KeyTemplate, type LogicalType, percentEncode, stopOf } from '@sluice/sdk'
import { quoteText } from '../sql-text.ts'
import { csvCell, isText } from './json-sql.ts'
import { resultTypeName } from './result-type.ts'

interface Cell {
  readonly type: DuckDBType
  readonly sql: string
}

/** `renderKey` of the SDK as SQL: the text of the key, or NULL where a cell is null. `cells` are those of the parts. */
export function keySql(template: KeyTemplate, cells: readonly Cell[]): string {
  const parts = template.parts.map(({ before }, index) => {
    const cell = cells[index] as Cell
    const escaped = escapedCell(cell)
    const stop = stopOf(template, index, resultTypeName(cell.type) as LogicalType)
    const text = stop === null ? escaped : `replace(${escaped}, ${quoteText(stop)}, ${quoteText(percentEncode(stop))})`
    return before === '' ? text : `${quoteText(before)} || ${text}`
  })
  return [...parts, ...(template.after === '' ? [] : [quoteText(template.after)])].join(' || ')
}

/** What `escapeKeyPart` of the SDK encodes. */
const ESCAPED = String.raw`%:\x00-\x1f\x{7f}-\x{9f}`

function escapedCell({ type, sql }: Cell): string {
  const text = csvCell(type, sql)
  // Of the other types only times hold any of these, and no other than colons.
  if (!isText(type)) return `replace(${text}, ':', ${quoteText(percentEncode(':'))})`
  const pieces = `regexp_extract_all(${text}, '[${ESCAPED}]|[^${ESCAPED}]+')`
  const encoded = `list_transform(${pieces}, lambda piece:
    CASE WHEN regexp_full_match(piece, '[${ESCAPED}]') THEN url_encode(piece) ELSE piece END)`
  return `CASE WHEN regexp_matches(${text}, '[${ESCAPED}]') THEN array_to_string(${encoded}, '') ELSE ${text} END`
}
