/** Resources as JSON, and the schemas of requests. Times are RFC 3339 UTC; ids are opaque. */
import { Type } from 'typebox'
import { replayOf } from '../../ingestion/replay/replay-input.ts'
import type { InputExpectation } from '../../operations/products/input-expectations.ts'
import type { ShownRows } from '../../operations/products/violating-rows.ts'
import { MAX_LABELS } from '../../operations/queries/training-labels.ts'
import { MAX_FEATURES, MAX_KEY_COLUMNS } from '../../operations/queries/training-set.ts'
import { MAX_ITEMS, MAX_KEYS } from '../../operations/reads/read-keys.ts'
import type { SeenTable } from '../../operations/runs/run-view.ts'
import type { TenantDetail } from '../../operations/tenants/tenants.ts'
import type { CheckResult } from '../../quality/verdict.ts'
import type { AuditRecord } from '../../registry/audit.ts'
import type { Capture } from '../../registry/captures.ts'
import type { Connection } from '../../registry/connections.ts'
import type { Deployment } from '../../registry/deployments.ts'
import type { EndedGrant } from '../../registry/grant-bases.ts'
import type { ProductGrant, RawTableGrant } from '../../registry/grants.ts'
import { isId } from '../../registry/ids.ts'
import { lostIn, type Materialization } from '../../registry/materializations.ts'
import type { Product } from '../../registry/products.ts'
import type { Run } from '../../registry/runs.ts'
import { CATCH_UPS } from '../../registry/schedules.ts'
import { TIER_LIMITS } from '../../registry/tiers.ts'
import { MAX_CURSOR_LENGTH } from '../cursor.ts'
import type { Reply } from '../route.ts'

export const Page = Type.Object(
  {
    limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 1000, default: 100 })),
    cursor: Type.Optional(Type.String({ maxLength: MAX_CURSOR_LENGTH })),
  },
  { additionalProperties: false },
)

/** No path holds these, encoded or not: the edge refuses them. */
const SEGMENT = '^[^/\\\\\\u0000-\\u001f\\u007f-\\u009f]+$'

export const Reference = Type.String({
  minLength: 1,
  maxLength: 500,
  pattern: SEGMENT,
  'x-expected': 'an id or a name, without slashes and control characters',
  description: 'An id or a name.',
})

export const Namespace = Type.Optional(
  Type.String({ maxLength: 500, description: 'Settles a name that exists in several namespaces.' }),
)

/** Of the routes of one product. */
export const InNamespace = Type.Object({ namespace: Namespace }, { additionalProperties: false })

/** Types of endpoints, parted by commas: rows in their stores may stay where the plugin is not loaded. Plugins name them. */
export const Abandon = Type.String({ maxLength: 200, pattern: '^[^,]+(,[^,]+)*$' })

export const abandonedTypes = (abandon: string | undefined): readonly string[] => abandon?.split(',') ?? []

/** Of the lists of one product. */
export const PageInNamespace = Type.Object(
  { ...Page.properties, namespace: Namespace },
  { additionalProperties: false },
)

interface ProductCall {
  readonly params: { readonly product_id: string }
  readonly query: { readonly namespace?: string }
}

/** What operations take: an id, a name, or `namespace.name`, which the query makes of a bare name. */
export function productReference({ params, query }: ProductCall): string {
  const { product_id: reference } = params
  const { namespace } = query
  const isSettled = namespace === undefined || reference.includes('.') || isId(reference, 'prd')
  return isSettled ? reference : `${namespace}.${reference}`
}

export const Anything = Type.Record(Type.String(), Type.Unknown())

export const TenantRequest = Type.Object(
  {
    slug: Type.String({ maxLength: 64 }),
    display_name: Type.String({ minLength: 1, maxLength: 200 }),
    tier: Type.Union([Type.Literal('free'), Type.Literal('standard'), Type.Literal('enterprise')]),
  },
  { additionalProperties: false },
)

