/** What the commands say of servers, addresses and tokens that are no good. */
import assert from 'node:assert/strict'
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { createServer, type Server } from 'node:http'
import { type AddressInfo, createServer as createTcpServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, afterEach, before, describe, it } from 'node:test'
import { openKeyFile } from '../auth/key-file.ts'
import { type Client, openClient } from './client.ts'

let folder = ''
const closing: { close(): unknown }[] = []

before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sluice-client-'))
})
after(async () => {
  for (const one of closing) one.close()
  await rm(folder, { recursive: true, force: true })
})
afterEach(() => {
  delete process.env['SLUICE_URL']
  delete process.env['SLUICE_TOKEN']
})

const open = (flags: Readonly<Record<string, string>> = {}): Promise<Client> =>
  openClient({ words: [], flags }, async () => ({ data_dir: folder, secrets_dir: folder }))

async function answering(status: number, type: string, text: string): Promise<string> {
  const server = createServer((_, reply) => reply.writeHead(status, { 'content-type': type }).end(text))
  return listening(server)
}

/** A server without products, and how often it was asked. */
async function counting() {
  let count = 0
  const server = createServer((_, reply) => {
    count += 1
    reply.writeHead(200, { 'content-type': 'application/json' }).end('{"data": [], "next_cursor": null}')
  })
  return { url: await listening(server), asked: () => count }
}

