/** What answers tell of schedules, as JSON. */
import { breakerOf, nextRunAt } from '../../jobs/ticks.ts'
import { scheduleText } from '../../manifest/schedule.ts'
import type { LastRun, Scheduled, ScheduleRow } from '../../registry/schedules.ts'

const iso = (at: Date | null): string | null => at?.toISOString() ?? null

export function scheduleJson({ row, lastRun, failures, now }: Scheduled) {
  const breaker = row === null ? null : breakerOf(failures, now)
  return {
    schedule: row === null ? null : scheduleText(row.schedule),
    next_run_at: row === null || breaker === null || isHidden(row) ? null : iso(nextRunAt(row, breaker)),
    last_run: lastRun === null ? null : lastRunJson(lastRun),
    schedule_state:
      row === null || breaker === null
        ? null
        : {
            set_by: row.createdBy.subject,
            right_lost: !row.maySync,
            breaker: breaker.state,
            failures: breaker.failures,
            open_until: iso(breaker.openUntil),
            skipped_at: iso(row.skippedAt),
            skipped_reason: row.skippedReason,
          },
  }
}

/** When a product is made by the age of its rows tells that age. */
function isHidden({ productId, schedule, readAt }: ScheduleRow): boolean {
  return productId !== null && 'maxAgeMs' in schedule && readAt === null
}

function lastRunJson({ id, state, trigger, createdAt, finishedAt }: LastRun) {
  return { id, state, trigger, created_at: iso(createdAt), finished_at: iso(finishedAt) }
}
