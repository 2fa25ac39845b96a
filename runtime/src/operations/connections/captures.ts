/** Logs of sources that are to be kept no more, and how those are kept that are read. */
import { hkdfSync } from 'node:crypto'
import { type ChangeSource, type Connector, isSluiceError, SluiceError } from '@sluice/sdk'
import { inTransaction } from '../../database/pools.ts'
import { appendEvent } from '../../events/outbox.ts'
import {
  askForRelease,
  beginGeneration,
  type Capture,
  type CaptureRelease,
  capture,
  capturesOfTenant,
  forgetCapture,
  noteRelease,
  releasesOfTenant,
  saveHealth,
} from '../../registry/captures.ts'
import { readSecrets } from '../../registry/connection-secrets.ts'
import { type Connection, findConnection } from '../../registry/connections.ts'
import { closeIncidents, openIncident } from '../../registry/incidents.ts'
import type { MasterKeys } from '../../registry/master-keys.ts'
import { KEY_BYTES, seal, unseal } from '../../registry/sealing.ts'
import type { Queryable, Transaction } from '../../registry/sql.ts'
import { tenantKey } from '../../registry/tenant-keys.ts'
import type { ConnectionsDeps } from './deps.ts'

/** The cause of incidents of connections whose log is about to be lost. */
export const LOG_AT_RISK = 'log_at_risk'

type Open = (connection: Pick<Connection, 'tenant' | 'connectorType'>, settings: Settings) => Promise<Connector>
type Settings = Readonly<Record<string, unknown>>

/** In the transaction that takes the connection away, or leads it elsewhere: with what is needed to get there once more. */
export async function leaveCapture(
  tx: Transaction,
  { masters }: Pick<ConnectionsDeps, 'masters'>,
  connection: Connection,
): Promise<void> {
  const known = await capture(tx, connection.id)
  if (known === null) return
  const { tenant, connectorType, name: connectionName } = connection
  const settings = { ...connection.config, ...(await readSecrets(tx, masters, connection)) }
  const sealed = seal(await releaseKey(tx, masters, tenant), Buffer.from(JSON.stringify(settings)), labelOf(known.name))
  await askForRelease(tx, { name: known.name, tenant, connectionName, connectorType, sealed })
  await forgetCapture(tx, connection.id)
}

const labelOf = (name: string) => ['capture', name]

/** Of the key that no rotation replaces, and that goes with the tenant. */
async function releaseKey(db: Queryable, masters: MasterKeys, tenant: string): Promise<Buffer> {
  const { key } = await tenantKey(db, masters, tenant, 'mask', 1)
  return Buffer.from(hkdfSync('sha256', key, tenant, 'captures', KEY_BYTES))
}

/** Whether the source has let go; if not, it is tried again, and said. */
export async function release(
  { pool, masters, logger }: Pick<ConnectionsDeps, 'pool' | 'masters' | 'logger'>,
  asked: CaptureRelease,
  open: Open,
  signal: AbortSignal,
): Promise<boolean> {
  try {
    const key = await releaseKey(pool, masters, asked.tenant)
    const settings = JSON.parse(unseal(key, asked.sealed, labelOf(asked.name)).toString('utf8')) as Settings
    const connector = await open(asked, settings)
    try {
      await connector.changes?.release({ capture: asked.name, signal })
    } finally {
      await connector.close()
    }
    await noteRelease(pool, asked.name, null)
    return true
  } catch (error) {
    signal.throwIfAborted()
    const code = isSluiceError(error) ? error.code : 'internal_error'
    await noteRelease(pool, asked.name, code)
    const about = { tenant: asked.tenant, connection: asked.connectionName, capture: asked.name, error: code }
    logger.warn('a source still keeps its log for a connection that has gone; it is tried again', about)
    return false
  }
}

const RELEASE_MS = 10_000

/**
 * Before the tenant's keys go, without which nobody gets to its sources any more: has each let go of its log. Returns what
 * sources that do not answer still keep, as they call it: whoever runs them has to drop it.
 */
