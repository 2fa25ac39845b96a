import type { ReachableFiles } from '@sluice/iceberg'
import type { LentAccess } from '@sluice/sdk'
import type { Sandbox } from '../../catalog/sandbox.ts'
import type { CpuAccounts } from '../../registry/cpu-accounts.ts'
import type { TenantsDeps } from '../tenants/deps.ts'

/** What the operations of `catalog` work with, and those that they call. */
export interface CatalogDeps extends TenantsDeps {
  readonly sandbox: Sandbox
  readonly reachable: ReachableFiles
  /** Null where no requests to the object store are signed for clients. */
  readonly lentAccess: LentAccess | null
  /** Whose work uses the processors. */
  readonly cpu: CpuAccounts
}