export const ScheduleRequest = Type.Object(
  {
    every: Type.Optional(Type.String({ maxLength: 20, description: 'A duration: 30s, 15m, 24h, 7d.' })),
    cron: Type.Optional(
      Type.String({ maxLength: 200, description: 'Minute, hour, day of month, month, weekday: 0 6 * * MON-FRI.' }),
    ),
    time_zone: Type.Optional(
      Type.String({ maxLength: 100, description: 'By whose clocks cron goes: Europe/Berlin. Default: UTC.' }),
    ),
    max_age: Type.Optional(
      Type.String({
        maxLength: 20,
        description:
          'A duration: a sync begins when the newest that succeeded began so long ago, whoever asked for it.',
      }),
    ),
    continuous: Type.Optional(
      Type.Object(
        {
          max_delay: Type.Optional(
            Type.String({
              maxLength: 20,
              description: 'How long a change waits for others at most, from 100ms to 1h. Default: 1s.',
            }),
          ),
        },
        {
          additionalProperties: false,
          description:
            'Changes are applied as they come, of tables that are read by the log of their source, and rows that are pushed.',
        },
      ),
    ),
    catch_up: Type.Optional(
      Type.Union(
        CATCH_UPS.map((name) => Type.Literal(name)),
        {
          description:
            'Of ticks that nobody saw to: none is made up for, all by one run, or each by its own. Default: one.',
        },
      ),
    ),
  },
  { additionalProperties: false, minProperties: 1, description: 'One of every, cron, max_age and continuous.' },
)

export const ConnectionRequest = Type.Object(
  {
    name: Type.String({ maxLength: 200 }),
    connector_type: Type.String({ maxLength: 100 }),
    config_encrypted: Type.String({ maxLength: 65_536, description: 'The settings: a JSON document in a string.' }),
    schedule: Type.Optional(ScheduleRequest),
  },
  { additionalProperties: false },
)

export const ProductRequest = Type.Object(
  {
    name: Type.String({ maxLength: 500 }),
    namespace: Type.String({ maxLength: 500 }),
    archetype: Type.Union([
      Type.Literal('source_aligned'),
      Type.Literal('aggregate'),
      Type.Literal('consumer_aligned'),
    ]),
    description: Type.Optional(Type.String({ maxLength: 10_000 })),
  },
  { additionalProperties: false },
)

export const ProductChangeRequest = Type.Object(
  {
    description: Type.Optional(Type.String({ maxLength: 10_000 })),
    archetype: Type.Optional(ProductRequest.properties.archetype),
  },
  { additionalProperties: false, minProperties: 1 },
)

const Lower = Type.Optional(
  Type.Array(Type.String({ minLength: 1, maxLength: 500 }), {
    maxItems: 1000,
    description: 'Columns whose class becomes lower by this: those that are not named keep theirs, or it is refused.',
  }),
)

const Breaks = Type.Optional(
  Type.Array(Type.String({ minLength: 1, maxLength: 500 }), {
    maxItems: 1000,
    description:
      'Products made of this one, namespace.name, that may not be made any more by this: it is refused where one of those is not named.',
  }),
)

export const RollbackRequest = Type.Object(
  {
    version: Type.Optional(Type.String({ maxLength: 100, description: 'A version that was in service.' })),
    snapshot_id: Type.Optional(
      Type.String({
        pattern: '^[0-9]{1,19}$',
        'x-expected': 'the number of a snapshot',
        description: 'Of a snapshot of the product.',
      }),
    ),
    lower: Lower,
    breaks: Breaks,
  },
  {
    additionalProperties: false,
    minProperties: 1,
    oneOf: [{ required: ['version'] }, { required: ['snapshot_id'] }],
  },
)

const AcceptDifferences = Type.Optional(
  Type.Boolean({
    default: false,
    description:
      'Whether the version comes into service however much its first rows differ from those that are served: `new_version` of quality.yaml refuses nothing then. It is on the audit record.',
  }),
)

export const DeployRequest = Type.Object(
  {
    version: Type.String({ maxLength: 100 }),
    dry_run: Type.Optional(Type.Boolean({ default: false })),
    digest: Type.Optional(
      Type.String({
        maxLength: 100,
        description: 'Of the plan that was reviewed. Absent: the manifests are deployed where you uploaded them last.',
      }),
    ),
    stores_hash: Type.Optional(
      Type.String({
        maxLength: 100,
        description: 'Of the plan that was reviewed. Absent: stores do what they would do by now.',
      }),
    ),
    lower: Lower,
    breaks: Breaks,
    accept_differences: AcceptDifferences,
    stage: Type.Optional(
      Type.Literal('preview', {
        description:
          'The version is made beside the one in service, which stays, and read as `<namespace>.<product>@preview` by developers alone, until it is promoted, discarded, or over.',
      }),
    ),
  },
  { additionalProperties: false },
)

