import { isSluiceError } from '@sluice/sdk'
import { LentSignatures } from './lent-signatures.ts'
import { S3Relay } from './s3-relay.ts'
import type { SigningKey } from './s3-signature.ts'

/** How clients without a key reach files of an S3 store: they read by signatures, and the runtime writes for them. */
export interface SignedFiles {
  readonly signatures: LentSignatures
  readonly relay: S3Relay
}

/**
 * Throws CONFIG `catalog_signing_unsafe` where the store takes the signature of a read for more. A store that does not
 * answer is asked again before the first signature.
 */
export async function openSignedFiles(endpoint: string, key: SigningKey): Promise<SignedFiles> {
  const signatures = new LentSignatures(endpoint, key)
  await signatures.prove().catch((error: unknown) => {
    if (!isSluiceError(error, 'TRANSIENT')) throw error
  })
  return { signatures, relay: new S3Relay(endpoint, key) }
}
