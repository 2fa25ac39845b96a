/** Who did what: recorded by operations, and read again. */
import type { TenantCall } from '../flow.ts'
import { actorOf } from '../registry/actor.ts'
import { type AuditRecord, appendAudit, listAudit } from '../registry/audit.ts'
import type { Page, PageRequest } from '../registry/paging.ts'
import type { Queryable } from '../registry/sql.ts'

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
  { pool }: { readonly pool: Queryable },
  tenant: string,
  page: PageRequest,
): Promise<Page<AuditRecord>> {
  return listAudit(pool, tenant, page)
}
