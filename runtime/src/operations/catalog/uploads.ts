/**
 * Writing files of plain tables without a key to the object store. Writes are not signed, because stores obey headers
 * that nobody has signed, and a signature outlives what was decided: clients send each to the runtime instead, which
 * decides when it comes and makes a request of its own.
 */
import type { TableFiles } from '@sluice/iceberg'
import {
  type ClientRequest,
  isSluiceError,
  type LentAccess,
  type LentWrite,
  type SluiceError,
  type StoreAnswer,
  type WriteMethod,
  type WritePlace,
  type WriteStep,
} from '@sluice/sdk'
import type { BodyStream, TenantCall } from '../../flow.ts'
import { SANDBOX } from '../../lake/tenant-layout.ts'
import { requireDeveloper } from '../permissions.ts'
import { checkStorage } from '../tenants/tenants.ts'
import type { CatalogDeps } from './deps.ts'
import { fileOf, refused, requireLent } from './files.ts'
import type { LoadedTable } from './read.ts'

/** In one request; what is larger comes in parts. */
const MAX_BODY_BYTES = 256 * 1024 * 1024
/** The list of an upload's 10,000 parts fits in several times. */
const MAX_LIST_BYTES = 4 * 1024 * 1024
/** Of one tenant; engines send some parts at once. */
const MAX_AT_ONCE = 16

/** Whether the request writes, as signers name requests. */
export const isUpload = ({ method }: Pick<ClientRequest, 'method'>): boolean =>
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
  request: ClientRequest,
): Promise<WritePlace> {
  const { step, ...place } = requireLent(platform).write(request)
  await requireWritable(platform, call, namespace, table, step, place.path)
  return place
}

const underWay = new Map<string, number>()

/** Sends the write to the store. What the store, or a rule of ours, has against it is answered as the store would. */
export async function takeUpload(
  platform: CatalogDeps,
  call: TenantCall,
  namespace: string,
  table: string,
  method: WriteMethod,
  place: WritePlace,
  body: BodyStream | null,
): Promise<StoreAnswer> {
  const lent = requireLent(platform)
  const count = underWay.get(call.tenant) ?? 0
  if (count >= MAX_AT_ONCE) return lent.refusal('busy', 'too many uploads of this tenant are under way')
  underWay.set(call.tenant, count + 1)
  try {
    const write = lent.take(method, place, body?.headers ?? {})
    const files = await requireWritable(platform, call, namespace, table, write.step, place.path)
    await platform.lake.requireOwn(call.tenant)
    const isNew = write.step === 'make' || write.step === 'begin' || write.step === 'end'
    if (isNew && (await files.store.stat(place.path)) !== null) {
      return lent.refusal('exists', 'the file exists, and files are written once')
    }
    return await relay(platform, call, lent, write, body)
  } catch (error) {
    if (isSluiceError(error, 'PERMISSION') || isSluiceError(error, 'QUOTA')) return denied(lent, error)
    if (isSluiceError(error, 'TRANSIENT')) return lent.refusal('unavailable', error.message)
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
  lent: LentAccess,
  write: LentWrite,
  body: BodyStream | null,
): Promise<StoreAnswer> {
  const { step, sizeBytes } = write
  const carries = step === 'make' || step === 'part'
  if (carries || step === 'begin') await checkStorage(platform, call.tenant)
  if (sizeBytes === null) return lent.refusal('length_missing', 'the length of the body must be given')
  if (sizeBytes > (carries ? MAX_BODY_BYTES : MAX_LIST_BYTES)) {
    return lent.refusal('too_large', `more than ${MAX_BODY_BYTES} bytes come in parts`)
  }
  return write.send(body?.bytes ?? null, call.signal)
}

/** Throws PERMISSION `catalog_signing_refused` for files of products, of other tables, and those that a table has. */
async function requireWritable(
  platform: CatalogDeps,
  call: TenantCall,
  namespace: string,
  table: string,
  step: WriteStep,
  path: string,
): Promise<TableFiles> {
  if (namespace !== SANDBOX) throw refused('files of products are read only')
  requireDeveloper(call.principal)
  const { files, loaded } = await fileOf(platform, call, namespace, table, path)
  // Of an upload in parts only its beginning and end are about the file.
  const isPart = step === 'part' || step === 'abandon'
  if (!isPart && loaded !== null && (await isCommitted(platform, call, loaded, path))) {
    throw refused('the file is part of the table, and stays as it is')
  }
  return files
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

const denied = (lent: LentAccess, error: SluiceError): StoreAnswer =>
  lent.refusal('denied', `${error.message}. ${error.remedy ?? ''}`.trim())
