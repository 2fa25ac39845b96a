/** How keys of applications are written: `slk_`, the key's id, and a secret of 256 random bits. */
import { hash, randomBytes } from 'node:crypto'

/** What every key begins with, for those who look for secrets where none should be. */
const PREFIX = 'slk_'
const SHAPE = /^slk_([0-9a-f]{24})_([0-9a-f]{64})$/
const SECRET_BYTES = 32

export interface NewKey {
  readonly id: string
  /** Shown once, kept nowhere. */
  readonly token: string
  /** Random as it is, one round of SHA-256 protects it. */
  readonly secretHash: Buffer
}

export function newKey(): NewKey {
  const id = randomBytes(12).toString('hex')
  const secret = randomBytes(SECRET_BYTES).toString('hex')
  return { id: `key_${id}`, token: `${PREFIX}${id}_${secret}`, secretHash: digest(secret) }
}

/** Whether it was meant as a key: no other token begins so. */
export const isKeyToken = (token: string): boolean => token.startsWith(PREFIX)

/** Null where it is cut, or none. */
export function readKeyToken(token: string): Pick<NewKey, 'id' | 'secretHash'> | null {
  const [, id, secret] = SHAPE.exec(token) ?? []
  return id === undefined || secret === undefined ? null : { id: `key_${id}`, secretHash: digest(secret) }
}

function digest(secret: string): Buffer {
  return hash('sha256', secret, 'buffer')
}
