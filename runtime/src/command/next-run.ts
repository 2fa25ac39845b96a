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

interface LogAnswer {
  readonly state: string
  readonly message: string | null
  readonly remedy: string | null
  readonly spooled?: { readonly bytes: number; readonly since: string | null; readonly full_since: string | null }
}

export interface SyncAnswer {
  readonly connection: string
  readonly next_run_at: string | null
  readonly last_run: { readonly id: string; readonly state: string } | null
  readonly breaker: string | null
  readonly log: LogAnswer | null
  readonly following: FollowingAnswer | null
}

/** What comes next of a connection, and what to do where it does not go on by itself; a line each. */
export function nextSync(lag: SyncAnswer): readonly string[] {
  const waits = lag.breaker === 'open'
  const lines = [comes(lag, waits)]
  if (lag.log !== null && lag.log.state !== 'ok') {
    lines.push(`Its log is ${lag.log.state}: ${[lag.log.message, lag.log.remedy].filter(Boolean).join('. ')}`)
  }
  const spooled = lag.log?.spooled
  if (spooled?.since) {
    const full = spooled.full_since ? ' There is no room for more of it.' : ''
    lines.push(`Since ${spooled.since} its log waits for the lake: ${spooled.bytes} bytes.${full}`)
  }
  const { last_run: run } = lag
  if (run?.state === 'failed' || (lag.following?.held ?? 0) > 0) {
    const why = run ? `sluice logs ${run.id} tells why. ` : ''
    lines.push(`${why}sluice sync ${lag.connection} tries again now.`)
  }
  return lines
}

function comes({ next_run_at: at, following }: SyncAnswer, waits: boolean): string {
  if (following !== null) {
    return `It ${followed(following, waits)}. Tables that are not in mode cdc and not pushed are read when a sync is asked for.`
  }
  return `${at === null ? 'No sync begins by itself.' : `The next sync begins at ${at}.`}${waits ? ' It waits after failures.' : ''}`
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
