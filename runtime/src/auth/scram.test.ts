/** The exchange against the vector of RFC 7677 and against the client of node-postgres, which shares no code with it. */
import assert from 'node:assert/strict'
import { createRequire } from 'node:module'
import { describe, it } from 'node:test'
import { newPassword, type ScramVerifier, verifierOf } from '../registry/scram-verifiers.ts'
import { SCRAM, SCRAM_PLUS, ScramExchange, type ScramMechanism } from './scram.ts'

interface ClientSession {
  readonly response: string
}

/** It has no types of its own. */
const sasl = createRequire(import.meta.url)('pg/lib/crypto/sasl.js') as {
  startSession(mechanisms: readonly string[], stream: null): ClientSession
  continueSession(session: ClientSession, password: string, challenge: string, stream: null): Promise<void>
  finalizeSession(session: ClientSession, answer: string): void
}

const PASSWORD = newPassword()
const verifier = await verifierOf(PASSWORD)
const END_POINT = Buffer.alloc(32, 7)

const exchangeOf = (mechanism: ScramMechanism = SCRAM, endPoint: Buffer | null = null, of: ScramVerifier = verifier) =>
  new ScramExchange({ mechanism, endPoint, verifier: of })

/** What node-postgres sends after the challenge; its own check of our answer is the rest. */
async function answerOf(password: string, exchange: ScramExchange) {
  const session = sasl.startSession([SCRAM], null)
  await sasl.continueSession(session, password, exchange.challenge(session.response), null)
  return { session, message: session.response }
}

const malformed = { name: 'ScramFault', kind: 'malformed' }
const unbound = { name: 'ScramFault', kind: 'unbound' }

