import { Type } from 'typebox'
import {
  changeConnection,
  connectionOf,
  discoverConnection,
  registerConnection,
  removeConnection,
  syncConnection,
  testConnection,
} from '../../operations/connections/connections.ts'
import { knownClasses } from '../../operations/connections/known-classes.ts'
import {
  type Following,
  type ScheduledConnection,
  scheduledConnections,
  withSchedules,
} from '../../operations/connections/schedules.ts'
import { requireDeveloper, requireMember } from '../../operations/permissions.ts'
import { backfillConnection, withdrawBackfill } from '../../operations/products/backfill.ts'
import { type Lag, lagOf } from '../../operations/products/connection-lag.ts'
import type { ProductsDeps } from '../../operations/products/deps.ts'
import { rawReader } from '../../operations/rights/raw-rights.ts'
import { stepOf } from '../../quality/carried-rows.ts'
import type { PageRequest } from '../../registry/paging.ts'
import type { Cursors } from '../cursor.ts'
import { keptAnswer } from '../idempotency.ts'
import { defineRoute, type Route } from '../route.ts'
import { ConnectionLag, Connection as ConnectionShape, Discovery, TestReport } from './answers/connections.ts'
import { pageOf } from './answers/parts.ts'
import { Run } from './answers/runs.ts'
import { captureJson, connectionJson } from './json/connections.ts'
import { queuedReply } from './json/runs.ts'
import { listReply } from './lists.ts'
import { ConnectionRequest, ScheduleRequest } from './requests/connections.ts'
import { Page, Reference } from './requests/paths.ts'
import { scheduleJson } from './schedules.ts'

const Params = Type.Object({ connection_id: Reference })
const Backfill = Type.Object(
  {
    tables: Type.Optional(
      Type.Array(Type.String({ minLength: 1, maxLength: 1024, description: 'schema.table' }), {
        minItems: 1,
        maxItems: 1000,
        description: 'Default: all that deployed products read.',
      }),
    ),
  },
  { additionalProperties: false },
)
const tags = ['Connections']
const developer = (call: { readonly principal: Parameters<typeof requireDeveloper>[0] }) =>
  requireDeveloper(call.principal)

