/**
 * This side of SCRAM-SHA-256 (RFC 5802, RFC 7677): a client proves that it has a password, and is proved that this side
 * knows its verifier, while neither password nor verifier is sent. With SCRAM-SHA-256-PLUS both prove as well that they see
 * one and the same TLS connection, by the hash of the server's certificate (`tls-server-end-point`, RFC 5929).
 */
import { hash, randomBytes, timingSafeEqual } from 'node:crypto'
import { HASH_BYTES, hmac, type ScramVerifier } from '../registry/scram-verifiers.ts'

export const SCRAM = 'SCRAM-SHA-256'
export const SCRAM_PLUS = 'SCRAM-SHA-256-PLUS'

export type ScramMechanism = typeof SCRAM | typeof SCRAM_PLUS

/** How a client is heard out: what it sends is no message of the exchange, or is bound to another TLS connection. */
export class ScramFault extends Error {
  readonly kind: 'malformed' | 'unbound'

  constructor(kind: 'malformed' | 'unbound', what: string) {
    super(what)
    this.name = 'ScramFault'
    this.kind = kind
  }
}

export interface ScramParts {
  /** The one that the client has chosen. */
  readonly mechanism: ScramMechanism
  /** Hash of the certificate of this connection; null: there is nothing to bind to, and PLUS was not offered. */
  readonly endPoint: Buffer | null
  readonly verifier: ScramVerifier
  /** Of this side; printable, without a comma. Default: 144 random bits. */
  readonly nonce?: string
}

const NONCE_BYTES = 18

interface Begun {
  readonly nonce: string
  /** What the client's last message has to say of the channel. */
  readonly binding: string
  /** Both first messages, as they are signed. */
  readonly signed: string
}

/** One exchange, of two messages of the client's; what it was challenged with is good for this one alone. */
export class ScramExchange {
  readonly #parts: ScramParts
  #begun: Begun | null = null

  constructor(parts: ScramParts) {
    this.#parts = parts
  }

  /** Answers the first message of a client. Throws ScramFault. */
  challenge(message: string): string {
    const { verifier, nonce: own = randomBytes(NONCE_BYTES).toString('base64') } = this.#parts
    if (this.#begun !== null) throw malformed('it was begun already')
    const { header, bare, nonce: theirs } = firstOf(message)
    const binding = this.#bindingOf(header)
    const nonce = `${theirs}${own}`
    const challenge = `r=${nonce},s=${verifier.salt.toString('base64')},i=${verifier.iterations}`
    this.#begun = { nonce, binding, signed: `${bare},${challenge}` }
    return challenge
  }

  /** Answers the last message of a client with this side's own proof; null where the client has not the password. Throws ScramFault. */
  answer(message: string): string | null {
    const begun = this.#begun
    if (begun === null) throw malformed('it was not begun')
    // A challenge is for one answer, right or wrong.
    this.#begun = null
    const { binding, nonce, proof, withoutProof } = lastOf(message)
    if (nonce !== begun.nonce) throw malformed('its nonce is not the one of this exchange')
    if (binding !== begun.binding) throw new ScramFault('unbound', 'it is bound to another connection than this one')
    const { storedKey, serverKey } = this.#parts.verifier
    const signed = `${begun.signed},${withoutProof}`
    const clientKey = xor(proof, hmac(storedKey, signed))
    if (!timingSafeEqual(hash('sha256', clientKey, 'buffer'), storedKey)) return null
    return `v=${hmac(serverKey, signed).toString('base64')}`
  }

  #bindingOf(header: string): string {
    const { mechanism, endPoint } = this.#parts
    const isPlus = mechanism === SCRAM_PLUS
    const isBound = isPlus ? header === `p=${TYPE},,` : !header.startsWith('p=')
    if (!isBound) throw malformed(`it is not bound as ${mechanism} is`)
    if (header === 'y,,' && endPoint !== null) {
      throw new ScramFault('unbound', `the client was not told that ${SCRAM_PLUS} is offered: somebody is in between`)
    }
    const bound = isPlus && endPoint !== null ? endPoint : Buffer.alloc(0)
    return Buffer.concat([Buffer.from(header), bound]).toString('base64')
  }
}

const TYPE = 'tls-server-end-point'
/** Whether the client binds the channel, and in whose name else it acts: nobody's. */
const FIRST = /^((?:n|y|p=[A-Za-z0-9.-]+),(?:a=[^,]*)?,)(n=[^,]*,r=([\x21-\x2b\x2d-\x7e]+)(?:,[A-Za-z]=[^,]*)*)$/
const LAST = /^(c=([A-Za-z0-9+/=]+),r=([\x21-\x2b\x2d-\x7e]+)(?:,[A-Za-z]=[^,]*)*),p=([A-Za-z0-9+/]{43}=)$/

function firstOf(message: string): { readonly header: string; readonly bare: string; readonly nonce: string } {
  const [, header, bare, nonce] = FIRST.exec(message) ?? []
  if (header === undefined || bare === undefined || nonce === undefined) {
    throw malformed('its first message is none of a client')
  }
  if (header.includes(',a=')) throw malformed('it is in the name of another user')
  return { header, bare, nonce }
}

interface Last {
  readonly binding: string
  readonly nonce: string
  readonly proof: Buffer
  readonly withoutProof: string
}

function lastOf(message: string): Last {
  const [, withoutProof, binding, nonce, proof] = LAST.exec(message) ?? []
  if (withoutProof === undefined || binding === undefined || nonce === undefined || proof === undefined) {
    throw malformed('its last message is none of a client')
  }
  return { withoutProof, binding, nonce, proof: Buffer.from(proof, 'base64') }
}

function xor(left: Buffer, right: Buffer): Buffer {
  const both = Buffer.alloc(HASH_BYTES)
  for (let at = 0; at < HASH_BYTES; at += 1) both[at] = (left[at] as number) ^ (right[at] as number)
  return both
}

function malformed(what: string): ScramFault {
  return new ScramFault('malformed', what)
}
