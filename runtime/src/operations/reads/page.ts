/** What a store gives for one page, as the text of an answer; and where the next page begins. */
import {
  type Batch,
  isJsonBatch,
  isSluiceError,
  OneBatch,
  type ReadBatch,
  rowsOf,
  SluiceError,
  type TableSchema,
  type Value,
} from '@sluice/sdk'
import { rowJson } from '../../events/row-json.ts'
import { copyOutdated } from '../../materializer/store-review.ts'
import { parseValue } from './parse-value.ts'
import type { ReadView } from './read-view.ts'

export interface Page {
  /** JSON objects, joined by commas. */
  readonly rows: string
  readonly rowCount: number
  readonly ttlRemainingS: number | undefined
  readonly next: readonly Value[] | undefined
}

/**
 * Rows are shown by the policy under which their epoch was decided, and by no other. Of an epoch before the one that the store
 * was said to have: somebody put an older copy back. Of a later one: policy may be another since. Throws TRANSIENT
 * `copy_outdated`, by which the copy is doubted, and `epoch_moved`, by which it is decided again.
 */
export function requireServed({ epoch }: Pick<ReadBatch, 'epoch'>, served: Pick<ReadView['served'], 'epoch'>): void {
  if (epoch === served.epoch) return
  throw epoch < served.epoch ? copyOutdated() : epochMoved(epoch)
}

/** What the store has is of an epoch that is later than what is known of the product. */
function epochMoved(epoch: number): SluiceError {
  return new SluiceError('TRANSIENT', 'the store has rows of a later epoch than is known of the product', {
    code: 'epoch_moved',
    remedy: 'Ask again in a moment.',
    details: { epoch },
    retryAfterMs: 1_000,
  })
}

/** The later epoch, where that is why a read was not answered. */
export function laterEpochIn(error: unknown): number | null {
  if (!isSluiceError(error, 'TRANSIENT') || error.code !== 'epoch_moved') return null
  const epoch = error.details?.['epoch']
  return typeof epoch === 'number' && Number.isSafeInteger(epoch) ? epoch : null
}

/** Throws what `requireServed` throws. */
export async function collect(
  batches: AsyncIterable<ReadBatch>,
  { served, schema }: Pick<ReadView, 'served' | 'schema'>,
  columns: readonly string[],
): Promise<Page> {
  let page = NO_ROWS
  const take = (batch: ReadBatch) => {
    requireServed(batch, served)
    page = longer(page, batch, batch.rowCount === 0 ? '' : encodeRows(batch, columns, schema))
  }
  if (batches instanceof OneBatch) take(await batches.take())
  else for await (const batch of batches) take(batch)
  return page
}

const NO_ROWS: Page = { rows: '', rowCount: 0, ttlRemainingS: undefined, next: undefined }

function longer({ rows, rowCount }: Page, batch: ReadBatch, more: string): Page {
  return {
    rows: rows !== '' && more !== '' ? `${rows},${more}` : rows + more,
    rowCount: rowCount + batch.rowCount,
    ttlRemainingS: batch.ttlRemainingS,
    next: batch.next,
  }
}

/**
 * The answer that is one page. Without the age of its rows, by which the same rows would be another answer each second: it
 * is told beside the body.
 */
export function answerJson(
  { marks }: Pick<ReadView, 'marks'>,
  page: Page,
  seal: (position: unknown) => string,
): string {
  const { metaJson, readAt } = marks
  const ttl = page.ttlRemainingS === undefined ? '' : `,"ttl_remaining_s":${page.ttlRemainingS}`
  const next = page.next === undefined ? 'null' : JSON.stringify(seal(encodePosition(page.next)))
  return `{"data":[${page.rows}],"meta":${metaJson}${ttl},"freshness":{"read_at":"${readAt}"}},"next_cursor":${next}}`
}

function encodeRows(batch: Batch, columns: readonly string[], schema: TableSchema): string {
  if (isJsonBatch(batch)) return batch.json.slice(batch.json.indexOf('[') + 1, batch.json.lastIndexOf(']'))
  const typed = typedColumns(columns, schema)
  return [...rowsOf(batch)].map((row) => rowJson(typed, row)).join(',')
}

export function typedColumns(columns: readonly string[], schema: TableSchema) {
  return columns.map((name) => ({
    name,
    type: schema.columns.find((column) => column.name === name)?.type ?? ('string' as const),
  }))
}

/** Positions travel as JSON: what it cannot hold is tagged. */
function encodePosition(values: readonly Value[]): unknown {
  return values.map((value) => {
    if (typeof value === 'bigint') return { long: value.toString() }
    if (value instanceof Uint8Array) return { binary: Buffer.from(value).toString('base64') }
    return typeof value === 'number' && !Number.isFinite(value) ? { double: String(value) } : value
  })
}

export function decodePosition(position: unknown): readonly Value[] {
  return (position as readonly unknown[]).map((value): Value => {
    if (typeof value !== 'object' || value === null) return value as Value
    if ('long' in value) return parseValue(String(value.long), 'long', 'the cursor')
    if ('binary' in value) return Buffer.from(String(value.binary), 'base64')
    return Number((value as { double: string }).double)
  })
}
