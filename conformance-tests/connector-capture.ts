/** A capture of some tables of a source, followed as the runtime follows it. */
import { randomBytes } from 'node:crypto'
import {
  type ChangePosition,
  type ChangeSource,
  type Connector,
  isSluiceError,
  type PreparedChanges,
} from '@sluice/sdk'
import { callDeadline } from './call-deadline.ts'
import { ChangeMirror, streamOf } from './change-mirror.ts'
import { type GivenChanges, gatherChanges } from './change-reading.ts'
import { CheckFailure, expect } from './check.ts'
import { type ConnectorContext, expectRows } from './connector-context.ts'
import type { SourceTable } from './connector-fixture.ts'
import type { LoggedSource } from './log-fixture.ts'
import { SourceOwner } from './source-owner.ts'

export class Capture {
  readonly context: ConnectorContext
  readonly name = `check_${randomBytes(6).toString('hex')}`
  readonly mirror = new ChangeMirror()
  readonly owner: SourceOwner
  tables: readonly SourceTable[]
  /** Whether rows are asked for without values that nothing can carry. */
  marks = false
  #incarnations: ReadonlyMap<string, string> = new Map()
  #position: ChangePosition | null = null

  constructor(context: ConnectorContext, tables: readonly SourceTable[], owner: SourceOwner) {
    this.context = context
    this.tables = tables
    this.owner = owner
    context.atEnd(async () => {
      await owner.end()
      await this.release()
    })
  }

  /** Prepared, its tables read whole. */
  static async of(context: ConnectorContext, ...tables: readonly SourceTable[]): Promise<Capture> {
    const capture = Capture.begun(context, ...tables)
    await context.listener.settingUp(async () => {
      await capture.prepare()
      await capture.readWhole()
    })
    return capture
  }

  /** Of one table of so many rows. */
  static async filled(context: ConnectorContext, count: number) {
    const { table, rows } = await context.filled(count)
    const capture = await Capture.of(context, table)
    capture.owner.knows(table, rows)
    return { capture, owner: capture.owner, table, rows }
  }

  /** Not prepared yet. */
  static begun(context: ConnectorContext, ...tables: readonly SourceTable[]): Capture {
    return new Capture(context, tables, new SourceOwner(logOf(context)))
  }

  get position(): ChangePosition {
    if (this.#position) return this.#position
    throw new Error('the capture was not prepared')
  }

  get signal(): AbortSignal {
    return callDeadline()
  }

  get streams() {
    const { schema } = this.context.fixture
    return this.tables.map((table) => ({ ...streamOf(schema, table), ...(this.marks ? { marks: true } : {}) }))
  }

  /** On a connector of its own, as each run has it. */
  async with<T>(use: (source: ChangeSource, connector: Connector) => Promise<T>): Promise<T> {
    const { connector } = await this.context.open()
    try {
      return await use(sourceOf(connector), connector)
    } finally {
      await connector.close()
    }
  }

  /** Takes the prepared position where there is none yet, and those for stale that are another incarnation. */
  async prepare(parts: { readonly anew?: boolean } = {}): Promise<PreparedChanges> {
    const { name: capture, streams } = this
    const prepared = await this.with((source) => source.prepare({ capture, streams, ...parts, signal: this.signal }))
    const incarnations = new Map(prepared.incarnations?.map(({ table, incarnation }) => [table, incarnation]))
    for (const [index, { name }] of this.tables.entries()) {
      const former = this.#incarnations.get(name)
      if (former !== undefined && former !== incarnations.get(name)) this.mirror.stale.add(index)
    }
    this.#incarnations = new Map([...this.#incarnations, ...incarnations])
    if (this.#position === null || parts.anew) this.#position = prepared.position
    return prepared
  }

  async readWhole(indexes: readonly number[] = [...this.tables.keys()]): Promise<void> {
    await this.with(async (_, connector) => {
      for (const index of indexes) {
        const table = this.tables[index]
        if (table === undefined) continue
        const { schema, rows, marks } = await this.context.read(connector, table, this.marks ? markedIn(table) : {})
        this.mirror.fill(index, schema, rows, marks ?? [])
      }
    })
  }

  /** What the log tells after a position; nothing is applied. */
  read(after: ChangePosition): Promise<GivenChanges> {
    const { name: capture, streams, signal } = this
    return this.with((source) => gatherChanges(source.changes({ capture, after, streams, signal }), { after, streams }))
  }

  /** The same of a position that was not acknowledged, and so has to be there. */
  async kept(after: ChangePosition): Promise<GivenChanges> {
    try {
      return await this.read(after)
    } catch (error) {
      if (!isSluiceError(error, 'CONFLICT')) throw error
      throw new CheckFailure(
        {
          what: `the log is not kept from a position on that nobody has acknowledged beyond: ${error.message}`,
          expected: `all that follows ${after.order}`,
          came: `${error.kind} ${error.code}`,
          where: 'connector.changes.changes',
          why: 'what was not acknowledged may not be committed, and is not known to anybody but the source',
          remedy: 'Let go of what ack names, of that capture, and of nothing else.',
        },
        error,
      )
    }
  }

  /** As a run does it: prepares, applies what the log tells, reads whole what has to be. */
  async follow(): Promise<GivenChanges> {
    await this.prepare()
    const given = await this.kept(this.position)
    this.mirror.apply(given.told)
    this.#position = given.end
    await this.readWhole([...this.mirror.stale])
    return given
  }

  /** Reads on from there next. */
  movedTo(position: ChangePosition): void {
    this.#position = position
  }

  ack(position: ChangePosition = this.position): Promise<void> {
    return this.with((source) => source.ack({ capture: this.name, position, signal: this.signal }))
  }

  health(saved: ChangePosition | null = this.position) {
    return this.with((source) => source.health({ capture: this.name, saved, signal: this.signal }))
  }

  release(): Promise<void> {
    return this.with((source) => source.release({ capture: this.name, signal: this.signal }))
  }

  /** Fails unless the tables by the log are those that the owner has written. */
  expectTrue(why: string): void {
    for (const [index, table] of this.tables.entries())
      expectRows(table, this.owner.rows(table), this.mirror.rows(index), why)
  }
}

/** What is asked of a read for its rows to come without values that nothing can carry. */
export function markedIn({ columns, primaryKey }: SourceTable): { readonly marked: readonly string[] } {
  return { marked: columns.map(({ name }) => name).filter((name) => !primaryKey.includes(name)) }
}

export function sourceOf({ changes }: Connector): ChangeSource {
  expect(changes !== undefined, () => ({
    what: 'the connector names the mode cdc and has no changes',
    expected: 'Connector.changes',
    came: 'none',
    where: 'what open gives',
    why: 'inputs in mode cdc are read by it',
    remedy: 'Write changes, or do not name the mode.',
  }))
  return changes
}

export function logOf({ fixture }: ConnectorContext): LoggedSource {
  if (fixture.log) return fixture.log
  throw new CheckFailure({
    what: 'the connector names the mode cdc, and its fixture has no log',
    expected: 'log, a LoggedSource',
    came: 'none',
    where: 'the fixture',
    why: 'nothing can be proven of a log that nobody writes to',
    remedy: 'Give the fixture a log, or do not name the mode.',
  })
}
