import assert from 'node:assert/strict'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import { it } from 'node:test'
import type { NetworkPolicy } from '@sluice/sdk'
import { Bucket } from './bucket.ts'

const network: NetworkPolicy = {
  resolve: async () => ({ address: '127.0.0.1', family: 4 }),
  allowsCleartextPassword: () => true,
}

const ANSWERS = {
  'asks for another protocol, after which Node is silent': {
    answer: 'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n',
    ends: false,
  },
  'cuts its list of objects, of which the rest would be taken for gone': {
    answer:
      'HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n<?xml version="1.0"?><ListBucketResult><CommonPrefixes><Prefix>a/</Prefix></CommonPrefixes>',
    ends: true,
  },
}

for (const [what, { answer, ends }] of Object.entries(ANSWERS)) {
  it(`gives up a server that ${what}`, async () => {
    const server = createServer((socket: Socket) => {
      socket.on('error', () => undefined)
      socket.once('data', () => (ends ? socket.end(answer) : socket.write(answer)))
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
}
