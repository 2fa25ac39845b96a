/** What `sluice dev` says of a round, for people. */
import { colourOf, type Painter } from './colours.ts'
import type { PlanAnswer } from './deploy-answer.ts'
import type { DevProduct, DevRound, PreviewAnswer } from './dev-round.ts'
import { readLine, verdictLines } from './plan-lines.ts'
import { problemLine } from './product-files.ts'
import { plain, plainLines, textTable } from './text-table.ts'

/** Rows of a failed check that are shown. */
const MOST_VIOLATING = 3

export function roundText({ products, problems }: DevRound, paint: Painter): string {
  const unread = problems.map((problem) => `${paint('refused', 'red')}: ${indented(problem)}`)
  return [...unread, ...products.map((one) => productText(one, paint))].join('\n')
}

function productText(one: DevProduct, paint: Painter): string {
  const { product, folder, answer, refusal } = one
  const head = `${plain(product)} (${plain(folder)})`
  if (refusal !== null || answer === null) return `${head}\n  ${paint('refused', 'red')}: ${indented(refusal ?? '')}`
  return [
    `${head}: ${standing(one, answer.plan, paint)}`,
    ...planLines(answer.plan, paint),
    ...previewLines(one, paint),
  ].join('\n')
}

function standing({ isDeployed, deployed, version }: DevProduct, { verdict }: PlanAnswer, paint: Painter): string {
  if (isDeployed) return paint(`as it is deployed (${deployed})`, 'faint')
  const versions = deployed === null ? version : `${deployed} -> ${version}`
  return `${paint(verdict, colourOf(verdict))}, ${versions}`
}

/** Without what stores do for it: `sluice product plan` says that. */
function planLines(plan: PlanAnswer, paint: Painter): readonly string[] {
  const line = (word: string, text: string, colour = colourOf(word)) => `  ${paint(word, colour)}: ${indented(text)}`
  const refused = plan.problems.map(({ code, message, remedy }) =>
    line('refused', `${message} (${code})${remedy ? `\n${remedy}` : ''}`),
  )
  const lowered = plan.lowered_classes.length === 0 ? [] : [`lowers the class of ${plan.lowered_classes.join(', ')}`]
  const columns = verdictLines(plan.stores, ({ endpoint }) => endpoint)
  return [
    ...refused,
    ...plan.changes.map(({ verdict, subject, reason }) => line(verdict, `${subject}: ${reason}`)),
    ...[...lowered, ...columns, ...plan.warnings.map(problemLine)].map((text) => line('warning', text, 'yellow')),
    ...plan.reads.flatMap(readLine).map((line) => `  ${plain(line)}`),
    ...plan.notes.map((note) => line('note', note, null)),
  ]
}

function previewLines({ preview, withoutPreview }: DevProduct, paint: Painter): readonly string[] {
  if (preview === null) {
    const { message = '', isFault = false } = withoutPreview ?? {}
    return [`  ${paint('no preview', isFault ? 'red' : 'yellow')}: ${indented(message)}`]
  }
  return [
    `  ${countText(preview)}`,
    ...(preview.rows.length === 0 ? [] : [block(rowsTable(preview))]),
    ...(preview.columns.some(({ masked }) => masked) ? ['    * masked for you'] : []),
    ...checkLines(preview, paint),
    ...preview.problems.map(
      ({ code, message }) => `  ${paint('a run would fail', 'red')}: ${indented(`${message} (${code})`)}`,
    ),
  ]
}

function countText({ row_count: count, sample }: PreviewAnswer): string {
  const of = sample.whole
    ? 'made of all rows of the inputs'
    : `made of the first ${sample.input_rows?.toLocaleString('en-US')} rows of the input at most`
  return `${count} of ${sample.rows_given.toLocaleString('en-US')} rows, ${of}`
}

function rowsTable({ columns, rows }: PreviewAnswer): string {
  const header = columns.map(({ name, masked }) => plain(masked ? `${name}*` : name))
  return textTable(
    header,
    rows.map((row) => row.map(cellText)),
  )
}

const cellText = (value: unknown): string | null =>
  value === null ? null : typeof value === 'string' ? value : JSON.stringify(value)

function checkLines({ checks, checks_left_out: leftOut }: PreviewAnswer, paint: Painter): readonly string[] {
  const failed = checks.filter(({ passed }) => !passed)
  const passed = checks.filter((check) => check.passed).map(({ name }) => plain(name))
  return [
    ...(passed.length === 0 ? [] : [`  ${paint('passed', 'green')}: ${passed.join(', ')}`]),
    ...failed.map(({ name, severity, violations, total, violating }) => {
      const found = violations === null ? 'it could not be run' : `${violations} of ${total}`
      const word = paint('failed', severity === 'error' ? 'red' : 'yellow')
      const rows = violating === null ? [] : violating.rows.slice(0, MOST_VIOLATING)
      const shown = rows.map((row) => `\n    ${cells(violating?.columns ?? [], row)}`)
      return `  ${word}: ${plain(name)} (${severity}): ${found}${shown.join('')}`
    }),
    ...(leftOut.length === 0 ? [] : [`  not asked of a sample: ${leftOut.map(plain).join(', ')}`]),
  ]
}

const cells = (columns: readonly string[], row: readonly (string | null)[]): string =>
  columns.map((name, at) => `${plain(name)}=${plain(row[at] ?? 'null')}`).join(' ')

const indented = (text: string): string => plainLines(text).replaceAll('\n', '\n    ')
const block = (text: string): string => text.replace(/^/gm, '    ')
