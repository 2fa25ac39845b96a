import type { TableSchema } from '@sluice/sdk'
import type { Taught } from './taught.ts'

/** A table that checks read: its name in the engine (quoted here), and the columns it really has. */
export interface CheckTable {
  readonly name: readonly string[]
  readonly schema: TableSchema
}

/** What a materialization lays before its checks. */
export interface CheckTables {
  /** The staged output. */
  readonly output: CheckTable
  /** The inputs, by alias. */
  readonly inputs: ReadonlyMap<string, CheckTable>
  /** The instant that freshness counts from, in milliseconds since 1970: the clock of the run, not of the engine. */
  readonly nowMs: number
  /** By anomaly check: what the epochs before have taught it. Absent: nothing. */
  readonly taught?: ReadonlyMap<string, Taught>
}

/** What a check counted; both are whole numbers. */
export interface CheckCount {
  readonly name: string
  readonly violations: number
  readonly total: number
}
