/** What is read of an input, and what its contract has made of that. */
import type { TableRef } from '@sluice/iceberg'
import type { Input } from '../manifest/manifest-set.ts'
import type { HeldColumn } from '../registry/versions.ts'
import type { ContractTerms } from './contract-terms.ts'
import type { LakeState } from './lake-state.ts'
import type { ColumnChanges } from './source-changes.ts'

/** An input with the lake state that this materialization reads of it. */
export interface InputState {
  readonly input: Input
  readonly state: LakeState
  readonly table: TableRef
  /** Equal of inputs that were read as of one instant of their source; null: of its own. */
  readonly moment: string | null
  /** Since when the rows are: when the read of the source began. RFC 3339; absent or null: nobody knows. */
  readonly readAt?: string | null
  /** Rows that the raw table lacks, because they could not be carried since it was last read whole. */
  readonly rejected: number
  /** Columns that the product uses and that rows are marked to have no value of; absent: none. */
  readonly marked?: readonly string[]
  /** How many rows of the table the state is without, for those marks. */
  readonly leftOut?: number
  /** Names of the columns that the product uses; absent: all. */
  readonly used?: readonly string[]
  /** Of its columns, against what the table had before; absent: nobody has looked. */
  readonly changes?: ColumnChanges
  /** Which rows of sources and products it is made of, by their names. */
  readonly restsOn?: Readonly<Record<string, string>>
  /** Of the connection that it is read from. */
  readonly connectionId?: string
  /** The columns that its contract holds it to. */
  readonly shape?: readonly HeldColumn[]
  /** What the contract asks of the table as it is; absent: nothing. */
  readonly terms?: ContractTerms
  /** What that came to. */
  readonly held?: Held
  /** Of a product. */
  readonly upstream?: { readonly productId: string; readonly epoch: number }
}

/** What the contract of an input has done to it. */
export interface Held {
  /** In words, without values; numbers of rows in steps. */
  readonly notes: readonly string[]
  /** The first rows that are put aside. */
  readonly aside: readonly AsideRow[]
  /** Whether files of its own stand in place of those of the table. */
  readonly isWritten: boolean
}

/** A row that the product is made without. */
export interface AsideRow {
  readonly column: string
  readonly reason: string
  /** Texts by column of the raw table's key; null where it has none. */
  readonly key: Readonly<Record<string, string | null>> | null
  /** Its values as JSON, cut. */
  readonly raw: string | null
}
