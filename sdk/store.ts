/**
 * The contract of a serving store.
 *
 * Glossary: a *product* is a table that a tenant declares; its *domain* is the namespace it stands in. A *dataset* is
 * one variant of a product (clear, or a masked twin). An *endpoint* serves a product through one type of store. A
 * *target* is a dataset at an endpoint: what every hook is about. An *epoch* numbers the product's materializations.
 */
import type { ReadBatch } from './batch.ts'
import type { AppliedEpoch, ChangeSet, Commit, Receipt } from './change-set.ts'
import type { OperationPlan } from './declared-operation.ts'
import type { LakeQuery, LakeQueryResult } from './host.ts'
import type { InstalledPolicy, RowPolicy } from './policy.ts'
import type { ReadPlan } from './read-plan.ts'
import type { Column, TableSchema } from './schema.ts'
import type { TenantScope, Variant } from './scope.ts'

export interface Target<Config = unknown> {
  readonly scope: TenantScope
  readonly domain: string
  readonly product: string
  readonly variant: Variant
  readonly schema: TableSchema
  /** The endpoint's `config` of serving.yaml, after the plugin's own schema has checked it. */
  readonly config: Config
}

/** One thing that `provision` or `drop` would do or has done, in words, with the statement where there is one. */
export interface PlanStep {
  readonly action: 'create' | 'alter' | 'replace' | 'drop' | 'policy'
  readonly description: string
  readonly statement?: string
}

/** `hash` is of the steps: what was planned can be compared with what is applied. */
export interface Plan {
  readonly steps: readonly PlanStep[]
  readonly hash: string
}

export type ColumnVerdict = 'required' | 'optional' | 'forbidden' | 'unsatisfiable'

export interface SchemaVerdict {
  readonly column: Column
  readonly verdict: ColumnVerdict
  /** Never empty. */
  readonly reason: string
}

export interface ProbeReport {
  readonly ok: boolean
  readonly checks: readonly { readonly name: string; readonly ok: boolean; readonly message: string }[]
}

export interface Health {
  readonly status: 'ok' | 'degraded' | 'down'
  readonly message?: string
}

/** Equal content gives equal digests, in whatever order it was written. */
export interface Digest {
  readonly rowCount: number
  readonly sha256: string
}

/**
 * What a plugin implements. Every call may be repeated after any failure; none may leave a state from which a repeat
 * does not reach the end state of an undisturbed run. All throw SluiceError only.
 */
export interface ServingStore<Config = unknown> {
  /**
   * Makes the place for a target: schema, table, indexes; with row security before any row. `plan` changes nothing;
   * `apply` is idempotent, and a plan after it is empty. Keeps rows when the schema grows compatibly; throws CONFLICT
   * `schema_conflict` where it cannot. With `expectedHash` it does what that plan says, or throws CONFLICT `stale_plan`:
   * of a version that was deployed the runtime asks for what its plan has shown.
   */
  provision(target: Target<Config>, mode: 'plan' | 'apply', expectedHash?: string): Promise<Plan>

  readonly rls: {
    /** Idempotent. After it no path shows a row of another tenant. */
    install(target: Target<Config>, policy: RowPolicy): Promise<void>
    /**
     * What is in place, read from the store itself; throws CONFLICT `policy_missing` where nothing is. A copy whose rows
     * no policy guards is made anew.
     */
    describe(target: Target<Config>): Promise<InstalledPolicy>
  }

  /**
   * Brings the target to `commit.epoch`, by its declared commit class. The same epoch again is `already_applied`
   * and changes nothing, whatever the change set holds. Throws FENCED `stale_fence` for a token below one it has
   * seen, whatever became of the write that brought it (one whose epoch was refused counts too), CONFLICT `epoch_gap` where `previousEpoch` is not what it has (the runtime then sends a full set), and
   * CONFLICT `older_epoch` for an epoch below the applied one.
   */
  write(target: Target<Config>, changes: ChangeSet, commit: Commit): Promise<Receipt>

  /**
   * The rows of the plan, at one epoch, as one or more batches; an empty answer is one empty batch, so that its
   * epoch is known. Without a policy there are no rows. Throws TRANSIENT `not_materialized` before the first write, and
   * where nothing was provisioned or all was dropped: by that code, and by none other, a copy that was emptied is found.
   */
  read(target: Target<Config>, plan: ReadPlan): AsyncIterable<ReadBatch>

  /**
   * The rows of an operation that the plugin declares, under everything that is said of `read`. Rows are of the dataset,
   * each at most once. What it gives may hang on rows of this target alone, on no row of another tenant or variant.
   */
  operate?(target: Target<Config>, plan: OperationPlan): AsyncIterable<ReadBatch>

  /** What the store last committed for the target; null where nothing. Declared as `recover`. */
  recover?(target: Target<Config>): Promise<AppliedEpoch | null>

  /** Judges a schema against what is there without changing it: the plan of a deployment shows it. Declared as `validate`. */
  validate?(target: Target<Config>, previous: TableSchema | null): Promise<readonly SchemaVerdict[]>

  /**
   * Serves another epoch that the store still keeps, in one step. Declared as `activate`.
   *
   * @deprecated No runtime calls it: a rollback is a new epoch, which is written. It goes with SDK 2.0.
   */
  activate?(target: Target<Config>, epoch: number): Promise<void>

  /**
   * Of the current content. The runtime asks for it from time to time: where it is another at the same epoch, or counts
   * other rows than the lake has, the copy is dropped and written anew. Declared as `digest`.
   */
  digest?(target: Target<Config>, signal: AbortSignal): Promise<Digest>

  /**
   * SQL over the datasets' lake files. Declared as `query`.
   *
   * @deprecated No runtime calls it: tenants' statements run in the runtime's engine, or in one outside. It goes with SDK 2.0.
   */
  query?(scope: TenantScope, query: LakeQuery): Promise<LakeQueryResult>

  /** Removes the target and nothing else; of what is not there the plan is empty. */
  drop(target: Target<Config>, mode: 'plan' | 'apply'): Promise<Plan>

  /** Removes all that the store keeps of a tenant. Idempotent. */
  dropTenant(scope: TenantScope): Promise<void>

  /** Asks the store; at start and on demand. Not ok where its login could bypass row security. */
  probe(signal: AbortSignal): Promise<ProbeReport>

  /** What the last calls showed; does no I/O. */
  health(): Health

  /** Ends running writes cleanly, releases every handle; a second call does nothing. */
  close(): Promise<void>
}
