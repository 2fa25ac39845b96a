/** Bodies of requests about connections and their schedules. */

import { Type } from 'typebox'
import { CATCH_UPS } from '../../../registry/schedules.ts'

export const ScheduleRequest = Type.Object(
  {
    every: Type.Optional(Type.String({ maxLength: 20, description: 'A duration: 30s, 15m, 24h, 7d.' })),
    cron: Type.Optional(
      Type.String({ maxLength: 200, description: 'Minute, hour, day of month, month, weekday: 0 6 * * MON-FRI.' }),
    ),
    time_zone: Type.Optional(
      Type.String({ maxLength: 100, description: 'By whose clocks cron goes: Europe/Berlin. Default: UTC.' }),
    ),
    max_age: Type.Optional(
      Type.String({
        maxLength: 20,
        description:
          'A duration: a sync begins when the newest that succeeded began so long ago, whoever asked for it.',
      }),
    ),
    continuous: Type.Optional(
      Type.Object(
        {
          max_delay: Type.Optional(
            Type.String({
              maxLength: 20,
              description: 'How long a change waits for others at most, from 100ms to 1h. Default: 1s.',
            }),
          ),
        },
        {
          additionalProperties: false,
          description:
            'Changes are applied as they come, of tables that are read by the log of their source, and rows that are pushed.',
        },
      ),
    ),
    catch_up: Type.Optional(
      Type.Union(
        CATCH_UPS.map((name) => Type.Literal(name)),
        {
          description:
            'Of ticks that nobody saw to: none is made up for, all by one run, or each by its own. Default: one.',
        },
      ),
    ),
  },
  { additionalProperties: false, minProperties: 1, description: 'One of every, cron, max_age and continuous.' },
)

export const ConnectionRequest = Type.Object(
  {
    name: Type.String({ maxLength: 200 }),
    connector_type: Type.String({ maxLength: 100 }),
    config_encrypted: Type.String({ maxLength: 65_536, description: 'The settings: a JSON document in a string.' }),
    schedule: Type.Optional(ScheduleRequest),
  },
  { additionalProperties: false },
)
