/** What output.yaml says of how long snapshots are kept. */
import type { CheckedFile } from './checked-file.ts'
import { durationText, parseDuration } from './durations.ts'
import type { OutputFile } from './files/output.ts'
import type { LadderStep, OutputManifest, SnapshotLadder } from './manifest-set.ts'
import type { Finding, Path } from './problem.ts'

interface StepFields {
  readonly for?: string
  readonly every: string
}

interface RetentionFields {
  readonly snapshots?: string | readonly StepFields[]
  readonly keep_last?: number | 'all'
}

const HOUR_MS = 3_600_000
const SNAPSHOTS: Path = ['retention', 'snapshots']

/** Without a value: nothing is said, or not so that it can be used. */
export function readRetention(file: CheckedFile): {
  readonly value?: OutputManifest['retention'] & {}
  readonly findings: readonly Finding[]
} {
  const said = (file.get<OutputFile['retention'] & {}>('retention') ?? {}) as RetentionFields
  const { snapshots, keep_last: keepLast } = said
  if (typeof snapshots === 'object') return readLadder(snapshots, keepLast !== undefined)
  if (snapshots === 'all' || keepLast === 'all') return { value: 'all', findings: [] }
  if (snapshots === undefined && keepLast === undefined) return { findings: [] }
  const hours = snapshots === undefined ? null : Number.parseInt(snapshots, 10) * (snapshots.endsWith('d') ? 24 : 1)
  return { value: { maxAgeMs: hours === null ? null : hours * HOUR_MS, keepLast: keepLast ?? null }, findings: [] }
}

function readLadder(fields: readonly StepFields[], hasNumber: boolean) {
  const ladder = fields.map((step): LadderStep => {
    const everyMs = step.every === 'all' ? null : parseDuration(step.every)
    return { forMs: step.for === undefined ? null : parseDuration(step.for), everyMs }
  })
  const beside: readonly Finding[] = hasNumber
    ? [finding(['retention', 'keep_last'], 'cannot stand beside a ladder, which says how many are kept', 'Remove it.')]
    : []
  const findings = [...ladder.flatMap((step, at) => stepFindings(step, at, ladder)), ...beside]
  return findings.length === 0 ? { value: { ladder }, findings } : { findings }
}

/** Spans of one step have to be made up of whole ones of the step before: see `keptByLadder`. */
function stepFindings({ forMs, everyMs }: LadderStep, at: number, ladder: SnapshotLadder): readonly Finding[] {
  const before = ladder[at - 1]
  const findings: Finding[] = []
  if (forMs === null && at < ladder.length - 1) {
    findings.push(
      finding([...SNAPSHOTS, at], 'lacks for: only the last step may speak of all that is older', 'Add it.'),
    )
  }
  if (forMs !== null && before?.forMs != null && forMs <= before.forMs) {
    const message = `has to be longer than that of the step before, ${durationText(before.forMs)}`
    findings.push(finding([...SNAPSHOTS, at, 'for'], message, 'Order the steps by age.'))
  }
  const spanMs = before?.everyMs ?? null
  if (before !== undefined && spanMs !== null && (everyMs === null || everyMs % spanMs !== 0)) {
    const message = `has to be a multiple of that of the step before, ${durationText(spanMs)}`
    findings.push(
      finding([...SNAPSHOTS, at, 'every'], message, 'What a step has thinned out, a later one cannot keep.'),
    )
  }
  return findings
}

const finding = (path: Path, message: string, hint: string): Finding => ({ manifest: 'output', path, message, hint })
