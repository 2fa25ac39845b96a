/** Catalogs that a test gives a Trino for as long as it needs them. */
import { type TrinoLogin, trinoRows } from './rows.ts'

/** Settings of Trino's iceberg connector for a runtime's Iceberg REST catalog; where files lie comes beside them. */
export function restCatalog(url: string, warehouse: string, token: string): Readonly<Record<string, string>> {
  return {
    'iceberg.catalog.type': 'rest',
    'iceberg.rest-catalog.uri': `${url}/iceberg`,
    'iceberg.rest-catalog.warehouse': warehouse,
    'iceberg.rest-catalog.security': 'OAUTH2',
    'iceberg.rest-catalog.oauth2.token': token,
    // The runtime's issuer gives out tokens, and the catalog none.
    'iceberg.rest-catalog.oauth2.token-refresh-enabled': 'false',
  }
}

export interface SqlCatalog {
  /** Of PostgreSQL, for JDBC. */
  readonly url: string
  readonly user: string
  readonly password: string
  /** Of the catalog in its tables. */
  readonly name: string
  readonly warehouse: string
}

/** The same for the SQL catalog of a lake in a folder. */
export function sqlCatalog({ url, user, password, name, warehouse }: SqlCatalog): Readonly<Record<string, string>> {
  return {
    ...LOCAL_FILES,
    'iceberg.catalog.type': 'jdbc',
    'iceberg.jdbc-catalog.driver-class': 'org.postgresql.Driver',
    'iceberg.jdbc-catalog.connection-url': url,
    'iceberg.jdbc-catalog.connection-user': user,
    'iceberg.jdbc-catalog.connection-password': password,
    'iceberg.jdbc-catalog.catalog-name': name,
    'iceberg.jdbc-catalog.schema-version': 'V1',
    'iceberg.jdbc-catalog.default-warehouse-dir': warehouse,
  }
}

export const LOCAL_FILES = { 'fs.native-local.enabled': 'true', 'local.location': '/' } as const

/** The statement that makes a catalog. */
export function createCatalog(name: string, properties: Readonly<Record<string, string>>): string {
  const settings = Object.entries(properties).map(([key, value]) => `"${key}" = '${value.replaceAll("'", "''")}'`)
  return `CREATE CATALOG ${name} USING iceberg WITH (${settings.join(', ')})`
}

/** Runs `work` with the catalog, which is gone afterwards. */
export async function withCatalog<Result>(
  login: TrinoLogin,
  name: string,
  properties: Readonly<Record<string, string>>,
  work: () => Promise<Result>,
): Promise<Result> {
  await trinoRows(login, createCatalog(name, properties))
  try {
    return await work()
  } finally {
    await trinoRows(login, `DROP CATALOG ${name}`)
  }
}
