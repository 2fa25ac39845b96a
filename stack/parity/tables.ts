/** The tables that both deployments read: every type, extremes, nulls, and three states of each, one after the other. */
import type { LogicalType } from '@sluice/sdk'
import type pg from 'pg'
import { type Cell, isFloating, kindOf, numberOf } from '../readers/cells.ts'
import type { Random } from '../readers/random.ts'
import { randomCell } from '../readers/values.ts'

/** A row's own number; no other column is unique. */
export const KEY = 'k'

export interface TableColumn {
  readonly name: string
  readonly type: LogicalType
  readonly classification?: string
  readonly nullable?: false
}

export interface GeneratedTable {
  readonly name: string
  readonly columns: readonly TableColumn[]
  /** YAML below `endpoints:`. */
  readonly endpoints: string
  /** Columns that a lookup may filter by. */
  readonly indexed: readonly string[]
  readonly keyTemplate: readonly string[]
}

export type GeneratedRow = ReadonlyMap<string, Cell>

const key: TableColumn = { name: KEY, type: 'integer', nullable: false }

const everyType: readonly TableColumn[] = [
  key,
  { name: 'ok', type: 'boolean' },
  { name: 'i', type: 'integer' },
  { name: 'l', type: 'long' },
  { name: 'f', type: 'float' },
  { name: 'd', type: 'double' },
  { name: 'n9', type: 'decimal(9,2)' },
  { name: 'n38', type: 'decimal(38,10)' },
  { name: 'pay', type: 'decimal(18,4)', classification: 'pii.pay' },
  { name: 'day', type: 'date' },
  { name: 'seen', type: 'timestamp' },
  { name: 'z', type: 'timestamptz' },
  { name: 'u', type: 'uuid', classification: 'pii.identifier' },
  { name: 'b', type: 'binary' },
  { name: 's', type: 'string' },
  { name: 'mail', type: 'string', classification: 'pii.identifier' },
  { name: 'alias', type: 'string', classification: 'pii.name' },
  { name: 'j', type: 'json' },
]

const INDEXED = ['k', 'ok', 'i', 'l', 'f', 'd', 'n9', 'n38', 'pay', 'day', 'seen', 'z', 'u', 'b', 's', 'mail']

const named = (...names: readonly string[]) => everyType.filter(({ name }) => names.includes(name))

export const TABLES: readonly GeneratedTable[] = [
  {
    name: 'facts',
    columns: everyType,
    indexed: INDEXED,
    keyTemplate: ['fact:', KEY],
    endpoints: `  - type: lookup
    config: { index_columns: [${INDEXED.join(', ')}] }
  - type: realtime
    config: { key_template: 'fact:{k}', ttl: 48h }
  - type: analytics
`,
  },
  {
    name: 'dated',
    columns: named(KEY, 'i', 'n38', 's', 'mail', 'z', 'pay'),
    indexed: [KEY, 's', 'i', 'mail'],
    keyTemplate: ['', 's', '/', KEY],
    endpoints: `  - type: lookup
    config: { index_columns: [k, s, i, mail], history_mode: type_2, tracked_columns: [i, s, mail, pay] }
  - type: realtime
    config: { key_template: '{s}/{k}', include_columns: [k, s, n38, mail] }
`,
  },
  {
    name: 'former',
    columns: named(KEY, 'i', 'd', 'b', 'alias', 'z', 'ok'),
    indexed: [KEY, 'i', 'z'],
    keyTemplate: ['', 'i', '|', 'ok'],
    endpoints: `  - type: lookup
    config: { index_columns: [k, i, z], history_mode: type_3, tracked_columns: [i, d, b, alias, z] }
`,
  },
  {
    name: 'series',
    columns: [key, { name: 'at', type: 'timestamptz', nullable: false }, ...named('i', 'n9', 's', 'mail', 'pay', 'd')],
    indexed: [KEY, 's', 'mail'],
    keyTemplate: ['', KEY],
    endpoints: `  - type: timeseries
    config:
      time_column: at
      chunk_interval: 2 weeks
      continuous_aggregates:
        - { interval: 1 day, columns: [i, n9] }
        - { interval: 1 week, columns: [i, pay] }
`,
  },
]

