import type { Compute } from '@sluice/sdk'
import type { ShowingServer } from '../../dashboards/driver.ts'
import type { ManifestParsing } from '../../manifest/parsing.ts'
import type { MaskingRules } from '../../policy/masking.ts'
import type { ConnectionsDeps } from '../connections/deps.ts'
import type { RightsDeps } from '../rights/deps.ts'

/** What the operations of `products` work with, and those that they call. */
export interface ProductsDeps extends ConnectionsDeps, RightsDeps {
  /** Null where no engine outside is configured for transforms. */
  readonly distributed: Compute | null
  readonly rules: MaskingRules
  readonly parsing: ManifestParsing
  /** Null where there is no dashboard server. */
  readonly dashboards: ShowingServer | null
}
