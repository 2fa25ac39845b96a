/** What one read leaves for the next. Plain JSON, versioned; made here and read back only here. */
import { type ConnectorState, SluiceError } from '@sluice/sdk'

export const STATE_VERSION = 1

/** After it, the next incremental read starts anew. */
export const FULL_STATE: ConnectorState = { version: STATE_VERSION, value: { strategy: 'full' } }

/** Rows up to a value of the cursor column have been read, but for those that come late. */
export interface CursorState {
  readonly strategy: 'cursor'
  /** Which server, and which of its tables of that name. */
  readonly table: string
  /** Of names, places and types: when it differs, old rows have something new to say. */
  readonly columns: string
  readonly cursor: string
  /** The greatest value seen; null where there is none. */
  readonly position: string | null
  /** Where the next read starts. */
  readonly from: string | null
  /** Of the rows from there on, as they were read: their count and a sum of what they say. */
  readonly window: string
  /** When the server was started that was read, in seconds since 1970. */
  readonly startedS: number
}

export type State = CursorState | { readonly strategy: 'full' }

export function toConnectorState(state: State): ConnectorState {
  return { version: STATE_VERSION, value: { ...state } }
}

/** Throws CONFIG `source_state_unknown` for what this version has not written: guessing would lose rows. */
export function parseState(given: ConnectorState | null): State | null {
  if (given === null) return null
  const state = given.version === STATE_VERSION ? stateOf(given.value) : null
  if (state) return state
  throw new SluiceError('CONFIG', 'the saved position of this table was not written by this version of the connector', {
    code: 'source_state_unknown',
    remedy: 'Update the connector to the version that wrote it, or read the table once in full.',
    details: { found: given.version, supported: STATE_VERSION },
  })
}

const TIME = /^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d{1,6})?$/
const WINDOW = /^\d{1,20} \d{1,20}$/

function stateOf(value: Readonly<Record<string, unknown>>): State | null {
  if (value['strategy'] === 'full') return { strategy: 'full' }
  const { strategy, table, columns, cursor, position, from, window, startedS } = value
  if (strategy !== 'cursor' || !isText(table) || !isText(columns) || !isText(cursor)) return null
  if (!isTime(position) || !isTime(from) || !isText(window) || !WINDOW.test(window)) return null
  return Number.isInteger(startedS)
    ? { strategy, table, columns, cursor, position, from, window, startedS: Number(startedS) }
    : null
}

const isText = (value: unknown): value is string => typeof value === 'string'
const isTime = (value: unknown): value is string | null => value === null || (isText(value) && TIME.test(value))
