/** Answers as gzip, for clients that ask for it (RFC 9110, 12.5.3). Which ones, and why not others: decision 77. */
import { once } from 'node:events'
import type { IncomingHttpHeaders, ServerResponse } from 'node:http'
import { promisify } from 'node:util'
import { constants, createGzip, type Gzip, gzip } from 'node:zlib'
import type { Context } from 'koa'
import { ICEBERG_PREFIX } from './iceberg-problem.ts'
import type { Route } from './route.ts'

/** Shorter bodies fit into one packet either way. */
export const LEAST_BYTES = 1024
/** Rows become a fifth of their size at the least effort, and little less at more. */
const OPTIONS = { level: constants.Z_BEST_SPEED } as const
const COMPRESSIBLE = /^(?:application\/(?:json|x-ndjson)|text\/(?:csv|html|plain))(?:;|$)/

/**
 * Whether answers of the route may be compressed: reads may. What creates or changes may answer a secret beside texts of
 * the request, and the Iceberg catalog lends keys to the object store.
 */
export function mayCompress({ method, path, isRead = method === 'GET' }: Route): boolean {
  return isRead && !path.startsWith(ICEBERG_PREFIX)
}

/** Whether the client would rather have the answer compressed; who names no encoding would not. */
export function likesGzip({ 'accept-encoding': named }: IncomingHttpHeaders, context: () => Context): boolean {
  return named !== undefined && context().acceptsEncodings('gzip', 'identity') === 'gzip'
}

export function isCompressible(contentType: string): boolean {
  return COMPRESSIBLE.test(contentType)
}

const compress = promisify(gzip)

/** In a thread of Node's own. */
export function compressed(body: string | Uint8Array): Promise<Buffer> {
  return compress(body, OPTIONS)
}

/** Fulfilled when all of it has been handed to the response, or that has closed. */
export async function endOf(encoder: Gzip): Promise<void> {
  const closed = once(encoder, 'close')
  encoder.end()
  await closed
}

/**
 * What compresses a stream on its way. It ends the response when it has ended; a response that closes before takes it
 * along, and then nobody waits for it to drain.
 */
export function gzipInto(response: ServerResponse): Gzip {
  const encoder = createGzip(OPTIONS)
  encoder.on('error', () => response.destroy())
  response.once('close', () => encoder.destroy())
  encoder.pipe(response)
  return encoder
}
