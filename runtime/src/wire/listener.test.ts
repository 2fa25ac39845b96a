/** Clients of every kind at the listener, with tokens that are texts: who is let in, for how long, and what nobody can do to others. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect } from 'node:net'
import { after, before, describe, it } from 'node:test'
import fc from 'fast-check'
import pg from 'pg'
import type { Principal } from '../flow.ts'
import { LocalRateLimiter } from '../http/rate-limit.ts'
import type { Platform } from '../operations/platform.ts'
import { CatalogueServer } from './catalogue/catalogue-server.ts'
import { type RunningWire, startWire, type WireOptions } from './listener.ts'

const logger = { debug() {}, info() {}, warn() {}, error() {}, child: () => logger }
const OFTEN = { ratePerS: 10_000, burst: 10_000 }
const LASTING = Date.UTC(2100, 0)

function person(tenant: string, tokenExpiresAtMs = LASTING): Principal {
  return {
    issuer: 'https://issuer.test',
    subject: 'vera',
    tenant,
    groups: ['svc-viewers'],
    isAdmin: false,
    isDeveloper: false,
    isViewer: true,
    claimedClearance: null,
    email: null,
    tokenExpiresAtMs,
    tokenIssuedAtMs: 0,
  }
}

/** Tokens that are good, and whose. */
const tokens = new Map<string, Principal>()

const authoritiesOf = (): WireOptions['authorities'] => ({
  authenticator: {
    cached: () => null,
    async verify(token) {
      const principal = tokens.get(token)
      if (principal === undefined) throw new Error('a secret reason')
      return principal
    },
  },
  standingOf: (tenant) => ({ tier: 'standard', status: tenant === 'gone' ? 'inactive' : 'active' }),
  rateLimits: { tiers: { free: OFTEN, standard: OFTEN, enterprise: OFTEN }, address: OFTEN },
  rateLimiter: new LocalRateLimiter(),
  addresses: new LocalRateLimiter(),
})

async function open(change: Partial<WireOptions> = {}): Promise<RunningWire> {
  return startWire({
    host: '127.0.0.1',
    port: 0,
    tls: null,
    maxConnections: 100,
    maxConnectionsPerTenant: 3,
    maxConnectionsPerAddress: null,
    loginMs: 60_000,
    idleMs: 120_000,
    serverVersion: '18.0',
    authorities: authoritiesOf(),
    plans: {
      platform: {} as Platform,
      catalogue: new CatalogueServer({ dataDirectory: '/nowhere', mostSets: 1, logger }),
    },
    logger,
    count: { connected() {}, login() {}, statement() {} },
    ...change,
  })
}

let wire: RunningWire

before(async () => {
  tokens.set('good', person('acme'))
  tokens.set('others', person('other'))
  tokens.set('gone', person('gone'))
  wire = await open()
})
after(() => wire.stop(1_000))

function clientOf(to: RunningWire, password: string, database = 'acme'): pg.Client {
  const client = new pg.Client({ host: '127.0.0.1', port: to.port, user: 'vera', database, password })
  client.on('error', () => undefined)
  return client
}

async function loggedIn(to = wire): Promise<pg.Client> {
  const client = clientOf(to, 'good')
  await client.connect()
  return client
}

const endOf = (client: pg.Client) => new Promise<void>((resolve) => client.once('end', () => resolve()))

const shown = async (client: pg.Client): Promise<unknown> => (await client.query('SHOW server_encoding')).rows[0]

