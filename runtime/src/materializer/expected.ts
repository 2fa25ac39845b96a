/** What products downstream expect of the rows of an epoch, and how those have met it. */
import type { Expectation, Input } from '../manifest/manifest-set.ts'
import type { CheckResult } from '../quality/check-result.ts'
import type { UpstreamAccess } from './inputs.ts'

export interface Expected {
  readonly expecting: readonly ExpectingInput[]
  readonly results: readonly CheckResult[]
}

/** An input of a product in service that is made of this one, with what that expects of it. */
export interface ExpectingInput {
  readonly productId: string
  /** `namespace.name` */
  readonly product: string
  readonly owner: string | null
  readonly input: Input
  /** As it is shown to whoever deployed that product, by his rights of today. */
  readonly access: UpstreamAccess
  readonly expectations: readonly Expectation[]
}
