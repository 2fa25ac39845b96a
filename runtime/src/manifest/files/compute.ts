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
      closed({
        cron: text('When it runs.', 200),
        time_zone: Type.Optional(text('The time zone of the times.', 100)),
      }),
    ),
  },
  { title: 'compute.yaml' },
)

export type ComputeFile = Type.Static<typeof ComputeFile>
