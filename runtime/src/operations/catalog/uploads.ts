/**
 * Writing files of plain tables without a key to the object store. Writes are not signed, because stores obey headers
 * that nobody has signed, and a signature outlives what was decided: clients send each to the runtime instead, which
 * decides when it comes and makes a request of its own.
 */
import type { RelayedAnswer, TableFiles } from '@sluice/iceberg'
import { isSluiceError, type SluiceError } from '@sluice/sdk'
import type { BodyStream, TenantCall } from '../../flow.ts'
import { SANDBOX } from '../../lake/tenant-layout.ts'
import { requireDeveloper } from '../platform.ts'
import { checkStorage } from '../tenants/tenants.ts'
import type { CatalogDeps } from './deps.ts'
import { fileOf, headersOf, keyOf, refused, requireSigning, type SigningRequest, targetOf } from './files.ts'
import type { LoadedTable } from './read.ts'

export type UploadMethod = 'PUT' | 'POST' | 'DELETE'

/** Where a write is to be sent. */
export interface UploadPlace {
  /** Bucket and key. */
  readonly path: string
  /** The store's own parameters: those of an upload in parts, or none. */
  readonly parameters: Readonly<Record<string, string>>
}

/** In one request; what is larger comes in parts. S3 takes parts of 5 MiB and more. */
const MAX_BODY_BYTES = 256 * 1024 * 1024
/** The list of an upload's 10,000 parts fits in several times. */
const MAX_LIST_BYTES = 4 * 1024 * 1024
/** Of one tenant; engines send some parts at once. */
const MAX_AT_ONCE = 16

const PART = /^(?:[1-9]\d{0,3}|10000)$/
const UPLOAD_ID = /^[\w.~+/=-]{1,1024}$/
const CHECKSUM_HEADER = /^(?:content-md5|x-amz-checksum-[a-z0-9]{1,20}|x-amz-sdk-checksum-algorithm)$/
const CHECKSUM_VALUE = /^[\w+/=-]{1,128}$/
const CHUNKED = 'STREAMING-UNSIGNED-PAYLOAD-TRAILER'

/** Whether the request writes, as signers name requests. */
export const isUpload = ({ method }: Pick<SigningRequest, 'method'>): boolean =>
  method === 'PUT' || method === 'POST' || method === 'DELETE'

/**
 * Where the client is to send the write that it asks a signature for. Throws PERMISSION `catalog_signing_refused` as
 * sending it would.
 */
export async function placeOfUpload(
  platform: CatalogDeps,
  call: TenantCall,
  namespace: string,
  table: string,
  request: SigningRequest,
): Promise<UploadPlace> {
  const url = targetOf(request.uri, requireSigning(platform).endpoint)
  const parameters = Object.fromEntries([...url.searchParams].filter(([name]) => name !== 'x-id'))
  if (new Set(url.searchParams.keys()).size !== url.searchParams.size) throw refused('the query is not of a file')
  const place = { path: keyOf(url), parameters }
  requireUpload(request.method as UploadMethod, parameters)
  headersOf(request.headers ?? {})
  await requireWritable(platform, call, namespace, table, request.method as UploadMethod, place)
  return place
}

const underWay = new Map<string, number>()

/** Sends the write to the store. What the store, or a rule of ours, has against it is answered as S3 does. */
export async function takeUpload(
  platform: CatalogDeps,
  call: TenantCall,
  namespace: string,
  table: string,
  method: UploadMethod,
  place: UploadPlace,
  body: BodyStream | null,
): Promise<RelayedAnswer> {
  const count = underWay.get(call.tenant) ?? 0
  if (count >= MAX_AT_ONCE) return answered(503, 'SlowDown', 'too many uploads of this tenant are under way')
  underWay.set(call.tenant, count + 1)
  try {
    return await relay(platform, call, namespace, table, method, place, body)
  } catch (error) {
    if (isSluiceError(error, 'PERMISSION') || isSluiceError(error, 'QUOTA')) return denied(error)
    if (isSluiceError(error, 'TRANSIENT')) return answered(503, 'ServiceUnavailable', error.message)
    throw error
  } finally {
    const left = (underWay.get(call.tenant) ?? 1) - 1
    if (left > 0) underWay.set(call.tenant, left)
    else underWay.delete(call.tenant)
  }
}

async function relay(
  platform: CatalogDeps,
  call: TenantCall,
  namespace: string,
  table: string,
  method: UploadMethod,
  place: UploadPlace,
  body: BodyStream | null,
): Promise<RelayedAnswer> {
  const { relay: store } = requireSigning(platform)
  requireUpload(method, place.parameters)
  const { files } = await requireWritable(platform, call, namespace, table, method, place)
  await platform.lake.requireOwn(call.tenant)
  const { path, parameters } = place
  const makesFile =
    (method === 'PUT' && !('partNumber' in parameters)) || (method === 'POST' && 'uploadId' in parameters)
  if ((makesFile || 'uploads' in parameters) && (await files.store.stat(path)) !== null) {
    return answered(412, 'PreconditionFailed', 'the file exists, and files are written once')
  }
  if (method === 'PUT' || 'uploads' in parameters) await checkStorage(platform, call.tenant)
  const { headers, sizeBytes } = body === null ? { headers: {}, sizeBytes: 0 } : sentWith(method, body)
  if (sizeBytes === null) return answered(411, 'MissingContentLength', 'the length of the body must be given')
  if (sizeBytes > (method === 'PUT' ? MAX_BODY_BYTES : MAX_LIST_BYTES)) {
    return answered(400, 'EntityTooLarge', `more than ${MAX_BODY_BYTES} bytes come in parts`)
  }
  // Between the look and the write another one may have made the file.
  const once = makesFile ? { 'if-none-match': '*' } : {}
  const sent = body === null || sizeBytes === 0 ? null : { sizeBytes, bytes: body.bytes }
  return store.send({ method, path, parameters, headers: { ...headers, ...once }, body: sent, signal: call.signal })
}