describe('who is let in', () => {
  for (const [what, password, database] of [
    ['a token that is not known', 'bad', 'acme'],
    ['a token of another tenant', 'others', 'acme'],
    ['a database that is not the tenant of the token', 'good', 'other'],
    ['a tenant that is not served', 'gone', 'gone'],
    ['no password', '', 'acme'],
  ] as const) {
    it(`refuses ${what}, and says no more than that`, async () => {
      await assert.rejects(clientOf(wire, password, database).connect(), (error: pg.DatabaseError) => {
        assert.deepEqual([error.code, error.message], ['28P01', 'authentication failed'])
        return true
      })
    })
  }

  it('has places for each tenant', async () => {
    const clients = [await loggedIn(), await loggedIn(), await loggedIn()]
    await assert.rejects(loggedIn(), { code: '53300' })
    const other = clientOf(wire, 'others', 'other')
    await other.connect()
    await Promise.all([...clients, other].map((client) => client.end()))
  })

  it('ends who says nothing, before and after the login', async () => {
    const impatient = await open({ loginMs: 300, idleMs: 300 })
    try {
      const silent = connect({ host: '127.0.0.1', port: impatient.port })
      silent.on('error', () => undefined).resume()
      const client = await loggedIn(impatient)
      await Promise.all([once(silent, 'close'), endOf(client)])
    } finally {
      await impatient.stop(1_000)
    }
  })
})

describe('a session', () => {
  it('takes of the same bucket as requests', async () => {
    const seldom = { ratePerS: 0.001, burst: 2 }
    const rateLimiter = new LocalRateLimiter()
    const rateLimits = { tiers: { free: OFTEN, standard: seldom, enterprise: OFTEN }, address: OFTEN }
    const limited = await open({ authorities: { ...authoritiesOf(), rateLimiter, rateLimits } })
    try {
      const client = await loggedIn(limited)
      rateLimiter.take('acme', seldom)
      await shown(client)
      await assert.rejects(shown(client), { code: '53400' })
      await client.end()
    } finally {
      await limited.stop(1_000)
    }
  })

  it('ends with its token, and by the next statement where that is revoked', async () => {
    tokens.set('short', person('acme', Date.now() + 1_500))
    const client = clientOf(wire, 'short')
    const told = once(client, 'error')
    const ended = endOf(client)
    await client.connect()
    assert.equal(((await told)[0] as pg.DatabaseError).code, '28000')
    await ended
    tokens.set('revoked', person('acme'))
    const other = clientOf(wire, 'revoked')
    await other.connect()
    tokens.delete('revoked')
    await assert.rejects(other.query("SELECT x FROM crm.people WHERE email = 'a'"), { code: '28000' })
  })

  it('only reads, sets what it keeps, and says in which state a transaction is', async () => {
    const client = await loggedIn()
    const codeOf = (sql: string) =>
      client.query(sql).then(
        () => 'done',
        (error: pg.DatabaseError) => error.code,
      )
    for (const write of [
      'INSERT INTO a.b VALUES (1)',
      'CREATE TABLE x (a int)',
      'COPY a.b FROM STDIN',
      'SET TRANSACTION READ WRITE',
    ])
      assert.equal(await codeOf(write), '25006', write)
    for (const unkept of [
      "SET TimeZone = 'Europe/Berlin'",
      'SET search_path = crm',
      'BEGIN ISOLATION LEVEL SERIALIZABLE',
      'PREPARE a AS SELECT 1',
    ])
      assert.equal(await codeOf(unkept), '0A000', unkept)
    assert.equal(await codeOf('SHOW data_directory'), '42704')
    for (const kept of [
      "SET application_name TO 'report'",
      'SET statement_timeout = 5000',
      'SET client_encoding TO UTF8',
      'DISCARD ALL',
      'UNLISTEN *',
      '',
      '-- nothing',
    ])
      assert.equal(await codeOf(kept), 'done', kept)
    assert.equal(await codeOf('BEGIN; SAVEPOINT a'), 'done')
    assert.equal(await codeOf('SHOW nothing_known'), '42704')
    assert.equal(await codeOf('SHOW server_version'), '25P02')
    assert.equal(await codeOf('ROLLBACK TO a'), 'done')
    assert.equal(await codeOf('SHOW server_version'), 'done')
    assert.equal((await client.query('COMMIT')).command, 'COMMIT')
    await client.end()
  })

  it('is told by 57P01 where the server stops', async () => {
    const stopping = await open()
    const client = await loggedIn(stopping)
    const told = once(client, 'error')
    await stopping.stop(5_000)
    assert.equal(((await told)[0] as pg.DatabaseError).code, '57P01')
    await assert.rejects(loggedIn(stopping))
  })
})

