import { SluiceError } from '@sluice/sdk'

export type AuthCode =
  | 'token_missing'
  | 'token_malformed'
  | 'token_invalid'
  | 'token_expired'
  | 'token_not_yet_valid'
  | 'token_claim_refused'

const REMEDIES: Readonly<Record<AuthCode, string>> = {
  token_missing: 'Send the header Authorization: Bearer <token>.',
  token_malformed: 'Send one signed JWT of at most 8 KiB as the bearer token.',
  token_invalid: 'Ask a configured issuer for a token of this audience.',
  token_expired: 'Ask the issuer for a new token.',
  token_not_yet_valid: 'Check the clocks of the issuer and of this server.',
  token_claim_refused: 'Ask the administrator which tenants and roles this issuer may claim.',
}

/** A token that is refused. The message says which rule it broke, and nothing that the token or a key holds. */
export function tokenRefused(code: AuthCode, message: string, cause?: unknown): SluiceError {
  return new SluiceError('PERMISSION', message, { code, remedy: REMEDIES[code], cause })
}
