/** What answers look like: the schemas of resources, for the OpenAPI document. Members may be added, never taken away. */
import { type TSchema, Type } from 'typebox'
import { COMPARED_METRICS, METRICS } from '../../manifest/files/quality.ts'
import { CONTRACT_WORDS } from '../../manifest/files/schema-contract.ts'
import { NOTICE_KINDS } from '../../operations/products/product-notices.ts'
import { RUN_STATES, RUN_TRIGGERS } from '../../registry/runs.ts'
import { CATCH_UPS, SKIP_REASONS } from '../../registry/schedules.ts'

const nullable = <S extends TSchema>(schema: S) => Type.Union([schema, Type.Null()])
const text = (description?: string) => Type.String(description === undefined ? {} : { description })
const time = () => Type.String({ format: 'date-time' })
const count = (description?: string) =>
  Type.Integer({ minimum: 0, ...(description === undefined ? {} : { description }) })
const oneOf = (names: readonly string[]) => Type.Union(names.map((name) => Type.Literal(name)))
const anything = () => Type.Record(Type.String(), Type.Unknown())

/** A page of a list. */
export const pageOf = (item: TSchema) =>
  Type.Object({
    data: Type.Array(item),
    next_cursor: nullable(text('Give it back as cursor to read on; null at the end.')),
  })

const Failure = Type.Object(
  { code: text(), message: text(), remedy: Type.Optional(text()) },
  { description: 'Why it failed, and what to do.' },
)

const Following = nullable(
  Type.Object(
    {
      since: nullable(
        Type.String({ format: 'date-time', description: 'Since when a runtime waits for changes; null: none does.' }),
      ),
      behind_since: nullable(
        Type.String({ format: 'date-time', description: 'When the first change came that no run has taken yet.' }),
      ),
      lag_s: Type.Number({ minimum: 0, description: 'How long that one has waited; 0: all that came was taken.' }),
      error_code: nullable(text('Why the source could not be followed at the last try.')),
      held: count('Tables and products that failed by themselves, and are tried again later; the last run names them.'),
    },
    { description: 'Of a connection with a continuous schedule. Its newest epoch is what last_run made.' },
  ),
)

const scheduleFields = {
  schedule: nullable(
    Type.Object(
      {
        every: Type.Optional(text()),
        cron: Type.Optional(text()),
        time_zone: Type.Optional(text()),
        after: Type.Optional(Type.Array(text(), { description: 'Products: each has to have a new epoch.' })),
        max_age: Type.Optional(text()),
        continuous: Type.Optional(Type.Object({ max_delay: text() })),
        catch_up: Type.Optional(oneOf(CATCH_UPS)),
      },
      { description: 'When runs begin by themselves; null: when somebody asks.' },
    ),
  ),
  next_run_at: nullable(
    Type.String({
      format: 'date-time',
      description:
        'Null without a schedule, and where nobody knows it: after other products, and where changes are followed. Of a product with max_age, for its readers, on its own page.',
    }),
  ),
  last_run: nullable(
    Type.Object(
      {
        id: text(),
        state: oneOf(RUN_STATES),
        trigger: oneOf(RUN_TRIGGERS),
        created_at: time(),
        finished_at: nullable(time()),
      },
      { description: 'The newest of its own, whoever asked for it. What syncs make of a product is part of theirs.' },
    ),
  ),
  schedule_state: nullable(
    Type.Object({
      set_by: text(),
      right_lost: Type.Boolean({
        description: 'Whoever set it may not sync any more, by the newest token: no run begins.',
      }),
      breaker: oneOf(['closed', 'open', 'half_open']),
      failures: count('Runs that failed one after the other.'),
      open_until: nullable(time()),
      skipped_at: nullable(Type.String({ format: 'date-time', description: 'The newest tick that began no run.' })),
      skipped_reason: nullable(oneOf(SKIP_REASONS)),
    }),
  ),
}

export const Tenant = Type.Object(
  {
    id: text('The slug.'),
    slug: text(),
    display_name: text(),
    tier: oneOf(['free', 'standard', 'enterprise']),
    status: oneOf(['provisioning', 'active', 'failed', 'deprovisioning']),
    limits: Type.Object({
      products: nullable(count('Null: unlimited.')),
      connections: nullable(count('Null: unlimited.')),
      concurrent_executions: count('Runs at once, of ingestions and of materializations each.'),
      storage_bytes: count(),
    }),
    usage: Type.Object({ products: count(), connections: count(), running: count(), storage_bytes: count() }),
    resources: anything(),
    created_at: time(),
    provisioned_in_ms: nullable(count()),
  },
  { $id: 'Tenant' },
)

