/** The kind of the job that each schedule is, under its id. */
export const SCHEDULE_JOB = 'schedules'

/** The kind of the job that a continuous schedule is, under the id of its connection. */
export const FOLLOW_JOB = 'follows'
