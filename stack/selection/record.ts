/**
 * The record of green: which suite passed with which key. It lies outside of the checkout, is written by CI alone, and may
 * be lost at any time: then everything runs.
 */
import { randomUUID } from 'node:crypto'
import { mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { CACHE_FOLDER } from '../cache.ts'

/** Another one is taken for none. */
const VERSION = 1

export const RECORD_FILE = join(dirname(CACHE_FOLDER), 'record-of-green.json')

export interface SuiteRecord {
  /** Of the last run; null where that failed, or where there was none. */
  readonly key: string | null
  /** Of the last run that passed: when, of which commit, and how long; null where there was none. */
  readonly green: { readonly at: string; readonly commit: string; readonly seconds: number } | null
  /** Since when it should have run, and there was no time. */
  readonly leftOutSince: string | null
}

export type GreenRecord = Readonly<Record<string, SuiteRecord>>

const NOTHING: SuiteRecord = { key: null, green: null, leftOutSince: null }

/** Empty where there is none, or nothing that could be read as one. */
export function readRecord(file: string): GreenRecord {
  try {
    const { version, suites } = JSON.parse(readFileSync(file, 'utf8')) as { version: unknown; suites: unknown }
    if (version !== VERSION || typeof suites !== 'object' || suites === null) return {}
    return Object.fromEntries(Object.entries(suites).filter((entry): entry is [string, SuiteRecord] => isOne(entry[1])))
  } catch {
    return {}
  }
}

function isOne(value: unknown): value is SuiteRecord {
  if (typeof value !== 'object' || value === null) return false
  const { key, green, leftOutSince } = value as Partial<Record<keyof SuiteRecord, unknown>>
  const isTextOrNull = (one: unknown) => one === null || typeof one === 'string'
  return isTextOrNull(key) && isTextOrNull(leftOutSince) && (green === null || isGreen(green))
}

function isGreen(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return false
  const { at, commit, seconds } = value as Readonly<Record<string, unknown>>
  return typeof at === 'string' && typeof commit === 'string' && typeof seconds === 'number' && seconds >= 0
}

export type Outcome =
  | {
      readonly kind: 'passed'
      readonly key: string
      readonly at: string
      readonly commit: string
      readonly seconds: number
    }
  | { readonly kind: 'failed' }
  | { readonly kind: 'left out'; readonly at: string }

export function after(before: SuiteRecord = NOTHING, outcome: Outcome): SuiteRecord {
  if (outcome.kind === 'left out') return { ...before, leftOutSince: before.leftOutSince ?? outcome.at }
  if (outcome.kind === 'failed') return { ...before, key: null, leftOutSince: null }
  const { key, ...green } = outcome
  return { key, green: { at: green.at, commit: green.commit, seconds: green.seconds }, leftOutSince: null }
}

/**
 * Reads again what is there and changes the one suite: another run may write at the same time. The file is whole at
 * every moment; of two changes within a millisecond one may be lost.
 */
export function writeOutcome(file: string, suite: string, outcome: Outcome): void {
  const suites = readRecord(file)
  const changed = { version: VERSION, suites: { ...suites, [suite]: after(suites[suite], outcome) } }
  const draft = `${file}.${randomUUID()}`
  mkdirSync(dirname(file), { recursive: true })
  try {
    writeFileSync(draft, `${JSON.stringify(changed, null, 2)}\n`)
    renameSync(draft, file)
  } finally {
    rmSync(draft, { force: true })
  }
}
