import assert from 'node:assert/strict'
import { type AddressInfo, createServer } from 'node:net'
import { it } from 'node:test'
import type { NetworkPolicy } from '@sluice/sdk'
import { Bucket } from './bucket.ts'

const network: NetworkPolicy = {
  resolve: async () => ({ address: '127.0.0.1', family: 4 }),
  allowsCleartextPassword: () => true,
}

it('waits for no server that asks for another protocol, which is one after which Node is silent', async () => {
  const server = createServer((socket) => {
    socket.on('error', () => undefined)
    socket.once('data', () =>
      socket.write('HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n'),
    )
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  try {
    const { port } = server.address() as AddressInfo
    const place = {
      host: '127.0.0.1',
      port,
      isTls: false,
      bucket: 'bucket',
      prefix: '',
      region: 'us-east-1',
      accessKey: 'a',
      secretKey: 's',
      pathStyle: true,
    }
    const bucket = new Bucket(place as unknown as ConstructorParameters<typeof Bucket>[0], network)
    await assert.rejects(bucket.folders(AbortSignal.timeout(300_000)), { name: 'SluiceError' })
  } finally {
    server.close()
  }
})
