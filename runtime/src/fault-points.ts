/**
 * Named places between the steps of a write where a test may end the process. Without `SLUICE_FAULT` a fault point
 * is an empty call.
 *
 * `SLUICE_FAULT=materializer.after-commit@2` ends the process by SIGKILL when that point is reached for the second
 * time; `SLUICE_FAULT=any@17` at the seventeenth point of any name.
 */
export type FaultPoint = (name: string) => Promise<void>

/** Of the runs that ingest and materialize; those of plugins begin with their endpoint type. */
export const FAULT_POINTS = [
  'ingestion.claimed',
  'ingestion.table-written',
  'ingestion.table-staged',
  'ingestion.before-commit',
  'ingestion.after-commit',
  'ingestion.before-finish',
  'materializer.started',
  'materializer.transformed',
  'materializer.checked',
  'materializer.twins-written',
  'materializer.staged',
  'materializer.before-commit',
  'materializer.after-commit',
  'materializer.before-store',
  'materializer.after-store',
] as const

/** Of a run whose rows a store cannot take in their place: written to the other one, and in service there. */
export const SWITCH_FAULT_POINTS = ['materializer.filled', 'materializer.switched'] as const

/** Of the part of a run that reads the log of a source. */
export const LOG_FAULT_POINTS = [
  'log.prepared',
  'log.table-read',
  'log.spooled',
  'log.applied',
  'log.committed',
  'log.acknowledged',
  'log.begun-anew',
] as const

/** Of runs that take up a log while the lake cannot be written, and of the one that gives it to the lake. */
export const SPOOL_FAULT_POINTS = [
  'log.keeping',
  'log.kept',
  'log.kept-acknowledged',
  'log.unpacked',
  'log.applied',
  'log.committed',
] as const

/** Of rows that are pushed: when they come, and when a run takes them. */
export const PUSH_FAULT_POINTS = [
  'push.before-store',
  'push.stored',
  'push.spooled',
  'push.applied',
  'push.committed',
] as const

/** Of a run that tries rows of quarantines again. */
export const REPLAY_FAULT_POINTS = [
  'replay.claimed',
  'replay.judged',
  'replay.applied',
  'replay.before-commit',
  'replay.committed',
  'replay.before-finish',
] as const

/** Of a run that erases a row. */
export const ERASURE_FAULT_POINTS = [
  'erasure.claimed',
  'erasure.raw-written',
  'erasure.raw-erased',
  'erasure.table-forgotten',
  'erasure.product-forgotten',
  'erasure.products-made',
  'erasure.previews-ended',
  'erasure.proved',
  'erasure.before-finish',
] as const

/** Of a rollback's run. */
export const ROLLBACK_FAULT_POINTS = ['rollback.before-commit', 'rollback.after-commit'] as const

/** Of the process that sends changed rows to the event bus. */
export const CHANGE_FAULT_POINTS = ['changes.before-send', 'changes.after-send'] as const

/** Of deliveries to webhooks of a product's changes. */
export const WEBHOOK_FAULT_POINTS = ['webhooks.begun', 'webhooks.answered', 'webhooks.acknowledged'] as const

/** Of the removal of a preview that is over. */
export const PREVIEW_FAULT_POINTS = [
  'preview.writers-stopped',
  'preview.copies-dropped',
  'preview.tables-dropped',
  'preview.files-removed',
] as const

/** Fault points outside of runs: at the edge, for requests with an Idempotency-Key. */
export const REQUEST_FAULT_POINTS = ['http.before-effect', 'http.before-answer'] as const

export function faultPointsFrom(setting: string | undefined): FaultPoint {
  const match = /^(.+)@(\d+)$/.exec(setting ?? '')
  if (!match) return async () => {}
  const [, wanted, count] = match
  let remaining = Number(count)
  return async (name) => {
    if (wanted !== 'any' && wanted !== name) return
    remaining -= 1
    if (remaining === 0) process.kill(process.pid, 'SIGKILL')
  }
}
