/** When the next run begins by itself, in a column of a table. */

export interface ScheduleStateAnswer {
  readonly breaker: string
  readonly right_lost: boolean
  readonly set_by: string
}

export interface ScheduledAnswer {
  readonly next_run_at?: string | null
  readonly schedule?: { readonly after?: readonly string[] } | null
  readonly schedule_state?: ScheduleStateAnswer | null
}

export function nextRun({ next_run_at: at = null, schedule, schedule_state: state }: ScheduledAnswer): string | null {
  if (state?.right_lost) return `none: ${state.set_by} may not sync any more`
  if (state?.breaker === 'open' && at !== null) return `${at} (waits after failures)`
  return schedule?.after === undefined ? at : `after ${schedule.after.join(', ')}`
}
