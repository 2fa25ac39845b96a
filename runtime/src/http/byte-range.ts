import type { IncomingHttpHeaders } from 'node:http'
import type { ByteRange } from '../flow.ts'
import { refuse } from './problem.ts'

/** Fifteen digits are exact as numbers; a file that needs more is longer than any. */
const RANGE = /^bytes=[ \t]*(?:(\d{1,15})-(\d{0,15})|-(\d{1,15}))[ \t]*$/i

/**
 * The part that a client asks for; null for the whole. By RFC 9110, 14.2 a header is passed over that is not understood, and
 * so is one of several parts: whoever sends it takes the whole. If-Range with another validator than this one asks for
 * the whole, too: what the client has is of another file.
 *
 * @param etag strong, without quotes
 * @throws `range_not_satisfiable` for what lies behind the end
 */
export function rangeOf(headers: IncomingHttpHeaders, etag: string, bytes: number): ByteRange | null {
  const found = RANGE.exec(headers.range ?? '')
  if (found === null) return null
  const condition = headers['if-range']
  if (condition !== undefined && condition !== `"${etag}"`) return null
  const [, first, last, suffix] = found
  const from = first === undefined ? Math.max(0, bytes - Number(suffix)) : Number(first)
  const to = Math.min(bytes - 1, last === undefined || last === '' ? Number.POSITIVE_INFINITY : Number(last))
  if (last !== undefined && last !== '' && Number(last) < from) return null
  if (from >= bytes || from > to) {
    throw refuse('range_not_satisfiable', `the file has ${bytes} bytes, and none where it is asked for`, {
      details: { bytes },
    })
  }
  return { from, to }
}
