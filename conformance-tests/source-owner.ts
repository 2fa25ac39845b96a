/** The owner of a logged source: writes in transactions, and knows what is true once they are committed. */
import type { Row } from '@sluice/sdk'
import { keyText } from './compare.ts'
import type { SourceTable } from './connector-fixture.ts'
import type { LoggedSource, SourceTransaction, SourceWrite } from './log-fixture.ts'
import { changed } from './shapes.ts'

export class SourceOwner {
  readonly #log: LoggedSource
  readonly #tables = new Map<string, Map<string, Row>>()
  /** Columns that rows have a value in which nothing can carry, by table and key. */
  readonly #lacking = new Map<string, Map<string, string>>()
  readonly #open = new Set<SourceTransaction>()

  constructor(log: LoggedSource) {
    this.#log = log
  }

  /** What a table holds that was filled otherwise. */
  knows(table: SourceTable, rows: readonly Row[], lacking: ReadonlyMap<string, string> = new Map()): void {
    this.#lacking.set(table.name, new Map(lacking))
    this.#tables.set(table.name, new Map(rows.map((row) => [keyText(table, row), row])))
  }

  rows({ name }: SourceTable): readonly Row[] {
    return [...(this.#tables.get(name)?.values() ?? [])]
  }

  /** By key: the column that the row lacks. Its value counts as null. */
  lacking({ name }: SourceTable): ReadonlyMap<string, string> {
    return this.#lacking.get(name) ?? new Map()
  }

  /** These statements in one transaction. */
  async write(...writes: readonly SourceWrite[]): Promise<void> {
    const transaction = await this.begin()
    for (const write of writes) await transaction.write(write)
    await transaction.commit()
  }

  async begin(): Promise<Required<SourceTransaction>> {
    const transaction = await this.#log.begin()
    this.#open.add(transaction)
    let writes: Written[] = []
    const marks: number[] = []
    return {
      write: async (write) => {
        await transaction.write(write)
        writes.push(write)
      },
      spoil: async (table, row) => {
        if (transaction.spoil === undefined) throw new Error('the fixture of this source cannot spoil a value')
        const column = await transaction.spoil(table, row)
        writes.push({ kind: 'spoil', table, row, column })
        return column
      },
      mark: async () => {
        await transaction.mark?.()
        marks.push(writes.length)
      },
      undo: async () => {
        await transaction.undo?.()
        writes = writes.slice(0, marks.pop() ?? 0)
      },
      commit: async () => {
        this.#open.delete(transaction)
        await transaction.commit()
        for (const write of writes) this.#apply(write)
      },
      rollback: async () => {
        this.#open.delete(transaction)
        await transaction.rollback()
      },
    }
  }

  /** Takes back what a check has left open, on which others wait. */
  async end(): Promise<void> {
    for (const transaction of this.#open) await transaction.rollback()
    this.#open.clear()
  }

  #apply(write: Written): void {
    const { table } = write
    const rows = this.#tables.get(table.name) ?? new Map<string, Row>()
    const lacking = this.#lacking.get(table.name) ?? new Map<string, string>()
    this.#tables.set(table.name, rows)
    this.#lacking.set(table.name, lacking)
    if (write.kind === 'truncate') for (const kept of [rows, lacking]) kept.clear()
    if (write.kind === 'insert') for (const row of write.rows) rows.set(keyText(table, row), row)
    if (write.kind === 'truncate' || write.kind === 'insert') return
    const key = keyText(table, write.row)
    const former = rows.get(key)
    const lacked = lacking.get(key)
    rows.delete(key)
    lacking.delete(key)
    if (write.kind === 'remove' || former === undefined) return
    const next = changed(table, former, write.kind === 'spoil' ? { [write.column]: null } : write.cells)
    const lacks = write.kind === 'spoil' ? write.column : lacked
    rows.set(keyText(table, next), next)
    if (lacks !== undefined && (write.kind === 'spoil' || !Object.hasOwn(write.cells, lacks)))
      lacking.set(keyText(table, next), lacks)
  }
}

type Written =
  | SourceWrite
  | { readonly kind: 'spoil'; readonly table: SourceTable; readonly row: Row; readonly column: string }