/** What each method is for: a whole file, an upload in parts, its end, and removing. Nothing else of the protocol. */
function requireUpload(method: UploadMethod, parameters: Readonly<Record<string, string>>): void {
  const names = Object.keys(parameters).sort().join()
  const { partNumber, uploadId, uploads = '' } = parameters
  const isKnown = { PUT: ['', 'partNumber,uploadId'], POST: ['uploads', 'uploadId'], DELETE: ['', 'uploadId'] }[
    method
  ].includes(names)
  const isPlain =
    uploads === '' &&
    (partNumber === undefined || PART.test(partNumber)) &&
    (uploadId === undefined || UPLOAD_ID.test(uploadId))
  if (!isKnown || !isPlain) throw refused('the query is not of a file')
}

/** Throws PERMISSION `catalog_signing_refused` for files of products, of other tables, and those that a table has. */
async function requireWritable(
  platform: CatalogDeps,
  call: TenantCall,
  namespace: string,
  table: string,
  method: UploadMethod,
  { path, parameters }: UploadPlace,
): Promise<{ readonly files: TableFiles }> {
  if (namespace !== SANDBOX) throw refused('files of products are read only')
  requireDeveloper(call.principal)
  const { files, loaded } = await fileOf(platform, call, namespace, table, path)
  // Of an upload in parts only its beginning and end are about the file.
  const isPart = 'uploadId' in parameters && method !== 'POST'
  if (!isPart && loaded !== null && (await isCommitted(platform, call, loaded, path))) {
    throw refused('the file is part of the table, and stays as it is')
  }
  return { files }
}

/** Metadata files are the catalog's own. Of the others, a table has what its snapshots and statistics lead to. */
async function isCommitted(
  platform: CatalogDeps,
  call: TenantCall,
  { state, metadata }: LoadedTable,
  path: string,
): Promise<boolean> {
  if (path.endsWith('.metadata.json')) return true
  const uri = state.files.store.uri(path)
  const statistics = [metadata['statistics'], metadata['partition-statistics']].flatMap((list) =>
    Array.isArray(list) ? (list as readonly { readonly 'statistics-path'?: unknown }[]) : [],
  )
  if (statistics.some((one) => one['statistics-path'] === uri)) return true
  return platform.reachable.has(state.files, metadata, path, call.signal)
}

/** Headers of the store's protocol that tell how the body is written, and its length as it is sent; null where unknown. */
function sentWith(
  method: UploadMethod,
  { headers }: BodyStream,
): { readonly headers: Readonly<Record<string, string>>; readonly sizeBytes: number | null } {
  const lists = Object.fromEntries(Object.entries(headers).map(([name, value = '']) => [name, [value].flat()]))
  headersOf(lists)
  const given = (name: string) => (lists[name] ?? []).join(',').trim()
  const kept = Object.keys(lists).filter((name) => CHECKSUM_HEADER.test(name) && CHECKSUM_VALUE.test(given(name)))
  const checksums = Object.fromEntries(kept.map((name) => [name, given(name)]))
  const length = given('content-length')
  const sizeBytes = /^\d{1,15}$/.test(length) ? Number(length) : null
  if (given('content-encoding') !== 'aws-chunked') return { headers: checksums, sizeBytes }
  const [decoded, trailer] = [given('x-amz-decoded-content-length'), given('x-amz-trailer')]
  const isKnown = given('x-amz-content-sha256') === CHUNKED && method === 'PUT'
  if (!isKnown || !/^\d{1,15}$/.test(decoded) || !/^(?:x-amz-checksum-[a-z0-9]{1,20})?$/.test(trailer)) {
    throw refused('its body is written in a way that is not known')
  }
  const chunked = {
    'content-encoding': 'aws-chunked',
    'x-amz-content-sha256': CHUNKED,
    'x-amz-decoded-content-length': decoded,
    ...(trailer === '' ? {} : { 'x-amz-trailer': trailer }),
  }
  return { headers: { ...checksums, ...chunked }, sizeBytes }
}

const denied = (error: SluiceError) => answered(403, 'AccessDenied', `${error.message}. ${error.remedy ?? ''}`.trim())

/** As clients of the store read it. */
function answered(status: number, code: string, message: string): RelayedAnswer {
  const text = message.replaceAll('&', '&amp;').replaceAll('<', '&lt;')
  const body = `<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>${code}</Code><Message>${text}</Message></Error>`
  return { status, etag: null, contentType: 'application/xml', body: Buffer.from(body) }
}
