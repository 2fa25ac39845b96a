/** What statements about the catalogue are told of their session. */
import { quoteText } from '@sluice/engine'
import { DEFAULT_PATH_SQL } from '../catalogue/own-views.ts'
import type { SessionCall } from '../catalogue/session-calls.ts'
import { notSupported, WireError } from '../protocol/wire-error.ts'
import type { Kept } from './kept.ts'
import type { PlanSession } from './row-plan.ts'
import { reporting, type SessionState } from './session-commands.ts'
import { ISOLATION } from './settable.ts'
import type { Settings } from './settings.ts'
import { Snapshot } from './snapshot.ts'

export function sessionPlans(
  kept: Kept,
  state: Pick<SessionState, 'settings' | 'report' | 'transaction'>,
  { database, now }: { readonly database: string; now(): Promise<Date> },
): PlanSession {
  const { settings, transaction } = state
  return {
    database,
    cursors: () => kept.cursors(),
    statements: () => kept.statements(),
    settings: () => settings.all(),
    searchPath: () => settings.searchPath,
    valueOf: (call) => valueSql(settings, call),
    reads() {
      const snapshot = transaction.reading(() => new Snapshot(now))
      return settings.isRepeatable ? snapshot : null
    },
    set(name, value, isLocal) {
      // The statement that says so reads, and is of a transaction already.
      if (name.toLowerCase() === ISOLATION.name) throw notSupported('the isolation level is set by SET TRANSACTION')
      reporting(state, () => settings.set(name, value, isLocal ? 'local' : 'session'))
    },
  }
}

/** Throws 42704 for a name that is not told, unless the call takes null for it. */
function valueSql(settings: Settings, call: SessionCall): string {
  try {
    const value = settings.value(call.name)
    const isDefaultPath = call.name.toLowerCase() === 'search_path' && value === ''
    return isDefaultPath && call.function === 'current_setting' ? DEFAULT_PATH_SQL : `${quoteText(value)}::text`
  } catch (error) {
    const isAbsent = call.flag && call.function === 'current_setting'
    if (isAbsent && error instanceof WireError && error.sqlState === '42704') return 'null::text'
    throw error
  }
}
