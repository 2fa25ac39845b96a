import type { OperationExamples } from '../../example.ts'
import { at, page, TENANT } from './world.ts'

const tenant = {
  id: TENANT,
  slug: TENANT,
  display_name: 'Acme',
  tier: 'standard',
  status: 'active',
  limits: { products: 50, connections: 20, concurrent_executions: 5, storage_bytes: 100_000_000_000 },
  usage: { products: 1, connections: 1, running: 0, storage_bytes: 1_048_576 },
  resources: {
    bucket: 'sluice-acme',
    schema: { name: '{namespace}', tables: '{product}', row_security: 'forced on tenant_id' },
    topics: ['sluice.acme.tenant', 'sluice.acme.ingestion'],
    catalog: 'lakehouse_acme',
    destination: 's3://sluice-acme/acme/raw_{connection}/{table}/',
  },
  created_at: at('08:00:00'),
  provisioned_in_ms: 189,
}
const params = { tenant_id: TENANT }

const target = {
  id: 'ntf_5f6d1c0a9b8e7d6c5b4a3f2e',
  kind: 'webhook',
  name: 'on call',
  host: 'hooks.example.com',
  hears: 'own',
  created_by: 'dora',
  created_at: at('09:50:00'),
  delivered_at: null,
  error_code: null,
}

export const TENANT_EXAMPLES: OperationExamples = {
  createNotificationTarget: {
    body: { kind: 'webhook', name: 'on call', url: 'https://hooks.example.com/sluice' },
    answers: { 201: { ...target, signing_key: 'whsec_<key>' } },
  },
  listNotificationTargets: {
    query: { limit: 100 },
    answers: { 200: page({ ...target, delivered_at: at('10:12:00') }) },
  },
  deleteNotificationTarget: { params: { target_id: target.id } },
  createTenant: {
    body: { slug: TENANT, display_name: 'Acme', tier: 'standard' },
    answers: { 201: { ...tenant, usage: { products: 0, connections: 0, running: 0, storage_bytes: 0 } } },
  },
  listTenants: { query: { limit: 100 }, answers: { 200: page(tenant) } },
  getTenant: { params, answers: { 200: tenant } },
  updateTenant: { params, body: { tier: 'enterprise' }, answers: { 200: { ...tenant, tier: 'enterprise' } } },
  rotateTenantKey: { params, answers: { 200: { tenant_id: TENANT, resealed_secrets: 1 } } },
  rotateMasterKey: { answers: { 200: { master_key_id: 'mk_3b2597599e95', rewrapped_keys: 2 } } },
  deleteTenant: { params, query: { confirm: TENANT } },
  issueCatalogLogin: {
    params: { id: TENANT },
    answers: {
      201: {
        catalog: 'lakehouse_acme',
        host: 'sql.example.com',
        port: 5432,
        database: 'sluice_registry',
        user: 'sluice_catalog_02c6e57f47f2fe65',
        password: '<password>',
        uri: 'postgresql://sluice_catalog_02c6e57f47f2fe65:<password>@sql.example.com:5432/sluice_registry?sslmode=require',
      },
    },
  },
  revokeCatalogLogin: { params: { id: TENANT } },
}
