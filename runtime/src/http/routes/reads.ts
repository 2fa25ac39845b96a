import { type TSchema, Type } from 'typebox'
import type { TenantCall } from '../../flow.ts'
import { confirmLoss, lossBy, lossOf, reviewBeside } from '../../materializer/store-review.ts'
import { audited } from '../../operations/audit.ts'
import type { QueriesDeps } from '../../operations/queries/deps.ts'
import { requireStillHeld } from '../../operations/queries/held-rights.ts'
import { type Awaiting, awaitReads } from '../../operations/reads/awaited-reads.ts'
import {
  type AskedRead,
  type EndpointType,
  type PageBinding,
  type ReadDeps,
  readEndpoint,
} from '../../operations/reads/read-endpoint.ts'
import { awaitedItems, MAX_ITEMS, MAX_KEYS, readItems, tokensOf } from '../../operations/reads/read-keys.ts'
import { ageS } from '../../operations/served/freshness.ts'
import { unambiguous } from '../../operations/served/served-product.ts'
import { type Cursors, MAX_CURSOR_LENGTH } from '../cursor.ts'
import { FRESHNESS } from '../freshness-header.ts'
import { problemOf } from '../problem.ts'
import { defineRoute, type Reply, type Route } from '../route.ts'
import { ReadKeysResult, ReadResult } from './answers/reads.ts'
import { Namespace, Reference } from './requests/paths.ts'
import { AtLeastEpochOfOne, ReadKeysRequest } from './requests/reads.ts'

const READ_TIMEOUT_MS = 20_000
/** For a look at the copies that lie beside a damaged one. */
const BESIDE_MS = 300_000
const text = (maxLength: number, description: string) => Type.Optional(Type.String({ maxLength, description }))

type AskedSingle = AskedRead & { readonly namespace?: string }

/** No parameter that the operation does not know. */
type Parameters = Readonly<Partial<Record<keyof AskedSingle, TSchema>>>

const Common = {
  namespace: Namespace,
  at_least_epoch: AtLeastEpochOfOne,
  columns: text(3000, 'Comma-separated; default: all.'),
  filter: Type.Optional(
    Type.Array(Type.String({ maxLength: 2000 }), {
      maxItems: 50,
      description:
        '<column>:<value>: the column equals the whole text after the first colon. <column>.<operator>:<value> with lt, le, gt, ge, ne, eq, or in, whose values are comma-separated: price.ge:10. Repeats are joined by AND.',
    }),
  ),
  order: text(1000, '<column> or <column>:desc, comma-separated.'),
  limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 1000 })),
  cursor: text(
    MAX_CURSOR_LENGTH,
    'next_cursor of the page before. Each page is of the one epoch that its meta names, which may be later than that of the page before.',
  ),
} satisfies Parameters

const QUERIES = {
  lookup: {
    ...Common,
    at: text(40, 'The state at that time, where history_mode is type_2.'),
    history: Type.Optional(Type.Boolean({ description: 'Every state, where history_mode is type_2.' })),
  },
  timeseries: {
    ...Common,
    from: text(40, 'A date or a time, inclusive.'),
    to: text(40, 'A date, inclusive, or a time, exclusive.'),
    interval: text(40, 'Reads the continuous aggregate of that interval.'),
    order: text(1000, 'asc or desc by time, or columns.'),
  },
  realtime: {
    namespace: Common.namespace,
    at_least_epoch: Common.at_least_epoch,
    columns: Common.columns,
    key: Type.String({
      minLength: 1,
      maxLength: 4096,
      description:
        'The key_template with the values of the row, as answers tell them or percent-encoded as the store renders them.',
    }),
  },
} as const satisfies Readonly<Record<EndpointType, Parameters>>

const PATHS = { lookup: 'latest', timeseries: 'timeseries', realtime: 'realtime' } as const
const SUMMARIES = {
  lookup: 'Point reads by key or index',
  timeseries: 'Rows of a time range',
  realtime: 'The value under a key',
} as const

export function readRoutes(queries: QueriesDeps, deps: ReadDeps): readonly Route[] {
  const single = (['lookup', 'timeseries', 'realtime'] as const).map((type) => readRoute(type, queries, deps))
  return [...single, keysRoute(queries, deps)]
}

/** What the token or key was good for when the wait began may be over by now. */
async function wait(
  queries: QueriesDeps,
  call: TenantCall,
  awaited: Omit<Awaiting, 'atMostMs'>,
  { rules }: ReadDeps,
): Promise<void> {
  const deps = { rules, watches: queries.served.watches }
  const hasWaited = await awaitReads(call, { ...awaited, atMostMs: READ_TIMEOUT_MS }, deps)
  if (hasWaited) await requireStillHeld(queries, call)
}

