import type { ManifestSet } from '../../manifest/manifest-set.ts'
import type { GrantSubject } from '../../registry/grants.ts'
import type { Product } from '../../registry/products.ts'
import type { FollowedProduct } from '../../registry/schedule-follows.ts'
import type { Readership } from '../rights/grant-rights.ts'
import type { ColumnOrigin } from './column-classes.ts'
import type { JudgedColumns } from './judged-columns.ts'
import type { DeployPlan } from './plan.ts'
import type { Reach } from './raised-classes.ts'
import type { Sources } from './sources.ts'
import type { Upstreams } from './upstreams.ts'

/** A version that may take the place of the one in service. */
export interface Checked {
  readonly product: Product
  readonly texts: Readonly<Record<string, string>>
  readonly manifests: ManifestSet
  /** The same as the version keeps them: with what is decided when it is deployed, or was when it was deployed first. */
  readonly meant: ManifestSet
  readonly live: ManifestSet | null
  readonly sources: Sources['tables']
  readonly origins: readonly ColumnOrigin[] | null
  readonly plan: DeployPlan
  /** Whom the first version lets read. */
  readonly readers: readonly GrantSubject[]
  readonly readership: Readership
  /** Columns whose class this version lowers, for the audit log. */
  readonly lowered: readonly string[]
  readonly judged: JudgedColumns
  /** What the classes that it gives reach in other products. */
  readonly reach: Reach
  /** The products that its schedule waits for. */
  readonly followed: readonly FollowedProduct[]
  /** The products that it is made of. */
  readonly upstreams: Upstreams
}
