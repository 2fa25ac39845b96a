/** How SQL of tenants is refused, by whichever guard: the same codes, and places in the author's own text. */
import { SluiceError } from './errors.ts'

/** Longer text is refused before it is parsed. */
export const MAX_SQL_CHARS = 100_000

/** DuckDB's JSON for “nowhere in particular”. */
const NO_LOCATION = 1e15

/** A tenant's text, and how many bytes of ours were put in front of it before it was parsed. A location counts them, too. */
export interface SqlSource {
  readonly text: string
  readonly leadBytes: number
}

/** Refuses text that a parser should not even see. Throws INVALID_DATA `sql_too_long`, `sql_not_allowed`. */
export function checkSqlText(source: SqlSource): void {
  if (source.text.length > MAX_SQL_CHARS) {
    throw new SluiceError('INVALID_DATA', `the statement is longer than ${MAX_SQL_CHARS} characters`, {
      code: 'sql_too_long',
      details: { max_chars: MAX_SQL_CHARS },
    })
  }
  if (source.text.includes('\0')) throw sqlNotAllowed('a null character', source, null)
}

/** `sql_not_allowed`. @param location in bytes of UTF-8; null: somewhere */
export function sqlNotAllowed(construct: string, source: SqlSource, location: number | null): SluiceError {
  const at = position(source, location)
  const where = at === null ? '' : ` (line ${at.line}, column ${at.column})`
  return new SluiceError('INVALID_DATA', `a statement may not use ${construct}${where}`, {
    code: 'sql_not_allowed',
    remedy: 'Send one SELECT over the tables that you can see, with plain functions.',
    details: { construct, ...at },
  })
}

/** The same whether there is no such table or the caller may not see it. */
export function sqlTableNotFound(name: string, source: SqlSource, location: number | null): SluiceError {
  return new SluiceError('INVALID_DATA', `there is no table ${name}`, {
    code: 'table_not_found',
    remedy: 'Name a table as <namespace>.<product>; it must be deployed and you must be allowed to read it.',
    details: { table: name, ...position(source, location) },
  })
}

/** `near` must come from the statement itself. */
export function sqlSyntaxError(source: SqlSource, location: number | null, near: string | null): SluiceError {
  const at = position(source, location)
  const where = at === null ? '' : ` at line ${at.line}, column ${at.column}`
  const token = near !== null && near !== '' && source.text.includes(near) ? `, near "${near.slice(0, 60)}"` : ''
  return new SluiceError('INVALID_DATA', `the statement is not valid SQL${where}${token}`, {
    code: 'sql_syntax_error',
    details: { ...at },
  })
}

interface Position {
  readonly line: number
  readonly column: number
}

/** Locations are bytes of UTF-8; people count lines and characters, from 1. */
function position(source: SqlSource, location: number | null): Position | null {
  if (location === null || !(location >= source.leadBytes) || location > NO_LOCATION) return null
  const bytes = Buffer.from(source.text).subarray(0, location - source.leadBytes)
  const before = bytes.toString('utf8').split('\n')
  return { line: before.length, column: [...(before.at(-1) ?? '')].length + 1 }
}
