/**
 * Listens to everything that a connector gives back, in whichever check: whether it was asked anything at all, and whether it
 * tells a secret of its settings. What it listens to stays as it is.
 */
import type { JsonSchema } from '@sluice/sdk'
import { CheckFailure, vacuous } from './check.ts'

/** Shorter ones may stand anywhere by chance. */
const MIN_SECRET_CHARACTERS = 6
const MIN_ENCODED_CHARACTERS = 8

type Call = (...args: readonly unknown[]) => unknown

/** Of a check that finds, once it has looked, that there is nothing at this source or connector to try its promise on. */
export class NothingToTry extends Error {
  override readonly name = 'NothingToTry'
}

export class Listener {
  readonly #secrets: RegExp | null
  readonly #leaks = new Set<string>()
  #settingUp = 0
  #asked = 0

  constructor(secrets: readonly string[]) {
    const spellings = [...new Set(secrets.flatMap(spellingsOf))]
    this.#secrets = spellings.length === 0 ? null : new RegExp(spellings.map(escaped).join('|'))
  }

  /** What is asked meanwhile proves nothing of the check: it makes what the check then begins with. */
  async settingUp<T>(run: () => Promise<T>): Promise<T> {
    this.#settingUp += 1
    try {
      return await run()
    } finally {
      this.#settingUp -= 1
    }
  }

  to<T extends object>(hooks: T, path: string): T {
    return new Proxy(Object.create(Object.getPrototypeOf(hooks) as object | null) as T, {
      has: (_, name) => name in hooks,
      get: (_, name) => {
        const value: unknown = Reflect.get(hooks, name, hooks)
        if (typeof name !== 'string') return value
        if (typeof value === 'object' && value !== null) return this.to(value, `${path}.${name}`)
        if (typeof value !== 'function') return value
        return (...args: readonly unknown[]) =>
          this.#answer(`${path}.${name}`, () => (value as Call).apply(hooks, [...args]))
      },
    })
  }

