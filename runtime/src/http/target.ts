/** The request line's target, taken apart strictly: what two readers could understand differently is refused. */
import { refuse } from './problem.ts'

export interface RequestTarget {
  /** As sent, still percent-encoded. */
  readonly path: string
  readonly search: string
}

/** All parameters of a read at their longest fit in. */
const MAX_LENGTH = 12 * 1024
const MAX_PARAMETERS = 200
/** No percent signs, and no segment that begins with a dot. */
const PLAIN_PATH = /^(?:\/[A-Za-z0-9_~:@-][A-Za-z0-9_~:@.-]*)*\/?$/
/**
 * Clients of Iceberg catalogs name the levels of a namespace with this sign between them, and ask so for a table's metadata
 * tables: they go on to the table itself where they are told that there is none. No namespace here has levels.
 */
const NESTED_NAMESPACE = /^(\/iceberg\/v1\/[^/]+\/namespaces\/[^/%]+)(?:%1F[^/%]+)+(?=\/|$)/i
const PLAIN_QUERY = /^[A-Za-z0-9_.~:@,=&-]*$/

export function parseTarget(url: string): RequestTarget {
  if (url.length > MAX_LENGTH) throw refuse('uri_too_long', `the address is longer than ${MAX_LENGTH} bytes`)
  const origin = url.charCodeAt(0) === 47 ? url : originForm(url)
  const mark = origin.indexOf('?')
  const path = mark < 0 ? origin : origin.slice(0, mark)
  if (!PLAIN_PATH.test(path)) checkSegments(path.replace(NESTED_NAMESPACE, '$1'))
  return { path, search: mark < 0 ? '' : origin.slice(mark + 1) }
}

/** Proxies send the absolute form; a server has to take it. */
function originForm(url: string): string {
  if (!/^https?:\/\//i.test(url) || !URL.canParse(url)) throw malformedPath('it must begin with a slash')
  const parsed = new URL(url)
  return parsed.pathname + parsed.search
}

function checkSegments(path: string): void {
  for (const segment of path.split('/')) {
    const decoded = decode(segment)
    if (decoded === null) throw malformedPath('it is not percent-encoded UTF-8')
    if (decoded === '.' || decoded === '..') throw malformedPath('it has a dot segment')
    if (/[/\\]/.test(decoded) || /\p{Cc}/u.test(decoded)) {
      throw malformedPath('a segment holds a slash, a backslash or a control character')
    }
  }
}

/** Visits the parameters in the order sent. Throws `malformed_query` for bad encoding and for null characters. */
export function eachParameter(search: string, visit: (name: string, value: string) => void): void {
  if (search === '') return
  const isPlain = PLAIN_QUERY.test(search)
  let count = 0
  for (let start = 0; start <= search.length; ) {
    const found = search.indexOf('&', start)
    const end = found < 0 ? search.length : found
    if (++count > MAX_PARAMETERS) throw refuse('malformed_query', 'the query has too many parameters')
    if (end > start) visitPair(search.slice(start, end), isPlain, visit)
    start = end + 1
  }
}

function visitPair(pair: string, isPlain: boolean, visit: (name: string, value: string) => void): void {
  const equals = pair.indexOf('=')
  const name = queryText(equals < 0 ? pair : pair.slice(0, equals), isPlain)
  visit(name, equals < 0 ? '' : queryText(pair.slice(equals + 1), isPlain))
}

function queryText(text: string, isPlain: boolean): string {
  if (isPlain) return text
  const decoded = decode(text.replaceAll('+', ' '))
  if (decoded === null) throw refuse('malformed_query', 'the query is not percent-encoded UTF-8')
  if (decoded.includes('\0')) throw refuse('malformed_query', 'the query holds a null character')
  return decoded
}

function decode(text: string): string | null {
  try {
    return decodeURIComponent(text)
  } catch {
    return null
  }
}

function malformedPath(reason: string): Error {
  return refuse('malformed_path', `the path is refused: ${reason}`)
}
