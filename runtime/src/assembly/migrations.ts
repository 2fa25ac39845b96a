/** All that this release has done to the registry's database, by whose tables they are. */
import { CATALOG_MIGRATIONS } from '../catalog/migrations.ts'
import { DASHBOARD_MIGRATIONS } from '../dashboards/migrations.ts'
import type { MigrationList } from '../database/migrate.ts'
import { eventMigrations } from '../events/migrations.ts'
import { LAKE_MIGRATIONS } from '../lake/migrations.ts'
import { registryMigrations } from '../registry/migrations.ts'

export const MIGRATIONS: readonly MigrationList[] = [
  registryMigrations,
  eventMigrations,
  LAKE_MIGRATIONS,
  CATALOG_MIGRATIONS,
  DASHBOARD_MIGRATIONS,
]
