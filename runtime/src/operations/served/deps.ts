import type pg from 'pg'
import type { MaskingRules } from '../../policy/masking.ts'
import type { ServedProducts } from './served-products.ts'

/** What the operations of `served` work with. */
export interface ServedDeps {
  readonly pool: pg.Pool
  readonly rules: MaskingRules
  readonly served: ServedProducts
}
