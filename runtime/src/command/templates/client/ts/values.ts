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
