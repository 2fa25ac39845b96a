import type { Engine } from '@sluice/engine'
import type { ProductsDeps } from '../products/deps.ts'

/** What the operations of `deploy` work with, and those that they call. */
export interface DeployDeps extends ProductsDeps {
  readonly engine: Engine
  /** For files that no job needs after it has ended. */
  readonly scratchDirectory: string
}
