/** Joins and groups, made by chance, over three tables of the same columns; most of them come in parts by some key. */

interface Chance {
  below(bound: number): number
  pick<T>(list: readonly T[]): T
}

export const PART_TABLES = ['people', 'staff', 'seen'] as const
const NUMBERS = ['id', 'pay', 'grp', 'lvl', 'day']
const TEXTS = ['email', 'alt', 'city']

export interface RandomProduct {
  readonly sql: string
  /** Names of the list's columns that are the key: numbers, then texts. */
  readonly keys: readonly { readonly name: string; readonly type: 'long' | 'string' }[]
  /** Texts, all of them. */
  readonly values: readonly string[]
  readonly tables: readonly string[]
}

export class RandomParts {
  readonly #random: Chance

  constructor(random: Chance) {
    this.#random = random
  }

  statement(): string {
    return this.product().sql
  }

  product(): RandomProduct {
    const tables = this.#tables()
    const aliases = tables.map((_, at) => `t${at}`)
    const from = tables.reduce(
      (made, table, at) => (at === 0 ? `${table} AS t0` : `${made} ${this.#join(table, at)}`),
      '',
    )
    const driver = this.#chance(3) ? this.#random.pick(aliases) : 't0'
    const isGrouped = this.#chance(2)
    const keys = isGrouped ? this.#groups() : [{ name: 'id', type: 'long' } as const]
    const listed = keys.map(({ name }) => `${driver}.${name} AS ${name}`)
    const made = Array.from({ length: 1 + this.#random.below(3) }, () =>
      isGrouped ? this.#aggregate(aliases) : this.#number(aliases),
    )
    const values = made.map((_, at) => `v${at}`)
    const list = [...listed, ...made.map((value, at) => `CAST(${value} AS VARCHAR) AS v${at}`)].join(', ')
    const known = isGrouped ? keys.map(({ name }) => `${driver}.${name} IS NOT NULL`) : []
    const where = [...(this.#chance(2) ? [this.#condition(aliases)] : []), ...(this.#chance(4) ? [] : known)]
    const group = isGrouped
      ? ` GROUP BY ${this.#chance(3) ? keys.map((_, at) => at + 1) : keys.map(({ name }) => `${driver}.${name}`)}`
      : ''
    const having = isGrouped && this.#chance(3) ? ` HAVING ${this.#aggregate(aliases)} IS NOT NULL` : ''
    const filter = where.length > 0 ? ` WHERE ${where.join(' AND ')}` : ''
    return { sql: `SELECT ${list} FROM ${from}${filter}${group}${having}`, keys, values, tables }
  }

  /** Of a row of a table: as the `where` of an input. */
  filter(): string {
    return this.#random.pick([
      'pay > 2',
      'grp IS NOT NULL',
      "city = 'oslo' OR lvl < 6",
      'CASE WHEN day > 3 THEN pay < 9 ELSE true END',
      "coalesce(alt, email) LIKE '%1' IS NOT TRUE",
    ])
  }

  #tables(): readonly string[] {
    const first = this.#random.below(PART_TABLES.length)
    const count = 1 + this.#random.below(3)
    return Array.from({ length: count }, (_, at) => PART_TABLES[(first + at) % PART_TABLES.length] as string)
  }

  /** To the key of the other table, mostly: a row joins one, then. */
  #join(table: string, at: number): string {
    const kind = this.#random.pick(['JOIN', 'LEFT JOIN', 'INNER JOIN', 'LEFT JOIN'])
    const before = `t${this.#random.below(at)}`
    const to = this.#chance(5) ? this.#random.pick(NUMBERS) : 'id'
    const on = `${before}.${this.#random.pick(NUMBERS)} = t${at}.${to}`
    const swapped = this.#chance(2) ? on.split(' = ').reverse().join(' = ') : on
    const more = this.#chance(4) ? ` AND ${this.#condition([before, `t${at}`])}` : ''
    return this.#chance(12)
      ? `${kind} ${table} AS t${at} USING (grp)`
      : `${kind} ${table} AS t${at} ON ${swapped}${more}`
  }

  #groups(): RandomProduct['keys'] {
    const one = { name: this.#random.pick(NUMBERS), type: 'long' } as const
    const other = { name: this.#random.pick(TEXTS), type: 'string' } as const
    return this.#random.pick([[one], [one], [other], [one, other]])
  }

  #column(aliases: readonly string[], names: readonly string[]): string {
    return `${this.#random.pick(aliases)}.${this.#random.pick(names)}`
  }

  #number(aliases: readonly string[]): string {
    const number = () => this.#column(aliases, NUMBERS)
    return this.#random.pick([
      () => number(),
      () => `${number()} * 2 - ${number()}`,
      () => `coalesce(${number()}, length(${this.#column(aliases, TEXTS)}))`,
      () => `CASE WHEN ${this.#condition(aliases)} THEN ${number()} END`,
      () => `${this.#column(aliases, ['cost'])} * 3`,
    ])()
  }

  #condition(aliases: readonly string[]): string {
    return this.#random.pick([
      () => `${this.#column(aliases, NUMBERS)} > ${this.#random.below(6)}`,
      () => `${this.#column(aliases, NUMBERS)} IS DISTINCT FROM ${this.#column(aliases, NUMBERS)}`,
      () => `${this.#column(aliases, TEXTS)} IS NOT NULL`,
      () => `lower(${this.#column(aliases, TEXTS)}) IN ('oslo', 'm1', 'm2', 'm4')`,
    ])()
  }

  #aggregate(aliases: readonly string[]): string {
    const filter = this.#chance(4) ? ` FILTER (WHERE ${this.#condition(aliases)})` : ''
    const distinct = this.#chance(4) ? 'DISTINCT ' : ''
    return this.#random.pick([
      () => `count(*)${filter}`,
      () => `count(${distinct}${this.#column(aliases, ['rate', ...TEXTS])})${filter}`,
      () => `sum(${distinct}${this.#number(aliases)})${filter}`,
      () => `avg(${this.#column(aliases, [...NUMBERS, 'cost'])})${filter}`,
      () => `min(${this.#column(aliases, TEXTS)})${filter}`,
      () => `max(${this.#column(aliases, [...TEXTS, ...NUMBERS, 'cost'])})${filter}`,
      () => `median(${this.#column(aliases, [...NUMBERS, 'cost'])})${filter}`,
      () => `coalesce(sum(${this.#column(aliases, ['pay', 'cost'])}), 0) / greatest(count(*), 1)`,
      () => `bool_or(${this.#condition(aliases)})`,
      () => `bit_xor(${this.#column(aliases, NUMBERS)})`,
    ])()
  }

  #chance(oneOf: number): boolean {
    return this.#random.below(oneOf) === 0
  }
}
