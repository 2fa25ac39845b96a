/**
 * Service passwords, where clients of PostgreSQL log in. A name that nobody has is challenged like any other, so that who
 * asks learns of none whether it is there. See docs/decisions/0208-service-passwords.md.
 */
import { hkdfSync } from 'node:crypto'
import type { Principal } from '../flow.ts'
import { PASSWORD_ISSUER } from '../policy/identity.ts'
import { HASH_BYTES, hmac, ITERATIONS, SALT_BYTES, type ScramVerifier } from '../registry/scram-verifiers.ts'
import { type PresentedPassword, presentedPassword, recordPasswordUse } from '../registry/service-passwords.ts'
import type { Queryable } from '../registry/sql.ts'
import { tokenRefused } from './errors.ts'

/** Where service passwords are kept. */
export interface PasswordStore {
  find(user: string): Promise<PresentedPassword | null>
  recordUse(user: string): Promise<void>
}

export const passwordStoreIn = (db: Queryable): PasswordStore => ({
  find: (user) => presentedPassword(db, user),
  recordUse: (user) => recordPasswordUse(db, user),
})

const PREFIX = 'svp_'

/** Whether a client that calls itself so logs in by a service password, be it there or not; all others show tokens. */
export const isPasswordUser = (user: string): boolean => user.startsWith(PREFIX)

export class PasswordAuthenticator {
  readonly #store: PasswordStore
  readonly #secret: Uint8Array
  readonly #nowMs: () => number

  /** @param secret the same at every runtime of a registry: what is told of a name that nobody has depends on it alone */
  constructor(store: PasswordStore, secret: Uint8Array, nowMs: () => number = Date.now) {
    this.#store = store
    this.#secret = new Uint8Array(hkdfSync('sha256', secret, '', 'sluice names of service passwords', HASH_BYTES))
    this.#nowMs = nowMs
  }

  /** What the user of that name is challenged with. Of a name that nobody has, one that no password answers. */
  async verifierOf(user: string): Promise<ScramVerifier> {
    // Made for all: else it would take longer where there is nobody.
    const nobodys = this.#nobodys(user)
    return (await this.#store.find(user))?.verifier ?? nobodys
  }

  /** Whoever has proved the password, as of now. Throws PERMISSION `token_invalid` or `token_expired` where it is good no more. */
  async principalOf(user: string): Promise<Principal> {
    const password = await this.#store.find(user)
    if (password === null) throw tokenRefused('token_invalid', 'there is no such service password')
    if (password.expiresAt !== null && password.expiresAt.getTime() <= this.#nowMs()) {
      throw tokenRefused('token_expired', 'the service password has expired')
    }
    if (password.isUseDue) await this.#store.recordUse(user)
    return principalOfPassword(password)
  }

  #nobodys(user: string): ScramVerifier {
    const of = (what: string): Buffer => hmac(this.#secret, `${what} ${user}`)
    return {
      salt: of('salt').subarray(0, SALT_BYTES),
      iterations: ITERATIONS,
      storedKey: of('stored key'),
      serverKey: of('server key'),
    }
  }
}

/** A viewer of the tenant who is in the one group, and never a developer. */
function principalOfPassword(password: PresentedPassword): Principal {
  return {
    issuer: PASSWORD_ISSUER,
    subject: password.id,
    tenant: password.tenant,
    groups: [password.group],
    isAdmin: false,
    isDeveloper: false,
    isViewer: true,
    claimedClearance: password.clearance,
    email: null,
    tokenExpiresAtMs: password.expiresAt?.getTime() ?? Number.POSITIVE_INFINITY,
    tokenIssuedAtMs: password.createdAt.getTime(),
  }
}
