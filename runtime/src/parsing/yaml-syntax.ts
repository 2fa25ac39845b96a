/** What is wrong in a text that is no YAML, as an author would say it: the parser's own words speak of its grammar. */
import type { ErrorCode } from 'yaml'

const HINT = 'Check the indentation, and quote values that hold [ ] { } , # or ": ".'

/** For every kind that the parser tells apart. */
const WORDS: Readonly<Record<ErrorCode, string>> = {
  ALIAS_PROPS: 'an alias takes no anchor and no tag',
  BAD_ALIAS: 'the alias is not complete',
  BAD_COLLECTION_TYPE: 'the tag does not fit what follows it',
  BAD_DIRECTIVE: 'a line that begins with % is not understood',
  BAD_DQ_ESCAPE: 'no such sign can be written with a \\ between double quotes',
  BAD_INDENT: 'a line is not indented as what it belongs to, or a bracket before it is not closed',
  BAD_PROP_ORDER: 'anchors and tags stand behind - and ? and :',
  BAD_SCALAR_START: 'a value begins with a sign that it may not begin with',
  BLOCK_AS_IMPLICIT_KEY: 'a list or a block is where a value on the same line should be',
  BLOCK_IN_FLOW: 'a block stands between brackets',
  DUPLICATE_KEY: 'the key is there twice',
  IMPOSSIBLE: 'it is no YAML',
  KEY_OVER_1024_CHARS: 'a key is longer than 1,024 letters',
  MISSING_CHAR: 'a bracket, quote, comma, colon or blank is missing',
  MULTILINE_IMPLICIT_KEY: 'a key goes over more than one line, or a quote before it is not closed',
  MULTIPLE_ANCHORS: 'a value has more than one anchor',
  MULTIPLE_DOCS: 'the file holds more than one document',
  MULTIPLE_TAGS: 'a value has more than one tag',
  NON_STRING_KEY: 'a key is no text',
  RESOURCE_EXHAUSTION: 'it is nested too deeply',
  TAB_AS_INDENT: 'the line is indented with a tab',
  TAG_RESOLVE_FAILED: 'the tag is not known',
  UNEXPECTED_TOKEN: 'something stands where nothing of its kind may',
}

const HINTS: Partial<Record<ErrorCode, string>> = {
  TAB_AS_INDENT: 'Indent with spaces.',
  BAD_INDENT: HINT,
  BAD_SCALAR_START: HINT,
  BLOCK_AS_IMPLICIT_KEY: HINT,
  MISSING_CHAR: HINT,
  MULTILINE_IMPLICIT_KEY: HINT,
  UNEXPECTED_TOKEN: HINT,
  BAD_DQ_ESCAPE: 'Write \\\\ for one \\, or use single quotes.',
}

export interface SyntaxProblem {
  readonly message: string
  readonly hint?: string
}

interface ParserError {
  readonly code: ErrorCode
  readonly message: string
}

export function syntaxError(error: ParserError): SyntaxProblem {
  const { hint, message } = syntaxFault(error)
  return { message: `the YAML cannot be read: ${message}`, ...(hint === undefined ? {} : { hint }) }
}

/** The same without saying what cannot be read; nothing of the text is in it. */
export function syntaxFault({ code, message }: ParserError): SyntaxProblem {
  // A stack that is used up is told as a fault of whatever was read just then.
  const what = message.includes('call stack') ? WORDS.RESOURCE_EXHAUSTION : (WORDS[code] ?? WORDS.IMPOSSIBLE)
  const hint = HINTS[code]
  return { message: what, ...(hint === undefined ? {} : { hint }) }
}
