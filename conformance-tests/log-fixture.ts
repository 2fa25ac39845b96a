/** How the suite writes to a source that tells its changes in a log, and what befalls such a log. */
import type { Column, Row, Value } from '@sluice/sdk'
import type { SourceTable } from './connector-fixture.ts'

/** What a statement of the source's owner does. Of `row`, a row as it is at this moment, the key alone has to be looked at. */
export type SourceWrite =
  | { readonly kind: 'insert'; readonly table: SourceTable; readonly rows: readonly Row[] }
  /** Sets these columns and touches no other, so that a log may leave the others out. A key may be among them. */
  | {
      readonly kind: 'update'
      readonly table: SourceTable
      readonly row: Row
      readonly cells: Readonly<Record<string, Value>>
    }
  | { readonly kind: 'remove'; readonly table: SourceTable; readonly row: Row }
  | { readonly kind: 'truncate'; readonly table: SourceTable }

/** A transaction of the source's owner. Several are open at a time; no two write to one row. */
export interface SourceTransaction {
  write(write: SourceWrite): Promise<void>
  /**
   * Gives the row, of a table of `SIMPLE`, a value in one column, none of the key, that no logical type can carry: which one. Absent
   * where no column of the source can hold such a value.
   */
  spoil?(table: SourceTable, row: Row): Promise<string>
  /** Begins a part that `undo` takes back alone, the last begun first; absent where the source has no such parts. */
  mark?(): Promise<void>
  undo?(): Promise<void>
  commit(): Promise<void>
  rollback(): Promise<void>
}

/** What a capture has made at the source. What is not said here, its checks leave out. */
export interface LoggedSource {
  begin(): Promise<SourceTransaction>
  /** Whether a table can be emptied by one statement. */
  readonly truncates?: boolean
  /** The n-th of texts that the log leaves out of a row that is changed elsewhere. */
  leftOut?(index: number): string
  /** Gives the table a column that every row which is there has this value in. */
  addFilled?(table: SourceTable, column: Column, value: NonNullable<Value>): Promise<void>
  /** A table that the connector may read, and whose rows that are gone its log cannot name. */
  createUntold?(table: SourceTable): Promise<void>
  /** Names of all that is kept at the source for captures: places in the log, lists of tables. */
  places(): Promise<readonly string[]>
  /** Lets go of the log that is kept for captures, as a source does whose disk is full. */
  lose(): Promise<void>
  /** Others write to tables that nobody captures; gives about how many bytes the log has grown by. */
  traffic(): Promise<number>
  /** Leads what is kept so near to its limit that the source is about to let go, until the function that it resolves to is called. */
  press?(): Promise<() => Promise<void>>
}
