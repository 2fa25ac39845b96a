/** What a session keeps between messages: statements, portals and cursors, each by its name, and all within bounds. */
import type { OpenCursor, PreparedStatement } from '../catalogue/own-views.ts'
import { WireError } from '../protocol/wire-error.ts'
import type { Statement } from '../sql/words.ts'
import type { Portal } from './portal.ts'
import type { Bound, RowPlan } from './row-plan.ts'

export interface Prepared {
  /** Of a command; null of what gives rows, and of nothing. */
  readonly command: Statement | null
  readonly parameters: number
  /** What is known of its parameters' types, or text. */
  readonly toldOids: readonly number[]
  /** The types that the client gave its parameters. */
  readonly declared: readonly number[]
  /** As it was sent, and when. */
  readonly sql: string
  readonly createdAt: Date
  readonly isFromSql: boolean
  readonly keptBytes: number
  /** Null where it gives no rows. */
  readonly plan: RowPlan | null
  oids: readonly number[] | null
}

export interface BoundPortal {
  readonly prepared: Prepared
  /** Null of a command. */
  readonly portal: Portal | null
  readonly values: Bound['values']
  readonly keptBytes: number
}

const MOST_STATEMENTS = 1_000
const MOST_PORTALS = 100
/** Of a word, and of a value, beside its text. */
export const WORD_BYTES = 200
/** Of all statements and values that a session keeps. */
const MOST_KEPT_BYTES = 8 * 1024 * 1024
/** Each keeps an engine process, or rows. */
const MOST_OPEN_PORTALS = 4
/** Of rows that wait in memory for their reader. */
const MOST_HELD_BYTES = 32 * 1024 * 1024
const MAX_NAME_BYTES = 255

interface Cursor {
  /** Savepoints that there were; those that are released since are none. */
  depth: number
  readonly portal: Portal
  readonly told: OpenCursor
  readonly keptBytes: number
}

/** Throws 42622 for a name that is not kept. */
export function checkName(name: string): void {
  if (Buffer.byteLength(name) <= MAX_NAME_BYTES) return
  throw new WireError('42622', `a name is longer than ${MAX_NAME_BYTES} bytes`)
}

export class Kept {
  readonly #statements = new Map<string, Prepared>()
  readonly #portals = new Map<string, BoundPortal & { depth: number }>()
  readonly #cursors = new Map<string, Cursor>()
  readonly #depth: () => number

  /** @param depth of the transaction's savepoints */
  constructor(depth: () => number = () => 0) {
    this.#depth = depth
  }

