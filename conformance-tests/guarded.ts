/**
 * What a check calls, in the place of the plugin's own hooks: they do the same, and what is wrong with the way in which a
 * hook answers, before there is anything to compare, is said in words.
 */
import { isSluiceError } from '@sluice/sdk'
import { CheckFailure } from './check.ts'
import { awaited, streamed } from './unanswered.ts'

export type Owner = 'store' | 'connector'

/** Those that give rows one after the other, and so may throw before the first of them. */
const STREAMS = ['read', 'operate', 'changes']
/** Those that answer at once; a source's `changes.health` asks the source first. */
const AT_ONCE = ['store.health']

type Call = (...args: readonly unknown[]) => unknown

/** `onCall` hears of each hook that is called. */
export function guarded<T extends object>(hooks: T, owner: Owner, onCall: () => void = () => undefined): T {
  return guardedAs(hooks, owner, onCall) as T
}

function guardedAs(hooks: object, path: string, onCall: () => void): object {
  // A frozen object does not let a proxy of its own answer otherwise.
  return new Proxy(Object.create(Object.getPrototypeOf(hooks) as object | null) as object, {
    has: (_, name) => name in hooks,
    get(_, name) {
      const value: unknown = Reflect.get(hooks, name, hooks)
      if (typeof name !== 'string') return value
      if (typeof value === 'object' && value !== null) return guardedAs(value, `${path}.${name}`, onCall)
      if (typeof value !== 'function') return value
      return (...args: readonly unknown[]) => {
        onCall()
        return answered(`${path}.${name}`, name, () => (value as Call).apply(hooks, [...args]))
      }
    },
  })
}

function answered(hook: string, name: string, call: () => unknown): unknown {
  if (AT_ONCE.includes(hook)) return call()
  const isStream = STREAMS.includes(name)
  let answer: unknown
  try {
    answer = call()
  } catch (error) {
    if (isStream) return failing(error)
    throw thrownAtOnce(hook, error)
  }
  const method = isStream ? Symbol.asyncIterator : 'then'
  if (typeof (answer as Readonly<Record<typeof method, unknown>> | null | undefined)?.[method] === 'function')
    return isStream ? streamed(hook, answer as AsyncIterable<unknown>) : awaited(hook, answer as PromiseLike<unknown>)
  throw wrongAnswer(hook, answer, isStream)
}

/** Whoever iterates cannot tell whether a stream threw at the call or at its first step. */
function failing(error: unknown): AsyncIterable<never> {
  return { [Symbol.asyncIterator]: () => ({ next: () => Promise.reject(error) }) }
}

function thrownAtOnce(hook: string, error: unknown): CheckFailure {
  const thrown = isSluiceError(error) ? `${error.kind} ${error.code}: ${error.message}` : String(error)
  return new CheckFailure(
    {
      what: `${hook} threw synchronously`,
      expected: `${hook} returns a promise, which rejects where the call fails`,
      came: thrown,
      where: hook,
      why: 'a caller that waits for the promise, or looks after its failure with catch, never gets one',
      remedy: `Make ${hook} an async function, so that what it throws rejects its promise.`,
    },
    error,
  )
}

function wrongAnswer(hook: string, answer: unknown, isStream: boolean): CheckFailure {
  const wanted = isStream ? 'an async iterable' : 'a promise'
  const kind = answer === null ? 'null' : Array.isArray(answer) ? 'an array' : typeof answer
  return new CheckFailure({
    what: `${hook} returned no ${isStream ? 'async iterable' : 'promise'}`,
    expected: wanted,
    came: kind,
    where: hook,
    why: 'the runtime goes on with what comes later, and of this nothing can',
    remedy: isStream ? `Make ${hook} an async function* that yields.` : `Make ${hook} an async function.`,
  })
}
