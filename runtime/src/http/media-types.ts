/** Which of its media types a route answers in (RFC 9110, 12.5.1). Errors are problem+json whatever was asked for. */
import type { IncomingHttpHeaders } from 'node:http'
import { refuse } from './problem.ts'
import type { Route } from './route.ts'

const JSON_TYPE = 'application/json'

/** What the types that routes answer in are said to be besides; a range that asks for anything else fits none of them. */
const PARAMETERS: Readonly<Record<string, string>> = {
  'text/csv': ';charset=utf-8;header=present',
  'text/plain': ';charset=utf-8;version=0.0.4',
  'application/vnd.apache.parquet': '',
}
const USUAL_PARAMETERS = ';charset=utf-8'

/** What a route's answer may come as, by its own order; empty where it has no content, or where another server says. */
export function offeredTypes({
  responses,
  answersAnyType,
}: Pick<Route, 'responses' | 'answersAnyType'>): readonly string[] {
  if (answersAnyType === true) return []
  const answers = Object.entries(responses).filter(([status]) => status.startsWith('2') && status !== '204')
  const types = answers.flatMap(([, { schema, also, usual }]) => {
    const others = Object.keys(also ?? {})
    const own = schema !== undefined || others.length === 0 ? [JSON_TYPE, ...others] : others
    return usual === undefined ? own : [usual, ...own]
  })
  return [...new Set(types)]
}

/** A request of Koa's, or as much of one as is asked. */
interface Accepting {
  readonly headers: IncomingHttpHeaders
  /** Which of the types is liked best; false where none is liked. */
  accepts(types: string[]): string | false
}

/**
 * The type that the Accept header likes best; of those that it likes alike the one that it names most exactly, then
 * first, then the route's first. Null where none is offered. Throws `not_acceptable`.
 */
export function mediaTypeFor(request: Accepting, offered: readonly string[]): string | null {
  const first = offered[0] ?? null
  const accept = request.headers.accept?.trim() ?? ''
  // What most clients send needs no negotiation.
  if (first === null || accept === '' || accept === '*/*' || accept === first) return first
  const described = offered.map((type) => `${type}${PARAMETERS[type] ?? USUAL_PARAMETERS}`)
  const liked = request.accepts(described)
  if (liked !== false) return offered[described.indexOf(liked)] ?? null
  throw refuse('not_acceptable', `this answer comes as ${offered.join(', ')}`, { details: { types: offered } })
}
