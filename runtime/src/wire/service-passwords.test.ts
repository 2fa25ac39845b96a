/** Logins by service passwords at the listener: who is let in, what strangers learn, and when sessions end. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { networkInterfaces } from 'node:os'
import { after, before, describe, it } from 'node:test'
import type pg from 'pg'
import { withLimits } from '../../../test/until.ts'
import { newPassword } from '../registry/scram-verifiers.ts'
import type { RunningWire } from './listener.ts'
import { type Frame, Frames } from './protocol/frames.ts'
import {
  authoritiesOf,
  clientOf,
  makePassword,
  OFTEN,
  openWire,
  person,
  servicePasswords,
  tokens,
} from './wire.fixture.ts'

const USER = 'svp_000000000000000000000001'
const GONE = 'svp_000000000000000000000002'
const EXPIRED = 'svp_000000000000000000000003'
const NOBODY = 'svp_00000000000000000000000f'

let wire: RunningWire
let password: string
let ofGone: string
let ofExpired: string

before(async () => {
  tokens.set('good', person('acme'))
  password = await makePassword(USER, 'acme')
  ofGone = await makePassword(GONE, 'gone')
  ofExpired = await makePassword(EXPIRED, 'acme', new Date(0))
  wire = await openWire({ maxConnectionsPerTenant: 20 })
})
after(() => wire.stop(1_000))

const clientAs = (user: string, secret: string, database = 'acme', to = wire): pg.Client =>
  clientOf(to, secret, database, undefined, user)

async function loggedIn(user = USER, secret = password, to = wire): Promise<pg.Client> {
  const client = clientAs(user, secret, 'acme', to)
  await client.connect()
  return client
}

const shown = async (client: pg.Client): Promise<unknown> => (await client.query('SHOW server_encoding')).rows[0]

const refused = (error: pg.DatabaseError): boolean => {
  assert.deepEqual([error.code, error.message], ['28P01', 'authentication failed'])
  return true
}

/** A client that says what no driver says. */
class Stranger {
  readonly #socket: Socket
  readonly #frames = new Frames(() => 2 ** 20)
  #isClosed = false

