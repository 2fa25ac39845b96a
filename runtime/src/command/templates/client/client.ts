/** Whole numbers of 64 bits. Beyond ±(2^53−1) they come as strings, with all their digits. */
export type Long = number | string
/** With exactly as many digits after the point as its type says: "12.50". */
export type Decimal = string
export type Double = number | 'NaN' | 'Infinity' | '-Infinity'
/** YYYY-MM-DD */
export type DateText = string
/** YYYY-MM-DDTHH:MM:SS.ffffff, without a zone. */
export type Timestamp = string
/** The same in UTC, with a final Z. */
export type TimestampTz = string
export type Uuid = string
export type Base64 = string
export type Json = null | boolean | number | string | readonly Json[] | { readonly [name: string]: Json }

export interface SluiceOptions {
  /** Of the server: https://sluice.example.com */
  readonly url: string
  /** A bearer token, or what gives one: that is asked before each request. */
  readonly token: string | (() => string | Promise<string>)
  /** For administrators of the platform alone: in which tenant. Tokens of a tenant name their own. */
  readonly tenant?: string | undefined
  /** How long a request may take with its answer. Default 30 s. What has no end, or any size, may be silent so long. */
  readonly timeoutMs?: number | undefined
  readonly fetch?: typeof fetch | undefined
}

export interface CallOptions {
  readonly signal?: AbortSignal | undefined
  /** In place of the client's own. */
  readonly timeoutMs?: number | undefined
}

export interface ColumnsOptions<C> extends CallOptions {
  /** Default: all. */
  readonly columns?: readonly C[] | undefined
}

/** What went wrong, as the server says it (RFC 9457); or that it gave no such answer, with the status 0. */
export class SluiceError extends Error {
  override readonly name: string = 'SluiceError'
  /** Of HTTP. 0: there was no answer to the request, or none that is whole. */
  readonly status: number
  /** Stable. Of the status 0: unreachable, timed_out. */
  readonly code: string
  readonly detail: string
  readonly remedy: string | null
  /** How long to wait before asking again; null: the server does not say. */
  readonly retryAfterMs: number | null
  readonly requestId: string | null
  /** All that the server said. */
  readonly problem: Readonly<Record<string, Json>>
  /** What it was that came in place of an answer, where that is known. */
  readonly reason: unknown

  constructor(status: number, problem: Readonly<Record<string, Json>>, retryAfterMs: number | null, reason?: unknown) {
    const text = (name: string): string | null => {
      const value = problem[name]
      return typeof value === 'string' ? value : null
    }
    const code = text('code') ?? 'not_sluice'
    const detail = text('detail') ?? text('title') ?? 'what answers is not Sluice'
    super(`${detail} (${code}, ${status})`)
    this.status = status
    this.code = code
    this.detail = detail
    this.remedy = text('remedy')
    this.retryAfterMs = retryAfterMs
    this.requestId = text('request_id')
    this.problem = problem
    this.reason = reason
  }
}

/** Of the rows of an answer. */
export interface Meta {
  readonly product: string
  readonly namespace: string
  readonly version: string
  readonly epoch: number
  readonly snapshot_id: string
  /** When the epoch was committed. */
  readonly as_of: string
  readonly masked_columns: readonly string[]
  readonly store: string
  readonly ttl_remaining_s?: number
  readonly freshness: { readonly read_at: string; readonly age_s?: number }
}

export interface Page<Row> {
  readonly data: readonly Row[]
  readonly meta: Meta
  /** Give it back as `cursor`; null: there are no more. */
  readonly next_cursor: string | null
}

export interface QueryOptions extends CallOptions {
  readonly params?: readonly (string | number | boolean | null)[] | undefined
  /** At most so many rows. */
  readonly limit?: number | undefined
  /** A time, the id of a snapshot, or a version as v1.2.0. */
  readonly asOf?: string | undefined
}

export interface QueryResult {
  readonly columns: readonly { readonly name: string; readonly type: string; readonly masked: boolean }[]
  readonly rows: readonly (readonly Json[])[]
  readonly row_count: number
  /** There are more rows: as many as `limit` asks for were given, or as many as the server gives as JSON. */
  readonly truncated: boolean
  readonly meta: { readonly [name: string]: Json }
}

type Body = { readonly [name: string]: unknown }

const LINES = 'application/x-ndjson'
const PARQUET = 'application/vnd.apache.parquet'
const EVENTS = 'text/event-stream'

/** A request on its way, with its deadline. `close` is called at its end. */
interface Sent {
  readonly response: Response
  /** What came is taken for a sign of life: the deadline begins anew. */
  readonly touch: () => void
  /** The error as whoever called is to see it. */
  readonly explain: (error: unknown) => unknown
  readonly close: () => void
}