const SourceLog = nullable(
  Type.Object(
    {
      capture: text('What the source calls it.'),
      generation: Type.Number({
        description: 'One more each time when the log was begun anew, and all its tables read whole.',
      }),
      source_time: nullable(time()),
      read_at: nullable(time()),
      state: nullable(oneOf(['ok', 'at_risk', 'lost', 'unreachable', 'released'])),
      message: nullable(text()),
      remedy: nullable(text()),
      retained_bytes: nullable(
        Type.Number({ description: 'What the source keeps for us alone; null: it does not say.' }),
      ),
      limit_bytes: nullable(Type.Number({ description: 'How much it keeps before it lets go; null: without end.' })),
      checked_at: nullable(time()),
      begun_anew_at: nullable(time()),
      begun_anew_reason: nullable(text()),
    },
    { description: 'The log that inputs in mode cdc are read by; null: none is.' },
  ),
)

export const Connection = Type.Object(
  {
    id: text(),
    tenant_id: text(),
    name: text(),
    connector_type: text(),
    config: Type.Record(Type.String(), Type.Unknown(), { description: 'Secrets are shown as "********".' }),
    status: oneOf(['untested', 'ok', 'failed']),
    last_tested_at: nullable(time()),
    source_since: nullable(
      Type.String({
        format: 'date-time',
        description: 'Since when it leads to another source than before: what was read until then counts no more.',
      }),
    ),
    created_by: text('Whose it is: who else changes where it leads is an administrator.'),
    created_at: time(),
    updated_at: time(),
    log: SourceLog,
    following: Following,
    ...scheduleFields,
  },
  { $id: 'Connection' },
)

export const ConnectionLag = Type.Object(
  {
    connection_id: text(),
    connection: text(),
    next_run_at: scheduleFields.next_run_at,
    last_run: scheduleFields.last_run,
    breaker: nullable(oneOf(['closed', 'open', 'half_open'])),
    log: SourceLog,
    following: Following,
    tables: Type.Array(
      Type.Object({
        table: text('schema.table'),
        read_at: nullable(
          Type.String({
            format: 'date-time',
            description: 'When the newest read began that succeeded; null: none has.',
          }),
        ),
        age_s: nullable(Type.Number({ description: 'Since then.' })),
        last_read: nullable(
          Type.Object(
            {
              run_id: text(),
              state: oneOf(['pending', 'running', 'succeeded', 'failed']),
              error_code: nullable(text()),
              at: time(),
            },
            { description: 'The newest that was tried.' },
          ),
        ),
        backfill_asked_at: nullable(
          Type.String({
            format: 'date-time',
            description: 'The next read is of the whole table, as was asked for then.',
          }),
        ),
      }),
    ),
  },
  { $id: 'ConnectionLag' },
)

export const TestReport = Type.Object(
  {
    ok: Type.Boolean(),
    latency_ms: Type.Number({ minimum: 0 }),
    server_version: nullable(text()),
    checks: Type.Array(
      Type.Object({ name: text(), ok: Type.Boolean(), message: text(), remedy: Type.Optional(text()) }),
    ),
    remedy: Type.Optional(text('Of the step that failed.')),
  },
  { $id: 'TestReport' },
)

export const Discovery = Type.Object(
  {
    tables: Type.Array(
      Type.Object({
        schema: text(),
        name: text(),
        kind: text(),
        estimated_rows: nullable(Type.Number()),
        primary_key: Type.Array(text()),
        columns: Type.Array(Type.Object({ name: text(), type: text(), source_type: text(), nullable: Type.Boolean() })),
        suggested_cursor: nullable(text()),
      }),
    ),
  },
  { $id: 'Discovery' },
)

const productFields = {
  id: text(),
  tenant_id: text(),
  name: text(),
  namespace: text(),
  archetype: oneOf(['source_aligned', 'aggregate', 'consumer_aligned']),
  description: text(),
  classification: oneOf(['public', 'internal', 'confidential', 'restricted']),
  status: oneOf(['draft', 'ready', 'deployed', 'degraded', 'retired']),
  current_version: nullable(text()),
  paused: nullable(
    Type.Object(
      {
        reason: oneOf(['rollback', 'registry_outdated']),
        version: text('That it went back to; or that made what the registry does not know.'),
        since: time(),
      },
      { description: 'Why it keeps its content while its connections are synced; null: it follows them.' },
    ),
  ),
  created_at: time(),
  updated_at: time(),
}

