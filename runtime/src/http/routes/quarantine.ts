import { Type } from 'typebox'
import { quarantineOf } from '../../operations/connections/quarantine.ts'
import { requireDeveloper } from '../../operations/permissions.ts'
import type { ProductsDeps } from '../../operations/products/deps.ts'
import { discardQuarantine, replayQuarantine } from '../../operations/products/quarantine-replay.ts'
import type { PageRequest } from '../../registry/paging.ts'
import { MAX_QUARANTINED, type QuarantinedRow } from '../../registry/quarantine.ts'
import type { Cursors } from '../cursor.ts'
import { keptAnswer } from '../idempotency.ts'
import { defineRoute, type Route } from '../route.ts'
import { pageOf } from './answers/parts.ts'
import { QuarantinedRow as QuarantinedRowShape, Run } from './answers/runs.ts'
import { queuedReply } from './json/runs.ts'
import { listReply } from './lists.ts'
import { Page, Reference } from './requests/paths.ts'

const Params = Type.Object({ connection_id: Reference })
const TableName = Type.String({ minLength: 1, maxLength: 1024, description: 'schema.table' })
const Ids = Type.Array(Type.String({ pattern: '^qrn_[0-9a-f]{24}$', description: 'As the list gives them.' }), {
  minItems: 1,
  maxItems: MAX_QUARANTINED.rows,
  uniqueItems: true,
  description: 'Default: all.',
})
const Replay = Type.Object(
  {
    table: Type.Optional(TableName),
    ids: Type.Optional(Ids),
    limit: Type.Optional(
      Type.Integer({ minimum: 1, maximum: MAX_QUARANTINED.rows, description: 'Of each table the oldest so many.' }),
    ),
  },
  { additionalProperties: false },
)
const Discard = Type.Object({ table: TableName, ids: Type.Optional(Ids) }, { additionalProperties: false })
const Discarded = Type.Object({ discarded: Type.Integer({ minimum: 0, description: 'Rows and values.' }) })
const tags = ['Connections']
const developer = (call: { readonly principal: Parameters<typeof requireDeveloper>[0] }) =>
  requireDeveloper(call.principal)

export function quarantineRoutes(deps: ProductsDeps, cursors: Cursors): readonly Route[] {
  return [
    defineRoute({
      method: 'GET',
      path: '/api/v1/connections/{connection_id}/quarantine',
      name: 'listQuarantine',
      summary: 'Rows and values that could not be carried, newest first',
      description:
        'Of the tables that the caller may read raw. Of each the newest 1,000 at most, and 1 MiB; until the table is read whole again, or upkeep.quarantine_days have passed. A row that was corrected in the source comes with the next sync (in a view that is read incrementally, if its cursor column has changed, too), and one whose column no product uses any more with the next read of the whole table, which the next sync then is. `mode: full` in inputs.yaml reads it whole each time. Where the column was mended and the row is the same, replay it.',
      tags,
      auth: 'tenant',
      params: Params,
      query: Type.Object(
        { ...Page.properties, table: Type.Optional(Type.String({ maxLength: 1024, description: 'schema.table' })) },
        { additionalProperties: false },
      ),
      responses: { 200: { description: 'A page of rows.', schema: pageOf(QuarantinedRowShape) } },
      errors: ['connection_not_found', 'raw_table_forbidden'],
      handler(call) {
        const table = call.query.table ?? null
        const read = (page: PageRequest) => quarantineOf(deps, call, call.params.connection_id, table, page)
        return listReply(call, cursors, 'quarantine', read, quarantinedJson)
      },
    }),
    defineRoute({
      method: 'POST',
      path: '/api/v1/connections/{connection_id}/quarantine/replay',
      name: 'replayQuarantine',
      summary: 'Try rows again that were put aside',
      description:
        'Queues a run that tries the rows which are replayable by the columns that their table has now. Those that can be carried are merged into the raw table and leave the quarantine in one commit, and products are made anew as after a sync. None takes the place of a newer row: where the table has one of its key with a greater cursor, or the source has no such key any more, the row is superseded, and leaves the quarantine without being applied. What still fails stays, with its reason of now. Tables that are read incrementally, by a key and a cursor.',
      tags,
      auth: 'tenant',
      params: Params,
      body: Replay,
      idempotent: true,
      authorize: developer,
      responses: { 202: { description: 'The run, queued.', schema: Run } },
      errors: ['connection_not_found', 'replay_unsupported', 'table_not_ingested', 'quarantined_row_not_found'],
      async handler(call) {
        const answer = keptAnswer(call, queuedReply)
        const { table = null, ids = null, limit = null } = call.body
        const wanted = { table, ids, limit }
        return answer.reply(await replayQuarantine(deps, call, call.params.connection_id, wanted, answer.keep))
      },
    }),
    defineRoute({
      method: 'POST',
      path: '/api/v1/connections/{connection_id}/quarantine/discard',
      name: 'discardQuarantine',
      summary: 'Give up rows that were put aside',
      description: 'Of a table that the caller may read raw. Repeatable. The raw table goes on without these rows.',
      tags,
      auth: 'tenant',
      params: Params,
      body: Discard,
      authorize: developer,
      responses: { 200: { description: 'How many there were.', schema: Discarded } },
      errors: ['connection_not_found', 'raw_table_forbidden', 'quarantined_row_not_found'],
      async handler(call) {
        const { table, ids = null } = call.body
        return {
          body: { discarded: await discardQuarantine(deps, call, call.params.connection_id, { table, ids }) },
        }
      },
    }),
  ]
}

function quarantinedJson({ id, table, column, reason, key, raw, carried, lost, runId, createdAt }: QuarantinedRow) {
  return {
    ...{ id, table, column, reason, key, raw, carried },
    replayable: lost === null,
    not_replayable_reason: lost,
    run_id: runId,
    created_at: createdAt.toISOString(),
  }
}
