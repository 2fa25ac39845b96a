import type { TenantCall } from '../../flow.ts'
import type { QueriesDeps } from '../../operations/queries/deps.ts'
import type { AskedTypes } from '../catalogue/asked-types.ts'
import type { CatalogueServer } from '../catalogue/catalogue-server.ts'
import type { SessionView } from '../catalogue/own-views.ts'
import type { Format, ParameterValue } from '../protocol/client-messages.ts'
import type { RowBatch } from '../protocol/row-batch.ts'
import type { WireColumn } from '../protocol/server-messages.ts'
import type { Snapshot } from './snapshot.ts'

export interface RowPlan {
  /** What a client is told before it binds anything. */
  describe(
    call: TenantCall,
  ): Promise<{ readonly parameterOids: readonly number[]; readonly columns: readonly WireColumn[] }>
  open(call: TenantCall, bound: Bound): Promise<OpenRows>
  /** How its end is told. */
  tag(rows: number): string
}

export interface Bound {
  readonly values: readonly ParameterValue[]
  readonly formats: readonly Format[]
  /** Milliseconds; undefined: as long as the configuration allows. */
  readonly timeoutMs: number | undefined
}

export interface OpenRows {
  readonly columns: readonly WireColumn[]
  /** Read once. */
  readonly rows: AsyncIterable<RowBatch>
  /** Of rows that are in memory before they are read. */
  readonly heldBytes: number
}

export interface PlanParts {
  readonly platform: QueriesDeps
  readonly catalogue: CatalogueServer
  readonly types: AskedTypes
}

/** What statements ask of their session, and do to it. */
export interface PlanSession extends SessionView {
  /** As SET does. */
  set(name: string, value: string, isLocal: boolean): void
  /** Null: all namespaces. */
  searchPath(): string | null
  /** Asked by each statement that reads; null: it reads what there is when it begins. */
  reads(): Snapshot | null
  /** Its name, as the client knows it. */
  readonly database: string
}

export interface SessionPlanParts extends PlanParts {
  readonly session: PlanSession
}