export const Product = Type.Object(productFields, { $id: 'Product' })

export const ListedProduct = Type.Object(
  {
    ...productFields,
    ...scheduleFields,
    notices: Type.Array(oneOf(NOTICE_KINDS), {
      description:
        'What should be done about the version in service, or the bucket of its rows; the product itself says more.',
    }),
  },
  { $id: 'ListedProduct' },
)

const quality = {
  checks: Type.Array(
    Type.Object({
      name: text(),
      severity: oneOf(['error', 'warn']),
      dimension: text(),
      weight: Type.Number(),
      on_error: text(),
      passed: Type.Boolean(),
      learning: Type.Boolean({
        description:
          'It knows too few epochs to judge, or found nothing to measure as in epochs before: it has passed, and counts for no score.',
      }),
      violations: nullable(Type.Number()),
      total: nullable(Type.Number()),
      measured: nullable(
        Type.Object(
          {
            metric: oneOf(METRICS),
            column: nullable(text()),
            value: nullable(
              Type.Number({
                description: 'Null: there was nothing to measure; where each epoch had something, it has not passed.',
              }),
            ),
            lower: nullable(
              Type.Number({ description: 'It passes from here; null: any, or it is learning, or has no value.' }),
            ),
            upper: nullable(
              Type.Number({ description: 'It passes up to here; null: any, or it is learning, or has no value.' }),
            ),
            epochs: count('How many epochs it has learned from.'),
          },
          {
            description: 'Of an anomaly check that could be run: what it measured, and the bounds that it has learned.',
          },
        ),
      ),
      compared: nullable(
        Type.Object(
          {
            metric: oneOf(COMPARED_METRICS),
            column: nullable(text()),
            former: nullable(
              Type.Number({ description: 'Of rows and null_share: what the rows that were served have.' }),
            ),
            now: nullable(Type.Number({ description: 'The same of the new version.' })),
            at_most: Type.Union([Type.Number(), Type.String()], { description: 'Rows, or a percentage.' }),
            accepted: Type.Boolean({ description: 'Whether it was deployed with its differences accepted.' }),
          },
          {
            description:
              'Of the first materialization of a new version: a bound of `new_version`, against the rows that were served. Its violations are what differs. Null: it is a check.',
          },
        ),
      ),
      expected: Type.Optional(
        Type.Object(
          {
            product_id: text(),
            product: text('namespace.name'),
            owner: nullable(text('Its team, or an address.')),
            name: text('What it calls the expectation.'),
            severity: oneOf(['error', 'warn']),
            also_served: nullable(
              Type.Boolean({
                description:
                  'Whether the rows that were in service fail it as well, so that it kept nothing from being published. Null: nobody has looked, or it could not be said.',
              }),
            ),
          },
          {
            description:
              'Of what a product that is made of this one expects of its rows; it counts for no score. The severity of the result is `error` where it kept them from being published. Absent: it is a check of this product.',
          },
        ),
      ),
      violating: nullable(
        Type.Object(
          {
            columns: Type.Array(text()),
            masked_columns: Type.Array(text()),
            rows: Type.Array(Type.Array(nullable(text())), { maxItems: 100 }),
          },
          {
            description:
              'Of the newest materialization, where the check failed: the first rows that it found bad, by their identity and the columns that the check names, as the text that a read in CSV has, of at most 200 characters. Null: the check speaks of no rows, or you may not see them.',
          },
        ),
      ),
    }),
  ),
  by_dimension: Type.Record(Type.String(), Type.Number()),
}

const snapshotFields = {
  id: text(),
  epoch: nullable(count('Null: its checks kept it from being published.')),
  state: oneOf(['committed', 'blocked']),
  kind: oneOf(['materialize', 'rollback']),
  version: text(),
  snapshot_id: nullable(text('For as_of and for a rollback.')),
  rows: nullable(count()),
  quarantined_rows: nullable(count('Null for who may not see the columns that the checks look at.')),
  lossy_values: Type.Record(Type.String(), count(), {
    description: 'By column that you may see: values that lost something by the cast to its type.',
  }),
  quality_score: nullable(Type.Number({ minimum: 0, maximum: 100 })),
  committed_at: nullable(time()),
  run_id: nullable(text()),
}

export const Snapshot = Type.Object(snapshotFields, { $id: 'Snapshot' })
export const QualityResult = Type.Object(
  { ...snapshotFields, quality: nullable(Type.Object(quality)) },
  { $id: 'QualityResult' },
)

