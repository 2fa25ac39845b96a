import { Type } from 'typebox'
import type { ExportsDeps } from '../../operations/exports/deps.ts'
import {
  openExport,
  ownExports,
  removeExport,
  requestExport,
  type TellableExport,
  tellExport,
} from '../../operations/exports/exports.ts'
import type { Export, ExportFormat } from '../../registry/exports.ts'
import type { PageRequest } from '../../registry/paging.ts'
import type { Cursors } from '../cursor.ts'
import { keptAnswer } from '../idempotency.ts'
import { InFlight } from '../in-flight.ts'
import { refuse } from '../problem.ts'
import { defineRoute, type Route } from '../route.ts'
import { pageOf } from './answers/parts.ts'
import { listReply } from './lists.ts'
import { CONTENT_TYPES } from './query.ts'
import { Page, Reference } from './requests/paths.ts'
import { ColumnNames, QueryRequest } from './requests/reads.ts'

const tags = ['Query']
const Format = Type.Union((['parquet', 'csv', 'ndjson'] as const).map((name) => Type.Literal(name)))
const nullable = <T extends ReturnType<typeof Type.String> | ReturnType<typeof Type.Integer>>(schema: T) =>
  Type.Union([schema, Type.Null()])

const ExportRequest = Type.Object(
  {
    product: Type.Optional(Reference),
    columns: ColumnNames,
    sql: Type.Optional(QueryRequest.properties.sql),
    params: QueryRequest.properties.params,
    format: Type.Optional(Format),
    to: Type.Optional(
      Type.String({
        maxLength: 40,
        description:
          'A bucket that an operator has named (exports.destinations): the file is written there, too, as <tenant>/<export id>.<format>.',
      }),
    ),
  },
  { additionalProperties: false },
)

const ExportState = Type.Object(
  {
    id: Type.String(),
    state: Type.Union((['queued', 'running', 'succeeded', 'failed'] as const).map((name) => Type.Literal(name))),
    format: Format,
    rows: Type.Union([Type.Integer(), Type.Null()], { description: 'Null until it has succeeded.' }),
    bytes: Type.Integer({ description: 'Of the file; while it is written, so far.' }),
    columns: Type.Union([
      Type.Array(Type.Object({ name: Type.String(), type: Type.String(), masked: Type.Boolean() })),
      Type.Null(),
    ]),
    epochs: Type.Record(Type.String(), Type.Integer(), { description: 'By product: of which epoch its rows are.' }),
    to: nullable(Type.String({ description: 'The destination that it was asked for.' })),
    address: nullable(
      Type.String({
        description: 'Of the file there, as the store writes it. Null until it has succeeded, or without "to".',
      }),
    ),
    error: Type.Union([
      Type.Object({ code: Type.String(), message: Type.String(), remedy: nullable(Type.String()) }),
      Type.Null(),
    ]),
    created_at: Type.String({ format: 'date-time' }),
    finished_at: nullable(Type.String({ format: 'date-time' })),
    expires_at: Type.String({
      format: 'date-time',
      description: 'When the file is removed; until it has ended, until when it may wait for its turn.',
    }),
    link: Type.Union(
      [Type.Object({ path: Type.String(), expires_at: Type.String({ format: 'date-time' }) }), Type.Null()],
      {
        description:
          'To the file, at this server, without a token: whoever has it has the file until it expires. Null until it has succeeded, and where its rows may not be shown to you any more.',
      },
    ),
  },
  { $id: 'Export' },
)

const FILE_TYPES = {
  'application/vnd.apache.parquet': 'Where the export is parquet.',
  'text/csv': 'Where it is CSV: with a header.',
  'application/x-ndjson': 'Where it is NDJSON: an object a line.',
}

const Params = Type.Object({ export_id: Type.String({ maxLength: 64 }) })

/** In a runtime. No token comes with a link, so that the places of its tenant's requests do not bound them. */
const DOWNLOADS_OF_EXPORT = 4
const DOWNLOADS_OF_TENANT = 16

class Downloads {
  readonly #ofExports = new InFlight(DOWNLOADS_OF_EXPORT)
  readonly #ofTenants = new InFlight(DOWNLOADS_OF_TENANT)

