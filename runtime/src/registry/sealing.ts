/** AES-256-GCM with associated data: what was sealed for one place opens nowhere else. */
import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto'
import { SluiceError } from '@sluice/sdk'

const FORMAT = 1
const IV_BYTES = 12
const TAG_BYTES = 16
export const KEY_BYTES = 32

/** `context` names the place; it is not kept with the text and must be the same at opening. */
export function seal(key: Buffer, plain: Buffer, context: readonly (string | number)[]): Buffer {
  const iv = randomBytes(IV_BYTES)
  const cipher = createCipheriv('aes-256-gcm', key, iv)
  cipher.setAAD(associatedData(context))
  const body = Buffer.concat([cipher.update(plain), cipher.final()])
  return Buffer.concat([Buffer.of(FORMAT), iv, cipher.getAuthTag(), body])
}

/** Throws CONFIG `secret_unreadable` for another key, another place or changed bytes; it cannot tell which. */
export function unseal(key: Buffer, sealed: Buffer, context: readonly (string | number)[]): Buffer {
  try {
    if (sealed[0] !== FORMAT) throw new Error('unknown format')
    const iv = sealed.subarray(1, 1 + IV_BYTES)
    const tag = sealed.subarray(1 + IV_BYTES, 1 + IV_BYTES + TAG_BYTES)
    const decipher = createDecipheriv('aes-256-gcm', key, iv, { authTagLength: TAG_BYTES })
    decipher.setAAD(associatedData(context)).setAuthTag(tag)
    return Buffer.concat([decipher.update(sealed.subarray(1 + IV_BYTES + TAG_BYTES)), decipher.final()])
  } catch (cause) {
    throw new SluiceError('CONFIG', 'a stored secret cannot be opened', {
      code: 'secret_unreadable',
      remedy: 'Start with the master key it was stored under, or enter the secret again.',
      cause,
    })
  }
}

/** JSON, so that no two lists give the same bytes. */
function associatedData(context: readonly (string | number)[]): Buffer {
  return Buffer.from(JSON.stringify(context))
}