export const PromoteRequest = Type.Object(
  {
    digest: Type.Optional(
      Type.String({
        maxLength: 100,
        description: 'Of the preview that was reviewed. Absent: the preview is promoted where you made it.',
      }),
    ),
    lower: Lower,
    breaks: Breaks,
    accept_differences: AcceptDifferences,
  },
  { additionalProperties: false },
)

export const PreviewRequest = Type.Object(
  {
    digest: Type.String({ maxLength: 100, description: 'Of the plan of the draft that is meant.' }),
    rows: Type.Optional(Type.Integer({ minimum: 1, maximum: 100, default: 10 })),
    lower: Lower,
  },
  { additionalProperties: false },
)

export const GrantRequest = Type.Object(
  {
    subject: Type.Object(
      {
        user: Type.Optional(Type.String({ minLength: 1, maxLength: 255 })),
        team: Type.Optional(Type.String({ minLength: 1, maxLength: 255 })),
      },
      { additionalProperties: false },
    ),
    issuer: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: 2000,
        description: 'Of the user: the `iss` of its tokens. Absent: your own issuer.',
      }),
    ),
    may: Type.Union([Type.Literal('read'), Type.Literal('unmask')]),
    classes: Type.Optional(Type.Array(Type.String({ minLength: 1, maxLength: 100 }), { maxItems: 100 })),
    grantable: Type.Optional(
      Type.Boolean({ default: false, description: 'Whether the subject may grant the same on to others.' }),
    ),
  },
  { additionalProperties: false },
)

export const RawGrantRequest = Type.Object(
  {
    subject: GrantRequest.properties.subject,
    issuer: GrantRequest.properties.issuer,
    table: Type.Optional(
      Type.String({ minLength: 1, maxLength: 500, description: 'As discovered: schema.table. Absent: every table.' }),
    ),
    grantable: GrantRequest.properties.grantable,
  },
  { additionalProperties: false },
)

const Epoch = Type.Integer({ minimum: 1, maximum: Number.MAX_SAFE_INTEGER })

/** Of one product, or by name. */
const AtLeastEpoch = Type.Optional(
  Type.Union([Epoch, Type.Record(Type.String({ maxLength: 200 }), Epoch, { minProperties: 1, maxProperties: 50 })], {
    'x-expected': 'an epoch, or an object with one for each <namespace>.<product>',
    description:
      'The answer rests on this epoch of its product or a later one, or is refused (epoch_not_reached): it waits for as long as it may take. Of several products {"<namespace>.<product>": epoch}. Runs and products tell which epoch they made.',
  }),
)

const Consistent = Type.Optional(
  Type.Boolean({
    description:
      'All products of the answer rest on the same rows of what they are made of, or it is refused (answer_not_consistent): it waits for as long as it may take.',
  }),
)

/** Of the one product that is read. */
export const AtLeastEpochOfOne = Type.Optional(
  Type.Integer({
    minimum: 1,
    maximum: Number.MAX_SAFE_INTEGER,
    description:
      'The answer is of this epoch or a later one, or is refused (epoch_not_reached): it waits for 20 seconds at most.',
  }),
)

export const QueryRequest = Type.Object(
  {
    sql: Type.String({ minLength: 1, maxLength: 1_000_000 }),
    params: Type.Optional(
      Type.Array(Type.Union([Type.String(), Type.Number(), Type.Boolean(), Type.Null()]), { maxItems: 1000 }),
    ),
    limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 1_000_000 })),
    timeout_ms: Type.Optional(Type.Integer({ minimum: 1, maximum: 600_000 })),
    as_of: Type.Optional(Type.String({ maxLength: 64, description: 'A time, a snapshot id, or a version as v1.2.0.' })),
    at_least_epoch: AtLeastEpoch,
    consistent: Consistent,
  },
  { additionalProperties: false },
)

const KeyPart = Type.Union([Type.String({ maxLength: 4096 }), Type.Number(), Type.Boolean()])

