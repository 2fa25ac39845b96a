import type { OperationExamples } from '../../example.ts'
import { at, CONNECTION_ID, MATERIALIZATION_ID, PRODUCT, PRODUCT_ID, page, RUN_ID, TENANT } from './world.ts'

/** A run as it is before a worker takes it. */
export function queued(kind: 'ingestion' | 'materialization') {
  return {
    id: RUN_ID,
    tenant_id: TENANT,
    kind,
    connection_id: kind === 'ingestion' ? CONNECTION_ID : null,
    product_id: kind === 'ingestion' ? null : PRODUCT_ID,
    state: 'queued',
    trigger: 'manual',
    replay: false,
    attempt: 0,
    waiting: null,
    tables: [],
    products: [],
    progress: null,
    created_at: at('08:15:00'),
    started_at: null,
    finished_at: null,
    error: null,
  }
}

const run = {
  ...queued('ingestion'),
  state: 'succeeded',
  attempt: 1,
  tables: [
    {
      name: 'public.customers',
      mode: 'full',
      rows_read: 99,
      mode_reason: 'the table has no column that grows with every change',
      deletes: 'implied',
      deletes_reason: null,
      rows_written: 99,
      rows_rejected: 0,
      rows_removed: null,
      rows_superseded: null,
      bytes: 8410,
      state: 'succeeded',
      cursor: null,
      error: null,
    },
  ],
  products: [
    {
      id: PRODUCT_ID,
      name: PRODUCT,
      rows: 99,
      epoch: 1,
      state: 'succeeded',
      behind: [],
      stores: [{ endpoint: 'lookup', state: 'ok', epoch: 1, error: null }],
      current_epoch: 1,
      reason: null,
      lossy_values: {},
      quarantined_rows: 0,
      materialization_id: MATERIALIZATION_ID,
    },
  ],
  started_at: at('08:15:00'),
  finished_at: at('08:15:04'),
}

const params = { run_id: RUN_ID }

const event = {
  specversion: '1.0',
  id: 'evt_cb30d85a286dc91b0a0604b7',
  source: `/tenants/${TENANT}`,
  type: 'sluice.materialization.committed',
  subject: PRODUCT_ID,
  time: at('08:15:03'),
  datacontenttype: 'application/json',
  tenantid: TENANT,
  sequence: '3',
  productsequence: '2',
  data: { rows: 99, epoch: 1, product: 'customers', version: '1.0.0', namespace: 'crm', quarantined: 0 },
}

export const RUN_EXAMPLES: OperationExamples = {
  listIngestion: { query: { tenant_id: TENANT, state: 'succeeded', limit: 1 }, answers: { 200: page(run) } },
  getIngestion: {
    params,
    answers: {
      200: {
        ...run,
        failed_checks: [
          {
            product: PRODUCT,
            check: 'city_known',
            severity: 'warn',
            violations: 3,
            total: 99,
            summary: 'city_known: 3 of 99 rows, first: id=2 city=Lyons',
          },
        ],
        log: [
          { at: at('08:15:01'), level: 'info', message: 'public.customers: 99 rows (full)' },
          { at: at('08:15:04'), level: 'info', message: 'crm.customers: epoch 1 with 99 rows is published' },
        ],
      },
    },
  },
  cancelIngestion: { params, answers: { 202: { ...queued('ingestion'), state: 'cancelled' } } },
  retryIngestion: { params, answers: { 202: { ...queued('ingestion'), trigger: 'retry' } } },
  listAudit: {
    query: { limit: 1 },
    answers: {
      200: page({
        id: 'fb8b6c31-8ca4-46d1-a7b5-50b0b8e58055',
        tenant_id: TENANT,
        at: at('10:00:00'),
        actor: { issuer: 'https://login.example.com', subject: 'dora' },
        action: 'product.materialize',
        object: { type: 'product', id: PRODUCT_ID },
        outcome: 'allowed',
        request_id: 'bf78564e-51ba-456d-bf26-514ade56373a',
        details: { run: RUN_ID },
      }),
    },
  },
  followEvents: {
    also: { 'text/event-stream': `retry: 3000\n\nid: 3\nevent: ${event.type}\ndata: ${JSON.stringify(event)}\n\n` },
  },
  keepUpLake: {
    params: { task: 'compact' },
    body: { table: PRODUCT },
    answers: {
      200: {
        task: 'compact',
        tables: [{ table: PRODUCT, compacted: true, snapshot_id: '8659611616465941', rows: 99 }],
        tables_seen: 1,
        next: null,
      },
    },
  },
}
