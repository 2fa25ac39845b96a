import type { Client, Sessions, WantedTable } from '@sluice/lookup/row-secured-postgresql'
import type { Host, Plan, ProbeReport } from '@sluice/sdk'
import type { KeptAggregate } from './aggregates.ts'
import type { Layout } from './layout.ts'

/** One dataset with all that changing it takes. */
export interface Series {
  readonly sessions: Sessions
  readonly host: Host
  readonly wanted: WantedTable
  /** The table as its rows are read and changed. */
  readonly rows: WantedTable
  readonly layout: Layout
  readonly kept: readonly KeptAggregate[]
  readonly keeping: Keeping
}

/** How a server keeps a tenant's rows apart by time. */
export interface Keeping {
  /** Whether plans that are kept leave out partitions by the values that they are run with. */
  readonly isPlannedOnce: boolean
  /** Where the rows of the wanted table are read. */
  rowsOf(wanted: WantedTable): WantedTable
  /** Ends the `create table` of a tenant's rows. */
  partitionBy(layout: Layout): string
  planRows(sessions: Sessions, wanted: WantedTable): Promise<Plan>
  applyRows(series: Series): Promise<void>
  /** Room for rows of these times in a table that nobody sees yet; the answer is called when they are in. */
  begin(client: Client, series: Series, partition: string, instantsMs: readonly number[]): Promise<() => Promise<void>>
  /** Room in a table that is being read. Repeatable. */
  makeRoom(series: Series, partition: string, instantsMs: readonly number[]): Promise<void>
  /** Shows the filled table to readers, in the transaction of its epoch. Default: as a partition of the shared parent. */
  place?(series: Series, client: Client, partition: string): Promise<void>
  check(sessions: Sessions, signal: AbortSignal): Promise<ProbeReport['checks'][number]>
}
