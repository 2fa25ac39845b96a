/** Compares what the source has with what each store shows, row by row and both ways. */
import type pg from 'pg'
import type { Api, Json } from './api.ts'
import { PRODUCT, type Readers, valuesByKey } from './live-readers.ts'
import { COLUMNS, PERSONAL } from './live-source.ts'

/** A row's values as texts, in the order of the columns. */
export type Texts = readonly (string | null)[]

export interface Difference {
  readonly store: string
  /** Rows that it shows. */
  readonly rows: number
  /** Of the source, that it does not show so. */
  readonly missing: number
  /** That it shows, and the source does not have so. */
  readonly surplus: number
}

/** As EXCEPT ALL counts, in both directions: a row that is there twice has to be there twice. */
export function differenceOf(store: string, source: readonly Texts[], shown: readonly Texts[]): Difference {
  const counts = new Map<string, number>()
  for (const row of source) counts.set(JSON.stringify(row), (counts.get(JSON.stringify(row)) ?? 0) + 1)
  for (const row of shown) counts.set(JSON.stringify(row), (counts.get(JSON.stringify(row)) ?? 0) - 1)
  let [missing, surplus] = [0, 0]
  for (const count of counts.values()) {
    missing += Math.max(0, count)
    surplus += Math.max(0, -count)
  }
  return { store, rows: shown.length, missing, surplus }
}

export interface Comparison {
  /** Of every answer that was compared; more than one where an epoch came meanwhile. */
  readonly epochs: readonly number[]
  readonly sourceRows: number
  readonly differences: readonly Difference[]
  /** Stores that were not compared, with the reason. */
  readonly skipped: readonly string[]
}

/** `nextKey`: all keys that there ever were are below it, and each is looked for under its own value. */
export async function compare(source: pg.Client, readers: Readers, nextKey: number): Promise<Comparison> {
  const { developer, viewer, iceberg, developerToken } = readers
  const wanted = await sourceRows(source, COLUMNS)
  const epochs = new Set<number>()
  const pages = (reader: Api, path: string, columns: readonly string[]) => readPages(reader, path, columns, epochs)
  const masked = COLUMNS.map((name) => (PERSONAL.includes(name) ? null : name))
  const differences = [
    differenceOf('lookup', wanted, await pages(developer, 'latest?limit=1000', COLUMNS)),
    differenceOf(
      'lookup, masked',
      wanted.map((row) => row.filter((_, at) => masked[at] !== null)),
      await pages(
        viewer,
        'latest?limit=1000',
        COLUMNS.filter((name) => !PERSONAL.includes(name)),
      ),
    ),
    differenceOf('timeseries', wanted, await pages(developer, 'timeseries?from=2000-01-01&limit=1000', COLUMNS)),
    differenceOf('realtime', wanted, await readValues(developer, nextKey, epochs)),
    differenceOf('analytics', wanted, await readSql(developer, epochs)),
  ]
  const skipped: string[] = []
  const [epoch] = epochs
  if (iceberg === null) skipped.push('the lake by PyIceberg: no Python here has it; analytics reads the same files')
  else {
    const answer = await iceberg.ask({ epoch, token: developerToken, columns: COLUMNS })
    if (answer['rows'] === undefined) throw new Error(`PyIceberg could not read the lake: ${JSON.stringify(answer)}`)
    differences.push(differenceOf('the lake', wanted, answer['rows'] as Texts[]))
  }
  return { epochs: [...epochs], sourceRows: wanted.length, differences, skipped }
}

/** In the spelling that the interface has for values. */
async function sourceRows(source: pg.Client, columns: readonly string[]): Promise<readonly Texts[]> {
  const texts = columns.map((name) =>
    name === 'changed_at' ? `to_char(${name} AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')` : `${name}::text`,
  )
  const { rows } = await source.query({ text: `SELECT ${texts.join()} FROM orders`, rowMode: 'array' })
  return rows as Texts[]
}

async function readPages(
  reader: Api,
  path: string,
  columns: readonly string[],
  epochs: Set<number>,
): Promise<readonly Texts[]> {
  const rows: Texts[] = []
  for (let cursor: string | null = ''; cursor !== null; ) {
    const next = cursor === '' ? '' : `&cursor=${encodeURIComponent(cursor)}`
    const page: Json = await reader.get(`/api/v1/products/${PRODUCT}/${path}${next}`)
    epochs.add(page['meta'].epoch)
    for (const row of page['data']) rows.push(textsOf(row, columns))
    cursor = page['next_cursor']
  }
  return rows
}

async function readValues(reader: Api, nextKey: number, epochs: Set<number>): Promise<readonly Texts[]> {
  const rows: Texts[] = []
  for (let first = 1; first < nextKey; first += 1000) {
    const keys = Array.from({ length: Math.min(1000, nextKey - first) }, (_, at) => first + at)
    const answer = await valuesByKey(reader, keys)
    epochs.add(answer['meta'].epoch)
    for (const row of answer['rows']) if (row !== null) rows.push(textsOf(row, COLUMNS))
  }
  return rows
}

async function readSql(reader: Api, epochs: Set<number>): Promise<readonly Texts[]> {
  const answer = await reader.post('/api/v1/query', { sql: `SELECT ${COLUMNS.join()} FROM ${PRODUCT}`, limit: 100_000 })
  if (answer['truncated']) throw new Error('there are more orders than one answer has room for')
  epochs.add(answer['meta'].epochs[PRODUCT])
  return (answer['rows'] as unknown[][]).map((row) => row.map(textOf))
}

const textOf = (value: unknown): string | null => (value === null ? null : String(value))
const textsOf = (row: Json, columns: readonly string[]): Texts => columns.map((name) => textOf(row[name]))
