import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect } from 'node:net'
import { describe, it } from 'node:test'
import { Type } from 'typebox'
import { defineRoute, type Route } from './route.ts'
import { startServer } from './server.ts'
import { codeOf, sendRaw, startTestServer } from './test-server.ts'

const responses = { 200: { description: 'Done.' } }

const store = defineRoute({
  method: 'POST',
  path: '/api/v1/store',
  name: 'store',
  summary: 'Store',
  tags: ['Test'],
  auth: 'none',
  body: Type.Object({}),
  responses,
  handler: () => ({ body: 'stored' }),
})

const guarded = { ...store, path: '/api/v1/guarded', name: 'guarded', auth: 'tenant' } as Route

/** Sends a body that never ends and says how much of it the server took until it closed, and what it answered. */
async function pourInto(port: number, head: string): Promise<{ readonly answer: string; readonly sentBytes: number }> {
  const socket = connect(port, '127.0.0.1')
  await once(socket, 'connect')
  let answer = ''
  let sentBytes = 0
  let isOpen = true
  socket.on('data', (chunk) => {
    answer += chunk.toString('latin1')
  })
  socket.on('error', () => {})
  const closed = new Promise<void>((resolve) =>
    socket.once('close', () => {
      isOpen = false
      resolve()
    }),
  )
  socket.write(head)
  const piece = Buffer.alloc(64 * 1024, 0x20)
  while (isOpen) {
    sentBytes += piece.length
    if (!socket.write(piece)) await Promise.race([once(socket, 'drain').catch(() => {}), closed])
  }
  return { answer, sentBytes }
}

