/** A finished run, as every report tells it: no secrets, and nothing that a driver said. */
import { isSluiceError } from '@sluice/sdk'
import { CheckFailure, type FailureParts, type Level } from './check.ts'
import type { KillRate } from './kill-rate.ts'
import type { Measurement } from './measure.ts'
import type { Redactor } from './redaction.ts'
import type { CheckResult } from './suite.ts'

export interface RecordedCheck {
  readonly id: number | string
  readonly name: string
  readonly status: CheckResult['status']
  /** Why inverted, waived or not applicable. */
  readonly reason?: string
  readonly failure?: Partial<FailureParts> & Pick<FailureParts, 'what'>
  readonly elapsedMs: number
}

export interface RunFacts {
  /** `lookup/postgresql`. */
  readonly plugin: string
  readonly version: string
  readonly sdk: string
  readonly suite: string
  readonly level: Level
  readonly seed: number
}

export interface RunRecord extends RunFacts {
  readonly checks: readonly RecordedCheck[]
  /** Present where it was measured. */
  readonly killRate?: KillRate
  /** What was asked for with `--bench`. */
  readonly measurements?: readonly Measurement[]
}

export function recordOf(facts: RunFacts, results: readonly CheckResult[], redactor: Redactor): RunRecord {
  return { ...facts, checks: results.map((result) => recordedCheck(result, redactor)) }
}

export function recordedCheck(result: CheckResult, redactor: Redactor): RecordedCheck {
  const { id, name, status, reason, error, elapsedMs } = result
  return {
    id,
    name,
    status,
    ...(reason === undefined ? {} : { reason: redactor.redact(reason) }),
    ...(error === undefined ? {} : { failure: redactedFailure(error, redactor) }),
    elapsedMs: Math.round(elapsedMs),
  }
}

function redactedFailure(error: unknown, redactor: Redactor): NonNullable<RecordedCheck['failure']> {
  const parts = error instanceof CheckFailure ? error.parts : { what: errorText(error) }
  const redacted = Object.entries(parts).map(([name, part]) => [
    name,
    typeof part === 'string' ? redactor.redact(part) : part,
  ])
  return Object.fromEntries(redacted) as NonNullable<RecordedCheck['failure']>
}

/** What an error says for itself; its cause is left out, since drivers put anything into it. */
export function errorText(error: unknown): string {
  if (isSluiceError(error)) return `${error.kind} ${error.code}: ${error.message}`
  return error instanceof Error ? `${error.name}: ${error.message}` : String(error)
}

/** The failure as a paragraph of lines. */
export function failureLines({ what, where, why, remedy }: NonNullable<RecordedCheck['failure']>): readonly string[] {
  const parts = Object.entries({ where, why, remedy }).flatMap(([name, text]) =>
    text === undefined ? [] : [`  ${`${name}:`.padEnd(7)} ${text}`],
  )
  return [what, ...parts]
}

export type Counts = Readonly<Record<CheckResult['status'], number>>

export function countsOf(checks: readonly Pick<RecordedCheck, 'status'>[]): Counts {
  const count = (status: CheckResult['status']) => checks.filter((check) => check.status === status).length
  return {
    passed: count('passed'),
    inverted: count('inverted'),
    not_applicable: count('not_applicable'),
    waived: count('waived'),
    failed: count('failed'),
  }
}
