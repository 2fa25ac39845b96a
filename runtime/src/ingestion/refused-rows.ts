/** What a source could not let be carried: counted, with the first reasons and as many rows as a quarantine holds. */
import { type LogicalType, type ReadEvent, type TableSchema, valueReader } from '@sluice/sdk'
import { MAX_QUARANTINED, type RefusedRow, type WholeRow } from '../registry/quarantine.ts'
import { toldKey } from './told-key.ts'

const MAX_REASONS = 10
/** Of each value of a key; an index may take far longer ones. */
const MAX_KEY_CHARS = 2000
/** Of a row that can be tried again, with the names of its columns: many of them fit into a quarantine. */
const MAX_WHOLE_CHARS = 16 * 1024

export type Reject = Omit<Extract<ReadEvent, { kind: 'reject' }>, 'kind'>

/** Bounded: a source may reject as many rows as it likes. */
export class RefusedRows {
  readonly rows: RefusedRow[] = []
  /** Without those that were carried. */
  rejected = 0
  readonly #reasons = new Set<string>()
  #bytes = 0

  /** Why rows did not come, without values. */
  get reasons(): readonly string[] {
    return [...this.#reasons]
  }

  /** `marks`: rows that come say which values they lack. */
  add({ column, reason, carried = false, row, ...event }: Reject, schema: TableSchema, marks = false): void {
    if (!carried) {
      this.rejected += 1
      if (this.#reasons.size < MAX_REASONS) this.#reasons.add(column ? `${column}: ${reason}` : reason)
    }
    if (this.rows.length >= MAX_QUARANTINED.rows || this.#bytes >= MAX_QUARANTINED.bytes) return
    const { key, raw } = { key: event.key ? cutKey(event.key) : null, raw: event.raw ?? null }
    const whole = carried && !marks ? UNMARKED : wholeRow(row, schema)
    this.rows.push({ column, reason, key, toldKey: toldKey(key, schema), raw, carried, whole })
    this.#bytes += JSON.stringify([reason, key, raw, whole]).length
  }
}

const UNMARKED =
  'the row is in the table and does not say what it lacks, since no product uses it: the table is read whole once one does'
const NOT_GIVEN =
  'its connector gives what is at fault, and not the row: correct it in the source and sync, or read the table whole again'
const TOO_LONG = `the row has more than ${MAX_WHOLE_CHARS} characters: correct it in the source and sync`

function wholeRow(row: Reject['row'], { columns }: TableSchema): WholeRow | string {
  if (row === undefined) return NOT_GIVEN
  const texts = columns.flatMap(({ name }) => (Object.hasOwn(row, name) ? [[name, row[name] ?? null] as const] : []))
  const characters = texts.reduce((sum, [name, text]) => sum + name.length + (text?.length ?? 0), 0)
  if (characters > MAX_WHOLE_CHARS) return TOO_LONG
  const json = columns.filter(({ type }) => type === 'json').map(({ name }) => name)
  return { texts: Object.fromEntries(texts), json, lacks: lackingIn(row, columns) }
}

function lackingIn(row: NonNullable<Reject['row']>, columns: TableSchema['columns']): readonly string[] {
  const isHeld = (text: string | null, type: LogicalType) => text === null || valueReader(type)(text) !== null
  const lacking = columns.filter(({ name, type }) => Object.hasOwn(row, name) && !isHeld(row[name] ?? null, type))
  return lacking.map(({ name }) => name)
}

function cutKey(key: NonNullable<Reject['key']>): NonNullable<Reject['key']> {
  const cut = Object.entries(key).map(([name, text]) => [name, text?.slice(0, MAX_KEY_CHARS) ?? null])
  return Object.fromEntries(cut)
}
