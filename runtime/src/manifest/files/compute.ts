import { Type } from 'typebox'
import { closed, duration, header, MANIFEST_LIMITS, oneOf, pattern, text } from './shape.ts'

export const ENGINES = ['auto', 'embedded', 'distributed'] as const
export const TRIGGERS = ['on_ingestion', 'schedule', 'manual'] as const

export const ComputeFile = closed(
  {
    ...header('Compute'),
    engine: Type.Optional(oneOf(ENGINES, 'Where the transform runs. Default: auto.')),
    transform: Type.Optional(
      text(
        'One SELECT over the aliases of inputs.yaml. Default: the single input, projected and cast to output.yaml.',
        MANIFEST_LIMITS.sqlLength,
      ),
    ),
    resources: Type.Optional(
      closed({
        memory: Type.Optional(
          pattern(
            'The most memory it may take.',
            '^[1-9][0-9]{0,5}(MB|MiB|GB|GiB)$',
            'a number and MB or GB, for example 2GB',
          ),
        ),
        threads: Type.Optional(Type.Integer({ minimum: 1, maximum: 64 })),
        timeout: Type.Optional(duration('The longest it may run.')),
      }),
    ),
    trigger: Type.Optional(oneOf(TRIGGERS, 'When the product is materialized. Default: on_ingestion.')),
    schedule: Type.Optional(
      closed(
        {
          every: Type.Optional(duration('Made anew so often, at a place within the interval that is its own.')),
          cron: Type.Optional(
            text('Made anew at these times: minute, hour, day of month, month, weekday, as in 0 6 * * MON-FRI.', 200),
          ),
          time_zone: Type.Optional(text('By whose clocks cron goes: Europe/Berlin. Default: UTC.', 100)),
          after: Type.Optional(
            Type.Array(
              pattern(
                'A product of the tenant: namespace.name.',
                '^[^.\\s]{1,200}\\.[^.\\s]{1,200}$',
                'namespace.name',
                401,
              ),
              {
                description: 'Made anew when each of these products has an epoch that it had not the time before.',
                minItems: 1,
                maxItems: MANIFEST_LIMITS.followedProducts,
              },
            ),
          ),
          max_age: Type.Optional(
            duration(
              'Made anew when its rows would be older than this: since the first of the inputs that they were made of was read.',
            ),
          ),
          catch_up: Type.Optional(
            oneOf(
              ['none', 'one', 'all'],
              'Of times of every and cron at which no runtime was there: none is made up for, all by one run, or each by its own. Default: one.',
            ),
          ),
        },
        { description: 'With trigger: schedule. One of every, cron, after and max_age.', minProperties: 1 },
      ),
    ),
  },
  { title: 'compute.yaml' },
)

export type ComputeFile = Type.Static<typeof ComputeFile>
