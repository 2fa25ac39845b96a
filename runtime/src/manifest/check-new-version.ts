/** What quality.yaml says of how much a new version may differ, and whether it has what is to be compared. */
import type { CheckedFile } from './checked-file.ts'
import type { Columns } from './columns.ts'
import type { NewVersionFields } from './files/quality.ts'
import type { QualityManifest, VersionBound } from './manifest-set.ts'
import type { Finding, Path } from './problem.ts'
import { thresholdOf } from './thresholds.ts'

/** Before the names under which what came of the bounds is kept, beside the checks. */
export const NEW_VERSION = 'new_version: '

const FIELD = 'new_version'
const OF_ROWS = ['rows', 'leaving', 'joining'] as const
const OF_COLUMNS = ['changed', 'null_share'] as const
/** Rows are found again by their identity. */
const BY_IDENTITY: ReadonlySet<string> = new Set(['leaving', 'joining', 'changed'])

export function newVersionOf(
  file: CheckedFile,
  columns: Columns | null,
): { readonly value: Pick<QualityManifest, 'newVersion'>; readonly findings: readonly Finding[] } {
  const written = file.get<NewVersionFields>(FIELD)
  if (written === undefined) return { value: {}, findings: [] }
  const findings: Finding[] = []
  const say = (path: Path, message: string, hint?: string) =>
    findings.push({ manifest: 'quality', path: [FIELD, ...path], message, ...(hint === undefined ? {} : { hint }) })
  const bounds: VersionBound[] = OF_ROWS.flatMap((metric) =>
    written[metric] === undefined ? [] : [{ metric, column: null, atMost: thresholdOf(written[metric]) }],
  )
  for (const metric of OF_COLUMNS) {
    for (const [index, { columns: names, at_most: atMost }] of (written[metric] ?? []).entries()) {
      const path = [metric, index, 'columns']
      findings.push(...(columns?.missingOf('quality', [FIELD, ...path], names) ?? []))
      for (const column of typeof names === 'string' ? [names] : names) {
        const role = columns?.get(column)?.role
        if (metric === 'changed' && role === 'identity') {
          say(
            path,
            `"${column}" is of the identity, by which rows are found again: it never changes`,
            'Say how many may leave and join.',
          )
        }
        if (bounds.some((bound) => bound.metric === metric && bound.column === column)) {
          say(path, `${metric} has a bound of "${column}" already`)
        }
        bounds.push({ metric, column, atMost: thresholdOf(atMost) })
      }
    }
  }
  const needing = bounds.find(({ metric }) => BY_IDENTITY.has(metric))
  const hasIdentity = columns === null || !columns.complete || columns.all.some(({ role }) => role === 'identity')
  if (needing !== undefined && !hasIdentity) {
    say(
      [needing.metric],
      `${needing.metric} finds rows again by their identity, and output.yaml has no column with role: identity`,
      'Give the columns that tell rows apart role: identity, or bound rows and null_share.',
    )
  }
  return { value: { newVersion: bounds }, findings }
}
