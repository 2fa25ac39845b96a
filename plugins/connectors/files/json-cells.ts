import { BadRecord } from './csv-cells.ts'

/** A field of a JSON line: its text as a value of any type, and what JSON calls it. */
export interface JsonCell {
  readonly text: string
  readonly kind: 'string' | 'number' | 'boolean' | 'document'
}

type Reviver = (key: string, value: unknown, context: { readonly source?: string }) => unknown
declare global {
  interface JSON {
    rawJSON(text: string): unknown
    isRawJSON(value: unknown): value is { readonly rawJSON: string }
  }
}

/** Numbers that a double may not have as they are written: many digits, fractions, exponents, a zero with a sign. */
const DELICATE = /\d{16}|\d[.eE]|-0/

const asWritten: Reviver = (_, value, { source }) =>
  typeof value === 'number' && source !== undefined ? JSON.rawJSON(source) : value

/** The fields of one line by name, those that are null left out. Numbers stay as they are written. */
export function jsonCells(text: string): ReadonlyMap<string, JsonCell> | BadRecord {
  let document: unknown
  try {
    const reviver = DELICATE.test(text) ? (asWritten as Parameters<typeof JSON.parse>[1]) : undefined
    document = JSON.parse(text, reviver)
  } catch {
    return new BadRecord('it is no JSON')
  }
  if (typeof document !== 'object' || document === null || Array.isArray(document) || JSON.isRawJSON(document))
    return new BadRecord('it is no object')
  const cells = new Map<string, JsonCell>()
  for (const [name, value] of Object.entries(document)) if (value !== null) cells.set(name, cellOf(value))
  return cells
}

function cellOf(value: unknown): JsonCell {
  if (typeof value === 'string') return { text: value, kind: 'string' }
  if (typeof value === 'boolean') return { text: String(value), kind: 'boolean' }
  if (typeof value === 'number') return { text: String(value), kind: 'number' }
  if (JSON.isRawJSON(value)) return { text: value.rawJSON, kind: 'number' }
  return { text: JSON.stringify(value), kind: 'document' }
}

/** The text of a field for a column of that type: a document as JSON, where only a column of documents takes it. */
export function textFor({ text, kind }: JsonCell, isJsonColumn: boolean): string | null {
  if (isJsonColumn) return kind === 'string' ? JSON.stringify(text) : text
  return kind === 'document' ? null : text
}
