/** Fields of JSON objects as texts, for connectors of sources that speak JSON: numbers stay as they are written. */

/** A field of an object: its text as a value of any type, and what JSON calls it. */
export interface JsonCell {
  readonly text: string
  readonly kind: 'string' | 'number' | 'boolean' | 'document'
}

type Reviver = (this: unknown, key: string, value: unknown, context: { readonly source?: string }) => unknown

/** What JSON has beside what the language's types know of it so far. */
const raw = JSON as typeof JSON & {
  rawJSON(text: string): unknown
  isRawJSON(value: unknown): value is { readonly rawJSON: string }
}

/** Numbers that a double may not have as they are written: many digits, fractions, exponents, a zero with a sign. */
const DELICATE = /\d{16}|\d[.eE]|-0/

const asWritten: Reviver = (_, value, { source }) =>
  typeof value === 'number' && source !== undefined ? raw.rawJSON(source) : value

/** As `JSON.parse`, with numbers that a double may not have kept as they are written. Only for `jsonCells`. */
export function parseJsonAsWritten(text: string): unknown {
  return JSON.parse(text, DELICATE.test(text) ? (asWritten as Parameters<typeof JSON.parse>[1]) : undefined)
}

/** The fields of what `parseJsonAsWritten` gave, by name, those that are null left out; null where it is no object. */
export function jsonCells(document: unknown): ReadonlyMap<string, JsonCell> | null {
  if (typeof document !== 'object' || document === null || Array.isArray(document) || raw.isRawJSON(document))
    return null
  const cells = new Map<string, JsonCell>()
  for (const [name, value] of Object.entries(document)) if (value !== null) cells.set(name, cellOf(value))
  return cells
}

function cellOf(value: unknown): JsonCell {
  if (typeof value === 'string') return { text: value, kind: 'string' }
  if (typeof value === 'boolean') return { text: String(value), kind: 'boolean' }
  if (typeof value === 'number') return { text: String(value), kind: 'number' }
  if (raw.isRawJSON(value)) return { text: value.rawJSON, kind: 'number' }
  return { text: JSON.stringify(value), kind: 'document' }
}

/** The text of a field for a column of that type; null for a document where the column holds none. */
export function jsonCellText({ text, kind }: JsonCell, isJsonColumn: boolean): string | null {
  if (isJsonColumn) return kind === 'string' ? JSON.stringify(text) : text
  return kind === 'document' ? null : text
}