const deleteMode = () =>
  Type.Union([oneOf(['implied', 'key_sweep', 'unseen', 'log']), Type.Null()], {
    description: 'How rows that are gone from the source are found. Implied: all are read.',
  })

const contractWord = oneOf(CONTRACT_WORDS)

/** How an input is read. */
const InputRead = Type.Object({
  input: text(),
  connection: Type.Optional(text()),
  table: Type.Optional(text()),
  product: Type.Optional(text('Of an input that is a product, in place of connection and table: namespace.name.')),
  mode: nullable(text('Null: it is not known yet, or no sync reads it.')),
  mode_reason: nullable(text()),
  deletes: deleteMode(),
  deletes_reason: nullable(text('Why they are left unseen.')),
  read_at: nullable(time()),
  schema_contract: Type.Optional(
    Type.Object(
      { tables: contractWord, columns: contractWord, types: contractWord, nullability: contractWord },
      { description: 'What becomes of the product when its source changes. Absent of an input that is a product.' },
    ),
  ),
})

export const ProductDetail = Type.Object(
  {
    ...productFields,
    ...scheduleFields,
    owner: Type.Object({ team: nullable(text()), email: nullable(text()) }),
    tags: Type.Array(text()),
    schema: Type.Array(
      Type.Object({
        name: text(),
        type: text(),
        role: nullable(text()),
        classification: text(),
        nullable: Type.Boolean(),
        description: Type.Optional(nullable(text())),
        mask: nullable(
          Type.Union(
            ['hash', 'redact', 'partial', 'null', 'omit'].map((name) => Type.Literal(name)),
            {
              description:
                'How it is masked for you; omit: you are not shown the column. Null: it is not, or you may not read the product.',
            },
          ),
        ),
      }),
    ),
    readable: Type.Boolean({ description: 'Whether there is a version in service whose rows you may read.' }),
    endpoints: Type.Array(
      Type.Object({
        type: text(),
        description: Type.Optional(nullable(text())),
        config: anything(),
        state: oneOf(['ok', 'pending', 'failed']),
        epoch: nullable(count('Null for who may not read the product, as are the fields after it.')),
        behind: nullable(Type.Boolean()),
        error: nullable(Failure),
        rows_left_out: nullable(
          count(
            'Rows that the endpoint cannot serve: without a time, in a timeseries. Null for who may not read the product or may not see that column, and until the version in service has been applied.',
          ),
        ),
      }),
    ),
    change_topics: Type.Array(
      Type.Object({
        topic: text(),
        variant: oneOf(['masked', 'clear']),
        state: oneOf(['ok', 'pending', 'failed', 'refused']),
        reason: nullable(text()),
        epoch: nullable(count()),
        error: nullable(Failure),
      }),
    ),
    dashboards: nullable(
      Type.Object({
        state: oneOf(['ok', 'pending', 'failed']),
        error: nullable(Failure),
        links: Type.Array(Type.Object({ variant: text(), url: text() })),
      }),
    ),
    quality: nullable(Type.Object({ score: nullable(Type.Number()), ...quality })),
    freshness: Type.Object({
      read_at: nullable(
        Type.String({
          format: 'date-time',
          description:
            'Since when the rows of the newest epoch are: when the first of its inputs was read from its source. Null without an epoch, and for who may not read the product.',
        }),
      ),
      age_s: nullable(Type.Number({ description: 'Since then; null where that is.' })),
      objective_s: nullable(Type.Number()),
      met: nullable(Type.Boolean()),
    }),
    availability: Type.Object({
      objective_percent: nullable(Type.Number({ description: 'As product.yaml says; it is not measured here.' })),
    }),
    content: nullable(
      Type.Object(
        {
          write_mode: text(),
          keeps_missing: Type.Boolean(),
          note: text(),
          one_moment: nullable(
            Type.Boolean({ description: 'Whether tables of one connection are of one instant; null: it reads one.' }),
          ),
        },
        {
          description:
            'What becomes of former rows, and which of its inputs’ they are. Null: no version is in service.',
        },
      ),
    ),
    reads: Type.Array(InputRead, { description: 'How each input was read last, for who may read the product.' }),
    notices: Type.Array(
      Type.Object({
        kind: oneOf(NOTICE_KINDS),
        message: text(),
        remedy: text(),
        columns: Type.Array(text()),
        blocked: Type.Boolean({ description: 'Whether readers without clearance are refused for it.' }),
      }),
      { description: 'What should be done about the version in service, or the bucket of its rows.' },
    ),
    lineage: Type.Object({
      inputs: Type.Array(
        Type.Object({
          name: text(),
          connection: Type.Optional(text()),
          table: Type.Optional(text()),
          product: Type.Optional(text('Of an input that is a product: namespace.name.')),
        }),
      ),
      downstream: Type.Array(text(), { description: 'Products in service that are made of this one: namespace.name.' }),
    }),
    expectations: Type.Array(
      Type.Object({
        input: text('The alias.'),
        product: text('namespace.name'),
        name: text(),
        severity: oneOf(['error', 'warn']),
        may: nullable(oneOf(['enforce', 'warn', 'ignore'])),
        last: nullable(
          Type.Object(
            {
              passed: Type.Boolean(),
              violations: nullable(count('Null: it could not be run.')),
              total: nullable(count()),
              state: oneOf(['committed', 'blocked']),
              epoch: nullable(count('Of that product; null: nothing was published.')),
              committed_at: nullable(time()),
            },
            {
              description:
                'What came of it, held against the newest rows of that product. Null: they have not been looked at, or you may not see what it looks at.',
            },
          ),
        ),
      }),
      {
        description:
          'What the version in service expects of inputs that are products. `may` is what these let it do: `downstream_expectations` of their quality.yaml.',
      },
    ),
    versions: Type.Array(Type.Object({ version: text(), digest: text(), deployed_by: text(), deployed_at: time() })),
    preview: nullable(
      Type.Object(
        {
          product: text('As it is read: namespace.name@preview.'),
          state: oneOf(['served', 'ending']),
          version: text(),
          digest: text(),
          made_by: text(),
          made_at: time(),
          ends_at: time(),
          epoch: nullable(Type.Integer()),
        },
        { description: 'A version beside the one in service, for developers; null: there is none.' },
      ),
    ),
    last_materialization: nullable(Snapshot),
  },
  { $id: 'ProductDetail' },
)

