import type { Column, LogicalType, TableSchema } from '@sluice/sdk'
import type { ProductSchedule } from '../registry/schedules.ts'
import type { DELETE_MODES, INPUT_EPOCHS, INPUT_MODES, SCHEMA_CHANGE_MODES } from './files/inputs.ts'
import type { COLUMN_ROLES, WRITE_MODES } from './files/output.ts'
import type { ARCHETYPES, CLASSIFICATION_LEVELS } from './files/product.ts'
import type {
  COMPARED_METRICS,
  DIMENSIONS,
  DOWNSTREAM_EXPECTATIONS,
  METRICS,
  ON_ERROR,
  SENSITIVITIES,
  SEVERITIES,
} from './files/quality.ts'
import type { ContractKind, ContractWord } from './files/schema-contract.ts'
import type { JsonObject } from './problem.ts'

/**
 * The six manifests as one value: checked, every default filled in, units in the names. It is plain JSON (no bigint,
 * no undefined), so that it can be stored and compared as it is.
 */
export interface ManifestSet {
  readonly product: ProductManifest
  readonly inputs: readonly Input[]
  readonly output: OutputManifest
  readonly quality: QualityManifest
  readonly serving: ServingManifest
  readonly compute: ComputeManifest
  /** SHA-256 of everything above, in hex: equal for manifests that say the same in other words. */
  readonly digest: string
}

export type Archetype = (typeof ARCHETYPES)[number]
export type ClassificationLevel = (typeof CLASSIFICATION_LEVELS)[number]

export interface ProductManifest {
  readonly name: string
  readonly domain: string
  readonly archetype: Archetype
  readonly description: string
  readonly classification: ClassificationLevel
  readonly owner: { readonly team: string | null; readonly email: string | null }
  readonly tags: readonly string[]
  /** Granted at the first deploy; later grants are made through the API. */
  readonly access: { readonly teams: readonly string[]; readonly users: readonly string[] }
  readonly slo: { readonly freshnessMs: number | null; readonly availabilityPercent: number | null }
}

export type DeleteMode = (typeof DELETE_MODES)[number]
export type SchemaChangeMode = (typeof SCHEMA_CHANGE_MODES)[number]

export interface Input {
  /** The alias. */
  readonly name: string
  /** `PRODUCTS` of an input that is a product. */
  readonly connection: string
  /** As written: `name` or `schema.name`; of a product `namespace.name`. */
  readonly table: string
  /**
   * `auto`: nobody has written one, and the log of the source was not taken when the version was deployed. Incremental where the
   * source has a safe cursor, else full; decided when the source is read.
   */
  readonly mode: (typeof INPUT_MODES)[number] | 'auto'
  /** The mode `cdc` was not written: it was taken when the version was deployed. Never of manifests that are not deployed. */
  readonly isChosen?: true
  /** Null: what the source suggests. */
  readonly cursorColumn: string | null
  /** Empty: what the source declares. */
  readonly primaryKey: readonly string[]
  /** Null: all. */
  readonly columns: readonly string[] | null
  /** Tenant SQL, one boolean expression. */
  readonly where: string | null
  /** For each kind of change that `schemaContract` says nothing of. */
  readonly onSchemaChange: SchemaChangeMode
  readonly schemaContract?: Readonly<Partial<Record<ContractKind, ContractWord>>>
  /** Absent: of a version deployed before there was this choice. Rows that are gone stay, as they did then. */
  readonly deletes?: DeleteMode
  /** The file says so, though it is the default. */
  readonly saysDeletes?: true
  /** Why they may stay: with `unseen`, and with nothing else. */
  readonly deletesReason?: string
  /** Of a product, and of nothing else. */
  readonly epoch?: (typeof INPUT_EPOCHS)[number]
}

export type ColumnRole = (typeof COLUMN_ROLES)[number]

export interface OutputColumn extends Column {
  readonly role: ColumnRole
  readonly classification: string
  readonly description: string
}

