/** What the catalog is reached with beside HTTP: logins, signatures, and Trino. */
import { TrinoClient, type TrinoSettings } from '@sluice/analytics/trino/statements'
import { openSignedFiles, type SignedFiles } from '@sluice/iceberg'
import type pg from 'pg'
import { CatalogLogins } from '../catalog/logins.ts'
import { DistributedCompute } from '../compute/distributed.ts'
import type { Config } from '../config.ts'
import { parseAddress } from '../database/address.ts'
import type { Databases } from './storage.ts'

export async function openLogins(
  config: Config,
  { embedded, registry }: Databases,
  pool: pg.Pool,
): Promise<CatalogLogins> {
  const { catalog_admin_url: url } = config.database
  const admin = url === undefined ? (embedded?.address ?? null) : parseAddress(url)
  const logins = new CatalogLogins({
    pool,
    admin: admin === null ? null : { ...admin, database: registry.database },
    shown: { ...(embedded?.tcpAddress ?? registry), database: registry.database },
  })
  await logins.setMasking(config.masking)
  await logins.admitEngine()
  return logins
}

export async function signedFilesOf({ catalog, object_store: store }: Config): Promise<SignedFiles | null> {
  if (catalog.file_access !== 'signed' || store.type !== 's3' || !store.path_style) return null
  return openSignedFiles(store.endpoint, store)
}

/** The Trino that serves analytics, and so answers queries; undefined where none does. */
export function servingTrino({ serving: { analytics } }: Config): TrinoSettings | undefined {
  return analytics?.driver === 'trino' ? (analytics.settings as unknown as TrinoSettings | undefined) : undefined
}

/** Each Trino that the runtime has a login of. */
export function trinosOf(config: Config): readonly TrinoSettings[] {
  const settings = [config.compute.trino as TrinoSettings | undefined, servingTrino(config)].filter(
    (one) => one !== undefined,
  )
  return settings.filter((one, at) => settings.findIndex(({ url }) => url === one.url) === at)
}

/** Says nothing to Trino yet: a runtime starts without it, and what needs it says so. */
export function distributedBy(settings: TrinoSettings | undefined): DistributedCompute | null {
  return settings === undefined ? null : new DistributedCompute(new TrinoClient(settings), settings.catalog)
}
