import { Type } from 'typebox'
import type { BodyBytes } from '../../flow.ts'
import type { Stored as StoredPush } from '../../ingestion/push/intake.ts'
import type { ConnectionsDeps } from '../../operations/connections/deps.ts'
import { pushTarget, receiveRows, receiveWebhook, signedWebhook } from '../../operations/connections/push.ts'
import { requireDeveloper } from '../../operations/permissions.ts'
import type { ParseThreads } from '../../parsing/parse-threads.ts'
import { parseIdempotencyKey } from '../idempotency.ts'
import { refuse } from '../problem.ts'
import { pushFormOf, readPushBody } from '../push-body.ts'
import { defineRoute, type Reply, type Route } from '../route.ts'
import { AnyBody } from './iceberg-shapes.ts'
import { Reference } from './requests/paths.ts'

const Row = Type.Object(
  { _op: Type.Optional(Type.Union([Type.Literal('upsert'), Type.Literal('delete')], { default: 'upsert' })) },
  { additionalProperties: true, description: 'A row: its columns by name, and what becomes of it.' },
)
const Stored = Type.Object({
  table: Type.String({ description: 'schema.table' }),
  rows: Type.Integer({ description: 'How many were taken: all that were sent.' }),
  sequence: Type.Integer({ description: 'Of the request: rows of a later one replace those of an earlier one.' }),
  durability: Type.Literal('stored', {
    description: 'The registry has committed the rows. A run takes them into the lake, once.',
  }),
})

export function pushRoutes(deps: ConnectionsDeps, threads: ParseThreads): readonly Route[] {
  return [
    defineRoute({
      method: 'POST',
      path: '/api/v1/connections/{connection_id}/events',
      name: 'pushRows',
      summary: 'Push rows of a table',
      description:
        'All rows of a request are taken, or none. A row replaces the one with the same key; with `_op: delete` that one is gone. Columns that a row leaves out are null. A request that is sent again with its Idempotency-Key is answered as the first one was, and done once.',
      tags: ['Connections'],
      auth: 'tenant',
      params: Type.Object({ connection_id: Reference }),
      query: Type.Object(
        { table: Type.String({ minLength: 1, maxLength: 200, description: 'A table that the connection describes.' }) },
        { additionalProperties: false },
      ),
      body: AnyBody,
      bodyFormat: 'bytes',
      bodyTypes: {
        'application/json': { schema: Type.Array(Row, { minItems: 1 }) },
        'application/x-ndjson': {
          // No `example`: generators of requests that cannot write this type give up where it has one.
          schema: Type.String({ description: 'A row on each line, such as `{"id":1,"city":"Bonn"}`.' }),
        },
      },
      requestHeaders: { 'Idempotency-Key': 'Up to 255 printable characters; kept for push.key_hours.' },
      responses: { 202: { description: 'The rows are durable.', schema: Stored } },
      errors: [
        'connection_not_found',
        'push_not_taken',
        'push_table_not_found',
        'push_rows_refused',
        'push_full',
        'push_busy',
        'connection_changed',
        'idempotency_key_invalid',
        'idempotency_key_reused',
        'malformed_body',
        'body_too_large',
        'unsupported_media_type',
        'developer_required',
      ],
      async handler(call) {
        requireDeveloper(call.principal)
        const { headers, bytes } = call.body as BodyBytes
        const idempotencyKey = parseIdempotencyKey(headers['idempotency-key'])
        const form = pushFormOf(headers['content-type'] as string | undefined)
        const target = await pushTarget(deps, call, call.params.connection_id, call.query.table)
        const read = await readPushBody({ bytes, form, table: target.table }, threads, call)
        return storedReply(await receiveRows(deps, call, target, { ...read, body: bytes, idempotencyKey }))
      },
    }),
    defineRoute({
      method: 'POST',
      path: '/api/v1/webhooks/{connection_id}',
      name: 'receiveWebhook',
      summary: 'Take a webhook that is signed',
      description:
        'For connections of the type push with webhook_table and webhook_secret. No token: the signature of Standard Webhooks proves the sender, and its time is five minutes from now at most. The document is kept as it came, as one row; the webhook-id is its key and its idempotency key.',
      tags: ['Connections'],
      auth: 'none',
      params: Type.Object({ connection_id: Reference }),
      body: AnyBody,
      bodyFormat: 'bytes',
      bodyTypes: { 'application/json': { schema: Type.Unknown({ description: 'Any document.' }) } },
      requestHeaders: {
        'webhook-id': 'Of the webhook; the same when it is sent again.',
        'webhook-timestamp': 'Seconds since 1970.',
        'webhook-signature': 'v1, and the HMAC-SHA256 of `id.timestamp.body` in base64; several are parted by a blank.',
      },
      responses: { 202: { description: 'The document is durable.', schema: Stored } },
      errors: [
        'webhook_refused',
        'push_full',
        'push_busy',
        'connection_changed',
        'idempotency_key_reused',
        'malformed_body',
        'body_too_large',
        'unsupported_media_type',
      ],
      async handler(call) {
        const body = call.body as BodyBytes
        const signed = await signedWebhook(deps, call.params.connection_id, body)
        if (pushFormOf(body.headers['content-type'] as string | undefined) !== 'json')
          throw refuse('unsupported_media_type', 'the body must be application/json')
        const { id: webhook_id, timestamp } = signed.headers
        const webhook = { webhook_id, sent_at: new Date(timestamp * 1000).toISOString() }
        const { tenant } = signed.connection
        const task = { bytes: body.bytes, form: 'json', table: signed.table, webhook } as const
        const read = await readPushBody(task, threads, { tenant, signal: call.signal })
        return storedReply(await receiveWebhook(deps, signed, read, body.bytes, call.signal))
      },
    }),
  ]
}

function storedReply({ answer: { table, rows, sequence }, isReplay }: StoredPush): Reply {
  return {
    status: 202,
    ...(isReplay ? { headers: { 'Idempotency-Replayed': 'true' } } : {}),
    body: { table, rows, sequence, durability: 'stored' },
  }
}
