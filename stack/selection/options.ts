/** The command line of `npm run test:stack`. */
import { parseArgs } from 'node:util'

export interface Options {
  /** Empty: every suite. */
  readonly names: readonly string[]
  /** What the record shows as unchanged is skipped. */
  readonly isAffected: boolean
  /** Nothing is skipped, whatever the record shows. */
  readonly isAll: boolean
  /** What passes, fails and is left out is written to the record. */
  readonly isRecorded: boolean
  /** From now; null where time does not matter. */
  readonly minutes: number | null
  /** In their place where all suites were green not long ago: what there is no time for waits for the next run. */
  readonly usualMinutes: number | null
}

/** Throws a plain Error in words for what is unknown. */
export function optionsOf(words: readonly string[], known: readonly string[]): Options {
  const { values, positionals } = parseArgs({
    args: [...words],
    allowPositionals: true,
    options: {
      affected: { type: 'boolean', default: false },
      all: { type: 'boolean', default: false },
      record: { type: 'boolean', default: false },
      minutes: { type: 'string' },
      'usual-minutes': { type: 'string' },
    },
  })
  const unknown = positionals.filter((name) => !known.includes(name))
  if (unknown.length > 0) throw new Error(`no suite ${unknown.join(', ')}; there are ${known.join(', ')}`)
  return {
    names: positionals,
    isAffected: values.affected,
    isAll: values.all,
    isRecorded: values.record,
    minutes: minutesOf('minutes', values.minutes),
    usualMinutes: minutesOf('usual-minutes', values['usual-minutes']),
  }
}

function minutesOf(option: string, text: string | undefined): number | null {
  if (text === undefined) return null
  const minutes = Number(text)
  if (minutes > 0) return minutes
  throw new Error(`--${option} ${text} is no number above 0`)
}
