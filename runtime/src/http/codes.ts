/**
 * Every error code that an answer may carry: its status, what it is called, and what to do about it. The answers, the
 * OpenAPI document and the reference page are all made from this table.
 */
import type { ErrorKind } from '@sluice/sdk'
import type { AuthCode } from '../auth/errors.ts'
import { CALLER_CODES, RIGHT_CODES } from './codes-of-access.ts'
import { CATALOG_CODES } from './codes-of-catalog.ts'
import { ERASURE_CODES } from './codes-of-erasures.ts'
import { EXPORT_CODES } from './codes-of-exports.ts'
import { LOG_CODES } from './codes-of-logs.ts'
import { PLATFORM_CODES } from './codes-of-platform.ts'
import { PRODUCT_CODES } from './codes-of-products.ts'
import { PUSH_CODES } from './codes-of-push.ts'
import { QUERY_CODES, READ_CODES } from './codes-of-reads.ts'
import { REQUEST_CODES } from './codes-of-requests.ts'
import { RESOURCE_CODES, VALUE_CODES } from './codes-of-resources.ts'
import { STORE_CODES } from './codes-of-stores.ts'
import { WEBHOOK_CODES } from './codes-of-webhooks.ts'

export interface ErrorCode {
  readonly status: number
  readonly title: string
  readonly remedy: string
}

const TRY_AGAIN = 'Try again after the time in Retry-After.'

export const ERROR_CODES = {
  ...REQUEST_CODES,
  ...CALLER_CODES,
  ...RESOURCE_CODES,
  ...RIGHT_CODES,
  ...VALUE_CODES,
  ...PRODUCT_CODES,
  ...READ_CODES,
  ...QUERY_CODES,

  // What any layer may say
  engine_busy: { status: 503, title: 'Engine busy', remedy: TRY_AGAIN },
  store_unavailable: { status: 503, title: 'Store unavailable', remedy: TRY_AGAIN },
  internal_error: { status: 500, title: 'Internal error', remedy: 'Report the request_id to the operator.' },
  unsupported: { status: 501, title: 'Not supported', remedy: 'Use a store that declares this capability.' },
  server_busy: { status: 503, title: 'Server busy', remedy: TRY_AGAIN },
  shutting_down: { status: 503, title: 'Shutting down', remedy: TRY_AGAIN },
  deadline_exceeded: { status: 504, title: 'Time over', remedy: 'Ask for less at once, or try again.' },
  tenant_scope_missing: { status: 500, title: 'Internal error', remedy: 'Report the request_id to the operator.' },

  ...CATALOG_CODES,
  ...PLATFORM_CODES,
  ...LOG_CODES,
  ...PUSH_CODES,
  ...EXPORT_CODES,
  ...WEBHOOK_CODES,
  ...ERASURE_CODES,
  ...STORE_CODES,
} as const satisfies Readonly<Record<string, ErrorCode>> & Readonly<Record<AuthCode, ErrorCode>>

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
