/** The kind of the job that each schedule is, under its id. */
export const SCHEDULE_JOB = 'schedules'
