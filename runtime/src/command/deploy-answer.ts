/** What the server says of a deployment, and how its plan is shown. */
import type { Arguments } from './arguments.ts'
import { colourOf, painterFor } from './colours.ts'
import { estimateText, type PlannedEffects, planLines, type ReadLine } from './plan-lines.ts'
import { type ProblemLine, problemLine } from './product-files.ts'
import { plain } from './text-table.ts'

/** Flags of what deploys. */
export const BREAKS = { breaks: 'products made of this one that may not be made any more by this: sales.daily' }
export const ACCEPT = {
  'accept-differences':
    'whatever its first rows differ in from those that are served; new_version refuses nothing then',
}
export const LOWER = { lower: 'columns whose class may become lower by this: email,city' }

export function accepted({ flags }: Arguments): { readonly accept_differences?: true } {
  return flags['accept-differences'] ? { accept_differences: true } : {}
}

export interface PlanAnswer extends PlannedEffects {
  readonly verdict: string
  readonly changes: readonly { readonly verdict: string; readonly subject: string; readonly reason: string }[]
  readonly lake: readonly string[]
  readonly stores: readonly {
    readonly endpoint: string
    readonly variant: string
    readonly steps: readonly { readonly action: string; readonly description: string; readonly statement?: string }[]
    readonly columns?: readonly { readonly name: string; readonly verdict: string; readonly reason: string }[]
  }[]
  readonly estimated_rows: number | null
  readonly lowered_classes: readonly string[]
  readonly problems: readonly { readonly code: string; readonly message: string; readonly remedy?: string | null }[]
  readonly warnings: readonly ProblemLine[]
  readonly reads: readonly ReadLine[]
  readonly notes: readonly string[]
  /** Absent: of a server that tells none. */
  readonly shared_checks?: readonly SharedCheckAnswer[]
}

/** A check of another product, as it runs in this one. */
export interface SharedCheckAnswer {
  readonly product: string
  readonly version: string | null
  readonly version_in_service: string | null
  readonly differs: boolean
  readonly check: { readonly name: string }
}

export interface DeployAnswer {
  readonly digest: string
  readonly stores_hash?: string
  readonly plan: PlanAnswer
  readonly deployment?: { readonly id: string; readonly version: string; readonly state: string }
  readonly run_id?: string | null
}

export function shownPlan(plan: PlanAnswer): string {
  const paint = painterFor(process.stdout)
  const verdictOf = (verdict: string) => paint(plain(verdict), colourOf(verdict))
  const changes = plan.changes.map(
    ({ verdict, subject, reason }) => `  ${verdictOf(verdict)}: ${plain(`${subject}: ${reason}`)}`,
  )
  return [
    [`Verdict: ${verdictOf(plan.verdict)}`, estimateText(plan)].filter((text) => text !== '').join(', '),
    ...changes,
    ...planLines(plan, paint),
    ...plan.notes.map((note) => `  note: ${plain(note)}`),
    ...(plan.lowered_classes.length > 0 ? [plain(`  lowers the class of: ${plan.lowered_classes.join(', ')}`)] : []),
    ...plan.problems.map(
      ({ code, message }) => `  ${paint('would be refused', 'red')}: ${plain(`${message} (${code})`)}`,
    ),
    ...plan.warnings.map((warning) => `  ${paint('warning', 'yellow')}: ${plain(problemLine(warning))}`),
  ].join('\n')
}
