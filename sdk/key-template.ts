/**
 * Keys of cache stores: `order:{order_id}` with one placeholder for each column. Rendering is part of the contract,
 * since a reader writes the same key that the store has made.
 */
import { type LogicalType, type TableSchema, typeName, type Value } from './schema.ts'
import { escapeKeyPart, percentEncode } from './scope.ts'

export interface KeyPart {
  readonly column: string
  /** What stands between this column and the one before it (or the beginning). */
  readonly before: string
}

export interface KeyTemplate {
  readonly parts: readonly KeyPart[]
  /** What follows the last column. */
  readonly after: string
}

const PLACEHOLDER = /\{([^{}]+)\}/g

/** The template's parts, or in words why it is none. */
export function parseKeyTemplate(text: string): KeyTemplate | { readonly problem: string } {
  const parts: KeyPart[] = []
  let end = 0
  for (const match of text.matchAll(PLACEHOLDER)) {
    parts.push({ column: match[1] ?? '', before: text.slice(end, match.index) })
    end = match.index + match[0].length
  }
  const template = { parts, after: text.slice(end) }
  const problem = templateProblem(template)
  return problem === null ? template : { problem }
}

function templateProblem({ parts, after }: KeyTemplate): string | null {
  const literals = [...parts.map((part) => part.before), after]
  if (parts.length === 0) return 'it has no {column} placeholder, so all rows would share one key'
  if (literals.some((literal) => /[{}]/.test(literal))) return 'a brace is not closed, or holds no column'
  if (literals.some((literal) => /[%\p{Cc}]/u.test(literal))) return '% and control characters are kept for escapes'
  if (parts.slice(1).some((part) => part.before === '')) {
    return 'two placeholders stand side by side, so different rows could get one key; put a character between them'
  }
  if (parts.slice(1).some((part) => /^[0-9A-F]/.test(part.before))) {
    return 'the text between two placeholders begins with a digit or A to F, which escapes are made of'
  }
  return null
}

/** Types whose text always has the same length cannot run into what follows them. */
const FIXED_WIDTH: ReadonlySet<string> = new Set(['date', 'uuid', 'timestamp', 'timestamptz'])

/** Types that a key can be made of: those with one text for each value that a person could write. */
export function canStandInKey(type: LogicalType): boolean {
  return !['json', 'binary', 'float', 'double'].includes(typeName(type))
}

/**
 * The key of a row, or null where a placeholder's value is null: such a row has no key. Values are percent-encoded
 * (`escapeKeyPart`), and in a value that is followed by another the first character of the text between them too,
 * unless that is a colon or the type has a fixed width; so different values never make the same key.
 */
export function renderKey(template: KeyTemplate, schema: TableSchema, cell: (column: string) => Value): string | null {
  let key = ''
  for (const [index, part] of template.parts.entries()) {
    const value = cell(part.column)
    if (value === null) return null
    const escaped = escapeKeyPart(String(value))
    const stop = stopOf(template, index, typeOf(schema, part.column))
    key += part.before + (stop === null ? escaped : escaped.replaceAll(stop, () => percentEncode(stop)))
  }
  return key + template.after
}

/**
 * The character that is percent-encoded in the values of a template's part besides those that always are, because
 * another value follows behind it; null where there is none.
 */
export function stopOf(template: KeyTemplate, part: number, type: LogicalType): string | null {
  const separator = template.parts[part + 1]?.before ?? ''
  const stop = String.fromCodePoint(separator.codePointAt(0) ?? 0)
  return separator === '' || stop === ':' || FIXED_WIDTH.has(type) ? null : stop
}

function typeOf(schema: TableSchema, column: string): LogicalType {
  return schema.columns.find((candidate) => candidate.name === column)?.type ?? 'string'
}