describe('what others send', () => {
  const startup = (...settings: readonly string[]): Buffer => {
    const body = Buffer.concat([
      Buffer.from([0, 3, 0, 0]),
      Buffer.from(settings.map((text) => `${text}\0`).join('')),
      Buffer.from([0]),
    ])
    const length = Buffer.alloc(4)
    length.writeInt32BE(body.length + 4)
    return Buffer.concat([length, body])
  }
  const message = (type: string, body: Buffer, length = body.length + 4): Buffer => {
    const head = Buffer.alloc(5)
    head.write(type)
    head.writeInt32BE(length, 1)
    return Buffer.concat([head, body])
  }

  /** Sends the bytes, and waits until the server has closed. */
  async function throwAt(bytes: Buffer): Promise<Buffer> {
    const socket = connect({ host: '127.0.0.1', port: wire.port })
    const heard: Buffer[] = []
    socket.on('error', () => undefined).on('data', (chunk: Buffer) => heard.push(chunk))
    socket.end(bytes)
    await once(socket, 'close')
    return Buffer.concat(heard)
  }

  it('neither ends nor stops a session beside it', async () => {
    const beside = await loggedIn()
    const login = Buffer.concat([startup('user', 'vera', 'database', 'acme'), message('p', Buffer.from('good\0'))])
    const type = fc.constantFrom(...'QPBDEFCSHXpdfcZz')
    const length = fc.oneof(fc.integer({ min: -(2 ** 31), max: 2 ** 31 - 1 }), fc.integer({ min: 0, max: 64 }))
    const part = fc.tuple(type, fc.uint8Array({ maxLength: 64 }), fc.option(length, { nil: undefined }))
    const hostile = fc.oneof(
      fc.uint8Array({ maxLength: 64 }).map((bytes) => Buffer.from(bytes)),
      fc
        .array(part, { maxLength: 5 })
        .map((parts) =>
          Buffer.concat([login, ...parts.map(([letter, bytes, told]) => message(letter, Buffer.from(bytes), told))]),
        ),
    )
    await fc.assert(
      fc.asyncProperty(hostile, async (bytes) => {
        await throwAt(bytes)
        assert.deepEqual(await shown(beside), { server_encoding: 'UTF8' })
      }),
      { numRuns: 150 },
    )
    await beside.end()
  })

  it('is refused where it is longer than it may be, before it is kept', async () => {
    const start = Buffer.from([0x7f, 0xff, 0xff, 0xff, 0, 3, 0, 0])
    assert.match((await throwAt(start)).toString('latin1'), /08P01/)
    const login = startup('user', 'vera', 'database', 'acme')
    const password = message('p', Buffer.alloc(0), 100_000)
    assert.match((await throwAt(Buffer.concat([login, password]))).toString('latin1'), /08P01/)
    const query = message('Q', Buffer.alloc(0), 2 ** 30)
    const all = Buffer.concat([login, message('p', Buffer.from('good\0')), query])
    assert.match((await throwAt(all)).toString('latin1'), /08P01/)
  })

  it('is answered N to TLS and GSSAPI where there is none, and nothing to cancels of nobody', async () => {
    const request = (code: number): Buffer => {
      const bytes = Buffer.alloc(8)
      bytes.writeInt32BE(8)
      bytes.writeInt32BE(code, 4)
      return bytes
    }
    assert.equal((await throwAt(request(80_877_103))).toString('latin1')[0], 'N')
    assert.equal((await throwAt(request(80_877_104))).toString('latin1')[0], 'N')
    const cancel = Buffer.concat([Buffer.from([0, 0, 0, 16]), request(80_877_102).subarray(4), Buffer.alloc(8)])
    assert.equal((await throwAt(cancel)).length, 0)
  })
})
