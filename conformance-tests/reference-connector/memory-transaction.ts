/** A transaction of the source's owner. What it writes is nowhere to be seen before it is committed. */
import type { Row } from '@sluice/sdk'
import type { SourceTable } from '../connector-fixture.ts'
import type { SourceTransaction, SourceWrite } from '../log-fixture.ts'
import type { MemorySource } from './memory-source.ts'
import type { MemoryWrite } from './memory-write.ts'

/** Of the tables that the suite makes. */
const SPOILT = 'amount'

export class MemoryTransaction implements SourceTransaction {
  readonly #source: MemorySource
  readonly #number: number
  #writes: readonly MemoryWrite[] = []
  /** How much had been written when each part began that can still be undone. */
  #marks: readonly number[] = []

  constructor(source: MemorySource) {
    this.#source = source
    this.#number = source.begin()
  }

  async write(write: SourceWrite): Promise<void> {
    this.#writes = [...this.#writes, write]
  }

  async spoil(table: SourceTable, row: Row): Promise<string> {
    this.#writes = [...this.#writes, { kind: 'spoil', table, row, column: SPOILT }]
    return SPOILT
  }

  async mark(): Promise<void> {
    this.#marks = [...this.#marks, this.#writes.length]
  }

  async undo(): Promise<void> {
    this.#writes = this.#writes.slice(0, this.#marks.at(-1) ?? 0)
    this.#marks = this.#marks.slice(0, -1)
  }

  async commit(): Promise<void> {
    this.#source.commit(this.#writes, this.#number)
  }

  async rollback(): Promise<void> {
    this.#source.end(this.#number)
  }
}
