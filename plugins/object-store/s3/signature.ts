/** AWS Signature Version 4 of one request to an S3 store, in its headers. The body is not covered. */
import { createHash, createHmac } from 'node:crypto'
import type { SignedRequest } from '@sluice/sdk'

export interface SigningKey {
  readonly region: string
  readonly access_key_id: string
  readonly secret_access_key: string
  readonly session_token?: string
}

const UNSIGNED = 'UNSIGNED-PAYLOAD'

/**
 * Stores take it for some minutes around `now`.
 * @param more headers that the request has already, and that are to be signed; lower case
 */
export function signRequest(
  method: string,
  url: URL,
  key: SigningKey,
  now: Date,
  more: Readonly<Record<string, string>> = {},
): SignedRequest {
  const time = now.toISOString().replace(/[-:]|\.\d{3}/g, '')
  const headers: Record<string, string> = {
    host: url.host,
    'x-amz-content-sha256': UNSIGNED,
    ...more,
    'x-amz-date': time,
    ...(key.session_token === undefined ? {} : { 'x-amz-security-token': key.session_token }),
  }
  const names = Object.keys(headers).sort()
  const canonical = [
    method,
    url.pathname.split('/').map(decodeURIComponent).map(encodeForS3).join('/'),
    canonicalQuery(url),
    ...names.map((name) => `${name}:${headers[name]}`),
    '',
    names.join(';'),
    headers['x-amz-content-sha256'],
  ].join('\n')
  const scope = `${time.slice(0, 8)}/${key.region}/s3/aws4_request`
  const text = ['AWS4-HMAC-SHA256', time, scope, createHash('sha256').update(canonical).digest('hex')].join('\n')
  const signature = hmac(signingKey(key, time.slice(0, 8)), text).toString('hex')
  const authorization = `AWS4-HMAC-SHA256 Credential=${key.access_key_id}/${scope}, SignedHeaders=${names.join(';')}, Signature=${signature}`
  const { host: _, ...sent } = headers
  return {
    uri: url.href,
    headers: Object.fromEntries(
      Object.entries({ ...sent, Authorization: authorization }).map(([name, value]) => [name, [value]]),
    ),
  }
}

function canonicalQuery(url: URL): string {
  const pairs = [...url.searchParams].map(([name, value]) => `${encodeForS3(name)}=${encodeForS3(value)}`)
  return pairs.sort().join('&')
}

function signingKey(key: SigningKey, day: string): Buffer {
  return [day, key.region, 's3', 'aws4_request'].reduce<Buffer>(hmac, Buffer.from(`AWS4${key.secret_access_key}`))
}

const hmac = (key: Buffer, text: string): Buffer => createHmac('sha256', key).update(text).digest()

/** Everything but letters, digits and `-._~`, as the signature's specification asks. */
export function encodeForS3(text: string): string {
  return encodeURIComponent(text).replace(
    /[!'()*]/g,
    (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`,
  )
}
