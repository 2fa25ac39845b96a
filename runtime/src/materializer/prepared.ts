/** What is asked of a materialization up to its commit, and what it comes to. */
import type { SnapshotId, StagedCommit, TableState } from '@sluice/iceberg'
import type { CheckResult } from '../quality/check-result.ts'
import type { Learned } from '../quality/teaching.ts'
import type { MergeableRequest } from './changed-rows.ts'
import type { ErasedKey } from './erased-key.ts'
import type { InputState } from './input-state.ts'
import type { Checked } from './run-checks.ts'
import type { ViolationsByVariant } from './violating-rows.ts'

export interface PrepareRequest extends MergeableRequest {
  readonly version: string
  readonly runId: string
  readonly epoch: number
  /** As of `MaterializeRequest`. */
  readonly erased?: { readonly key: ErasedKey | null }
  /** Of anomaly checks. Absent: nothing is known yet. */
  readonly learned?: Learned
  /** Which snapshots leave the history of a table with its next commit. Absent: none. */
  expiredOf?(base: TableState | null): Promise<readonly SnapshotId[]>
}

export interface Prepared {
  readonly commits: readonly StagedCommit[]
  /** Snapshot ids by variant. */
  readonly snapshots: Readonly<Record<string, string>>
  readonly rowCount: number
  readonly quarantined: number
  /** Values that lost something by the cast to their column's type, by column. */
  readonly lost: Readonly<Record<string, number>>
  readonly checks: readonly CheckResult[]
  readonly violations: ViolationsByVariant
  /** How the values of columns lie, of which anomaly checks learn. */
  readonly profiles: Checked['profiles']
  /** Without the rows that the product does without. */
  readonly inputs: readonly InputState[]
}