  constructor(to: RunningWire, host = '127.0.0.1') {
    this.#socket = connect({ host, port: to.port })
    this.#socket.on('error', () => undefined)
    this.#socket.on('data', (chunk: Buffer) => this.#frames.push(chunk))
    this.#socket.on('close', () => {
      this.#isClosed = true
    })
  }

  start(user: string, database = 'acme'): this {
    const body = Buffer.from(`\0\x03\0\0user\0${user}\0database\0${database}\0\0`)
    const length = Buffer.alloc(4)
    length.writeInt32BE(body.length + 4)
    this.#socket.write(Buffer.concat([length, body]))
    return this
  }

  say(body: Buffer | string, type = 'p'): this {
    const head = Buffer.alloc(5)
    head.write(type)
    head.writeInt32BE(Buffer.byteLength(body) + 4, 1)
    this.#socket.write(Buffer.concat([head, Buffer.from(body)]))
    return this
  }

  /** Null where the server has closed. */
  async next(): Promise<Frame | null> {
    for (;;) {
      const frame = this.#frames.next()
      if (frame !== null || this.#isClosed) return frame
      await Promise.race([once(this.#socket, 'data'), once(this.#socket, 'close')]).catch(() => undefined)
    }
  }

  /** The code and message of the error that ends it, after whatever else is said. */
  async error(): Promise<readonly [string, string]> {
    let last: Frame | null = null
    for (let frame = await this.next(); frame !== null; frame = await this.next()) last = frame
    assert.equal(last?.type, 'E')
    const text = last.body.toString()
    return [/\0C(\w{5})\0/.exec(text)?.[1] ?? '', /\0M([^\0]*)\0/.exec(text)?.[1] ?? '']
  }

  close(): void {
    this.#socket.destroy()
  }
}

function firstMessage(text: string, mechanism = 'SCRAM-SHA-256', told = Buffer.byteLength(text)): Buffer {
  const length = Buffer.alloc(4)
  length.writeInt32BE(told)
  return Buffer.concat([Buffer.from(`${mechanism}\0`), length, Buffer.from(text)])
}

/** What the server says up to its challenge, without the nonces. */
async function challengeOf(user: string, database = 'acme', to = wire): Promise<readonly string[]> {
  const stranger = new Stranger(to).start(user, database)
  const offer = await stranger.next()
  stranger.say(firstMessage('n,,n=,r=abc'))
  const challenge = await stranger.next()
  stranger.close()
  return [offer, challenge].map((frame) => `${frame?.type}${frame?.body.toString('latin1').replace(/r=[^,]+/, 'r=')}`)
}

describe('who has a service password', () => {
  it('is let in by its user and the database of its tenant, and by nothing else', async () => {
    const client = await loggedIn()
    assert.deepEqual(await shown(client), { server_encoding: 'UTF8' })
    await client.end()
    for (const [user, secret, database] of [
      [USER, newPassword(), 'acme'],
      [USER, `${password}0`, 'acme'],
      [USER, 'good', 'acme'],
      [USER, password, 'other'],
      [USER, password, USER],
      [GONE, ofGone, 'gone'],
      [EXPIRED, ofExpired, 'acme'],
      [NOBODY, password, 'acme'],
      ['svp_', password, 'acme'],
      [USER.toUpperCase(), password, 'acme'],
      ['vera', password, 'acme'],
    ] as const) {
      await assert.rejects(clientAs(user, secret, database).connect(), refused, `${user} ${database}`)
    }
    await (await loggedIn('vera', 'good')).end()
  })

  it('is not told from who is not there, up to the proof', async () => {
    const [offer, challenge] = (await challengeOf(USER)) as [string, string]
    assert.equal(offer, 'R\0\0\0\x0aSCRAM-SHA-256\0\0')
    const shape = /^R\W{4}r=,s=([A-Za-z0-9+/]{22}==),i=4096$/
    assert.match(challenge, shape)
    for (const [user, database] of [
      [NOBODY, 'acme'],
      [NOBODY, 'other'],
      [USER, 'other'],
      [GONE, 'gone'],
      ['svp_', 'acme'],
    ] as const) {
      const heard = await challengeOf(user, database)
      assert.equal(heard[0], offer)
      assert.match(heard[1] ?? '', shape, user)
      assert.deepEqual(await challengeOf(user, database), heard, 'the same salt each time')
    }
    const salts = await Promise.all([USER, NOBODY, GONE].map(async (user) => (await challengeOf(user))[1]))
    assert.equal(new Set(salts).size, 3)
    for (const user of [USER, NOBODY]) {
      const stranger = new Stranger(wire).start(user).say(firstMessage('n,,n=,r=abc'))
      await stranger.next()
      const nonce = /r=([^,]+)/.exec((await stranger.next())?.body.toString() ?? '')?.[1]
      stranger.say(`c=biws,r=${nonce},p=${Buffer.alloc(32).toString('base64')}`)
      assert.deepEqual(await stranger.error(), ['28P01', 'authentication failed'])
    }
  })

  const own = Object.values(networkInterfaces())
    .flat()
    .find((one) => one?.family === 'IPv4' && !one.internal)?.address

  it('is asked for no proof without TLS, but on the machine itself', {
    skip: own === undefined && 'this machine has no other address',
  }, async () => {
    const open = await openWire({ host: '0.0.0.0' })
    try {
      const stranger = new Stranger(open, own).start(USER)
      const only = await stranger.next()
      assert.deepEqual([only?.type, /\0C(\w{5})\0/.exec(only?.body.toString() ?? '')?.[1]], ['E', '28000'])
      stranger.close()
      await (await loggedIn(USER, password, open)).end()
    } finally {
      await open.stop(1_000)
    }
  })

  it('is not who repeats what he has overheard', async () => {
    const heard: Buffer[] = []
    const between = createServer((socket) => {
      socket.on('data', (chunk: Buffer) => heard.push(chunk))
      const onwards = connect({ host: '127.0.0.1', port: wire.port })
      socket.pipe(onwards).pipe(socket)
      for (const end of [socket, onwards]) end.on('error', () => undefined)
    }).listen(0, '127.0.0.1')
    await once(between, 'listening')
    const { port } = between.address() as AddressInfo
    const client = clientAs(USER, password, 'acme', { ...wire, port })
    await client.connect()
    await client.end()
    between.close()
    const all = Buffer.concat(heard)
    assert.ok(all.includes('SCRAM-SHA-256') && !all.includes(password))
    const frames = new Frames(() => 2 ** 20)
    frames.push(all)
    frames.nextOfStart()
    const [first, last] = [frames.next(), frames.next()] as [Frame, Frame]
    const stranger = new Stranger(wire).start(USER)
    stranger.say(first.body).say(last.body)
    const [code, message] = await stranger.error()
    assert.deepEqual([code, /nonce/.test(message)], ['08P01', true])
  })

  it('sends the messages of the exchange, each in its turn, and no others', async () => {
    const beside = await loggedIn()
    const begun = async (user: string) => {
      const stranger = new Stranger(wire).start(user)
      await stranger.next()
      return stranger
    }
    const wrong: readonly (readonly [string, (stranger: Stranger) => void])[] = [
      ['a token', (stranger) => stranger.say('good\0')],
      ['nothing', (stranger) => stranger.say('')],
      ['another mechanism', (stranger) => stranger.say(firstMessage('n,,n=,r=abc', 'PLAIN'))],
      [
        'one that was not offered',
        (stranger) => stranger.say(firstMessage('p=tls-server-end-point,,n=,r=a', 'SCRAM-SHA-256-PLUS')),
      ],
      ['no text', (stranger) => stranger.say(firstMessage('', 'SCRAM-SHA-256', -1))],
      ['a text that is cut', (stranger) => stranger.say(firstMessage('n,,n=,r=abc', 'SCRAM-SHA-256', 100))],
      ['more than the text', (stranger) => stranger.say(firstMessage('n,,n=,r=abc', 'SCRAM-SHA-256', 3))],
      ['no UTF-8', (stranger) => stranger.say(Buffer.concat([firstMessage('', 'SCRAM-SHA-256', 1), Buffer.of(255)]))],
      ['a text too long', (stranger) => stranger.say(firstMessage(`n,,n=,r=${'a'.repeat(1024)}`))],
      ['a message too long to be kept', (stranger) => stranger.say(Buffer.alloc(20_000))],
      ['the last text first', (stranger) => stranger.say(`c=biws,r=abc,p=${Buffer.alloc(32).toString('base64')}`)],
      ['a query', (stranger) => stranger.say('SHOW server_encoding\0', 'Q')],
      ['a first text twice', (stranger) => stranger.say(firstMessage('n,,n=,r=abc')).say(firstMessage('n,,n=,r=abc'))],
      ['a query after it', (stranger) => stranger.say(firstMessage('n,,n=,r=abc')).say('SHOW a\0', 'Q')],
      ['a last text too long', (stranger) => stranger.say(firstMessage('n,,n=,r=abc')).say('c'.repeat(1025))],
    ]
    for (const [what, send] of wrong) {
      const told: string[] = []
      for (const user of [USER, NOBODY]) {
        const stranger = await begun(user)
        send(stranger)
        const [code, message] = await stranger.error()
        assert.equal(code, '08P01', what)
        told.push(message)
      }
      assert.equal(told[0], told[1], what)
    }
    assert.deepEqual(await shown(beside), { server_encoding: 'UTF8' })
    await beside.end()
  })

  it('has as many tries as others whose logins fail', async () => {
    const seldom = { ratePerS: 0.001, burst: 3 }
    const rateLimits = { tiers: { free: OFTEN, standard: OFTEN, enterprise: OFTEN }, address: seldom }
    const wary = await openWire({ authorities: { ...authoritiesOf(), rateLimits } })
    try {
      // Who gives up before the proof has tried nothing.
      for (let times = 0; times < 5; times += 1) await challengeOf(USER, 'acme', wary)
      await assert.rejects(clientAs(USER, newPassword(), 'acme', wary).connect(), refused)
      await assert.rejects(clientAs(NOBODY, newPassword(), 'acme', wary).connect(), refused)
      await (await loggedIn(USER, password, wary)).end()
      await new Stranger(wary).start(USER).say('nothing of the kind').error()
      await assert.rejects(clientAs(USER, password, 'acme', wary).connect(), refused)
      const stranger = new Stranger(wary).start(USER)
      assert.equal((await stranger.next())?.type, 'E', 'and is not challenged any more')
      stranger.close()
    } finally {
      await wary.stop(1_000)
    }
  })

  it('has as much time as others', async () => {
    await withLimits([300, 3_000, 30_000], async (loginMs) => {
      const impatient = await openWire({ loginMs })
      try {
        for (const messages of [[], [firstMessage('n,,n=,r=abc')]]) {
          const stranger = new Stranger(impatient).start(USER)
          for (const message of messages) stranger.say(message)
          assert.equal((await stranger.error())[0], '57P05')
        }
      } finally {
        await impatient.stop(1_000)
      }
    })
  })
})

describe('a session by a service password', () => {
  it('ends when the password is deleted, asking or not', async () => {
    const [idle, asking] = ['svp_a', 'svp_b']
    const secrets = [await makePassword(idle, 'acme'), await makePassword(asking, 'acme')] as const
    const [one, other, beside] = [
      await loggedIn(idle, secrets[0]),
      await loggedIn(asking, secrets[1]),
      await loggedIn(),
    ]
    const told = once(one, 'error')
    const ended = new Promise<void>((resolve) => one.once('end', () => resolve()))
    servicePasswords.delete(idle)
    servicePasswords.delete(asking)
    await assert.rejects(other.query("SELECT x FROM crm.people WHERE email = 'a'"), { code: '28000' })
    assert.equal(((await told)[0] as pg.DatabaseError).code, '28000')
    await ended
    assert.deepEqual(await shown(beside), { server_encoding: 'UTF8' })
    await beside.end()
  })

  it('ends when the password expires', async () => {
    await withLimits([2_000, 20_000], async (leftMs) => {
      const secret = await makePassword('svp_c', 'acme', new Date(Date.now() + leftMs))
      const client = clientAs('svp_c', secret)
      const told = once(client, 'error')
      await client.connect()
      assert.equal(((await told)[0] as pg.DatabaseError).code, '28000')
    })
  })
})
