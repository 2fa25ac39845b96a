/** The plan of a folder for people: a table, and below it what each product has to say. */
import type { PlannedProduct, ServerProduct } from './apply-plan.ts'
import { colourOf, type Painter } from './colours.ts'
import type { PlanAnswer } from './deploy-answer.ts'
import { estimateText, planLines } from './plan-lines.ts'
import { plain, plainLines, textTable } from './text-table.ts'

const HEADER = ['product', 'action', 'version', 'verdict', 'warnings']

/** @param removed products that go; @param beside others that the folder has not, where none go */
export function shownApply(
  planned: readonly PlannedProduct[],
  removed: readonly ServerProduct[],
  beside: readonly ServerProduct[],
  paint: Painter,
): string {
  const rows = [...planned.map(rowOf), ...removed.map(removalOf)]
  const table = textTable(HEADER, rows, (text, column) =>
    column === 1 || column === 3 ? paint(text, colourOf(text.trim())) : text,
  )
  const said = planned.flatMap((one) => wordsOf(one, paint))
  const left =
    beside.length === 0
      ? []
      : [`Not in the folder, and left as they are (--prune removes them): ${beside.map(nameOf).join(', ')}`]
  return [table, ...said, ...left, counted(planned, removed)].join('\n')
}

export const nameOf = ({ namespace, name }: ServerProduct): string => plain(`${namespace}.${name}`)

function rowOf({ product, action, deployed, version, verdict, waitsFor, warnings }: PlannedProduct) {
  const next = version ?? (waitsFor.length > 0 ? '?' : null)
  const versions = deployed === next ? [next] : [deployed, next].filter((one) => one !== null)
  const count = warnings.length === 0 ? '' : warnings.length
  return [product.name, action, versions.join(' -> '), verdict ?? (waitsFor.length > 0 ? 'waits' : ''), count]
}

function removalOf(server: ServerProduct) {
  return [nameOf(server), 'remove', server.current_version, '', '']
}

function wordsOf({ product, plan, warnings, refusals }: PlannedProduct, paint: Painter): readonly string[] {
  const changes = (plan?.changes ?? []).map(
    ({ verdict, subject, reason }) => [verdict, `${subject}: ${reason}`] as const,
  )
  const lowered = plan?.lowered_classes ?? []
  const lines = [
    ...refusals.map((text) => ['refused', text] as const),
    ...changes,
    ...(lowered.length === 0 ? [] : [['warning', `lowers the class of ${lowered.join(', ')}`] as const]),
    ...warnings.map((text) => ['warning', text] as const),
  ]
  const done = plan === null ? [] : [...estimateOf(plan), ...planLines(plan, paint)]
  if (lines.length + done.length === 0) return []
  const shown = lines.map(([word, text]) => {
    const colour = word === 'warning' ? 'yellow' : colourOf(word)
    return `  ${paint(plain(word), colour)}: ${plainLines(text).replaceAll('\n', '\n    ')}`
  })
  return [`${plain(product.name)} (${plain(product.folder)}):`, ...shown, ...done]
}

function estimateOf(plan: PlanAnswer): readonly string[] {
  const text = estimateText(plan)
  return text === '' ? [] : [`  ${text}`]
}

function counted(planned: readonly PlannedProduct[], removed: readonly ServerProduct[]): string {
  const of = (action: string) => planned.filter((one) => one.action === action).length
  const parts = [
    [of('create'), 'to create'],
    [of('change'), 'to change'],
    [removed.length, 'to remove'],
    [of('unchanged'), 'unchanged'],
    [of('refused'), 'refused'],
  ] as const
  return `${parts.flatMap(([count, what]) => (count === 0 ? [] : [`${count} ${what}`])).join(', ')}.`
}
