/**
 * What went wrong at the source, in our own words. Drivers and servers put passwords, values and SQL into their
 * messages, so nothing of theirs passes on but the SQLSTATE.
 */
import { isSluiceError, SluiceError } from '@sluice/sdk'
import { OutOfTime } from '../server/deadline.ts'
import {
  aborted,
  BUSY,
  bare,
  CHANGED,
  DEFECT,
  LOST,
  lineMeaning,
  type Meaning,
  PasswordWithheld,
  TIMED_OUT,
} from '../server/failure.ts'

const LOGIN_REFUSED = {
  kind: 'PERMISSION',
  code: 'source_login_refused',
  what: 'the server refuses this login',
  remedy: 'Check user and password, and that pg_hba.conf lets this user in from here with this ssl_mode.',
} as const satisfies Meaning

const DENIED = {
  kind: 'PERMISSION',
  code: 'source_permission_denied',
  what: 'the login lacks a privilege',
  remedy: 'Let an owner run GRANT USAGE on the schema and GRANT SELECT on the table to the login.',
} as const satisfies Meaning

const TABLE_MISSING = {
  kind: 'INVALID_DATA',
  code: 'source_table_missing',
  what: 'there is no such table at the source',
  remedy: 'Check schema and table, upper and lower case included; discover lists what there is.',
} as const satisfies Meaning

const GARBLED = {
  kind: 'INVALID_DATA',
  code: 'source_answer_invalid',
  what: 'what the server sends is not what its protocol says',
  remedy: 'Check that host and port are those of a PostgreSQL server, and that nothing between alters what it sends.',
} as const satisfies Meaning

const EXCHANGE_FAILED = {
  ...LOGIN_REFUSED,
  what: 'the server and this connector could not prove to each other that they know the password',
} as const satisfies Meaning

const BY_STATE: Readonly<Record<string, Meaning>> = {
  '28000': LOGIN_REFUSED,
  '28P01': LOGIN_REFUSED,
  '3D000': {
    kind: 'CONFIG',
    code: 'source_database_missing',
    what: 'the server has no such database',
    remedy: 'Check the setting "database", upper and lower case included.',
  },
  '42501': DENIED,
  '42P01': TABLE_MISSING,
  '3F000': TABLE_MISSING,
  '42703': CHANGED,
  '0A000': {
    kind: 'INVALID_DATA',
    code: 'source_unsupported',
    what: 'the server cannot read this relation in this way',
    remedy: 'Read it through a view, or in full mode.',
  },
  '55000': {
    kind: 'INVALID_DATA',
    code: 'source_not_populated',
    what: 'the relation is not ready to be read',
    remedy: 'If it is a materialized view, let its owner run REFRESH MATERIALIZED VIEW.',
  },
  '55P03': {
    kind: 'TRANSIENT',
    code: 'source_locked',
    what: 'the table is locked by somebody else',
    remedy: 'Try again when the ALTER, VACUUM FULL or other exclusive lock at the source is over.',
  },
  '57014': TIMED_OUT,
  '25P03': TIMED_OUT,
  '53300': BUSY,
  '57P03': BUSY,
  '57P01': LOST,
  '57P02': LOST,
  '57P05': LOST,
  '40001': {
    kind: 'TRANSIENT',
    code: 'source_conflict',
    what: 'the server gave up the read in favour of its replication',
    remedy: 'Try again; on a replica, raise max_standby_streaming_delay or set hot_standby_feedback.',
  },
}

const BY_CLASS: Readonly<Record<string, Meaning>> = {
  '08': LOST,
  '22': {
    kind: 'INVALID_DATA',
    code: 'source_value_invalid',
    what: 'the server could not produce a value of this table',
    remedy: 'Read the table with psql as this login to see the row; leave the column out, or mend the view.',
  },
  '28': LOGIN_REFUSED,
  '42': CHANGED,
  '53': {
    kind: 'TRANSIENT',
    code: 'source_exhausted',
    what: 'the server has run out of memory, disk or connections',
    remedy: 'Try again later, and free resources at the source.',
  },
  '57': LOST,
  '58': LOST,
  XX: {
    kind: 'TRANSIENT',
    code: 'source_broken',
    what: 'the server reports an internal error or damaged data',
    remedy: 'Look into the log of the source server; if it persists, check the table with pg_amcheck.',
  },
}

/** `where` names what the tenant named: `table "sales"."orders"`. An abort by the caller wins over what it caused. */
export function sourceFailure(error: unknown, where: string, signal?: AbortSignal): SluiceError {
  if (signal?.aborted && !(signal.reason instanceof OutOfTime)) return aborted(signal.reason)
  if (isSluiceError(error)) return error
  const { kind, code, what, remedy } = meaningOf(error)
  return new SluiceError(kind, `${where}: ${what}`, { code, remedy, cause: bare(error) })
}

/** The server's verdict, where it was the server that spoke. */
export function sqlState(error: unknown): string | null {
  const code = error instanceof Error ? (error as { code?: unknown }).code : null
  return typeof code === 'string' && /^[0-9A-Z]{5}$/.test(code) && !/^E[A-Z]{4}$/.test(code) ? code : null
}

function meaningOf(error: unknown): Meaning {
  const ofLine = lineMeaning(error)
  if (ofLine !== null) return ofLine
  if (error instanceof PasswordWithheld) return withheld(error)
  const state = sqlState(error)
  if (state) return BY_STATE[state] ?? BY_CLASS[state.slice(0, 2)] ?? LOST
  const { code, message } = (error ?? {}) as { code?: unknown; message?: unknown }
  if (typeof message === 'string' && message.startsWith('SASL')) return EXCHANGE_FAILED
  if (typeof code === 'string' || isLoss(message)) return LOST
  return isGarbled(error) ? GARBLED : DEFECT
}

/** The driver has no codes of its own, only these words. */
function isLoss(message: unknown): boolean {
  return typeof message === 'string' && /^(Connection terminated|Client (was|has)|closed$)/.test(message)
}

/**
 * What the driver says of messages that it does not know or expect, and this connector of its count of rows. An error
 * of the server without a state, and what the driver itself stumbles over, are no better.
 */
function isGarbled(error: unknown): boolean {
  const { name, message, stack } = (error ?? {}) as { name?: unknown; message?: unknown; stack?: unknown }
  if (name === 'error' || /^(Received unexpected|Unknown authentication|the server sent)/.test(String(message)))
    return true
  return error instanceof TypeError && /[\\/]pg(-protocol|-types)?[\\/]/.test(String(stack))
}

function withheld(error: PasswordWithheld): Meaning {
  if (error.reason === 'none_given') {
    return { ...LOGIN_REFUSED, what: 'the server asks for a password and none is set', remedy: 'Set "password".' }
  }
  return {
    kind: 'PERMISSION',
    code: 'cleartext_password_refused',
    what: 'the server asks for the password in a form that others on the way could use, so it was not sent',
    remedy: 'Use ssl_mode verify-full, or let the server ask by scram-sha-256 instead of password or md5.',
  }
}
