/**
 * Writes one export. An attempt writes parts of its own, and one statement says at its end that they are the file: what dies in
 * between has written nothing that anybody is given, and is begun anew.
 */
import { isSluiceError, SluiceError } from '@sluice/sdk'
import type pg from 'pg'
import type { Job, NextDue } from '../../jobs/claims.ts'
import { appendAudit } from '../../registry/audit.ts'
import { onAccountOf } from '../../registry/cpu-accounts.ts'
import { recordedError } from '../../registry/deployments.ts'
import {
  beginAttempt,
  type Export,
  type ExportPlace,
  failExport,
  findExport,
  finishExport,
  isInHand,
  noteWritten,
} from '../../registry/exports.ts'
import { runStatement } from '../queries/query.ts'
import { checkStorage } from '../tenants/tenants.ts'
import type { ExportsDeps } from './deps.ts'
import { exportedTables, requireExportable } from './export-access.ts'

const MOST_ATTEMPTS = 5
const LOOK_MS = 3_000
const SPENT_LOOK_MS = 15_000
/** With fewer a query may wait for as long as an export is written. */
const PROCESSES_FOR_LONG = 3
const MEGABYTE = 1024 * 1024

export async function writeExport(platform: ExportsDeps, job: Job, signal: AbortSignal): Promise<NextDue> {
  const { pool, exportFiles, logger } = platform
  const spent = spentOf(platform, job)
  // Nothing was tried, so that it counts as no attempt. Looked at before its time, too: the tenant may get another tier.
  if (spent !== null) return { from: 'end', ms: Math.min(spent.retryAfterMs ?? SPENT_LOOK_MS, SPENT_LOOK_MS) }
  const asked = await beginAttempt(pool, job.key, job.token)
  if (asked === null) return null
  await exportFiles.removeUntil({ ...asked, attempt: asked.formerAttempt })
  try {
    if (job.attempts >= MOST_ATTEMPTS) throw new Error(`${job.attempts} attempts have died`)
    await onAccountOf(asked.tenant, () => written(platform, asked, signal))
  } catch (error) {
    signal.throwIfAborted()
    // Whether it has been finished is not known of every error. The next attempt finds out, and removes what is nobody's.
    if (isTriedAgain(error, job)) throw error
    if (!(error instanceof Taken)) {
      if (!isSluiceError(error)) logger.warn('an export has failed', { export: asked.id, error: String(error) })
      await failExport(pool, asked, recordedError(error))
    }
    await removeUnlessFile(platform, asked)
  }
  return null
}

/** Only what passes by itself; a statement that takes too long, or gives too much, does so again. */
export function isTriedAgain(error: unknown, { attempts }: Pick<Job, 'attempts'>): boolean {
  return isSluiceError(error, 'TRANSIENT') && attempts + 1 < MOST_ATTEMPTS
}

/** What is asked for by an export is let in as a whole, so it is asked before whether its tenant may use the processors. */
function spentOf({ cpu }: ExportsDeps, { tenant }: Job): SluiceError | null {
  try {
    if (tenant !== null) cpu.refuseSpent(tenant)
    return null
  } catch (error) {
    if (isSluiceError(error, 'QUOTA')) return error
    throw error
  }
}

/** What has failed may have been finished all the same, by a statement whose answer was lost. */
async function removeUnlessFile({ pool, exportFiles }: ExportsDeps, asked: Export): Promise<void> {
  const now = await findExport(pool, asked.id)
  if (now?.state === 'succeeded' && now.attempt === asked.attempt) return
  await exportFiles.removeAttempt(asked)
}

/** Another attempt has it, or it was removed, or its time is over. */
class Taken extends Error {}

