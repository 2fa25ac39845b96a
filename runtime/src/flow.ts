/**
 * The values that travel with a request, from the edge inwards. Each is finished when it is handed on and never
 * changes afterwards.
 *
 * Request → http → Call → auth → Principal → policy → operation → plan → store → rows → Response
 */

import type { Readable } from 'node:stream'

/** Classification levels, from the least to the most protected; a clearance is one of them too. */
export type Level = 'public' | 'internal' | 'confidential' | 'restricted'

/** Who calls, as a verified token says. Identity is (issuer, subject): a subject alone names nobody. */
export interface Principal {
  readonly issuer: string
  readonly subject: string
  /** The tenant that the token is bound to; null for an administrator of the platform. */
  readonly tenant: string | null
  /** Without a leading slash; at most 200. */
  readonly groups: readonly string[]
  readonly isAdmin: boolean
  readonly isDeveloper: boolean
  readonly isViewer: boolean
  /** What the token claims. It may narrow what its bearer sees; it never stands for a grant. */
  readonly claimedClearance: Level | null
  readonly email: string | null
  /** Milliseconds since 1970. Nothing that began with this token goes on after it. */
  readonly tokenExpiresAtMs: number
  /** Milliseconds since 1970; 0 where the token does not say. Of two tokens of a person the later one tells the truth. */
  readonly tokenIssuedAtMs: number
  /** The OAuth client that the token was given to, where it says so: `azp` or `client_id`. */
  readonly client?: string
  /** Of an application key, and of whoever an agent asks for: what it is for. Absent: a person, or a service with a token of its own. */
  readonly key?: KeyScope
}

/** What keys of applications may be for: reads by endpoints, and SQL. What products are is told to both. */
export type KeyOperation = 'read' | 'query'

/** Within what its maker may do now, which the principal's other fields say. */
export interface KeyScope {
  /** Whose grants hold for it. */
  readonly maker: { readonly issuer: string; readonly subject: string }
  /** Ids; null: all that its maker may read, but those that name their readers. */
  readonly products: ReadonlySet<string> | null
  readonly operations: readonly KeyOperation[]
  /** Classes to show in clear where its maker sees them so; `*`: all of those. */
  readonly unmask: ReadonlySet<string>
  /** An agent asks, in the name of a person or a key: restricted products are not for it. */
  readonly isAgents?: boolean
}

/** One attempt under an Idempotency-Key, held by this call until its answer is recorded or given up. */
export interface IdempotencyClaim {
  /** The store's own name of the attempt, for recording the answer in the transaction of the effect. */
  readonly id: string
}

/**
 * A request that passed the edge: authenticated where the route asks for it, within its limits, and with every input
 * validated against the route's schemas.
 */
export interface Call<Params = unknown, Query = unknown, Body = unknown> {
  readonly requestId: string
  /** The caller's W3C trace context, in version 00; null where it sent none. This server adds no spans to it. */
  readonly traceparent: string | null
  /** Null only on routes that ask for no token. */
  readonly principal: Principal | null
  /** The tenant on whose behalf this runs: the token's, or the one that an administrator names by X-Tenant-Id. */
  readonly tenant: string | null
  /** The tenant of X-Tenant-Id; null where there is no such header. */
  readonly namedTenant: string | null
  /** Aborted when the client goes away or the route's time is over. */
  readonly signal: AbortSignal
  readonly params: Params
  readonly query: Query
  readonly body: Body
  readonly idempotencyKey: string | null
  /** Null where the route is not idempotent or the client sent no key. */
  readonly idempotency: IdempotencyClaim | null
  /** Last-Event-ID of a client that resumes a stream of events. */
  readonly lastEventId: string | null
  /** Which of the route's media types the answer is to have, by the client's Accept; null where it has no content. */
  readonly mediaType: string | null
  /** The Authorization header as it came: told to nobody but whoever sent it. Null where there is none. */
  readonly authorization: string | null
}

/** A part of a file: from byte `from` to byte `to`, both included. */
export interface ByteRange {
  readonly from: number
  readonly to: number
}

/** The body of a request that is not read before its handler runs. Its bytes are bounded by whoever reads them. */
export interface BodyStream {
  /** Of the request; names in lower case. */
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>
  readonly bytes: Readable
}

/** The body of a request as it came, for what takes it apart by what it knows of the sender. */
export interface BodyBytes {
  /** Of the request; names in lower case. */
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>
  readonly bytes: Buffer
}

/** A call whose bearer is known; an administrator may have named no tenant. */
export interface AuthenticatedCall<Params = unknown, Query = unknown, Body = unknown>
  extends Call<Params, Query, Body> {
  readonly principal: Principal
}

/** A call inside one tenant. */
export interface TenantCall<Params = unknown, Query = unknown, Body = unknown>
  extends AuthenticatedCall<Params, Query, Body> {
  readonly tenant: string
}
