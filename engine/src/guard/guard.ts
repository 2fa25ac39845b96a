import { SluiceError } from '@sluice/sdk'

/**
 * The guard: what a tenant's statement must be before the engine sees it. It judges the tree that DuckDB's own parser
 * makes, by allow-lists; what is not named is refused.
 */

/** Longer text is refused before it is parsed. */
export const MAX_SQL_CHARS = 100_000

/** DuckDB's JSON for "nowhere in particular". */
const NO_LOCATION = 1e15

/** A tenant's text, and how many bytes of ours were put in front of it before it was parsed. */
export interface Source {
  readonly text: string
  readonly leadBytes: number
}

/** Refuses text that the parser should not even see. */
export function checkText(source: Source): void {
  if (source.text.length > MAX_SQL_CHARS) {
    throw new SluiceError('INVALID_DATA', `the statement is longer than ${MAX_SQL_CHARS} characters`, {
      code: 'sql_too_long',
      details: { max_chars: MAX_SQL_CHARS },
    })
  }
  if (source.text.includes('\0')) throw notAllowed('a null character', source, null)
}

export function notAllowed(construct: string, source: Source, location: number | null): SluiceError {
  const at = position(source, location)
  const where = at === null ? '' : ` (line ${at.line}, column ${at.column})`
  return new SluiceError('INVALID_DATA', `a statement may not use ${construct}${where}`, {
    code: 'sql_not_allowed',
    remedy: 'Send one SELECT over the tables that you can see, with plain functions.',
    details: { construct, ...at },
  })
}

/** The same whether there is no such table or the caller may not see it. */
export function tableNotFound(name: string, source: Source, location: number | null): SluiceError {
  return new SluiceError('INVALID_DATA', `there is no table ${name}`, {
    code: 'table_not_found',
    remedy: 'Name a table as <namespace>.<product>; it must be deployed and you must be allowed to read it.',
    details: { table: name, ...position(source, location) },
  })
}

/** `near` must come from the statement itself. */
export function syntaxError(source: Source, location: number | null, near: string | null): SluiceError {
  const at = position(source, location)
  const where = at === null ? '' : ` at line ${at.line}, column ${at.column}`
  const token = near !== null && near !== '' && source.text.includes(near) ? `, near "${near.slice(0, 60)}"` : ''
  return new SluiceError('INVALID_DATA', `the statement is not valid SQL${where}${token}`, {
    code: 'sql_syntax_error',
    details: { ...at },
  })
}

/** A list of operators, joins or tables nests too: `1 + 1 + 1` is `(1 + 1) + 1`. */
export function tooDeep(): SluiceError {
  return new SluiceError('INVALID_DATA', 'the statement has more than 1,000 parts within each other', {
    code: 'sql_syntax_error',
    remedy: 'Write long lists as IN (…) or VALUES, and name parts of it in WITH.',
  })
}

interface Position {
  readonly line: number
  readonly column: number
}

/** DuckDB counts bytes of UTF-8; people count lines and characters, from 1. */
function position(source: Source, location: number | null): Position | null {
  if (location === null || !(location >= source.leadBytes) || location > NO_LOCATION) return null
  const bytes = Buffer.from(source.text).subarray(0, location - source.leadBytes)
  const before = bytes.toString('utf8').split('\n')
  return { line: before.length, column: [...(before.at(-1) ?? '')].length + 1 }
}