async function written(platform: ExportsDeps, asked: Export, signal: AbortSignal): Promise<void> {
  const { pool, config, exportFiles } = platform
  const { request, tenant, id } = asked
  const room = await checkStorage(platform, tenant)
  const mostBytes = config.exports.megabytes * MEGABYTE
  // What he may read is looked at again and again. The token that said who he is was good when he asked: it is the time of the
  // statement that bounds it.
  const principal = { ...asked.principal, tokenExpiresAtMs: Number.POSITIVE_INFINITY }
  const ended = new AbortController()
  const call = { principal, tenant, requestId: id, signal: AbortSignal.any([signal, ended.signal]) }
  const stopLooking = whileInHand(pool, asked, ended)
  try {
    const answer = await runStatement(platform, call, request, {
      action: 'read.export',
      limits: { timeoutMs: timeoutOf(platform), maxOutputBytes: Math.min(mostBytes, room.bytes) },
    })
    const tables = await exportedTables(platform, answer.tables)
    const onPart = async (so: { readonly bytes: number; readonly parts: number }) => {
      if (!(await noteWritten(pool, asked, so))) throw new Taken()
    }
    const length = await exportFiles.write(asked, answer.run.output, onPart, call.signal)
    const { rows, truncated } = await answer.run.finished
    if (truncated) throw new Error('an export was cut')
    const file = { ...length, rows, columns: answer.columns, tables }
    const place = await delivered(platform, { ...asked, ...file }, call.signal)
    if (!(await finishExport(pool, asked, { ...file, place }, config.exports.keep_hours))) throw new Taken()
  } catch (error) {
    if (ended.signal.reason instanceof Taken) throw ended.signal.reason
    const isTooLarge = isSluiceError(error) && error.code === 'query_result_too_large'
    throw isTooLarge && room.bytes < mostBytes ? room.exceeded() : error
  } finally {
    stopLooking()
    ended.abort(new SluiceError('TRANSIENT', 'the export has ended', { code: 'internal_error' }))
  }
}

/**
 * The whole file, to the destination that it was asked for; on record before the first byte. What is there is its author's to remove:
 * a later attempt replaces it, and an export that is removed leaves it.
 */
async function delivered(platform: ExportsDeps, asked: Export, signal: AbortSignal): Promise<ExportPlace | null> {
  const { pool, exportFiles, exportDestinations } = platform
  const { id, tenant, bytes, request, principal } = asked
  const { to, format } = request
  if (to === undefined) return null
  await requireExportable(platform, asked)
  await appendAudit(pool, {
    tenant,
    actor: { issuer: principal.issuer, subject: principal.subject },
    action: 'export.deliver',
    objectType: 'export',
    objectId: id,
    outcome: 'allowed',
    requestId: id,
    details: { to, bytes },
  })
  const late = AbortSignal.timeout(timeoutOf(platform))
  const ends = AbortSignal.any([signal, late])
  const chunks = exportFiles.read(asked, asked, () => requireExportable(platform, asked), ends)
  try {
    return await exportDestinations.put({ id, tenant, bytes, format }, to, chunks, ends)
  } catch (error) {
    if (late.aborted && !signal.aborted) throw slow(to)
    throw error
  }
}

const slow = (to: string): SluiceError =>
  new SluiceError('QUOTA', `the destination ${to} took longer than a file may take`, {
    code: 'export_destination_slow',
    remedy: 'Export less, or ask an operator for a larger exports.timeout_minutes.',
  })

function timeoutOf({ config: { exports, limits } }: ExportsDeps): number {
  const timeoutMs = exports.timeout_minutes * 60_000
  if (limits.engine_processes >= PROCESSES_FOR_LONG) return timeoutMs
  return Math.min(timeoutMs, limits.transform_timeout_ms)
}

/** Ends what is done for an export that nobody wants any more. */
function whileInHand(pool: pg.Pool, asked: Export, ended: AbortController): () => void {
  const look = async (): Promise<void> => {
    // What cannot be seen now is seen at the next look.
    const isHeld = await isInHand(pool, asked).catch(() => true)
    if (!isHeld) ended.abort(new Taken())
  }
  const timer = setInterval(() => void look(), LOOK_MS)
  return () => clearInterval(timer)
}
