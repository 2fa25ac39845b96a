import { type Capabilities, EXACT_TYPES } from '@sluice/sdk'

export const capabilities: Capabilities = {
  commit: 'lake',
  lakeDeletes: true,
  operations: ['scan'],
  filters: ['eq', 'ne', 'lt', 'le', 'gt', 'ge', 'in'],
  recover: true,
  jsonBatches: true,
  types: EXACT_TYPES,
  // Trino folds names to lower case; the rest is what the lake can hold.
  limits: { maxReadRows: 10_000, maxRowBytes: 1 << 20, namePattern: '[a-z0-9_-]{1,200}' },
}
