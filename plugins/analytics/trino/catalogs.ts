/** Each tenant has a catalog of its own in Trino, over the lake's tables: nothing is copied. */
import {
  checkNames,
  physicalName,
  SluiceError,
  type Target,
  type TenantScope,
  tenantOf,
  variantTable,
} from '@sluice/sdk'
import { quoted } from '../scan/scan-sql.ts'
import { capabilities } from './capabilities.ts'
import type { TrinoClient } from './client.ts'
import { textLiteral } from './dialect.ts'

const TIMEOUT_MS = 60_000
const MAX_CATALOG_BYTES = 100

/** `lakehouse_{tenant}`; a name that Trino could not tell from another, or use as a file's, ends with a hash. */
export function catalogOf(scope: TenantScope): string {
  const name = `lakehouse_${tenantOf(scope)}`
  if (/^[a-z][a-z0-9_-]*$/.test(name) && Buffer.byteLength(name) <= MAX_CATALOG_BYTES) return name
  const readable = name.toLowerCase().replace(/[^a-z0-9_-]/g, '_')
  // The hash is of the whole name: what was lost on the way tells names apart no more.
  return physicalName(`${readable}\u0000${name}`, readable.length + 14 - 1).replace(/[^a-z0-9_-]/g, '_')
}

/** Catalog, schema and table. Trino knows lower case only. */
export function tableOf({ scope, domain, product, variant }: Target): readonly string[] {
  return [catalogOf(scope), domain, variantTable(product, variant)]
}

/** Throws INVALID_DATA `unusable_name` for a name that the lake cannot hold, or that Trino would take for another. */
export function checkPlace(target: Target): void {
  checkNames(target, capabilities)
  if (target.schema.columns.every(({ name }) => name === name.toLowerCase())) return
  throw new SluiceError('INVALID_DATA', 'the analytics store knows columns in lower case only', {
    code: 'unusable_name',
    remedy: 'Write the names of columns in lower case.',
  })
}

/** Idempotent. */
export async function ensureCatalog(
  client: TrinoClient,
  scope: TenantScope,
  properties: Readonly<Record<string, string>>,
): Promise<void> {
  const settings = Object.entries(properties).map(
    ([name, value]) => `${quoted(name)} = ${textLiteral(value.replaceAll('{tenant}', tenantOf(scope)))}`,
  )
  const sql = `CREATE CATALOG IF NOT EXISTS ${quoted(catalogOf(scope))} USING iceberg WITH (${settings.join(', ')})`
  await client.rows({ sql, maxRows: 1, timeoutMs: TIMEOUT_MS })
}

/** Idempotent. */
export async function dropCatalog(client: TrinoClient, scope: TenantScope): Promise<void> {
  const sql = `DROP CATALOG IF EXISTS ${quoted(catalogOf(scope))}`
  await client.rows({ sql, maxRows: 1, timeoutMs: TIMEOUT_MS })
}