const Problem = Type.Object({
  manifest: text(),
  line: Type.Integer(),
  column: Type.Integer(),
  path: text(),
  message: text(),
  hint: Type.Optional(text()),
})

export const ParsedManifests = Type.Object(
  { manifests: anything(), warnings: Type.Array(Problem) },
  { $id: 'ParsedManifests' },
)

const sharedChecks = Type.Array(
  Type.Object({
    product: text('Whose it is: namespace.name.'),
    version: nullable(text('Of that product, from which it was taken at the upload; null: not kept then.')),
    version_in_service: nullable(text('Of that product today; null: none.')),
    differs: Type.Boolean({ description: 'Whether that one has another check of this name, or none.' }),
    check: Type.Record(Type.String(), Type.Unknown(), {
      description: 'As quality.yaml would say it, with every default.',
    }),
  }),
  { description: 'Checks of other products that it uses, as they run: what its own texts only name.' },
)

export const ManifestTexts = Type.Object(
  {
    version: nullable(text()),
    digest: text(),
    uploaded_by: Type.Optional(text('Of those uploaded last: whose they are.')),
    uploaded_at: Type.Optional(time()),
    deployed_by: Type.Optional(text('Of a version.')),
    deployed_at: Type.Optional(time()),
    manifests: Type.Record(Type.String(), Type.String()),
    shared_checks: sharedChecks,
  },
  { $id: 'ManifestTexts' },
)

export const Deployment = Type.Object(
  {
    id: text(),
    product_id: text(),
    kind: oneOf(['deploy', 'rollback']),
    version: text(),
    state: oneOf(['running', 'succeeded', 'failed']),
    error: nullable(Failure),
    created_by: text(),
    created_at: time(),
    finished_at: nullable(time()),
  },
  { $id: 'Deployment' },
)