describe('an exchange of SCRAM-SHA-256', () => {
  it('is that of RFC 7677', async () => {
    const known = await verifierOf('pencil', Buffer.from('W22ZaJ0SNY7soEsUEjb6gQ==', 'base64'), 4096)
    const nonce = '%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0'
    const exchange = new ScramExchange({ mechanism: SCRAM, endPoint: null, verifier: known, nonce })
    assert.equal(
      exchange.challenge('n,,n=user,r=rOprNGfwEbeRWgbNEkqO'),
      `r=rOprNGfwEbeRWgbNEkqO${nonce},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096`,
    )
    const last = `c=biws,r=rOprNGfwEbeRWgbNEkqO${nonce},p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=`
    assert.equal(exchange.answer(last), 'v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=')
  })

  it('lets in who has the password, and proves to him that it knows it', async () => {
    const exchange = exchangeOf()
    const { session, message } = await answerOf(PASSWORD, exchange)
    const answer = exchange.answer(message)
    assert.ok(answer !== null)
    sasl.finalizeSession(session, answer)
    assert.ok(verifier.iterations >= 4096)
  })

  it('refuses another password, and each proof that a bit of was changed', async () => {
    for (const other of [newPassword(), `${PASSWORD}0`, PASSWORD.slice(0, -1), PASSWORD.toUpperCase()]) {
      const exchange = exchangeOf()
      assert.equal(exchange.answer((await answerOf(other, exchange)).message), null)
    }
    for (let bit = 0; bit < 256; bit += 1) {
      const exchange = exchangeOf()
      const { message } = await answerOf(PASSWORD, exchange)
      const proof = Buffer.from(message.slice(-44), 'base64')
      proof[bit >> 3] = (proof[bit >> 3] as number) ^ (1 << (bit & 7))
      assert.equal(exchange.answer(`${message.slice(0, -44)}${proof.toString('base64')}`), null)
    }
  })

  it('takes what is kept, and what was overheard, for no password', async () => {
    for (const part of [verifier.storedKey, verifier.serverKey]) {
      for (const form of ['hex', 'base64', 'latin1'] as const) {
        const exchange = exchangeOf()
        assert.equal(exchange.answer((await answerOf(part.toString(form), exchange)).message), null)
      }
    }
    const heard = exchangeOf()
    const { message } = await answerOf(PASSWORD, heard)
    assert.ok(heard.answer(message) !== null)
    assert.throws(() => heard.answer(message), malformed, 'a challenge is for one answer')
    const again = exchangeOf()
    await answerOf(PASSWORD, again)
    assert.throws(() => again.answer(message), malformed, 'a nonce is for one exchange')
    const nonceOf = (text: string) => (/r=([^,]+)/.exec(text)?.[1] ?? '').slice(4)
    const nonces = Array.from({ length: 100 }, () => nonceOf(exchangeOf().challenge('n,,n=,r=abcd')))
    assert.equal(new Set(nonces).size, 100)
    assert.ok(nonces.every((nonce) => nonce.length >= 24))
  })

  it('is ended by what is no message of it', async () => {
    for (const first of [
      '',
      'n',
      'n,,',
      'n,,n=,r=',
      'n,,n=',
      'n,,r=abc',
      'n,,r=abc,n=',
      'x,,n=,r=abc',
      'p=,,n=,r=abc',
      'n,a=eve,n=,r=abc',
      'n,,m=more,n=,r=abc',
      'n,,n=,r=a c',
      'n,,n=,r=abcé',
      'n,,n=,r=abc,',
      ' n,,n=,r=abc',
      '\ufeffn,,n=,r=abc',
      'n,,n=,r=abc\n',
      'p=tls-unique,,n=,r=abc',
      'p=tls-server-end-point,,n=,r=abc',
    ]) {
      assert.throws(() => exchangeOf().challenge(first), malformed, JSON.stringify(first))
    }
    const whole = async (change: (message: string) => string) => {
      const exchange = exchangeOf()
      const { message } = await answerOf(PASSWORD, exchange)
      exchange.answer(change(message))
    }
    for (const change of [
      (message: string) => message.slice(0, -1),
      (message: string) => `${message},x=1`,
      (message: string) => message.slice(0, message.indexOf(',p=')),
      (message: string) => message.replace(/c=\w+,/, ''),
      (message: string) => message.replace('r=', 'r=x'),
      (message: string) => message.replace(/p=.*/, 'p=e30='),
      (message: string) => message.replace(/p=.*/, `p=${'!'.repeat(43)}=`),
      () => '',
      () => 'n,,n=,r=abc',
    ]) {
      await assert.rejects(whole(change), malformed, String(change))
    }
    assert.throws(() => exchangeOf().answer('c=biws,r=abc'), malformed)
    const twice = exchangeOf()
    twice.challenge('n,,n=,r=abc')
    assert.throws(() => twice.challenge('n,,n=,r=abc'), malformed)
  })

  it('is bound to the connection that it is on, where both sides can', () => {
    const last = (exchange: ScramExchange, header: string, bound: Buffer) => {
      const [, nonce] = /r=([^,]+)/.exec(exchange.challenge(`${header}n=,r=abc`)) ?? []
      const data = Buffer.concat([Buffer.from(header), bound]).toString('base64')
      return exchange.answer(`c=${data},r=${nonce},p=${Buffer.alloc(32).toString('base64')}`)
    }
    const header = 'p=tls-server-end-point,,'
    assert.equal(last(exchangeOf(SCRAM_PLUS, END_POINT), header, END_POINT), null, 'bound, with a proof of nothing')
    for (const other of [Buffer.alloc(32, 8), Buffer.alloc(0), END_POINT.subarray(1)]) {
      assert.throws(() => last(exchangeOf(SCRAM_PLUS, END_POINT), header, other), unbound)
    }
    for (const none of ['n,,', 'y,,']) {
      assert.throws(() => last(exchangeOf(SCRAM_PLUS, END_POINT), none, Buffer.alloc(0)), malformed)
    }
    // Somebody in between has taken the offer away.
    assert.throws(() => last(exchangeOf(SCRAM, END_POINT), 'y,,', Buffer.alloc(0)), unbound)
    assert.equal(last(exchangeOf(SCRAM, null), 'y,,', Buffer.alloc(0)), null)
    assert.equal(last(exchangeOf(SCRAM, END_POINT), 'n,,', Buffer.alloc(0)), null)
    assert.throws(() => last(exchangeOf(SCRAM, null), 'n,,', END_POINT), unbound)
  })
})