describe('the server', () => {
  it('says in words why an address cannot be had', async () => {
    await using server = await startTestServer([store])
    const elsewhere = (options: { readonly host?: string; readonly port?: number }) =>
      startServer(server.app, { host: '127.0.0.1', port: server.port, ...options })
    for (const [options, reason] of [
      [{}, /another process listens there/],
      [{ host: '203.0.113.9' }, /no such address/],
    ] as const) {
      await assert.rejects(elsewhere(options), (error: Error) => {
        assert.match(error.message, reason)
        assert.doesNotMatch(error.message, /E[A-Z]{4}/)
        return true
      })
    }
  })

  it('refuses a body that announces a gigabyte before it reads it', async () => {
    await using server = await startTestServer([store, guarded])
    const head = 'Host: x\r\nContent-Type: application/json\r\nContent-Length: 1073741824\r\n\r\n'
    const large = await pourInto(server.port, `POST /api/v1/store HTTP/1.1\r\n${head}`)
    assert.match(large.answer, /^HTTP\/1\.1 413 /)
    assert.match(large.answer, /Connection: close/i)
    assert.ok(large.sentBytes < 64 * 1024 * 1024, `took ${large.sentBytes} bytes`)
    const unknown = await pourInto(server.port, `POST /api/v1/guarded HTTP/1.1\r\n${head}`)
    assert.match(unknown.answer, /^HTTP\/1\.1 401 /)
    assert.ok(unknown.sentBytes < 64 * 1024 * 1024, `took ${unknown.sentBytes} bytes`)
  })

  it('refuses a body without an end as soon as it is too large', async () => {
    await using server = await startTestServer([store])
    const head =
      'POST /api/v1/store HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n'
    const { answer, sentBytes } = await pourInto(server.port, `${head}40000000\r\n`)
    assert.match(answer, /^HTTP\/1\.1 413 /)
    assert.ok(sentBytes < 64 * 1024 * 1024, `took ${sentBytes} bytes`)
  })

  it('asks for a body only where it will read it', async () => {
    await using server = await startTestServer([store])
    const expect = (length: number): string =>
      `POST /api/v1/store HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nExpect: 100-continue\r\nConnection: close\r\nContent-Length: ${length}\r\n\r\n`
    const refused = await sendRaw(server.port, expect(1_000_000_000))
    assert.match(refused, /^HTTP\/1\.1 413 /)
    const socket = connect(server.port, '127.0.0.1')
    socket.write(expect(2))
    const [first] = (await once(socket, 'data')) as [Buffer]
    assert.match(first.toString(), /^HTTP\/1\.1 100 /)
    socket.write('{}')
    const [second] = (await once(socket, 'data')) as [Buffer]
    assert.match(second.toString(), /^HTTP\/1\.1 200 /)
    socket.destroy()
  })

  it('answers who expects something else as it answers everybody', async () => {
    await using server = await startTestServer([store, guarded])
    for (const expected of ['nonsense', '200-ok', '', ',', 'x="y"; z', '100-continued']) {
      for (const [path, length, status] of [
        ['store', 2, 200],
        ['guarded', 2, 401],
        ['store', 1_000_000_000, 413],
        ['nothing', 2, 404],
      ] as const) {
        const head = `POST /api/v1/${path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nExpect: ${expected}\r\n`
        const answer = await sendRaw(server.port, `${head}Connection: close\r\nContent-Length: ${length}\r\n\r\n{}`)
        assert.match(answer, new RegExp(`^HTTP/1\\.1 ${status} `), `${expected} ${path}`)
        if (status !== 200) assert.match(answer, /application\/problem\+json/, `${expected} ${path}`)
      }
    }
  })

  it('gives up on headers and bodies that come drop by drop', async () => {
    const options = { headersTimeoutMs: 300, requestTimeoutMs: 600 }
    await using server = await startTestServer([store], {}, options)
    assert.match(await sendRaw(server.port, 'GET / HTTP/1.1\r\nHost: x\r\nX-Slow: '), /^HTTP\/1\.1 408 /)
    const body =
      'POST /api/v1/store HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{'
    assert.match(await sendRaw(server.port, body), /^HTTP\/1\.1 408 /)
  })

  it('refuses large headers and requests that are none, as problems', async () => {
    await using server = await startTestServer([store])
    const large = await sendRaw(server.port, `GET / HTTP/1.1\r\nHost: x\r\nX-Large: ${'a'.repeat(30_000)}\r\n\r\n`)
    assert.match(large, /^HTTP\/1\.1 431 [\s\S]*"code":"headers_too_large"/)
    const bad = [
      'nonsense\r\n\r\n',
      'GET / HTTP/1.1\r\n\r\n',
      'GET /\u00fc HTTP/1.1\r\nHost: x\r\n\r\n',
      'GET / HTTP/1.1\r\nHost: x\r\nX-A: a\0b\r\n\r\n',
      'POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n',
      'POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab',
      'GET / HTTP/1.1\r\nHost: x\r\nX-A : b\r\n\r\n',
    ]
    for (const request of bad) assert.match(await sendRaw(server.port, request), /^HTTP\/1\.1 400 /, request)
  })

  it('writes no header that a client made up', async () => {
    await using server = await startTestServer([store])
    const path = '/nothing%0d%0aSet-Cookie:%20a=b'
    const answer = await sendRaw(
      server.port,
      `GET ${path} HTTP/1.1\r\nHost: x\r\nX-Request-Id: a\tb\r\nConnection: close\r\n\r\n`,
    )
    assert.match(answer, /^HTTP\/1\.1 400 /)
    assert.doesNotMatch(answer.split('\r\n\r\n')[0] ?? '', /set-cookie/i)
  })

  it('takes the absolute form and refuses other targets', async () => {
    await using server = await startTestServer([store])
    const ask = (target: string): Promise<string> =>
      sendRaw(
        server.port,
        `POST ${target} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}`,
      )
    assert.match(await ask('http://other.example/api/v1/store'), /^HTTP\/1\.1 200 /)
    assert.match(await ask('*'), /^HTTP\/1\.1 400 /)
    assert.match(await ask(`/${'a'.repeat(13_000)}`), /^HTTP\/1\.1 414 /)
  })

  it('lets requests under way end when it stops, and takes no more', async () => {
    let finish = (): void => {}
    const waiting = new Promise<void>((resolve) => {
      finish = resolve
    })
    const slow = defineRoute({
      method: 'GET',
      path: '/slow',
      name: 'slow',
      summary: 'Slow',
      tags: ['Test'],
      auth: 'none',
      responses,
      handler: async () => {
        await waiting
        return { body: 'done' }
      },
    })
    const server = await startTestServer([slow])
    const answer = fetch(`${server.url}/slow`)
    while (server.app.inFlight === 0) await new Promise((resolve) => setImmediate(resolve))
    const stopped = server.server.stop(60_000)
    const told = new Set<string>()
    const askOn = async (): Promise<never> => {
      for (;;) told.add(await codeOf(await fetch(`${server.url}/slow`)))
    }
    await assert.rejects(askOn, /fetch failed/)
    // Whoever connects now is told so, or refused.
    assert.ok(
      [...told].every((code) => code === 'shutting_down'),
      [...told].join(),
    )
    finish()
    assert.equal(await (await answer).json(), 'done')
    await stopped
    await server[Symbol.asyncDispose]()
  })

  it('sends elsewhere what a balancer may send twice, and does the rest, when it drains', async () => {
    const read = defineRoute({
      method: 'GET',
      path: '/read',
      name: 'read',
      summary: 'Read',
      tags: ['Test'],
      auth: 'none',
      responses,
      handler: () => ({ body: 'read' }),
    })
    await using server = await startTestServer([store, read])
    server.app.drain()
    const send = async (path: string, method: string, headers: Readonly<Record<string, string>> = {}) => {
      const json = { 'content-type': 'application/json', ...headers }
      const answer = await fetch(server.url + path, {
        method,
        ...(method === 'POST' ? { body: '{}', headers: json } : {}),
      })
      assert.equal(answer.headers.get('connection'), 'close')
      return answer.status
    }
    assert.equal(await send('/read', 'GET'), 503)
    assert.equal(await send('/api/v1/store', 'POST', { 'idempotency-key': 'a-key-of-mine' }), 503)
    assert.equal(await send('/api/v1/store', 'POST'), 200)
  })

  it('answers every connection that was made before it stops', async () => {
    const server = await startTestServer([store])
    const request = `POST /api/v1/store HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}`
    const answers = Array.from({ length: 100 }, () => sendRaw(server.port, request))
    const first = connect(server.port, '127.0.0.1')
    await once(first, 'connect')
    first.destroy()
    const stopped = server.server.stop(60_000)
    for (const answer of await Promise.all(answers)) {
      assert.match(answer, /^HTTP\/1\.1 (200|503) /)
      if (answer.startsWith('HTTP/1.1 503')) assert.match(answer, /\r\nConnection: close\r\n/i)
    }
    await stopped
    await server[Symbol.asyncDispose]()
  })

  it('sends on, when it stops, what a slow client has yet to read of an answer', async () => {
    const text = 'x'.repeat(32 * 1024 * 1024)
    const long = defineRoute({
      method: 'GET',
      path: '/long',
      name: 'long',
      summary: 'Long',
      tags: ['Test'],
      auth: 'none',
      responses,
      handler: () => ({ body: text }),
    })
    await using server = await startTestServer([long])
    const client = connect(server.port, '127.0.0.1')
    client.write('GET /long HTTP/1.1\r\nHost: x\r\n\r\n')
    await once(client, 'readable')
    const stopped = server.server.stop(60_000)
    await assert.rejects(fetch(server.url))
    let receivedBytes = 0
    for await (const chunk of client) receivedBytes += (chunk as Buffer).length
    assert.ok(receivedBytes > text.length, `received ${receivedBytes} bytes`)
    await stopped
  })

  it('cuts what has not ended when its time to stop is over', async () => {
    const never = defineRoute({
      method: 'GET',
      path: '/never',
      name: 'never',
      summary: 'Never',
      tags: ['Test'],
      auth: 'none',
      responses,
      handler: () => new Promise(() => {}),
    })
    const server = await startTestServer([never])
    const answer = assert.rejects(fetch(`${server.url}/never`))
    while (server.app.inFlight === 0) await new Promise((resolve) => setImmediate(resolve))
    await server.server.stop(10)
    await answer
    await server[Symbol.asyncDispose]()
  })
})
