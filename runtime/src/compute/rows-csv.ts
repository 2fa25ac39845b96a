/** Rows of an engine outside, as CSV for an engine job. */
import type { LogicalType, TextRow } from '@sluice/sdk'

/** A column of the CSV behind all others, so that no line of it is empty. */
const LAST_COLUMN = '__end'

export interface ArrivingColumn {
  readonly name: string
  readonly type: LogicalType
}

/** The columns of the CSV: names may come twice, so they go by their places. */
export function arrivingColumns(columns: readonly { readonly type: LogicalType }[]): readonly ArrivingColumn[] {
  return [...columns.map(({ type }, at) => ({ name: arrivingName(at), type })), { name: LAST_COLUMN, type: 'string' }]
}

export const arrivingName = (at: number): string => `c${at}`

/** Leaving it early leaves the pages, too. */
export async function* csvOf(pages: AsyncIterable<readonly TextRow[]>): AsyncGenerator<Uint8Array> {
  for await (const rows of pages) yield Buffer.from(rows.map(csvLine).join(''))
}

/** Every value quoted, null an empty field without quotes, and `LAST_COLUMN`. */
function csvLine(cells: TextRow): string {
  let text = ''
  for (const cell of cells) text += cell === null ? ',' : `"${cell.replaceAll('"', '""')}",`
  return `${text}""\n`
}