const DeployPlan = Type.Object(
  {
    version: text(),
    verdict: oneOf(['initial', 'compatible', 'additive', 'breaking']),
    changes: Type.Array(
      Type.Object({ verdict: text(), subject: text(), column: Type.Optional(text()), reason: text() }),
    ),
    lake: Type.Array(text()),
    stores: Type.Array(
      Type.Object({
        endpoint: text(),
        variant: text(),
        steps: Type.Array(Type.Object({ action: text(), description: text(), statement: Type.Optional(text()) })),
        hash: nullable(text('Of the steps, as the store gives it; null: the copy is built anew.')),
        columns: Type.Array(
          Type.Object({
            name: text(),
            verdict: oneOf(['required', 'optional', 'forbidden', 'unsatisfiable']),
            reason: text(),
          }),
          { description: 'What the store makes of each column; none where it does not judge schemas.' },
        ),
      }),
    ),
    estimated_rows: nullable(Type.Number()),
    lowered_classes: Type.Array(text(), { description: 'Columns whose class becomes lower: to be named in lower.' }),
    reaches: Type.Array(
      Type.Object({
        product_id: text(),
        product: text(),
        namespace: text(),
        columns: Type.Array(Type.Object({ name: text(), classification: text() })),
        blocked: Type.Boolean({
          description: 'Whether readers without those classes are refused until it is deployed anew.',
        }),
        in_service: Type.Boolean({ description: 'False: past versions alone have such columns.' }),
      }),
      { description: 'Other products with columns made of source columns that are hidden from now on.' },
    ),
    downstream: Type.Array(
      Type.Object({
        product_id: text(),
        product: text(),
        namespace: text(),
        owner: Type.Object({ team: nullable(text()), email: nullable(text()) }),
        breaks: Type.Array(text(), {
          description:
            'Columns that it reads and would not be given any more: it could not be made, and is to be named in breaks.',
        }),
        more_open: Type.Boolean({ description: 'Whether more may read it than this version.' }),
        expectations: Type.Array(
          Type.Object({
            name: text(),
            severity: oneOf(['error', 'warn']),
            problem: nullable(text('Why the version cannot keep it, whatever its rows are. Null: its rows will show.')),
          }),
          { description: 'What it expects of the rows: `expectations` of its quality.yaml.' },
        ),
      }),
      { description: 'Products in service that are made of this one.' },
    ),
    warnings: Type.Array(Problem),
    shared_checks: sharedChecks,
    reads: Type.Array(InputRead, { description: 'How each input is read from the next sync on.' }),
    notes: Type.Array(text(), { description: 'What happens beside the change itself.' }),
    problems: Type.Array(Type.Object({ code: text(), message: text(), remedy: nullable(text()) }), {
      description: 'What would refuse the deployment itself; of a dry run only.',
    }),
  },
  { $id: 'DeployPlan' },
)

const digest = text('Of the manifests: a deployment that sends it deploys these, or nothing.')

const storesHash = text('Of what the stores would do: a deployment that sends it has them do this, or is refused.')

export const DryRun = Type.Object({
  dry_run: Type.Literal(true),
  verdict: text(),
  digest,
  stores_hash: storesHash,
  plan: DeployPlan,
})
export const Deployed = Type.Object({
  dry_run: Type.Literal(false),
  deployment: Deployment,
  run_id: nullable(text('The run that makes its first content; null where it waits for a sync.')),
  digest,
  stores_hash: storesHash,
  plan: DeployPlan,
})
export const RolledBack = Type.Object({ deployment: Deployment, run_id: text(), notes: Type.Array(text()) })

/** Endpoints of a product in a run. */
const stores = () =>
  Type.Array(
    Type.Object({
      endpoint: text(),
      state: oneOf(['writing', 'ok', 'failed']),
      epoch: nullable(count('That it serves; null: none.')),
      error: nullable(Failure),
    }),
  )

