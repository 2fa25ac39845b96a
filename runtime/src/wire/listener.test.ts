/** Clients of every kind at the listener, with tokens that are texts: who is let in, for how long, and what a session keeps. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect } from 'node:net'
import { after, before, describe, it } from 'node:test'
import { createSecureContext } from 'node:tls'
import pg from 'pg'
import { LocalRateLimiter } from '../http/rate-limit.ts'
import type { RunningWire } from './listener.ts'
import { authoritiesOf, clientOf, closedTenants, OFTEN, openWire, person, tokens } from './wire.fixture.ts'

let wire: RunningWire

before(async () => {
  tokens.set('good', person('acme'))
  tokens.set('others', person('other'))
  tokens.set('gone', person('gone'))
  wire = await openWire()
})
after(() => wire.stop(1_000))

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

  it('is let in under TLS as often as he likes, one after another', async () => {
    // Without a certificate: both sides agree on that.
    const anonymous = { ciphers: 'AECDH-AES128-SHA:@SECLEVEL=0', maxVersion: 'TLSv1.2' } as const
    const few = await openWire({ tls: createSecureContext(anonymous), maxConnections: 10, maxConnectionsPerAddress: 2 })
    try {
      for (let times = 0; times < 12; times += 1) {
        const client = clientOf(few, 'good', 'acme', { ...anonymous, rejectUnauthorized: false })
        await client.connect()
        assert.deepEqual(await shown(client), { server_encoding: 'UTF8' })
        await client.end()
      }
    } finally {
      await few.stop(1_000)
    }
  })

  it('is who is known already, whoever fails beside him', async () => {
    const seldom = { ratePerS: 0.001, burst: 1 }
    const rateLimits = { tiers: { free: OFTEN, standard: OFTEN, enterprise: OFTEN }, address: seldom }
    const { authenticator, ...rest } = authoritiesOf()
    const cached = (token: string) => (token === 'good' ? person('acme') : null)
    const wary = await openWire({ authorities: { ...rest, authenticator: { ...authenticator, cached }, rateLimits } })
    try {
      for (let times = 0; times < 3; times += 1) await assert.rejects(clientOf(wary, 'bad').connect())
      await assert.rejects(clientOf(wary, 'others', 'other').connect(), { code: '28P01' })
      await (await loggedIn(wary)).end()
    } finally {
      await wary.stop(1_000)
    }
  })

  it('ends who says nothing, before and after the login', async () => {
    const impatient = await openWire({ loginMs: 300, idleMs: 300 })
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
    const limited = await openWire({ authorities: { ...authoritiesOf(), rateLimiter, rateLimits } })
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
      "SET TRANSACTION SNAPSHOT '00000003-0000001B-1'",
      "SET work_mem = '1GB'",
      'PREPARE a AS DISCARD ALL',
    ])
      assert.equal(await codeOf(unkept), '0A000', unkept)
    assert.equal(await codeOf('SHOW data_directory'), '42704')
    for (const kept of [
      "SET application_name TO 'report'",
      'SET statement_timeout = 5000',
      'SET client_encoding TO UTF8',
      'SET search_path = crm, "Other"',
      "SET client_min_messages TO 'warning'",
      'SET jit = off',
      'SHOW ALL',
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
    assert.equal(await codeOf('BEGIN ISOLATION LEVEL SERIALIZABLE'), 'done')
    const { rows } = await client.query('SHOW transaction_isolation')
    assert.deepEqual(rows, [{ transaction_isolation: 'serializable' }])
    await client.query('ROLLBACK')
    await client.end()
  })

  it('keeps what is set for as long as it was set for', async () => {
    const client = await loggedIn()
    const value = async (name: string) => Object.values((await client.query(`SHOW ${name}`)).rows[0])[0]
    await client.query("SET statement_timeout = 5000; SET application_name = 'a'")
    await client.query("BEGIN; SET LOCAL statement_timeout = 7000; SET application_name = 'b'")
    assert.deepEqual([await value('statement_timeout'), await value('application_name')], ['7s', 'b'])
    await client.query('ROLLBACK')
    assert.deepEqual([await value('statement_timeout'), await value('application_name')], ['5s', 'a'])
    await client.query('RESET application_name')
    assert.deepEqual([await value('statement_timeout'), await value('application_name')], ['5s', ''])
    await client.query('SET statement_timeout TO DEFAULT')
    assert.equal(await value('statement_timeout'), '0')
    await client.end()
  })

  it('reads no more of a cursor once its token is revoked', async () => {
    tokens.set('waning', person('acme'))
    const client = clientOf(wire, 'waning')
    await client.connect()
    await client.query('BEGIN; DECLARE c CURSOR FOR SHOW server_version')
    assert.equal((await client.query('FETCH 1 FROM c')).rows.length, 1)
    tokens.delete('waning')
    await assert.rejects(client.query('FETCH 1 FROM c'), { code: '28000' })
  })

  it('ends while it is idle, once its key is revoked or its tenant is served no more', async () => {
    const key = { maker: { issuer: 'https://issuer.test', subject: 'vera' }, products: null, unmask: new Set<string>() }
    tokens.set('key', { ...person('acme'), subject: 'key_1', key: { ...key, operations: ['query'] } })
    tokens.set('closing', person('closing'))
    for (const [password, tenant, revoke] of [
      ['key', 'acme', () => tokens.delete('key')],
      ['closing', 'closing', () => closedTenants.add('closing')],
    ] as const) {
      const client = clientOf(wire, password, tenant)
      await client.connect()
      await client.query('SHOW server_version')
      const [told, ended] = [once(client, 'error'), endOf(client)]
      revoke()
      assert.equal(((await told)[0] as pg.DatabaseError).code, '28000')
      await ended
    }
  })

  it('begins as its client asks, or not at all', async () => {
    const asked = async (options: string) => {
      const to = { host: '127.0.0.1', port: wire.port, user: 'vera', database: 'acme', password: 'good' }
      const client = new pg.Client({ ...to, options, application_name: 'report' })
      client.on('error', () => undefined)
      await client.connect()
      return client
    }
    const client = await asked('-c search_path=crm,Other -c statement_timeout=5s')
    const shown = async (name: string) => Object.values((await client.query(`SHOW ${name}`)).rows[0])[0]
    await client.query("SET statement_timeout = 1; SET search_path TO 'a b'; SET application_name = 'x'")
    assert.equal(await shown('search_path'), '"a b"')
    await client.query('RESET ALL')
    const told = [await shown('search_path'), await shown('statement_timeout'), await shown('application_name')]
    assert.deepEqual(told, ['crm, other', '5s', 'report'])
    await client.end()
    for (const [options, code] of [
      ['-c work_mem=1GB', '0A000'],
      ['-c statement_timeout=soon', '22023'],
      ['search_path=crm', '42601'],
    ] as const)
      await assert.rejects(asked(options), { code }, options)
  })

  it('is told by 57P01 where the server stops', async () => {
    const stopping = await openWire()
    const client = await loggedIn(stopping)
    const told = once(client, 'error')
    await stopping.stop(5_000)
    assert.equal(((await told)[0] as pg.DatabaseError).code, '57P01')
    await assert.rejects(loggedIn(stopping))
  })
})
