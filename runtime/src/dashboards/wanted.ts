import type { OutputColumn } from '../manifest/manifest-set.ts'
import type { Subject } from './names.ts'

/** What the dashboard server is to have of a product: by today's manifests, grants and classes. */
export interface WantedDashboards {
  readonly productId: string
  readonly tenant: string
  readonly domain: string
  readonly product: string
  readonly description: string
  /** The type of the endpoint whose rows are shown. */
  readonly endpoint: string
  /** Whether former states of rows are kept beside the current ones, which `is_current` tells. */
  readonly hasHistory: boolean
  /** Null: a dataset, and no dashboard. */
  readonly template: string | null
  /** How long answers may be kept, and how often dashboards renew themselves; null: as the server is set. */
  readonly refreshIntervalMs: number | null
  readonly columns: readonly OutputColumn[]
  /** Those that somebody may read. */
  readonly variants: readonly WantedVariant[]
  /** Somebody may read what is not in the store yet. */
  readonly isIncomplete: boolean
}

export interface WantedVariant {
  readonly variant: string
  /** By which name the store has it now, where that is another one. */
  readonly storedAs?: string
  readonly subjects: readonly Subject[]
}
