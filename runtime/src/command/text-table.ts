/** Rows in aligned columns, for people. */
export type Cell = string | number | boolean | null | undefined

const MAX_WIDTH = 60

export function textTable(header: readonly string[], rows: readonly (readonly Cell[])[]): string {
  const cells = rows.map((row) => row.map(shown))
  const widths = header.map((name, index) =>
    Math.min(MAX_WIDTH, Math.max(name.length, ...cells.map((row) => (row[index] ?? '').length))),
  )
  const line = (row: readonly string[]) =>
    row
      .map((text, index) => clipped(text, widths[index] as number).padEnd(widths[index] as number))
      .join('  ')
      .trimEnd()
  return [line(header), ...cells.map(line)].join('\n')
}

/** Control characters of values must not reach the terminal. */
function shown(cell: Cell): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is replaced
  return cell === null || cell === undefined ? '' : String(cell).replace(/[\u0000-\u001f\u007f-\u009f]/g, '·')
}

function clipped(text: string, width: number): string {
  return text.length <= width ? text : `${text.slice(0, width - 1)}…`
}
