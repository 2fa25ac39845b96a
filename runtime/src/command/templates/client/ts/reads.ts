import type { SluiceConnection } from './connection.ts'
import type { SluiceClient } from './sql.ts'
import { type ColumnsOptions, type Json, type Page, SluiceError } from './values.ts'

/** A value that the column equals, or operators that all have to hold. No value of a list may hold a comma. */
export type Condition<V> =
  | V
  | {
      readonly eq?: V
      readonly ne?: V
      readonly lt?: V
      readonly le?: V
      readonly gt?: V
      readonly ge?: V
      readonly in?: readonly V[]
    }

export type Filter<Row, C extends keyof Row> = { readonly [K in C]?: Condition<NonNullable<Row[K]>> }

/** Of columns, the first counts most. */
export type Order<C> = readonly (C | readonly [C, 'asc' | 'desc'])[]

export interface FindOptions<Row, C, F extends keyof Row> extends ColumnsOptions<C> {
  readonly filter?: Filter<Row, F> | undefined
  readonly order?: Order<keyof Row> | undefined
  /** Rows of one request, 1 to 1000. Default 500. */
  readonly pageSize?: number | undefined
  /** `next_cursor` of the page before; nothing else may be changed. */
  readonly cursor?: string | undefined
}

const DEFAULT_PAGE = 500

function searchOf(options: FindOptions<never, string, never>, more: Readonly<Record<string, unknown>>): string {
  const search = new URLSearchParams()
  for (const [name, value] of Object.entries(more)) if (value !== undefined) search.append(name, String(value))
  for (const text of filterTexts(options.filter ?? {})) search.append('filter', text)
  if (options.columns !== undefined) search.append('columns', options.columns.join(','))
  const order = (options.order ?? []).map((one) => (typeof one === 'object' ? one.join(':') : String(one)))
  if (order.length > 0) search.append('order', order.join(','))
  search.append('limit', String(options.pageSize ?? DEFAULT_PAGE))
  if (options.cursor !== undefined) search.append('cursor', options.cursor)
  return search.toString()
}

function filterTexts(filter: Readonly<Record<string, unknown>>): readonly string[] {
  return Object.entries(filter).flatMap(([column, condition]) => {
    if (condition === undefined) return []
    const isPlain = typeof condition !== 'object' || condition === null || condition instanceof Date
    if (isPlain || Array.isArray(condition)) return [`${column}:${textOf(condition)}`]
    return Object.entries(condition).flatMap(([operator, value]: [string, unknown]) =>
      value === undefined ? [] : [`${column}.${operator}:${operator === 'in' ? listText(value) : textOf(value)}`],
    )
  })
}

/** Others have the texts of other values. */
function textOf(value: unknown): string {
  if (['string', 'number', 'boolean', 'bigint'].includes(typeof value)) return String(value)
  throw new TypeError('a filter takes a value, and a list by the operator in')
}

function listText(values: unknown): string {
  if (!Array.isArray(values) || values.length === 0)
    throw new TypeError('the operator in takes a list of values, of one at least')
  const texts = values.map(textOf)
  if (texts.some((text) => text.includes(','))) throw new TypeError('a value of a list holds a comma: ask for it by eq')
  return texts.join(',')
}

async function* pagesOf<Row>(read: (cursor: string | undefined) => Promise<Page<Row>>, from: string | undefined) {
  let cursor = from
  do {
    const page = await read(cursor)
    yield* page.data
    cursor = page.next_cursor ?? undefined
  } while (cursor !== undefined)
}

type KeyValue = string | number | bigint | boolean

async function readKeys<Row>(
  connection: SluiceConnection,
  item: { readonly product: string; readonly store: string; readonly keys: readonly unknown[] },
  { columns, ...options }: ColumnsOptions<unknown>,
): Promise<readonly (Row | null)[]> {
  if (item.keys.length === 0) return []
  const items = [columns === undefined ? item : { ...item, columns }]
  const { data } = await connection.json<{
    readonly data: readonly {
      readonly rows?: readonly (Row | null)[]
      readonly error?: Readonly<Record<string, Json>>
    }[]
  }>('POST', '/api/v1/read', { items }, options)
  const [answer] = data
  if (answer?.rows !== undefined) return answer.rows
  const { error = {} } = answer ?? {}
  throw new SluiceError(typeof error['status'] === 'number' ? error['status'] : 0, error, null)
}

/** Rows by key, of a store that has the value of each key ready. */
abstract class Keyed<Row, Key> {
  protected readonly connection: SluiceConnection
  protected readonly product: string
  protected abstract readonly store: string

  constructor(connection: SluiceConnection, product: string) {
    this.connection = connection
    this.product = product
  }

  /** Null where there is no such row. */
  async get<C extends keyof Row = keyof Row>(key: Key, options: ColumnsOptions<C> = {}): Promise<Pick<Row, C> | null> {
    const [row = null] = await this.getMany([key], options)
    return row
  }