/** The way to one server. */
export class SluiceConnection {
  readonly #options: SluiceOptions
  readonly #url: string

  constructor(options: SluiceOptions) {
    this.#options = options
    this.#url = new URL(options.url).href.replace(/\/+$/, '')
  }

  get hasFreshTokens(): boolean {
    return typeof this.#options.token === 'function'
  }

  async json<T>(method: string, path: string, body: Body | null, options: CallOptions): Promise<T> {
    const sent = await this.open(method, path, { accept: 'application/json' }, body, options)
    try {
      const text = await sent.response.text()
      try {
        return JSON.parse(text) as T
      } catch (cause) {
        throw new SluiceError(sent.response.status, {}, null, cause)
      }
    } catch (error) {
      throw sent.explain(error)
    } finally {
      sent.close()
    }
  }

  async bytes(path: string, body: Body, accept: string, options: CallOptions): Promise<ArrayBuffer> {
    const sent = await this.open('POST', path, { accept }, body, options)
    try {
      return await sent.response.arrayBuffer()
    } catch (error) {
      throw sent.explain(error)
    } finally {
      sent.close()
    }
  }

  /** Texts as they come; whoever stops reading ends the request. */
  async *texts(sent: Sent): AsyncGenerator<string, void, undefined> {
    const reader = sent.response.body?.getReader()
    const decoder = new TextDecoder()
    try {
      for (;;) {
        const part = await reader?.read()
        sent.touch()
        if (part === undefined || part.done) return
        yield decoder.decode(part.value, { stream: true })
      }
    } catch (error) {
      throw sent.explain(error)
    } finally {
      sent.close()
    }
  }

  /** The head of an answer that is a good one. Throws SluiceError, or the signal's reason. */
  async open(
    method: string,
    path: string,
    headers: Readonly<Record<string, string>>,
    body: Body | null,
    { signal, timeoutMs = this.#options.timeoutMs ?? 30_000 }: CallOptions,
  ): Promise<Sent> {
    const ended = new AbortController()
    const onAbort = (): void => ended.abort()
    let isLate = false
    const late = (): void => {
      isLate = true
      ended.abort()
    }
    let timer = setTimeout(late, timeoutMs)
    const close = (): void => {
      clearTimeout(timer)
      signal?.removeEventListener('abort', onAbort)
      ended.abort()
    }
    const touch = (): void => {
      clearTimeout(timer)
      timer = setTimeout(late, timeoutMs)
    }
    const explain = (error: unknown): unknown => {
      if (signal?.aborted) return signal.reason
      if (error instanceof SluiceError) return error
      const [code, detail] = isLate
        ? ['timed_out', `there was no answer within ${timeoutMs} ms`]
        : ['unreachable', 'the server cannot be reached, or broke its answer off']
      return new SluiceError(0, { code, detail }, null, error)
    }
    try {
      signal?.throwIfAborted()
      signal?.addEventListener('abort', onAbort)
      const { token, tenant, fetch: ask = fetch } = this.#options
      const bearer = typeof token === 'string' ? token : await token()
      const response = await ask(`${this.#url}${path}`, {
        method,
        // A token is for this server alone.
        redirect: 'error',
        signal: ended.signal,
        headers: {
          ...headers,
          authorization: `Bearer ${bearer}`,
          ...(tenant === undefined ? {} : { 'x-tenant-id': tenant }),
          ...(body === null ? {} : { 'content-type': 'application/json' }),
        },
        ...(body === null ? {} : { body: bodyText(body) }),
      })
      if (!response.ok) throw await refusalOf(response)
      return { response, touch, explain, close }
    } catch (error) {
      const explained = explain(error)
      close()
      throw explained
    }
  }
}

/** JSON has no numbers as long as these. */
function bodyText(body: Body): string {
  return JSON.stringify(body, (_, value: unknown) => (typeof value === 'bigint' ? value.toString() : value))
}

async function refusalOf(response: Response): Promise<SluiceError> {
  const seconds = Number(response.headers.get('retry-after') ?? Number.NaN)
  const retryAfterMs = Number.isFinite(seconds) ? seconds * 1000 : null
  const text = await response.text()
  try {
    const problem = JSON.parse(text) as unknown
    if (isObject(problem)) return new SluiceError(response.status, problem, retryAfterMs)
  } catch {
    // A page of something that stands between.
  }
  return new SluiceError(response.status, {}, retryAfterMs)
}

function isObject(value: unknown): value is Readonly<Record<string, Json>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

const productPath = (product: string): string => `/api/v1/products/${encodeURIComponent(product)}`

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
    if (typeof condition !== 'object' || condition === null) return [`${column}:${String(condition)}`]
    return Object.entries(condition).flatMap(([operator, value]: [string, unknown]) =>
      value === undefined ? [] : [`${column}.${operator}:${Array.isArray(value) ? listText(value) : String(value)}`],
    )
  })
}

