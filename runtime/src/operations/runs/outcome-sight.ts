/**
 * What a caller may know of what runs made of products: by the classes of today. A run has kept it by those of its own time,
 * and a class that was raised since hides what depends on the column in old runs, too.
 */
import type { TenantCall } from '../../flow.ts'
import { materializationsOfRun } from '../../registry/materializations.ts'
import { clearColumns } from '../products/clear-columns.ts'
import {
  blockedText,
  grantedSight,
  hiddenRawColumns,
  type KeptQuality,
  mayReadInputs,
  seesAside,
  seesEverything,
} from '../products/visible-quality.ts'
import type { RunsDeps } from './deps.ts'

export interface OutcomeSight {
  /** Of which columns of a product anything may be told that depends on single values. */
  clearColumns(productId: string): Promise<(column: string) => boolean>
  /** Whether it may be told how many rows checks have put aside in that run. */
  seesAside(runId: string, productId: string): Promise<boolean>
  /** Why checks let nothing of the product be published in that run, without those that he does not see; null: as it was told. */
  blockedText(runId: string, productId: string): Promise<string | null>
}

const SEES_ALL: OutcomeSight = {
  clearColumns: async () => () => true,
  seesAside: async () => true,
  blockedText: async () => null,
}

/** Of products that the caller may hear of; each is looked at once. */
export function outcomeSight(platform: RunsDeps, call: TenantCall): OutcomeSight {
  if (call.principal.isAdmin) return SEES_ALL
  const { pool, rules } = platform
  const hidden = once((tenant) => hiddenRawColumns(pool, tenant, rules))
  const granted = once(async (id) => grantedSight(platform, call, id, await hidden(call.tenant)))
  const readsInputs = once((id) => mayReadInputs(platform, call, id))
  const made = once((runId) => materializationsOfRun(pool, call.tenant, runId))
  const checkedIn = async (runId: string, productId: string) => {
    const found = (await made(runId)).find((one) => one.productId === productId)
    return found && { state: found.state, kept: (found.quality ?? { checks: [] }) as KeptQuality }
  }
  return {
    clearColumns: once((id) => clearColumns(platform, call, id)),
    async seesAside(runId, productId) {
      const checked = await checkedIn(runId, productId)
      // No check could put a row aside, so there is nothing to hide, whatever the tenant's other products hide.
      if (checked?.kept.checks.every(({ onError }) => onError !== 'quarantine')) return true
      const sight = await granted(productId)
      if (seesEverything(sight)) return true
      return (checked !== undefined && seesAside(sight, checked.kept)) || (await readsInputs(productId))
    },
    async blockedText(runId, productId) {
      const sight = await granted(productId)
      if (seesEverything(sight)) return null
      const checked = await checkedIn(runId, productId)
      const text = blockedText(sight, checked?.state === 'blocked' ? checked.kept : undefined)
      return text === null || (await readsInputs(productId)) ? null : text
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
