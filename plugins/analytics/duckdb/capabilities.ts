import { type Capabilities, EXACT_TYPES } from '@sluice/sdk'

export const capabilities: Capabilities = {
  commit: 'lake',
  lakeDeletes: true,
  operations: ['scan'],
  filters: ['eq', 'ne', 'lt', 'le', 'gt', 'ge', 'in'],
  recover: true,
  query: true,
  jsonBatches: true,
  types: EXACT_TYPES,
  limits: { maxReadRows: 10_000, maxRowBytes: 1 << 20 },
}
