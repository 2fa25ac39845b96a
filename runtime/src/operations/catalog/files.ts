/** How clients of the catalog reach the files of a table that they have loaded. */
import type { SignedFiles, SignedRequest, TableFiles } from '@sluice/iceberg'
import { isSluiceError, SluiceError } from '@sluice/sdk'
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
  { config }: Pick<CatalogDeps, 'config'>,
  address: string,
  signing: string,
): Readonly<Record<string, string>> {
  const { object_store: store } = config
  if (config.catalog.file_access !== 'signed' || store.type !== 's3') return {}
  return {
    's3.remote-signing-enabled': 'true',
    's3.signer': 'S3V4RestSigner',
    's3.signer.uri': address,
    's3.signer.endpoint': signing,
    's3.endpoint': store.endpoint,
    's3.region': store.region,
    's3.path-style-access': 'true',
    'py-io-impl': 'pyiceberg.io.fsspec.FsspecFileIO',
  }
}

export interface SigningRequest {
  readonly method: string
  readonly uri: string
  readonly region: string
  readonly headers?: Readonly<Record<string, readonly string[]>>
}

/** Headers of the store's own protocol that a client may send: all of them have to be signed, and some copy or grant. */
const AMZ_HEADER = /^x-amz-(?:checksum-[a-z0-9-]+|sdk-checksum-algorithm|trailer|decoded-content-length|te|user-agent)$/
const OWN_HEADERS = ['x-amz-date', 'x-amz-content-sha256', 'x-amz-security-token']

/**
 * Signs the reading of one file of the table, which the caller may load. Throws PERMISSION `catalog_signing_refused` for
 * anything else: writes are never signed.
 */
export async function signRead(
  platform: CatalogDeps,
  call: TenantCall,
  namespace: string,
  table: string,
  request: SigningRequest,
): Promise<SignedRequest> {
  const { method } = request
  if (method !== 'GET' && method !== 'HEAD') throw refused('the method is not one of files')
  const { signatures, endpoint } = requireSigning(platform)
  const url = targetOf(request.uri, endpoint)
  if ([...url.searchParams.keys()].some((name) => name !== 'x-id')) throw refused('the query is not of a file')
  await fileOf(platform, call, namespace, table, keyOf(url))
  return signatures.forRead(method, url, headersOf(request.headers ?? {}))
}

/** Throws PERMISSION `catalog_signing_refused` where nothing is signed. */
export function requireSigning({ config, signedFiles }: CatalogDeps): SignedFiles & { readonly endpoint: string } {
  if (signedFiles === null || config.object_store.type !== 's3') throw refused('this deployment signs no requests')
  return { ...signedFiles, endpoint: config.object_store.endpoint }
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

/**
 * Headers of the store's own protocol among those that a client means to send. Throws PERMISSION
 * `catalog_signing_refused` for one that copies, grants or marks.
 */
export function headersOf(headers: SigningRequest['headers'] & {}): Readonly<Record<string, string>> {
  const sent = Object.entries(headers).map(([name, values]) => [name.toLowerCase(), values.join(',').trim()] as const)
  const amz = sent.filter(([name]) => name.startsWith('x-amz-') && !OWN_HEADERS.includes(name))
  const strange = amz.find(([name, value]) => !AMZ_HEADER.test(name) || /[^ -~]/.test(value))
  if (strange !== undefined) throw refused('it has a header that is not of a plain file')
  const payload = sent.find(([name]) => name === 'x-amz-content-sha256')?.[1]
  // With a trailer the body is sent in chunks, which the store has to be told.
  const isChunked = payload === 'STREAMING-UNSIGNED-PAYLOAD-TRAILER'
  return { ...Object.fromEntries(amz), ...(isChunked ? { 'x-amz-content-sha256': payload } : {}) }
}

export function targetOf(uri: string, endpoint: string): URL {
  const url = URL.canParse(uri) ? new URL(uri) : null
  if (url === null || url.origin !== new URL(endpoint).origin || url.username !== '' || url.hash !== '') {
    throw refused('the address is not of this deployment’s object store')
  }
  return url
}

function requireIn(files: TableFiles, path: string): void {
  try {
    files.pathOf(files.store.uri(path))
  } catch {
    throw refused('the file is not one of the table')
  }
}

/** Bucket and key, as the store takes them. Throws PERMISSION `catalog_signing_refused`. */
export function keyOf(url: URL): string {
  try {
    const key = url.pathname.slice(1).split('/').map(decodeURIComponent)
    // A slash inside of a segment would be one more segment for the store.
    if (!key.some((segment) => segment.includes('/'))) return key.join('/')
  } catch {
    // Not text: refused as the others are.
  }
  throw refused('the file is not one of the table')
}

export function refused(reason: string): SluiceError {
  return new SluiceError('PERMISSION', `the request to the object store is not signed: ${reason}`, {
    code: 'catalog_signing_refused',
    remedy: 'Ask for single files below the location of the table that you have loaded.',
  })
}
