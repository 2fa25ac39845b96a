/** What a session may set and be shown: names of which each is kept, or refused where it would not be. */
import { notSupported, WireError } from '../protocol/wire-error.ts'
import type { Word } from '../sql/words.ts'
import { duration, durationMs, ISOLATION, SETTABLE } from './settable.ts'

/** Told to clients at the start and when they change. */
export const REPORTED = [
  'server_version',
  'server_encoding',
  'client_encoding',
  'application_name',
  'is_superuser',
  'session_authorization',
  'DateStyle',
  'IntervalStyle',
  'TimeZone',
  'integer_datetimes',
  'standard_conforming_strings',
  'default_transaction_read_only',
  'in_hot_standby',
] as const

/** Names whose only values are these. */
const FIXED: Readonly<Record<string, readonly [shown: string, accepted: RegExp]>> = {
  client_encoding: ['UTF8', /^(?:utf-?8|unicode)$/i],
  datestyle: ['ISO, MDY', /^iso(?:\s*,\s*(?:mdy|dmy|ymd))?$/i],
  intervalstyle: ['postgres', /^postgres$/i],
  timezone: ['UTC', /^(?:utc|gmt|etc\/utc|zulu|[+-]?0{1,2}(?::00){0,2})$/i],
  standard_conforming_strings: ['on', /^(?:on|true|1)$/i],
  default_transaction_read_only: ['on', /^(?:on|true|1)$/i],
  transaction_read_only: ['on', /^(?:on|true|1)$/i],
  bytea_output: ['hex', /^hex$/i],
  escape_string_warning: ['on', /^on$/i],
  row_security: ['on', /^on$/i],
  default_transaction_deferrable: ['off', /^(?:off|false|0)$/i],
  transaction_deferrable: ['off', /^(?:off|false|0)$/i],
  // Nothing ends by that: each statement has its time, and so has idleness between them.
  transaction_timeout: ['0', /^0$/],
  xmloption: ['content', /^content$/i],
  role: ['none', /^none$/i],
  // Floats are always told by their shortest digits.
  extra_float_digits: ['3', /^-?[0-9]+$/],
}

const SHOWN: Readonly<Record<string, string>> = {
  server_encoding: 'UTF8',
  is_superuser: 'off',
  integer_datetimes: 'on',
  in_hot_standby: 'off',
  max_identifier_length: '63',
  max_index_keys: '32',
  lc_collate: 'C',
  lc_ctype: 'C.UTF-8',
  lc_messages: 'C',
  lc_monetary: 'C',
  lc_numeric: 'C',
  lc_time: 'C',
  block_size: '8192',
  default_table_access_method: 'heap',
  default_tablespace: '',
  temp_tablespaces: '',
  quote_all_identifiers: 'off',
  array_nulls: 'on',
  default_toast_compression: 'pglz',
  max_function_args: '100',
}

const CASED: Readonly<Record<string, string>> = {
  datestyle: 'DateStyle',
  intervalstyle: 'IntervalStyle',
  timezone: 'TimeZone',
}
const MAX_NAME_CHARACTERS = 63

export class Settings {
  readonly #known: Readonly<Record<string, string>>
  /** What differs from the initial values. */
  #started: Changed = {}
  #session: Changed = {}
  /** Until the transaction ends. */
  #local: Changed = {}
  /** As they were before the transaction, and at each of its savepoints: what is rolled back has changed nothing. */
  #kept: { readonly session: Changed; readonly local: Changed }[] = []

  constructor(version: string, user: string) {
    const known = { server_version: version, server_version_num: numberOf(version), session_authorization: user }
    this.#known = { ...SHOWN, ...known }
  }

  /**
   * As the client asks at the start. Throws 0A000 for what would not be kept; what differs from what the server then reports
   * of itself, as a time zone, its client is told of so.
   */
  start(given: ReadonlyMap<string, string>): void {
    for (const [name, value] of given) {
      const key = name.toLowerCase()
      const isTold = REPORTED.some((one) => one.toLowerCase() === key)
      if (key in SETTABLE || !isTold) this.set(name, value, 'session')
    }
    this.#started = this.#session
  }

  /** Undefined: as the configuration says. */
  get timeoutMs(): number | undefined {
    return durationMs(this.value('statement_timeout')) || undefined
  }

