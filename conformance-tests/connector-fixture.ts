/** What a connector's author gives to the suite: a source that it may fill, change, break and look into. */
import type { CHECK_STEPS, Column, ConnectorState, LogicalTypeName, Row } from '@sluice/sdk'
import type { LoggedSource } from './log-fixture.ts'

export interface SourceTable {
  readonly name: string
  readonly columns: readonly Column[]
  readonly primaryKey: readonly string[]
  /** The connector's login may not read it. */
  readonly hidden?: boolean
  /** Only this column tells what has changed, as in a view of somebody else's. */
  readonly cursorColumn?: string
}

export type CheckStepName = (typeof CHECK_STEPS)[number]

export interface SourceFixture {
  /** Of a connection that works. */
  readonly settings: unknown
  /** Name and version of the source, for certificates: `MariaDB 12.0.2`. Left out where it has none. */
  readonly server?: string
  /**
   * The steps that `check` goes through, in their order: a folder of files has `privileges` alone. Each has to be broken
   * once (`broken`), `check` reports these and no others, and a connector that asks the host for an address has `dns` and
   * `tcp`, one with a secret `auth`. Absent: at least three, as `broken` has them.
   */
  readonly steps?: readonly CheckStepName[]
  /** Logical types that columns of the source can have, and that hold all of their values. Absent: every one. */
  readonly types?: readonly LogicalTypeName[]
  /** Tables that are there already, and exactly what a read of them has to give: for what a source alone can make. */
  readonly expected?: readonly { readonly table: SourceTable; readonly rows: readonly Row[] }[]
  /** Settings that fail at a step of `check`, by its name. */
  readonly broken: Readonly<Partial<Record<CheckStepName, unknown>>>
  /** The schema that tables are made in. */
  readonly schema: string
  /** Names that the host resolves to 127.0.0.1, besides `localhost`. */
  readonly names?: readonly string[]
  /** How many rows a read from a state may repeat, where nothing has changed since. Default: 0. */
  readonly repeatedRows?: number
  create(table: SourceTable): Promise<void>
  /** Adds rows or replaces them by key, as the source's owner does. */
  put(table: SourceTable, rows: readonly Row[]): Promise<void>
  /** Rows are only ever added: `put` is never given a key that is there, and what would need it is said not to apply. */
  readonly appendsOnly?: true
  /** Absent where no row of the source ever goes: checks that need it are said not to apply. */
  remove?(table: SourceTable, rows: readonly Row[]): Promise<void>
  /** Gives the table other columns, its rows kept. Absent where tables keep theirs: checks that need it are said not to apply. */
  alter?(table: SourceTable, next: SourceTable): Promise<void>
  drop(table: SourceTable): Promise<void>
  /** Puts rows in a transaction that stays open until the function that it resolves to is called. */
  hold?(table: SourceTable, rows: readonly Row[]): Promise<() => Promise<void>>
  /** Adds so many rows that no logical type can carry. */
  putUnfit?(table: SourceTable, count: number): Promise<void>
  /** Puts the row, of a table of `SIMPLE`, with a value in one column, none of the key, that no logical type can carry: which one. */
  putWithout?(table: SourceTable, row: Row): Promise<string>
  /** Lets nobody in for being asked too often, until the function that it resolves to is called. */
  refuse?(): Promise<() => Promise<void>>
  /** From now on the source answers nobody, until `release`: `reached` once a question waits there. */
  stall?(): Promise<{ readonly reached: Promise<void>; release(): Promise<void> }>
  /** Changes with everything that anybody writes, makes or leaves at the source. */
  digest(): Promise<string>
  /** How many sessions the connector has at the source. */
  sessions(): Promise<number>
  /** The state with its position far ahead of every row; null where it has none. */
  future?(state: ConnectorState): ConnectorState | null
  /** Cuts all of the connector's connections at once. */
  breakNetwork?(): Promise<void>
  /** Of a source whose log of changes the connector reads: a plugin that names the mode `cdc` has to have it tried. */
  readonly log?: LoggedSource
  stop(): Promise<void>
}
