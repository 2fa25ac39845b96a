import { SluiceError } from '@sluice/sdk'

export type AuthCode =
  | 'token_missing'
  | 'token_malformed'
  | 'token_invalid'
  | 'token_expired'
  | 'token_not_yet_valid'
  | 'token_claim_refused'

/**
 * A token that is refused. The message says which rule it broke, and nothing that the token or a key holds; what to do
 * about it stands in the table of codes.
 */
export function tokenRefused(code: AuthCode, message: string, cause?: unknown): SluiceError {
  return new SluiceError('PERMISSION', message, { code, cause })
}
