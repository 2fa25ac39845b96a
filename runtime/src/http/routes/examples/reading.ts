import type { OperationExamples } from '../../example.ts'
import { at, PRODUCT, PRODUCT_ID, page, SNAPSHOT_ID } from './world.ts'

/** The e-mail address is masked: it shows which rows have the same. */
const row = { id: 7, email: 'fcd07ad601e1779a2f44e6a7ab105041', city: 'Berlin' }

function answer(store: string, row: Readonly<Record<string, unknown>>, more: Readonly<Record<string, unknown>> = {}) {
  const product = {
    product: 'customers',
    namespace: 'crm',
    version: '1.0.0',
    epoch: 1,
    snapshot_id: SNAPSHOT_ID,
    as_of: at('08:15:03'),
    masked_columns: ['email'],
  }
  const freshness = { read_at: at('08:14:58') }
  return { data: [row], meta: { ...product, store, ...more, freshness }, next_cursor: null }
}

const key = {
  id: 'key_435818531ea13cb3a1665f45',
  name: 'web shop',
  products: [PRODUCT_ID],
  operations: ['read'],
  unmask: [],
  created_by: 'dora',
  created_at: at('09:45:00'),
  expires_at: '2026-05-31T09:45:00.000Z',
  last_used_at: null,
}

const servicePassword = {
  id: 'svp_0f3c2a9d5b7e41c68a2d9e10',
  name: 'sales dashboards',
  group: 'sales',
  clearance: null,
  created_by: 'root',
  created_at: at('09:50:00'),
  expires_at: null,
  last_used_at: null,
}

const exported = {
  id: 'exp_5c1d0f6a2b7e48d9a3c6f012',
  state: 'succeeded',
  format: 'parquet',
  rows: 120_000,
  bytes: 1_873_204,
  columns: [
    { name: 'id', type: 'integer', masked: false },
    { name: 'email', type: 'string', masked: true },
  ],
  epochs: { [PRODUCT]: 1 },
  to: 'warehouse',
  address: 's3://acme-warehouse/from-sluice/acme/exp_5c1d0f6a2b7e48d9a3c6f012.parquet',
  error: null,
  created_at: at('09:45:00'),
  finished_at: at('09:45:02'),
  expires_at: '2026-03-03T09:45:02.000Z',
  link: {
    path: '/api/v1/exports/exp_5c1d0f6a2b7e48d9a3c6f012/file?expires=1772445600000&signature=dGhpcyBpcyBub3QgYSByZWFsIHNpZ25hdHVyZQ',
    expires_at: at('10:00:00'),
  },
}
const queuedExport = { ...exported, state: 'queued', rows: null, bytes: 0, columns: null, epochs: {}, address: null }