  /** Something was asked. */
  ask(): void {
    if (this.#settingUp === 0) this.#asked += 1
  }

  hear(where: string, value: unknown): void {
    if (this.#secrets !== null && tells(value, this.#secrets)) this.#leaks.add(where)
  }

  /** Throws a CheckFailure. */
  expectNothingTold(): void {
    if (this.#leaks.size === 0) return
    throw new CheckFailure({
      what: 'a secret of the settings stands in what the connector gives back, or in the log',
      expected: 'reports, tables, states, positions, events, errors with their causes, lines of the log without it',
      came: [...this.#leaks].join(', '),
      where: 'what is named, with settings that work or settings that fail',
      why: 'reports are shown to whoever has the connection, logs to more; states and positions are kept in clear',
      remedy:
        'Write messages yourself; cut secrets out of what goes into a cause; a state or position holds a place alone.',
    })
  }

  /** Throws a CheckFailure: a check that has asked nothing beside what it began with has nothing to say. */
  expectAsked(): void {
    if (this.#asked > 0) return
    throw new CheckFailure(
      vacuous(
        'the check has asked the connector nothing',
        'Say with notFor, or NothingToTry, why there is nothing to try.',
      ),
    )
  }

  #answer(hook: string, call: () => unknown): unknown {
    if (!hook.endsWith('.close')) this.ask()
    let answer: unknown
    try {
      answer = call()
    } catch (error) {
      throw this.#heard(hook, error)
    }
    if (isIterable(answer)) return this.#events(hook, answer)
    return isPromise(answer) ? this.#promised(hook, answer) : answer
  }

  async #promised(hook: string, answer: PromiseLike<unknown>): Promise<unknown> {
    try {
      const value = await answer
      this.hear(hook, value)
      return value
    } catch (error) {
      throw this.#heard(hook, error)
    }
  }

  #events(hook: string, events: AsyncIterable<unknown>): AsyncIterable<unknown> {
    const step = async (next: PromiseLike<IteratorResult<unknown>>) => {
      try {
        const result = await next
        this.hear(hook, result.value)
        return result
      } catch (error) {
        throw this.#heard(hook, error)
      }
    }
    return {
      [Symbol.asyncIterator]: () => {
        const inner = events[Symbol.asyncIterator]()
        return {
          next: () => step(inner.next()),
          return: (value?: unknown) => step(inner.return?.(value) ?? Promise.resolve({ done: true, value })),
        }
      },
    }
  }

  #heard(hook: string, error: unknown): unknown {
    this.hear(`${hook}, an error`, error)
    return error
  }
}

function isIterable(value: unknown): value is AsyncIterable<unknown> {
  return typeof (value as Partial<AsyncIterable<unknown>> | null | undefined)?.[Symbol.asyncIterator] === 'function'
}

function isPromise(value: unknown): value is PromiseLike<unknown> {
  return typeof (value as Partial<PromiseLike<unknown>> | null | undefined)?.then === 'function'
}

/** Whether the secret stands anywhere in it: in texts, names of fields, bytes, errors and what caused them. */
function tells(value: unknown, secret: RegExp, seen: Set<object> = new Set()): boolean {
  if (typeof value === 'string') return secret.test(value)
  if (typeof value !== 'object' || value === null || seen.has(value)) return false
  seen.add(value)
  if (value instanceof Uint8Array) return secret.test(Buffer.from(value).toString('utf8'))
  const within = (one: unknown) => tells(one, secret, seen)
  if (Array.isArray(value)) return value.some(within)
  if (value instanceof Map) return [...value].some(within)
  if (value instanceof Set) return [...value].some(within)
  const names = Object.getOwnPropertyNames(value)
  // Sockets and clients that hang on an error of a driver have more of the process than the error tells.
  const isTold =
    value instanceof Error || [null, Object.prototype].includes(Object.getPrototypeOf(value) as object | null)
  return isTold && names.some((name) => within(name) || within((value as Readonly<Record<string, unknown>>)[name]))
}

/** As it is, as an address holds it, and as the login of a header holds it after a user's name of any length. */
function spellingsOf(secret: string): readonly string[] {
  const encoded = [0, 1, 2].map((skipped) => {
    const text = Buffer.from(`${'x'.repeat(skipped)}${secret}`)
      .toString('base64')
      .replace(/=+$/, '')
    return text.slice(skipped === 0 ? 0 : 4, -1)
  })
  // A secret of a few letters leaves so little of itself that it may stand anywhere.
  return [secret, encodeURIComponent(secret), ...encoded.filter((text) => text.length >= MIN_ENCODED_CHARACTERS)]
}

const escaped = (text: string) => text.replaceAll(/[\\^$.*+?()[\]{}|/-]/g, '\\$&')

/** The names of settings that the schema calls secret, wherever they stand. */
export function secretNames(schema: JsonSchema): readonly string[] {
  const own = Object.entries(schema.properties ?? {}).flatMap(([name, one]) => [
    ...(one['x-secret'] === true ? [name] : []),
    ...secretNames(one),
  ])
  const { additionalProperties: others, items } = schema
  return [...own, ...(typeof others === 'object' ? secretNames(others) : []), ...(items ? secretNames(items) : [])]
}

/** The secrets of these settings that are long enough to be found again. */
export function secretsOf(schema: JsonSchema, settings: unknown): readonly string[] {
  if (schema['x-secret'] === true)
    return typeof settings === 'string' && settings.length >= MIN_SECRET_CHARACTERS ? [settings] : []
  if (Array.isArray(settings)) return settings.flatMap((one) => (schema.items ? secretsOf(schema.items, one) : []))
  if (typeof settings !== 'object' || settings === null) return []
  return Object.entries(settings).flatMap(([name, value]) => {
    const others = typeof schema.additionalProperties === 'object' ? schema.additionalProperties : undefined
    const one = schema.properties?.[name] ?? others
    return one === undefined ? [] : secretsOf(one, value)
  })
}
