/** Calls that are never answered: each fails its check by name, in place of the whole run, which would end without a word. */
import { CheckFailure } from './check.ts'

/** Those that wait, each with what gives it up. */
const waiting = new Set<() => void>()

/** Where nothing is left that could go on, no call that still waits will be answered. Needs no clock. */
let isListening = false

function listen(): void {
  if (isListening) return
  isListening = true
  process.on('beforeExit', () => {
    for (const giveUp of [...waiting]) giveUp()
  })
}

export function awaited<T>(hook: string, answer: PromiseLike<T>): Promise<T> {
  listen()
  const { promise, resolve, reject } = Promise.withResolvers<T>()
  // Of a call that its check has given up itself nobody is told any more.
  promise.catch(() => undefined)
  const giveUp = () => reject(unanswered(hook))
  waiting.add(giveUp)
  const settled = () => void waiting.delete(giveUp)
  answer.then(
    (value) => {
      settled()
      resolve(value)
    },
    (error: unknown) => {
      settled()
      reject(error)
    },
  )
  return promise
}

/** Every step of it. */
export function streamed<T>(hook: string, answer: AsyncIterable<T>): AsyncIterable<T> {
  return {
    [Symbol.asyncIterator]() {
      const steps = answer[Symbol.asyncIterator]()
      const ended = steps.return?.bind(steps)
      return {
        next: () => awaited(hook, steps.next()),
        ...(ended ? { return: (value?: unknown) => awaited(hook, ended(value)) } : {}),
      }
    },
  }
}

function unanswered(hook: string): CheckFailure {
  return new CheckFailure({
    what: `${hook} has not answered, and nothing is left that it could wait for`,
    expected: 'an answer or an error',
    came: 'nothing',
    where: hook,
    why: 'whoever calls it waits for ever: a write that hangs holds up every later one of its product',
    remedy: 'Release what a call holds in a finally block, whatever ends it.',
  })
}
