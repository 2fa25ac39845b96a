/** What PostgreSQL's errors mean to the runtime. The driver's words stay in `cause`; callers see code and remedy only. */
import { type ErrorKind, isSluiceError, SluiceError } from '@sluice/sdk'

/** The five-letter SQLSTATE of a driver's error, or undefined where it has none (a socket error has none). */
export function sqlState(error: unknown): string | undefined {
  if (!(error instanceof Error)) return undefined
  const code = (error as { code?: unknown }).code
  return typeof code === 'string' && /^[0-9A-Z]{5}$/.test(code) ? code : undefined
}

export function isUniqueViolation(error: unknown, constraint?: string): boolean {
  const original = isSluiceError(error) ? error.cause : error
  if (sqlState(original) !== '23505') return false
  return constraint === undefined || (original as { constraint?: unknown }).constraint === constraint
}

/** True where what the row refers to is not there, or no more. */
export function isForeignKeyViolation(error: unknown): boolean {
  return sqlState(isSluiceError(error) ? error.cause : error) === '23503'
}

/** True where the same transaction, run again from its start, may succeed: serialization failure or deadlock. */
export function isSerializationFailure(error: unknown): boolean {
  const state = sqlState(isSluiceError(error) ? error.cause : error)
  return state === '40001' || state === '40P01'
}

interface Meaning {
  readonly kind: ErrorKind
  readonly code: string
  readonly says: string
  readonly remedy: string
}

const UNREACHABLE: Meaning = {
  kind: 'TRANSIENT',
  code: 'database_unavailable',
  says: 'the database cannot be reached',
  remedy: 'Check that PostgreSQL runs and accepts connections; the call may be repeated.',
}

const DAMAGED: Meaning = {
  kind: 'CONFIG',
  code: 'database_damaged',
  says: 'the database cannot read its files, or lacks some',
  remedy: 'Look at its log and its disk; where files are missing put it back, whole, from a backup.',
}

const BY_STATE: readonly (readonly [prefix: string, meaning: Meaning])[] = [
  [
    '40',
    {
      ...UNREACHABLE,
      kind: 'CONFLICT',
      code: 'database_conflict',
      says: 'another transaction came first',
      remedy: 'Repeat the call.',
    },
  ],
  [
    '55P03',
    {
      ...UNREACHABLE,
      code: 'database_busy',
      says: 'the database was busy for too long',
      remedy: 'Repeat the call later.',
    },
  ],
  [
    '57014',
    { ...UNREACHABLE, code: 'database_timeout', says: 'the database took too long', remedy: 'Repeat the call later.' },
  ],
  [
    '25P0',
    {
      ...UNREACHABLE,
      code: 'database_timeout',
      says: 'the transaction took too long',
      remedy: 'Repeat the call later.',
    },
  ],
  [
    '53100',
    { ...UNREACHABLE, code: 'database_full', says: 'the database has no disk space left', remedy: 'Free disk space.' },
  ],
  [
    '25006',
    {
      ...UNREACHABLE,
      code: 'database_read_only',
      says: 'the database takes no writes',
      remedy: 'Name its primary in the configuration, or make it writable again; the call may be repeated.',
    },
  ],
  ['58', DAMAGED],
  ['XX001', DAMAGED],
  ['XX002', DAMAGED],
  [
    '53300',
    {
      ...UNREACHABLE,
      says: 'the database has no connection left',
      remedy: 'Raise its max_connections, or the limit of the role or the pooler in front; the call may be repeated.',
    },
  ],
  [
    '53200',
    {
      ...UNREACHABLE,
      says: 'the database has no memory left',
      remedy: 'Give its server more, or let it use less; the call may be repeated.',
    },
  ],
  [
    '53400',
    {
      ...UNREACHABLE,
      says: 'the database refused more than one of its limits lets it take',
      remedy: 'Raise the limit that its log names, as temp_file_limit; the call may be repeated.',
    },
  ],
  ['08', UNREACHABLE],
  ['53', UNREACHABLE],
  ['57P', UNREACHABLE],
  [
    '28',
    {
      kind: 'CONFIG',
      code: 'database_login_refused',
      says: 'the database refused the login',
      remedy: 'Check the user and password in the configuration.',
    },
  ],
  [
    '3D000',
    {
      kind: 'CONFIG',
      code: 'database_missing',
      says: 'the database does not exist',
      remedy: 'Create it, or correct its name in the configuration.',
    },
  ],
  [
    '42501',
    {
      kind: 'PERMISSION',
      code: 'database_permission',
      says: 'the database role lacks a privilege',
      remedy: 'Grant the role what the documentation lists.',
    },
  ],
  [
    '23',
    {
      kind: 'CONFLICT',
      code: 'database_constraint',
      says: 'the change contradicts what is stored',
      remedy: 'Read the current state and try again.',
    },
  ],
  [
    '22',
    {
      kind: 'INVALID_DATA',
      code: 'database_value_refused',
      says: 'a value does not fit its column',
      remedy: 'Check the values of the request.',
    },
  ],
]

/**
 * The SluiceError for whatever a database call threw; a SluiceError passes through. `doing` completes the sentence
 * "… while …" and names no value.
 */
export function toDatabaseError(error: unknown, doing: string): SluiceError {
  if (isSluiceError(error)) return error
  const state = sqlState(error)
  const meaning = state === undefined ? withoutState(error) : BY_STATE.find(([prefix]) => state.startsWith(prefix))?.[1]
  if (!meaning) {
    return new SluiceError('INTERNAL', `the database refused a statement while ${doing}`, {
      code: 'database_statement_failed',
      remedy: 'This is a fault of the runtime; the log of the process has the cause.',
      details: state === undefined ? {} : { sqlstate: state },
      cause: error,
    })
  }
  return new SluiceError(meaning.kind, `${meaning.says} while ${doing}`, {
    code: meaning.code,
    remedy: meaning.remedy,
    details: state === undefined ? {} : { sqlstate: state },
    ...(meaning.kind === 'TRANSIENT' ? { retryAfterMs: 1000 } : {}),
    cause: error,
  })
}

/** The driver has no code for a lost socket or a full pool: their errors are told by system code or by their words. */
function withoutState(error: unknown): Meaning | undefined {
  if (!(error instanceof Error)) return undefined
  const code = (error as { code?: unknown }).code
  if (typeof code === 'string' && /^E[A-Z]+$/.test(code)) return UNREACHABLE
  return /connection|timeout|socket|terminat/i.test(error.message) ? UNREACHABLE : undefined
}
