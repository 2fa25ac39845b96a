/**
 * Places in PostgreSQL's log. `order` is an LSN of fixed width and the timeline that it was read on; `lineage` is the
 * cluster's identifier, the database and the slot, whose name ends in a mark that no other slot ever gets. A failover
 * to a standby that has the slot keeps all three; a slot made anew, and a cluster made anew, do not.
 */
import { type ChangePosition, SluiceError } from '@sluice/sdk'

export interface Place {
  readonly lsn: bigint
  readonly timeline: number
}

export interface Lineage {
  readonly system: string
  readonly database: string
  readonly slot: string
}

export function lineageText({ system, database, slot }: Lineage): string {
  return `${system}.${database}.${slot}`
}

export function orderText({ lsn, timeline }: Place): string {
  return `${fixed(lsn, 16)}.${fixed(BigInt(timeline), 8)}`
}

export function fixed(value: bigint, digits: number): string {
  return value.toString(16).padStart(digits, '0')
}

export function placeOf(position: ChangePosition): Place {
  const match = /^([0-9a-f]{16})\.([0-9a-f]{8})$/.exec(position.order)
  if (!match) throw positionLost('the saved position is none of this kind of source')
  return { lsn: BigInt(`0x${match[1]}`), timeline: Number.parseInt(match[2] ?? '', 16) }
}

/** `16/B374D848` and back. */
export function parseLsn(text: string): bigint {
  const match = /^([0-9A-F]{1,8})\/([0-9A-F]{1,8})$/i.exec(text)
  if (!match) throw new Error('the server sent no place in its log')
  return (BigInt(`0x${match[1]}`) << 32n) | BigInt(`0x${match[2]}`)
}

export function lsnText(lsn: bigint): string {
  return `${(lsn >> 32n).toString(16)}/${(lsn & 0xffffffffn).toString(16)}`.toUpperCase()
}

export function positionLost(why: string, cause?: unknown): SluiceError {
  return new SluiceError('CONFLICT', `the log of changes cannot be read on: ${why}`, {
    code: 'position_lost',
    remedy: 'The tables are to be read whole again, after the log was begun anew.',
    ...(cause === undefined ? {} : { cause }),
  })
}

/**
 * Whether a place on a former timeline is of the history of the one that the server is on: its history file names for
 * each former timeline where it was left.
 */
export function isOfHistory(place: Place, history: string): boolean {
  for (const line of history.split('\n')) {
    const match = /^\s*(\d+)\s+([0-9A-F]+\/[0-9A-F]+)/i.exec(line)
    if (match && Number(match[1]) === place.timeline) return place.lsn <= parseLsn(match[2] ?? '')
  }
  return false
}
