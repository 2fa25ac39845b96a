/**
 * Where clients without a key to the object store send what they write. Not of the Iceberg specification: the signer
 * tells clients the address of each write.
 */
import type { StoreAnswer, WriteMethod, WritePlace } from '@sluice/sdk'
import { Type } from 'typebox'
import type { BodyStream } from '../../flow.ts'
import type { CatalogDeps } from '../../operations/catalog/deps.ts'
import { requireWarehouse } from '../../operations/catalog/read.ts'
import { takeUpload } from '../../operations/catalog/uploads.ts'
import { defineRoute, type Reply, type Route } from '../route.ts'
import { AnyBody, ICEBERG, TABLE, TableParams } from './iceberg-shapes.ts'

const UPLOAD_TIMEOUT_MS = 120_000

/** The store's own parameters beside the file that they are about. */
const UploadQuery = Type.Object({
  path: Type.String({ minLength: 1, maxLength: 4_096 }),
  uploads: Type.Optional(Type.String({ maxLength: 0 })),
  uploadId: Type.Optional(Type.String({ maxLength: 2_048 })),
  partNumber: Type.Optional(Type.String({ maxLength: 5 })),
})

/** @param address of this server, as clients write it */
export function uploadAddress(
  address: string,
  { prefix, namespace, table }: { readonly prefix: string; readonly namespace: string; readonly table: string },
  { path, parameters }: WritePlace,
): string {
  const segments = ['iceberg', 'v1', prefix, 'namespaces', namespace, 'tables', table, 'files']
  return `${address}/${segments.map(encodeURIComponent).join('/')}?${new URLSearchParams({ path, ...parameters })}`
}

export function icebergUploads(deps: CatalogDeps): readonly Route[] {
  return [upload(deps, 'PUT'), upload(deps, 'POST'), upload(deps, 'DELETE')]
}

function upload(deps: CatalogDeps, method: WriteMethod): Route {
  return defineRoute({
    ...ICEBERG,
    method,
    path: `${TABLE}/files`,
    name: `icebergUpload${method}`,
    summary: 'Writes or removes one file of a plain table',
    params: TableParams,
    query: UploadQuery,
    body: AnyBody,
    bodyFormat: 'stream',
    answersAnyType: true,
    timeoutMs: UPLOAD_TIMEOUT_MS,
    async handler(call) {
      const { prefix, namespace, table } = call.params
      requireWarehouse(call, prefix)
      const { path, ...parameters } = call.query
      const body = method === 'DELETE' ? null : (call.body as BodyStream)
      return replyOf(await takeUpload(deps, call, namespace, table, method, { path, parameters }, body))
    },
  })
}

function replyOf({ status, etag, contentType, body }: StoreAnswer): Reply {
  const headers = etag === null ? {} : { ETag: etag }
  if (status === 204) return { status, headers, empty: true }
  return { status, headers, bytes: body, contentType: contentType ?? 'application/xml' }
}
