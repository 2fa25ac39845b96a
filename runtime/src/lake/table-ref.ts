import { SluiceError } from '@sluice/sdk'

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

/** A product’s name of 200, and what its copies have after it (`__quarantine__masked_0123abcd`); file systems take 255. */
const MAX_PART_BYTES = 240
// The parts become path segments, catalog keys and parts of a URI: what any of those gives a meaning to is refused.
// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what is refused
const FORBIDDEN = /[\u0000-\u001f\u007f/\\?#%*:"<>|]/

/** Throws INVALID_DATA where a part could leave its place or not be stored. */
export function checkTableRef(ref: TableRef): void {
  checkPart(ref.tenant, 'tenant')
  checkPart(ref.domain, 'domain')
  checkPart(ref.table, 'table')
}

export function checkPart(text: string, what: string): void {
  const good =
    text !== '' &&
    !text.startsWith('.') &&
    !FORBIDDEN.test(text) &&
    text.isWellFormed() &&
    Buffer.byteLength(text) <= MAX_PART_BYTES
  if (good) return
  throw new SluiceError('INVALID_DATA', `the ${what} name cannot be used in the lake`, {
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
