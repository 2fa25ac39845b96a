import assert from 'node:assert/strict'
import { type AddressInfo, createServer } from 'node:net'
import { it } from 'node:test'
import type { NetworkPolicy } from '@sluice/sdk'
import { answerTo } from './post-json.ts'

/** What a receiver writes, whole; the connection then stays open, or ends. */
const ANSWERS: readonly (readonly [said: string, status: number | null])[] = [
  ['HTTP/1.1 204 No Content\r\n\r\n', 204],
  ['HTTP/1.1 200 OK\r\nConnection: upgrade\r\nUpgrade: h2c\r\nContent-Length: 0\r\n\r\n', 200],
  ['HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n', 302],
  // The one after which Node is silent: https://nodejs.org/api/http.html#event-upgrade
  ['HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n', null],
  ['HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\nHTTP/1.1 200 OK\r\n\r\n', null],
  ['HTTP/1.1 100 Continue\r\n\r\n', null],
  ['HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n', null],
  ['HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\ncut', null],
  ['HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfff', null],
  [`HTTP/1.1 200 OK\r\n\r\n${'x'.repeat(70_000)}`, null],
  ['\0', null],
  ['', null],
]

const network: NetworkPolicy = {
  resolve: async () => ({ address: '127.0.0.1', family: 4 }),
  allowsCleartextPassword: () => true,
}

it('waits for no receiver longer than it was told to, whatever that answers', async () => {
  const told = ANSWERS.flatMap(([said, status]) => [true, false].map((ends) => ({ said, status, ends })))
  await Promise.all(
    told.map(async ({ said, status, ends }) => {
      const server = createServer((socket) => {
        socket.on('error', () => undefined)
        socket.once('data', () => (ends ? socket.end(said) : socket.write(said)))
      })
      server.unref()
      await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
      const { port } = server.address() as AddressInfo
      const post = { url: `http://receiver.test:${port}/`, body: '{}', headers: {} }
      const found = await answerTo(post, network, new AbortController().signal, 1_000).then(
        (answer) => answer.status,
        () => null,
      )
      assert.equal(found, status, JSON.stringify(said.slice(0, 80)))
      await new Promise((resolve) => server.close(resolve))
    }),
  )
})
