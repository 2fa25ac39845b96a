import type { ExportFiles } from '../../lake/export-files.ts'
import type { QueriesDeps } from '../queries/deps.ts'
import type { TenantsDeps } from '../tenants/deps.ts'
import type { ExportDestinations } from './export-destinations.ts'

/** What the operations of `exports` work with, and those that they call. */
export interface ExportsDeps extends QueriesDeps, TenantsDeps {
  readonly exportFiles: ExportFiles
  readonly exportDestinations: ExportDestinations
}
