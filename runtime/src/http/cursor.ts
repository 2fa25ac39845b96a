import { createCipheriv, createDecipheriv, createHash, randomBytes } from 'node:crypto'
import { deflateRawSync, inflateRawSync } from 'node:zlib'
import type { SluiceError } from '@sluice/sdk'
import { canonicalJson } from './idempotency.ts'
import { refuse } from './problem.ts'

/** What a cursor is good for; with any other it is as invalid as a forged one. */
export interface CursorBinding {
  readonly tenant: string
  readonly issuer: string
  readonly subject: string
  /** Of the policy under which the page was read. */
  readonly policyVersion: string
  /** The operation and everything that chose the rows, the limit aside. */
  readonly query: unknown
  /** The snapshot that the pages are of, where they are of one. */
  readonly snapshot?: string
}

const FORMAT = 1
/** The position is deflated: keys may be long texts, and an index holds long ones as long as they repeat themselves. */
const DEFLATED = 2
const DEFLATED_FROM_BYTES = 2048
const MOST_PLAIN_BYTES = 1024 * 1024
const KEY_ID_BYTES = 4
const IV_BYTES = 12
const TAG_BYTES = 16
const HEAD_BYTES = 1 + KEY_ID_BYTES + IV_BYTES
/** What fits an address of 12 KiB beside the longest of each other parameter of a read. No longer one is given away. */
export const MAX_CURSOR_LENGTH = 4_900
/**
 * More than the position of any list. Those have numbers of the whole installation in them, whose digits would tell a tenant
 * how much others do.
 */
const LEAST_BYTES = 128
const LIFETIME_MS = 24 * 60 * 60_000

interface CursorKey {
  readonly id: Buffer
  readonly secret: Uint8Array
}

/**
 * Positions inside lists, as clients carry them: encrypted, so that they show no hidden value, and bound to their
 * reader and query by AES-256-GCM. They end after a day. Short ones are as long as each other.
 */
export class Cursors {
  readonly #keys: readonly CursorKey[]
  readonly #nowMs: () => number

  /** Keys of 32 bytes, the one to seal with first; the others only open. */
  constructor(keys: readonly Uint8Array[], nowMs: () => number = Date.now) {
    this.#keys = keys.map((secret) => ({ id: keyId(secret), secret }))
    this.#nowMs = nowMs
  }

  /** `position` is any JSON value; it comes back as JSON.parse gives it. Throws `cursor_too_long` where it is too long. */
  seal(position: unknown, binding: CursorBinding): string {
    const key = this.#keys[0] as CursorKey
    const iv = randomBytes(IV_BYTES)
    const cipher = createCipheriv('aes-256-gcm', key.secret, iv).setAAD(boundTo(binding))
    const plain = Buffer.from(JSON.stringify([this.#nowMs() + LIFETIME_MS, position]).padEnd(LEAST_BYTES))
    if (plain.length > MOST_PLAIN_BYTES) throw tooLong()
    const isLong = plain.length > DEFLATED_FROM_BYTES
    const sealed = Buffer.concat([cipher.update(isLong ? deflateRawSync(plain) : plain), cipher.final()])
    const format = Buffer.of(isLong ? DEFLATED : FORMAT)
    const cursor = Buffer.concat([format, key.id, iv, sealed, cipher.getAuthTag()]).toString('base64url')
    if (cursor.length > MAX_CURSOR_LENGTH) throw tooLong()
    return cursor
  }

  /** Throws `cursor_invalid` for anything but a cursor that was sealed with this binding in the last day. */
  open(cursor: string, binding: CursorBinding): unknown {
    const [expiresAtMs, position] = this.#decrypt(cursor, binding)
    if (expiresAtMs <= this.#nowMs()) throw refuse('cursor_invalid', 'this cursor has expired')
    return position
  }

  #decrypt(cursor: string, binding: CursorBinding): readonly [number, unknown] {
    try {
      if (cursor.length > MAX_CURSOR_LENGTH) throw new RangeError('too long')
      const bytes = Buffer.from(cursor, 'base64url')
      const key = this.#keys.find(({ id }) => id.equals(bytes.subarray(1, 1 + KEY_ID_BYTES)))
      const [format] = bytes
      const isKnown = format === FORMAT || format === DEFLATED
      if (key === undefined || !isKnown || bytes.length < HEAD_BYTES + TAG_BYTES) throw new RangeError('form')
      const decipher = createDecipheriv('aes-256-gcm', key.secret, bytes.subarray(1 + KEY_ID_BYTES, HEAD_BYTES), {
        authTagLength: TAG_BYTES,
      })
      decipher.setAAD(boundTo(binding)).setAuthTag(bytes.subarray(-TAG_BYTES))
      const opened = Buffer.concat([decipher.update(bytes.subarray(HEAD_BYTES, -TAG_BYTES)), decipher.final()])
      const plain = format === DEFLATED ? inflateRawSync(opened, { maxOutputLength: MOST_PLAIN_BYTES }) : opened
      return JSON.parse(plain.toString('utf8')) as [number, unknown]
    } catch (cause) {
      throw refuse('cursor_invalid', 'this cursor does not belong to this request', { cause })
    }
  }
}

function tooLong(): SluiceError {
  return refuse('cursor_too_long', 'this page ends at a row whose key, or value ordered by, is too long for a cursor')
}

function boundTo(binding: CursorBinding): Buffer {
  return createHash('sha256').update(canonicalJson(binding)).digest()
}

function keyId(secret: Uint8Array): Buffer {
  return createHash('sha256').update('cursor key').update(secret).digest().subarray(0, KEY_ID_BYTES)
}
