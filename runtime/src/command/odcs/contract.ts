/**
 * Contracts as the Open Data Contract Standard has them (version 3.1), as far as products can keep them or have something
 * to say in them: https://bitol-io.github.io/open-data-contract-standard/v3.1.0/
 */

export const API_VERSION = 'v3.1.0'

export interface ContractRule {
  readonly name?: string
  readonly description?: string
  readonly dimension?: string
  readonly severity?: string
  readonly type?: string
  readonly metric?: string
  readonly arguments?: Readonly<Record<string, unknown>>
  readonly unit?: string
  readonly mustBe?: number
  readonly mustBeLessOrEqualTo?: number
  readonly mustBeGreaterOrEqualTo?: number
  readonly mustBeBetween?: readonly number[]
  readonly engine?: string
  readonly implementation?: unknown
  readonly customProperties?: readonly CustomProperty[]
}

/** What a product has and the standard has no word for. */
export interface CustomProperty {
  readonly property: string
  readonly value: unknown
}

export interface ContractProperty {
  readonly name: string
  readonly physicalType: string
  readonly logicalType?: string
  readonly logicalTypeOptions?: Readonly<Record<string, unknown>>
  readonly description?: string
  readonly primaryKey?: boolean
  readonly primaryKeyPosition?: number
  readonly required?: boolean
  readonly classification?: string
  readonly partitioned?: boolean
  readonly partitionKeyPosition?: number
  readonly quality?: readonly ContractRule[]
  readonly customProperties?: readonly CustomProperty[]
}

/** Names of custom properties of products; those of others are passed over and told. */
export const OWN = {
  archetype: 'sluiceArchetype',
  classification: 'sluiceClassification',
  endpoints: 'sluiceEndpoints',
  role: 'sluiceRole',
  partition: 'sluicePartition',
  weight: 'sluiceWeight',
  onError: 'sluiceOnError',
} as const

/** The server of contracts that products keep. */
export const OWN_SERVER = 'sluice'

/** The engine of rules that the standard's library has no metric for. */
export const OWN_ENGINE = 'sluice'

/** Dimensions, ours to theirs. The others are the same. */
export const DIMENSION_OF: Readonly<Record<string, string>> = { validity: 'conformity' }