const runFields = {
  id: text(),
  tenant_id: text(),
  kind: oneOf(['ingestion', 'materialization']),
  connection_id: nullable(text()),
  product_id: nullable(text()),
  state: oneOf(RUN_STATES),
  trigger: oneOf(RUN_TRIGGERS),
  replay: Type.Boolean({
    description:
      'It tries rows of a quarantine again and reads none of the source: rows_read of a table is the sum of rows_written, rows_superseded and rows_rejected.',
  }),
  attempt: count(),
  tables: Type.Array(
    Type.Object({
      name: text(),
      mode: text(),
      rows_read: count('The next power of ten, for who may not read the raw table.'),
      mode_reason: nullable(text()),
      deletes: deleteMode(),
      deletes_reason: nullable(text('Why they are left unseen.')),
      rows_written: count('The next power of ten, for who may not read the raw table.'),
      rows_rejected: count(
        'Left out of the table, because they cannot be carried; those that are left out of some products alone are told by the check rows_carried of these. The quarantine of the connection lists them. The next power of ten, for who may not read the raw table.',
      ),
      rows_removed: nullable(count('Rows that were gone, by a read of the keys; null: none was made.')),
      rows_superseded: nullable(
        count(
          'Rows that left the quarantine for good, because the table has a newer one of their key or the source none. Null: of a run that tries no rows again. The next power of ten, for who may not read the raw table.',
        ),
      ),
      bytes: nullable(count('Null: for who may not read the raw table.')),
      state: oneOf(['pending', 'running', 'succeeded', 'failed']),
      cursor: nullable(text()),
      error: nullable(Failure),
    }),
  ),
  products: Type.Array(
    Type.Object({
      id: text(),
      name: Type.Optional(text('namespace.name')),
      materialization_id: nullable(text()),
      epoch: Type.Optional(nullable(count('That was published; null: nothing was.'))),
      state: oneOf(['succeeded', 'degraded', 'failed', 'skipped']),
      rows: Type.Optional(nullable(count())),
      quarantined_rows: Type.Optional(
        nullable(count('Null where not everybody may know it, or you may not by the classes of today.')),
      ),
      lossy_values: Type.Optional(
        Type.Record(Type.String(), count(), {
          description:
            'By column that you may see by the classes of today, of those that nobody’s view hid when it was made.',
        }),
      ),
      behind: Type.Optional(Type.Array(text(), { description: 'Endpoints that do not serve the epoch yet.' })),
      stores: Type.Optional(stores()),
      current_epoch: Type.Optional(nullable(count('The newest after the run; null: there is none.'))),
      reason: Type.Optional(nullable(Failure)),
    }),
    { description: 'Those that the caller may read.' },
  ),
  progress: nullable(
    Type.Object(
      {
        product_id: text(),
        product: text('namespace.name'),
        phase: oneOf(['making', 'writing']),
        epoch: nullable(count('That is published; null while its rows are made.')),
        stores: stores(),
      },
      {
        description:
          'The product that is being made while the run goes on, if you may read it; tables that are being read are among the tables.',
      },
    ),
  ),
  created_at: time(),
  started_at: nullable(time()),
  finished_at: nullable(time()),
  error: nullable(Failure),
  waiting: nullable(
    Type.Object(
      { code: text(), message: text(), remedy: text(), until: time() },
      { description: 'Why a queued run does not begin yet, and when it will; null where it waits for a place only.' },
    ),
  ),
}

export const Run = Type.Object(runFields, { $id: 'Run' })
export const RunDetail = Type.Object(
  {
    ...runFields,
    failed_checks: Type.Array(
      Type.Object({
        product: text('namespace.name'),
        check: text(),
        severity: oneOf(['error', 'warn']),
        violations: nullable(count('Null: the check could not be run.')),
        total: nullable(count()),
        summary: text('With the first row, where you may see it: 3 of 1,000 rows, first: id=7 price=-1'),
      }),
      { description: 'Of the products that you may read, and the checks whose columns you may see.' },
    ),
    log: Type.Array(Type.Object({ at: time(), level: text(), message: text() })),
  },
  { $id: 'RunDetail' },
)

export const Grant = Type.Object(
  {
    id: text(),
    subject: Type.Object({ user: Type.Optional(text()), team: Type.Optional(text()) }),
    issuer: nullable(text('Whose user it is. Null: of a team.')),
    may: oneOf(['read', 'unmask']),
    classes: Type.Array(text()),
    grantable: Type.Array(text(), { description: 'What of it the subject may grant on: classes, or "read".' }),
    granted_by: text(),
    created_at: time(),
  },
  { $id: 'Grant' },
)

export const QuarantinedRow = Type.Object(
  {
    id: text(),
    table: text('schema.table'),
    column: nullable(text('At fault, where it is one.')),
    reason: text(),
    key: nullable(
      Type.Record(Type.String(), nullable(Type.String()), {
        description:
          'The key of the row, as the texts that reads in CSV have, by column; null where the source gives none.',
      }),
    ),
    raw: nullable(
      text('What cannot be carried, in the source’s words, cut where it is long; null where it gives nothing.'),
    ),
    carried: Type.Boolean({
      description:
        'The row came all the same, with null in the column: products that use the column are made without the row.',
    }),
    replayable: Type.Boolean({ description: 'The row is kept as a whole, so that it can be tried again.' }),
    not_replayable_reason: nullable(text('Null where it can be.')),
    run_id: text('The run that left the row, or the value, out.'),
    created_at: time(),
  },
  { $id: 'QuarantinedRow' },
)

