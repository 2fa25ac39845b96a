import type { Engine } from '@sluice/engine'
import type { QueryEngine } from '../../compute/query-engine.ts'
import type { CpuAccounts } from '../../registry/cpu-accounts.ts'
import type { ProductsDeps } from '../products/deps.ts'

/** What the operations of `queries` work with, and those that they call. */
export interface QueriesDeps extends ProductsDeps {
  readonly engine: Engine
  /** Whose work uses the processors. */
  readonly cpu: CpuAccounts
  /** Null where the embedded engine answers queries. */
  readonly distributedQueries: QueryEngine | null
}
