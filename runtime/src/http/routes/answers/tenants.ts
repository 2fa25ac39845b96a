/** Tenants, as answers have them. */

import { Type } from 'typebox'
import { anything, count, nullable, oneOf, text, time } from './parts.ts'

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