export interface PartitionField {
  readonly column: string
  /** `identity`, `year`, `month`, `day`, `hour`, `bucket[N]` or `truncate[N]`. */
  readonly transform: string
}

export type WriteMode = (typeof WRITE_MODES)[number]

export interface OutputManifest {
  readonly format: 'iceberg'
  readonly columns: readonly OutputColumn[]
  /** The identity columns, in their order. */
  readonly primaryKey: readonly string[]
  readonly partitioning: readonly PartitionField[]
  readonly writeMode: WriteMode
  /**
   * Of a merge: whether keys that the output no longer has stay. Absent: of a version deployed before there was this
   * choice; they stay, as they did then.
   */
  readonly keepMissing?: boolean
  /** Columns whose values may lose something by the cast to their type. Absent: none. */
  readonly allowLossy?: readonly string[]
  /** `all`: every snapshot is kept. Absent: those too, unless the product is made as changes come: see `retentionOf`. */
  readonly retention?: SnapshotRetention | LadderRetention | 'all'
}

export interface LadderRetention {
  readonly ladder: SnapshotLadder
}

/** By the age of the snapshots that each step speaks of, youngest first. */
export type SnapshotLadder = readonly LadderStep[]

export interface LadderStep {
  /** Of snapshots up to this age; null, in the last step alone: of all that are older. */
  readonly forMs: number | null
  /** The newest of each span of that length stays; null: all do. */
  readonly everyMs: number | null
}

/** A snapshot goes when every bound that is there lets it go. */
export interface SnapshotRetention {
  /** Younger ones are kept; null: age keeps none. */
  readonly maxAgeMs: number | null
  /** So many of the newest are kept; null: their number keeps none. */
  readonly keepLast: number | null
}

export type Severity = (typeof SEVERITIES)[number]
export type Dimension = (typeof DIMENSIONS)[number]
export type OnError = (typeof ON_ERROR)[number]

/** A value as the author wrote it; its column's type says what it means. */
export type Scalar = string | number | boolean

export type Rule =
  | { readonly kind: 'sql'; readonly sql: string }
  | { readonly kind: 'not_null' | 'unique'; readonly columns: readonly string[] }
  | { readonly kind: 'accepted_values'; readonly column: string; readonly values: readonly Scalar[] }
  | {
      readonly kind: 'range'
      readonly column: string
      readonly min: Scalar | null
      readonly max: Scalar | null
      readonly exclusive: boolean
    }
  | { readonly kind: 'matches'; readonly column: string; readonly pattern: string }
  | {
      readonly kind: 'references'
      readonly columns: readonly string[]
      readonly input: string
      readonly inputColumns: readonly string[]
    }
  | { readonly kind: 'row_count'; readonly min: number | null; readonly max: number | null }
  | { readonly kind: 'freshness'; readonly column: string; readonly maxAgeMs: number }
  | {
      readonly kind: 'schema'
      /** Null: the product itself. */
      readonly input: string | null
      readonly columns: readonly string[]
      readonly exact: boolean
    }
  | AnomalyRule

export type Metric = (typeof METRICS)[number]
export type Sensitivity = (typeof SENSITIVITIES)[number]

/** Bounds that are learned from the last epochs. */
export interface AnomalyRule {
  readonly kind: 'anomaly'
  readonly metric: Metric
  /** Null of `row_count`, and of nothing else. */
  readonly column: string | null
  readonly sensitivity: Sensitivity
  /** In epochs. */
  readonly minHistory: number
  readonly window: number
  /** `YYYY-MM-DD`, UTC: earlier epochs teach nothing; null: all do. */
  readonly learnFrom: string | null
}

/** How many violations a check bears. */
export type Threshold = { readonly rows: number } | { readonly percent: number }

