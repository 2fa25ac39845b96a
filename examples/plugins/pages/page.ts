/** The text of a page. Everything that is not written here is data, and escaped. */
import type { DashboardDataset } from '@sluice/sdk'
import type { Chart } from './templates.ts'

/** A chart's rows as PostgreSQL writes them; null: none of these. */
export interface Drawn extends Chart {
  readonly columns: readonly string[]
  readonly rows: readonly (readonly (string | null)[])[]
}

const STYLE = `body{font:15px system-ui;margin:2em;max-width:75em}table{border-collapse:collapse}
th,td{border:1px solid #ccc;padding:.2em .6em;text-align:left}.number{font-size:3em}
.bar{background:#39c;height:1em;display:inline-block}`

/** @param at when its rows were read, as people read it */
export function pageOf(dataset: DashboardDataset, drawn: readonly Drawn[], at: string): string {
  const { domain, product, variant, description } = dataset
  const title = `${domain}.${product}${variant === 'clear' ? '' : ` (${variant})`}`
  return [
    '<!doctype html><html lang="en"><head><meta charset="utf-8">',
    // No page loads or runs anything, whatever a row holds.
    `<meta http-equiv="content-security-policy" content="default-src 'none'; style-src 'unsafe-inline'">`,
    `<title>${escaped(title)}</title><style>${STYLE}</style></head><body>`,
    `<h1>${escaped(title)}</h1><p>${escaped(description)}</p>`,
    ...drawn.map((chart) => `<section><h2>${escaped(chart.title)}</h2>${DRAW[chart.kind](chart)}</section>`),
    `<p><small>Rows as of ${escaped(at)}</small></p></body></html>\n`,
  ].join('\n')
}

const DRAW: Readonly<Record<Chart['kind'], (drawn: Drawn) => string>> = {
  number: ({ rows }) => `<p class="number">${escaped(rows[0]?.[0] ?? '')}</p>`,
  table: ({ columns, rows }) =>
    tableOf(
      columns,
      rows.map((row) => row.map(cell)),
    ),
  bars: ({ columns, rows }) => {
    const most = Math.max(1, ...rows.map(([, count]) => Number(count)))
    const bar = (count: string | null) =>
      `${cell(count)} <span class="bar" style="width:${((Number(count) / most) * 30).toFixed(2)}em"></span>`
    return tableOf(
      columns,
      rows.map(([day = null, count = null]) => [cell(day), bar(count)]),
    )
  },
}

function tableOf(columns: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (tag: string, cells: readonly string[]) =>
    `<tr>${cells.map((text) => `<${tag}>${text}</${tag}>`).join('')}</tr>`
  return `<table>${[line('th', columns.map(escaped)), ...rows.map((row) => line('td', row))].join('\n')}</table>`
}

const cell = (text: string | null): string => (text === null ? '<i>null</i>' : escaped(text))

export function escaped(text: string): string {
  const NAMES: Readonly<Record<string, string>> = {
    '&': '&amp;',
    '<': '&lt;',
    '>': '&gt;',
    '"': '&quot;',
    "'": '&#39;',
  }
  return text.replace(/[&<>"']/g, (mark) => NAMES[mark] as string)
}
