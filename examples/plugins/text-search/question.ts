/** What a reader asks, in FTS5's words. Text of his is always quoted, so that none of it is syntax. */
import { SluiceError } from '@sluice/sdk'
import type { Config } from './config.ts'

export type Input = Readonly<Record<string, unknown>>

export interface Terms {
  /** Each an FTS5 expression of one term. Empty where the text holds no word. */
  readonly terms: readonly string[]
  /** Whether a row has to have all of them. */
  readonly isEach: boolean
}

const MAX_WORDS = 32
const SHORTEST_TRIGRAM = 3

/** FTS5 makes words of letters, digits and private characters; all else parts them. */
const IN_WORDS = /[\p{L}\p{N}\p{Co}]/u

/** Throws INVALID_DATA `invalid_value` for what cannot be searched for. */
export function termsOf(input: Input, config: Config): Terms {
  const { mode = 'all', prefix = false } = input
  // FTS5 reads a query up to a NUL.
  const text = String(input['words']).toWellFormed().replaceAll('\0', ' ')
  const isTrigrams = config.tokenizer === 'trigrams'
  const pieces = (mode === 'phrase' ? [text.trim()] : [...new Set(text.split(/\s+/u))]).filter((piece) =>
    isTrigrams ? piece !== '' : IN_WORDS.test(piece),
  )
  if (pieces.length > MAX_WORDS) throw refused('the search has too many words', `Search for ${MAX_WORDS} at most.`)
  if (isTrigrams && pieces.some((piece) => [...piece].length < SHORTEST_TRIGRAM)) {
    throw refused('the search has a word that is too short', 'This endpoint finds words of three letters and more.')
  }
  const terms = pieces.map((piece) => `"${piece.replaceAll('"', '""')}"${prefix ? ' *' : ''}`)
  return { terms, isEach: mode === 'all' }
}

/** Throws INVALID_DATA `invalid_value` for a column that is not searched, whether there is one of that name or not. */
export function searchedColumns(input: Input, { text_columns: searchable }: Config): readonly string[] {
  const columns = (input['columns'] as readonly string[] | undefined) ?? searchable
  if (columns.every((name) => searchable.includes(name))) return columns
  throw refused('the search names a column that this endpoint does not search', 'Leave columns out, or name others.')
}

function refused(message: string, remedy: string): SluiceError {
  return new SluiceError('INVALID_DATA', message, { code: 'invalid_value', remedy })
}
