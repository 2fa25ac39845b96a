import type { Lake } from '@sluice/iceberg'
import type pg from 'pg'
import type { EventFeed } from '../../events/feed.ts'
import type { ChangeSpools } from '../../materializer/change-spools.ts'
import type { MaskingRules } from '../../policy/masking.ts'
import type { ServedProducts } from '../served/served-products.ts'

/** What the operations of `changes` work with. */
export interface ChangesDeps {
  readonly pool: pg.Pool
  readonly lake: Lake
  readonly rules: MaskingRules
  readonly events: EventFeed
  readonly served: ServedProducts
  readonly changeSpools: ChangeSpools
}
