import type { TenantsDeps } from '../tenants/deps.ts'

/** What the operations of `upkeep` work with, and those that they call. */
export type UpkeepDeps = TenantsDeps
