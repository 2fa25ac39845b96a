/** Jobs of exports: which are written at once, and the sweep of what has expired. */
import { expectJob, type NextDue } from '../../jobs/claims.ts'
import type { JobKind, JobSource } from '../../jobs/worker.ts'
import { EXPORT_KINDS, exportJob, exportsToSweep, forgetExport, forgetExportJobs } from '../../registry/exports.ts'
import type { ExportsDeps } from './deps.ts'
import { writeExport } from './write-export.ts'

const BACK_OFF = { firstMs: 2_000, lastMs: 60_000 } as const
const SWEEP = 'exports.sweep'
const SWEEP_MS = 60_000
const SWEPT_AT_ONCE = 200
/** Of a runtime's engine processes. An export has one for as long as it is written, and queries and runs are not to wait for it. */
const LEFT_TO_OTHERS = 2

export function exportJobs(platform: ExportsDeps): { readonly kinds: readonly JobKind[]; readonly source: JobSource } {
  const lanes = lanesFor(platform.config.limits.engine_processes)
  const writing = Array.from(
    { length: EXPORT_KINDS },
    (_, number): JobKind => ({
      kind: exportJob(number),
      lane: `exports-${number % lanes}`,
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
  return { kinds: [...writing, sweep], source: { everyMs: SWEEP_MS, enlist } }
}

/** How many exports a runtime writes at once: of all tenants, and of one no more than one. */
export function lanesFor(engineProcesses: number): number {
  return Math.min(EXPORT_KINDS, Math.max(1, engineProcesses - LEFT_TO_OTHERS))
}

/** What cannot be removed keeps nothing else from being swept. Throws what the first failed with. */
export async function sweepExports(
  { pool, exportFiles }: Pick<ExportsDeps, 'pool' | 'exportFiles'>,
  signal: AbortSignal,
): Promise<NextDue> {
  const failed: { readonly id: string; readonly error: unknown }[] = []
  for (let isAll = false; !isAll; ) {
    const except = failed.map(({ id }) => id)
    const swept = await exportsToSweep(pool, SWEPT_AT_ONCE, except)
    for (const one of swept) {
      signal.throwIfAborted()
      try {
        await exportFiles.remove(one)
        await forgetExport(pool, one.id)
      } catch (error) {
        failed.push({ id: one.id, error })
      }
    }
    isAll = swept.length < SWEPT_AT_ONCE
  }
  await forgetExportJobs(pool)
  const [first] = failed
  if (first !== undefined) throw first.error
  return { from: 'end', ms: SWEEP_MS }
}
