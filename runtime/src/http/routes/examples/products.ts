import type { OperationExamples } from '../../example.ts'
import { queued } from './runs.ts'
import {
  at,
  DIGEST,
  MANIFESTS,
  MATERIALIZATION_ID,
  PRODUCT,
  PRODUCT_ID,
  page,
  RUN_ID,
  SNAPSHOT_ID,
  TENANT,
} from './world.ts'

const params = { product_id: PRODUCT }

const PLAN_HASH = '6f1ed002ab5595859014ebf0951522d9a4d0f5d4e7c4b62a7b1f8ec0a1f7d1b2'
const STORES_HASH = '4e07408562bedb8b60ce05c1decfe3ad16b72230967de01f640b7e4729b49fce'

const product = {
  id: PRODUCT_ID,
  tenant_id: TENANT,
  name: 'customers',
  namespace: 'crm',
  archetype: 'source_aligned',
  description: 'Customers of the shop',
  classification: 'internal',
  status: 'deployed',
  current_version: '1.0.0',
  paused: null,
  created_at: at('08:10:00'),
  updated_at: at('08:12:00'),
}

const deployment = {
  id: 'dep_4f30a7ba000af8d8cd65696d',
  product_id: PRODUCT_ID,
  kind: 'deploy',
  version: '1.0.0',
  state: 'succeeded',
  error: null,
  created_by: 'dora',
  created_at: at('08:12:00'),
  finished_at: at('08:12:00'),
}

const input = { input: 'source', connection: 'shop', table: 'public.customers' }
const read = {
  ...input,
  mode: 'full',
  mode_reason: 'the table has no column that grows with every change',
  deletes: 'implied',
  deletes_reason: null,
  read_at: at('08:15:01'),
  schema_contract: { tables: 'evolve', columns: 'evolve', types: 'evolve', nullability: 'evolve' },
}

const plan = {
  version: '1.0.0',
  verdict: 'initial',
  changes: [],
  lake: ['create table crm.customers with 3 columns'],
  stores: [
    {
      endpoint: 'lookup',
      variant: 'masked',
      steps: [
        {
          action: 'create',
          description: 'table of crm.customers (masked) for the lookup endpoint',
          statement:
            'create table "crm"."customers__masked" (tenant_id text collate "C" not null, "id" integer not null, "city" text collate "C", "email" text collate "C") partition by list (tenant_id)',
        },
        {
          action: 'create',
          description: 'index of crm.customers',
          statement: 'alter table "crm"."customers__masked" add primary key (tenant_id, "id")',
        },
      ],
      hash: PLAN_HASH,
      columns: [
        { name: 'id', verdict: 'required', reason: 'part of the primary key' },
        { name: 'city', verdict: 'optional', reason: 'nothing is there yet' },
        { name: 'email', verdict: 'optional', reason: 'nothing is there yet' },
      ],
    },
    {
      endpoint: 'realtime',
      variant: 'masked',
      steps: [{ action: 'create', description: 'keep values of crm.customers under {id}' }],
      hash: PLAN_HASH,
      columns: [],
    },
  ],
  warnings: [],
  notes: [],
  problems: [],
  estimated_rows: 99,
  estimated_from: 'source',
  rows: { before: null, after: null, leaving: null, coming: null, not_counted: 'no version of it is in service' },
  access: {
    groups: [
      {
        type: 'team',
        name: 'svc-viewers',
        issuer: null,
        columns: [
          { name: 'id', before: 'absent', after: 'clear' },
          { name: 'city', before: 'absent', after: 'clear' },
          { name: 'email', before: 'absent', after: 'hash' },
        ],
      },
    ],
    groups_left_out: 0,
    changed_left_out: 0,
  },
  cost: [{ place: 'lake', variant: 'masked', rows: 99, bytes: null, whole: true }],
  lowered_classes: [],
  reaches: [],
  downstream: [],
  shared_checks: [],
  reads: [{ ...read, read_at: null }],
}

const snapshot = {
  id: MATERIALIZATION_ID,
  epoch: 1,
  state: 'committed',
  kind: 'materialize',
  version: '1.0.0',
  snapshot_id: SNAPSHOT_ID,
  rows: 99,
  quarantined_rows: 0,
  lossy_values: {},
  quality_score: 0,
  committed_at: at('08:15:03'),
  run_id: RUN_ID,
}

