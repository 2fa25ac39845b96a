import { Type } from 'typebox'
import type { AuthenticatedCall, TenantCall } from '../../flow.ts'
import { audited, auditLog } from '../../operations/audit.ts'
import type { ChangesDeps } from '../../operations/changes/deps.ts'
import { notFound } from '../../operations/not-found.ts'
import { requireDeveloper, requireMember } from '../../operations/permissions.ts'
import { productReader } from '../../operations/products/readable-product.ts'
import { seenEvent } from '../../operations/products/seen-events.ts'
import { failedChecks } from '../../operations/products/violating-rows.ts'
import { rawReader } from '../../operations/rights/raw-rights.ts'
import { outcomeSight } from '../../operations/runs/outcome-sight.ts'
import { seenLines, seenRun, seenTables } from '../../operations/runs/run-view.ts'
import {
  endRun,
  linesOf,
  type RunWithTables,
  retryRun,
  runOf,
  runPage,
  withTables,
} from '../../operations/runs/runs.ts'
import { isTold } from '../../operations/runs/told-events.ts'
import type { TenantsDeps } from '../../operations/tenants/deps.ts'
import { requireTenant } from '../../operations/tenants/tenants.ts'
import type { PageRequest } from '../../registry/paging.ts'
import { RUN_STATES } from '../../registry/runs.ts'
import type { Cursors } from '../cursor.ts'
import { eventStream, type ServerEvent } from '../event-stream.ts'
import { keptAnswer } from '../idempotency.ts'
import { refuse } from '../problem.ts'
import { defineRoute, type Route } from '../route.ts'
import { pageOf } from './answers/parts.ts'
import { AuditEntry, RunDetail, Run as RunShape } from './answers/runs.ts'
import { auditJson, queuedReply, runJson } from './json/runs.ts'
import { listReply } from './lists.ts'
import { Page, Reference } from './requests/paths.ts'

const Params = Type.Object({ run_id: Reference })
const tags = ['Ingestion']

/** The feed of events tells how runs go on. */
type RunRoutesDeps = TenantsDeps & Pick<ChangesDeps, 'events'>

export function runRoutes(deps: RunRoutesDeps, cursors: Cursors): readonly Route[] {
  return [
    defineRoute({
      method: 'GET',
      path: '/api/v1/ingestion',
      name: 'listIngestion',
      summary: 'Ingestion and materialization runs of a tenant, newest first',
      tags,
      auth: 'any',
      query: Type.Object(
        {
          ...Page.properties,
          tenant_id: Type.Optional(Type.String({ maxLength: 64 })),
          state: Type.Optional(Type.Union(RUN_STATES.map((state) => Type.Literal(state)))),
        },
        { additionalProperties: false },
      ),
      responses: { 200: { description: 'A page of runs.', schema: pageOf(RunShape) } },
      errors: ['tenant_required', 'tenant_contradictory', 'tenant_not_found'],
      async handler(call) {
        requireMember(call.principal)
        const tenant = await tenantOf(deps, call)
        const filter = call.query.state === undefined ? {} : { state: call.query.state }
        const sight = sightOf(deps, { ...call, tenant })
        const read = async (page: PageRequest) => {
          const { items, next } = await runPage(deps, tenant, page, filter)
          return { items: await Promise.all(items.map((one) => seenJson(one, sight))), next }
        }
        return listReply(call, cursors, 'ingestion', read, (json) => json)
      },
    }),
    defineRoute({
      method: 'GET',
      path: '/api/v1/ingestion/{run_id}',
      name: 'getIngestion',
      summary: 'A run with its tables and log lines',
      tags,
      auth: 'tenant',
      params: Params,
      responses: { 200: { description: 'The run.', schema: RunDetail } },
      errors: ['ingestion_not_found'],
      async handler(call) {
        requireMember(call.principal)
        const found = await withTables(deps, await runOf(deps, call, call.params.run_id))
        const { run, tables } = found
        const sight = sightOf(deps, call)
        const log = await seenLines(run, tables, await linesOf(deps, run), sight)
        const lines = log.map(({ at, level, message }) => ({ at: at.toISOString(), level, message }))
        const failed = await failedChecks(deps, call, run)
        const seen = await seenJson(found, sight)
        return { body: { ...seen, failed_checks: failed, log: lines } }
      },
    }),
    defineRoute({
      method: 'POST',
      path: '/api/v1/ingestion/{run_id}/cancel',
      name: 'cancelIngestion',
      summary: 'End a run; what it has committed stays',
      tags,
      auth: 'tenant',
      params: Params,
      responses: { 202: { description: 'The run; one that runs ends within moments.', schema: RunShape } },
      errors: ['ingestion_not_found'],
      async handler(call) {
        const ended = await withTables(deps, await endRun(deps, call, call.params.run_id))
        return { status: 202, body: await seenJson(ended, sightOf(deps, call)) }
      },
    }),
    defineRoute({
      method: 'POST',
      path: '/api/v1/ingestion/{run_id}/retry',
      name: 'retryIngestion',
      summary: 'Queue a run of the same kind again',
      tags,
      auth: 'tenant',
      params: Params,
      idempotent: true,
      authorize: (call) => requireDeveloper(call.principal),
      responses: { 202: { description: 'The new run.', schema: RunShape } },
      errors: [
        'ingestion_not_found',
        'run_in_progress',
        'product_paused',
        'product_being_deleted',
        'not_deployed',
        'preview_not_found',
      ],
      async handler(call) {
        const answer = keptAnswer(call, queuedReply)
        return answer.reply(await retryRun(deps, call, call.params.run_id, answer.keep))
      },
    }),
    defineRoute({
      method: 'GET',
      path: '/api/v1/audit',
      name: 'listAudit',
      summary: 'The audit log, newest first',
      tags: ['Audit'],
      auth: 'tenant',
      query: Page,
      responses: { 200: { description: 'A page of records.', schema: pageOf(AuditEntry) } },
      handler(call) {
        requireDeveloper(call.principal)
        return listReply(call, cursors, 'audit', (page) => auditLog(deps, call.tenant, page), auditJson)
      },
    }),
    defineRoute({
      method: 'GET',
      path: '/api/v1/events',
      name: 'followEvents',
      summary: 'The tenant’s events as CloudEvents 1.0, resumable by Last-Event-ID',
      description:
        'When its token ends, at `exp`, the stream does, with an event `problem` that has `code` (`right_ended`), `detail` and `remedy` and is no CloudEvent.',
      tags: ['Events'],
      auth: 'tenant',
      isLive: true,
      errors: ['cursor_invalid', 'too_many_at_once'],
      responses: { 200: { description: 'A stream of events.', also: { 'text/event-stream': 'Server-sent events.' } } },
      handler(call) {
        requireMember(call.principal)
        const after = resumedAfter(call)
        return { stream: eventStream(eventsOf(deps, call, after), call) }
      },
    }),
  ]
}

