/** An engine outside of the runtime that answers readers, by the name that answers and metrics have it under. */
import type { Compute } from '@sluice/sdk'

export interface QueryEngine {
  readonly name: string
  readonly query: NonNullable<Compute['query']>
}
