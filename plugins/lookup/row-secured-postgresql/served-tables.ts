/**
 * Where the rows of a dataset stand, as SQL for what reads them beside the store: a view whose owner owns the tables and that
 * gives one tenant's rows away. The register and its tables are this package's own and may change: whoever reads beside the store
 * asks here and names neither. What is read has no fence and no policy of reads; only row security holds, by the session's tenant.
 */
import { physicalName } from '@sluice/sdk'
import { STORE_SCHEMA } from './datasets.ts'

/** Of every table of rows: the tenant that a row belongs to. */
export const OWNER_COLUMN = 'tenant_id'

/** What the stores add to a table beside the product's columns. */
export const ADDED_COLUMNS: readonly string[] = [OWNER_COLUMN, 'row_number']

/** For each part of a dataset's name the SQL of its text: a parameter or a column. */
export interface DatasetSql {
  readonly tenant: string
  readonly domain: string
  readonly product: string
  readonly variant: string
  readonly endpoint: string
}

/** The schema of the tables of a domain. */
export function schemaOf(domain: string): string {
  return physicalName(domain)
}

/** SQL of a call that lets the rest of the transaction see this tenant's rows and register alone; `''` is no tenant's. */
export function enterTenant(tenant: string): string {
  return `set_config('app.tenant_id', ${tenant}, true)`
}

/** SQL of a boolean: whether a store has been at work in this database at all. Until then `servedTable` fails. */
export const HAS_REGISTER = `to_regclass('${STORE_SCHEMA}.datasets') is not null`

/**
 * SQL of a query of one text: the table in `schemaOf` its domain that serves the dataset now, or no line where it has no rows yet.
 * It takes a transaction that has entered the tenant. The table may be another one at the next statement.
 */
export function servedTable(dataset: DatasetSql): string {
  return `select d.relation from ${STORE_SCHEMA}.datasets d
  where d.tenant_id = ${dataset.tenant} and d.domain = ${dataset.domain} and d.product = ${dataset.product}
    and d.variant = ${dataset.variant} and d.endpoint = ${dataset.endpoint} and d.epoch is not null`
}
