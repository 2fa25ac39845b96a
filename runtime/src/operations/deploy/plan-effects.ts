/** What a version does to rows, readers and stores: what a plan counts and judges beyond what a deployment has to. */
import { isSluiceError } from '@sluice/sdk'
import type { TenantCall } from '../../flow.ts'
import { keepsMissing, type ManifestSet } from '../../manifest/manifest-set.ts'
import type { GrantSubject } from '../../registry/grants.ts'
import { NO_PRODUCT, type ServedProduct } from '../served/served-product.ts'
import type { DeployDeps } from './deps.ts'
import { planAccess } from './group-columns.ts'
import type { DeployPlan, StorePlan } from './plan.ts'
import { estimateRows, planCost } from './plan-cost.ts'
import { planRows, type RowsAsked, rowSight } from './plan-rows.ts'

export type PlanEffects = Pick<DeployPlan, 'estimatedRows' | 'estimatedFrom' | 'rows' | 'access' | 'cost'>

export interface EffectsAsked extends Omit<RowsAsked, 'sight'> {
  readonly readers: readonly GrantSubject[]
  readonly stores: readonly StorePlan[]
  /** `sourceRows` */
  readonly sourceRows: number | null
  /** Whether all of it is told: of a deployment no more is counted than its notes say. */
  readonly isPlan: boolean
}

export async function planEffects(platform: DeployDeps, call: TenantCall, asked: EffectsAsked): Promise<PlanEffects> {
  const { product, live, next, readers, stores, sourceRows, isPlan } = asked
  if (!isPlan && !stopsKeeping(live, next)) {
    const from = sourceRows === null ? null : 'source'
    return { estimatedRows: sourceRows, estimatedFrom: from, rows: null, access: null, cost: null }
  }
  const served = await servedNow(platform, call, product.id)
  const sight = await rowSight(platform, call, served)
  const rows = await planRows(platform, { ...asked, sight }, call.signal)
  const estimate = await estimateRows(platform, product, rows, sourceRows, sight)
  const told = { estimatedRows: estimate.rows, estimatedFrom: estimate.from, rows }
  if (!isPlan) return { ...told, access: null, cost: null }
  const access = planAccess({ product, live, next, readers, served }, platform.rules)
  const grants = served?.grants ?? []
  const cost = await planCost(platform, { product, next, grants, stores, rows: estimate.rows, sight }, call.signal)
  return { ...told, access, cost }
}

/** Whether rows leave by it that the versions before have kept. */
export function stopsKeeping(live: ManifestSet | null, next: ManifestSet): boolean {
  return live !== null && keepsMissing(live.output) && !keepsMissing(next.output)
}

/** Null: it is not registered. */
async function servedNow({ served }: DeployDeps, { tenant }: TenantCall, id: string): Promise<ServedProduct | null> {
  try {
    return await served.find(tenant, id)
  } catch (error) {
    if (isSluiceError(error) && error.code === NO_PRODUCT.code) return null
    throw error
  }
}
