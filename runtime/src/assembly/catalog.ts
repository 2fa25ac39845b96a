/** What the catalog is reached with beside HTTP: logins. */
import type pg from 'pg'
import { CatalogLogins } from '../catalog/logins.ts'
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
