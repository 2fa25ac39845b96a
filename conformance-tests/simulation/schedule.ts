/** A story of writes and misfortunes as data: made from a seed, cut shorter, kept in a file, told again. */
import type { Random } from '../random.ts'

export const ACTS = [
  'write',
  'duplicate',
  'takeover',
  'crash',
  'disk-full',
  'partial',
  'stall',
  'zombie',
  'reorder',
  'skew',
  'restart',
  'look',
  'expire',
] as const

/** See `run.ts` for what each does to the store. */
export type Act = (typeof ACTS)[number]

export interface Step {
  readonly act: Act
  readonly mode: 'full' | 'delta'
  /** Rows that are changed, added and deleted. */
  readonly changes: number
  readonly additions: number
  readonly deletes: number
  /** The fault point at which it happens, counted from 0. */
  readonly point: number
  /** Whether the same write is made again after its misfortune. */
  readonly repeats: boolean
  /** Of the rows and of nothing else, so that a step means the same when others are left out. */
  readonly seed: number
}

export interface Schedule {
  readonly steps: readonly Step[]
}

/** Misfortunes come more often than plain writes, which every one of them contains. */
const WEIGHTED: readonly Act[] = [...ACTS, 'crash', 'crash', 'crash', 'disk-full', 'stall', 'partial', 'look']

export function randomSchedule(random: Random, length: number): Schedule {
  return { steps: Array.from({ length }, () => randomStep(random)) }
}

/** Every act once, in a random order: no run is without one of them. */
export function everyAct(random: Random): Schedule {
  return { steps: random.shuffled(ACTS).map((act) => ({ ...randomStep(random), act, point: random.integer(0, 1) })) }
}

function randomStep(random: Random): Step {
  const mode = random.pick(['delta', 'delta', 'full'] as const)
  return {
    act: random.pick(WEIGHTED),
    mode,
    changes: random.integer(0, 3),
    additions: random.integer(0, 4),
    deletes: mode === 'delta' ? random.integer(0, 2) : 0,
    point: random.integer(0, 5),
    repeats: random.chance(0.6),
    seed: random.integer(0, 2 ** 31),
  }
}

/** One line a step, for a failure's text. */
export function scheduleText({ steps }: Schedule): string {
  return steps
    .map(({ act, mode, changes, additions, deletes, point, repeats }) => {
      const write = `${mode} ~${changes} +${additions} -${deletes}`
      const where = ['crash', 'disk-full', 'stall'].includes(act)
        ? ` at point ${point}${repeats ? ', then again' : ''}`
        : ''
      return `${act} (${write})${where}`
    })
    .join('; ')
}

/** The schedule of a file's JSON; null where it is none. */
export function parseSchedule(value: unknown): Schedule | null {
  const { steps } = (value ?? {}) as { readonly steps?: unknown }
  if (!Array.isArray(steps) || !steps.every(isStep)) return null
  return { steps }
}

function isStep(value: unknown): value is Step {
  const step = value as Step
  const counts = [step?.changes, step?.additions, step?.deletes, step?.point, step?.seed]
  return (
    (ACTS as readonly unknown[]).includes(step?.act) &&
    ['full', 'delta'].includes(step.mode) &&
    counts.every((count) => Number.isSafeInteger(count) && count >= 0) &&
    typeof step.repeats === 'boolean'
  )
}