function listText(values: readonly unknown[]): string {
  const texts = values.map(String)
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
 * Rows by their key, or by columns that are indexed. Key: never, where the key is masked. History: options that only a lookup with
 * states of the past has.
 */
export class Lookup<Row, Key, F extends keyof Row, History = unknown> extends Keyed<Row, Key> {
  protected readonly store = 'lookup'

  /** All rows that the filter leaves, page by page. */
  find<C extends keyof Row = keyof Row>(
    options: FindOptions<Row, C, F> & History = {} as FindOptions<Row, C, F> & History,
  ): AsyncGenerator<Pick<Row, C>, void, undefined> {
    return pagesOf((cursor) => this.page({ ...options, cursor }), options.cursor)
  }

  page<C extends keyof Row = keyof Row>(options: FindOptions<Row, C, F> & History): Promise<Page<Pick<Row, C>>> {
    const { at, history } = options as HistoryOptions
    const search = searchOf(options as FindOptions<never, string, never>, { at, history })
    return this.connection.json('GET', `${productPath(this.product)}/latest?${search}`, null, options)
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

  /** All rows of the range, page by page. */
  range<C extends keyof Row = keyof Row>(
    options: RangeOptions<Row, C, F> = {},
  ): AsyncGenerator<Pick<Row, C>, void, undefined> {
    return pagesOf((cursor) => this.page({ ...options, cursor }), options.cursor)
  }

  page<C extends keyof Row = keyof Row>(options: RangeOptions<Row, C, F> = {}): Promise<Page<Pick<Row, C>>> {
    return this.#read(options, {})
  }

  /** What is kept of each interval: `bucket`, and of each of its columns count, sum, avg, min and max, as its type has them. */
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
    return this.#connection.json('GET', `${productPath(this.#product)}/timeseries?${search}`, null, options)
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

export type Change<Row, Key> =
  | { readonly kind: 'upsert'; readonly id: string; readonly row: Row }
  | { readonly kind: 'delete'; readonly id: string; readonly key: Key }
  /** What came since the last one is whole. */
  | { readonly kind: 'epoch'; readonly id: string; readonly epoch: number; readonly version: string | null }
  /** All rows are to be forgotten: they follow anew. */
  | { readonly kind: 'reset'; readonly id: string; readonly reason: string }

export interface FollowOptions {
  readonly signal?: AbortSignal | undefined
  /** now (default): what comes; start: all rows there are, then what comes; or the id of the last event that was applied. */
  readonly from?: string | undefined
  /** How long it tries to come back before it throws why it cannot. Default 5 minutes. */
  readonly patienceMs?: number | undefined
}

/** The server is never silent for longer than 15 s. */
const SILENCE_MS = 60_000
const RETRY_MS = 3_000
const TOO_MANY = 429
const SERVER_FAULT = 500

/** A product's changed rows as they come. */
export class Changes<Row, Key> {
  readonly #connection: SluiceConnection
  readonly #path: string

  constructor(connection: SluiceConnection, product: string) {
    this.#connection = connection
    this.#path = `${productPath(product)}/changes`
  }

  /**
   * Has no end but the signal's, or an error. It comes back by itself where the connection breaks, to the event after the last one, so that none is
   * lost and none comes twice. Throws SluiceError where the server says why the stream ends.
   */
  async *follow({
    signal,
    from,
    patienceMs = 300_000,
  }: FollowOptions = {}): AsyncGenerator<Change<Row, Key>, void, undefined> {
    let lastId: string | null = null
    let retryMs = RETRY_MS
    let lostAtMs: number | null = null
    let isRenewed = false
    for (;;) {
      let waitMs = retryMs
      try {
        for await (const { id, event, data, retry } of this.#events(lastId, from, signal)) {
          lostAtMs = null
          retryMs = retry ?? retryMs
          if (event === null) continue
          lastId = id ?? lastId
          if (event === 'problem') throw new SluiceError(SERVER_FAULT, data, null)
          const change = changeOf<Row, Key>(event, lastId ?? '', data)
          if (change === null) continue
          isRenewed = false
          yield change
        }
      } catch (error) {
        if (!(error instanceof SluiceError)) throw error
        const renews = error.code === 'right_ended' && this.#connection.hasFreshTokens && !isRenewed
        if (renews) isRenewed = true
        else if (!passes(error)) throw error
        lostAtMs ??= Date.now()
        if (Date.now() - lostAtMs > patienceMs) throw error
        waitMs = error.retryAfterMs ?? retryMs
      }
      await pause(waitMs, signal)
    }
  }

  async *#events(lastId: string | null, from: string | undefined, signal: AbortSignal | undefined) {
    const search = from === undefined ? '' : `?${new URLSearchParams({ from })}`
    const resumed: Record<string, string> = lastId === null ? {} : { 'last-event-id': lastId }
    const headers = { accept: EVENTS, ...resumed }
    const options = { signal, timeoutMs: SILENCE_MS }
    const sent = await this.#connection.open('GET', `${this.#path}${search}`, headers, null, options)
    let rest = ''
    for await (const text of this.#connection.texts(sent)) {
      rest += text
      const blocks = rest.split('\n\n')
      rest = blocks.pop() ?? ''
      for (const block of blocks) yield eventOf(block)
    }
  }
}

interface ServerEvent {
  readonly id: string | null
  readonly event: string | null
  readonly data: Readonly<Record<string, Json>>
  readonly retry: number | null
}

function eventOf(block: string): ServerEvent {
  const fields: Record<string, string> = {}
  for (const line of block.split('\n')) {
    const [name = '', value = ''] = splitOnce(line, ':')
    fields[name] = fields[name] === undefined ? value.replace(/^ /, '') : `${fields[name]}\n${value.replace(/^ /, '')}`
  }
  const data: unknown = fields['data'] === undefined ? {} : JSON.parse(fields['data'])
  const retry = Number(fields['retry'] ?? Number.NaN)
  return {
    id: fields['id'] ?? null,
    event: fields['data'] === undefined ? null : (fields['event'] ?? 'message'),
    data: isObject(data) ? data : {},
    retry: Number.isFinite(retry) ? retry : null,
  }
}

function splitOnce(text: string, separator: string): readonly string[] {
  const at = text.indexOf(separator)
  return at < 0 ? [text] : [text.slice(0, at), text.slice(at + separator.length)]
}

/** Null of what later servers may tell besides. */
function changeOf<Row, Key>(event: string, id: string, data: Readonly<Record<string, Json>>): Change<Row, Key> | null {
  switch (event) {
    case 'upsert':
      return { kind: event, id, row: data as unknown as Row }
    case 'delete':
      return { kind: event, id, key: data as unknown as Key }
    case 'epoch':
      return { kind: event, id, epoch: Number(data['epoch']), version: (data['version'] ?? null) as string | null }
    case 'reset':
      return { kind: event, id, reason: String(data['reason']) }
    default:
      return null
  }
}

/** Whether waiting may help: a network that broke, a server that starts anew, too many requests. */
function passes({ status, problem, code }: SluiceError): boolean {
  if (status === 0 || status === TOO_MANY || code === 'mask_pending') return true
  // What ends a stream is told in it, and has no status of its own.
  return status >= SERVER_FAULT && problem['status'] !== undefined
}

function pause(ms: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    const onAbort = (): void => {
      clearTimeout(timer)
      reject(signal?.reason)
    }
    const timer = setTimeout(() => {
      signal?.removeEventListener('abort', onAbort)
      resolve()
    }, ms)
    if (signal?.aborted) onAbort()
    else signal?.addEventListener('abort', onAbort)
  })
}

