import type { EngineRun, EngineTable, InspectOutput } from '@sluice/engine'
import type { TenantCall } from '../../flow.ts'
import type { DeployDeps } from './deps.ts'

/** Of jobs that read no row. */
export const CHECK_LIMITS = { memoryBytes: 256 * 1024 * 1024, timeoutMs: 20_000, threads: 1 } as const

/** An author's text bound to tables, of which nothing is read. Throws what the engine does. */
export function bind(
  platform: DeployDeps,
  call: TenantCall,
  output: InspectOutput,
  tables: readonly EngineTable[],
): Promise<EngineRun> {
  return platform.engine.run(
    { trust: 'tenant', tenant: call.tenant, tables, output, limits: CHECK_LIMITS },
    call.signal,
  )
}