  /** In the order of the keys, at most 1,000; null where there is no such row. All are of one epoch. */
  getMany<C extends keyof Row = keyof Row>(
    keys: readonly Key[],
    options: ColumnsOptions<C> = {},
  ): Promise<readonly (Pick<Row, C> | null)[]> {
    const { connection, product, store } = this
    return readKeys<Pick<Row, C>>(connection, { product, store, keys }, options)
  }
}

/** Values under keys, as fresh as they come. */
export class Realtime<Row, Key extends Readonly<Record<string, KeyValue>>> extends Keyed<Row, Key> {
  protected readonly store = 'realtime'
}

/**
 * Rows by their key, or by columns that are indexed. Key: never, where the key is masked. History: options that only a
 * lookup with states of the past has.
 */
export class Lookup<Row, Key, F extends keyof Row, History = unknown> extends Keyed<Row, Key> {
  protected readonly store = 'lookup'

  /** All rows that the filter leaves, page by page, each as the product then is: `page` says of which epoch it is. */
  find<C extends keyof Row = keyof Row>(
    options: FindOptions<Row, C, F> & History = {} as FindOptions<Row, C, F> & History,
  ): AsyncGenerator<Pick<Row, C>, void, undefined> {
    return pagesOf((cursor) => this.page({ ...options, cursor }), options.cursor)
  }

  page<C extends keyof Row = keyof Row>(options: FindOptions<Row, C, F> & History): Promise<Page<Pick<Row, C>>> {
    const { at, history } = options as HistoryOptions
    const search = searchOf(options as FindOptions<never, string, never>, { at, history })
    return this.connection.json('GET', `${this.connection.pathOf(this.product)}/latest?${search}`, null, options)
  }
}

export interface HistoryOptions {
  /** The state at that time. */
  readonly at?: string | undefined
  /** Every state. */
  readonly history?: boolean | undefined
}

export interface RangeOptions<Row, C, F extends keyof Row> extends Omit<FindOptions<Row, C, F>, 'order'> {
  /** A date or a time, inclusive. */
  readonly from?: string | undefined
  /** A date, inclusive, or a time, exclusive. */
  readonly to?: string | undefined
  /** By time, or by columns. Default: asc. */
  readonly order?: 'asc' | 'desc' | Order<keyof Row> | undefined
}

/** Rows of a time range. Interval: of the aggregates that are kept. */
export class Timeseries<Row, F extends keyof Row, Interval extends string> {
  readonly #connection: SluiceConnection
  readonly #product: string

  constructor(connection: SluiceConnection, product: string) {
    this.#connection = connection
    this.#product = product
  }

  /** All rows of the range, page by page, each as the product then is. */
  range<C extends keyof Row = keyof Row>(
    options: RangeOptions<Row, C, F> = {},
  ): AsyncGenerator<Pick<Row, C>, void, undefined> {
    return pagesOf((cursor) => this.page({ ...options, cursor }), options.cursor)
  }

  page<C extends keyof Row = keyof Row>(options: RangeOptions<Row, C, F> = {}): Promise<Page<Pick<Row, C>>> {
    return this.#read(options, {})
  }

  /** What is kept of each interval: `bucket`, and of its columns count, sum, avg, min and max, as each type has them. */
  aggregates(
    interval: Interval,
    options: Omit<RangeOptions<Row, never, F>, 'columns'> = {},
  ): AsyncGenerator<{ readonly [name: string]: Json }, void, undefined> {
    return pagesOf((cursor) => this.#read({ ...options, cursor }, { interval }), options.cursor)
  }

  #read<R>(options: RangeOptions<Row, keyof Row, F>, more: Readonly<Record<string, unknown>>): Promise<Page<R>> {
    const { from, to, order, ...rest } = options
    const own = typeof order === 'string' ? { order } : {}
    const asked = (typeof order === 'string' ? rest : { ...rest, order }) as unknown as FindOptions<
      never,
      string,
      never
    >
    const search = searchOf(asked, { from, to, ...own, ...more })
    return this.#connection.json('GET', `${this.#connection.pathOf(this.#product)}/timeseries?${search}`, null, options)
  }
}

/** The whole product, by SQL. */
export class Table<Row> {
  readonly #client: SluiceClient
  readonly #name: string
  readonly #columns: readonly (keyof Row)[]

  /** @param name namespace and name @param columns all of them */
  constructor(client: SluiceClient, name: readonly [string, string], columns: readonly (keyof Row)[]) {
    this.#client = client
    this.#name = name.map(quoted).join('.')
    this.#columns = columns
  }

  /** All rows as they come, in no order. */
  scan<C extends keyof Row = keyof Row>(
    options: ColumnsOptions<C> = {},
  ): AsyncGenerator<Pick<Row, C>, void, undefined> {
    return this.#client.queryRows<Pick<Row, C>>(this.#select(options.columns), options)
  }

  parquet(options: ColumnsOptions<keyof Row> = {}): Promise<ArrayBuffer> {
    return this.#client.queryParquet(this.#select(options.columns), options)
  }

  #select(columns: readonly (keyof Row)[] = this.#columns): string {
    return `SELECT ${columns.map((name) => quoted(String(name))).join(', ')} FROM ${this.#name}`
  }
}

const quoted = (name: string): string => `"${name.replace(/"/g, '""')}"`
