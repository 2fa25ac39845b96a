/** What one read leaves for the next. Plain JSON, versioned; made here and read back only here. */
import { type ConnectorState, SluiceError } from '@sluice/sdk'

export const STATE_VERSION = 1

/** After it, the next incremental read starts anew. */
export const FULL_STATE: ConnectorState = { version: STATE_VERSION, value: { strategy: 'full' } }

/** Everything that was committed when the snapshot was taken has been read. */
export interface SnapshotState {
  readonly strategy: 'snapshot'
  readonly table: string
  /** Of names, ordinals and types: when it differs, old rows have something new to say. */
  readonly columns: string
  /** Which history of which cluster the transaction numbers belong to. */
  readonly lineage: string
  /** The oldest transaction, in 64 bits, that may have been running. */
  readonly horizon: string
  /** The partitions or children whose rows have been read; empty where there are none. */
  readonly parts: readonly string[]
  /** The first transaction that had not begun; absent in states of former versions. */
  readonly next?: string
  readonly started?: string
}

/** Rows up to a value of the cursor column have been read, but for those that come late. */
export interface CursorState {
  readonly strategy: 'cursor'
  readonly table: string
  readonly columns: string
  readonly cursor: string
  /** The greatest value seen. */
  readonly position: string
  /** Where the next read starts. */
  readonly from: string
  /** When the server was started that was read, in microseconds; absent in states of former versions. */
  readonly started?: string
}

export type State = SnapshotState | CursorState | { readonly strategy: 'full' }

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

const TIME = /^\d{4,6}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d{1,6})?(\+00)?$/
const NUMBER = /^\d{1,20}$/

function stateOf(value: Readonly<Record<string, unknown>>): State | null {
  if (value.strategy === 'full') return { strategy: 'full' }
  const { strategy, table, columns, lineage, horizon, parts, cursor, position, from } = value
  const started = matches(value.started, NUMBER) ? { started: value.started } : {}
  const next = matches(value.next, NUMBER) ? { next: value.next } : {}
  if (!matches(table, NUMBER) || typeof columns !== 'string') return null
  if (strategy === 'snapshot' && typeof lineage === 'string' && matches(horizon, NUMBER) && isNumbers(parts)) {
    return { strategy, table, columns, lineage, horizon, parts, ...next, ...started }
  }
  if (strategy === 'cursor' && typeof cursor === 'string' && matches(position, TIME) && matches(from, TIME)) {
    return { strategy, table, columns, cursor, position, from, ...started }
  }
  return null
}

function matches(value: unknown, pattern: RegExp): value is string {
  return typeof value === 'string' && pattern.test(value)
}

function isNumbers(value: unknown): value is readonly string[] {
  return Array.isArray(value) && value.every((item) => matches(item, NUMBER))
}
