import { Type } from 'typebox'
import type { ErasuresDeps } from '../../operations/erasures/deps.ts'
import { erasureOf, erasuresOf, requestErasure } from '../../operations/erasures/erasures.ts'
import { requireAdmin } from '../../operations/permissions.ts'
import type { Erasure } from '../../registry/erasures.ts'
import type { PageRequest } from '../../registry/paging.ts'
import { RUN_STATES } from '../../registry/runs.ts'
import type { Cursors } from '../cursor.ts'
import { keptAnswer } from '../idempotency.ts'
import { defineRoute, type Route } from '../route.ts'
import { pageOf } from './answers/parts.ts'
import { listReply } from './lists.ts'
import { Page, Reference } from './requests/paths.ts'

const path = '/api/v1/connections/{connection_id}/erasures'
const tags = ['Connections']
const admin = (call: { readonly principal: Parameters<typeof requireAdmin>[0] }) => requireAdmin(call.principal)
const nullableTime = Type.Union([Type.String({ format: 'date-time' }), Type.Null()])
const Count = Type.Integer({ minimum: 0 })

const ErasureRequest = Type.Object(
  {
    table: Type.String({ minLength: 1, maxLength: 1024, description: 'schema.table' }),
    key: Type.Record(
      Type.String({ minLength: 1, maxLength: 255 }),
      Type.Union([Type.String({ maxLength: 4096 }), Type.Number(), Type.Boolean()]),
      { minProperties: 1, maxProperties: 32, description: 'Each column of the key with its value.' },
    ),
    expire_history: Type.Optional(
      Type.Boolean({
        default: false,
        description:
          'That former snapshots of the raw table and of every product made of it go, and the histories in their stores begin anew. Without it the answer is 409 with what would go.',
      }),
    ),
  },
  { additionalProperties: false },
)

const ErasureShape = Type.Object(
  {
    id: Type.String(),
    table: Type.String({ description: 'schema.table' }),
    key_columns: Type.Array(Type.String()),
    key_digest: Type.String({ description: 'HMAC-SHA-256 by a key of the tenant: the key itself is not kept.' }),
    run_id: Type.String({ description: 'Tells of its progress: GET /api/v1/ingestion/{id}.' }),
    state: Type.Union(RUN_STATES.map((state) => Type.Literal(state))),
    found: Type.Union([
      Type.Object({
        rows: Count,
        snapshots: Type.Record(Type.String(), Count, { description: 'By lake table, how many went or are to go.' }),
      }),
      Type.Null(),
    ]),
    proof: Type.Union(
      [
        Type.Object({
          tables: Type.Array(Type.String(), { description: 'Lake tables that were searched.' }),
          products: Type.Array(
            Type.Object({
              name: Type.String(),
              epoch: Type.Integer(),
              by_key: Type.Boolean({ description: 'It has the columns of the key, and was searched by them.' }),
              histories: Type.Array(Type.String(), { description: 'Endpoints whose history begins anew.' }),
            }),
          ),
          quarantined: Count,
          exports: Count,
          rows: Type.Literal(0),
        }),
        Type.Null(),
      ],
      { description: 'Null until a search has found nothing.' },
    ),
    note: Type.String(),
    created_at: Type.String({ format: 'date-time' }),
    finished_at: nullableTime,
  },
  { $id: 'Erasure' },
)

const NOTE =
  'The source is not changed: a read that brings the row again, where the source still has it, brings it back. Not reached: backups, write-ahead logs and dead rows of PostgreSQL until they are recycled and vacuumed, topics of the event bus, and what readers have taken.'

/** Rows of sources that are to be nowhere any more. */
export function erasureRoutes(deps: ErasuresDeps, cursors: Cursors): readonly Route[] {
  return [
    defineRoute({
      method: 'POST',
      path,
      name: 'createErasure',
      summary: 'Erase a row of a source by its key, wherever it was carried to',
      description:
        'For administrators. Queues a run that removes the row from the raw table and its quarantine, makes every product of the table anew without anything kept, with its twins and totals, removes the former snapshots and their files at once, builds the copies in stores anew, removes exports, and ends when a search finds nothing. Reads of former snapshots that are under way end with an error.',
      tags,
      auth: 'tenant',
      params: Type.Object({ connection_id: Reference }),
      body: ErasureRequest,
      idempotent: true,
      authorize: admin,
      responses: { 202: { description: 'The erasure, queued.', schema: ErasureShape } },
      errors: [
        'connection_not_found',
        'table_not_ingested',
        'erasure_key_mismatch',
        'erasure_expires_history',
        'product_paused',
        'run_in_progress',
        'invalid_value',
      ],
      async handler(call) {
        const answer = keptAnswer(call, (made: Erasure) => ({ status: 202, body: erasureJson(made) }))
        const { table, key, expire_history: expireHistory = false } = call.body
        const wanted = { table, key, expireHistory }
        return answer.reply(await requestErasure(deps, call, call.params.connection_id, wanted, answer.keep))
      },
    }),
    defineRoute({
      method: 'GET',
      path,
      name: 'listErasures',
      summary: 'Erasures of rows of a connection, newest first',
      tags,
      auth: 'tenant',
      params: Type.Object({ connection_id: Reference }),
      query: Page,
      authorize: admin,
      responses: { 200: { description: 'A page of erasures, without their keys.', schema: pageOf(ErasureShape) } },
      errors: ['connection_not_found'],
      handler(call) {
        const read = (page: PageRequest) => erasuresOf(deps, call, call.params.connection_id, page)
        return listReply(call, cursors, 'erasures', read, erasureJson)
      },
    }),
    defineRoute({
      method: 'GET',
      path: `${path}/{erasure_id}`,
      name: 'getErasure',
      summary: 'One erasure: how far it is, and what was searched at its end',
      tags,
      auth: 'tenant',
      params: Type.Object({ connection_id: Reference, erasure_id: Reference }),
      authorize: admin,
      responses: { 200: { description: 'The erasure, without its key.', schema: ErasureShape } },
      errors: ['connection_not_found', 'erasure_not_found'],
      async handler(call) {
        const { connection_id: reference, erasure_id: id } = call.params
        return { body: erasureJson(await erasureOf(deps, call, reference, id)) }
      },
    }),
  ]
}

function erasureJson({ id, table, keyColumns, keyDigest, runId, state, found, proof, ...times }: Erasure) {
  return {
    ...{ id, table, state, found, proof },
    key_columns: keyColumns,
    key_digest: keyDigest,
    run_id: runId,
    note: NOTE,
    created_at: times.createdAt.toISOString(),
    finished_at: times.finishedAt?.toISOString() ?? null,
  }
}
