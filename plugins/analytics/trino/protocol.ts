/**
 * One request to Trino, and what its statement protocol answers. Not by the package trino-client: it tells a statement's id
 * only with its first rows, so that one that has none yet cannot be cancelled.
 */
import { readFile } from 'node:fs/promises'
import { request as httpRequest } from 'node:http'
import { request as httpsRequest } from 'node:https'
import type { TrinoSettings } from './settings.ts'

/** A type as Trino takes it apart: `decimal` with two numbers, `row` with named types. */
export interface TrinoType {
  readonly rawType: string
  readonly arguments: readonly TrinoTypeArgument[]
}

export type TrinoTypeArgument =
  | { readonly kind: 'TYPE'; readonly value: TrinoType }
  | {
      readonly kind: 'NAMED_TYPE'
      readonly value: { readonly fieldName?: { readonly name: string } | null; readonly typeSignature: TrinoType }
    }
  | { readonly kind: 'LONG'; readonly value: number }

export interface TrinoColumn {
  readonly name: string
  readonly typeSignature: TrinoType
}

export interface TrinoPage {
  readonly id: string
  /** Absent where the statement has ended. */
  readonly nextUri?: string
  /** Absent until Trino has planned the statement. */
  readonly columns?: readonly TrinoColumn[]
  readonly data?: readonly (readonly unknown[])[]
  readonly error?: {
    readonly errorName: string
    readonly message: string
    readonly errorType?: string
    readonly errorLocation?: { readonly lineNumber: number; readonly columnNumber: number } | null
  }
}

export interface TrinoRequest {
  readonly method: 'GET' | 'POST' | 'PUT' | 'DELETE'
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly body?: string | undefined
  /** PEM of the authority that signed the server's certificate; absent: the public ones. */
  readonly ca?: string
  /** An answer that is larger is given up. */
  readonly maxBytes: number
  readonly signal: AbortSignal
}

export interface TrinoAnswer {
  readonly status: number
  readonly text: string
}

/** As whom requests are made. Reads the files that the settings name each time: a token is renewed in its place. */
export async function loginOf(
  settings: Pick<TrinoSettings, 'token_file' | 'user' | 'ca_file'>,
): Promise<Pick<TrinoRequest, 'headers' | 'ca'>> {
  const { token_file: tokenFile, user = SOURCE, ca_file: caFile } = settings
  const who =
    tokenFile === undefined
      ? { 'X-Trino-User': user }
      : { Authorization: `Bearer ${(await readFile(tokenFile, 'utf8')).trim()}` }
  const headers = { 'X-Trino-Source': SOURCE, 'Content-Type': 'text/plain; charset=utf-8', ...who }
  return caFile === undefined ? { headers } : { headers, ca: await readFile(caFile, 'utf8') }
}

const SOURCE = 'sluice'

/** Outside of texts, what JavaScript writes otherwise has one of these; looking at each value takes several times as long. */
const MAY_BE_WRITTEN_OTHERWISE = /\d[.eE]|\d{16}|-0/

/** A page of which a number that JavaScript would write otherwise, as one of more than 53 bits, is its text. */
export function exactPage(text: string): TrinoPage {
  if (!MAY_BE_WRITTEN_OTHERWISE.test(text)) return JSON.parse(text) as TrinoPage
  return JSON.parse(text, (_, value: unknown, ...[read]: readonly { readonly source?: string }[]) =>
    typeof value !== 'number' || read?.source === undefined || String(value) === read.source ? value : read.source,
  ) as TrinoPage
}

/** Throws plain Errors: what they say is for the log. */
export function send({ method, url, headers, body, ca, maxBytes, signal }: TrinoRequest): Promise<TrinoAnswer> {
  const isSecure = new URL(url).protocol === 'https:'
  const options = { method, headers, signal, ...(isSecure && ca !== undefined ? { ca } : {}) }
  return new Promise((resolve, reject) => {
    const asking = (isSecure ? httpsRequest : httpRequest)(url, options, (answer) => {
      const chunks: Buffer[] = []
      let size = 0
      answer.on('data', (chunk: Buffer) => {
        size += chunk.length
        if (size > maxBytes) asking.destroy(new Error('an answer of Trino is larger than it may be'))
        else chunks.push(chunk)
      })
      answer.once('error', reject)
      answer.once('end', () =>
        resolve({ status: answer.statusCode ?? 0, text: Buffer.concat(chunks).toString('utf8') }),
      )
    })
    asking.once('error', reject)
    // Without a listener neither an answer nor an error follows on it.
    asking.once('upgrade', (_, socket) => {
      socket.destroy()
      reject(new Error('Trino asks for another protocol'))
    })
    asking.end(body)
  })
}
