/**
 * A route is data: what it accepts, what it answers and which operation it calls. Validation, the OpenAPI document and
 * the reference page all come from it.
 */
import type { IncomingHttpHeaders } from 'node:http'
import type { Static, TObject, TSchema } from 'typebox'
import type { AuthenticatedCall, ByteRange, Call, KeyOperation, TenantCall } from '../flow.ts'
import type { KnownCode } from './codes.ts'
import type { OperationExample } from './example.ts'

/** A GET answers HEAD too, with its own status; a HEAD beside it answers in its stead. */
export type Method = 'GET' | 'HEAD' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'

/**
 * How a body becomes a value: `json`; `exact-json`, where integers beyond 53 bits come as bigint; `ignored`, whatever
 * it is, within the limit of bytes; `bytes`, a `BodyBytes` within that limit; `stream`, a `BodyStream` that the handler reads
 * and bounds.
 */
export type BodyFormat = 'json' | 'exact-json' | 'ignored' | 'bytes' | 'stream'

/**
 * Who may call, as far as the token alone decides:
 * `none` anybody; `any` every verified token; `tenant` inside one tenant, the token's own or, for administrators, the
 * one in X-Tenant-Id; `admin` administrators of the platform; `operator` administrators and the bearer of the token
 * for metrics, who is nobody else anywhere.
 */
export type RouteAuth = 'none' | 'any' | 'tenant' | 'admin' | 'operator'

/** Chunks of an answer that does not fit into memory. Ended early when the client goes away. */
export interface ReplyStream {
  readonly contentType: string
  readonly chunks: AsyncIterable<string | Uint8Array>
  /** Events are flushed at once and may last until the token ends; anything else is coalesced. */
  readonly live?: boolean
}

/** A file, whole or the part of it that the client asks for. Its etag, which the reply has to have, is of the same bytes for ever. */
export interface ReplyFile {
  readonly contentType: string
  readonly bytes: number
  chunks(range: ByteRange | null): AsyncIterable<Uint8Array>
}

interface ReplyHead {
  /** Default 200, or 204 without content. */
  readonly status?: number
  readonly headers?: Readonly<Record<string, string>>
  /** Strong, without quotes. With it the answer may be a 304, for which no body is made. */
  readonly etag?: string
}

/**
 * What a handler answers: a value, JSON text made elsewhere, bytes of another type, a stream, a file, or nothing. A body given
 * as a function is called only where it is sent: not for 304 and HEAD of streams.
 */
export type Reply = ReplyHead &
  (
    | { readonly body: unknown }
    | { readonly json: string | Uint8Array }
    | { readonly bytes: string | Uint8Array; readonly contentType: string }
    | { readonly stream: ReplyStream | (() => ReplyStream) }
    | { readonly file: ReplyFile; readonly etag: string }
    | { readonly empty: true }
  )

export interface ResponseSpec {
  readonly description: string
  readonly schema?: TSchema
  /** Other media types of the same answer, by name. */
  readonly also?: Readonly<Record<string, string>>
  /** The media type of who does not choose. Default: JSON where there is a schema. */
  readonly usual?: string
  /** Headers that only this answer has, by name, with what they say. */
  readonly headers?: Readonly<Record<string, string>>
}

/** Parts of a multipart form, all of them UTF-8 text, kept in memory. */
export interface MultipartSpec {
  readonly parts: readonly string[]
  readonly required: readonly string[]
  readonly maxPartBytes: number
  readonly description?: string
}

type CallFor<Auth extends RouteAuth, Params, Query, Body> = Auth extends 'none' | 'operator'
  ? Call<Params, Query, Body>
  : Auth extends 'tenant'
    ? TenantCall<Params, Query, Body>
    : AuthenticatedCall<Params, Query, Body>

type ValueOf<Schema> = Schema extends TSchema ? Static<Schema> : Record<string, never>

type BodyOf<Body, Multipart> = Multipart extends MultipartSpec ? FormBody : ValueOf<Body>

/** Text of each part that was sent. */
export type FormBody = Readonly<Partial<Record<string, string>>>