  /** Throws 42P05 for a name that is taken; the one without a name gives way. */
  addStatement(name: string, prepared: Prepared): void {
    checkName(name)
    if (name === '') this.#statements.delete(name)
    if (this.#statements.has(name)) throw new WireError('42P05', 'there is a prepared statement of that name')
    if (this.#statements.size >= MOST_STATEMENTS) throw tooMany('prepared statements')
    this.#checkRoom(prepared.keptBytes)
    this.#statements.set(name, prepared)
  }

  /** Throws 26000. */
  statement(name: string): Prepared {
    const prepared = this.#statements.get(name)
    if (prepared === undefined) throw noStatement()
    return prepared
  }

  closeStatement(name: string): void {
    this.#statements.delete(name)
  }

  /** Null: all. Throws 26000. */
  forgetStatements(name: string | null): void {
    if (name === null) this.#statements.clear()
    else if (!this.#statements.delete(name)) throw noStatement()
  }

  /** Throws 42P03 for a name that is taken; the one without a name gives way. */
  addPortal(name: string, bound: BoundPortal): void {
    checkName(name)
    if (name === '') this.closePortal(name)
    if (this.#portals.has(name)) throw new WireError('42P03', 'there is a portal of that name')
    if (this.#portals.size >= MOST_PORTALS) throw tooMany('portals')
    this.#checkRoom(bound.keptBytes)
    this.#portals.set(name, { ...bound, depth: this.#depth() })
  }

  /** Throws 34000. */
  portal(name: string): BoundPortal {
    const bound = this.#portals.get(name)
    if (bound === undefined) throw new WireError('34000', 'there is no portal of that name')
    return bound
  }

  closePortal(name: string): void {
    this.#portals.get(name)?.portal?.close()
    this.#portals.delete(name)
  }

  /** What is open since that savepoint ends with it, or belongs to what is around it. */
  rollBackTo(place: number): void {
    for (const [name, { depth }] of [...this.#portals]) if (depth > place) this.closePortal(name)
    for (const [name, { depth }] of [...this.#cursors]) if (depth > place) this.closeCursors(name)
  }

  release(place: number): void {
    for (const one of [...this.#portals.values(), ...this.#cursors.values()]) one.depth = Math.min(one.depth, place)
  }

  closePortals(): void {
    for (const name of [...this.#portals.keys()]) this.closePortal(name)
  }

  /** Throws 53400 where one more may not be begun. */
  checkOpen(portal: Portal): void {
    if (portal.isOpen) return
    const open = [...this.#portals.values()].filter((bound) => bound.portal?.isOpen === true).length
    if (open < MOST_OPEN_PORTALS) return
    throw new WireError('53400', 'too many portals are being read', { hint: 'Read some to their end, or close them.' })
  }

  /** Throws 53400 where the rows that wait are too many with those of this one, which is closed. */
  checkHeld(portal: Portal): void {
    const all = [...this.#portals.values(), ...this.#cursors.values()].map((kept) => kept.portal)
    const held = all.reduce((sum, one) => sum + (one?.heldBytes ?? 0), 0)
    if (held <= MOST_HELD_BYTES) return
    portal.close()
    throw new WireError('53400', 'too many rows about the catalogue wait to be read', {
      hint: 'Read other portals and cursors to their end, or close them.',
    })
  }

  /** Throws 42P03 for a name that is taken. */
  addCursor(name: string, portal: Portal, statement: string, keptBytes: number): void {
    checkName(name)
    if (this.#cursors.has(name)) throw new WireError('42P03', 'there is a cursor of that name')
    if (this.#cursors.size >= MOST_OPEN_PORTALS) throw tooMany('cursors')
    this.#checkRoom(keptBytes)
    this.#cursors.set(name, {
      depth: this.#depth(),
      portal,
      told: { name, statement, createdAt: new Date() },
      keptBytes,
    })
  }

  cursors(): readonly OpenCursor[] {
    return [...this.#cursors.values()].map(({ told }) => told)
  }

  /** Those with a name. */
  statements(): readonly PreparedStatement[] {
    return [...this.#statements]
      .filter(([name]) => name !== '')
      .map(([name, { sql, createdAt, isFromSql, toldOids, oids }]) => ({
        name,
        statement: sql,
        createdAt,
        parameterOids: toldOids,
        resultOids: oids,
        isFromSql,
      }))
  }

  isCursor(name: string): boolean {
    return this.#cursors.has(name)
  }

  /** Throws 34000. */
  cursor(name: string): Portal {
    const cursor = this.#cursors.get(name)
    if (cursor === undefined) throw new WireError('34000', 'there is no cursor of that name')
    return cursor.portal
  }

  /** Null: all. Throws 34000. */
  closeCursors(name: string | null): void {
    if (name !== null) this.cursor(name)
    for (const [own, { portal }] of this.#cursors) {
      if (name !== null && own !== name) continue
      portal.close()
      this.#cursors.delete(own)
    }
  }

  #checkRoom(bytes: number): void {
    const kept = [...this.#statements.values(), ...this.#portals.values(), ...this.#cursors.values()]
    const sum = kept.reduce((all, { keptBytes }) => all + keptBytes, bytes)
    if (sum > MOST_KEPT_BYTES) throw tooMany('statements and values that are kept')
  }
}

const tooMany = (what: string): WireError =>
  new WireError('53400', `there are too many ${what}`, { hint: 'Close some.' })

const noStatement = (): WireError => new WireError('26000', 'there is no prepared statement of that name')

export const bytesOf = (values: Bound['values']): number =>
  values.reduce((sum, { bytes }) => sum + WORD_BYTES + (bytes?.length ?? 0), 0)

/** Values are parts of the message that they came with; kept as they are, they would keep all of it. */
export function copied(values: Bound['values']): Bound['values'] {
  const all = Buffer.allocUnsafeSlow(values.reduce((sum, { bytes }) => sum + (bytes?.length ?? 0), 0))
  let at = 0
  return values.map(({ format, bytes }) => {
    if (bytes === null) return { format, bytes }
    bytes.copy(all, at)
    at += bytes.length
    return { format, bytes: all.subarray(at - bytes.length, at) }
  })
}
