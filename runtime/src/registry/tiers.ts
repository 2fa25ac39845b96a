export const TIERS = ['free', 'standard', 'enterprise'] as const

export type Tier = (typeof TIERS)[number]

/** Null: without limit. */
export interface TierLimits {
  readonly products: number | null
  readonly connections: number | null
  readonly concurrentExecutions: number
  readonly storageBytes: number
}

const GB = 1_000_000_000

export const TIER_LIMITS: Readonly<Record<Tier, TierLimits>> = {
  free: { products: 5, connections: 3, concurrentExecutions: 2, storageBytes: 10 * GB },
  standard: { products: 50, connections: 20, concurrentExecutions: 5, storageBytes: 100 * GB },
  enterprise: { products: null, connections: null, concurrentExecutions: 20, storageBytes: 1000 * GB },
}
