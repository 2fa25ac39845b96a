/** Asks before something is done; without somebody to ask, a flag has to say it. */
import { createInterface } from 'node:readline/promises'
import type { Readable, Writable } from 'node:stream'

export interface Asking {
  /** Whether somebody is there to answer. */
  readonly isTerminal: boolean
  /** What was typed, without blanks around it; empty where the input ended. */
  ask(question: string): Promise<string>
}

type Stream<Kind> = Kind & { readonly isTTY?: boolean }

/** Questions go to standard error, so that pipes get the answer alone. */
export function askingAt(input: Stream<Readable> = process.stdin, output: Stream<Writable> = process.stderr): Asking {
  return {
    isTerminal: input.isTTY === true && output.isTTY === true,
    async ask(question) {
      const lines = createInterface({ input, output })
      try {
        const ended = new Promise<null>((resolve) => lines.once('close', () => resolve(null)))
        const typed = await Promise.race([lines.question(question), ended])
        if (typed === null) output.write('\n')
        return (typed ?? '').trim()
      } finally {
        lines.close()
      }
    },
  }
}

export interface Confirmation {
  readonly question: string
  /** What has to be typed for it. */
  readonly answers: readonly string[]
  /** The flag that says it beforehand. */
  readonly flag: string
  /** What the flag does, as the rest of a sentence: `deploys without asking`. */
  readonly does: string
  /** The flag that shows beforehand what would be done, where there is one. */
  readonly plan?: string
}

/** Whether it was confirmed. Throws where nobody can be asked. */
export async function confirmed({ isTerminal, ask }: Asking, wanted: Confirmation): Promise<boolean> {
  if (isTerminal) return wanted.answers.includes((await ask(wanted.question)).toLowerCase())
  throw Object.assign(new Error('there is no terminal to ask on, and nothing was done'), {
    remedy: `${wanted.plan === undefined ? '' : `Look at the plan with --${wanted.plan}; `}--${wanted.flag} ${wanted.does}.`,
  })
}