interface RouteHead {
  readonly method: Method
  /** `/api/v1/products/{id}`; every name in braces is a property of `params`. */
  readonly path: string
  /** Name of the operation in generated clients, camelCase. */
  readonly name: string
  readonly summary: string
  readonly description?: string
  readonly tags: readonly string[]
  readonly responses: Readonly<Record<number, ResponseSpec>>
  /** Codes of the table that this operation answers, besides those of every route. For the document only. */
  readonly errors?: readonly KnownCode[]
  /** Until the first byte of the answer; default 30 s. */
  readonly timeoutMs?: number
  /** Default `json`. */
  readonly bodyFormat?: BodyFormat
  /** Of the format `json`: how many values a body may hold. Default 20,000. */
  readonly mostValues?: number
  /** Of the format `bytes`, for the document: what may be sent, by media type. The first is that of the table of examples. */
  readonly bodyTypes?: Readonly<Record<string, { readonly schema: TSchema; readonly example?: unknown }>>
  /** Headers that the handler itself reads, for the document, with what they say. */
  readonly requestHeaders?: Readonly<Record<string, string>>
  /** Requests take no token from the rate limits: probes and documents. */
  readonly unlimited?: boolean
  /** Answers with a stream that lasts: one subject has only a few of them. */
  readonly isLive?: boolean
  /** Changes nothing, whatever its method, and answers no secret. Default: a GET. */
  readonly isRead?: boolean
  /** Answers in the type that another server has chosen: Accept is for that one. */
  readonly answersAnyType?: boolean
  /** Application keys that are made for this may call; `any`: all of them. Absent: none may. */
  readonly forKeys?: KeyOperation | 'any'
  /** Of an operation that is in no table of examples, since a plugin declares it. */
  readonly example?: OperationExample
  /** Not in the OpenAPI document. */
  readonly hidden?: boolean
  /** Stands behind the realm where a token is asked for (401). */
  readonly challenge?: string
  /** Throws where the headers alone refuse the request: before its token is looked at. */
  admits?(headers: IncomingHttpHeaders): void
}

export interface RouteSpec<
  Auth extends RouteAuth,
  Params extends TObject | undefined,
  Query extends TObject | undefined,
  Body extends TSchema | undefined,
  Multipart extends MultipartSpec | undefined,
> extends RouteHead {
  readonly auth: Auth
  readonly params?: Params
  readonly query?: Query
  readonly body?: Body
  /** How many requests the limits count it as, by its inputs; default 1. */
  tokens?(body: BodyOf<Body, Multipart>): number
  /**
   * Waits for what the request asks to be there. It takes no turn of those that work meanwhile; what the caller may see is decided
   * after it. Undefined: there is nothing to wait for.
   */
  ready?(call: CallFor<Auth, ValueOf<Params>, ValueOf<Query>, BodyOf<Body, Multipart>>): Promise<void> | undefined
  readonly multipart?: Multipart
  /** Honours Idempotency-Key. Needs `authorize`, which runs before a stored answer is given again. */
  readonly idempotent?: boolean
  /** Throws where the caller may not do this. Runs before the handler and before a replay. */
  authorize?(call: CallFor<Auth, ValueOf<Params>, ValueOf<Query>, BodyOf<Body, Multipart>>): Promise<void> | void
  handler(call: CallFor<Auth, ValueOf<Params>, ValueOf<Query>, BodyOf<Body, Multipart>>): Promise<Reply> | Reply
}

/** A route with its types erased: the edge guarantees that the call fits the schemas before it calls. */
export interface Route extends RouteHead {
  readonly auth: RouteAuth
  readonly params?: TObject | undefined
  readonly query?: TObject | undefined
  readonly body?: TSchema | undefined
  readonly multipart?: MultipartSpec | undefined
  readonly idempotent?: boolean
  tokens?(body: unknown): number
  ready?(call: TenantCall): Promise<void> | undefined
  authorize?(call: TenantCall): Promise<void> | void
  handler(call: TenantCall): Promise<Reply> | Reply
}

/** A body of which every member may be left out may be left out itself: it is then an empty object with the schema's defaults. */
export function mayLackBody({ method, body, bodyFormat = 'json', bodyTypes }: Route): boolean {
  if (method !== 'POST' || body === undefined || bodyFormat !== 'json' || bodyTypes !== undefined) return false
  const { type, required = [], minProperties = 0, anyOf } = body as EmptiableSchema
  return (
    type === 'object' && required.every((name) => hasDefault(body, name)) && minProperties === 0 && anyOf === undefined
  )
}

interface EmptiableSchema {
  readonly type?: unknown
  readonly required?: readonly string[]
  readonly minProperties?: number
  readonly anyOf?: unknown
  readonly properties?: Readonly<Record<string, { readonly default?: unknown }>>
}

const hasDefault = (schema: EmptiableSchema, name: string) => schema.properties?.[name]?.default !== undefined

/** Gives the handler the types of its schemas. */
export function defineRoute<
  const Auth extends RouteAuth,
  Params extends TObject | undefined = undefined,
  Query extends TObject | undefined = undefined,
  Body extends TSchema | undefined = undefined,
  const Multipart extends MultipartSpec | undefined = undefined,
>(spec: RouteSpec<Auth, Params, Query, Body, Multipart>): Route {
  return spec as Route
}
