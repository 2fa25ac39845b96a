/**
 * Tables of PostgreSQL that tenants share and row security divides: what the lookup and the timeseries store have in
 * common. One parent for all tenants whose products are of one shape, one partition a tenant, three logins, reads
 * whose tenant lasts for one round trip, and a register that moves rows and epoch in one transaction.
 */
export * from './column-types.ts'
export * from './content.ts'
export * from './copy-csv.ts'
export * from './datasets.ts'
export * from './driver-errors.ts'
export * from './epoch-writes.ts'
export * from './identifiers.ts'
export * from './page-query.ts'
export * from './page-reader.ts'
export * from './partitions.ts'
export * from './predicates.ts'
export * from './provisioning.ts'
export * from './row-security.ts'
export * from './schema-verdicts.ts'
export * from './sessions.ts'
export * from './settings.ts'
export * from './staging.ts'
export * from './table-shape.ts'
export * from './truncations.ts'
export * from './wall-checks.ts'