const quality = {
  checks: [
    {
      name: 'city_known',
      severity: 'warn',
      dimension: 'validity',
      weight: 1,
      on_error: 'block',
      passed: false,
      learning: false,
      violations: 3,
      total: 99,
      measured: null,
      compared: null,
      violating: {
        columns: ['id', 'city'],
        masked_columns: [],
        rows: [
          ['2', 'Lyons'],
          ['5', 'Lyons'],
          ['8', null],
        ],
      },
    },
  ],
  by_dimension: { validity: 0 },
}

const column = { role: 'attribute', classification: 'public', nullable: true, description: '', mask: null }
const endpoint = { description: '', state: 'ok', epoch: 1, behind: false, error: null, rows_left_out: 0 }
const schedule = {
  schedule: { every: '1h', catch_up: 'one' },
  next_run_at: at('10:08:00'),
  last_run: {
    id: RUN_ID,
    state: 'succeeded',
    trigger: 'schedule',
    created_at: at('09:08:00'),
    finished_at: at('09:08:02'),
  },
  schedule_state: {
    set_by: 'dora',
    right_lost: false,
    breaker: 'closed',
    failures: 0,
    open_until: null,
    skipped_at: null,
    skipped_reason: null,
  },
}

const detail = {
  ...product,
  owner: { team: 'crm', email: 'crm@example.com' },
  tags: [],
  schema: [
    { ...column, name: 'id', type: 'integer', role: 'identity', nullable: false },
    { ...column, name: 'email', type: 'string', classification: 'pii.identifier', mask: 'hash' },
    { ...column, name: 'city', type: 'string' },
  ],
  readable: true,
  endpoints: [
    {
      ...endpoint,
      type: 'lookup',
      config: { history_mode: 'current', index_columns: ['id', 'city'], tracked_columns: [] },
    },
    {
      ...endpoint,
      type: 'realtime',
      config: { ttl: '24h', key_template: '{id}', include_columns: ['id', 'email', 'city'] },
    },
    { ...endpoint, type: 'analytics', config: {} },
  ],
  ...schedule,
  change_topics: [],
  dashboards: null,
  freshness: { read_at: at('08:14:58'), age_s: 6, objective_s: 86_400, met: true },
  availability: { objective_percent: null },
  preview: null,
  content: {
    write_mode: 'merge',
    keeps_missing: false,
    note: 'rows that the output no longer has leave the lake and every store',
    one_moment: null,
  },
  reads: [read],
  notices: [],
  lineage: { inputs: [{ name: 'source', connection: 'shop', table: 'public.customers' }], downstream: [] },
  quality: { score: 0, ...quality },
  expectations: [],
  versions: [{ version: '1.0.0', digest: DIGEST, deployed_by: 'dora', deployed_at: at('08:12:00') }],
  last_materialization: snapshot,
}

const grant = {
  id: 'grt_ea8c1f76bb3c0682711f7a8c',
  subject: { team: 'marketing' },
  issuer: null,
  may: 'unmask',
  classes: ['pii.identifier'],
  grantable: [],
  granted_by: 'dora',
  created_at: at('09:30:00'),
}

/** The part of the answer that tells what was filled in. */
const parsed = {
  manifests: {
    product: { name: 'customers', namespace: 'crm', archetype: 'source_aligned', classification: 'internal' },
    output: { format: 'iceberg', primaryKey: ['id'], writeMode: 'merge', keepMissing: false },
    digest: DIGEST,
  },
  warnings: [
    {
      manifest: 'serving',
      line: 5,
      column: 48,
      path: 'endpoints[1].config.time_column',
      message: '"since" may be empty; rows without a time are not served by this endpoint',
      hint: 'Set nullable: false in output.yaml.',
    },
  ],
}

/** Without what is in its parts. */
const document = {
  openapi: '3.1.0',
  info: {
    title: PRODUCT,
    version: '1.0.0',
    description: 'The product crm.customers, version 1.0.0 when this was written.',
  },
  servers: [{ url: 'https://sluice.example.com' }],
  tags: [{ name: 'Serving' }, { name: 'Query' }],
  paths: {},
  components: { schemas: {}, securitySchemes: {} },
  'x-error-codes': {},
}

