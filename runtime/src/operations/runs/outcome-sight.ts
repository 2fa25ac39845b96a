/**
 * What a caller may know of what runs made of products: by the classes of today. A run has kept it by those of its own time,
 * and a class that was raised since hides what depends on the column in old runs, too.
 */
import type { TenantCall } from '../../flow.ts'
import type { ProductOutcome } from '../../ingestion/product-outcome.ts'
import { findMaterialization } from '../../registry/materializations.ts'
import type { Platform } from '../platform.ts'
import { clearColumns } from '../products/clear-columns.ts'
import { type KeptQuality, seesAside, seesEverything, sightOf } from '../products/visible-quality.ts'

export interface OutcomeSight {
  /** Of which columns of a product anything may be told that depends on single values. */
  clearColumns(productId: string): Promise<(column: string) => boolean>
  /** Whether it may be told how many rows checks have put aside. */
  seesAside(outcome: Pick<ProductOutcome, 'id' | 'materialization_id'>): Promise<boolean>
}

/** Of products that the caller may hear of; each is looked at once. */
export function outcomeSight(platform: Platform, call: TenantCall): OutcomeSight {
  if (call.principal.isAdmin) return { clearColumns: async () => () => true, seesAside: async () => true }
  const columns = once((id) => clearColumns(platform, call, id))
  const sights = once((id) => sightOf(platform, call, id))
  return {
    clearColumns: columns,
    async seesAside({ id, materialization_id: materialization }) {
      const sight = await sights(id)
      if (materialization === null || seesEverything(sight)) return true
      const kept = await findMaterialization(platform.pool, call.tenant, materialization)
      return kept !== null && seesAside(sight, (kept.quality ?? { checks: [] }) as KeptQuality)
    },
  }
}

function once<T>(load: (id: string) => Promise<T>): (id: string) => Promise<T> {
  const known = new Map<string, Promise<T>>()
  return (id) => {
    const loading = known.get(id) ?? load(id)
    known.set(id, loading)
    return loading
  }
}
