/** A Markdown table that ends with a line feed; bars in cells are escaped. */
export function table(header: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]) => `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |\n`
  return line(header) + line(header.map(() => '---')) + rows.map(line).join('')
}
