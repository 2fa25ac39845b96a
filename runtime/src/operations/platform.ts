/** What operations work with: the parts of the runtime, put together once by the container. */

import type { Wall } from '@sluice/engine'
import { SluiceError } from '@sluice/sdk'
import type { Principal, TenantCall } from '../flow.ts'
import { actorOf } from '../registry/actor.ts'
import { type AuditRecord, appendAudit, listAudit } from '../registry/audit.ts'
import type { Page, PageRequest } from '../registry/paging.ts'
import type { Queryable, Transaction } from '../registry/sql.ts'
import type { AgentsDeps } from './agents/deps.ts'
import type { CatalogDeps } from './catalog/deps.ts'
import type { ErasuresDeps } from './erasures/deps.ts'
import type { ExportsDeps } from './exports/deps.ts'
import type { LineageDeps } from './lineage/deps.ts'
import type { PreviewsDeps } from './previews/deps.ts'
import type { ServedDeps } from './served/deps.ts'
import type { UpkeepDeps } from './upkeep/deps.ts'
import type { WebhooksDeps } from './webhooks/deps.ts'

export interface Platform
  extends AgentsDeps,
    CatalogDeps,
    ErasuresDeps,
    ExportsDeps,
    LineageDeps,
    PreviewsDeps,
    ServedDeps,
    UpkeepDeps,
    WebhooksDeps {
  /** Of the process that read a source last; none before the first. */
  readonly sourceWalls: () => readonly Wall[]
}

/**
 * Keeps what an operation answers in the transaction of its effect, so that a repeated request finds the answer
 * wherever it finds the effect.
 */
export type Keep<T> = (tx: Transaction, result: T) => Promise<void>

export function requireDeveloper(principal: Principal): void {
  if (principal.isAdmin || principal.isDeveloper) return
  throw new SluiceError('PERMISSION', 'only members of svc-developers may change things', {
    code: 'developer_required',
    remedy: 'Ask for a token of the group svc-developers.',
  })
}

export function requireAdmin(principal: Principal): void {
  if (principal.isAdmin) return
  throw new SluiceError('PERMISSION', 'only administrators may do this', {
    code: 'admin_required',
    remedy: 'Use a token with the admin role.',
  })
}

/** Reading what is registered takes membership in one of the tenant's groups. */
export function requireMember(principal: Principal): void {
  if (principal.isAdmin || principal.isDeveloper || principal.isViewer) return
  throw new SluiceError('PERMISSION', 'the token names no group of this tenant', {
    code: 'member_required',
    remedy: 'Ask for a token of the group svc-viewers or svc-developers.',
  })
}

export function requireText(value: string | undefined, what: string, pattern: RegExp, remedy: string): string {
  if (value !== undefined && pattern.test(value)) return value
  throw new SluiceError('INVALID_DATA', `the ${what} is not valid`, { code: 'invalid_value', remedy })
}

/** A record of who did what; with a transaction's client it shares its fate. */
export async function audited(
  db: Queryable,
  call: Pick<TenantCall, 'principal' | 'requestId'>,
  tenant: string | null,
  action: string,
  object: { readonly type: string; readonly id: string },
  details: Readonly<Record<string, unknown>> = {},
): Promise<void> {
  await appendAudit(db, {
    tenant,
    actor: actorOf(call.principal),
    action,
    objectType: object.type,
    objectId: object.id,
    outcome: 'allowed',
    requestId: call.requestId,
    details,
  })
}

/** Newest first. */
export function auditLog(
  { pool }: Pick<Platform, 'pool'>,
  tenant: string,
  page: PageRequest,
): Promise<Page<AuditRecord>> {
  return listAudit(pool, tenant, page)
}

/** Of what has no name, or is found in a list that is not at hand, where to look for it. */
const WHERE_TO_LOOK: Readonly<Record<string, string>> = {
  ingestion: 'Check the id; the list of runs (GET /api/v1/ingestion, sluice logs) has the newest.',
  grant: 'Check the id; the list of grants has those that there are.',
  version: 'Take a version that was in service: the list of deployments names them.',
  snapshot: 'Take an id from the list of snapshots (sluice product snapshots).',
  manifests: 'Upload manifests, or check the version.',
  erasure: 'Check the id; the list of erasures of the connection has it.',
  service_password: 'Check the id; it may be deleted. The list of service passwords has those that there are.',
}

export function notFound(what: string): SluiceError {
  const called = what === 'manifests' ? 'there are no such manifests' : `there is no such ${what.replaceAll('_', ' ')}`
  return new SluiceError('INVALID_DATA', what === 'ingestion' ? `${called} run` : called, {
    code: `${what}_not_found`,
    remedy: WHERE_TO_LOOK[what] ?? 'Check the id or the name.',
  })
}
