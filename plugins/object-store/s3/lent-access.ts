/**
 * How clients of the catalogue without a key reach files of an S3 store: they read by signatures of single requests, and
 * the runtime writes for them. What a request may consist of is said here; whose file it is, is the runtime's to decide.
 */
import {
  type AskedWrite,
  type ClientRequest,
  isObjectPath,
  isSluiceError,
  type LentAccess,
  type LentWrite,
  SluiceError,
  type StoreAnswer,
  type WriteMethod,
  type WritePlace,
  type WriteRefusal,
  type WriteStep,
} from '@sluice/sdk'
import { LentSignatures } from './lent-signatures.ts'
import { S3Relay } from './relay.ts'
import type { S3Settings } from './requests.ts'
import type { SigningKey } from './signature.ts'

type Headers = ClientRequest['headers'] & {}

/** Headers of the store's own protocol that a client may send: all of them have to be signed, and some copy or grant. */
const AMZ_HEADER = /^x-amz-(?:checksum-[a-z0-9-]+|sdk-checksum-algorithm|trailer|decoded-content-length|te|user-agent)$/
const OWN_HEADERS = ['x-amz-date', 'x-amz-content-sha256', 'x-amz-security-token']

const PART = /^(?:[1-9]\d{0,3}|10000)$/
const UPLOAD_ID = /^[\w.~+/=-]{1,1024}$/
const CHECKSUM_HEADER = /^(?:content-md5|x-amz-checksum-[a-z0-9]{1,20}|x-amz-sdk-checksum-algorithm)$/
const CHECKSUM_VALUE = /^[\w+/=-]{1,128}$/
const CHUNKED = 'STREAMING-UNSIGNED-PAYLOAD-TRAILER'

/** What each method is for, by the names of its parameters. Nothing else of the protocol. */
const STEPS: Readonly<Record<WriteMethod, Readonly<Record<string, WriteStep>>>> = {
  PUT: { '': 'make', 'partNumber,uploadId': 'part' },
  POST: { uploads: 'begin', uploadId: 'end' },
  DELETE: { '': 'remove', uploadId: 'abandon' },
}

const REFUSALS: Readonly<Record<WriteRefusal, { readonly status: number; readonly says: string }>> = {
  busy: { status: 503, says: 'SlowDown' },
  denied: { status: 403, says: 'AccessDenied' },
  unavailable: { status: 503, says: 'ServiceUnavailable' },
  exists: { status: 412, says: 'PreconditionFailed' },
  length_missing: { status: 411, says: 'MissingContentLength' },
  too_large: { status: 400, says: 'EntityTooLarge' },
}

/**
 * Throws CONFIG `catalog_signing_unsafe` where the store takes the signature of a read for more. A store that does not
 * answer is asked again before the first signature.
 */
export async function openLentAccess(settings: S3Settings): Promise<LentAccess> {
  const { endpoint, region } = settings
  const key: SigningKey = {
    region,
    access_key_id: settings.accessKeyId,
    secret_access_key: settings.secretAccessKey,
    ...(settings.sessionToken === undefined ? {} : { session_token: settings.sessionToken }),
  }
  const signatures = new LentSignatures(endpoint, key)
  await signatures.prove().catch((error: unknown) => {
    if (!isSluiceError(error, 'TRANSIENT')) throw error
  })
  const relay = new S3Relay(endpoint, key)
  return {
    settings: (catalog) => clientSettings(endpoint, region, catalog),
    read({ method, uri, headers = {} }) {
      if (method !== 'GET' && method !== 'HEAD') throw refused('the method is not one of files')
      const url = targetOf(uri, endpoint)
      if ([...url.searchParams.keys()].some((name) => name !== 'x-id')) throw refused('the query is not of a file')
      const signed = headersOf(headers)
      return { path: keyOf(url), sign: () => signatures.forRead(method, url, signed) }
    },
    write: (request) => placeOf(request, endpoint),
    take: (method, place, headers) => writeOf(relay, method, place, headers),
    refusal: answered,
    close: () => relay.close(),
  }
}

function clientSettings(
  endpoint: string,
  region: string,
  { address, signing }: { readonly address: string; readonly signing: string },
): Readonly<Record<string, string>> {
  return {
    's3.remote-signing-enabled': 'true',
    's3.signer': 'S3V4RestSigner',
    's3.signer.uri': address,
    's3.signer.endpoint': signing,
    's3.endpoint': endpoint,
    's3.region': region,
    's3.path-style-access': 'true',
    'py-io-impl': 'pyiceberg.io.fsspec.FsspecFileIO',
  }
}

