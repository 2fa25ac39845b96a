/** Logs of many writers at once, and of much at once. */
import type { Row } from '@sluice/sdk'
import type { GivenChanges } from '../change-reading.ts'
import { expect, type Level, vacuous } from '../check.ts'
import { Capture, logOf } from '../connector-capture.ts'
import type { ConnectorContext } from '../connector-context.ts'
import type { SourceTable } from '../connector-fixture.ts'
import type { SourceTransaction, SourceWrite } from '../log-fixture.ts'
import { rowAt, SIMPLE } from '../shapes.ts'
import type { ConnectorCheck } from './check.ts'
import { MAX_CHUNK_BYTES } from './reading.ts'

export const logWriterChecks: readonly ConnectorCheck[] = [
  {
    id: 'C62',
    name: 'log-equals-random-writers',
    level: 'full',
    requires: 'cdc',
    async run(context) {
      const tables = [await context.table(), await context.table()]
      const capture = await Capture.of(context, ...tables)
      let told = 0
      for (let round = 0; round < ROUNDS[context.level]; round += 1) {
        await writeAtRandom(capture, round)
        const former = capture.position
        const given = await capture.follow()
        told += given.told.length
        capture.expectTrue('after random writers the tables by the log are those of the source')
        // A run that failed after it had applied: the same comes again.
        if (context.random.chance(0.3)) await appliedAgain(capture, () => capture.kept(former))
        if (context.random.chance(0.5)) await capture.ack()
      }
      expect(told > ROUNDS[context.level], () => vacuous('the random writers have written next to nothing'))
    },
  },
  {
    id: 'C63',
    name: 'log-large-transactions-come-in-pieces',
    level: 'full',
    requires: 'cdc',
    async run(context) {
      const table = await context.table()
      const capture = await Capture.of(context, table)
      const { owner } = capture
      const text = 'a text of a large transaction '.repeat(LARGE_CHARACTERS / 30)
      const transaction = await owner.begin()
      for (let from = 0; from < LARGE_ROWS; from += 500) {
        const rows = Array.from(
          { length: 500 },
          (_, index): Row => rowAt(SIMPLE, from + index, context.random).with(2, text),
        )
        await transaction.write({ kind: 'insert', table, rows })
      }
      await transaction.commit()
      const sizes: number[] = []
      await capture.with(async (source) => {
        const { name, position, streams, signal } = capture
        for await (const event of source.changes({ capture: name, after: position, streams, signal }))
          if (event.kind === 'rows') sizes.push(event.chunk.byteLength)
      })
      const largest = Math.max(0, ...sizes)
      expect(largest <= MAX_CHUNK_BYTES, () => ({
        what: 'a transaction comes as one event',
        expected: `events of at most ${MAX_CHUNK_BYTES} bytes`,
        came: `one of ${largest} bytes`,
        where: 'connector.changes.changes, an event of kind rows',
        why: 'a transaction may hold more than the memory of the runtime',
        remedy: 'Give rows as they come, and a checkpoint where the transaction ends.',
      }))
      await capture.follow()
      capture.expectTrue('a large transaction has come whole')
    },
  },
]

const ROUNDS: Readonly<Record<Level, number>> = { core: 8, full: 12, hard: 300 }
const WRITES = 12
/** Together more than an event may have. */
const LARGE_ROWS = 6000
const LARGE_CHARACTERS = 1200

async function appliedAgain(capture: Capture, read: () => Promise<GivenChanges>): Promise<void> {
  capture.mirror.apply((await read()).told)
  capture.expectTrue('what is applied twice is as what is applied once')
}

/** Two transactions side by side, of keys of their own, ended in any order; at times one before them empties a table. */
async function writeAtRandom({ owner, tables, context }: Capture, round: number): Promise<void> {
  const { random } = context
  const [first] = tables
  if (first && logOf(context).truncates && round % 5 === 4) await owner.write({ kind: 'truncate', table: first })
  const writers = [0, 1].map((parity) => tables.map((table) => new Writer(context, table, owner.rows(table), parity)))
  const open: SourceTransaction[] = []
  for (const _ of writers) open.push(await owner.begin())
  for (let count = 0; count < WRITES; count += 1) {
    for (const [index, transaction] of open.entries()) {
      const writer = random.pick(writers[index] ?? [])
      await transaction.write(writer.next(`r${round} ${count}`))
    }
  }
  for (const transaction of random.shuffled(open))
    await (random.chance(0.2) ? transaction.rollback() : transaction.commit())
}

/** Writes to a table's rows of even keys, or of odd ones, as if each write had been committed. */
class Writer {
  readonly #context: ConnectorContext
  readonly #table: SourceTable
  readonly #rows: Map<bigint, Row>
  readonly #parity: number

  constructor(context: ConnectorContext, table: SourceTable, rows: readonly Row[], parity: number) {
    this.#context = context
    this.#table = table
    this.#parity = parity
    const own = rows.filter(([id]) => Number(id) % 2 === parity)
    this.#rows = new Map(own.map((row) => [row[0] as bigint, row]))
  }

  next(name: string): SourceWrite {
    const { random } = this.#context
    const table = this.#table
    const id = BigInt(random.integer(0, 20) * 2 + this.#parity)
    const row = this.#rows.get(id)
    if (row === undefined) {
      const fresh = rowAt(table, Number(id), random)
      this.#rows.set(id, fresh)
      return { kind: 'insert', table, rows: [fresh] }
    }
    const other = BigInt(random.integer(0, 20) * 2 + this.#parity)
    if (random.chance(0.3)) {
      this.#rows.delete(id)
      return { kind: 'remove', table, row }
    }
    const isMoved = random.chance(0.4) && !this.#rows.has(other)
    const next = row.with(2, name).with(0, isMoved ? other : id)
    this.#rows.delete(id)
    this.#rows.set(isMoved ? other : id, next)
    return { kind: 'update', table, row, cells: { name, ...(isMoved ? { id: other } : {}) } }
  }
}
