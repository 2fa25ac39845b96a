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
    },
  })
  const unknown = positionals.filter((name) => !known.includes(name))
  if (unknown.length > 0) throw new Error(`no suite ${unknown.join(', ')}; there are ${known.join(', ')}`)
  const minutes = values.minutes === undefined ? null : Number(values.minutes)
  if (minutes !== null && !(minutes > 0)) throw new Error(`--minutes ${values.minutes} is no number above 0`)
  return {
    names: positionals,
    isAffected: values.affected,
    isAll: values.all,
    isRecorded: values.record,
    minutes,
  }
}