export const READING_EXAMPLES: OperationExamples = {
  readLookup: {
    params: { name: PRODUCT },
    query: { filter: ['id:7'], columns: 'id,email,city' },
    answers: { 200: answer('lookup:postgresql', row) },
  },
  readTimeseries: {
    params: { name: PRODUCT },
    query: { from: '2026-01-01', to: '2026-01-31', order: 'desc', limit: 1 },
    answers: { 200: answer('timeseries:postgresql', { ...row, since: '2026-01-08' }) },
  },
  readRealtime: {
    params: { name: PRODUCT },
    query: { key: '7' },
    answers: { 200: answer('realtime:lmdb', row, { ttl_remaining_s: 86_393 }) },
  },
  followChanges: {
    params: { name: PRODUCT },
    query: { from: 'start' },
    also: {
      'text/event-stream': [
        'retry: 3000\n\n',
        `id: AcmWcjNn…\nevent: upsert\ndata: ${JSON.stringify(row)}\n\n`,
        'id: AcmWcjNo…\nevent: delete\ndata: {"id":8}\n\n',
        `id: AcmWcjNp…\nevent: epoch\ndata: ${JSON.stringify({ epoch: 2, version: '1.0.0', committed_at: at('08:15:03') })}\n\n`,
      ].join(''),
    },
  },
  readKeys: {
    body: {
      items: [
        { product: PRODUCT, store: 'lookup', keys: [7, 8], columns: ['id', 'email', 'city'] },
        { product: 'crm.orders', store: 'realtime', keys: [{ order_no: 3 }] },
      ],
    },
    answers: {
      200: {
        data: [
          { product: PRODUCT, store: 'lookup', rows: [row, null], meta: answer('lookup:postgresql', row).meta },
          {
            product: 'crm.orders',
            store: 'realtime',
            error: {
              type: '/docs#error-product_not_found',
              title: 'No such product',
              status: 404,
              detail: 'there is no such product',
              instance: '/api/v1/read',
              code: 'product_not_found',
              request_id: 'req_7d3c1b',
              remedy: 'Check the id, the name, or namespace.name.',
            },
          },
        ],
        meta: { consistent: true },
      },
    },
  },
  query: {
    body: {
      sql: 'SELECT city, count(*) AS customers FROM crm.customers WHERE id > ? GROUP BY city ORDER BY city',
      params: [10],
      limit: 100,
    },
    answers: {
      200: {
        columns: [
          { name: 'city', type: 'string', masked: false },
          { name: 'customers', type: 'long', masked: false },
        ],
        rows: [
          ['Berlin', 60],
          ['Lyon', 29],
        ],
        row_count: 2,
        truncated: false,
        meta: {
          engine: 'duckdb',
          elapsed_ms: 21,
          snapshots: { [PRODUCT]: SNAPSHOT_ID },
          epochs: { [PRODUCT]: 1 },
          consistent: true,
          freshness: { [PRODUCT]: { read_at: at('08:14:58'), age_s: 6 } },
        },
      },
    },
    also: {
      'application/x-ndjson': '{"city":"Berlin","customers":60}\n{"city":"Lyon","customers":29}\n',
      'text/csv': 'city,customers\nBerlin,60\nLyon,29\n',
    },
  },
  makeTrainingSet: {
    body: {
      labels: [
        { customer: 7, event_time: '2026-01-31T00:00:00Z', has_left: false },
        { customer: 8, event_time: '2026-01-15T12:00:00Z', has_left: true },
      ],
      features: [
        {
          product: 'crm.visits',
          key: { customer_id: 'customer' },
          time_column: 'visited_at',
          columns: ['pages'],
          max_age: '30d',
        },
      ],
      known_by: '2026-02-01T00:00:00Z',
    },
    answers: {
      200: {
        columns: [
          { name: 'customer', type: 'long', masked: false },
          { name: 'event_time', type: 'timestamptz', masked: false },
          { name: 'has_left', type: 'boolean', masked: false },
          { name: 'visits__pages', type: 'integer', masked: false },
        ],
        rows: [
          [7, '2026-01-31T00:00:00.000000Z', false, 12],
          [8, '2026-01-15T12:00:00.000000Z', true, null],
        ],
        row_count: 2,
        truncated: false,
        meta: {
          engine: 'duckdb',
          elapsed_ms: 46,
          snapshots: { 'crm.visits@2026-02-01T00:00:00.000000Z': SNAPSHOT_ID },
          epochs: { 'crm.visits@2026-02-01T00:00:00.000000Z': 1 },
          consistent: true,
          freshness: {
            'crm.visits@2026-02-01T00:00:00.000000Z': { read_at: at('08:14:58'), age_s: 6 },
          },
        },
      },
    },
    also: {
      'application/x-ndjson':
        '{"customer":7,"event_time":"2026-01-31T00:00:00.000000Z","has_left":false,"visits__pages":12}\n{"customer":8,"event_time":"2026-01-15T12:00:00.000000Z","has_left":true,"visits__pages":null}\n',
      'text/csv':
        '"customer","event_time","has_left","visits__pages"\n7,2026-01-31T00:00:00.000000Z,false,12\n8,2026-01-15T12:00:00.000000Z,true,\n',
    },
  },
  createExport: {
    body: { product: PRODUCT, columns: ['id', 'email'], format: 'parquet', to: 'warehouse' },
    answers: { 202: { ...queuedExport, finished_at: null, link: null } },
  },
  listExports: { answers: { 200: page({ ...exported, link: null }) } },
  getExport: { params: { export_id: exported.id }, answers: { 200: exported } },
  deleteExport: { params: { export_id: exported.id } },
  downloadExport: {
    params: { export_id: exported.id },
    query: { expires: 1_772_445_600_000, signature: 'dGhpcyBpcyBub3QgYSByZWFsIHNpZ25hdHVyZQ' },
    also: {
      'text/csv': '"id","email"\n7,"fcd07ad601e1779a2f44e6a7ab105041"\n',
      'application/x-ndjson': '{"id":7,"email":"fcd07ad601e1779a2f44e6a7ab105041"}\n',
    },
  },
  createApplicationKey: {
    body: { name: 'web shop', products: [PRODUCT], operations: ['read'], expires_in_days: 90 },
    answers: { 201: { ...key, token: 'slk_435818531ea13cb3a1665f45_<secret>' } },
  },
  listApplicationKeys: { query: { limit: 100 }, answers: { 200: page({ ...key, last_used_at: at('11:02:00') }) } },
  deleteApplicationKey: { params: { key_id: key.id } },
  createServicePassword: {
    body: { name: 'sales dashboards', group: 'sales' },
    answers: { 201: { ...servicePassword, password: 'slp_<secret>' } },
  },
  listServicePasswords: {
    query: { limit: 100 },
    answers: { 200: page({ ...servicePassword, last_used_at: at('11:02:00') }) },
  },
  deleteServicePassword: { params: { password_id: servicePassword.id } },
  deleteApplicationKeysOf: { query: { created_by: 'leo' }, answers: { 200: { revoked: [key.id] } } },
}