export async function releaseOfTenant(
  platform: Pick<ConnectionsDeps, 'pool' | 'masters' | 'logger'>,
  tenant: string,
  open: Open,
  signal: AbortSignal,
): Promise<readonly string[]> {
  const { pool } = platform
  for (const { connectionId } of await capturesOfTenant(pool, tenant)) {
    await inTransaction(pool, async (tx) => {
      const connection = await findConnection(tx, tenant, connectionId)
      if (connection !== null) await leaveCapture(tx, platform, connection)
    })
  }
  const left: string[] = []
  for (const asked of await releasesOfTenant(pool, tenant)) {
    const limit = AbortSignal.any([signal, AbortSignal.timeout(RELEASE_MS)])
    const isGone = await release(platform, asked, open, limit).catch(() => {
      signal.throwIfAborted()
      return false
    })
    if (!isGone) left.push(`${asked.connectionName}: ${asked.name}`)
  }
  return left
}

export interface Watching {
  open(connection: Connection): Promise<Connector>
  /** Whether a product in service reads by its log. */
  isRead(connection: Connection): Promise<boolean>
  /** What a source without a limit of its own may keep for us. */
  readonly maxBytes: number
}

/**
 * Looks at the source, and says what it keeps for us. Gives the log up where no product in service reads by it any more, and
 * where a source without a limit keeps more than it may.
 */
export async function checkCapture(
  platform: Pick<ConnectionsDeps, 'pool' | 'logger'>,
  known: Capture,
  watching: Watching,
  signal: AbortSignal,
): Promise<void> {
  const { pool } = platform
  const connection = await findConnection(pool, known.tenant, known.connectionId)
  if (connection === null) return
  try {
    const connector = await watching.open(connection)
    try {
      if (connector.changes === undefined) throw noLog()
      await checkAt(platform, connection, known, connector.changes, watching, signal)
    } finally {
      await connector.close()
    }
  } catch (error) {
    signal.throwIfAborted()
    const message = isSluiceError(error) ? error.message : 'the source could not be asked'
    const remedy = isSluiceError(error) ? (error.remedy ?? null) : null
    const unknown = { retainedBytes: null, limitBytes: null, message, remedy }
    await saveHealth(pool, known.connectionId, { state: 'unreachable', ...unknown })
  }
}

function noLog(): SluiceError {
  return new SluiceError('CONFIG', 'the connector reads no log any more', {
    code: 'changes_not_supported',
    remedy: 'Install the connector that read it, or use mode incremental or full in inputs.yaml.',
  })
}

async function checkAt(
  { pool, logger }: Pick<ConnectionsDeps, 'pool' | 'logger'>,
  connection: Connection,
  known: Capture,
  source: ChangeSource,
  { isRead, maxBytes }: Watching,
  signal: AbortSignal,
): Promise<void> {
  const subject = { connectionId: connection.id }
  if (!(await isRead(connection))) {
    await source.release({ capture: known.name, signal })
    await inTransaction(pool, async (tx) => {
      await forgetCapture(tx, connection.id)
      await closeIncidents(tx, subject, { only: LOG_AT_RISK })
    })
    logger.info('no product reads by the log any more, so its source keeps it no longer', { connection: connection.id })
    return
  }
  const health = await source.health({ capture: known.name, saved: known.position, signal })
  const kept = health.retainedBytes ?? 0
  if (health.limitBytes === null && kept > maxBytes) {
    await source.release({ capture: known.name, signal })
    const message = `the source kept ${kept} bytes for us, more than the ${maxBytes} that it may, so the log was given up`
    const remedy = 'Sync the connection more often. The next run reads its tables whole.'
    await inTransaction(pool, async (tx) => {
      await beginGeneration(tx, connection.id, message)
      await tell(tx, connection, message)
      await saveHealth(tx, connection.id, { state: 'released', retainedBytes: 0, limitBytes: null, message, remedy })
    })
    return
  }
  await inTransaction(pool, async (tx) => {
    await saveHealth(tx, connection.id, health)
    if (health.state === 'ok') await closeIncidents(tx, subject, { only: LOG_AT_RISK })
    else await tell(tx, connection, health.message)
  })
}

/** Once, however often it is found. */
async function tell(tx: Transaction, { id, tenant, name }: Connection, reason: string): Promise<void> {
  const isNew = await openIncident(tx, tenant, { connectionId: id }, { cause: LOG_AT_RISK })
  const data = { connection: name, reason }
  if (isNew) await appendEvent(tx, { tenant, kind: 'ingestion', name: 'log_at_risk', subject: id, data })
}
