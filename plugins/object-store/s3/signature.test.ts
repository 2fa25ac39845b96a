import assert from 'node:assert/strict'
import { test } from 'node:test'
import { signRequest } from './signature.ts'

const KEY = {
  region: 'us-east-1',
  access_key_id: 'AKIDEXAMPLE',
  secret_access_key: 'wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY',
}
const NOW = new Date('2015-08-30T12:36:00.000Z')

const signatureOf = (method: string, uri: string, key = KEY): string =>
  /Signature=([0-9a-f]{64})$/.exec(
    signRequest(method, new URL(uri), key, NOW).headers['Authorization']?.[0] ?? '',
  )?.[1] ?? ''

test('a signature covers the method, the host, the path, the query and the key', () => {
  const base = signatureOf('GET', 'https://store.example/bucket/a/b.parquet')
  assert.match(base, /^[0-9a-f]{64}$/)
  for (const other of [
    signatureOf('PUT', 'https://store.example/bucket/a/b.parquet'),
    signatureOf('GET', 'https://else.example/bucket/a/b.parquet'),
    signatureOf('GET', 'https://store.example/bucket/a/c.parquet'),
    signatureOf('GET', 'https://store.example/bucket/a/b.parquet?uploads='),
    signatureOf('GET', 'https://store.example/bucket/a/b.parquet', { ...KEY, secret_access_key: 'x' }),
  ]) {
    assert.notEqual(other, base)
  }
  assert.equal(signatureOf('GET', 'https://store.example/bucket/a/b%2Eparquet'), base, 'one encoding for all')
})

test('the headers name the time, the scope and what is signed, and never the secret', () => {
  const { headers } = signRequest('GET', new URL('https://store.example/bucket/a'), { ...KEY, session_token: 't' }, NOW)
  assert.deepEqual(headers['x-amz-date'], ['20150830T123600Z'])
  assert.deepEqual(headers['x-amz-security-token'], ['t'])
  assert.match(
    headers['Authorization']?.[0] ?? '',
    /^AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE\/20150830\/us-east-1\/s3\/aws4_request, SignedHeaders=host;x-amz-content-sha256;x-amz-date;x-amz-security-token, Signature=/,
  )
  assert.ok(!JSON.stringify(headers).includes(KEY.secret_access_key))
})
