/**
 * What is kept of a service password: a verifier of SCRAM-SHA-256 (RFC 5802, RFC 7677), which tells whether somebody has the
 * password and is of no use in place of it.
 */
import { createHmac, hash, pbkdf2, randomBytes } from 'node:crypto'
import { promisify } from 'node:util'

export interface ScramVerifier {
  readonly salt: Buffer
  readonly iterations: number
  /** SHA-256 of the key by which a client proves that it has the password. */
  readonly storedKey: Buffer
  /** By which this side proves to the client that it knows the verifier. */
  readonly serverKey: Buffer
}

/** What every service password begins with, for those who look for secrets where none should be. */
const PREFIX = 'slp_'
const SECRET_BYTES = 32
export const SALT_BYTES = 16
export const HASH_BYTES = 32
/** The least that RFC 7677 allows, and enough: nobody tries 2^256 passwords, however cheap one is. */
export const ITERATIONS = 4_096

const derived = promisify(pbkdf2)

/** `slp_` and 256 random bits, as ASCII: clients that prepare passwords (SASLprep) and those that do not have the same one. */
export const newPassword = (): string => `${PREFIX}${randomBytes(SECRET_BYTES).toString('hex')}`

/** @param password ASCII */
export async function verifierOf(
  password: string,
  salt: Buffer = randomBytes(SALT_BYTES),
  iterations: number = ITERATIONS,
): Promise<ScramVerifier> {
  const salted = await derived(password, salt, iterations, HASH_BYTES, 'sha256')
  const clientKey = hmac(salted, 'Client Key')
  return { salt, iterations, storedKey: hash('sha256', clientKey, 'buffer'), serverKey: hmac(salted, 'Server Key') }
}

export function hmac(key: Uint8Array, text: string | Uint8Array): Buffer {
  return createHmac('sha256', key).update(text).digest()
}
