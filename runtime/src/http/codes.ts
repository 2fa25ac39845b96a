/**
 * Every error code that an answer may carry: its status, what it is called, and what to do about it. The answers, the
 * OpenAPI document and the reference page are all made from this table.
 */
import type { ErrorKind } from '@sluice/sdk'

export interface ErrorCode {
  readonly status: number
  readonly title: string
  readonly remedy: string
}

const TRY_AGAIN = 'Try again after the time in Retry-After.'

export const ERROR_CODES = {
  // Requests that are refused at the edge
  malformed_request: { status: 400, title: 'Malformed request', remedy: 'Send a well-formed HTTP/1.1 request.' },
  malformed_path: {
    status: 400,
    title: 'Malformed path',
    remedy: 'Percent-encode the path as UTF-8, without control characters or dot segments.',
  },
  malformed_query: {
    status: 400,
    title: 'Malformed query string',
    remedy: 'Percent-encode the query as UTF-8 and give every parameter once, unless it may repeat.',
  },
  malformed_header: { status: 400, title: 'Malformed header', remedy: 'Correct the header that the detail names.' },
  malformed_body: {
    status: 400,
    title: 'Malformed body',
    remedy: 'Send one JSON document in UTF-8, with every key once.',
  },
  body_not_expected: { status: 400, title: 'Body not expected', remedy: 'Send this request without a body.' },
  validation_failed: { status: 400, title: 'Validation failed', remedy: 'Correct what errors[] names.' },
  cursor_invalid: { status: 400, title: 'Invalid cursor', remedy: 'Start again without a cursor.' },
  tenant_required: { status: 400, title: 'Tenant required', remedy: 'Name the tenant in the header X-Tenant-Id.' },
  not_found: {
    status: 404,
    title: 'Not found',
    remedy: 'Check the address and the id; ids of other tenants do not exist for you.',
  },
  method_not_allowed: {
    status: 405,
    title: 'Method not allowed',
    remedy: 'Use one of the methods in the header Allow.',
  },
  not_acceptable: {
    status: 406,
    title: 'Not acceptable',
    remedy: 'Ask for one of the media types that the reference names.',
  },
  request_timeout: { status: 408, title: 'Request time-out', remedy: 'Send the whole request faster.' },
  body_too_large: { status: 413, title: 'Body too large', remedy: 'Send a smaller body.' },
  uri_too_long: { status: 414, title: 'Address too long', remedy: 'Send a shorter path and query.' },
  unsupported_media_type: {
    status: 415,
    title: 'Unsupported media type',
    remedy: 'Send the media type that the reference names, without a Content-Encoding.',
  },
  headers_too_large: { status: 431, title: 'Headers too large', remedy: 'Send fewer or shorter headers.' },
  rate_limited: { status: 429, title: 'Too many requests', remedy: TRY_AGAIN },
  idempotency_key_invalid: {
    status: 400,
    title: 'Invalid Idempotency-Key',
    remedy: 'Send 1 to 255 printable ASCII characters, such as a UUID.',
  },
  idempotency_key_reused: {
    status: 422,
    title: 'Idempotency-Key reused',
    remedy: 'Use a new key for another request.',
  },
  idempotency_in_progress: {
    status: 409,
    title: 'Same request in progress',
    remedy: 'Wait for the first request, then send this one again with the same key.',
  },

  // Who calls
  token_missing: { status: 401, title: 'Token missing', remedy: 'Send the header Authorization: Bearer <token>.' },
  token_malformed: {
    status: 401,
    title: 'Token malformed',
    remedy: 'Send one signed JWT of at most 8 KiB as the bearer token.',
  },
  token_invalid: {
    status: 401,
    title: 'Token not accepted',
    remedy: 'Ask a configured issuer for a token of this audience.',
  },
  token_expired: { status: 401, title: 'Token expired', remedy: 'Ask the issuer for a new token.' },
  token_not_yet_valid: {
    status: 401,
    title: 'Token not yet valid',
    remedy: 'Check the clocks of the issuer and of this server.',
  },
  token_claim_refused: {
    status: 401,
    title: 'Token claims refused',
    remedy: 'Ask the administrator which tenants and roles this issuer may claim.',
  },
  issuer_unavailable: {
    status: 503,
    title: 'Issuer unavailable',
    remedy: 'Try again; if it lasts, check that this server reaches the issuer.',
  },
  admin_required: { status: 403, title: 'Administrators only', remedy: 'Use a token with the admin role.' },
  tenant_missing: { status: 403, title: 'Token without a tenant', remedy: 'Use a token that names a tenant.' },
  tenant_header_forbidden: {
    status: 403,
    title: 'X-Tenant-Id not allowed',
    remedy: 'Leave the header out: the token names the tenant.',
  },
  forbidden: {
    status: 403,
    title: 'Not allowed',
    remedy: 'Ask an owner of the product or an administrator for the right.',
  },

  // What every layer below may say
  internal_error: { status: 500, title: 'Internal error', remedy: 'Report the request_id to the operator.' },
  unsupported: { status: 501, title: 'Not supported', remedy: 'Use a store that declares this capability.' },
  server_busy: { status: 503, title: 'Server busy', remedy: TRY_AGAIN },
  shutting_down: { status: 503, title: 'Shutting down', remedy: TRY_AGAIN },
  deadline_exceeded: { status: 504, title: 'Time over', remedy: 'Ask for less at once, or try again.' },
  tenant_scope_missing: { status: 500, title: 'Internal error', remedy: 'Report the request_id to the operator.' },
} as const satisfies Readonly<Record<string, ErrorCode>>

export type KnownCode = keyof typeof ERROR_CODES

/** For codes that the table does not know, such as those of third-party plugins: the kind alone decides. */
const KINDS: Readonly<Record<ErrorKind, ErrorCode>> = {
  CONFIG: { status: 422, title: 'Refused configuration', remedy: 'Correct the configuration that the detail names.' },
  TRANSIENT: { status: 503, title: 'Temporarily unavailable', remedy: 'Try again.' },
  CONFLICT: { status: 409, title: 'Conflict', remedy: 'Read the current state, then try again.' },
  FENCED: { status: 409, title: 'Overtaken by a newer writer', remedy: 'Read the current state, then try again.' },
  UNSUPPORTED: { status: 501, title: 'Not supported', remedy: 'Use a store that declares this capability.' },
  INVALID_DATA: { status: 400, title: 'Invalid data', remedy: 'Correct the request.' },
  PERMISSION: { status: 403, title: 'Not allowed', remedy: 'Ask an owner or an administrator for the right.' },
  QUOTA: { status: 429, title: 'Limit reached', remedy: 'Try again later, or ask for a higher limit.' },
  INTERNAL: ERROR_CODES.internal_error,
}

export function errorCode(code: string, kind: ErrorKind): ErrorCode {
  return Object.hasOwn(ERROR_CODES, code) ? ERROR_CODES[code as KnownCode] : KINDS[kind]
}