export interface Check {
  readonly name: string
  readonly description: string
  readonly severity: Severity
  readonly dimension: Dimension
  readonly weight: number
  readonly threshold: Threshold
  readonly onError: OnError
  readonly rule: Rule
  /** Of a check of another product: `namespace.name`. */
  readonly from?: string
}

/** Which checks of another product a product uses. */
export interface UsedChecks {
  /** `namespace.name` */
  readonly product: string
  readonly checks: readonly string[]
  /** Of that product, whose checks they are: part of no digest, for another one may have the same. Absent: not looked up, or not kept. */
  readonly version?: string
}

/** What a product has for others to use. */
export interface SharedChecks {
  readonly version?: string
  readonly checks: readonly Check[]
}

/** How many rows of a table may be left out: reading fails when both are exceeded. */
export interface RejectedLimit {
  readonly percent: number
  readonly rows: number
}

/** How much the first rows of a version may differ from those that are served: one measure, of the rows or of one column. */
export interface VersionBound {
  readonly metric: (typeof COMPARED_METRICS)[number]
  /** Null of the first three. */
  readonly column: string | null
  /** Of `null_share` percentage points. */
  readonly atMost: Threshold
}

/** What a product expects of an input that is a product. */
export interface Expectation extends Check {
  /** The input's alias. */
  readonly on: string
}

export type DownstreamExpectations = (typeof DOWNSTREAM_EXPECTATIONS)[number]

export interface QualityManifest {
  /** Its own, then those of other products. */
  readonly checks: readonly Check[]
  /** Absent: a new version may differ as it will. */
  readonly newVersion?: readonly VersionBound[]
  /** Absent: nothing. */
  readonly expectations?: readonly Expectation[]
  /** What those of products that are made of this one may do. Absent: `warn`. */
  readonly downstreamExpectations?: DownstreamExpectations
  /** Absent: none. */
  readonly uses?: readonly UsedChecks[]
  /** Absent: the runtime's default. */
  readonly maxRejected?: RejectedLimit
}

export interface Endpoint {
  readonly type: string
  readonly description: string
  /** As in serving.yaml, defaults filled in. */
  readonly config: JsonObject
}

export interface ServingManifest {
  readonly endpoints: readonly Endpoint[]
  readonly visualization: {
    readonly enabled: boolean
    readonly dashboardTemplate: string | null
    readonly refreshIntervalMs: number | null
  }
}

export interface ComputeManifest {
  readonly engine: 'auto' | 'embedded' | 'distributed'
  /** Tenant SQL, one SELECT; null where the single input is projected and cast. */
  readonly transform: string | null
  readonly resources: {
    readonly memoryBytes: number | null
    readonly threads: number | null
    readonly timeoutMs: number | null
  }
  readonly trigger: 'on_ingestion' | 'schedule' | 'manual'
  /** Of the trigger `schedule`; absent of others. */
  readonly schedule?: ProductSchedule
}

/** Whether rows of the product stay whose keys the output no longer has. */
export function keepsMissing(output: OutputManifest): boolean {
  return output.writeMode === 'append' || (output.writeMode === 'merge' && output.keepMissing !== false)
}

/** The schema of the lake table, and of every store's copy. */
export function outputSchema(output: OutputManifest): TableSchema {
  const columns = output.columns.map(({ name, type, nullable }): Column => ({ name, type, nullable }))
  return { columns, primaryKey: output.primaryKey }
}

/** Whether values of that class are masked for readers who are not cleared: `pii.*`, and the configured classes. */
export function isSensitive(classification: string, configured: readonly string[] = []): boolean {
  return classification.startsWith('pii.') || configured.includes(classification)
}

export function endpointOf(serving: ServingManifest, type: string): Endpoint | undefined {
  return serving.endpoints.find((endpoint) => endpoint.type === type)
}

/** Types that hold a point in time. */
export function isTimeType(type: LogicalType): boolean {
  return type === 'date' || type === 'timestamp' || type === 'timestamptz'
}
