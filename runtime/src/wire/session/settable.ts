/** What a session may change of its settings, and as what it is kept. */
import { notSupported, WireError } from '../protocol/wire-error.ts'

const MAX_NAME_CHARACTERS = 63
const MOST_NAMESPACES = 100

interface Settable {
  readonly initial: string
  /** As it is shown. Throws 22023 for what is no value of it. */
  kept(value: string, name: string): string
}

const flag = (value: string, name: string): string => {
  const word = value.trim().toLowerCase()
  if (['on', 'true', 'yes', '1', 't', 'y'].includes(word)) return 'on'
  if (['off', 'false', 'no', '0', 'f', 'n'].includes(word)) return 'off'
  throw new WireError('22023', `${name} is on or off`)
}

const plain = (text: string): string => text.replace(/[^\x20-\x7e]/g, '?').slice(0, MAX_NAME_CHARACTERS)

/** From the longest on. */
const UNITS: Readonly<Record<string, number>> = { d: 86_400_000, h: 3_600_000, min: 60_000, s: 1_000, ms: 1 }

export function durationMs(value: string, name = 'statement_timeout'): number {
  const [, digits, unit = 'ms'] = /^([0-9]{1,9})\s*(ms|s|min|h|d)?$/.exec(value.trim()) ?? []
  const ms = Number(digits) * (UNITS[unit] ?? 1)
  if (digits === undefined || ms > 2 ** 31 - 1) throw new WireError('22023', `${name} takes milliseconds`)
  return ms
}

/** In the longest unit that it is a whole number of. */
export function duration(value: string, name: string): string {
  const ms = durationMs(value, name)
  if (ms === 0) return '0'
  const [unit, length] = Object.entries(UNITS).find(([, one]) => ms % one === 0) ?? ['ms', 1]
  return `${ms / length}${unit}`
}

const LEVELS = 'debug5 debug4 debug3 debug2 debug1 log notice warning error'.split(' ')

function level(value: string, name: string): string {
  const word = value.trim().toLowerCase()
  if (LEVELS.includes(word)) return word
  throw new WireError('22023', `${name} is one of ${LEVELS.join(', ')}`)
}

const ISOLATIONS = ['read committed', 'read uncommitted', 'repeatable read', 'serializable']

function isolation(value: string, name: string): string {
  const word = value.trim().toLowerCase()
  if (ISOLATIONS.includes(word)) return word
  throw new WireError('22023', `${name} is one of ${ISOLATIONS.join(', ')}`)
}

const NAME = /\s*(?:"((?:[^"\0]|"")*)"|([A-Za-z_\x80-\uffff][\w$\x80-\uffff]*))\s*(,|$)/y

/** A list of names, in quotes where they need them. */
function searchPath(value: string): string {
  // None at all, which is another thing than all that there are.
  if (value.trim() === '') return '""'
  const names: string[] = []
  NAME.lastIndex = 0
  for (let at = 0; at < value.length; at = NAME.lastIndex) {
    const [, quoted, name, mark] = NAME.exec(value) ?? []
    if ((quoted === undefined && name === undefined) || (mark === ',' && NAME.lastIndex === value.length)) {
      throw new WireError('22023', 'search_path takes names of namespaces with commas between them')
    }
    names.push(quoted?.replaceAll('""', '"') ?? String(name).toLowerCase())
  }
  if (names.length > MOST_NAMESPACES) throw notSupported(`search_path has more than ${MOST_NAMESPACES} names`)
  return names.map((name) => (/^[a-z_][a-z0-9_]*$/.test(name) ? name : `"${name.replaceAll('"', '""')}"`)).join(', ')
}

/** A transaction's own, which ends with it, and is not reset. */
export const ISOLATION = { name: 'transaction_isolation', kept: isolation } as const

const FLAG: Settable = { initial: 'on', kept: flag }

/**
 * The first six decide something. Of the others there is nothing here that they would change: no notice is sent, nothing is
 * locked or written, and no plan of PostgreSQL's is made; drivers set them, and are shown what they have set.
 */
export const SETTABLE: Readonly<Record<string, Settable>> = {
  application_name: { initial: '', kept: plain },
  statement_timeout: { initial: '0', kept: duration },
  search_path: { initial: '', kept: searchPath },
  default_transaction_isolation: { initial: 'read committed', kept: isolation },
  idle_in_transaction_session_timeout: { initial: '0', kept: duration },
  idle_session_timeout: { initial: '0', kept: duration },
  client_min_messages: { initial: 'notice', kept: level },
  lock_timeout: { initial: '0', kept: duration },
  synchronous_commit: { initial: 'on', kept: (value) => plain(value.trim().toLowerCase()) },
  check_function_bodies: FLAG,
  jit: FLAG,
  geqo: FLAG,
  enable_hashjoin: FLAG,
  enable_indexscan: FLAG,
  enable_mergejoin: FLAG,
  enable_nestloop: FLAG,
  enable_seqscan: FLAG,
}
