/** What is kept how long, and how often that is seen to. */
import { Type } from 'typebox'
import { closed } from './closed.ts'

const every = (minutes: number, what: string) =>
  Type.Integer({
    default: minutes,
    minimum: 0,
    maximum: 10_080,
    description: `Minutes between; 0: never. Then ${what}.`,
  })

export const Upkeep = Type.Object(
  {
    compact_minutes: every(60, 'small files of the lake are written into larger ones'),
    expire_minutes: every(60, 'snapshots that retention lets go are removed'),
    clean_minutes: every(360, 'files that nothing reaches are removed'),
    prune_minutes: every(15, 'old runs, events and stored answers are removed'),
    compare_minutes: every(60, 'copies in stores are compared with the lake, and written anew where they differ'),
    compare_rows_per_second: Type.Integer({
      default: 20_000,
      minimum: 1,
      maximum: 10_000_000,
      description:
        'Rows at most that a runtime compares in a second. A copy that would take longer than ten minutes is told by its digest and its count of rows.',
    }),
    compare_share: Type.Number({
      default: 0.1,
      exclusiveMinimum: 0,
      maximum: 1,
      description: 'Of a runtime’s time, at most, for such comparisons; it rests after each.',
    }),
    clean_min_age_hours: Type.Integer({ default: 24, minimum: 1, description: 'Younger files are never removed.' }),
    raw_keep_last: Type.Integer({ default: 10, minimum: 1, description: 'Snapshots kept of each raw table.' }),
    raw_keep_days: Type.Integer({
      default: 7,
      minimum: 1,
      description: 'Younger snapshots of raw tables are kept.',
    }),
    run_days: Type.Integer({
      default: 30,
      minimum: 1,
      maximum: 3_650,
      description:
        'Runs that ended longer ago are removed, with their logs and progress, and so are materializations that checks kept from being published. Epochs that the lake has nothing more of go by the same age and number. Of each connection and product the 20 newest stay, and those that something still rests on.',
    }),
    run_most: Type.Integer({
      default: 500,
      minimum: 20,
      maximum: 100_000,
      description:
        'Runs that are kept of each connection and of each product, however young; those that ended within the hour stay.',
    }),
    max_retained_bytes: Type.Integer({
      default: 4 * 1024 ** 3,
      minimum: 1024 ** 2,
      maximum: Number.MAX_SAFE_INTEGER,
      description:
        'What a source without a limit of its own may keep for us of its log. Beyond that the log is given up, and its tables are read whole by the next run.',
    }),
    quarantine_days: Type.Integer({
      default: 30,
      minimum: 1,
      description: 'Rows that could not be carried are listed so long, unless they are read again before.',
    }),
  },
  closed,
)
