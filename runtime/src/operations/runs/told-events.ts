/** Which events a caller is told of. */
import type { TenantCall } from '../../flow.ts'
import { isId } from '../../registry/ids.ts'
import { findRun } from '../../registry/runs.ts'
import { hearsOf, productReader } from '../products/readable-product.ts'
import type { RunsDeps } from './deps.ts'

/** What happened to a product is for its readers; so is the end of a run that makes nothing else. */
export async function isTold(platform: RunsDeps, call: TenantCall, subject: string, type: string): Promise<boolean> {
  if (call.principal.isAdmin) return true
  if (isId(subject, 'prd')) return hearsOf(platform, call, subject, type)
  if (!isId(subject, 'run')) return true
  const run = await findRun(platform.pool, call.tenant, subject)
  // Events outlive some runs: whose a run was that is gone, nobody can tell.
  if (run === null) return false
  return run.productId === null || productReader(platform, call)(run.productId)
}
