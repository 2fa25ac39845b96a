/** How clients of the catalog reach the files of a table that they have loaded. */
import type { TableFiles } from '@sluice/iceberg'
import { type ClientRequest, isSluiceError, type LentAccess, type SignedRequest, SluiceError } from '@sluice/sdk'
import type { TenantCall } from '../../flow.ts'
import { SANDBOX } from '../../lake/tenant-layout.ts'
import type { CatalogDeps } from './deps.ts'
import { type LoadedTable, loadTable } from './read.ts'

/** Throws PERMISSION `catalog_files_closed` where tables are not for outside readers at all. */
export function requireFileAccess({ config }: Pick<CatalogDeps, 'config'>): void {
  if (config.catalog.file_access !== 'none') return
  throw new SluiceError('PERMISSION', 'this deployment gives nobody access to files', {
    code: 'catalog_files_closed',
    remedy: 'Use POST /api/v1/query, or ask the operator to set catalog.file_access.',
  })
}

/** Settings that go with a loaded table. `direct` has none: a client's own are right, and ours could spoil them. */
export function fileAccessOf(
  { lentAccess }: Pick<CatalogDeps, 'lentAccess'>,
  address: string,
  signing: string,
): Readonly<Record<string, string>> {
  return lentAccess?.settings({ address, signing }) ?? {}
}

/**
 * Signs the reading of one file of the table, which the caller may load. Throws PERMISSION `catalog_signing_refused` for
 * anything else: writes are never signed.
 */
export async function signRead(
  platform: CatalogDeps,
  call: TenantCall,
  namespace: string,
  table: string,
  request: ClientRequest,
): Promise<SignedRequest> {
  const read = requireLent(platform).read(request)
  await fileOf(platform, call, namespace, table, read.path)
  return read.sign()
}

/** Throws PERMISSION `catalog_signing_refused` where nothing is signed. */
export function requireLent({ lentAccess }: Pick<CatalogDeps, 'lentAccess'>): LentAccess {
  if (lentAccess === null) throw refused('this deployment signs no requests')
  return lentAccess
}

/**
 * The table that a file of that path is of, null where it is only staged to be made. Throws PERMISSION
 * `catalog_signing_refused` where the file is none that the caller may reach by that table's name.
 * @param path bucket and key
 */
export async function fileOf(
  platform: CatalogDeps,
  call: TenantCall,
  namespace: string,
  table: string,
  path: string,
): Promise<{ readonly files: TableFiles; readonly loaded: LoadedTable | null }> {
  try {
    const loaded = await loadTable(platform, call, namespace, table)
    const { files } = loaded.state
    requireIn(files, path)
    if (loaded.hidden > 0 && !(await platform.reachable.has(files, loaded.metadata, path, call.signal))) {
      throw refused('the file is of a snapshot that you may not see')
    }
    return { files, loaded }
  } catch (error) {
    const isMissing = isSluiceError(error) && error.code === 'catalog_table_not_found'
    if (!isMissing || namespace !== SANDBOX || !call.principal.isDeveloper) throw error
    // Nobody but its maker knows where a table is to lie that is not there yet.
    const files = await platform.sandbox.staged({ warehouse: call.tenant, namespace: SANDBOX, table }, path)
    if (files === null) throw error
    requireIn(files, path)
    return { files, loaded: null }
  }
}

function requireIn(files: TableFiles, path: string): void {
  try {
    files.pathOf(files.store.uri(path))
  } catch {
    throw refused('the file is not one of the table')
  }
}

export function refused(reason: string): SluiceError {
  return new SluiceError('PERMISSION', `the request to the object store is not signed: ${reason}`, {
    code: 'catalog_signing_refused',
    remedy: 'Ask for single files below the location of the table that you have loaded.',
  })
}
