/** A finished run, as every report tells it: no secrets, and nothing that a driver said. */
import { isSluiceError } from '@sluice/sdk'
import { CheckFailure, completed, type FailureParts, failureParts, foreignParts, type Level } from './check.ts'
import type { KillRate, KillRates } from './kill-rate.ts'
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
  /** `YYYY-MM-DD` in UTC. */
  readonly date: string
  /** That the fixture names. */
  readonly server?: string
  /** The command that does it again. */
  readonly replay: string
}

/** Of a whole level: what a runtime that trusts its certificate makes of the plugin. */
export interface RunCapabilities {
  readonly on: readonly string[]
  /** Declared, and not proved. */
  readonly off: readonly string[]
}

export interface RunRecord extends RunFacts {
  readonly checks: readonly RecordedCheck[]
  /** Of all checks. */
  readonly elapsedMs: number
  /** Absent where only a part of a level was run. */
  readonly capabilities?: RunCapabilities
  /** That has signed its certificate; absent where none was made. */
  readonly key?: { readonly name: string; readonly publicKey: string; readonly signer?: string }
  /** Present where it was measured. */
  readonly killRate?: KillRate & { readonly byCapability?: KillRates }
  /** What was asked for with `--bench`. */
  readonly measurements?: readonly Measurement[]
}

export function recordOf(
  facts: RunFacts,
  results: readonly CheckResult[],
  redactor: Redactor,
  replay?: (check: string) => string,
): RunRecord {
  const elapsedMs = Math.round(results.reduce((total, result) => total + result.elapsedMs, 0))
  return { ...facts, elapsedMs, checks: results.map((result) => recordedCheck(result, redactor, replay)) }
}

/** @param replay the command that runs the check of that name again */
export function recordedCheck(
  result: CheckResult,
  redactor: Redactor,
  replay?: (check: string) => string,
): RecordedCheck {
  const { id, name, status, reason, error, elapsedMs } = result
  return {
    id,
    name,
    status,
    ...(reason === undefined ? {} : { reason: redactor.redact(reason) }),
    ...(error === undefined ? {} : { failure: redactedFailure(error, redactor, name, replay?.(name)) }),
    elapsedMs: Math.round(elapsedMs),
  }
}

function redactedFailure(
  error: unknown,
  redactor: Redactor,
  check: string,
  replay: string | undefined,
): NonNullable<RecordedCheck['failure']> {
  const redacted = Object.entries(completed(partsOf(error), check, replay)).map(([name, part]) => [
    name,
    typeof part === 'string' ? redactor.redact(part) : part,
  ])
  return Object.fromEntries(redacted) as NonNullable<RecordedCheck['failure']>
}

function partsOf(error: unknown): NonNullable<RecordedCheck['failure']> {
  if (error instanceof CheckFailure) return error.parts
  if (isSluiceError(error)) return { what: errorText(error) }
  return foreignParts(error instanceof Error ? error : String(error))
}

/** The failure of a check as a test's error: it says how the check is run again. */
export function tellable({ name, error }: CheckResult, replay: string): Error {
  const parts = completed(partsOf(error), name, replay)
  if (error instanceof CheckFailure) return new CheckFailure({ ...error.parts, ...parts }, error.cause ?? error)
  return new Error([parts.what, ...failureParts(parts)].join('\n'), { cause: error })
}

/** What an error says for itself; its cause is left out, since drivers put anything into it. */
export function errorText(error: unknown): string {
  if (isSluiceError(error)) return `${error.kind} ${error.code}: ${error.message}`
  return error instanceof Error ? `${error.name}: ${error.message}` : String(error)
}

/** The failure as a paragraph of lines. */
export function failureLines(failure: NonNullable<RecordedCheck['failure']>): readonly string[] {
  return [failure.what, ...failureParts(failure)]
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