export function connectionRoutes(deps: ProductsDeps, cursors: Cursors): readonly Route[] {
  return [
    defineRoute({
      method: 'POST',
      path: '/api/v1/connections',
      name: 'createConnection',
      summary: 'Register an external data source',
      tags,
      auth: 'tenant',
      body: ConnectionRequest,
      idempotent: true,
      authorize: developer,
      responses: { 201: { description: 'The connection; secrets are hidden.', schema: ConnectionShape } },
      errors: [
        'invalid_connection_config',
        'invalid_schedule',
        'unknown_connector_type',
        'connection_exists',
        'tier_limit_exceeded',
      ],
      async handler(call) {
        const { name, connector_type: connectorType, config_encrypted: configText, schedule } = call.body
        const answer = keptAnswer(call, (created: ScheduledConnection) => ({
          status: 201,
          body: scheduledJson(created),
        }))
        const wanted = { name, connectorType, configText, ...(schedule === undefined ? {} : { schedule }) }
        return answer.reply(await registerConnection(deps, call, wanted, answer.keep))
      },
    }),
    defineRoute({
      method: 'GET',
      path: '/api/v1/connections',
      name: 'listConnections',
      summary: 'The tenant’s connections, newest first',
      tags,
      auth: 'tenant',
      query: Page,
      responses: { 200: { description: 'A page of connections.', schema: pageOf(ConnectionShape) } },
      handler(call) {
        requireMember(call.principal)
        const read = (page: PageRequest) => scheduledConnections(deps, call.tenant, page)
        return listReply(call, cursors, 'connections', read, scheduledJson)
      },
    }),
    defineRoute({
      method: 'GET',
      path: '/api/v1/connections/{connection_id}',
      name: 'getConnection',
      summary: 'One connection',
      tags,
      auth: 'tenant',
      params: Params,
      responses: { 200: { description: 'The connection; secrets are hidden.', schema: ConnectionShape } },
      errors: ['connection_not_found'],
      async handler(call) {
        requireMember(call.principal)
        const connection = await connectionOf(deps, call.tenant, call.params.connection_id)
        const [scheduled] = await withSchedules(deps.pool, [connection])
        return { body: scheduledJson(scheduled as ScheduledConnection) }
      },
    }),
    defineRoute({
      method: 'PATCH',
      path: '/api/v1/connections/{connection_id}',
      name: 'updateConnection',
      summary: 'Rename a connection, give it new settings as a whole, secrets included, or a schedule',
      tags,
      auth: 'tenant',
      params: Params,
      body: Type.Object(
        {
          name: Type.Optional(ConnectionRequest.properties.name),
          config_encrypted: Type.Optional(ConnectionRequest.properties.config_encrypted),
          schedule: Type.Optional(Type.Union([ScheduleRequest, Type.Null()], { description: 'Null takes it away.' })),
        },
        { additionalProperties: false },
      ),
      responses: { 200: { description: 'The connection as it is now.', schema: ConnectionShape } },
      errors: [
        'connection_not_found',
        'invalid_connection_config',
        'invalid_schedule',
        'connection_owner_required',
        'connection_exists',
        'connection_in_use',
      ],
      async handler(call) {
        const { name, config_encrypted: configText, schedule } = call.body
        const changed = await changeConnection(deps, call, call.params.connection_id, {
          ...(name === undefined ? {} : { name }),
          ...(configText === undefined ? {} : { configText }),
          ...(schedule === undefined ? {} : { schedule }),
        })
        return { body: scheduledJson(changed) }
      },
    }),
    defineRoute({
      method: 'DELETE',
      path: '/api/v1/connections/{connection_id}',
      name: 'deleteConnection',
      summary: 'Remove a connection that no product uses',
      tags,
      auth: 'tenant',
      params: Params,
      responses: { 204: { description: 'It is gone.' } },
      errors: ['connection_not_found', 'connection_in_use'],
      async handler(call) {
        await removeConnection(deps, call, call.params.connection_id)
        return { empty: true }
      },
    }),
    defineRoute({
      method: 'POST',
      path: '/api/v1/connections/{connection_id}/test',
      name: 'testConnection',
      summary: 'Test a connection step by step',
      description: 'A failing test is an answer with ok: false and, for the step that failed, a remedy.',
      tags,
      auth: 'tenant',
      params: Params,
      responses: { 200: { description: 'What each step gave.', schema: TestReport } },
      errors: ['connection_not_found'],
      async handler(call) {
        const report = await testConnection(deps, call, call.params.connection_id)
        const failed = report.steps.find((step) => !step.ok)
        return {
          body: {
            ok: report.ok,
            latency_ms: report.latencyMs,
            server_version: report.serverVersion ?? null,
            checks: report.steps,
            ...(failed?.remedy === undefined ? {} : { remedy: failed.remedy }),
          },
        }
      },
    }),
    defineRoute({
      method: 'GET',
      path: '/api/v1/connections/{connection_name}/discover',
      name: 'discoverConnection',
      summary: 'The tables that a connection’s login may read',
      tags,
      auth: 'tenant',
      params: Type.Object({ connection_name: Reference }),
      responses: { 200: { description: 'Tables with keys, columns and estimates.', schema: Discovery } },
      errors: ['connection_not_found', 'address_refused'],
      async handler(call) {
        const tables = await discoverConnection(deps, call, call.params.connection_name)
        const { id, name: connection } = await connectionOf(deps, call.tenant, call.params.connection_name)
        const mayRead = rawReader(deps, call.principal, call.tenant)
        const rights = await Promise.all(tables.map(({ schema, name }) => mayRead(id, `${schema}.${name}`)))
        const readable = tables.filter((_, index) => rights[index])
        const classesOf = await knownClasses(deps, call.tenant, connection, readable)
        return {
          body: {
            tables: tables.map((table, index) => ({
              schema: table.schema,
              name: table.name,
              kind: table.kind,
              estimated_rows:
                rights[index] || table.estimatedRows === null ? table.estimatedRows : stepOf(table.estimatedRows),
              primary_key: table.primaryKey,
              columns: table.columns.map(({ name, type, sourceType, nullable }) => ({
                name,
                type,
                source_type: sourceType,
                nullable,
                classes: classesOf(table, name),
              })),
              suggested_cursor: table.suggestedCursor,
            })),
          },
        }
      },
    }),
    defineRoute({
      method: 'GET',
      path: '/api/v1/connections/{connection_id}/lag',
      name: 'getConnectionLag',
      summary: 'How far the tables of a connection are behind their source',
      description:
        'Of the tables that deployed products read, since a sync reads no others; for who may read the table, or such a product.',
      tags,
      auth: 'tenant',
      params: Params,
      responses: { 200: { description: 'Each table with its newest reads.', schema: ConnectionLag } },
      errors: ['connection_not_found'],
      async handler(call) {
        return { body: lagJson(await lagOf(deps, call, call.params.connection_id)) }
      },
    }),
    defineRoute({
      method: 'POST',
      path: '/api/v1/connections/{connection_id}/sync',
      name: 'syncConnection',
      summary: 'Trigger ingestion',
      tags,
      auth: 'tenant',
      params: Params,
      idempotent: true,
      authorize: developer,
      responses: { 202: { description: 'The run, queued.', schema: Run } },
      errors: ['connection_not_found'],
      async handler(call) {
        const answer = keptAnswer(call, queuedReply)
        return answer.reply(await syncConnection(deps, call, call.params.connection_id, answer.keep))
      },
    }),
    defineRoute({
      method: 'POST',
      path: '/api/v1/connections/{connection_id}/backfill',
      name: 'backfillConnection',
      summary: 'Read tables whole again',
      description:
        'Queues a run that reads them from their beginning, whatever their mode: for rows that changed without their cursor column, or that a former login did not see. Readers are given what is there until the new rows are committed, and what is the same in both stays as it is.',
      tags,
      auth: 'tenant',
      params: Params,
      body: Backfill,
      idempotent: true,
      authorize: developer,
      responses: { 202: { description: 'The run, queued.', schema: Run } },
      errors: ['connection_not_found', 'backfill_unsupported', 'table_not_ingested'],
      async handler(call) {
        const answer = keptAnswer(call, queuedReply)
        const tables = call.body.tables ?? null
        return answer.reply(await backfillConnection(deps, call, call.params.connection_id, tables, answer.keep))
      },
    }),
    defineRoute({
      method: 'DELETE',
      path: '/api/v1/connections/{connection_id}/backfill',
      name: 'withdrawBackfill',
      summary: 'Read no table whole that was asked for',
      description:
        'Where tables are too large to be read whole, say: the next run goes on from where they are. Of a table that is read by its log (mode: cdc), and that a run has begun, it is too late.',
      tags,
      auth: 'tenant',
      params: Params,
      authorize: developer,
      responses: { 204: { description: 'None is asked for any more.' } },
      errors: ['connection_not_found'],
      async handler(call) {
        await withdrawBackfill(deps, call, call.params.connection_id)
        return { empty: true }
      },
    }),
  ]
}

