/** Of answers that have no place for a word beside the rows: which columns are masked for the reader. */
import { asciiJson, MOST_HEADER_BYTES } from './without-values.ts'

export const MASKED_COLUMNS = 'Masked-Columns'

export const MASKED_COLUMNS_TEXT =
  'Names of the columns that are masked for you, as a JSON array, for answers that do not say it in `columns`; absent where none is. Beyond 4 KiB their number stands in its place.'

/** The header for the columns of an answer, as JSON in ASCII; none where all are shown. */
export function maskedColumnsHeader(
  columns: readonly { readonly name: string; readonly masked: boolean }[],
): Record<string, string> {
  const masked = columns.filter((column) => column.masked).map(({ name }) => name)
  if (masked.length === 0) return {}
  const names = asciiJson(masked)
  return { [MASKED_COLUMNS]: names.length <= MOST_HEADER_BYTES ? names : String(masked.length) }
}
