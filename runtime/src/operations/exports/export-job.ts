/**
 * Writes exports, one at a time of each lane. An attempt writes parts of its own, and one statement says at its end that they
 * are the file: what dies in between has written nothing that anybody is given, and is begun anew.
 */
import { isSluiceError, SluiceError } from '@sluice/sdk'
import { expectJob, type Job, type NextDue } from '../../jobs/claims.ts'
import type { JobKind, JobSource } from '../../jobs/worker.ts'
import { onAccountOf } from '../../registry/cpu-accounts.ts'
import { recordedError } from '../../registry/deployments.ts'
import {
  beginAttempt,
  EXPORT_LANES,
  type Export,
  exportJob,
  exportsToSweep,
  failExport,
  finishExport,
  forgetExport,
  forgetExportJobs,
  noteWritten,
} from '../../registry/exports.ts'
import type { Platform } from '../platform.ts'
import { runStatement } from '../queries/query.ts'
import { exportedTables } from './export-access.ts'

const BACK_OFF = { firstMs: 2_000, lastMs: 60_000 } as const
/** Of what may pass by itself. */
const MOST_ATTEMPTS = 5
const SWEEP = 'exports.sweep'
const SWEEP_MS = 60_000
const SWEPT_AT_ONCE = 200
const MEGABYTE = 1024 * 1024

export function exportJobs(platform: Platform): { readonly kinds: readonly JobKind[]; readonly source: JobSource } {
  const lanes = Array.from(
    { length: EXPORT_LANES },
    (_, lane): JobKind => ({
      kind: exportJob(lane),
      failed: 'an export could not be written; it is tried again',
      backOff: BACK_OFF,
      work: (job, signal) => writeExport(platform, job, signal),
    }),
  )
  const sweep: JobKind = {
    kind: SWEEP,
    failed: 'exports that have expired could not be removed; it is tried again',
    backOff: BACK_OFF,
    work: (_, signal) => sweepExports(platform, signal),
  }
  const enlist = () => expectJob(platform.pool, { kind: SWEEP, key: 'all' }, 0)
  return { kinds: [...lanes, sweep], source: { everyMs: SWEEP_MS, enlist } }
}

async function writeExport(platform: Platform, job: Job, signal: AbortSignal): Promise<NextDue> {
  const asked = await beginAttempt(platform.pool, job.key, job.token)
  if (asked === null) return null
  await platform.exportFiles.removeBefore(asked)
  try {
    await onAccountOf(asked.tenant, () => written(platform, asked, signal))
  } catch (error) {
    signal.throwIfAborted()
    // Whatever the end is, nobody will name what this attempt has written.
    await platform.exportFiles.removeAttempt(asked)
    if (isSluiceError(error) && PASSING.has(error.kind) && job.attempts < MOST_ATTEMPTS) throw error
    if (error instanceof Taken) return null
    if (!isSluiceError(error)) platform.logger.warn('an export has failed', { export: asked.id, error: String(error) })
    await failExport(platform.pool, asked, recordedError(error))
  }
  return null
}

const PASSING: ReadonlySet<string> = new Set(['TRANSIENT', 'QUOTA'])

/** Another attempt has it, or it was removed. */
class Taken extends Error {}

async function written(platform: Platform, asked: Export, signal: AbortSignal): Promise<void> {
  const { pool, config, exportFiles } = platform
  const { request, tenant, id } = asked
  const timeoutMs = config.exports.timeout_minutes * 60_000
  // What he may read is looked at again and again. The token that said who he is was good when he asked: it is the time of the
  // statement that bounds it.
  const principal = { ...asked.principal, tokenExpiresAtMs: Number.POSITIVE_INFINITY }
  const ended = new AbortController()
  const call = { principal, tenant, requestId: id, signal: AbortSignal.any([signal, ended.signal]) }
  const answer = await runStatement(platform, call, request, {
    action: 'read.export',
    limits: { timeoutMs, maxOutputBytes: config.exports.megabytes * MEGABYTE },
  })
  try {
    const tables = await exportedTables(platform, answer.tables)
    const onPart = async (so: { readonly bytes: number; readonly parts: number }) => {
      if (!(await noteWritten(pool, asked, so))) throw new Taken()
    }
    const length = await exportFiles.write(asked, answer.run.output, onPart, call.signal)
    const { rows, truncated } = await answer.run.finished
    if (truncated) throw new Error('an export was cut')
    const file = { ...length, rows, columns: answer.columns, tables }
    if (!(await finishExport(pool, asked, file, config.exports.keep_hours))) throw new Taken()
  } finally {
    ended.abort(new SluiceError('TRANSIENT', 'the export has ended', { code: 'internal_error' }))
  }
}

async function sweepExports({ pool, exportFiles }: Platform, signal: AbortSignal): Promise<NextDue> {
  const swept = await exportsToSweep(pool, SWEPT_AT_ONCE)
  for (const one of swept) {
    signal.throwIfAborted()
    await exportFiles.remove(one)
    await forgetExport(pool, one.id)
  }
  await forgetExportJobs(pool)
  return { from: 'end', ms: swept.length === SWEPT_AT_ONCE ? 0 : SWEEP_MS }
}
