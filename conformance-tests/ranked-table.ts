/** A table whose cells are known by their places in lists: what a filter, a policy or an order gives is told by whole numbers. */
import {
  type Capabilities,
  type Claims,
  type Filter,
  type FilterOperator,
  type LogicalType,
  type Operand,
  type Row,
  type RowPredicate,
  type TableSchema,
  typeName,
  type Value,
} from '@sluice/sdk'
import type { Random } from './random.ts'
import { rankedValues } from './ranked-values.ts'
import { everyType, TIME_COLUMN } from './shapes.ts'

/** The place of a value in its list; null for null. */
export type Rank = number | null

export interface RankedRow {
  readonly row: Row
  /** By the column's index; those of the key and of the time are the row's number. */
  readonly ranks: readonly Rank[]
}

/** What a filter means, beside the filter. */
export interface RankedFilter {
  readonly filter: Filter
  holds(row: RankedRow): boolean
}

/** False, unknown and true as numbers: then `and` is the least, `or` the greatest, and `not` what is left to one. */
export type Truth = 0 | 0.5 | 1

export interface RankedPredicate {
  readonly predicate: RowPredicate
  truth(row: RankedRow, claims: readonly Rank[]): Truth
}

export const COMPARISONS = ['eq', 'ne', 'lt', 'le', 'gt', 'ge'] as const

/** So many values in one `in` that no store can have them all in mind by writing them out. */
const MANY = 150

const START_US = BigInt(Date.UTC(2026, 1, 26, 23, 59, 59)) * 1000n + 999_970n

export class RankedTable {
  readonly schema: TableSchema
  /** Indexes of the columns that have an order. */
  readonly ordered: readonly number[]
  readonly #random: Random

  constructor(capabilities: Capabilities, random: Random) {
    this.schema = everyType(capabilities)
    this.#random = random
    this.ordered = this.schema.columns.flatMap(({ name, type }, index) =>
      name === TIME_COLUMN || typeName(type) === 'json' ? [] : [index],
    )
  }