const scheduledJson = ({ connection, scheduled, capture, following }: ScheduledConnection) => ({
  ...connectionJson(connection),
  log: capture && captureJson(capture),
  following: following && followingJson(following, scheduled.now),
  ...scheduleJson(scheduled),
})

function followingJson({ follow, holds }: Following, now: Date) {
  const behind = follow?.behindSince ?? null
  return {
    since: follow?.followedAt?.toISOString() ?? null,
    behind_since: behind?.toISOString() ?? null,
    lag_s: behind === null ? 0 : Math.max(0, (now.getTime() - behind.getTime()) / 1000),
    error_code: follow?.errorCode ?? null,
    // Which they are is told with the run, to who may know of them.
    held: holds.length,
  }
}

function lagJson({ connection, scheduled, now, tables, capture, following }: Lag) {
  const { next_run_at, last_run, schedule_state } = scheduleJson(scheduled)
  return {
    connection_id: connection.id,
    connection: connection.name,
    next_run_at,
    last_run,
    breaker: schedule_state?.breaker ?? null,
    log: capture && captureJson(capture),
    following: following && followingJson(following, now),
    tables: tables.map(({ name, readAt, lastRead, backfillAskedAt }) => ({
      table: name,
      read_at: readAt?.toISOString() ?? null,
      age_s: readAt && Math.max(0, Math.round((now.getTime() - readAt.getTime()) / 1000)),
      last_read: lastRead && {
        run_id: lastRead.runId,
        state: lastRead.state,
        error_code: lastRead.errorCode,
        at: lastRead.at.toISOString(),
      },
      backfill_asked_at: backfillAskedAt?.toISOString() ?? null,
    })),
  }
}