export const EndedGrants = Type.Object(
  {
    ended: Type.Array(
      Type.Object({
        id: text(),
        product_id: nullable(text('Null: of raw tables.')),
        connection_id: nullable(text('Null: of a product.')),
        subject: Type.Object({ user: Type.Optional(text()), team: Type.Optional(text()) }),
        whole: Type.Boolean({ description: 'False: it goes on with less, because others had given it, too.' }),
        classes: Type.Array(text(), { description: 'Of one that goes on, what it unmasks still.' }),
      }),
      { description: 'Grants that rested on it, all the way.' },
    ),
  },
  { $id: 'EndedGrants' },
)

export const RawGrant = Type.Object(
  {
    id: text(),
    subject: Type.Object({ user: Type.Optional(text()), team: Type.Optional(text()) }),
    issuer: nullable(text('Whose user it is. Null: of a team.')),
    table: nullable(text('Null: every table of the connection.')),
    grantable: Type.Boolean({ description: 'Whether the subject may grant it on.' }),
    granted_by: text(),
    created_at: time(),
  },
  { $id: 'RawGrant' },
)

export const AuditEntry = Type.Object(
  {
    id: text(),
    tenant_id: nullable(text()),
    at: time(),
    actor: anything(),
    action: text(),
    object: Type.Object({ type: text(), id: nullable(text()) }),
    outcome: oneOf(['allowed', 'denied', 'failed']),
    request_id: nullable(text()),
    details: anything(),
  },
  { $id: 'AuditEntry' },
)

const CONSISTENT = 'Whether all of it is known to rest on the same rows of every table and product that it is made of.'

export const QueryResult = Type.Object(
  {
    columns: Type.Array(Type.Object({ name: text(), type: text(), masked: Type.Boolean() })),
    rows: Type.Array(Type.Array(Type.Unknown()), {
      description:
        'Values as all answers tell them: whole numbers beyond ±(2^53−1), decimals, NaN and infinities as strings; other numbers by digits that give the same one back; dates `YYYY-MM-DD`, timestamps `YYYY-MM-DDTHH:MM:SS.ffffff`, with `Z` where they have a zone; bytes in base64; documents to the letter.',
    }),
    row_count: count(),
    truncated: Type.Boolean(),
    meta: Type.Object({
      engine: text(),
      elapsed_ms: count(),
      snapshots: Type.Record(Type.String(), Type.String()),
      epochs: Type.Record(Type.String(), count(), { description: 'By product.' }),
      consistent: Type.Boolean({ description: CONSISTENT }),
      freshness: Type.Record(Type.String(), Type.Object({ read_at: time(), age_s: Type.Number() }), {
        description:
          'By product: since when its rows are, which is when the first of its inputs was read from its source.',
      }),
      columns_without_values: Type.Optional(
        Type.Record(Type.String(), Type.Array(Type.String()), {
          description:
            'By raw table, columns that are null in rows whose value could not be carried. The quarantine of the connection lists the values.',
        }),
      ),
    }),
  },
  { $id: 'QueryResult' },
)

const ReadMeta = Type.Object({
  product: text(),
  namespace: text(),
  version: text(),
  epoch: count(),
  snapshot_id: text(),
  as_of: text('When the epoch was committed.'),
  masked_columns: Type.Array(text()),
  store: text(),
  ttl_remaining_s: Type.Optional(Type.Number()),
  freshness: Type.Object(
    {
      read_at: time(),
      age_s: Type.Optional(
        Type.Number({ description: 'Of answers without an ETag; with one, the header X-Sluice-Freshness says it.' }),
      ),
    },
    {
      description:
        'Since when the rows are: when the first of the inputs that they were made of was read from its source.',
    },
  ),
})

export const ReadResult = Type.Object(
  {
    data: Type.Array(anything()),
    meta: ReadMeta,
    next_cursor: nullable(text()),
  },
  { $id: 'ReadResult' },
)

export const ReadKeysResult = Type.Object(
  {
    data: Type.Array(
      Type.Object({
        product: text('As it was asked for.'),
        store: text(),
        rows: Type.Optional(Type.Array(nullable(anything()), { description: 'In the order of the keys.' })),
        meta: Type.Optional(ReadMeta),
        error: Type.Optional(
          Type.Record(Type.String(), Type.Unknown(), {
            description: 'The problem that a read of its own is answered with.',
          }),
        ),
      }),
      { description: 'In the order of the items: rows and meta, or an error.' },
    ),
    meta: Type.Object({
      consistent: Type.Boolean({ description: `${CONSISTENT} Items that were not read do not count.` }),
    }),
  },
  { $id: 'ReadKeysResult' },
)
