import type { DeclaredOperation } from './declared-operation.ts'
import type { FilterOperator, ReadOperation } from './read-plan.ts'
import type { LogicalTypeName } from './schema.ts'

/** `current` = latest state, `type_2` = rows with valid_from/valid_to/is_current, `type_3` = previous_<column>. */
export type HistoryMode = 'current' | 'type_2' | 'type_3'

/**
 * What a store can do, as a table: absent means it cannot, and using it throws UNSUPPORTED without effect. The
 * runtime switches on only what stands here; the conformance suite proves each line in both directions.
 */
export interface Capabilities {
  /**
   * `atomic`: a write is visible wholly or not at all. `per-key`: keys switch one by one, the epoch last, and an
   * older writer is refused key by key. `lake`: the store keeps no rows and reads the lake's files.
   */
  readonly commit: 'atomic' | 'per-key' | 'lake'
  /** Of a store that reads the lake's files: it passes over rows that `LakeSnapshot.deletes` names. Default: it does not know of them. */
  readonly lakeDeletes?: boolean
  readonly operations: readonly ReadOperation[]
  readonly filters: readonly FilterOperator[]
  /** Ways to read of its own, by name (`OPERATION_NAME`, and none of `operations`). */
  readonly declared?: Readonly<Record<string, DeclaredOperation>>
  readonly histories?: readonly HistoryMode[]
  /** Rows expire; how exactly, in milliseconds. */
  readonly ttl?: { readonly granularityMs: number }
  readonly recover?: true
  readonly validate?: true
  /** @deprecated With the hook: see `ServingStore.activate`. */
  readonly activate?: true
  readonly digest?: true
  /** A read with encoding json yields JSON batches. */
  readonly jsonBatches?: true
  /**
   * SQL over the lake's files (analytics).
   *
   * @deprecated With the hook: see `ServingStore.query`.
   */
  readonly query?: true
  /** How each logical type survives: exact, lossy (reported), or rejected. */
  readonly types: Readonly<Record<LogicalTypeName, 'exact' | 'lossy' | 'rejected'>>
  readonly limits: {
    readonly maxReadRows: number
    /** Bytes of one row as JSON. */
    readonly maxRowBytes: number
    /** Bytes of a key, where the store has such a limit. */
    readonly maxKeyBytes?: number
    /**
     * What the names of tenants, domains and products must match, where the store cannot hold every name: a regular
     * expression (Unicode, of the whole name), such as `[a-z0-9_-]{1,200}`. It takes the names that the platform
     * gives out, `[a-z][a-z0-9_]*` up to 63 characters. Others are refused by provision: see `checkNames`.
     */
    readonly namePattern?: string
  }
}

/** Every type exactly: the usual case. */
export const EXACT_TYPES: Capabilities['types'] = {
  string: 'exact',
  boolean: 'exact',
  integer: 'exact',
  long: 'exact',
  float: 'exact',
  double: 'exact',
  decimal: 'exact',
  date: 'exact',
  timestamp: 'exact',
  timestamptz: 'exact',
  uuid: 'exact',
  binary: 'exact',
  json: 'exact',
}
