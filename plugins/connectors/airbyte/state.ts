/** What an incremental read remembers: the last position that the connector told, as it wrote it. */
import { type ConnectorState, SluiceError } from '@sluice/sdk'
import { answerInvalid, stateTooLarge } from './failure.ts'
import { type Fields, fieldsOf } from './messages.ts'

const STATE_VERSION = 1
const MAX_POSITION_CHARACTERS = 48 * 1024

/** What to begin after; `position` null: at the beginning. */
export interface Progress {
  readonly position: string | null
  /** What was read before counts no more. */
  readonly whole: boolean
}

export function stateOf(shape: string, position: string | null): ConnectorState {
  return { version: STATE_VERSION, value: { shape, position } }
}

/** Throws CONFIG for a state that this version has not written. */
export function progressOf(state: ConnectorState | null, shape: string): Progress {
  if (state === null) return { position: null, whole: false }
  const { shape: former, position } = state.value
  const isKnown = typeof former === 'string' && (typeof position === 'string' || position === null)
  if (state.version !== STATE_VERSION || !isKnown)
    throw new SluiceError('CONFIG', 'the saved position is of another version of this connector', {
      code: 'source_state_unknown',
      remedy: 'Read the table in full once.',
    })
  if (former !== shape) return { position: null, whole: true }
  return { position: position as string | null, whole: false }
}

/**
 * The text of a position, digit by digit: it goes back as it came. Throws INVALID_DATA for one of a kind that cannot be told a stream's,
 * QUOTA for one that is too large.
 */
export function positionOf(state: Fields, name: string): string {
  const { type } = state
  if (type !== 'STREAM' && type !== 'GLOBAL')
    throw answerInvalid('its positions are of the oldest kind, which is of no stream')
  if (type === 'STREAM') {
    const descriptor = fieldsOf(fieldsOf(state['stream'])?.['stream_descriptor'])
    if (descriptor?.['name'] !== name) throw answerInvalid('a position is of a stream that is not read')
  }
  // What it counts is of this read.
  const { sourceStats: _, destinationStats: __, ...kept } = state
  const text = JSON.stringify(kept)
  if (text.length > MAX_POSITION_CHARACTERS) throw stateTooLarge()
  return text
}

/** How many records it says to have sent since the position before; null where it does not say. */
export function countOf(state: Fields): number | null {
  const said = fieldsOf(state['sourceStats'])?.['recordCount']
  if (said === undefined || said === null) return null
  const count = Number(JSON.stringify(said))
  if (!Number.isSafeInteger(count) || count < 0) throw answerInvalid('a position counts what is no number')
  return count
}