  /** Has its places from the first chunk on, until it has ended. Throws `too_many_at_once`. */
  async *held({ id, tenant }: Export, chunks: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
    const leaves: (() => void)[] = []
    const enter = (places: InFlight, key: string, of: string): void => {
      if (!places.enter(key))
        throw refuse('too_many_at_once', `too many downloads of this ${of} are under way`, { retryAfterMs: 10_000 })
      leaves.push(() => places.leave(key))
    }
    try {
      enter(this.#ofExports, id, 'export')
      enter(this.#ofTenants, tenant, 'tenant')
      yield* chunks
    } finally {
      for (const leave of leaves) leave()
    }
  }
}

export function exportRoutes(deps: ExportsDeps, cursors: Cursors): readonly Route[] {
  const downloads = new Downloads()
  return [
    defineRoute({
      method: 'POST',
      path: '/api/v1/exports',
      name: 'createExport',
      summary: 'Write the rows of a product, or of a SELECT, to a file',
      description:
        'All rows that POST /api/v1/query would show the caller, of any number, written in the background. The export tells when it is done, and has a link then.',
      tags,
      auth: 'tenant',
      body: ExportRequest,
      idempotent: true,
      // The answer says nothing of rows; what he may read is asked when they are written, and again when they are given.
      authorize: () => {},
      responses: { 202: { description: 'The export, queued.', schema: ExportState } },
      errors: [
        'product_not_found',
        'ambiguous_product',
        'product_being_deleted',
        'invalid_value',
        'sql_too_long',
        'export_unsupported',
        'export_destination_unknown',
        'too_many_exports',
        'tier_limit_exceeded',
      ],
      async handler(call) {
        const answer = keptAnswer(call, (found: Export) => ({
          status: 202,
          body: exportJson({ found, link: null }),
          headers: { Location: `/api/v1/exports/${found.id}` },
        }))
        return answer.reply(await requestExport(deps, call, call.body, answer.keep))
      },
    }),
    defineRoute({
      method: 'GET',
      path: '/api/v1/exports',
      name: 'listExports',
      summary: 'The exports that you have asked for, newest first',
      description: 'Without links: each is asked for by itself, when the right to its rows is looked at.',
      tags,
      auth: 'tenant',
      query: Page,
      responses: { 200: { description: 'A page of exports.', schema: pageOf(ExportState) } },
      handler(call) {
        const read = (page: PageRequest) => ownExports(deps, call, page)
        return listReply(call, cursors, 'exports', read, (found) => exportJson({ found, link: null }))
      },
    }),
    defineRoute({
      method: 'GET',
      path: '/api/v1/exports/{export_id}',
      name: 'getExport',
      summary: 'How far an export is, and a link to its file',
      tags,
      auth: 'tenant',
      params: Params,
      responses: { 200: { description: 'The export.', schema: ExportState } },
      errors: ['export_not_found'],
      async handler(call) {
        return { body: exportJson(await tellExport(deps, call, call.params.export_id)) }
      },
    }),
    defineRoute({
      method: 'DELETE',
      path: '/api/v1/exports/{export_id}',
      name: 'deleteExport',
      summary: 'Remove an export and its file',
      description: 'One’s own; administrators remove those of others, too.',
      tags,
      auth: 'tenant',
      params: Params,
      responses: { 204: { description: 'It is gone, and its links lead nowhere.' } },
      errors: ['export_not_found'],
      async handler(call) {
        await removeExport(deps, call, call.params.export_id)
        return { empty: true }
      },
    }),
    defineRoute({
      method: 'GET',
      path: '/api/v1/exports/{export_id}/file',
      name: 'downloadExport',
      summary: 'The file of an export, for whoever has its link',
      description: `The rights of whoever asked for the export are looked at before it is given, and while it is. Of one export ${DOWNLOADS_OF_EXPORT} downloads may be under way at once, of one tenant ${DOWNLOADS_OF_TENANT}; each ends an hour after its link at the latest.`,
      tags,
      auth: 'none',
      params: Params,
      query: Type.Object(
        {
          expires: Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER }),
          signature: Type.String({ minLength: 1, maxLength: 100 }),
        },
        { additionalProperties: false },
      ),
      responses: {
        200: {
          description: 'The file, whole or cut off visibly, in the type that the export was asked for.',
          headers: { 'Accept-Ranges': '`bytes`.', ETag: 'Of this file; another export has another.' },
          also: FILE_TYPES,
        },
        206: {
          description: 'The part that Range asks for.',
          also: FILE_TYPES,
          headers: { 'Content-Range': 'Which part of how many bytes.' },
        },
      },
      errors: ['export_not_found', 'export_gone', 'export_not_permitted', 'too_many_at_once', 'range_not_satisfiable'],
      requestHeaders: {
        Range: 'One part of the file, as `bytes=0-1023`. It is answered with 206.',
        'If-Range': 'The ETag of the file that the part is to be of. Where it is another, the whole file comes.',
      },
      async handler(call) {
        const { expires: expiresAtMs, signature } = call.query
        const { export_id: id } = call.params
        const { found, chunks } = await openExport(deps, id, { expiresAtMs, signature }, call.requestId)
        const { format } = found.request
        return {
          headers: {
            'Content-Disposition': `attachment; filename="${id}.${format}"`,
            'Cache-Control': 'private, no-store',
          },
          etag: `${id}-${found.attempt}`,
          file: {
            contentType: CONTENT_TYPES[format satisfies ExportFormat],
            bytes: found.bytes,
            chunks: (range) => downloads.held(found, chunks(call.signal, range)),
          },
        }
      },
    }),
  ]
}

function exportJson({ found, link }: TellableExport) {
  const { id, state, request, rows, bytes, columns, tables, place, error, createdAt, finishedAt, expiresAt } = found
  const search = link && new URLSearchParams({ expires: String(link.expiresAtMs), signature: link.signature })
  return {
    id,
    state,
    format: request.format,
    rows,
    bytes,
    columns,
    epochs: Object.fromEntries(
      tables.flatMap((table) => (table.type === 'product' ? [[table.name, table.epoch]] : [])),
    ),
    to: request.to ?? null,
    address: place?.address ?? null,
    error: error && { code: error.code, message: error.message, remedy: error.remedy ?? null },
    created_at: createdAt.toISOString(),
    finished_at: finishedAt?.toISOString() ?? null,
    expires_at: expiresAt.toISOString(),
    link: link && {
      path: `/api/v1/exports/${id}/file?${search}`,
      expires_at: new Date(link.expiresAtMs).toISOString(),
    },
  }
}
