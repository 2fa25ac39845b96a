/** Rows in aligned columns, for people. */
export type Cell = string | number | boolean | null | undefined

const MAX_WIDTH = 60

/** @param paint of a cell's text as it is shown; what it adds takes no room */
export function textTable(
  header: readonly string[],
  rows: readonly (readonly Cell[])[],
  paint: (text: string, column: number) => string = (text) => text,
): string {
  const cells = rows.map((row) => row.map(shown))
  const names = header.map(plain)
  const widths = names.map((name, index) =>
    Math.min(MAX_WIDTH, Math.max(name.length, ...cells.map((row) => (row[index] ?? '').length))),
  )
  const line = (row: readonly string[], painted: typeof paint) =>
    row
      .map((text, index) => {
        const width = widths[index] as number
        const whole = clipped(text, width)
        return `${painted(whole, index)}${' '.repeat(width - whole.length)}`
      })
      .join('  ')
      .trimEnd()
  return [line(names, (text) => text), ...cells.map((row) => line(row, paint))].join('\n')
}

function shown(cell: Cell): string {
  return cell === null || cell === undefined ? '' : plain(String(cell))
}

/** Control characters of values must not reach the terminal, nor marks that turn the direction of what follows. */
export function plain(text: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is replaced
  return text.replace(/[\u0000-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/g, '·')
}

/** The same of a text of several lines. */
export const plainLines = (text: string): string => text.split('\n').map(plain).join('\n')

function clipped(text: string, width: number): string {
  return text.length <= width ? text : `${text.slice(0, width - 1)}…`
}
