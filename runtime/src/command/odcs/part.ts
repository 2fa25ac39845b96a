/** A map of a contract, of which is known what has been taken out of it: what is left over is told. */
export class Part {
  readonly path: string
  readonly #value: Readonly<Record<string, unknown>>
  readonly #taken = new Set<string>()
  readonly #lost: string[]

  constructor(value: unknown, path: string, lost: string[]) {
    this.#value = isMap(value) ? value : {}
    this.path = path
    this.#lost = lost
    if (value !== undefined && !isMap(value)) this.say('', 'is no map, and is passed over')
  }

  /** Null where it is not there, or of another kind, which is told. */
  text(key: string): string | null {
    const value = this.value(key)
    if (value === undefined || value === null) return null
    if (typeof value === 'string') return value
    if (typeof value === 'number' || typeof value === 'boolean') return String(value)
    this.say(key, 'is no text, and is passed over')
    return null
  }

  flag(key: string): boolean {
    const value = this.value(key)
    if (value !== undefined && value !== null && typeof value !== 'boolean') this.say(key, 'is neither true nor false')
    return value === true
  }

  number(key: string): number | null {
    const value = this.value(key)
    if (typeof value === 'number' && Number.isFinite(value)) return value
    if (value !== undefined && value !== null) this.say(key, 'is no number, and is passed over')
    return null
  }

  list(key: string): readonly unknown[] {
    const value = this.value(key)
    if (value === undefined || value === null) return []
    if (Array.isArray(value)) return value
    this.say(key, 'is no list, and is passed over')
    return []
  }

  parts(key: string): readonly Part[] {
    return this.list(key).map((value, index) => new Part(value, `${this.#at(key)}[${index}]`, this.#lost))
  }

  part(key: string): Part {
    return new Part(this.value(key) ?? undefined, this.#at(key), this.#lost)
  }

  has(key: string): boolean {
    return Object.hasOwn(this.#value, key)
  }

  value(key: string): unknown {
    this.#taken.add(key)
    return Object.hasOwn(this.#value, key) ? this.#value[key] : undefined
  }

  say(key: string, what: string): void {
    this.#lost.push(`${key === '' ? this.path : this.#at(key)}: ${what}`)
  }

  /** Tells what nobody took. */
  end(why = 'no manifest says such'): void {
    for (const key of Object.keys(this.#value)) if (!this.#taken.has(key)) this.say(key, why)
  }

  #at(key: string): string {
    return this.path === '' ? key : `${this.path}.${key}`
  }
}

const isMap = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** Custom properties that are ours, by name; others are told. */
export function ownProperties(part: Part, names: readonly string[]): ReadonlyMap<string, unknown> {
  const found = new Map<string, unknown>()
  for (const one of part.parts('customProperties')) {
    const name = one.text('property') ?? ''
    if (names.includes(name) && !found.has(name)) found.set(name, one.value('value'))
    else one.say('', `the custom property "${name}" is not known here`)
  }
  return found
}
