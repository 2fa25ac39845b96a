import { SluiceError } from '@sluice/sdk'
import { lakeNameRefusal } from '../manifest/names.ts'

/**
 * Names one lake table. The three parts are also its place: namespace `domain` and table `table` in the catalog
 * `lakehouse_{tenant}`, and the folder `{tenant}/{domain}/{table}/` in the tenant's bucket.
 */
export interface TableRef {
  readonly tenant: string
  readonly domain: string
  readonly table: string
}

/** The namespace of each tenant for plain tables, which outside engines may make and change. No product can have it. */
export const SANDBOX = 'sandbox'

/** Throws INVALID_DATA where a part could leave its place or not be stored. */
export function checkTableRef(ref: TableRef): void {
  checkPart(ref.tenant, 'tenant')
  checkPart(ref.domain, 'domain')
  checkPart(ref.table, 'table')
}

export function checkPart(text: string, what: string): void {
  const refusal = lakeNameRefusal(text)
  if (refusal === null) return
  throw new SluiceError('INVALID_DATA', `the ${what} name cannot be used in the lake: it ${refusal}`, {
    code: 'lake_name_invalid',
    remedy: 'Use letters, digits, "_" and "-", at most 240 bytes.',
  })
}

export const bucketName = (tenant: string): string => `sluice-${tenant}`

export const catalogName = (tenant: string): string => `lakehouse_${tenant}`

/** The table's folder as a path in the object store: `sluice-acme/acme/sales/orders`. */
export function tablePath(ref: TableRef): string {
  checkTableRef(ref)
  return `${bucketName(ref.tenant)}/${ref.tenant}/${ref.domain}/${ref.table}`
}

/** For messages: the tenant's own words only. */
export const describeTable = (ref: TableRef): string => `${ref.domain}.${ref.table}`
