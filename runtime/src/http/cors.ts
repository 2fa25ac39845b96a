/**
 * Which pages may call from a browser (the CORS protocol of the Fetch standard). A preflight names no tenant and is
 * answered for all that are configured; the request itself is decided by its tenant. No answer allows credentials: tokens
 * are sent by the page itself. Clients that are no browsers, and pages of this server, are not asked.
 */
import type { IncomingMessage } from 'node:http'
import type { Principal } from '../flow.ts'
import { refuse } from './problem.ts'

export interface CorsOptions {
  /** For every tenant: `https://app.example.com`, or `*` for all there are. */
  readonly origins: readonly string[]
  /** For one tenant, by its id. */
  readonly tenants: Readonly<Record<string, readonly string[]>>
}

const REQUEST_HEADERS = [
  'Accept',
  'Authorization',
  'Content-Type',
  'Idempotency-Key',
  'If-None-Match',
  'If-Range',
  'Last-Event-ID',
  'Range',
  'X-Request-Id',
  'X-Tenant-Id',
  'traceparent',
  'tracestate',
]
/** Those of an answer that pages cannot read without. */
const ANSWER_HEADERS = [
  'Accept-Ranges',
  'Columns-Without-Values',
  'Content-Range',
  'ETag',
  'Idempotency-Replayed',
  'Location',
  'Masked-Columns',
  'RateLimit',
  'RateLimit-Policy',
  'Retry-After',
  'WWW-Authenticate',
  'X-Request-Id',
  'X-Sluice-Freshness',
]
/** What browsers send for files, frames without rights and the like, which could be anybody's. */
const NOBODY = 'null'
const PREFLIGHT_AGE_S = 600

/** A request, and for whom it asks as far as that is known. */
interface Asking {
  readonly request: IncomingMessage
  readonly principal: Principal | null
  readonly tenant: string | null
}

export class Cors {
  readonly #everywhere: ReadonlySet<string>
  readonly #ofTenants: ReadonlyMap<string, ReadonlySet<string>>
  readonly #anywhere: ReadonlySet<string>

  constructor({ origins, tenants }: CorsOptions) {
    this.#everywhere = new Set(origins)
    this.#ofTenants = new Map(Object.entries(tenants).map(([tenant, some]) => [tenant, new Set(some)]))
    this.#anywhere = new Set([...origins, ...Object.values(tenants).flat()])
  }

  /** Throws `origin_not_allowed` where a page of one tenant calls for another. */
  check(asking: Asking): void {
    const { origin } = asking.request.headers
    if (origin === undefined || this.#isFor(origin, asking) || !this.#anywhere.has(origin)) return
    throw refuse('origin_not_allowed', 'pages of this origin may not call for this tenant')
  }

  /** Headers of an answer, name and value in turns. */
  headersFor(asking: Asking): readonly string[] {
    const { origin } = asking.request.headers
    if (origin === undefined || !this.#isFor(origin, asking)) return []
    return [...this.#allowed(origin), 'Access-Control-Expose-Headers', ANSWER_HEADERS.join(', ')]
  }

  /** Of a preflight to an address with these methods; none where the page may not call. */
  preflightFor({ headers }: Asking['request'], methods: readonly string[]): Readonly<Record<string, string>> {
    const { origin } = headers
    if (origin === undefined || headers['access-control-request-method'] === undefined) return {}
    if (origin === NOBODY || !(this.#anywhere.has('*') || this.#anywhere.has(origin))) return {}
    const [name = '', value = ''] = this.#allowed(origin)
    return {
      [name]: value,
      'Access-Control-Allow-Methods': methods.join(', '),
      'Access-Control-Allow-Headers': REQUEST_HEADERS.join(', '),
      'Access-Control-Max-Age': String(PREFLIGHT_AGE_S),
    }
  }

  #allowed(origin: string): readonly [string, string] {
    return ['Access-Control-Allow-Origin', this.#everywhere.has('*') ? '*' : origin]
  }

  /** What is answered before anybody is known says nothing of a tenant: any configured page may read it. */
  #isFor(origin: string, { principal, tenant }: Asking): boolean {
    if (origin === NOBODY) return false
    if (this.#everywhere.has('*') || this.#everywhere.has(origin)) return true
    if (principal === null) return this.#anywhere.has(origin)
    return this.#ofTenants.get(tenant ?? principal.tenant ?? '')?.has(origin) ?? false
  }
}
