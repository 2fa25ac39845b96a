import type { Engine } from '@sluice/engine'
import type { CpuAccounts } from '../../registry/cpu-accounts.ts'
import type { ProductsDeps } from '../products/deps.ts'
import type { TenantTurns } from './tenant-turns.ts'

/** What the operations of `deploy` work with, and those that they call. */
export interface DeployDeps extends ProductsDeps {
  readonly engine: Engine
  readonly cpu: Pick<CpuAccounts, 'refuseSpent'>
  /** Counts of rows for plans: one of a tenant at a time. */
  readonly counts: TenantTurns
  /** For files that no job needs after it has ended. */
  readonly scratchDirectory: string
}
