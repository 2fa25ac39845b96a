/** Which epochs teach an anomaly check, and what. */
import { createHash } from 'node:crypto'
import { type AnomalyRule, type Check, keepsMissing, type ManifestSet } from '../manifest/manifest-set.ts'
import type { PastEpoch, PastMeasure } from '../registry/past-epochs.ts'
import { MOST_PROFILES } from './measures.ts'
import type { Taught } from './taught.ts'

/** What a materialization knows of the epochs before it. */
export interface Learned {
  /** By anomaly check. */
  readonly byCheck: ReadonlyMap<string, Taught>
  /** Of the rows that it measures. */
  readonly basis: string
}

/** An epoch that teaches a check. */
export interface Lesson {
  readonly materializationId: string
  readonly value: number | null
}

/**
 * What decides which rows there are and what they mean: how they are written, too, and what makes two of them one. A version that changes it begins to learn anew; one that changes
 * checks, stores or texts goes on.
 */
export function basisOf({ inputs, compute, output }: Pick<ManifestSet, 'inputs' | 'compute' | 'output'>): string {
  const told = JSON.stringify([
    inputs.map(({ name, connection, table, columns, where }) => [name, connection, table, columns, where]),
    compute.transform,
    output.columns.map(({ name, type }) => [name, type]),
    output.writeMode,
    output.primaryKey,
    keepsMissing(output),
  ])
  return createHash('sha256').update(told).digest('base64url').slice(0, 22)
}

/**
 * Epochs that stand, newest first: a rollback takes back those after the one that it restored, and adds none. Of one that was
 * recorded without what it restored, nobody knows which stand.
 */
export function standing(epochs: readonly PastEpoch[]): readonly PastEpoch[] {
  const found: PastEpoch[] = []
  let newest = Number.POSITIVE_INFINITY
  for (const past of epochs.toSorted((a, b) => b.epoch - a.epoch)) {
    if (past.epoch > newest) continue
    if (past.kind === 'rollback') newest = past.restoredEpoch ?? 0
    else found.push(past)
  }
  return found
}

/**
 * Newest first, within the rule's window. Epochs of the same inputs are one epoch that was made again; those of the inputs that
 * are to be judged teach nothing about themselves.
 *
 * @param inputs as `madeOf` tells them, of what is to be judged
 */
export function lessons(
  rule: Pick<AnomalyRule, 'metric' | 'column' | 'window' | 'learnFrom'>,
  epochs: readonly PastEpoch[],
  { basis, inputs }: { readonly basis: string; readonly inputs: string },
): readonly Lesson[] {
  const from = rule.learnFrom === null ? null : new Date(`${rule.learnFrom}T00:00:00Z`)
  const seen = new Set([inputs])
  const found: Lesson[] = []
  for (const { id, inputs: made, committedAt, measured } of standing(epochs)) {
    if (found.length === rule.window || (from !== null && committedAt < from)) break
    const own = measured.find((one) => isOf(one, rule, basis))
    if (own === undefined || seen.has(madeOf(made))) continue
    seen.add(madeOf(made))
    found.push({ materializationId: id, value: own.value })
  }
  return found
}

function isOf(
  measured: PastMeasure,
  { metric, column }: Pick<AnomalyRule, 'metric' | 'column'>,
  basis: string,
): boolean {
  return measured.metric === metric && measured.column === column && measured.basis === basis
}

/** Which rows an epoch was made of, from what is kept of its inputs. */
export function madeOf(inputs: Readonly<Record<string, unknown>>): string {
  const told = Object.entries(inputs).map(([name, kept]) => [name, snapshotIn(kept)] as const)
  return JSON.stringify(told.toSorted(([a], [b]) => (a < b ? -1 : 1)))
}

function snapshotIn(kept: unknown): unknown {
  return typeof kept === 'object' && kept !== null && 'snapshot_id' in kept ? kept.snapshot_id : null
}

/** Lessons whose distributions are compared with: the newest. */
export function comparedWith(rule: AnomalyRule, found: readonly Lesson[]): readonly Lesson[] {
  return rule.metric === 'drift' ? found.slice(0, MOST_PROFILES) : []
}

export function anomalies(checks: readonly Check[]): readonly (Check & { readonly rule: AnomalyRule })[] {
  return checks.flatMap((check) => (check.rule.kind === 'anomaly' ? [{ ...check, rule: check.rule }] : []))
}
