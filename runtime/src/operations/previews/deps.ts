import type { CpuAccounts } from '../../registry/cpu-accounts.ts'
import type { DeployDeps } from '../deploy/deps.ts'

/** What the operations of `previews` work with, and those that they call. */
export interface PreviewsDeps extends DeployDeps {
  /** Whose work uses the processors. */
  readonly cpu: CpuAccounts
}
