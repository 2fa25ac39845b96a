/** Answers that are written while they are read. Rows come in batches, so that a chunk is made per batch, not per row. */
import { refuse } from './problem.ts'
import type { ReplyStream } from './route.ts'

/** Rows as JSON texts, one each. */
export type JsonRows = AsyncIterable<readonly string[]>

export const NDJSON = 'application/x-ndjson; charset=utf-8'
export const CSV = 'text/csv; charset=utf-8; header=present'
const JSON_TYPE = 'application/json; charset=utf-8'

/**
 * One JSON object whose list under `field` is streamed. `head` and the object that `tail` gives after the last row
 * lend the object its other fields.
 */
export function jsonStream(
  field: string,
  rows: JsonRows,
  head: Readonly<Record<string, unknown>>,
  tail: () => Readonly<Record<string, unknown>>,
): ReplyStream {
  return { contentType: JSON_TYPE, chunks: jsonChunks(field, rows, head, tail) }
}

async function* jsonChunks(
  field: string,
  rows: JsonRows,
  head: Readonly<Record<string, unknown>>,
  tail: () => Readonly<Record<string, unknown>>,
): AsyncGenerator<string> {
  const fields = JSON.stringify(head).slice(0, -1)
  let before = `${fields}${fields.length > 1 ? ',' : ''}${JSON.stringify(field)}:[`
  for await (const batch of rows) {
    if (batch.length === 0) continue
    yield before + batch.join(',')
    before = ','
  }
  const rest = JSON.stringify(tail()).slice(1)
  const close = rest.length > 1 ? `],${rest}` : ']}'
  yield before === ',' ? close : before + close
}

/** A JSON text per line. */
export function ndjsonStream(rows: JsonRows): ReplyStream {
  return { contentType: NDJSON, chunks: ndjsonChunks(rows) }
}

async function* ndjsonChunks(rows: JsonRows): AsyncGenerator<string> {
  for await (const batch of rows) if (batch.length > 0) yield `${batch.join('\n')}\n`
}

/** RFC 4180 with a header line. Null is an empty field, an empty text is `""`. */
export function csvStream(
  columns: readonly string[],
  rows: AsyncIterable<readonly (readonly unknown[])[]>,
): ReplyStream {
  return { contentType: CSV, chunks: csvChunks(columns, rows) }
}

async function* csvChunks(
  columns: readonly string[],
  rows: AsyncIterable<readonly (readonly unknown[])[]>,
): AsyncGenerator<string> {
  yield csvLine(columns)
  for await (const batch of rows) if (batch.length > 0) yield batch.map(csvLine).join('')
}

function csvLine(values: readonly unknown[]): string {
  return `${values.map(csvField).join(',')}\r\n`
}

function csvField(value: unknown): string {
  if (value === null || value === undefined) return ''
  const text = typeof value === 'object' ? JSON.stringify(value) : String(value)
  return text === '' || /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text
}

/** The first of the offered media types that the client prefers most; throws `not_acceptable`. */
export function negotiate<const Offer extends string>(accept: string, offers: readonly Offer[]): Offer {
  const ranges = accept.split(',').slice(0, 20).map(parseRange)
  let best: { readonly offer: Offer; readonly quality: number } | undefined
  for (const offer of offers) {
    const quality = qualityOf(offer, ranges)
    if (quality > 0 && (best === undefined || quality > best.quality)) best = { offer, quality }
  }
  if (best === undefined) throw refuse('not_acceptable', `this answer can be had as ${offers.join(', ')}`)
  return best.offer
}

interface MediaRange {
  readonly type: string
  readonly quality: number
}

function parseRange(text: string): MediaRange {
  const [type = '', ...parameters] = text.split(';').map((part) => part.trim().toLowerCase())
  const quality = Number(parameters.find((parameter) => parameter.startsWith('q='))?.slice(2) ?? 1)
  return { type, quality: Number.isFinite(quality) ? quality : 0 }
}

/** The most exact range decides, as RFC 9110 has it. */
function qualityOf(offer: string, ranges: readonly MediaRange[]): number {
  for (const type of [offer, `${offer.split('/')[0]}/*`, '*/*']) {
    const range = ranges.find((candidate) => candidate.type === type)
    if (range !== undefined) return range.quality
  }
  return 0
}
