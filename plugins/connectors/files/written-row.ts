/** A row of the shared CSV out of texts that were found for its columns, or why it cannot be carried: whatever they were found in. */
import type { Column, ReadEvent, ValueReader } from '@sluice/sdk'

type Reject = Extract<ReadEvent, { kind: 'reject' }>

export interface WrittenRow {
  /** Null: it cannot be carried. */
  readonly line: string | null
  readonly rejects: readonly Reject[]
}

export interface WritableColumn extends Column {
  readonly reader: ValueReader
  /** A value of it that cannot be carried does not cost the row. */
  readonly isForgiven: boolean
}

/** Something that the column cannot hold at all, as it is shown. */
export class Misfit {
  readonly text: string
  constructor(text: string) {
    this.text = text
  }
}

export type KeyOfRow = Readonly<Record<string, string>>

/** What was found for a row. */
export interface RowTexts<C> {
  /** In the order of the columns. */
  readonly texts: readonly (string | null)[]
  readonly faults: readonly { readonly column: C; readonly reason: string; readonly raw: string }[]
  /** Absent where a part of it is not known. */
  readonly key: KeyOfRow | undefined
  /** What was found, before it was told whether the columns hold it. Absent where nobody could look, or it is no text. */
  words(): Readonly<Record<string, string | null>> | undefined
}

const MAX_RAW_CHARACTERS = 2000
/** The runtime keeps no larger row. */
const MAX_WORDS_CHARACTERS = 16 * 1024

export class RowTextWriter<C extends WritableColumn> {
  readonly #columns: readonly C[]
  readonly #keyPlaces: ReadonlyMap<string, number>
  readonly #marks: boolean

  /** `marks`: a row ends with the names of columns that lack their value. */
  constructor(columns: readonly C[], key: readonly string[], marks: boolean) {
    this.#columns = columns
    this.#keyPlaces = new Map(key.map((name) => [name, columns.findIndex((column) => column.name === name)]))
    this.#marks = marks
  }

  /** `find` gives null where there is nothing, and undefined where nobody could look, which is no fault of the value's. */
  read(find: (column: C, place: number) => string | Misfit | null | undefined): RowTexts<C> {
    const texts: (string | null)[] = []
    const faults: { readonly column: C; readonly reason: string; readonly raw: string }[] = []
    for (const [place, column] of this.#columns.entries()) {
      const found = find(column, place)
      const text = found === null || found === undefined || found instanceof Misfit ? null : column.reader(found)
      texts.push(text)
      if (found === undefined) continue
      if (found !== null && text === null)
        faults.push({ column, reason: `it is no ${column.type}`, raw: found instanceof Misfit ? found.text : found })
      else if (text === null && !column.nullable) faults.push({ column, reason: 'it is missing', raw: '' })
    }
    return { texts, faults, key: this.#keyOf(texts), words: () => this.#wordsOf(find) }
  }

  /** `raw`: the row as it came, for who looks at what was refused. */
  write({ texts, faults, key, words }: RowTexts<C>, raw: () => string): WrittenRow {
    const costly = faults.find(({ column }) => !column.isForgiven)
    if (costly !== undefined) return refused({ reason: costly.reason, column: costly.column.name }, raw(), key, words())
    const line = texts.map(quoted).join(',')
    if (faults.length === 0) return { line: this.#marks ? `${line},` : line, rejects: [] }
    const marks = JSON.stringify(faults.map(({ column }) => column.name))
    const row = words()
    return {
      line: this.#marks ? `${line},${quoted(marks)}` : line,
      rejects: faults.map(({ column, reason, raw: value }) => ({
        ...{ kind: 'reject', reason, column: column.name, raw: cut(value), carried: true },
        ...(key === undefined ? {} : { key }),
        ...(row === undefined ? {} : { row }),
      })),
    }
  }

  #wordsOf(find: (column: C, place: number) => string | Misfit | null | undefined) {
    const parts: [string, string | null][] = []
    let characters = 0
    for (const [place, column] of this.#columns.entries()) {
      const found = find(column, place)
      if (found === undefined || found instanceof Misfit) return undefined
      characters += column.name.length + (found?.length ?? 0)
      // A text that is not well formed would come to the runtime as another.
      if (characters > MAX_WORDS_CHARACTERS || found?.isWellFormed() === false) return undefined
      parts.push([column.name, found])
    }
    return Object.fromEntries(parts)
  }

  #keyOf(texts: readonly (string | null)[]): KeyOfRow | undefined {
    const parts: [string, string][] = []
    for (const [name, place] of this.#keyPlaces) {
      const text = texts[place] ?? null
      if (text === null) return undefined
      parts.push([name, text])
    }
    return parts.length === 0 ? undefined : Object.fromEntries(parts)
  }
}

export function refused(
  fault: { readonly reason: string; readonly column: string | null },
  raw: string,
  key?: KeyOfRow,
  row?: Readonly<Record<string, string | null>>,
): WrittenRow {
  const which = { ...(key === undefined ? {} : { key }), ...(row === undefined ? {} : { row }) }
  return { line: null, rejects: [{ kind: 'reject', ...fault, raw: cut(raw), ...which }] }
}

/** Of a row that holds more than the columns which were found out, and would lose it unseen. */
export const UNSEEN_FIELD = {
  reason: 'it has a field that the table does not: list its columns under columns',
  column: null,
} as const

const cut = (text: string) => text.slice(0, MAX_RAW_CHARACTERS).toWellFormed()

function quoted(text: string | null): string {
  if (text === null) return ''
  return text.includes('"') ? `"${text.replaceAll('"', '""')}"` : `"${text}"`
}
