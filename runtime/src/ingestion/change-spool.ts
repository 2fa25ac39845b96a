/** A piece of a log on this machine's disk until it is applied: for each table files of CSV, as it came. */
import { appendFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { StorageRoom } from '@sluice/engine'
import { type ChangeEvent, type ChangePosition, type ChangeStream, SluiceError } from '@sluice/sdk'
import type { RefusedRow } from '../registry/quarantine.ts'
import { type LogSegment, OWN_NAMES } from './change-fold.ts'
import { RefusedRows } from './refused-rows.ts'
import { KindsLook, type ToldKinds } from './told-kinds.ts'

/** Of one table, since the spool was begun. */
export interface SpooledTable {
  readonly segments: readonly LogSegment[]
  readonly rows: number
  readonly bytes: number
  readonly isTruncated: boolean
  readonly mustReread: boolean
  readonly rejected: number
  readonly reasons: readonly string[]
  readonly refused: readonly RefusedRow[]
  /** By column: values that could not be carried, whose rows came without them. */
  readonly withoutValue: ReadonlyMap<string, number>
  /** Columns for which rows did not come though none of the key is at fault, where nobody asked for rows without them. */
  readonly rejectedFor: ReadonlySet<string>
  readonly kinds: ToldKinds
}

const HELD_BYTES = 256 * 1024
const HELD_ALL_BYTES = 16 * 1024 * 1024
const MAX_SEGMENTS = 100

export class ChangeSpool {
  readonly #dir: string
  readonly #streams: readonly ChangeStream[]
  readonly #room: StorageRoom
  readonly #tables: readonly TableSpool[]
  #held = 0
  #bytes = 0
  #isWhole = true
  #position: { readonly position: ChangePosition; readonly sourceTime: string | null } | null = null

  /** `dir`: empty, and the caller's to remove. */
  constructor(dir: string, streams: readonly ChangeStream[], room: StorageRoom) {
    this.#dir = dir
    this.#streams = streams
    this.#room = room
    this.#tables = streams.map(() => new TableSpool())
  }

  get bytes(): number {
    return this.#bytes
  }

  /** The last checkpoint; null: there was none. */
  get checkpoint() {
    return this.#position
  }

  /** Nothing came after the last checkpoint. */
  get endsWhole(): boolean {
    return this.#isWhole
  }

  table(stream: number): SpooledTable {
    return this.#tables[stream] as SpooledTable
  }

  /** Throws where the source breaks the contract, and the room's error where a transaction does not fit into it. */
  async take(event: ChangeEvent): Promise<void> {
    if (event.kind === 'checkpoint') {
      this.#position = { position: event.position, sourceTime: event.sourceTime }
      this.#isWhole = true
      return
    }
    this.#isWhole = false
    const table = this.#tables[event.stream]
    const stream = this.#streams[event.stream]
    if (table === undefined || stream === undefined) throw brokenLog('it told of a table that nobody asked for')
    if (event.kind === 'schema') {
      await this.#flush(table)
      const file = join(this.#dir, `${event.stream}-${table.segments.length}.csv`)
      // There though no row may come.
      if (table.begin(event, stream, file)) await appendFile(file, '')
      table.mustReread ||= event.mustReread === true
      return
    }
    if (event.kind === 'rows') {
      table.rows += event.rows
      await this.#hold(table, event.chunk)
      return
    }
    if (event.kind === 'reject' && event.carried === true) {
      table.carry(event, stream)
      return
    }
    if (event.kind === 'truncate') table.isTruncated = true
    else table.reject(event, stream)
    // Nothing came before it that it could be told from.
    if (event.kind === 'truncate' && table.segments.length === 0) return
    // In its place among the rows.
    await this.#hold(table, Buffer.from(table.lineOf(event, stream)))
  }

  /** All of it lies on the disk afterwards. */
  async flush(): Promise<void> {
    for (const table of this.#tables) await this.#flush(table)
  }

  async #hold(table: TableSpool, chunk: Uint8Array): Promise<void> {
    if (chunk.length === 0) return
    if (table.segments.length === 0) throw brokenLog('it gave rows before their columns')
    this.#bytes += chunk.length
    if (this.#bytes > this.#room.bytes) throw this.#room.exceeded()
    this.#held += chunk.length
    if (table.hold(chunk) >= HELD_BYTES) await this.#flush(table)
    if (this.#held >= HELD_ALL_BYTES) await this.flush()
  }

  async #flush(table: TableSpool): Promise<void> {
    this.#held -= await table.flush()
  }
}

class TableSpool implements SpooledTable {
  readonly segments: LogSegment[] = []
  rows = 0
  bytes = 0
  isTruncated = false
  mustReread = false
  readonly withoutValue = new Map<string, number>()
  readonly rejectedFor = new Set<string>()
  readonly #refused = new RefusedRows()
  readonly #look = new KindsLook()
  #chunks: Uint8Array[] = []
  #held = 0

  get rejected(): number {
    return this.#refused.rejected
  }

  get kinds(): ToldKinds {
    return this.#look.kinds
  }

  get reasons(): readonly string[] {
    return this.#refused.reasons
  }

  get refused(): readonly RefusedRow[] {
    return this.#refused.rows
  }

  /** False: its columns are as before. */
  begin(
    { schema: { columns }, marks = false }: Extract<ChangeEvent, { kind: 'schema' }>,
    { primaryKey, table, marks: isAsked = false }: ChangeStream,
    file: string,
  ): boolean {
    if (marks && !isAsked) throw brokenLog('it gave marks that nobody asked for')
    const names = new Set(columns.map(({ name }) => name))
    if (names.size !== columns.length) throw brokenLog('it gave a column twice')
    if ([...names].some((name) => OWN_NAMES.has(name))) throw brokenLog('it gave a column of a name that none may have')
    if (primaryKey.some((name) => !names.has(name))) {
      throw brokenLog(`it gave ${table} without a column of its key`)
    }
    const last = this.segments.at(-1)
    if (last !== undefined && last.marks !== marks) throw brokenLog('it gave marks with some rows of a table alone')
    if (last !== undefined && JSON.stringify(last.columns) === JSON.stringify(columns)) return false
    if (this.segments.length === MAX_SEGMENTS) throw brokenLog('it changed the columns of a table without end')
    this.segments.push({ file, columns, marks })
    return true
  }

  hold(chunk: Uint8Array): number {
    this.#chunks.push(chunk)
    this.#held += chunk.length
    this.bytes += chunk.length
    this.#look.take(chunk)
    return this.#held
  }

  async flush(): Promise<number> {
    const held = this.#held
    if (held === 0) return 0
    const chunks = this.#chunks
    this.#chunks = []
    this.#held = 0
    await appendFile((this.segments.at(-1) as LogSegment).file, Buffer.concat(chunks))
    return held
  }

  reject(event: Extract<ChangeEvent, { kind: 'reject' }>, { primaryKey, marks }: ChangeStream): void {
    const { columns = [] } = this.segments.at(-1) ?? {}
    const { column } = event
    const isDispensable = columns.some(({ name }) => name === column && !primaryKey.includes(name))
    if (marks !== true && column !== null && isDispensable) this.rejectedFor.add(column)
    this.#refused.add(event, { columns, primaryKey })
  }

  /** Its row has come, and says itself what it lacks. */
  carry(event: Extract<ChangeEvent, { kind: 'reject' }>, { primaryKey }: ChangeStream): void {
    const { columns = [], marks = false } = this.segments.at(-1) ?? {}
    const { column } = event
    const isThere = columns.some(({ name }) => name === column)
    if (column === null || !marks || !isThere || primaryKey.includes(column)) throw brokenLog('it left out a value')
    this.withoutValue.set(column, (this.withoutValue.get(column) ?? 0) + 1)
    this.#refused.add(event, { columns, primaryKey }, marks)
  }

  /** A line of CSV for what came beside the rows: `t` for all that are gone, `r` for one that cannot be carried. */
  lineOf(event: Extract<ChangeEvent, { kind: 'truncate' | 'reject' }>, { primaryKey }: ChangeStream): string {
    const { columns = [], marks = false } = this.segments.at(-1) ?? {}
    // A key that cannot be carried is of no row that was.
    const isOfKey = event.kind === 'reject' && event.column !== null && primaryKey.includes(event.column)
    const key = event.kind === 'reject' && !isOfKey ? event.key : undefined
    const values = columns.map(({ name }) => (primaryKey.includes(name) ? (key?.[name] ?? null) : null))
    const cells = [event.kind === 'truncate' ? 't' : 'r', event.seq, null, null, ...values, ...(marks ? [null] : [])]
    return `${cells.map((text) => (text === null ? '' : `"${text.replaceAll('"', '""')}"`)).join(',')}\n`
  }
}

export function brokenLog(why: string): SluiceError {
  return new SluiceError('INTERNAL', `the connector broke its contract of changes: ${why}`, {
    code: 'connector_contract',
  })
}
