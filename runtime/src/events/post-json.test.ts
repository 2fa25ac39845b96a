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
      // Long enough for what answers, however busy the machine is; the others have nothing that could come.
      const timeoutMs = status === null ? 1_000 : 60_000
      const found = await answerTo(post, network, new AbortController().signal, timeoutMs).then(
        (answer) => answer.status,
        () => null,
      )
      assert.equal(found, status, JSON.stringify(said.slice(0, 80)))
      await new Promise((resolve) => server.close(resolve))
    }),
  )
})

/** What a receiver goes on writing for as long as it is let. */
const FLOODS: Readonly<Record<string, (beat: number) => string>> = {
  'interim answers': () => 'HTTP/1.1 100 Continue\r\n\r\n'.repeat(100),
  'interim answers with headers': () => 'HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n',
  'different interim answers': (beat) => `HTTP/1.1 1${10 + (beat % 80)} More\r\n\r\n`,
  headers: (beat) => `${beat === 0 ? 'HTTP/1.1 200 OK\r\n' : ''}X-${beat}: ${'x'.repeat(1_000)}\r\n`,
  'a header': (beat) => `${beat === 0 ? 'HTTP/1.1 200 OK\r\nX: ' : ''}${'x'.repeat(1_000)}`,
  'a body': (beat) => `${beat === 0 ? 'HTTP/1.1 200 OK\r\n\r\n' : ''}${'x'.repeat(1_000)}`,
  chunks: (beat) => `${beat === 0 ? 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n' : ''}5\r\nabcde\r\n`,
  'extensions of a chunk': (beat) =>
    `${beat === 0 ? 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;' : ''}${'x'.repeat(1_000)}`,
  trailers: (beat) =>
    `${beat === 0 ? 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n' : ''}X-${beat}: ${'x'.repeat(1_000)}\r\n`,
  'lines before the answer': () => '\r\n'.repeat(500),
}

for (const [what, piece] of Object.entries(FLOODS)) {
  it(`hangs up on a receiver that floods it with ${what}, however long it may wait`, async () => {
    const server = createServer((socket) => {
      let beat = 0
      const more = (): void => {
        while (!socket.destroyed && socket.write(piece(beat++)));
      }
      socket.on('error', () => undefined).on('drain', more)
      socket.once('data', more)
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    const { port } = server.address() as AddressInfo
    const post = { url: `http://receiver.test:${port}/`, body: '{}', headers: {} }
    await assert.rejects(answerTo(post, network, new AbortController().signal, 3_600_000))
    await new Promise((resolve) => server.close(resolve))
  })
}

it('waits no longer for a name whose servers keep silent', async () => {
  const silent: NetworkPolicy = {
    ...network,
    resolve: (_host, _port, signal) =>
      new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason), { once: true })),
  }
  const post = { url: 'http://receiver.test/', body: '{}', headers: {} }
  // The time-out alone keeps no process.
  const living = setInterval(() => undefined, 1_000)
  await assert.rejects(answerTo(post, silent, new AbortController().signal, 50), { name: 'TimeoutError' })
  clearInterval(living)
})
