/** What runs, in which order and why, and what does not. */
import { createHash } from 'node:crypto'
import type { Suite } from '../suites.ts'
import type { GreenRecord, SuiteRecord } from './record.ts'

const AFTER_ALL_DATES = '~'

/** Unchanged suites that run all the same: a key that misses something is found out one day. */
const SAMPLES = 2

export type PlannedSuite = Pick<Suite, 'name' | 'isAlwaysRun'>

export interface Planned {
  readonly name: string
  readonly why: string
  /** Unchanged: where there is no time for it, nothing is owed. */
  readonly isSample: boolean
}

export interface Skipped {
  readonly name: string
  readonly why: string
}

export interface Plan {
  readonly run: readonly Planned[]
  readonly skipped: readonly Skipped[]
}

export interface Known {
  readonly keys: ReadonlyMap<string, string>
  readonly record: GreenRecord
  /** Decides the draws, so that they are others with every commit and the same in every run of one. */
  readonly commit: string
  /** Nothing is skipped. */
  readonly isAll: boolean
}

/** Everything, as it stands: where nobody asked for a selection. */
export function wholePlan(suites: readonly PlannedSuite[]): Plan {
  return { run: suites.map(({ name }) => ({ name, why: 'asked for', isSample: false })), skipped: [] }
}

export function planOf(suites: readonly PlannedSuite[], { keys, record, commit, isAll }: Known): Plan {
  const isUnchanged = ({ name }: PlannedSuite) => record[name]?.key != null && record[name].key === keys.get(name)
  const always = suites.filter((suite) => suite.isAlwaysRun)
  const others = suites.filter((suite) => !suite.isAlwaysRun)
  const due = others.filter((suite) => isAll || !isUnchanged(suite)).map(({ name }) => name)
  const unchanged = others.filter((suite) => !isAll && isUnchanged(suite)).map(({ name }) => name)
  const samples = new Set(drawn(unchanged, commit).slice(0, SAMPLES))
  return {
    run: [
      ...always.map(({ name }) => ({ name, why: 'runs always', isSample: false })),
      ...inTurn(due, record, commit).map((name) => ({ name, why: reason(record[name]), isSample: false })),
      ...[...samples].map((name) => ({ name, why: `a sample, ${unchangedSince(record[name])}`, isSample: true })),
    ],
    skipped: unchanged
      .filter((name) => !samples.has(name))
      .map((name) => ({ name, why: unchangedSince(record[name]) })),
  }
}

const DAY_MS = 86_400_000

/**
 * Whether all of them passed within the last two days, and none has been left out for one: a change is then tried by some of
 * what it may have broken, and the next one by the rest. Otherwise there is a debt, and a run is to pay it.
 */
export function isInOrder(suites: readonly PlannedSuite[], record: GreenRecord, nowMs: number): boolean {
  return suites.every(({ name }) => {
    const { key = null, green = null, leftOutSince = null } = record[name] ?? {}
    const isOwed = leftOutSince !== null && Date.parse(leftOutSince) < nowMs - DAY_MS
    return key !== null && green !== null && !isOwed && Date.parse(green.at) > nowMs - 2 * DAY_MS
  })
}

/**
 * Where there is time for all, none waits its turn: the longest first, so that those that run side by side end together; samples last.
 * @param secondsLeft infinite where there is no limit
 * @param sideBySide how many run at a time, as they did when they took what is expected
 */
export function longestFirst(
  run: readonly Planned[],
  expectedSeconds: (name: string) => number,
  secondsLeft: number,
  sideBySide: number,
): readonly Planned[] {
  const all = run.reduce((sum, { name }) => sum + expectedSeconds(name), 0)
  if (all / sideBySide > secondsLeft) return run
  return run.toSorted(
    (one, other) =>
      Number(one.isSample) - Number(other.isSample) || expectedSeconds(other.name) - expectedSeconds(one.name),
  )
}

/** What was left out first, the longest; then what has not been green for the longest; then as drawn. */
function inTurn(names: readonly string[], record: GreenRecord, commit: string): readonly string[] {
  const leftOut = (name: string) => record[name]?.leftOutSince ?? AFTER_ALL_DATES
  const green = (name: string) => record[name]?.green?.at ?? ''
  return drawn(names, commit).toSorted(
    (one, other) => compared(leftOut(one), leftOut(other)) || compared(green(one), green(other)),
  )
}

function drawn(names: readonly string[], commit: string): readonly string[] {
  const lot = (name: string) => createHash('sha256').update(`${commit} ${name}`).digest('hex')
  return names.toSorted((one, other) => compared(lot(one), lot(other)))
}

const compared = (one: string, other: string): number => (one < other ? -1 : one > other ? 1 : 0)

function reason(known: SuiteRecord | undefined): string {
  if (known?.leftOutSince != null) return `left out since ${dayOf(known.leftOutSince)}`
  if (known?.green == null) return 'not green here before'
  const last = `green at ${greenAt(known.green)}`
  return known.key === null ? `failed since it was ${last}` : `changed or asked for; ${last}`
}

const unchangedSince = (known: SuiteRecord | undefined): string =>
  known?.green == null ? 'unchanged' : `unchanged since ${greenAt(known.green)}`

const greenAt = ({ commit, at }: NonNullable<SuiteRecord['green']>): string => `${commit.slice(0, 12)} of ${dayOf(at)}`

const dayOf = (at: string): string => at.slice(0, 10)