/** Of an answer, in its order. */
export const ColumnNames = Type.Optional(
  Type.Array(Type.String({ minLength: 1, maxLength: 200 }), {
    minItems: 1,
    maxItems: 1000,
    description: 'Default: all.',
  }),
)

export const ReadKeysRequest = Type.Object(
  {
    items: Type.Array(
      Type.Object(
        {
          product: Reference,
          store: Type.Union([Type.Literal('lookup'), Type.Literal('realtime')]),
          keys: Type.Array(
            Type.Union(
              [KeyPart, Type.Record(Type.String({ maxLength: 200 }), KeyPart, { minProperties: 1, maxProperties: 50 })],
              { 'x-expected': 'a value, or an object with the values of its columns' },
            ),
            {
              minItems: 1,
              maxItems: MAX_KEYS,
              description:
                'lookup: the value of the identity column, or an object with that of each. realtime: the key_template with the values of the row, or an object with those of its columns. Numbers of more than 15 digits, and whole ones beyond ±(2^53−1), as strings.',
            },
          ),
          columns: ColumnNames,
        },
        { additionalProperties: false },
      ),
      { minItems: 1, maxItems: MAX_ITEMS },
    ),
    at_least_epoch: AtLeastEpoch,
    consistent: Consistent,
  },
  { additionalProperties: false },
)

const ColumnName = Type.String({ minLength: 1, maxLength: 200 })
const LabelTime = Type.String({
  minLength: 1,
  maxLength: 200,
  default: 'event_time',
  description: 'The column of the labels that says of which time each is.',
})

export const TrainingSetRequest = Type.Object(
  {
    labels: Type.Union(
      [
        Type.Array(
          Type.Record(
            ColumnName,
            Type.Union([Type.String({ maxLength: 4096 }), Type.Number(), Type.Boolean(), Type.Null()]),
          ),
          { minItems: 1, maxItems: MAX_LABELS },
        ),
        Type.Object({ product: Reference, columns: ColumnNames }, { additionalProperties: false }),
      ],
      {
        'x-expected': `a list of up to ${MAX_LABELS} rows, each an object of values, or an object that names a product`,
        description:
          'The rows that features are found for: objects of values, whole numbers beyond ±(2^53−1) as strings; or a product, whose rows come by their time.',
      },
    ),
    time_column: LabelTime,
    features: Type.Array(
      Type.Object(
        {
          product: Reference,
          name: Type.Optional(
            Type.String({
              minLength: 1,
              maxLength: 100,
              description: 'Its columns come as <name>__<column>. Default: the name of the product.',
            }),
          ),
          key: Type.Union(
            [
              ColumnName,
              Type.Array(ColumnName, { minItems: 1, maxItems: MAX_KEY_COLUMNS }),
              Type.Record(ColumnName, ColumnName, { minProperties: 1, maxProperties: MAX_KEY_COLUMNS }),
            ],
            {
              'x-expected': 'a column, a list of columns, or an object of columns',
              description:
                'Columns of the product that equal those of the same name in the labels; or an object that gives the column of the labels for each.',
            },
          ),
          time_column: Type.String({
            minLength: 1,
            maxLength: 200,
            description: 'Of the product: the newest row counts that is no later than the label.',
          }),
          columns: Type.Optional(
            Type.Array(ColumnName, {
              minItems: 1,
              maxItems: 1000,
              description: 'Default: all but those of the key and the time.',
            }),
          ),
          max_age: Type.Optional(
            Type.String({
              maxLength: 20,
              description:
                'As 30s, 15m, 24h or 7d: rows that are older than that at the time of the label do not count.',
            }),
          ),
        },
        { additionalProperties: false },
      ),
      { minItems: 1, maxItems: MAX_FEATURES },
    ),
    known_by: Type.Optional(
      Type.String({
        maxLength: 64,
        description: 'A time: features are read as their products were then. Default: as they are now.',
      }),
    ),
    timeout_ms: QueryRequest.properties.timeout_ms,
  },
  { additionalProperties: false },
)

const iso = (at: Date | null): string | null => at?.toISOString() ?? null

