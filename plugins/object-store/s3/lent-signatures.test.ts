/** Stores that hold requests to less than S3 does. */
import assert from 'node:assert/strict'
import { createServer, type IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import { after, test } from 'node:test'
import { LentSignatures } from './lent-signatures.ts'
import { signRequest } from './signature.ts'

const KEY = { region: 'us-east-1', access_key_id: 'key', secret_access_key: 'secret' }
const servers: { close(): void; closeAllConnections(): void }[] = []
after(() => {
  for (const server of servers) {
    server.closeAllConnections()
    server.close()
  }
})

/** @param statusOf of a request that has reached the store */
async function storeThat(statusOf: (request: IncomingMessage) => number): Promise<LentSignatures> {
  const server = createServer((request, response) => response.writeHead(statusOf(request)).end())
  servers.push(server)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return new LentSignatures(`http://127.0.0.1:${(server.address() as AddressInfo).port}`, KEY)
}

/** Whether the signature is one of that request, with the headers that it names. */
function isSigned(request: IncomingMessage, method = request.method ?? '', target = request.url ?? ''): boolean {
  const date = String(request.headers['x-amz-date'])
  const at = new Date(date.replace(/(....)(..)(..)T(..)(..)(..)Z/, '$1-$2-$3T$4:$5:$6Z'))
  const { headers } = signRequest(method, new URL(target, `http://${request.headers.host}`), KEY, at)
  return headers['Authorization']?.[0] === request.headers.authorization
}

const isExact = (request: IncomingMessage) => (isSigned(request) ? 404 : 403)

test('a store that holds requests to their signature lends to readers', async () => {
  const signatures = await storeThat(isExact)
  const signed = await signatures.forRead('GET', new URL('http://127.0.0.1/bucket/file'))
  assert.match(signed.headers['Authorization']?.[0] ?? '', /^AWS4-HMAC-SHA256 /)
})

for (const [what, statusOf] of [
  ['another method', (request: IncomingMessage) => (isSigned(request, 'GET') ? 404 : 403)],
  [
    'another file',
    (request: IncomingMessage) => (isSigned(request, request.method, '/sluice-0-signatures/none') ? 404 : 403),
  ],
  [
    'parameters',
    (request: IncomingMessage) => (isSigned(request, request.method, request.url?.split('?')[0]) ? 404 : 403),
  ],
  [
    'a copy',
    (request: IncomingMessage) =>
      request.headers['x-amz-copy-source'] !== undefined && isSigned(request, 'GET') ? 200 : isExact(request),
  ],
] as const) {
  test(`a store that takes the signature of a read for ${what} is refused`, async () => {
    const signatures = await storeThat(statusOf)
    await assert.rejects(signatures.prove(), { kind: 'CONFIG', code: 'catalog_signing_unsafe' })
    await assert.rejects(signatures.forRead('GET', new URL('http://127.0.0.1/bucket/file')), { kind: 'CONFIG' })
  })
}

test('a store that is down is asked again before the first signature', async () => {
  let isUp = false
  const signatures = await storeThat((request) => {
    if (!isUp) request.socket.destroy()
    return isExact(request)
  })
  await assert.rejects(signatures.prove(), { kind: 'TRANSIENT' })
  isUp = true
  await signatures.forRead('HEAD', new URL('http://127.0.0.1/bucket/file'))
})

test('a store that looks for the bucket first tells nothing, and is taken', async () => {
  await (await storeThat(() => 404)).prove()
})
