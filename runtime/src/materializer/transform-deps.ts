import type { Engine, EngineLimits } from '@sluice/engine'
import type { Compute } from '@sluice/sdk'

/** What a transform works with, and what it may take. */
export interface TransformDeps {
  readonly tenant: string
  readonly engine: Pick<Engine, 'run'>
  /** Null where no engine outside is configured. */
  readonly distributed: Compute | null
  /** Of the author's SQL. */
  readonly limits: EngineLimits
  /** Of our own statements, which may spill. */
  readonly ownLimits: EngineLimits
  /** A folder of this materialization alone. */
  readonly directory: string
  readonly signal: AbortSignal
  /** Of a sample: no more rows of an input than so many, of those that its `where` lets through. Absent: all. */
  readonly mostInputRows?: number
}
