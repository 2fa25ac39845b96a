/**
 * One request of Trino's statement protocol. Not by the package trino-client: it tells a statement's id only with its
 * first rows, so that one that has none yet cannot be cancelled.
 */
import { request as httpRequest } from 'node:http'
import { request as httpsRequest } from 'node:https'

export interface TrinoPage {
  readonly id: string
  /** Absent where the statement has ended. */
  readonly nextUri?: string
  readonly data?: readonly (readonly unknown[])[]
  readonly error?: {
    readonly errorName: string
    readonly message: string
    readonly errorType?: string
    readonly errorLocation?: { readonly lineNumber: number; readonly columnNumber: number } | null
  }
}

export interface TrinoRequest {
  readonly method: 'GET' | 'POST' | 'DELETE'
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly body?: string
  /** PEM of the authority that signed the server's certificate; absent: the public ones. */
  readonly ca?: string
  readonly signal: AbortSignal
}

const MAX_PAGE_BYTES = 64 * 1024 * 1024

/** Throws plain Errors: what they say is for the log. */
export function send({
  method,
  url,
  headers,
  body,
  ca,
  signal,
}: TrinoRequest): Promise<{ status: number; text: string }> {
  const isSecure = new URL(url).protocol === 'https:'
  const options = { method, headers, signal, ...(isSecure && ca !== undefined ? { ca } : {}) }
  return new Promise((resolve, reject) => {
    const asking = (isSecure ? httpsRequest : httpRequest)(url, options, (answer) => {
      const chunks: Buffer[] = []
      let size = 0
      answer.on('data', (chunk: Buffer) => {
        size += chunk.length
        if (size > MAX_PAGE_BYTES) asking.destroy(new Error('a page is larger than a page may be'))
        else chunks.push(chunk)
      })
      answer.once('error', reject)
      answer.once('end', () =>
        resolve({ status: answer.statusCode ?? 0, text: Buffer.concat(chunks).toString('utf8') }),
      )
    })
    asking.once('error', reject)
    asking.end(body)
  })
}
