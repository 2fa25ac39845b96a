/** What went wrong at the source, in our own words: of what the server says nothing passes on but its number. */
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
import { UnknownMethod } from './wire/greeting.ts'
import { Garbled, LineLost } from './wire/packets.ts'
import { ServerError } from './wire/server-error.ts'

const LOGIN_REFUSED: Meaning = {
  kind: 'PERMISSION',
  code: 'source_login_refused',
  what: 'the server refuses this login',
  remedy: 'Check user and password, and that the account exists for the host that this connection comes from.',
}

const METHOD_UNKNOWN: Meaning = {
  ...LOGIN_REFUSED,
  what: 'the server wants this login to prove itself by a method that is not supported',
  remedy: 'Let the account be identified by mysql_native_password or caching_sha2_password.',
}

const DENIED: Meaning = {
  kind: 'PERMISSION',
  code: 'source_permission_denied',
  what: 'the login lacks a privilege',
  remedy:
    'Let an owner run GRANT SELECT on the database or the table to the login; for a view, check its definer, too.',
}

const DATABASE_MISSING: Meaning = {
  kind: 'CONFIG',
  code: 'source_database_missing',
  what: 'the server has no such database',
  remedy: 'Check the setting "database", upper and lower case included.',
}

const TABLE_MISSING: Meaning = {
  kind: 'INVALID_DATA',
  code: 'source_table_missing',
  what: 'there is no such table at the source',
  remedy: 'Check schema and table, upper and lower case included; discover lists what there is.',
}

const LOCKED: Meaning = {
  kind: 'TRANSIENT',
  code: 'source_locked',
  what: 'the table is locked by somebody else',
  remedy: 'Try again when the ALTER TABLE or LOCK TABLES at the source is over.',
}

const EXHAUSTED: Meaning = {
  kind: 'TRANSIENT',
  code: 'source_exhausted',
  what: 'the server has run out of memory or disk',
  remedy: 'Try again later, and free resources at the source.',
}

const BROKEN: Meaning = {
  kind: 'TRANSIENT',
  code: 'source_broken',
  what: 'the server reports an internal error or damaged data',
  remedy: 'Look into the log of the source server; if it persists, run CHECK TABLE there.',
}

const VALUE_INVALID: Meaning = {
  kind: 'INVALID_DATA',
  code: 'source_value_invalid',
  what: 'the server could not produce a value of this table',
  remedy: 'Read the table by a client as this login to see the row; leave the column out, or mend the view.',
}

const VIEW_BROKEN: Meaning = {
  kind: 'INVALID_DATA',
  code: 'source_unsupported',
  what: 'the view names what is not there, or what its definer may not read',
  remedy: 'Let the owner of the view create it anew, or read the tables that it is made of.',
}

const GARBLED: Meaning = {
  kind: 'INVALID_DATA',
  code: 'source_answer_invalid',
  what: 'what the server sends is not what its protocol says',
  remedy:
    'Check that host and port are those of a MariaDB or MySQL server, and that nothing between alters what it sends.',
}

const TLS_WANTED: Meaning = {
  ...LOGIN_REFUSED,
  what: 'the server takes this login over encrypted connections only',
  remedy: 'Set ssl_mode to require or stricter.',
}

/** By the server's numbers, which both products share up to some 1900; those above are said by whose they are. */
const BY_NUMBER: ReadonlyMap<number, Meaning> = new Map(
  (
    [
      // 4151 is MariaDB's locked account, 3118 MySQL's.
      [LOGIN_REFUSED, [1045, 1130, 1698, 1820, 1862, 3118, 3955, 4151]],
      [METHOD_UNKNOWN, [1251, 1524]],
      [DENIED, [1044, 1142, 1143, 1227, 1370]],
      [DATABASE_MISSING, [1049]],
      [TABLE_MISSING, [1146, 1109]],
      [CHANGED, [1054, 1412]],
      [LOCKED, [1205, 1213, 1099, 1100]],
      [TIMED_OUT, [1317, 1969, 3024]],
      [BUSY, [1040, 1129, 1203, 1226]],
      [LOST, [1053, 1077, 1152, 1158, 1159, 1160, 1161, 1927]],
      [EXHAUSTED, [1021, 1037, 1038, 1041, 1135]],
      [VIEW_BROKEN, [1356, 1449]],
      [TLS_WANTED, [3159]],
      [VALUE_INVALID, [1242, 1264, 1292, 1365, 1366, 1690]],
    ] as const
  ).flatMap(([meaning, numbers]) => numbers.map((number) => [number, meaning] as const)),
)

/** `where` names what the tenant named: `table "sales"."orders"`. An abort by the caller wins over what it caused. */
export function sourceFailure(error: unknown, where: string, signal?: AbortSignal): SluiceError {
  if (signal?.aborted && !(signal.reason instanceof OutOfTime)) return aborted(signal.reason)
  if (isSluiceError(error)) return error
  const { kind, code, what, remedy } = meaningOf(error)
  return new SluiceError(kind, `${where}: ${what}`, { code, remedy, cause: bare(error) })
}

export function errnoOf(error: unknown): number | null {
  return error instanceof ServerError ? error.errno : null
}

function meaningOf(error: unknown): Meaning {
  if (error instanceof ServerError) return BY_NUMBER.get(error.errno) ?? byState(error.sqlState)
  if (error instanceof Garbled) return GARBLED
  if (error instanceof LineLost) return LOST
  if (error instanceof UnknownMethod) return METHOD_UNKNOWN
  if (error instanceof PasswordWithheld) return withheld(error)
  const ofLine = lineMeaning(error)
  if (ofLine !== null) return ofLine
  const { code, message } = (error ?? {}) as { code?: unknown; message?: unknown }
  return typeof code === 'string' || message === 'closed' ? LOST : DEFECT
}

function byState(state: string): Meaning {
  if (state.startsWith('28')) return LOGIN_REFUSED
  if (state.startsWith('22')) return VALUE_INVALID
  if (state.startsWith('08')) return LOST
  return state.startsWith('42') ? CHANGED : BROKEN
}

function withheld(error: PasswordWithheld): Meaning {
  if (error.reason === 'none_given') {
    return { ...LOGIN_REFUSED, what: 'the server asks for a password and none is set', remedy: 'Set "password".' }
  }
  return {
    kind: 'PERMISSION',
    code: 'cleartext_password_refused',
    what: 'the server asks for the password itself, over a line on which others could take it, so it was not sent',
    remedy: 'Use ssl_mode verify-full, or verify-ca with the authority of the server as ssl_root_cert.',
  }
}
