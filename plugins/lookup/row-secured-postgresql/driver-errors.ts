/** What PostgreSQL and its driver throw, as the contract's errors. Their text goes into `cause` and nowhere else. */
import { type ErrorKind, isSluiceError, SluiceError } from '@sluice/sdk'

interface Meaning {
  readonly kind: ErrorKind
  readonly code: string
  readonly message: string
  readonly remedy?: string
}

const UNREACHABLE: Meaning = {
  kind: 'TRANSIENT',
  code: 'store_unavailable',
  message: 'the PostgreSQL store does not answer',
  remedy: 'Check that the server runs and that its address in the settings is right; the call may be repeated.',
}

const RESOURCES: Meaning = {
  kind: 'TRANSIENT',
  code: 'store_exhausted',
  message: 'the PostgreSQL store is out of disk, memory or connections',
  remedy: 'Free resources of the database server; the call may be repeated.',
}

const CONTENTION: Meaning = {
  kind: 'TRANSIENT',
  code: 'store_contention',
  message: 'the PostgreSQL store could not get a lock in time',
  remedy: 'Repeat the call.',
}

const LOGIN: Meaning = {
  kind: 'CONFIG',
  code: 'login_refused',
  message: 'the PostgreSQL store refuses the login',
  remedy: 'Check user, password and database in the settings, and pg_hba.conf of the server.',
}

/** By SQLSTATE, then by its class (the first two characters). */
const MEANINGS: Readonly<Record<string, Meaning>> = {
  '57014': {
    kind: 'TRANSIENT',
    code: 'deadline_exceeded',
    message: 'the PostgreSQL store did not finish within the time-out',
    remedy: 'Ask for less, or allow more time.',
  },
  '55P03': CONTENTION,
  '40': CONTENTION,
  '08': UNREACHABLE,
  '57': UNREACHABLE,
  '53': RESOURCES,
  '54': { kind: 'INVALID_DATA', code: 'limit_exceeded', message: 'a row or key is larger than PostgreSQL can keep' },
  '28': LOGIN,
  '3D': LOGIN,
  '23502': {
    kind: 'INVALID_DATA',
    code: 'missing_key',
    message: 'a column that identifies the row is null',
    remedy: 'Leave out rows without a key, or choose columns that are never null.',
  },
  '23505': {
    kind: 'INVALID_DATA',
    code: 'duplicate_key',
    message: 'two rows have the same key',
    remedy: 'Choose identity columns that are unique, or deduplicate the rows.',
  },
  '23514': { kind: 'INVALID_DATA', code: 'row_outside_bounds', message: 'a row lies outside of what the table takes' },
  '21': { kind: 'INVALID_DATA', code: 'duplicate_key', message: 'two rows of one change have the same key' },
  '22': { kind: 'INVALID_DATA', code: 'invalid_value', message: 'a value is not of the type of its column' },
  '42501': {
    kind: 'PERMISSION',
    code: 'store_permission',
    message: 'the store’s login may not do this',
    remedy: 'Check the grants of the owner, writer and reader logins: the probe names what is missing.',
  },
  '42P01': notProvisioned(),
  '42703': notProvisioned(),
  // No operator or function for the types that the columns have.
  '42883': notProvisioned(),
  '42804': notProvisioned(),
  '3F000': notProvisioned(),
}

function notProvisioned(): Meaning {
  return {
    kind: 'CONFLICT',
    code: 'schema_conflict',
    message: 'the table in the store is not of the shape that the call assumes',
    remedy: 'Provision the endpoint, then repeat the call.',
  }
}

export function sqlState(error: unknown): string | undefined {
  const code = (error as { code?: unknown } | null)?.code
  return typeof code === 'string' && /^(?=.*\d)[0-9A-Z]{5}$/.test(code) ? code : undefined
}

/** True where the server has ended a statement, because it took longer than it may. */
export function wasEnded(error: unknown): boolean {
  return sqlState(error) === '57014'
}

/**
 * True where the server refuses a statement for what it says or for its values; it does so too where the table is not of the
 * shape that the statement was made for.
 */
export function wasRefused(error: unknown): boolean {
  return /^(22|42)/.test(sqlState(error) ?? '')
}

/** True where the connection is gone, so that a read may be repeated on another. */
export function isConnectionLoss(error: unknown): boolean {
  const state = sqlState(error)
  if (state !== undefined) return /^(08|57P)/.test(state)
  return error instanceof Error && !isSluiceError(error) && !(error instanceof TypeError || error instanceof RangeError)
}

/** What the driver threw, where it is wrapped already. */
export function originalError(error: unknown): unknown {
  return isSluiceError(error) && error.cause !== undefined ? error.cause : error
}

/** True where a partition's bounds meet those of one that is there. */
export function isOverlap(error: unknown): boolean {
  return sqlState(originalError(error)) === '42P17'
}

/** The contract's error for whatever was thrown; `doing` says what was being done and where, in words. */
export function storeError(error: unknown, doing: string): SluiceError {
  if (isSluiceError(error)) return error
  const state = sqlState(error)
  const meaning = state === undefined ? undefined : (MEANINGS[state] ?? MEANINGS[state.slice(0, 2)])
  if (meaning) return refine(meaning, error, doing, state)
  if (isConnectionLoss(error)) return refine(UNREACHABLE, error, doing, undefined)
  return new SluiceError('INTERNAL', `${doing} failed in the PostgreSQL store`, {
    code: 'store_failure',
    cause: error,
    ...(state === undefined ? {} : { details: { sqlstate: state } }),
  })
}

function refine(meaning: Meaning, error: unknown, doing: string, state: string | undefined): SluiceError {
  const column = (error as { column?: unknown }).column
  return new SluiceError(meaning.kind, `${doing}: ${meaning.message}`, {
    code: meaning.code,
    cause: error,
    ...(meaning.remedy === undefined ? {} : { remedy: meaning.remedy }),
    ...(meaning.kind === 'TRANSIENT' ? { retryAfterMs: 1000 } : {}),
    details: {
      ...(state === undefined ? {} : { sqlstate: state }),
      ...(typeof column === 'string' ? { column } : {}),
    },
  })
}
