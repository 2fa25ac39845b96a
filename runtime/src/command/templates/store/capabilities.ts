import { type Capabilities, EXACT_TYPES } from '@sluice/sdk'

/** What the store can do. The runtime uses nothing else, and the suite tries each line, in both directions. */
export const capabilities: Capabilities = {
  commit: 'atomic',
  operations: ['get', 'scan'],
  filters: ['eq', 'ne', 'lt', 'le', 'gt', 'ge', 'in'],
  recover: true,
  types: EXACT_TYPES,
  limits: { maxReadRows: 1000, maxRowBytes: 1 << 20 },
}