  /** How long a client may say nothing, inside of a transaction and outside; undefined: as the configuration says. */
  idleMs(isInTransaction: boolean): number | undefined {
    const name = isInTransaction ? 'idle_in_transaction_session_timeout' : 'idle_session_timeout'
    return durationMs(this.value(name)) || undefined
  }

  /** Whether the transaction reads, in all its statements, what is there at the first. */
  get isRepeatable(): boolean {
    return ['repeatable read', 'serializable'].includes(this.value(ISOLATION.name))
  }

  /** Namespaces in their order, as names in a statement; null: all that there are. */
  get searchPath(): string | null {
    return this.value('search_path') || null
  }

  /** Throws 42704 for what is not told. */
  value(name: string): string {
    const key = name.toLowerCase()
    const value =
      FIXED[key]?.[0] ?? this.#changed(key) ?? (Object.hasOwn(this.#known, key) ? this.#known[key] : undefined)
    if (value === undefined)
      throw new WireError('42704', `this server has no parameter "${key.slice(0, MAX_NAME_CHARACTERS)}"`)
    return value
  }

  #changed(key: string): string | undefined {
    if (key === ISOLATION.name) return this.#local[key] ?? this.#changed('default_transaction_isolation')
    if (!Object.hasOwn(SETTABLE, key)) return undefined
    return this.#local[key] ?? this.#session[key] ?? SETTABLE[key]?.initial
  }

  /** All that are told, by their names. */
  all(): readonly (Setting & { readonly unit: string | null; readonly canChange: boolean })[] {
    const names = [...Object.keys(FIXED), ISOLATION.name, ...Object.keys(SETTABLE), ...Object.keys(this.#known)]
    return names
      .map((key) => {
        const [name, canChange] = [CASED[key] ?? key, Object.hasOwn(SETTABLE, key)]
        const value = this.value(key)
        if (SETTABLE[key]?.kept !== duration) return { name, value, unit: null, canChange }
        return { name, value: String(durationMs(value)), unit: 'ms', canChange }
      })
      .sort((one, other) => (one.name.toLowerCase() < other.name.toLowerCase() ? -1 : 1))
  }

  /** Throws 0A000 for what would not be kept. */
  set(name: string, value: string, scope: Scope): void {
    const key = name.toLowerCase()
    const settable = Object.hasOwn(SETTABLE, key) ? SETTABLE[key] : undefined
    if (key === ISOLATION.name) this.#change({ [key]: ISOLATION.kept(value, key) }, 'local')
    else if (settable === undefined) checkFixed(key, value)
    else this.#change({ [key]: settable.kept(value, key) }, scope)
  }

  /** As it was at the start; null: all. Throws 42704 for what is not known. */
  reset(name: string | null, scope: Scope): void {
    const initial = Object.fromEntries(Object.entries(SETTABLE).map(([key, one]) => [key, one.initial]))
    const started = { ...initial, ...this.#started }
    const key = name?.toLowerCase()
    if (key === undefined) this.#change(started, scope)
    else if (Object.hasOwn(SETTABLE, key)) this.#change({ [key]: started[key] ?? '' }, scope)
    // Others are what they always were.
    else this.value(key)
  }

  begin(): void {
    if (this.#kept.length > 0) return
    this.#keep()
    // What is set for transactions to come is not for this one.
    this.#local = { ...this.#local, [ISOLATION.name]: this.value(ISOLATION.name) }
  }

  end(command: 'COMMIT' | 'ROLLBACK'): void {
    const [before] = this.#kept
    if (command === 'ROLLBACK' && before !== undefined) this.#session = before.session
    this.#kept = []
    this.#local = {}
  }

  /** @param place of the savepoint in its transaction, from 0 */
  save(place: number): void {
    this.release(place)
    this.#keep()
  }

  /** What was set since belongs to what is around the savepoint. */
  release(place: number): void {
    this.#kept.length = 1 + place
  }

  rollBackTo(place: number): void {
    this.#kept.length = 1 + place + 1
    const kept = this.#kept.at(-1)
    if (kept === undefined) return
    this.#session = kept.session
    this.#local = kept.local
  }

  #keep(): void {
    this.#kept.push({ session: this.#session, local: this.#local })
  }

  #change(change: Changed, scope: Scope): void {
    if (scope === 'local') {
      // Outside of a transaction it is over as soon as it is said.
      if (this.#kept.length > 0) this.#local = { ...this.#local, ...change }
      return
    }
    this.#session = { ...this.#session, ...change }
    this.#local = Object.fromEntries(Object.entries(this.#local).filter(([name]) => !Object.hasOwn(change, name)))
  }
}

/** By name. */
type Changed = Readonly<Record<string, string>>

/** For the session, or until its transaction ends. */
export type Scope = 'session' | 'local'

/** What is always as it is may be set to that. */
function checkFixed(key: string, value: string): void {
  const fixed = Object.hasOwn(FIXED, key) ? FIXED[key] : undefined
  if (fixed === undefined) {
    throw notSupported(
      `"${key.slice(0, MAX_NAME_CHARACTERS)}" cannot be set here`,
      'SHOW ALL tells the parameters that there are.',
    )
  }
  if (fixed[1].test(value.trim())) return
  if (key.endsWith('read_only')) throw new WireError('25006', 'this server only reads')
  throw notSupported(`${CASED[key] ?? key} is ${fixed[0]} here, and nothing else`)
}

/** `18.4` is 180004. */
function numberOf(version: string): string {
  const [, major = '', minor = ''] = /^([0-9]+)[.]([0-9]+)/.exec(version) ?? []
  return String(Number(major) * 10_000 + Number(minor))
}

export interface Setting {
  readonly name: string
  readonly value: string
}

/** Of a SET. */
export const scopeOf = (words: readonly Word[]): Scope => (words[1]?.value === 'local' ? 'local' : 'session')

/** SET [SESSION | LOCAL] name {TO | =} value, SET TIME ZONE, SET NAMES, SET [SESSION CHARACTERISTICS AS] TRANSACTION …; null: DEFAULT. */
export function settingOf(
  words: readonly Word[],
): readonly (Setting | { readonly name: string; readonly value: null })[] {
  const told = words.slice(1)
  while (told[0]?.value === 'session' || told[0]?.value === 'local') told.shift()
  const texts = told.map(valueOf)
  const first = texts[0]?.toLowerCase()
  if (first === 'characteristics') return transactionModes(texts.slice(3), 'default_transaction_isolation')
  if (first === 'transaction') return transactionModes(texts.slice(1), ISOLATION.name)
  // TIME ZONE INTERVAL '+00:00' HOUR TO MINUTE
  if (first === 'time')
    return [{ name: 'timezone', value: texts[texts[2]?.toLowerCase() === 'interval' ? 3 : 2] ?? '' }]
  if (first === 'names') return [{ name: 'client_encoding', value: texts[1] ?? '' }]
  const [name = '', sign = '', ...rest] = texts
  if (!['to', '='].includes(sign.toLowerCase()) || rest.length === 0) {
    throw new WireError('42601', 'SET takes a name, TO or =, and a value')
  }
  const isDefault = rest.length === 1 && told[2]?.kind === 'name' && rest[0]?.toLowerCase() === 'default'
  const isList = name.toLowerCase() === 'search_path'
  return [{ name, value: isDefault ? null : isList ? told.slice(2).map(quotedOf).join('') : rest.join('') }]
}

/** What is set by these, under the name of the isolation that is meant. Throws 25006 for what writes, 42601 for what is no mode. */
export function transactionModes(texts: readonly string[], isolation: string): readonly Setting[] {
  const modes = texts.join(' ').toLowerCase().replaceAll(',', ' ').replace(/\s+/g, ' ').trim()
  const [, level] = /isolation level (read (?:un)?committed|repeatable read|serializable)/.exec(modes) ?? []
  const left = modes
    .replace(/isolation level (?:read (?:un)?committed|repeatable read|serializable)/g, '')
    .replace(/read only/g, '')
    .replace(/(?:not )?deferrable/g, '')
    .trim()
  if (/read write/.test(left)) throw new WireError('25006', 'this server only reads')
  if (left === '') return level === undefined ? [] : [{ name: isolation, value: level }]
  if (left.startsWith('snapshot')) throw notSupported('no snapshot of another transaction is taken')
  throw new WireError('42601', 'a transaction is READ ONLY, DEFERRABLE or not, and of an ISOLATION LEVEL')
}

/** Of a list, where names stay in their quotes, and each text is one. */
function quotedOf(word: Word): string {
  return word.kind === 'quoted' || word.kind === 'text' ? `"${valueOf(word).replaceAll('"', '""')}"` : valueOf(word)
}

function valueOf({ kind, text, value }: Word): string {
  return kind === 'text' ? text.replace(/^[eE]?'|'$/g, '').replaceAll("''", "'") : value
}
