import type pg from 'pg'
import type { NamingIssuer } from '../../policy/identity.ts'
import type { ServedProducts } from '../served/served-products.ts'

/** What the operations of `rights` work with. */
export interface RightsDeps {
  readonly pool: pg.Pool
  /** All that are trusted. */
  readonly issuers: readonly NamingIssuer[]
  readonly served: ServedProducts
}