  get indexed(): readonly string[] {
    return this.ordered.map((index) => this.#name(index))
  }

  /** Rows with the keys `from` … `from + count - 1`; in enough of them every value of every list is there. */
  rows(from: number, count: number): readonly RankedRow[] {
    const drawn = this.schema.columns.map(({ type }) => this.#drawn(type, count))
    return Array.from({ length: count }, (_, offset) => {
      const number = from + offset
      const ranks = this.schema.columns.map(({ name }, column) =>
        name === 'id' || name === TIME_COLUMN ? number : (drawn[column]?.[offset] ?? null),
      )
      return { row: this.schema.columns.map((_, column) => this.#value(column, ranks[column] ?? null)), ranks }
    })
  }

  #drawn(type: LogicalType, count: number): readonly Rank[] {
    const { length } = rankedValues(type)
    const all: readonly Rank[] = Array.from({ length }, (_, rank) => rank)
    const rest = Array.from({ length: Math.max(0, count - length) }, () =>
      length === 0 || this.#random.chance(0.15) ? null : this.#random.integer(0, length - 1),
    )
    return this.#random.shuffled([...all, ...rest]).slice(0, count)
  }

  #name(column: number): string {
    return this.schema.columns[column]?.name ?? ''
  }

  #type(column: number): LogicalType {
    return this.schema.columns[column]?.type ?? 'string'
  }

  #value(column: number, rank: Rank): Value {
    if (rank === null) return null
    if (this.#name(column) === 'id') return BigInt(rank)
    if (this.#name(column) === TIME_COLUMN) return instant(rank)
    return rankedValues(this.#type(column))[rank] ?? null
  }

  /** A rank that some value has. */
  #anyRank(column: number, rows: readonly RankedRow[]): number {
    if (this.#name(column) === 'id') return this.#random.pick(rows).ranks[column] ?? 0
    return this.#random.integer(0, rankedValues(this.#type(column)).length - 1)
  }

  /** Minus zero is zero to every comparison. */
  #operand(column: number, rank: number): NonNullable<Value> {
    const value = this.#value(column, rank) ?? ''
    return value === 0 && this.#type(column) !== 'integer' && this.#random.chance(0.5) ? -0 : value
  }

  filter(column: number, operator: FilterOperator, rows: readonly RankedRow[]): RankedFilter {
    if (operator === 'in') return this.#among(column, rows)
    const rank = this.#anyRank(column, rows)
    return {
      filter: { column: this.#name(column), operator, values: [this.#operand(column, rank)] },
      holds: ({ ranks }) => compared(operator, ranks[column] ?? null, rank) === 1,
    }
  }

  #among(column: number, rows: readonly RankedRow[]): RankedFilter {
    const wanted = Array.from({ length: this.#random.integer(1, 6) }, () => this.#anyRank(column, rows))
    const values = this.#random.shuffled([
      ...wanted.map((rank) => this.#operand(column, rank)),
      ...absent(this.#type(column), this.#random.chance(0.3) ? MANY : 0),
    ])
    return {
      filter: { column: this.#name(column), operator: 'in', values },
      holds: ({ ranks }) => wanted.some((rank) => rank === ranks[column]),
    }
  }

  /** One rank by column for the claims of a reader, which are called as the columns. */
  claims(rows: readonly RankedRow[]): { readonly ranks: readonly Rank[]; readonly claims: Claims } {
    const ranks = this.schema.columns.map((_, column) =>
      this.ordered.includes(column) && this.#random.chance(0.85) ? this.#anyRank(column, rows) : null,
    )
    const entries = this.ordered.map((column) => [this.#name(column), this.#value(column, ranks[column] ?? null)])
    return { ranks, claims: Object.fromEntries(entries) }
  }

  predicate(rows: readonly RankedRow[], depth: number): RankedPredicate {
    const nested = () => this.predicate(rows, depth - 1)
    if (depth > 0 && this.#random.chance(0.5)) {
      if (this.#random.chance(0.3)) return not(nested())
      const parts = Array.from({ length: this.#random.integer(1, 3) }, nested)
      return joined(this.#random.pick(['and', 'or'] as const), parts)
    }
    return this.comparison(this.#random.pick(this.ordered), rows)
  }

  comparison(column: number, rows: readonly RankedRow[]): RankedPredicate {
    const name = this.#name(column)
    if (this.#random.chance(0.1)) {
      return {
        predicate: { op: 'is_null', column: name },
        truth: ({ ranks }) => ((ranks[column] ?? null) === null ? 1 : 0),
      }
    }
    if (this.#random.chance(0.25)) return this.#anyOf(column, rows)
    const op = this.#random.pick(COMPARISONS)
    const right = this.#side(column, rows)
    return {
      predicate: { op, column: name, value: right.operand },
      truth: ({ ranks }, claims) => compared(op, ranks[column] ?? null, right.rank(claims)),
    }
  }

  #anyOf(column: number, rows: readonly RankedRow[]): RankedPredicate {
    const sides = Array.from({ length: this.#random.integer(1, 4) }, () => this.#side(column, rows))
    return {
      predicate: { op: 'in', column: this.#name(column), values: sides.map(({ operand }) => operand) },
      truth: ({ ranks }, claims) =>
        Math.max(...sides.map((side) => compared('eq', ranks[column] ?? null, side.rank(claims)))) as Truth,
    }
  }

  #side(column: number, rows: readonly RankedRow[]): { operand: Operand; rank(claims: readonly Rank[]): Rank } {
    if (this.#random.chance(0.35)) {
      return { operand: { claim: this.#name(column) }, rank: (claims) => claims[column] ?? null }
    }
    if (this.#random.chance(0.08)) return { operand: { literal: null }, rank: () => null }
    const rank = this.#anyRank(column, rows)
    return { operand: { literal: this.#operand(column, rank) }, rank: () => rank }
  }
}

function compared(op: (typeof COMPARISONS)[number], left: Rank, right: Rank): Truth {
  if (left === null || right === null) return 0.5
  const holds = {
    eq: left === right,
    ne: left !== right,
    lt: left < right,
    le: left <= right,
    gt: left > right,
    ge: left >= right,
  }
  return holds[op] ? 1 : 0
}

function not({ predicate, truth }: RankedPredicate): RankedPredicate {
  return { predicate: { op: 'not', of: predicate }, truth: (row, claims) => (1 - truth(row, claims)) as Truth }
}

function joined(op: 'and' | 'or', parts: readonly RankedPredicate[]): RankedPredicate {
  const choose = op === 'and' ? Math.min : Math.max
  return {
    predicate: { op, of: parts.map(({ predicate }) => predicate) },
    truth: (row, claims) => choose(...parts.map((part) => part.truth(row, claims))) as Truth,
  }
}

/** Values that no row has. */
function absent(type: LogicalType, count: number): readonly NonNullable<Value>[] {
  const make: Readonly<Partial<Record<string, (number: number) => NonNullable<Value>>>> = {
    string: (number) => `absent ${number}`,
    integer: (number) => 1000 + number,
    long: (number) => BigInt(100_000 + number),
    double: (number) => 1000.5 + number,
  }
  const one = make[typeName(type)]
  return one === undefined ? [] : Array.from({ length: count }, (_, number) => one(number))
}

/** A microsecond a row, over the end of a day. */
function instant(number: number): string {
  const us = START_US + BigInt(number)
  const whole = new Date(Number(us / 1000n)).toISOString()
  return whole.replace('Z', `${String(us % 1000n).padStart(3, '0')}Z`)
}
