/** Commands about the session itself: what they change is here, and nothing of them reaches the engine. */
import { notSupported, readOnly, WireError } from '../protocol/wire-error.ts'
import { commandOf, isWrite } from '../sql/commands.ts'
import { isName, type Statement, type Word } from '../sql/words.ts'
import { ISOLATION } from './settable.ts'
import { type Scope, type Settings, scopeOf, settingOf, transactionModes } from './settings.ts'
import type { Transaction } from './transaction.ts'

/** What the commands work on. */
export interface SessionState {
  readonly transaction: Transaction
  readonly settings: Settings
  closeCursors(name: string | null): void
  /** What was opened since the savepoint at that place. */
  closeSince(place: number): void
  keepSince(place: number): void
  closePortals(): void
  forgetStatements(name: string | null): void
  report(name: string): void
}

/** How the command's end is told; null where the statement is none of these. Throws 25006 for what writes. */
export function runCommand(state: SessionState, statement: Statement): string | null {
  const { words } = statement
  const command = commandOf(statement)
  if (isWrite(command)) throw readOnly(command.toUpperCase())
  const ending = endOfTransaction(state, command, words)
  if (ending !== null) return ending
  state.transaction.check()
  switch (command) {
    case 'begin':
    case 'start':
      begin(state, words)
      return command === 'begin' ? 'BEGIN' : 'START TRANSACTION'
    case 'savepoint':
      state.settings.save(state.transaction.save(nameAt(words, 1)))
      return 'SAVEPOINT'
    case 'release':
      release(state, nameAt(words, words.length - 1))
      return 'RELEASE'
    case 'set':
      reporting(state, () => {
        for (const { name, value } of settingOf(words)) setTo(state, name, value, scopeOf(words))
      })
      return 'SET'
    case 'reset':
      reset(state, isAll(words[1]) ? null : nameAt(words, 1))
      return 'RESET'
    case 'discard':
      return discard(state, words)
    case 'deallocate':
      return deallocate(state, words)
    case 'close':
      state.closeCursors(isAll(words[1]) ? null : nameAt(words, 1))
      return isAll(words[1]) ? 'CLOSE CURSOR ALL' : 'CLOSE CURSOR'
    case 'unlisten':
      return 'UNLISTEN'
    case 'listen':
      throw notSupported(`${command.toUpperCase()} is not taken here`)
    default:
      return null
  }
}

function begin(state: SessionState, words: readonly Word[]): void {
  const told = words
    .slice(1)
    .map(({ value }) => value)
    .filter((word) => word !== 'transaction' && word !== 'work')
  // Drivers say that it may write whether or not it will; a statement that does is refused by itself.
  const modes = transactionModes([told.join(' ').replaceAll('read write', '')], ISOLATION.name)
  state.transaction.begin()
  state.settings.begin()
  for (const { name, value } of modes) setTo(state, name, value, 'local')
}

/** These are for failed transactions, too. */
function endOfTransaction(state: SessionState, command: string, words: readonly Word[]): string | null {
  const { transaction } = state
  if (command === 'commit' || command === 'end') return end(state, 'COMMIT')
  if (command !== 'rollback' && command !== 'abort') return null
  if (words.some(({ value }) => value === 'to')) {
    const place = transaction.rollBackTo(nameAt(words, words.length - 1))
    state.closeSince(place)
    reporting(state, () => state.settings.rollBackTo(place))
    return 'ROLLBACK'
  }
  return end(state, 'ROLLBACK')
}

function release(state: SessionState, name: string): void {
  const place = state.transaction.release(name)
  state.settings.release(place)
  state.keepSince(place)
}

/** What was begun in the transaction ends with it. */
function end(state: SessionState, command: 'COMMIT' | 'ROLLBACK'): string {
  state.closeCursors(null)
  state.closePortals()
  const tag = state.transaction.end(command)
  reporting(state, () => state.settings.end(tag))
  return tag
}

/** Clients are told of what they would otherwise know wrongly. */
export function reporting({ settings, report }: Pick<SessionState, 'settings' | 'report'>, change: () => void): void {
  const before = settings.value('application_name')
  change()
  if (settings.value('application_name') !== before) report('application_name')
}

function setTo(state: SessionState, name: string, value: string | null, scope: Scope): void {
  const { settings, transaction } = state
  const isOther = value?.toLowerCase() !== settings.value(ISOLATION.name)
  if (name.toLowerCase() === ISOLATION.name && isOther) transaction.checkFresh('the isolation level')
  if (value === null) settings.reset(name, scope)
  else settings.set(name, value, scope)
}

function reset(state: SessionState, name: string | null): void {
  reporting(state, () => state.settings.reset(name, 'session'))
}

function discard(state: SessionState, words: readonly Word[]): string {
  const what = words[1]?.value
  if (what === 'plans') return 'DISCARD PLANS'
  if (what === 'temp' || what === 'temporary') return 'DISCARD TEMP'
  if (what === 'sequences') return 'DISCARD SEQUENCES'
  if (what !== 'all') throw new WireError('42601', 'DISCARD takes ALL, PLANS, TEMP or SEQUENCES')
  if (state.transaction.state !== 'I') throw new WireError('25001', 'DISCARD ALL is not for transactions')
  state.closeCursors(null)
  state.forgetStatements(null)
  reset(state, null)
  return 'DISCARD ALL'
}

function deallocate(state: SessionState, words: readonly Word[]): string {
  const last = words.at(-1)
  state.forgetStatements(isAll(last) ? null : nameAt(words, words.length - 1))
  return isAll(last) ? 'DEALLOCATE ALL' : 'DEALLOCATE'
}

const isAll = (word: Word | undefined): boolean => word?.kind === 'name' && word.value === 'all'

function nameAt(words: readonly Word[], at: number): string {
  const word = words[at]
  if (word === undefined || !isName(word) || at === 0) throw new WireError('42601', 'the command lacks a name')
  return word.value
}