async function listening(server: Server | ReturnType<typeof createTcpServer>): Promise<string> {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  closing.push(server)
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

/** As an account that has no right to it, whoever runs the test. */
async function without<T>(path: string, work: () => Promise<T>): Promise<T> {
  const isRoot = process.geteuid?.() === 0
  await chmod(path, isRoot ? 0o700 : 0)
  if (isRoot) process.seteuid?.(65_534)
  try {
    return await work()
  } finally {
    if (isRoot) process.seteuid?.(0)
    await chmod(path, 0o700)
  }
}

describe('a client of the commands', () => {
  it('says of what it may not look at that it may not, and not that it is not there', async () => {
    // What it loads when it is first needed is loaded.
    await assert.rejects(open({ url: 'http://127.0.0.1:9' }), /no token for/)
    await openKeyFile(folder, 'http://sluice.test/oidc', 'sluice')
    await writeFile(join(folder, 'runtime.json'), '{"url":"http://127.0.0.1:9"}')
    const remedy = /^(Say it|Run this) as the account that the server has/
    await without(folder, async () => {
      await assert.rejects(open(), { message: /cannot be seen; this account may not do that there$/, remedy })
      await assert.rejects(open({ url: 'http://127.0.0.1:9' }), { code: 'issuer_keys_broken', remedy })
    })
    for (const file of ['runtime.json', 'issuer-keys.json']) await rm(join(folder, file))
  })

  it('refuses an address or token that is none before it sends anything', async () => {
    process.env['SLUICE_TOKEN'] = 'abc'
    for (const url of ['127.0.0.1:8080', 'localhost:8080', 'nonsense', 'ftp://x']) {
      await assert.rejects(open({ url }), {
        name: 'UsageError',
        message: new RegExp(`^--url is an address .* not "${url}"`),
      })
    }
    process.env['SLUICE_URL'] = ' '
    await assert.rejects(open(), { name: 'UsageError', message: /^SLUICE_URL is set, and empty/ })
    process.env['SLUICE_URL'] = 'nonsense'
    await assert.rejects(open(), /^UsageError: SLUICE_URL is an address/)
    for (const [token, said] of [
      ['', /^SLUICE_TOKEN is set, and empty/],
      ['two words', /^SLUICE_TOKEN is no token/],
      ['one\nline', /^SLUICE_TOKEN is no token/],
    ] as const) {
      process.env['SLUICE_TOKEN'] = token
      await assert.rejects(open({ url: 'http://127.0.0.1' }), { name: 'UsageError', message: said })
    }
  })

  it('says why a server is not reached, in no words of the system', async () => {
    process.env['SLUICE_TOKEN'] = 'abc\n'
    const closed = createTcpServer()
    const free = await listening(closed)
    await new Promise((resolve) => closed.close(resolve))
    const deaf = await listening(createTcpServer((socket) => socket.on('error', () => undefined).end('SSH-2.0-x\r\n')))
    for (const [url, said] of [
      [free, /cannot be reached: nothing listens there/],
      [deaf, /cannot be reached: what listens there does not speak HTTP/],
      ['http://nowhere.invalid', /cannot be reached: (no machine of that name is known|names cannot be looked up)/],
      [(await answering(200, 'text/plain', 'x')).replace('http', 'https'), /cannot be reached: no TLS is spoken there/],
    ] as const) {
      const client = await open({ url })
      await assert.rejects(client.request('GET', '/api/v1/products'), ({ message }: Error) => {
        assert.match(message, said)
        assert.doesNotMatch(message, /E[A-Z]{5,}|fetch failed|HPE_|ssl3/)
        return true
      })
    }
  })

  it('does nothing in another tenant, or as somebody else, than was asked for', async () => {
    const { url, asked } = await counting()
    for (const [claims, flags, said] of [
      [
        { tenant_id: 'acme', sub: 'dora' },
        { tenant: 'globex' },
        /^--tenant is globex, and SLUICE_TOKEN is a token of acme/,
      ],
      [{ tenant_id: 'acme', sub: 'dora' }, { user: 'vera' }, /^--user is vera, and SLUICE_TOKEN is a token of dora/],
      [{ tenant_id: 'acme', sub: 'dora' }, { tenant: 'acme', user: 'dora' }, null],
      [{ sub: 'root' }, { tenant: 'globex' }, null],
      [null, { tenant: 'globex' }, null],
    ] as const) {
      const body = claims === null ? 'key' : Buffer.from(JSON.stringify(claims)).toString('base64url')
      process.env['SLUICE_TOKEN'] = `x.${body}.y`
      const before = asked()
      const list = async () => (await open({ url, ...flags })).list('/api/v1/products')
      if (said === null) assert.deepEqual(await list(), [])
      else await assert.rejects(list(), { name: 'UsageError', message: said })
      assert.equal(asked() - before, said === null ? 1 : 0)
    }
  })

  it('knows what is not Sluice, whatever it answers', async () => {
    process.env['SLUICE_TOKEN'] = 'abc'
    for (const [status, type, text, said] of [
      [200, 'text/html', '<html>hi</html>', /is not Sluice \(200\)/],
      [404, 'text/html', '<html>no</html>', /is not Sluice \(404\)/],
      [404, 'application/json', '{"error": "no"}', /is not Sluice \(404\)/],
      [500, 'application/json', 'null', /is not Sluice \(500\)/],
      [502, 'text/html', '<html>bad gateway</html>', /does not answer, says its gateway \(502\)/],
    ] as const) {
      const client = await open({ url: await answering(status, type, text) })
      await assert.rejects(client.request('GET', '/api/v1/products'), said)
      await assert.rejects(client.open('POST', '/api/v1/query', {}, 'text/csv'), said)
    }
  })

  it('asks for a token where it has the keys of no server, and finds a tenant that is misspelt', async () => {
    const url = await answering(404, 'application/json', '{"code": "tenant_not_found", "detail": "no"}')
    await assert.rejects(open({ url }), (error: Error & { remedy?: string }) => {
      assert.match(`${error.message}. ${error.remedy}`, /there is no token for http:.* Set SLUICE_TOKEN/)
      return true
    })
    await openKeyFile(folder, 'http://127.0.0.1:1/oidc', 'sluice')
    const server = createServer(({ url: path }, reply) => {
      const isList = path?.startsWith('/api/v1/products')
      reply.writeHead(isList ? 200 : 404, { 'content-type': 'application/json' })
      reply.end(isList ? '{"data": [], "next_cursor": null}' : '{"code": "tenant_not_found", "detail": "no"}')
    })
    const other = await listening(server)
    const client = await open({ url: other, tenant: 'acm' })
    await assert.rejects(client.list('/api/v1/products'), /there is no tenant "acm"/)
  })

  it('waits where it asked too often, and says what else is too much at once', async () => {
    process.env['SLUICE_TOKEN'] = 'abc'
    const codes = ['rate_limited', 'rate_limited']
    let asked = 0
    const server = createServer((_, reply) => {
      asked += 1
      const code = codes.shift()
      reply.writeHead(code === undefined ? 200 : 429, { 'content-type': 'application/json', 'retry-after': '1' })
      reply.end(JSON.stringify(code === undefined ? { data: 'here' } : { code, detail: 'too much' }))
    })
    const client = await open({ url: await listening(server) })
    assert.deepEqual([await client.request('POST', '/api/v1/products', {}), asked], [{ data: 'here' }, 3])
    codes.push('tier_limit_exceeded')
    await assert.rejects(client.request('GET', '/api/v1/products'), /too much \(tier_limit_exceeded, 429\)/)
    assert.equal(asked, 4)
  })
})