export function tenantJson({ tenant, usage }: TenantDetail) {
  const limits = TIER_LIMITS[tenant.tier]
  return {
    id: tenant.slug,
    slug: tenant.slug,
    display_name: tenant.displayName,
    tier: tenant.tier,
    status: tenant.status,
    limits: {
      products: limits.products,
      connections: limits.connections,
      concurrent_executions: limits.concurrentExecutions,
      storage_bytes: limits.storageBytes,
    },
    usage: {
      products: usage.products,
      connections: usage.connections,
      running: usage.runningRuns,
      storage_bytes: usage.storageBytes,
    },
    resources: tenant.resources,
    created_at: iso(tenant.createdAt),
    provisioned_in_ms: tenant.provisionedInMs,
  }
}

/** How far the log of a source was read, and what the source keeps of it for us. */
export function captureJson({ name, generation, sourceTime, positionedAt, lostReason, lostAt, health }: Capture) {
  return {
    capture: name,
    generation,
    source_time: iso(sourceTime),
    read_at: iso(positionedAt),
    state: health?.state ?? null,
    message: health?.message ?? null,
    remedy: health?.remedy ?? null,
    retained_bytes: health?.retainedBytes ?? null,
    limit_bytes: health?.limitBytes ?? null,
    checked_at: iso(health?.checkedAt ?? null),
    begun_anew_at: iso(lostAt),
    begun_anew_reason: lostReason,
  }
}

export function connectionJson(connection: Connection) {
  const secrets = Object.fromEntries(connection.secretFields.map((field) => [field, '********']))
  return {
    id: connection.id,
    tenant_id: connection.tenant,
    name: connection.name,
    connector_type: connection.connectorType,
    config: { ...connection.config, ...secrets },
    status: connection.status,
    last_tested_at: iso(connection.lastTestedAt),
    source_since: iso(connection.sourceSince),
    created_by: connection.createdBy.subject,
    created_at: iso(connection.createdAt),
    updated_at: iso(connection.updatedAt),
  }
}

export function productJson(product: Product) {
  return {
    id: product.id,
    tenant_id: product.tenant,
    name: product.name,
    namespace: product.domain,
    archetype: product.archetype,
    description: product.description,
    classification: product.classification,
    status: product.status,
    current_version: product.currentVersion,
    paused: product.paused,
    created_at: iso(product.createdAt),
    updated_at: iso(product.updatedAt),
  }
}

export function deploymentJson(deployment: Deployment) {
  return {
    id: deployment.id,
    product_id: deployment.productId,
    kind: deployment.kind,
    version: deployment.version,
    state: deployment.state,
    error: deployment.error,
    created_by: deployment.createdBy.subject,
    created_at: iso(deployment.createdAt),
    finished_at: iso(deployment.finishedAt),
  }
}

/** `tables` are given for a single run; a list has the run's own numbers only. */
export function runJson(run: Run, tables: readonly SeenTable[]) {
  const result = run.result as { readonly products?: readonly unknown[]; readonly progress?: unknown } | null
  return {
    id: run.id,
    tenant_id: run.tenant,
    kind: run.kind,
    connection_id: run.connectionId,
    product_id: run.productId,
    state: run.state,
    trigger: run.trigger,
    replay: replayOf(run) !== null,
    attempt: run.attempt,
    tables: tables.map((table) => ({
      name: table.name,
      mode: table.mode,
      rows_read: table.rowsRead,
      mode_reason: table.modeReason,
      deletes: table.deletes,
      deletes_reason: table.deletesReason,
      rows_written: table.rowsWritten,
      rows_rejected: table.rowsRejected,
      rows_removed: table.rowsRemoved,
      rows_superseded: table.rowsSuperseded ?? null,
      bytes: table.bytes,
      state: table.state,
      cursor: table.cursor,
      error: table.error,
    })),
    products: result?.products ?? [],
    progress: run.state === 'running' ? (result?.progress ?? null) : null,
    created_at: iso(run.createdAt),
    started_at: iso(run.startedAt),
    finished_at: iso(run.finishedAt),
    error: run.error,
    waiting: run.spentUntil === null ? null : { ...CPU_TIME_SPENT, until: iso(run.spentUntil) },
  }
}

const CPU_TIME_SPENT = {
  code: 'cpu_time_spent',
  message: 'the tenant has used the CPU time that its tier has',
  remedy:
    'It begins by itself. Transforms and queries that take less leave more to others; the operator sets the limit.',
} as const

