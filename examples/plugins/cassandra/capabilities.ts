import { type Capabilities, EXACT_TYPES } from '@sluice/sdk'

export const capabilities: Capabilities = {
  commit: 'atomic',
  operations: ['get', 'scan'],
  filters: ['eq', 'ne', 'lt', 'le', 'gt', 'ge', 'in'],
  recover: true,
  digest: true,
  types: EXACT_TYPES,
  limits: { maxReadRows: 1000, maxRowBytes: 1 << 20 },
}
