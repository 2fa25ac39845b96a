/** Which of its media types a route answers in (RFC 9110, 12.5.1). Errors are problem+json whatever was asked for. */
import { LRUCache } from 'lru-cache'
import { refuse } from './problem.ts'
import type { Route } from './route.ts'

const JSON_TYPE = 'application/json'

/** What the types that routes answer in are said to be besides; a range that asks for anything else fits none of them. */
const PARAMETERS: Readonly<Record<string, readonly string[]>> = {
  'text/csv': ['charset=utf-8', 'header=present'],
  'text/plain': ['charset=utf-8', 'version=0.0.4'],
  'application/vnd.apache.parquet': [],
}
const USUAL_PARAMETERS: readonly string[] = ['charset=utf-8']

interface Range {
  /** `*` for any. */
  readonly type: string
  readonly subtype: string
  /** `name=value`, in lower case. */
  readonly parameters: readonly string[]
  readonly quality: number
}

/** What a route's answer may come as, by its own order; empty where it has no content, or where another server says. */
export function offeredTypes({
  responses,
  answersAnyType,
}: Pick<Route, 'responses' | 'answersAnyType'>): readonly string[] {
  if (answersAnyType === true) return []
  const answers = Object.entries(responses).filter(([status]) => status.startsWith('2') && status !== '204')
  const types = answers.flatMap(([, { schema, also }]) => {
    const others = Object.keys(also ?? {})
    return schema !== undefined || others.length === 0 ? [JSON_TYPE, ...others] : others
  })
  return [...new Set(types)]
}

/** Of clients that ask alike, which most do. */
const known = new LRUCache<string, readonly Range[]>({ max: 500 })
const LONGEST_KNOWN = 300

/**
 * The type that the header likes best; of those that it likes alike the one that it names most exactly, then first.
 * Null where none is offered. Throws `not_acceptable`.
 */
export function mediaTypeFor(accept: string | undefined, offered: readonly string[]): string | null {
  const first = offered[0] ?? null
  if (first === null || accept === undefined || accept === '*/*' || accept === first || accept.trim() === '')
    return first
  const ranges = rangesOf(accept)
  let best: { readonly type: string; readonly rank: readonly number[] } | null = null
  for (const type of offered) {
    const rank = rankOf(type, ranges)
    if (rank !== null && (best === null || isAbove(rank, best.rank))) best = { type, rank }
  }
  if (best !== null) return best.type
  throw refuse('not_acceptable', `this answer comes as ${offered.join(', ')}`, { details: { types: offered } })
}

/** How much the header likes a type, how exactly and how early it names it. Null: not at all. */
function rankOf(offered: string, ranges: readonly Range[]): readonly number[] | null {
  let best: readonly number[] | null = null
  let quality = 0
  for (const [at, range] of ranges.entries()) {
    const exactness = exactnessOf(range, offered)
    if (exactness === null || (best !== null && exactness <= (best[0] as number))) continue
    best = [exactness, -at]
    quality = range.quality
  }
  return best === null || quality === 0 ? null : [quality, ...best]
}

function isAbove(one: readonly number[], other: readonly number[]): boolean {
  const at = one.findIndex((value, index) => value !== other[index])
  return at >= 0 && (one[at] as number) > (other[at] as number)
}

/** The most exact range that fits a type speaks for it. Null where it does not fit. */
function exactnessOf({ type, subtype, parameters }: Range, offered: string): number | null {
  const [main, sub] = offered.split('/')
  if (type === '*') return parameters.length === 0 ? 0 : null
  if (type !== main) return null
  if (subtype === '*') return parameters.length === 0 ? 1 : null
  if (subtype !== sub) return null
  const own = PARAMETERS[offered] ?? USUAL_PARAMETERS
  return parameters.every((parameter) => own.includes(parameter)) ? 2 + parameters.length : null
}

function rangesOf(accept: string): readonly Range[] {
  if (accept.length > LONGEST_KNOWN) return parsed(accept)
  const found = known.get(accept) ?? parsed(accept)
  known.set(accept, found)
  return found
}

/** Parts that are no media range, or whose weight is none, ask for nothing. */
function parsed(accept: string): readonly Range[] {
  return splitOutsideQuotes(accept, ',').flatMap((part) => rangeOf(part) ?? [])
}

const RANGE = /^([!#$%&'*+.^_`|~\w-]+)\/([!#$%&'*+.^_`|~\w-]+)$/
const QUALITY = /^(?:0(?:\.\d{0,3})?|1(?:\.0{0,3})?)$/

function rangeOf(text: string): Range | null {
  const [name = '', ...rest] = splitOutsideQuotes(text, ';').map((part) => part.trim())
  const [, type, subtype] = RANGE.exec(name.toLowerCase()) ?? []
  if (type === undefined || subtype === undefined || (type === '*' && subtype !== '*')) return null
  const parameters: string[] = []
  let quality = 1
  for (const parameter of rest.filter((one) => one !== '')) {
    const equals = parameter.indexOf('=')
    const key = parameter.slice(0, Math.max(0, equals)).toLowerCase()
    const value = unquoted(parameter.slice(equals + 1)).toLowerCase()
    if (key === '') return null
    if (key !== 'q') parameters.push(`${key}=${value}`)
    else if (QUALITY.test(value)) quality = Number(value)
    else return null
  }
  return { type, subtype, parameters, quality }
}

function unquoted(value: string): string {
  return value.length >= 2 && value.startsWith('"') && value.endsWith('"') ? value.slice(1, -1) : value
}

function splitOutsideQuotes(text: string, separator: ',' | ';'): readonly string[] {
  if (!text.includes('"')) return text.split(separator)
  const parts: string[] = []
  let start = 0
  let isInside = false
  for (let at = 0; at < text.length; at++) {
    if (text[at] === '"') isInside = !isInside
    else if (isInside && text[at] === '\\') at++
    else if (!isInside && text[at] === separator) {
      parts.push(text.slice(start, at))
      start = at + 1
    }
  }
  return [...parts, text.slice(start)]
}