function placeOf({ method, uri, headers = {} }: ClientRequest, endpoint: string): AskedWrite {
  const url = targetOf(uri, endpoint)
  const parameters = Object.fromEntries([...url.searchParams].filter(([name]) => name !== 'x-id'))
  if (new Set(url.searchParams.keys()).size !== url.searchParams.size) throw refused('the query is not of a file')
  const step = stepOf(method as WriteMethod, parameters)
  headersOf(headers)
  return { path: keyOf(url), parameters, step }
}

function writeOf(
  relay: S3Relay,
  method: WriteMethod,
  { path, parameters }: WritePlace,
  given: Parameters<LentAccess['take']>[2],
): LentWrite {
  const step = stepOf(method, parameters)
  if (!isObjectPath(path)) throw refused('the file is not one of the table')
  const { headers, sizeBytes } = sentWith(method, given)
  // Between the runtime's look and the write another one may have made the file.
  const once = step === 'make' || step === 'end' ? { 'if-none-match': '*' } : {}
  return {
    step,
    sizeBytes,
    send(bytes, signal) {
      const body = bytes === null || sizeBytes === null || sizeBytes === 0 ? null : { sizeBytes, bytes }
      return relay.send({ method, path, parameters, headers: { ...headers, ...once }, body, signal })
    },
  }
}

function stepOf(method: WriteMethod, parameters: Readonly<Record<string, string>>): WriteStep {
  const names = Object.keys(parameters).sort().join()
  const { partNumber, uploadId, uploads = '' } = parameters
  const step = Object.hasOwn(STEPS[method], names) ? STEPS[method][names] : undefined
  const isPlain =
    uploads === '' &&
    (partNumber === undefined || PART.test(partNumber)) &&
    (uploadId === undefined || UPLOAD_ID.test(uploadId))
  if (step === undefined || !isPlain) throw refused('the query is not of a file')
  return step
}

/** Headers of the store's own protocol among those that a client means to send; refused is one that copies, grants or marks. */
function headersOf(headers: Headers): Readonly<Record<string, string>> {
  const sent = Object.entries(headers).map(([name, values]) => [name.toLowerCase(), values.join(',').trim()] as const)
  const amz = sent.filter(([name]) => name.startsWith('x-amz-') && !OWN_HEADERS.includes(name))
  const strange = amz.find(([name, value]) => !AMZ_HEADER.test(name) || /[^ -~]/.test(value))
  if (strange !== undefined) throw refused('it has a header that is not of a plain file')
  const payload = sent.find(([name]) => name === 'x-amz-content-sha256')?.[1]
  // With a trailer the body is sent in chunks, which the store has to be told.
  const isChunked = payload === CHUNKED
  return { ...Object.fromEntries(amz), ...(isChunked ? { 'x-amz-content-sha256': payload } : {}) }
}

function targetOf(uri: string, endpoint: string): URL {
  const url = URL.canParse(uri) ? new URL(uri) : null
  if (url === null || url.origin !== new URL(endpoint).origin || url.username !== '' || url.hash !== '') {
    throw refused('the address is not of this deployment’s object store')
  }
  return url
}

/** Bucket and key, as the store takes them. */
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

/** Headers of the store's protocol that tell how the body is written, and its length as it is sent; null where unknown. */
function sentWith(
  method: WriteMethod,
  headers: Parameters<LentAccess['take']>[2],
): { readonly headers: Readonly<Record<string, string>>; readonly sizeBytes: number | null } {
  if (method === 'DELETE') return { headers: {}, sizeBytes: 0 }
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

function answered(reason: WriteRefusal, message: string): StoreAnswer {
  const { status, says } = REFUSALS[reason]
  const text = message.replaceAll('&', '&amp;').replaceAll('<', '&lt;')
  const body = `<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>${says}</Code><Message>${text}</Message></Error>`
  return { status, etag: null, contentType: 'application/xml', body: Buffer.from(body) }
}

function refused(reason: string): SluiceError {
  return new SluiceError('PERMISSION', `the request to the object store is not signed: ${reason}`, {
    code: 'catalog_signing_refused',
    remedy: 'Ask for single files below the location of the table that you have loaded.',
  })
}
