/** The audit log: appended to, read, and refused any other change by the database itself. */
import type { Actor } from './actor.ts'
import { type Page, type PageRequest, pageParameters, toPage } from './paging.ts'
import { json, many, one, type Queryable } from './sql.ts'

export interface AuditRecord {
  /** Of the order of all records of the registry: not for tenants, who would see by it how much others do. */
  readonly position: string
  readonly id: string
  /** Null for what concerns no tenant. */
  readonly tenant: string | null
  readonly at: Date
  readonly actor: Actor
  /** `product.read`, `grant.create`. */
  readonly action: string
  readonly objectType: string
  readonly objectId: string | null
  readonly outcome: 'allowed' | 'denied' | 'failed'
  readonly requestId: string | null
  /** Names and numbers; never a row's values or a secret. */
  readonly details: Readonly<Record<string, unknown>>
}

export type NewAuditRecord = Omit<AuditRecord, 'id' | 'position' | 'at' | 'objectId' | 'requestId' | 'details'> &
  Partial<Pick<AuditRecord, 'objectId' | 'requestId' | 'details'>>

const COLUMNS = `id::text as position, public_id::text as id, tenant, at, actor, action, object_type as "objectType", object_id as "objectId", outcome,
  request_id as "requestId", details`

/**
 * Appends a record. With a pool it is kept at once (before restricted data leaves); with a transaction's client it
 * shares that transaction's fate.
 */
export function appendAudit(db: Queryable, record: NewAuditRecord): Promise<AuditRecord> {
  return one<AuditRecord>(
    db,
    'writing the audit log',
    `insert into audit_log (tenant, actor, action, object_type, object_id, outcome, request_id, details)
     values ($1, $2, $3, $4, $5, $6, $7, coalesce($8::jsonb, '{}')) returning ${COLUMNS}`,
    [
      record.tenant,
      json(record.actor),
      record.action,
      record.objectType,
      record.objectId ?? null,
      record.outcome,
      record.requestId ?? null,
      json(record.details),
    ],
  )
}

export interface AuditFilter {
  readonly action?: string
  readonly objectId?: string
  readonly subject?: string
}

/** `tenant` null lists what concerns no tenant. */
export async function listAudit(
  db: Queryable,
  tenant: string | null,
  page: PageRequest,
  filter: AuditFilter = {},
): Promise<Page<AuditRecord>> {
  const parameters = pageParameters(page)
  const rows = await many<AuditRecord>(
    db,
    'reading the audit log',
    `select ${COLUMNS} from audit_log
     where tenant is not distinct from $4 and ($2::timestamptz is null or audit_log.id < $3::bigint)
       and ($5::text is null or action = $5) and ($6::text is null or object_id = $6)
       and ($7::text is null or actor ->> 'subject' = $7)
     order by audit_log.id desc limit $1`,
    [...parameters, tenant, filter.action ?? null, filter.objectId ?? null, filter.subject ?? null],
  )
  return toPage(rows, parameters, ({ at, position }) => ({ createdAt: at, id: position }))
}
