/** Connections and their logs as JSON. Ids are opaque. */
import { HIDDEN_SECRET } from '../../../operations/connections/connection-settings.ts'
import type { Capture } from '../../../registry/captures.ts'
import type { Connection } from '../../../registry/connections.ts'
import { iso } from './times.ts'

/** How far the log of a source was read, and what the source keeps of it for us. */
export function captureJson(capture: Capture) {
  const { name, generation, sourceTime, positionedAt, lostReason, lostAt, health, spool } = capture
  return {
    capture: name,
    generation,
    source_time: iso(sourceTime),
    read_at: iso(positionedAt),
    state: health?.state ?? null,
    message: health?.message ?? null,
    remedy: health?.remedy ?? null,
    retained_bytes: health?.retainedBytes ?? null,
    limit_bytes: health?.limitBytes ?? null,
    checked_at: iso(health?.checkedAt ?? null),
    begun_anew_at: iso(lostAt),
    begun_anew_reason: lostReason,
    spooled: {
      bytes: spool.bytes,
      pieces: spool.pieces,
      since: iso(spool.since),
      full_since: iso(spool.fullAt),
    },
  }
}

export function connectionJson(connection: Connection) {
  const secrets = Object.fromEntries(connection.secretFields.map((field) => [field, HIDDEN_SECRET]))
  return {
    id: connection.id,
    tenant_id: connection.tenant,
    name: connection.name,
    connector_type: connection.connectorType,
    config: { ...connection.config, ...secrets },
    status: connection.status,
    last_tested_at: iso(connection.lastTestedAt),
    source_since: iso(connection.sourceSince),
    created_by: connection.createdBy.subject,
    created_at: iso(connection.createdAt),
    updated_at: iso(connection.updatedAt),
  }
}
