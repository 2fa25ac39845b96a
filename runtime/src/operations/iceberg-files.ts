/** How clients of the catalog reach the files of a table that they have loaded. */
import { isSluiceError, SluiceError } from '@sluice/sdk'
import { type SignedRequest, signRequest } from '../catalog/s3-signature.ts'
import type { TenantCall } from '../flow.ts'
import type { TableFiles } from '../lake/table-files.ts'
import { SANDBOX } from '../lake/table-ref.ts'
import { loadTable } from './iceberg-read.ts'
import { type Platform, requireDeveloper } from './platform.ts'

/** Throws PERMISSION `catalog_files_closed` where tables are not for outside readers at all. */
export function requireFileAccess({ config }: Pick<Platform, 'config'>): void {
  if (config.catalog.file_access !== 'none') return
  throw new SluiceError('PERMISSION', 'this deployment gives nobody access to files', {
    code: 'catalog_files_closed',
    remedy: 'Use POST /api/v1/query, or ask the operator to set catalog.file_access.',
  })
}

/** Settings that go with a loaded table. `direct` has none: a client's own are right, and ours could spoil them. */
export function fileAccessOf(
  { config }: Pick<Platform, 'config'>,
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

const READS = ['GET', 'HEAD']
const WRITES = ['PUT', 'POST', 'DELETE']
/** Headers of the store's own protocol that a client may send: all of them have to be signed, and some copy or grant. */
const AMZ_HEADER = /^x-amz-(?:checksum-[a-z0-9-]+|sdk-checksum-algorithm|trailer|decoded-content-length|te|user-agent)$/
const OWN_HEADERS = ['x-amz-date', 'x-amz-content-sha256', 'x-amz-security-token']

/** Of an upload in parts. Everything else in a query asks for more than one file, or for its rights. */
const WRITE_PARAMETERS = ['uploads', 'uploadId', 'partNumber', 'x-id']

/**
 * Signs one request to the object store for a file of the table: reading one that the caller may load the table for,
 * or, for developers, writing one of a plain table, which may be staged to be made only. Throws PERMISSION `catalog_signing_refused` for anything else.
 */
export async function signFor(
  platform: Platform,
  call: TenantCall,
  namespace: string,
  table: string,
  request: SigningRequest,
): Promise<SignedRequest> {
  const { object_store: store, catalog } = platform.config
  if (catalog.file_access !== 'signed' || store.type !== 's3' || !store.path_style) {
    throw refused('this deployment signs no requests')
  }
  const isRead = READS.includes(request.method)
  if (!isRead && !WRITES.includes(request.method)) throw refused('the method is not one of files')
  if (!isRead && namespace !== SANDBOX) throw refused('files of products are read only')
  if (!isRead) requireDeveloper(call.principal)
  const url = targetOf(request.uri, store.endpoint)
  const allowed = isRead ? ['x-id'] : WRITE_PARAMETERS
  if ([...url.searchParams.keys()].some((name) => !allowed.includes(name))) throw refused('the query is not of a file')
  await checkFile(platform, call, namespace, table, url)
  return signRequest(request.method, url, store, new Date(), headersOf(request))
}

/** Throws where the file is none that the caller may reach by that table's name. */
async function checkFile(platform: Platform, call: TenantCall, namespace: string, table: string, url: URL) {
  try {
    const loaded = await loadTable(platform, call, namespace, table)
    const path = pathIn(loaded.state.files, url)
    if (loaded.hidden > 0 && !(await platform.reachable.has(loaded.state.files, loaded.metadata, path, call.signal))) {
      throw refused('the file is of a snapshot that you may not see')
    }
  } catch (error) {
    const isMissing = isSluiceError(error) && error.code === 'catalog_table_not_found'
    if (!isMissing || namespace !== SANDBOX || !call.principal.isDeveloper) throw error
    // Nobody but its maker knows where a table is to lie that is not there yet.
    const files = await platform.sandbox.staged({ tenant: call.tenant, domain: SANDBOX, table }, keyOf(url))
    if (files === null) throw error
    pathIn(files, url)
  }
}

function headersOf({ headers = {} }: SigningRequest): Readonly<Record<string, string>> {
  const sent = Object.entries(headers).map(([name, values]) => [name.toLowerCase(), values.join(',').trim()] as const)
  const amz = sent.filter(([name]) => name.startsWith('x-amz-') && !OWN_HEADERS.includes(name))
  const strange = amz.find(([name, value]) => !AMZ_HEADER.test(name) || /[^ -~]/.test(value))
  if (strange !== undefined) throw refused('it has a header that is not of a plain file')
  const payload = sent.find(([name]) => name === 'x-amz-content-sha256')?.[1]
  // With a trailer the body is sent in chunks, which the store has to be told.
  const isChunked = payload === 'STREAMING-UNSIGNED-PAYLOAD-TRAILER'
  return { ...Object.fromEntries(amz), ...(isChunked ? { 'x-amz-content-sha256': payload } : {}) }
}

function targetOf(uri: string, endpoint: string): URL {
  const url = URL.canParse(uri) ? new URL(uri) : null
  if (url === null || url.origin !== new URL(endpoint).origin || url.username !== '' || url.hash !== '') {
    throw refused('the address is not of this deployment’s object store')
  }
  return url
}

function pathIn(files: TableFiles, url: URL): string {
  try {
    return files.pathOf(files.store.uri(keyOf(url)))
  } catch {
    throw refused('the file is not one of the table')
  }
}

/** Bucket and key, as the store takes them. Throws PERMISSION `catalog_signing_refused`. */
function keyOf(url: URL): string {
  try {
    const key = url.pathname.slice(1).split('/').map(decodeURIComponent)
    // A slash inside of a segment would be one more segment for the store.
    if (!key.some((segment) => segment.includes('/'))) return key.join('/')
  } catch {
    // Not text: refused as the others are.
  }
  throw refused('the file is not one of the table')
}

function refused(reason: string): SluiceError {
  return new SluiceError('PERMISSION', `the request to the object store is not signed: ${reason}`, {
    code: 'catalog_signing_refused',
    remedy: 'Ask for single files below the location of the table that you have loaded.',
  })
}