/** Strings stand for what they are wherever a mask is a hash: of those, two deployments share the pattern alone. */
export const HASHED: ReadonlySet<string> = new Set(['u', 'mail', 'previous_mail'])

const SOURCE_TYPES: Readonly<Record<string, string>> = {
  string: 'text',
  long: 'bigint',
  float: 'real',
  double: 'double precision',
  binary: 'bytea',
}

const sourceType = (type: LogicalType): string => SOURCE_TYPES[kindOf(type)] ?? type

export async function createTables(source: pg.Client): Promise<void> {
  for (const { name, columns } of TABLES) {
    const list = columns.map((column) => `${column.name} ${sourceType(column.type)}`).join(', ')
    await source.query(`create table ${name} (${list}, primary key (${KEY}))`)
  }
}

/** The rows of a table, which change from state to state: some are new, some other, some gone. */
export class Rows {
  readonly table: GeneratedTable
  readonly #random: Random
  readonly #rows = new Map<number, GeneratedRow>()
  #keys = 0

  constructor(table: GeneratedTable, random: Random) {
    this.table = table
    this.#random = random
  }

  get all(): readonly GeneratedRow[] {
    return [...this.#rows.values()]
  }

  async change(source: pg.Client, added: number): Promise<void> {
    const random = this.#random
    const known = [...this.#rows.keys()]
    const gone = random.sample(known, Math.floor(known.length / 8))
    const other = random.sample(known, Math.floor(known.length / 3)).filter((number) => !gone.includes(number))
    for (const number of gone) this.#rows.delete(number)
    const fresh = Array.from({ length: added }, () => (this.#keys += 1))
    for (const number of [...other, ...fresh]) this.#rows.set(number, this.#row(number))
    await source.query(`delete from ${this.table.name} where ${KEY} = any($1)`, [[...gone, ...other]])
    for (const number of [...other, ...fresh]) await this.#insert(source, this.#rows.get(number) as GeneratedRow)
  }

  /** Half of what is changed keeps some of its cells, so that histories have something to leave alone. */
  #row(number: number): GeneratedRow {
    const before = this.#rows.get(number)
    const cell = ({ name, type, nullable }: TableColumn): Cell => {
      if (name === KEY) return String(number)
      if (before !== undefined && this.#random.chance(0.5)) return before.get(name) ?? null
      if (nullable !== false) return randomCell(this.#random, type)
      return this.#instant()
    }
    return new Map(this.table.columns.map((column) => [column.name, cell(column)]))
  }

  #instant(): string {
    const ms = Date.UTC(2023, 10, 1) + this.#random.integer(90 * 86_400) * 1000
    return `${new Date(ms).toISOString().slice(0, 19)}.${String(this.#random.integer(1_000_000)).padStart(6, '0')}Z`
  }

  async #insert(source: pg.Client, row: GeneratedRow): Promise<void> {
    const { name, columns } = this.table
    const places = columns.map(({ type }, at) => `$${at + 1}::text::${sourceType(type)}`)
    const values = columns.map((column) => sourceText(row.get(column.name) ?? null, column.type))
    await source.query(`insert into ${name} values (${places.join(', ')})`, values)
  }
}

function sourceText(cell: Cell, type: LogicalType): string | null {
  if (cell === null) return null
  if (isFloating(type)) return floatText(cell)
  return kindOf(type) === 'binary' ? `\\x${cell}` : cell
}

const floatText = (cell: string): string => {
  const value = numberOf(cell)
  return Object.is(value, -0) ? '-0' : String(value)
}

/** As a request's filter takes it. */
export function requestText(cell: string, type: LogicalType): string {
  if (isFloating(type)) return floatText(cell)
  return kindOf(type) === 'binary' ? Buffer.from(cell, 'hex').toString('base64') : cell
}
