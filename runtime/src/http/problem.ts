import { type ErrorKind, isSluiceError, SluiceError, type SluiceErrorOptions } from '@sluice/sdk'
import type { Principal } from '../flow.ts'
import { ERROR_CODES, errorCode, type KnownCode } from './codes.ts'
import { ICEBERG_PREFIX, inIcebergForm } from './iceberg-problem.ts'
import type { Problem } from './problem-document.ts'

/** One fault of an input. Says where and what, and never repeats the value. */
export interface InputFault {
  readonly in?: 'body' | 'query' | 'path' | 'header'
  /** RFC 6901, inside the part of the request that `in` names. */
  readonly pointer: string
  readonly message: string
  readonly hint?: string
}

interface ProblemContext {
  readonly requestId: string
  /** Path of the request, without its query. */
  readonly instance: string
  /** True for those who may learn which file of the lake is broken: developers of the tenant, and administrators. */
  readonly mayKnowFiles?: boolean
  /** What stands behind the realm where a token is asked for. */
  readonly challenge?: string | null
}

const RESERVED = ['type', 'title', 'status', 'detail', 'instance', 'code', 'request_id', 'remedy']
const SERVER_FAULT = 500

/**
 * An error of the edge. Status and title come from the table of codes; the kind is that which a layer below would
 * have chosen for the status.
 */
export function refuse(
  code: KnownCode,
  message: string,
  options: Omit<SluiceErrorOptions, 'code' | 'remedy'> = {},
): SluiceError {
  const { status, remedy } = ERROR_CODES[code]
  return new SluiceError(kindOfStatus(status), message, { ...options, code, remedy })
}

export function validationFailed(errors: readonly InputFault[]): SluiceError {
  const where = errors.length === 1 ? 'one place' : `${errors.length} places`
  return refuse('validation_failed', `the request is not valid in ${where}`, { details: { errors } })
}

/** Whose contexts have `mayKnowFiles`. */
export const mayKnowFiles = (principal: Principal | null): boolean =>
  principal !== null && (principal.isDeveloper || principal.isAdmin)

/**
 * The answer to any thrown value. What is not a SluiceError, and every INTERNAL, becomes 500 without a word of it; but
 * for broken files of the lake, which everybody is told of, and developers by name.
 */
export function problemOf(error: unknown, context: ProblemContext): Problem {
  const problem = asProblem(error, context)
  // Clients of the Iceberg catalog know errors in the form of its specification only.
  return context.instance.startsWith(ICEBERG_PREFIX) ? inIcebergForm(problem) : problem
}

function asProblem(error: unknown, context: ProblemContext): Problem {
  if (isSluiceError(error, 'INTERNAL') && isDamage(error.code)) return damageProblem(error, error.code, context)
  if (!isSluiceError(error) || error.kind === 'INTERNAL') return internalProblem(context)
  const { status, title, remedy } = errorCode(error.code, error.kind)
  if (status === SERVER_FAULT) return internalProblem(context)
  const body = {
    type: `/docs#error-${error.code}`,
    title,
    status,
    detail: error.message,
    instance: context.instance,
    code: error.code,
    request_id: context.requestId,
    remedy: error.remedy ?? remedy,
    ...extensions(error),
  }
  return { status, headers: headersOf(error, status, context), body: JSON.stringify(body) }
}

const DAMAGE = ['lake_file_corrupted', 'lake_path_foreign', 'lake_pointer_missing'] as const

const isDamage = (code: string): code is (typeof DAMAGE)[number] => DAMAGE.some((known) => known === code)

/** Details of such an error are a table, a file below the tenant's bucket, and a snapshot; null where not known. */
function damageProblem(error: SluiceError, code: (typeof DAMAGE)[number], context: ProblemContext): Problem {
  const { status, title, remedy } = ERROR_CODES[code]
  const { table, file, snapshot_id: snapshot } = error.details ?? {}
  const at = [
    file === null ? '' : `: its file ${file} is broken or missing`,
    snapshot === null ? '' : ` (snapshot ${snapshot})`,
  ]
  const body = {
    type: `/docs#error-${code}`,
    title,
    status,
    detail: context.mayKnowFiles
      ? `the lake table ${table} cannot be read${at.join('')}`
      : 'the data cannot be read, because a file of the lake is broken or missing; developers are told which one',
    instance: context.instance,
    code,
    request_id: context.requestId,
    remedy,
    ...(context.mayKnowFiles ? { table, file, snapshot_id: snapshot } : {}),
  }
  return { status, headers: {}, body: JSON.stringify(body) }
}

function internalProblem(context: ProblemContext): Problem {
  const { status, title, remedy } = ERROR_CODES.internal_error
  const body = {
    type: '/docs#error-internal_error',
    title,
    status,
    detail: 'something went wrong in the server; its log has the cause under the request_id',
    instance: context.instance,
    code: 'internal_error',
    request_id: context.requestId,
    remedy,
  }
  return { status, headers: {}, body: JSON.stringify(body) }
}

function extensions(error: SluiceError): Record<string, unknown> {
  return Object.fromEntries(Object.entries(error.details ?? {}).filter(([key]) => !RESERVED.includes(key)))
}

function headersOf(error: SluiceError, status: number, context: ProblemContext): Record<string, string> {
  const headers: Record<string, string> = {}
  if (status === 416) headers['Content-Range'] = `bytes */${error.details?.['bytes']}`
  if (status === 401) headers['WWW-Authenticate'] = challengeOf(error, context)
  const retryAfterMs = error.retryAfterMs ?? (status === 503 ? 1_000 : undefined)
  if (retryAfterMs !== undefined) headers['Retry-After'] = String(Math.max(1, Math.ceil(retryAfterMs / 1000)))
  return headers
}

/** RFC 6750: no error attribute where no token was sent. Messages of refused tokens are fixed texts. */
function challengeOf(error: SluiceError, { challenge }: ProblemContext): string {
  const scheme = ['Bearer realm="sluice"', ...(challenge == null ? [] : [challenge])].join(', ')
  if (error.code === 'token_missing') return scheme
  return `${scheme}, error="invalid_token", error_description="${error.message.replace(/[^ !#-[\]-~]/g, '')}"`
}

function kindOfStatus(status: number): ErrorKind {
  if (status === 401 || status === 403) return 'PERMISSION'
  if (status === 409) return 'CONFLICT'
  if (status === 429) return 'QUOTA'
  if (status === 501) return 'UNSUPPORTED'
  if (status > SERVER_FAULT) return 'TRANSIENT'
  return status === SERVER_FAULT ? 'INTERNAL' : 'INVALID_DATA'
}
