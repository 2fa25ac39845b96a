/**
 * Application keys as bearer tokens. They are looked up at every
 * request, so that a revoked one, and rights that its maker has lost, end at once at every runtime.
 * See docs/decisions/0078-application-keys.md.
 */
import { timingSafeEqual } from 'node:crypto'
import type { Principal } from '../flow.ts'
import { principalOfKey } from '../policy/key-principal.ts'
import { type PresentedKey, presentedKey, recordUse, refreshMaker } from '../registry/application-keys.ts'
import { isKeyToken, readKeyToken } from '../registry/key-tokens.ts'
import { refreshSetter } from '../registry/schedules.ts'
import type { Queryable } from '../registry/sql.ts'
import { tokenRefused } from './errors.ts'

/** Of keys that do not exist: comparing takes the same for them. */
const NO_HASH = Buffer.alloc(32)

/** Where keys are kept. */
export interface KeyStore {
  find(id: string): Promise<PresentedKey | null>
  recordUse(id: string): Promise<void>
  /** Told of every token of a person that was verified, for keys and schedules are good for no more. */
  refreshMaker(maker: Principal): Promise<void>
}

interface Tokens {
  cached(token: string, connection: object): Principal | null
  verify(token: string): Promise<Principal>
}

export const keyStoreIn = (db: Queryable): KeyStore => ({
  find: (id) => presentedKey(db, id),
  recordUse: (id) => recordUse(db, id),
  async refreshMaker(maker) {
    await refreshMaker(db, maker)
    await refreshSetter(db, maker)
  },
})

/** Takes application keys beside the tokens of issuers. */
export class KeyAuthenticator {
  readonly #tokens: Tokens
  readonly #keys: KeyStore
  readonly #nowMs: () => number
  /** By token, of people: whoever sends one that is being verified is told with the others, and asks the registry nothing. */
  readonly #verifying = new Map<string, Promise<Principal>>()

  constructor(tokens: Tokens, keys: KeyStore, nowMs: () => number = Date.now) {
    this.#tokens = tokens
    this.#keys = keys
    this.#nowMs = nowMs
  }

  cached(token: string, connection: object): Principal | null {
    return isKeyToken(token) ? null : this.#tokens.cached(token, connection)
  }

  /** Throws as verifiers of tokens do. Of a key without a valid secret nothing is told, not even whether there is one. */
  verify(token: string): Promise<Principal> {
    if (isKeyToken(token)) return this.#verifyKey(token)
    const known = this.#verifying.get(token)
    if (known !== undefined) return known
    const verifying = this.#verifyPerson(token).finally(() => this.#verifying.delete(token))
    this.#verifying.set(token, verifying)
    return verifying
  }

  async #verifyPerson(token: string): Promise<Principal> {
    const principal = await this.#tokens.verify(token)
    await this.#keys.refreshMaker(principal)
    return principal
  }

  async #verifyKey(token: string): Promise<Principal> {
    const read = readKeyToken(token)
    if (read === null) throw tokenRefused('token_malformed', 'the application key is not whole')
    const key = await this.#keys.find(read.id)
    const isRight = timingSafeEqual(read.secretHash, key?.secretHash ?? NO_HASH)
    if (key === null || !isRight) throw tokenRefused('token_invalid', 'there is no such application key')
    if (key.expiresAt.getTime() <= this.#nowMs()) throw tokenRefused('token_expired', 'the application key has expired')
    if (key.isUseDue) await this.#keys.recordUse(key.id)
    return principalOfKey(key)
  }
}