export const PRODUCT_EXAMPLES: OperationExamples = {
  createProduct: {
    body: {
      name: 'customers',
      namespace: 'crm',
      archetype: 'source_aligned',
      description: 'Customers of the shop',
    },
    answers: { 201: { ...product, status: 'draft', current_version: null } },
  },
  listProducts: {
    query: { namespace: 'crm', limit: 100 },
    answers: { 200: page({ ...product, ...schedule, notices: [] }) },
  },
  getProduct: { params, answers: { 200: detail } },
  getProductOpenApi: { params, answers: { 200: document } },
  updateProduct: {
    params,
    body: { description: 'Everybody who ever bought something' },
    answers: { 200: { ...product, description: 'Everybody who ever bought something' } },
  },
  deleteProduct: { params },
  uploadManifests: { params, body: MANIFESTS, answers: { 200: parsed } },
  getManifests: {
    params,
    answers: {
      200: {
        version: null,
        digest: DIGEST,
        uploaded_by: 'dora',
        uploaded_at: at('08:11:00'),
        manifests: MANIFESTS,
        shared_checks: [],
      },
    },
  },
  getManifestsOfVersion: {
    params: { ...params, version: '1.0.0' },
    answers: {
      200: {
        version: '1.0.0',
        digest: DIGEST,
        deployed_by: 'dora',
        deployed_at: at('08:12:00'),
        manifests: MANIFESTS,
        shared_checks: [],
      },
    },
  },
  planProduct: {
    params,
    query: { version: '1.0.0' },
    body: MANIFESTS,
    answers: { 200: { dry_run: true, verdict: 'initial', digest: DIGEST, stores_hash: STORES_HASH, plan } },
  },
  deployProduct: {
    params,
    body: { version: '1.0.0', dry_run: false, digest: DIGEST },
    answers: {
      200: {
        dry_run: true,
        verdict: 'initial',
        digest: DIGEST,
        stores_hash: STORES_HASH,
        plan: { ...plan, stores: [] },
      },
      201: {
        dry_run: false,
        deployment,
        run_id: null,
        digest: DIGEST,
        stores_hash: STORES_HASH,
        plan: { ...plan, stores: [] },
      },
    },
  },
  promoteProduct: {
    params,
    body: { digest: DIGEST },
    answers: {
      201: {
        dry_run: false,
        deployment,
        run_id: null,
        digest: DIGEST,
        stores_hash: STORES_HASH,
        plan: { ...plan, stores: [] },
      },
    },
  },
  discardPreview: { params },
  previewProduct: {
    params,
    body: { digest: DIGEST, rows: 2 },
    answers: {
      200: {
        digest: DIGEST,
        columns: [
          { name: 'id', type: 'integer', masked: false },
          { name: 'email', type: 'string', masked: true },
          { name: 'city', type: 'string', masked: false },
        ],
        rows: [
          [1, '5f2b8c0d9e7a64f31b2c8d7e6f5a4b3c', 'Berlin'],
          [2, '0c9d8e7f6a5b4c3d2e1f0a9b8c7d6e5f', 'Lyons'],
        ],
        row_count: 2,
        sample: { whole: false, input_rows: 10_000, rows_given: 99 },
        inputs: [{ ...input, snapshot_id: SNAPSHOT_ID, epoch: null, read_at: at('08:15:01') }],
        checks: quality.checks,
        checks_left_out: [],
        problems: [],
      },
    },
  },
  rollBackProduct: {
    params,
    body: { version: '1.0.0' },
    answers: {
      202: {
        deployment: { ...deployment, kind: 'rollback', state: 'running', finished_at: null },
        run_id: RUN_ID,
        notes: [
          'What the rollback brings back stays: connections are synced, and the product is not made anew from them until it is resumed or deployed.',
        ],
      },
    },
  },
  listDeployments: { params, answers: { 200: page(deployment) } },
  materializeProduct: { params, answers: { 202: queued('materialization') } },
  resumeProduct: { params, answers: { 202: queued('materialization') } },
  listSnapshots: { params, answers: { 200: page(snapshot) } },
  listQuality: { params, answers: { 200: page({ ...snapshot, quality }) } },
  createGrant: {
    params,
    body: { subject: { team: 'marketing' }, may: 'unmask', classes: ['pii.identifier'] },
    answers: { 201: grant },
  },
  listGrants: { params, answers: { 200: page(grant) } },
  deleteGrant: {
    params: { ...params, grant_id: grant.id },
    answers: {
      200: {
        ended: [
          {
            id: 'grt_5b0d0c7a1f2e3d4c5b6a7980',
            product_id: PRODUCT_ID,
            connection_id: null,
            subject: { user: 'vito' },
            whole: true,
            classes: [],
          },
        ],
      },
    },
  },
}