/** Of what was queued: 202, and where to ask for it. */
export function queuedReply(run: Run): Reply {
  return { status: 202, body: runJson(run, []), headers: { Location: `/api/v1/ingestion/${run.id}` } }
}

/** `isClear` says of which columns the reader may know values. */
export function materializationJson(materialization: Materialization, isClear: (column: string) => boolean) {
  return {
    id: materialization.id,
    epoch: materialization.epoch,
    state: materialization.state,
    kind: materialization.kind,
    version: materialization.version,
    snapshot_id: materialization.snapshots['clear'] ?? null,
    rows: materialization.counts['rows'] ?? null,
    quarantined_rows: materialization.counts['quarantined'] ?? (materialization.state === 'blocked' ? 0 : null),
    lossy_values: Object.fromEntries(Object.entries(lostIn(materialization)).filter(([column]) => isClear(column))),
    quality_score: materialization.qualityScore,
    committed_at: iso(materialization.committedAt),
    run_id: materialization.runId,
  }
}

/** Results of checks as they were kept with a materialization. */
export function qualityJson(kept: unknown, rows: ReadonlyMap<string, ShownRows>) {
  const quality = kept as { readonly checks: readonly CheckResult[]; readonly by_dimension: unknown } | null
  if (quality === null) return null
  return {
    checks: quality.checks.map(
      ({ onError, reads: _, worth: __, learning = false, measured, compared, expected, ...check }) => ({
        ...check,
        on_error: onError,
        learning,
        measured: measuredJson(measured),
        compared: comparedJson(compared),
        ...(expected === undefined ? {} : { expected: expectedJson(expected) }),
        violating: violatingJson(rows.get(check.name)),
      }),
    ),
    by_dimension: quality.by_dimension,
  }
}

/** What a product expects of an input. */
export function expectationJson({ last, ...told }: InputExpectation) {
  if (last === null) return { ...told, last }
  const { passed, violations, total } = last.result
  const { state, epoch, committedAt } = last.of
  return { ...told, last: { passed, violations, total, state, epoch, committed_at: iso(committedAt) } }
}

function expectedJson({ productId, alsoServed = null, ...told }: NonNullable<CheckResult['expected']>) {
  return { product_id: productId, ...told, also_served: alsoServed }
}

function comparedJson(compared: CheckResult['compared']) {
  if (compared === undefined) return null
  const { atMost: at_most, ...told } = compared
  return { ...told, at_most }
}

function measuredJson(measured: CheckResult['measured']) {
  if (measured === undefined) return null
  const { basis: _, ...told } = measured
  return told
}

function violatingJson(shown: ShownRows | undefined) {
  return shown === undefined ? null : { columns: shown.columns, masked_columns: shown.masked, rows: shown.rows }
}

export function grantJson(grant: ProductGrant) {
  return {
    id: grant.id,
    subject: grant.subjectType === 'user' ? { user: grant.subject } : { team: grant.subject },
    issuer: grant.issuer,
    may: grant.may,
    classes: grant.classes,
    grantable: grant.grantable,
    granted_by: grant.grantedBy.subject,
    created_at: iso(grant.createdAt),
  }
}

/** What ended with a grant that was taken back. */
export function endedReply(ended: readonly EndedGrant[]): Reply {
  if (ended.length === 0) return { empty: true }
  const told = ended.map(({ id, productId, connectionId, subjectType, subject, isGone, classes }) => ({
    id,
    product_id: productId,
    connection_id: connectionId,
    subject: subjectType === 'user' ? { user: subject } : { team: subject },
    whole: isGone,
    classes: isGone ? [] : classes,
  }))
  return { body: { ended: told } }
}

export function rawGrantJson(grant: RawTableGrant) {
  return {
    id: grant.id,
    subject: grant.subjectType === 'user' ? { user: grant.subject } : { team: grant.subject },
    issuer: grant.issuer,
    table: grant.tableName,
    grantable: grant.grantable,
    granted_by: grant.grantedBy.subject,
    created_at: iso(grant.createdAt),
  }
}

export function auditJson(record: AuditRecord) {
  return {
    id: record.id,
    tenant_id: record.tenant,
    at: iso(record.at),
    actor: record.actor,
    action: record.action,
    object: { type: record.objectType, id: record.objectId },
    outcome: record.outcome,
    request_id: record.requestId,
    details: record.details,
  }
}