/** What the routes that read rows from stores work with. */
export function readDeps(queries: QueriesDeps, cursors: Cursors): ReadDeps {
  return {
    rules: queries.rules,
    timeoutMs: READ_TIMEOUT_MS,
    find: (tenant, reference, domain) => queries.served.find(tenant, reference, domain),
    forget: (tenant) => queries.served.drop(tenant),
    withCopyAt: (product, type, at) => queries.served.withCopyAt(product, type, at),
    async doubt({ served: { epoch, committedAt, store, target, place }, product, type: endpoint, variant }, again) {
      const key = { productId: product.id, endpoint, variant, place }
      const expected = { epoch, committedAt: new Date(committedAt) }
      const look = async () => {
        const loss = await lossBy(again, store, target)
        // It may be no older one, but somebody else's.
        return loss === 'outdated' ? ((await lossOf(queries.pool, product.id, store, target, expected)) ?? loss) : loss
      }
      const loss = await confirmLoss(queries, key, epoch, look)
      // Beside the read: whoever reads those copies would find the same, only later.
      if (loss === 'unreadable') void reviewBeside(key, queries, AbortSignal.timeout(BESIDE_MS)).catch(() => undefined)
      return loss
    },
    audit: (call, product, action) =>
      audited(queries.pool, call, call.tenant, action, { type: 'product', id: product.id }),
    openCursor: (call, cursor, binding) => cursors.open(cursor, cursorBinding(call, binding)),
    sealCursor: (call, position, binding) => cursors.seal(position, cursorBinding(call, binding)),
  }
}

/** What every read of an endpoint may be answered. */
export const ENDPOINT_ERRORS = [
  'product_not_found',
  'ambiguous_product',
  'product_forbidden',
  'endpoint_not_declared',
  'not_materialized',
  'store_missing',
  'store_rebuilding',
  'epoch_moved',
  'column_masked',
] as const

const AWAITED_ERRORS = ['epoch_not_reached', 'too_many_waiting', 'right_ended'] as const

const READ_PATH = '/api/v1/read'

function keysRoute(queries: QueriesDeps, deps: ReadDeps): Route {
  return defineRoute({
    method: 'POST',
    path: READ_PATH,
    name: 'readKeys',
    summary: 'Rows by many keys, of several products',
    description: `Up to ${MAX_ITEMS} items with ${MAX_KEYS} keys in all, each item of one product and store. Rows stand in the order of the keys; null: there is none. An item that cannot be read has a problem in place of rows, and the others are read. Of the rate limit an item takes a request for each hundred keys.`,
    tags: ['Serving'],
    auth: 'tenant',
    forKeys: 'read',
    isRead: true,
    body: ReadKeysRequest,
    tokens: ({ items }) => tokensOf(items),
    ready(call) {
      const awaited = awaitedItems(call.body, call, deps)
      return awaited === null ? undefined : wait(queries, call, awaited, deps)
    },
    responses: { 200: { description: 'The items in their order, read or not.', schema: ReadKeysResult } },
    errors: [
      'too_many_keys',
      'key_malformed',
      'rows_too_large',
      'epoch_moved',
      ...AWAITED_ERRORS,
      'answer_not_consistent',
      'product_not_found',
      'ambiguous_product',
      'endpoint_not_declared',
      'not_materialized',
      'store_missing',
      'store_rebuilding',
      'column_masked',
    ],
    async handler(call): Promise<Reply> {
      const { items } = call.body
      const { answers, isConsistent } = await readItems(call.body, call, deps)
      const context = { requestId: call.requestId, instance: READ_PATH }
      const data = answers.map((answer, at) => {
        const { product, store } = items[at] as (typeof items)[number]
        const asked = `"product":${JSON.stringify(product)},"store":"${store}"`
        const told = 'json' in answer ? answer.json : `"error":${problemOf(answer.error, context).body}`
        return `{${asked},${told}}`
      })
      return { json: `{"data":[${data.join(',')}],"meta":{"consistent":${isConsistent}}}` }
    },
  })
}

function cursorBinding(call: TenantCall, binding: PageBinding) {
  return {
    tenant: call.tenant,
    issuer: call.principal.issuer,
    subject: call.principal.subject,
    policyVersion: binding.policyVersion,
    query: { product: binding.product, ...binding.query },
  }
}

function readRoute(type: EndpointType, queries: QueriesDeps, deps: ReadDeps): Route {
  return defineRoute({
    method: 'GET',
    path: `/api/v1/products/{name}/${PATHS[type]}`,
    name: `read${type[0]?.toUpperCase()}${type.slice(1)}`,
    summary: SUMMARIES[type],
    tags: ['Serving'],
    auth: 'tenant',
    forKeys: 'read',
    params: Type.Object({ name: Reference }),
    query: Type.Object(QUERIES[type], { additionalProperties: false }),
    ready(call) {
      const { namespace, at_least_epoch: atLeastEpoch, interval } = call.query as AskedSingle
      if (atLeastEpoch === undefined) return undefined
      const find = () => unambiguous(call, deps.find(call.tenant, call.params.name, namespace))
      return wait(
        queries,
        call,
        { reads: [{ asked: { type, interval }, find, atLeastEpoch }], isConsistent: false },
        deps,
      )
    },
    responses: {
      200: {
        description: 'Rows in data; what was read, in meta.',
        headers: {
          [FRESHNESS]:
            'How many seconds ago the source was read that the rows are of: since `meta.freshness.read_at`. Of a 304, too.',
        },
        schema: ReadResult,
      },
    },
    errors: [
      ...ENDPOINT_ERRORS,
      ...AWAITED_ERRORS,
      'filter_malformed',
      'filter_not_indexed',
      'key_not_found',
      'cpu_time_spent',
    ],
    async handler(call): Promise<Reply> {
      const { namespace, ...query } = call.query as AskedSingle
      const { json, etag, readAt } = await readEndpoint(type, call, call.params.name, namespace, query, deps)
      return { json, etag, headers: { [FRESHNESS]: String(ageS(readAt)) } }
    },
  })
}
