import { type Capabilities, EXACT_TYPES } from '@sluice/sdk'

export const CAPABILITIES: Capabilities = {
  commit: 'atomic',
  operations: ['range', 'aggregate', 'scan'],
  filters: ['eq', 'ne', 'lt', 'le', 'gt', 'ge', 'in'],
  recover: true,
  validate: true,
  digest: true,
  jsonBatches: true,
  types: EXACT_TYPES,
  limits: { maxReadRows: 10_000, maxRowBytes: 16 * 1024 * 1024, maxKeyBytes: 2000 },
}
