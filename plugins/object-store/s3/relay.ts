/**
 * Requests of clients to the S3 store, made anew as requests of the runtime's own: method, key, parameters and headers
 * are what was decided here, so that nothing of the client's but the bytes of the body reaches the store.
 */
import http from 'node:http'
import https from 'node:https'
import type { Readable } from 'node:stream'
import { SluiceError, type StoreAnswer } from '@sluice/sdk'
import { encodeForS3, type SigningKey, signRequest } from './signature.ts'

export interface RelayedRequest {
  readonly method: 'PUT' | 'POST' | 'DELETE'
  /** Bucket and key, as `Buckets` has them. */
  readonly path: string
  readonly parameters: Readonly<Record<string, string>>
  /** All are signed; lower case. */
  readonly headers: Readonly<Record<string, string>>
  /** Null for none. */
  readonly body: { readonly sizeBytes: number; readonly bytes: Readable } | null
  readonly signal: AbortSignal
}

/** Answers to uploads are some hundred bytes of XML. */
const MAX_ANSWER_BYTES = 256 * 1024
const ATTEMPT_MS = 60_000

export class S3Relay {
  readonly #endpoint: URL
  readonly #key: SigningKey
  readonly #agent: http.Agent

  constructor(endpoint: string, key: SigningKey) {
    this.#endpoint = new URL(endpoint)
    this.#key = key
    this.#agent = new (this.#endpoint.protocol === 'https:' ? https : http).Agent({ keepAlive: true })
  }

  /** Sent once: the client knows when to send again. Throws TRANSIENT `object_store_unavailable`. */
  async send({ method, path, parameters, headers, body, signal }: RelayedRequest): Promise<StoreAnswer> {
    const url = new URL(this.#endpoint)
    url.pathname = `/${path.split('/').map(encodeForS3).join('/')}`
    url.search = new URLSearchParams(parameters).toString()
    const signed = signRequest(method, url, this.#key, new Date(), headers)
    const length = method === 'DELETE' ? {} : { 'content-length': String(body?.sizeBytes ?? 0) }
    const own = Object.fromEntries(Object.entries(signed.headers).map(([name, values]) => [name, values.join(',')]))
    try {
      return await this.#exchange(url, { method, headers: { ...own, ...length }, signal }, body?.bytes ?? null)
    } catch (cause) {
      signal.throwIfAborted()
      throw new SluiceError('TRANSIENT', 'the object store does not answer as it should', {
        code: 'object_store_unavailable',
        remedy: 'Check that the object store is up and reachable; the work is tried again.',
        cause,
      })
    }
  }

  close(): void {
    this.#agent.destroy()
  }

  #exchange(url: URL, options: http.RequestOptions, bytes: Readable | null): Promise<StoreAnswer> {
    const { request: open } = url.protocol === 'https:' ? https : http
    return new Promise((resolve, reject) => {
      const request = open(url, { ...options, agent: this.#agent, timeout: ATTEMPT_MS }, (response) => {
        collect(response).then(resolve, reject).finally(finish)
      })
      const finish = () => {
        // An answer may come before the whole body was sent: what is left of it is the edge's to end.
        bytes?.unpipe(request)
        if (!request.writableFinished) request.destroy()
      }
      request.on('timeout', () => request.destroy(new Error(`nothing came for ${ATTEMPT_MS} ms`)))
      const fail = (error: Error) => {
        bytes?.unpipe(request)
        reject(error)
      }
      request.on('error', fail)
      // Without a listener neither an answer nor an error follows on it.
      request.on('upgrade', (_, socket) => {
        socket.destroy()
        fail(new Error('the store asks for another protocol'))
      })
      if (bytes === null) request.end()
      else bytes.pipe(request)
    })
  }
}

async function collect(response: http.IncomingMessage): Promise<StoreAnswer> {
  const chunks: Buffer[] = []
  let size = 0
  for await (const chunk of response as AsyncIterable<Buffer>) {
    size += chunk.length
    if (size > MAX_ANSWER_BYTES) throw new Error('the answer is too long')
    chunks.push(chunk)
  }
  const { etag, 'content-type': contentType } = response.headers
  return {
    status: response.statusCode ?? 0,
    etag: etag ?? null,
    contentType: contentType ?? null,
    body: Buffer.concat(chunks),
  }
}
