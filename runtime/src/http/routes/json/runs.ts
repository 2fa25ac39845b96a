/** Runs and the audit log as JSON. Ids are opaque. */
import { replayOf } from '../../../ingestion/replay/replay-input.ts'
import type { SeenTable } from '../../../operations/runs/run-view.ts'
import type { AuditRecord } from '../../../registry/audit.ts'
import type { Run } from '../../../registry/runs.ts'
import type { Reply } from '../../route.ts'
import { iso } from './times.ts'

/** `tables` are given for a single run; a list has the run's own numbers only. */
export function runJson(run: Run, tables: readonly SeenTable[]) {
  const result = run.result as { readonly products?: readonly unknown[]; readonly progress?: unknown } | null
  return {
    id: run.id,
    tenant_id: run.tenant,
    kind: run.kind,
    connection_id: run.connectionId,
    product_id: run.productId,
    state: run.state,
    trigger: run.trigger,
    replay: replayOf(run) !== null,
    attempt: run.attempt,
    tables: tables.map((table) => ({
      name: table.name,
      mode: table.mode,
      rows_read: table.rowsRead,
      mode_reason: table.modeReason,
      deletes: table.deletes,
      deletes_reason: table.deletesReason,
      rows_written: table.rowsWritten,
      rows_rejected: table.rowsRejected,
      rows_removed: table.rowsRemoved,
      rows_superseded: table.rowsSuperseded ?? null,
      bytes: table.bytes,
      state: table.state,
      cursor: table.cursor,
      error: table.error,
    })),
    products: result?.products ?? [],
    progress: run.state === 'running' ? (result?.progress ?? null) : null,
    created_at: iso(run.createdAt),
    started_at: iso(run.startedAt),
    finished_at: iso(run.finishedAt),
    error: run.error,
    waiting: run.spentUntil === null ? null : { ...CPU_TIME_SPENT, until: iso(run.spentUntil) },
  }
}

const CPU_TIME_SPENT = {
  code: 'cpu_time_spent',
  message: 'the tenant has used the CPU time that its tier has',
  remedy:
    'It begins by itself. Transforms and queries that take less leave more to others; the operator sets the limit.',
} as const

/** Of what was queued: 202, and where to ask for it. */
export function queuedReply(run: Run): Reply {
  return { status: 202, body: runJson(run, []), headers: { Location: `/api/v1/ingestion/${run.id}` } }
}

export function auditJson(record: AuditRecord) {
  return {
    id: record.id,
    tenant_id: record.tenant,
    at: iso(record.at),
    actor: record.actor,
    action: record.action,
    object: { type: record.objectType, id: record.objectId },
    outcome: record.outcome,
    request_id: record.requestId,
    details: record.details,
  }
}
