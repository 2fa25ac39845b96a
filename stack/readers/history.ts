/**
 * A random history of one table, and what every state of it must hold. Rows are maps from a column's number to its
 * cell: renamed columns keep their number, dropped ones never come back.
 */
import type { LogicalType } from '@sluice/sdk'
import { type Cell, floatCell, numberOf } from './cells.ts'
import type { Random } from './random.ts'
import { randomCell } from './values.ts'

export interface ModelColumn {
  readonly id: number
  readonly name: string
  readonly type: LogicalType
}

export type ModelRow = ReadonlyMap<number, Cell>

export interface TableState {
  readonly columns: readonly ModelColumn[]
  readonly rows: readonly ModelRow[]
}

export interface Partitioning {
  readonly column: string
  readonly transform: string
}

export interface Step {
  /** `rewrite`: the files that are there go, and `written` holds what is left of their rows, and the new ones. */
  readonly operation: 'append' | 'replace' | 'rewrite'
  readonly written: readonly ModelRow[]
  /** New name → former name. */
  readonly renames: Readonly<Record<string, string>>
  readonly partitioning: readonly Partitioning[]
  readonly after: TableState
}

/** A row's own number: no other column is unique. */
export const KEY = 'k'

const TYPES: readonly (readonly [string, LogicalType])[] = [
  [KEY, 'integer'],
  ['ok', 'boolean'],
  ['i', 'integer'],
  ['l', 'long'],
  ['f', 'float'],
  ['d', 'double'],
  ['n9', 'decimal(9,2)'],
  ['n18', 'decimal(18,4)'],
  ['n38', 'decimal(38,10)'],
  ['n38i', 'decimal(38,0)'],
  ['day', 'date'],
  ['at', 'timestamp'],
  ['z', 'timestamptz'],
  ['u', 'uuid'],
  ['b', 'binary'],
  ['s', 'string'],
  ['j', 'json'],
]

const WIDER: Readonly<Record<string, LogicalType>> = {
  integer: 'long',
  float: 'double',
  'decimal(9,2)': 'decimal(20,2)',
  'decimal(18,4)': 'decimal(38,4)',
}

const ROWS_A_STEP = 12

const SMALLEST = /^(-9+\.9+|-2147483648|-9223372036854775808)$/

export class History {
  readonly #random: Random
  readonly #partitionings: readonly (readonly Partitioning[])[]
  readonly #partitioned: ReadonlySet<string>
  readonly #truncated: ReadonlySet<string>
  #state: TableState = { columns: TYPES.map(([name, type], index) => ({ id: index + 1, name, type })), rows: [] }
  #keys = 0
  #lastId = TYPES.length

  /** @param partitionings in turn, one a step; the last one stays. */
  constructor(random: Random, partitionings: readonly (readonly Partitioning[])[]) {
    this.#random = random
    this.#partitionings = partitionings
    const all = partitionings.flat()
    this.#partitioned = new Set(all.map(({ column }) => column))
    this.#truncated = new Set(
      all.filter(({ transform }) => transform.startsWith('truncate')).map(({ column }) => column),
    )
  }

  *steps(count: number): Generator<Step> {
    for (let at = 0; at < count; at += 1) {
      const partitioning = this.#partitionings[Math.min(at, this.#partitionings.length - 1)] ?? []
      yield at === 0 ? this.#append({}, partitioning) : this.#any(partitioning)
    }
  }

  #any(partitioning: readonly Partitioning[]): Step {
    const kind = this.#random.pick(['append', 'append', 'change', 'change', 'rewrite', 'replace'])
    if (kind === 'rewrite') return this.#rewrite(partitioning)
    const renames = kind === 'change' ? this.#changeColumns() : {}
    if (kind === 'replace') this.#state = { ...this.#state, rows: [] }
    const step = this.#append(renames, partitioning)
    return kind === 'replace' ? { ...step, operation: 'replace' } : step
  }

  #append(renames: Step['renames'], partitioning: readonly Partitioning[]): Step {
    const { columns, rows } = this.#state
    const written = this.#newRows()
    this.#state = { columns, rows: [...rows, ...written] }
    return { operation: 'append', written, renames, partitioning, after: this.#state }
  }

  /** Deletes some rows, changes some, adds some. */
  #rewrite(partitioning: readonly Partitioning[]): Step {
    const { columns, rows } = this.#state
    const left = rows.filter(() => this.#random.chance(0.7)).map((row) => this.#perhapsChanged(row))
    this.#state = { columns, rows: [...left, ...this.#newRows().slice(0, 4)] }
    return { operation: 'rewrite', written: this.#state.rows, renames: {}, partitioning, after: this.#state }
  }

  #perhapsChanged(row: ModelRow): ModelRow {
    if (this.#random.chance(0.6)) return row
    const { id, name, type } = this.#random.pick(this.#state.columns.filter(({ name }) => name !== KEY))
    return new Map(row).set(id, this.#cell(name, type))
  }

  /** The smallest number of a type has no truncation that is of the type: such rows are refused. */
  #cell(name: string, type: LogicalType): Cell {
    const cell = randomCell(this.#random, type)
    return this.#truncated.has(name) && cell !== null && SMALLEST.test(cell) ? null : cell
  }

  #newRows(): readonly ModelRow[] {
    return Array.from({ length: ROWS_A_STEP }, () => {
      this.#keys += 1
      return new Map(
        this.#state.columns.map(({ id, name, type }) => [
          id,
          name === KEY ? String(this.#keys) : this.#cell(name, type),
        ]),
      )
    })
  }

  /** One change of the columns; those that partition the table stay as they are. */
  #changeColumns(): Step['renames'] {
    const { columns, rows } = this.#state
    const free = columns.filter(({ name }) => name !== KEY && !this.#partitioned.has(name))
    const chosen = this.#random.pick(free)
    const wider = free.find(({ type }) => WIDER[type] !== undefined)
    const put = (changed: readonly ModelColumn[]) => {
      this.#state = { columns: changed, rows }
    }
    const swap = (column: ModelColumn, next: ModelColumn) => put(columns.map((one) => (one === column ? next : one)))
    switch (this.#random.pick(['add', 'drop', 'rename', 'widen', 'reorder'])) {
      case 'add':
        this.#lastId += 1
        put([...columns, { id: this.#lastId, name: `c${this.#lastId}`, type: this.#random.pick(TYPES)[1] }])
        return {}
      case 'drop':
        if (free.length > 6) put(columns.filter((column) => column !== chosen))
        return {}
      case 'widen':
        if (wider !== undefined) this.#widen(wider)
        return {}
      case 'reorder':
        put([...columns].reverse())
        return {}
      default:
        swap(chosen, { ...chosen, name: `${chosen.name}x` })
        return { [`${chosen.name}x`]: chosen.name }
    }
  }
  #widen(column: ModelColumn): void {
    const wider = { ...column, type: WIDER[column.type] as LogicalType }
    const widened = (row: ModelRow): ModelRow => {
      const cell = row.get(column.id) ?? null
      if (column.type !== 'float' || cell === null) return row
      return new Map(row).set(column.id, floatCell(numberOf(cell), 'double'))
    }
    const { columns, rows } = this.#state
    this.#state = { columns: columns.map((one) => (one === column ? wider : one)), rows: rows.map(widened) }
  }
}
