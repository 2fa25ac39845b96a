/** When the next run begins by itself, in a column of a table. */

export interface ScheduleStateAnswer {
  readonly breaker: string
  readonly right_lost: boolean
  readonly set_by: string
}

export interface FollowingAnswer {
  readonly since: string | null
  readonly lag_s: number
  readonly error_code: string | null
  readonly held: number
}

export interface ScheduledAnswer {
  readonly next_run_at?: string | null
  readonly schedule?: { readonly after?: readonly string[]; readonly continuous?: object } | null
  readonly following?: FollowingAnswer | null
  readonly schedule_state?: ScheduleStateAnswer | null
}

export function nextRun({
  next_run_at: at = null,
  schedule,
  schedule_state: state,
  following,
}: ScheduledAnswer): string | null {
  if (state?.right_lost) return `none: ${state.set_by} may not sync any more`
  if (schedule?.continuous !== undefined) return followed(following ?? null, state?.breaker === 'open')
  if (state?.breaker === 'open' && at !== null) return `${at} (waits after failures)`
  return schedule?.after === undefined ? at : `after ${schedule.after.join(', ')}`
}

/** How changes come. */
function followed(following: FollowingAnswer | null, isOpen: boolean): string {
  if (isOpen) return 'follows no changes (waits after failures)'
  if (following === null || following.since === null) {
    return `follows no changes now${following?.error_code ? ` (${following.error_code})` : ''}`
  }
  const behind = following.lag_s > 0 ? `${following.lag_s.toFixed(1)} s behind` : 'all taken'
  return `follows changes, ${behind}${following.held > 0 ? `, ${following.held} tried again later` : ''}`
}