/** SQL over everything that may be read: NAMESPACE.PRODUCT. */
export class SluiceClient {
  protected readonly connection: SluiceConnection

  constructor(options: SluiceOptions) {
    this.connection = new SluiceConnection(options)
  }

  query(sql: string, options: QueryOptions = {}): Promise<QueryResult> {
    return this.connection.json('POST', '/api/v1/query', queryBody(sql, options), options)
  }

  /** Rows as they come, however many. */
  async *queryRows<Row = { readonly [name: string]: Json }>(
    sql: string,
    options: QueryOptions = {},
  ): AsyncGenerator<Row, void, undefined> {
    const body = queryBody(sql, options)
    const sent = await this.connection.open('POST', '/api/v1/query', { accept: LINES }, body, options)
    let rest = ''
    for await (const text of this.connection.texts(sent)) {
      rest += text
      const lines = rest.split('\n')
      rest = lines.pop() ?? ''
      for (const line of lines) if (line !== '') yield JSON.parse(line) as Row
    }
    if (rest !== '') yield JSON.parse(rest) as Row
  }

  queryParquet(sql: string, options: QueryOptions = {}): Promise<ArrayBuffer> {
    return this.connection.bytes('/api/v1/query', queryBody(sql, options), PARQUET, options)
  }
}

function queryBody(sql: string, { params, limit, asOf, timeoutMs }: QueryOptions): Body {
  return { sql, params, limit, as_of: asOf, timeout_ms: timeoutMs }
}
