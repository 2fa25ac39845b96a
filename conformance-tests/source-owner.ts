/** The owner of a logged source: writes in transactions, and knows what is true once they are committed. */
import type { Row } from '@sluice/sdk'
import { keyText } from './compare.ts'
import type { SourceTable } from './connector-fixture.ts'
import type { LoggedSource, SourceTransaction, SourceWrite } from './log-fixture.ts'
import { changed } from './shapes.ts'

export class SourceOwner {
  readonly #log: LoggedSource
  readonly #tables = new Map<string, Map<string, Row>>()
  readonly #open = new Set<SourceTransaction>()

  constructor(log: LoggedSource) {
    this.#log = log
  }

  /** What a table holds that was filled otherwise. */
  knows(table: SourceTable, rows: readonly Row[]): void {
    this.#tables.set(table.name, new Map(rows.map((row) => [keyText(table, row), row])))
  }

  rows({ name }: SourceTable): readonly Row[] {
    return [...(this.#tables.get(name)?.values() ?? [])]
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
    let writes: SourceWrite[] = []
    const marks: number[] = []
    return {
      write: async (write) => {
        await transaction.write(write)
        writes.push(write)
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

  #apply(write: SourceWrite): void {
    const { table } = write
    const rows = this.#tables.get(table.name) ?? new Map<string, Row>()
    this.#tables.set(table.name, rows)
    if (write.kind === 'truncate') rows.clear()
    if (write.kind === 'insert') for (const row of write.rows) rows.set(keyText(table, row), row)
    if (write.kind !== 'update' && write.kind !== 'remove') return
    const key = keyText(table, write.row)
    const former = rows.get(key)
    rows.delete(key)
    if (write.kind === 'remove' || former === undefined) return
    const next = changed(table, former, write.cells)
    rows.set(keyText(table, next), next)
  }
}
