import type { OperationExamples } from '../../example.ts'
import { queued } from './runs.ts'
import { at, CONNECTION_ID, ISSUER, page, RUN_ID, TENANT } from './world.ts'

const settings = { host: 'db.example.com', port: 5432, database: 'shop', user: 'sluice', ssl_mode: 'require' }
const schedule = { cron: '0 6 * * MON-FRI', time_zone: 'Europe/Berlin', catch_up: 'one' }
const connection = {
  id: CONNECTION_ID,
  tenant_id: TENANT,
  name: 'shop',
  connector_type: 'postgresql',
  config: { ...settings, password: '********' },
  status: 'ok',
  last_tested_at: at('08:06:00'),
  source_since: null,
  created_by: 'dora',
  created_at: at('08:05:00'),
  updated_at: at('08:05:00'),
  log: null,
  following: null,
  schedule,
  next_run_at: '2026-03-05T05:00:11.250Z',
  last_run: {
    id: RUN_ID,
    state: 'succeeded',
    trigger: 'schedule',
    created_at: at('08:06:00'),
    finished_at: at('08:07:00'),
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
const config_encrypted = JSON.stringify({ ...settings, password: '<password>' })
const params = { connection_id: 'shop' }
const erasure = {
  id: 'era_6c1e1d8b203f4e5d6c7b8a91',
  table: 'public.customers',
  state: 'succeeded',
  found: { rows: 1, snapshots: { 'raw_crm.public.customers': 4, 'crm.customers': 3 } },
  proof: {
    tables: ['raw_crm.public.customers', 'crm.customers'],
    products: [{ name: 'crm.customers', epoch: 5, by_key: true, histories: [] }],
    quarantined: 0,
    exports: 1,
    rows: 0,
  },
  key_columns: ['id'],
  key_digest: '4f1d8a6b0c2e3d4f5a6b7c8d9e0f1a2b3c4d5e6f708192a3b4c5d6e7f8091a2b',
  run_id: RUN_ID,
  note: 'The source is not changed.',
  created_at: at('08:15:00'),
  finished_at: at('08:15:09'),
}

const rawGrant = {
  id: 'rgt_a65767e16d591dcd2cac04ef',
  subject: { user: 'vito' },
  issuer: ISSUER,
  table: 'public.customers',
  grantable: false,
  granted_by: 'dora',
  created_at: at('09:00:00'),
}

export const CONNECTION_EXAMPLES: OperationExamples = {
  createConnection: {
    body: { name: 'shop', connector_type: 'postgresql', config_encrypted, schedule },
    answers: { 201: { ...connection, status: 'untested', last_tested_at: null, last_run: null } },
  },
  listConnections: { query: { limit: 100 }, answers: { 200: page(connection) } },
  getConnection: { params, answers: { 200: connection } },
  updateConnection: {
    params,
    body: { name: 'shop', config_encrypted },
    answers: { 200: { ...connection, updated_at: at('10:00:00') } },
  },
  getConnectionLag: {
    params,
    answers: {
      200: {
        connection_id: CONNECTION_ID,
        connection: 'shop',
        next_run_at: connection.next_run_at,
        last_run: connection.last_run,
        breaker: 'closed',
        log: null,
        following: null,
        tables: [
          {
            table: 'public.customers',
            read_at: at('08:06:01'),
            age_s: 42,
            last_read: { run_id: RUN_ID, state: 'succeeded', error_code: null, at: at('08:06:58') },
            backfill_asked_at: null,
          },
        ],
      },
    },
  },
  deleteConnection: { params },
  testConnection: {
    params,
    answers: {
      200: {
        ok: true,
        latency_ms: 11,
        server_version: '18.4',
        checks: [
          { name: 'dns', ok: true, message: 'db.example.com resolves, and connections to it are allowed' },
          { name: 'tcp', ok: true, message: 'port 5432 accepts connections' },
          { name: 'tls', ok: true, message: 'the connection is encrypted' },
          { name: 'auth', ok: true, message: 'the server lets the user into the database' },
          { name: 'privileges', ok: true, message: 'the login may read 1 table or view' },
        ],
      },
    },
  },
  discoverConnection: {
    params: { connection_name: 'shop' },
    answers: {
      200: {
        tables: [
          {
            schema: 'public',
            name: 'customers',
            kind: 'table',
            estimated_rows: 99,
            primary_key: ['id'],
            columns: [
              { name: 'id', type: 'integer', source_type: 'integer', nullable: false, classes: [] },
              { name: 'email', type: 'string', source_type: 'text', nullable: true, classes: ['pii.identifier'] },
              { name: 'city', type: 'string', source_type: 'text', nullable: true, classes: [] },
            ],
            suggested_cursor: null,
          },
        ],
      },
    },
  },
  pushRows: {
    params,
    query: { table: 'orders' },
    body: [
      { id: 1, city: 'Bonn', total: '12.50' },
      { id: 2, _op: 'delete' },
    ],
    answers: { 202: { table: 'public.orders', rows: 2, sequence: 7, durability: 'stored' } },
  },
  receiveWebhook: {
    params: { connection_id: CONNECTION_ID },
    body: { type: 'order.paid', data: { id: 1 } },
    answers: { 202: { table: 'public.hooks', rows: 1, sequence: 8, durability: 'stored' } },
  },
  syncConnection: { params, answers: { 202: queued('ingestion') } },
  withdrawBackfill: { params },
  backfillConnection: { params, body: { tables: ['public.people'] }, answers: { 202: queued('ingestion') } },
  listQuarantine: {
    params,
    query: { table: 'public.customers' },
    answers: {
      200: page({
        id: 'qrn_5b0d0c7a1f2e3d4c5b6a7980',
        table: 'public.customers',
        column: 'since',
        reason: 'a date before year 1',
        key: { id: '42' },
        raw: '0044-03-15 BC',
        carried: false,
        replayable: true,
        not_replayable_reason: null,
        run_id: RUN_ID,
        created_at: at('08:15:01'),
      }),
    },
  },
  replayQuarantine: {
    params,
    body: { table: 'public.customers', limit: 100 },
    answers: { 202: { ...queued('ingestion'), replay: true } },
  },
  discardQuarantine: {
    params,
    body: { table: 'public.customers', ids: ['qrn_5b0d0c7a1f2e3d4c5b6a7980'] },
    answers: { 200: { discarded: 1 } },
  },
  createErasure: {
    params,
    body: { table: 'public.customers', key: { id: 42 }, expire_history: true },
    answers: { 202: erasure },
  },
  listErasures: { params, answers: { 200: page(erasure) } },
  getErasure: { params: { ...params, erasure_id: erasure.id }, answers: { 200: erasure } },
  createRawGrant: {
    params,
    body: { subject: { user: 'vito' }, issuer: ISSUER, table: 'public.customers' },
    answers: { 201: rawGrant },
  },
  listRawGrants: { params, answers: { 200: page(rawGrant) } },
  deleteRawGrant: {
    params: { ...params, grant_id: rawGrant.id },
    answers: {
      200: {
        ended: [
          {
            id: 'rgt_1f2e3d4c5b6a79805b0d0c7a',
            product_id: null,
            connection_id: CONNECTION_ID,
            subject: { team: 'marketing' },
            whole: true,
            classes: [],
          },
        ],
      },
    },
  },
}