/** A token's own tenant; administrators name one by tenant_id or X-Tenant-Id. Another tenant's runs do not exist. */
async function tenantOf(deps: RunRoutesDeps, call: IngestionCall): Promise<string> {
  const asked = call.query.tenant_id
  if (call.principal.isAdmin) {
    if (asked !== undefined) return namedByAdmin(deps, call, asked)
    if (call.tenant === null) throw refuse('tenant_required', 'name the tenant by tenant_id')
    return call.tenant
  }
  const own = call.tenant ?? call.principal.tenant
  if (own === null) throw refuse('tenant_required', 'the token names no tenant')
  if (asked !== undefined && asked !== own) throw notFound('tenant')
  return own
}

/** On record before anything is read, as the header is. */
async function namedByAdmin(deps: RunRoutesDeps, call: IngestionCall, asked: string): Promise<string> {
  const { namedTenant } = call
  if (namedTenant !== null && namedTenant !== asked) {
    throw refuse('tenant_contradictory', 'X-Tenant-Id and tenant_id name different tenants')
  }
  await requireTenant(deps, asked)
  if (namedTenant === null) {
    await audited(deps.pool, call, asked, 'admin.use', { type: 'route', id: 'GET /api/v1/ingestion' })
  }
  return asked
}

type IngestionCall = AuthenticatedCall<unknown, { readonly tenant_id?: string }>

/** Of which raw tables, products and columns the caller is told. */
function sightOf(deps: RunRoutesDeps, call: TenantCall) {
  return {
    mayRead: rawReader(deps, call.principal, call.tenant),
    mayHear: productReader(deps, call),
    sight: outcomeSight(deps, call),
  }
}

async function seenJson({ run, tables }: RunWithTables, { mayRead, mayHear, sight }: ReturnType<typeof sightOf>) {
  return runJson(await seenRun(run, mayHear, sight), await seenTables(run, tables, mayRead))
}

/** Throws 400 `cursor_invalid`: who went on from something else would be sent everything again, as if it were new. */
function resumedAfter({ lastEventId }: TenantCall): number {
  const id = lastEventId || '0'
  if (/^\d+$/.test(id) && Number.isSafeInteger(Number(id))) return Number(id)
  throw refuse('cursor_invalid', 'Last-Event-ID is not the id of one of these events')
}

async function* eventsOf(deps: RunRoutesDeps, call: TenantCall, after: number): AsyncGenerator<ServerEvent> {
  for await (const event of deps.events.follow(call.tenant, after, call.signal)) {
    const { subject = '', type } = event
    if (!(await isTold(deps, call, subject, type))) continue
    const seen = await seenEvent(deps, call, event)
    yield { id: event.sequence, event: event.type, data: JSON.stringify(seen) }
  }
}
