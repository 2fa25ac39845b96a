/** What a session may set and be shown: few names, of which each is kept, or refused where it would not be. */
import { notSupported, WireError } from '../protocol/wire-error.ts'
import type { Word } from '../sql/words.ts'

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
  timezone: ['UTC', /^(?:utc|gmt|etc\/utc|zulu)$/i],
  standard_conforming_strings: ['on', /^(?:on|true|1)$/i],
  default_transaction_read_only: ['on', /^(?:on|true|1)$/i],
  transaction_read_only: ['on', /^(?:on|true|1)$/i],
  transaction_isolation: ['read committed', /^read committed$/i],
  default_transaction_isolation: ['read committed', /^read committed$/i],
  bytea_output: ['hex', /^hex$/i],
  escape_string_warning: ['on', /^on$/i],
  row_security: ['on', /^on$/i],
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
}

const CASED: Readonly<Record<string, string>> = {
  datestyle: 'DateStyle',
  intervalstyle: 'IntervalStyle',
  timezone: 'TimeZone',
}
const MAX_NAME_CHARACTERS = 63

/** What can be changed. */
interface Changed {
  readonly applicationName: string
  /** 0: as the configuration says. */
  readonly statementMs: number
}

export class Settings {
  readonly #known: Readonly<Record<string, string>>
  readonly #started: Changed
  #session: Changed
  /** Until the transaction ends. */
  #local: Partial<Changed> = {}
  /** As they were before the transaction, and at each of its savepoints: what is rolled back has changed nothing. */
  #kept: { readonly session: Changed; readonly local: Partial<Changed> }[] = []

  constructor(version: string, user: string, applicationName: string) {
    const known = { server_version: version, server_version_num: numberOf(version), session_authorization: user }
    this.#known = { ...SHOWN, ...known }
    this.#started = { applicationName: plain(applicationName), statementMs: 0 }
    this.#session = this.#started
  }

  /** Undefined: as the configuration says. */
  get timeoutMs(): number | undefined {
    const { statementMs } = this.#now
    return statementMs === 0 ? undefined : statementMs
  }

  get #now(): Changed {
    return { ...this.#session, ...this.#local }
  }

  /** Throws 42704 for what is not told. */
  value(name: string): string {
    const key = name.toLowerCase()
    const { applicationName, statementMs } = this.#now
    const known: Readonly<Record<string, string>> = {
      ...this.#known,
      application_name: applicationName,
      statement_timeout: durationText(statementMs),
    }
    const value = FIXED[key]?.[0] ?? (Object.hasOwn(known, key) ? known[key] : undefined)
    if (value === undefined)
      throw new WireError('42704', `this server has no parameter "${key.slice(0, MAX_NAME_CHARACTERS)}"`)
    return value
  }

  /** Throws 0A000 for what would not be kept. */
  set(name: string, value: string, scope: Scope): void {
    const key = name.toLowerCase()
    if (key === 'application_name') this.#change({ applicationName: plain(value) }, scope)
    else if (key === 'statement_timeout') this.#change({ statementMs: durationMs(value) }, scope)
    else checkFixed(key, value)
  }

  /** As it was at the start; null: all. Throws 42704 for what is not known. */
  reset(name: string | null, scope: Scope): void {
    const key = name?.toLowerCase()
    const { applicationName, statementMs } = this.#started
    if (key === undefined) this.#change(this.#started, scope)
    else if (key === 'application_name') this.#change({ applicationName }, scope)
    else if (key === 'statement_timeout') this.#change({ statementMs }, scope)
    // Others are what they always were.
    else this.value(key)
  }

  begin(): void {
    if (this.#kept.length === 0) this.#keep()
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

  #change(change: Partial<Changed>, scope: Scope): void {
    if (scope === 'local') {
      // Outside of a transaction it is over as soon as it is said.
      if (this.#kept.length > 0) this.#local = { ...this.#local, ...change }
      return
    }
    this.#session = { ...this.#session, ...change }
    const names = Object.keys(change)
    this.#local = Object.fromEntries(Object.entries(this.#local).filter(([name]) => !names.includes(name)))
  }
}

/** For the session, or until its transaction ends. */
export type Scope = 'session' | 'local'

/** What is always as it is may be set to that. */
function checkFixed(key: string, value: string): void {
  const fixed = Object.hasOwn(FIXED, key) ? FIXED[key] : undefined
  if (fixed === undefined) {
    throw notSupported(
      `"${key.slice(0, MAX_NAME_CHARACTERS)}" cannot be set here`,
      'SHOW tells the parameters that there are.',
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

const plain = (name: string): string => name.replace(/[^\x20-\x7e]/g, '?').slice(0, MAX_NAME_CHARACTERS)

/** From the longest on. */
const UNITS: Readonly<Record<string, number>> = { d: 86_400_000, h: 3_600_000, min: 60_000, s: 1_000, ms: 1 }

/** In the longest unit that it is a whole number of. */
function durationText(ms: number): string {
  if (ms === 0) return '0'
  const [unit, length] = Object.entries(UNITS).find(([, length]) => ms % length === 0) ?? ['ms', 1]
  return `${ms / length}${unit}`
}

function durationMs(value: string): number {
  const [, digits, unit = 'ms'] = /^([0-9]{1,9})\s*(ms|s|min|h|d)?$/.exec(value.trim()) ?? []
  const ms = Number(digits) * (UNITS[unit] ?? 1)
  if (digits === undefined || ms > 2 ** 31 - 1) throw new WireError('22023', 'statement_timeout takes milliseconds')
  return ms
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
  if (first === 'characteristics') return transactionModes(texts.slice(3))
  if (first === 'transaction') return transactionModes(texts.slice(1))
  if (first === 'time') return [{ name: 'timezone', value: texts[2] ?? '' }]
  if (first === 'names') return [{ name: 'client_encoding', value: texts[1] ?? '' }]
  const [name = '', sign = '', ...rest] = texts
  if (!['to', '='].includes(sign.toLowerCase()) || rest.length === 0) {
    throw new WireError('42601', 'SET takes a name, TO or =, and a value')
  }
  const isDefault = rest.length === 1 && told[2]?.kind === 'name' && rest[0]?.toLowerCase() === 'default'
  return [{ name, value: isDefault ? null : rest.join('') }]
}

/** Throws 0A000 for what a transaction here is not. */
export function transactionModes(texts: readonly string[]): readonly Setting[] {
  const modes = texts.join(' ').toLowerCase().replaceAll(',', ' ').replace(/\s+/g, ' ').trim()
  const left = modes
    .replace(/isolation level read (?:committed|uncommitted)/g, '')
    .replace(/read only/g, '')
    .replace(/(?:not )?deferrable/g, '')
    .trim()
  if (left === '') return []
  if (/read write/.test(left)) throw new WireError('25006', 'this server only reads')
  throw notSupported('each statement reads what is there when it begins: the isolation level is READ COMMITTED')
}

function valueOf({ kind, text, value }: Word): string {
  return kind === 'text' ? text.replace(/^[eE]?'|'$/g, '').replaceAll("''", "'") : value
}
