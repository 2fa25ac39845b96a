/** A tenant's catalog over the lake of the tests: its rows in PostgreSQL, its files in a folder. */
import type { TrinoSettings } from '../../plugins/analytics/trino/settings.ts'
import type { RegistryLake } from '../../runtime/src/lake/testing.ts'
import { sqlCatalog } from './catalogs.ts'

export async function catalogProperties(lake: RegistryLake): Promise<TrinoSettings['catalog']> {
  const { hostname, port, username, password } = new URL(process.env['SLUICE_TEST_POSTGRES_URL'] as string)
  const { rows } = await lake.pool.query<{ name: string }>('select current_database() as name')
  return sqlCatalog({
    url: `jdbc:postgresql://${hostname}:${port}/${rows[0]?.name}`,
    user: username,
    password,
    name: 'lakehouse_{tenant}',
    warehouse: 'file:///sluice-{tenant}',
  })
}
