import { Type } from 'typebox'
import { closed, columnName, columnNames, header, MANIFEST_LIMITS, oneOf, pattern, text } from './shape.ts'

export const HISTORY_MODES = ['current', 'type_2', 'type_3'] as const

export const INTERVAL_PATTERN = '^[1-9][0-9]{0,3} (minute|hour|day|week|month|year)s?$'
const INTERVAL_EXPECTED = 'a number and a unit, for example "1 day" or "2 weeks"'

/** The configs of the four types every deployment serves. Other types bring theirs with their plugin. */
export const LookupFields = closed({
  index_columns: Type.Optional(columnNames('The columns to index. Default: the primary key.')),
  history_mode: Type.Optional(oneOf(HISTORY_MODES, 'Whether former states are kept, and how. Default: current.')),
  tracked_columns: Type.Optional(columnNames('The columns whose changes make a new historical record.', 0)),
})

export const TimeseriesFields = closed({
  time_column: Type.Optional(columnName('The column of time. Default: the first date or timestamp column.')),
  chunk_interval: Type.Optional(pattern('The size of a chunk. Default: 1 day.', INTERVAL_PATTERN, INTERVAL_EXPECTED)),
  continuous_aggregates: Type.Optional(
    Type.Array(
      closed({
        interval: pattern('The size of a bucket.', INTERVAL_PATTERN, INTERVAL_EXPECTED),
        columns: columnNames('The columns to aggregate.'),
      }),
      { description: 'Aggregates that are kept up to date.', maxItems: 20 },
    ),
  ),
})

export const AnalyticsFields = closed({})

export const RealtimeFields = closed({
  key_template: text('The key, with {column_name} placeholders.', 500),
  ttl: Type.Optional(
    pattern('How long a key lives. Default: 24h.', '^[1-9][0-9]{0,5}(h|d)$', 'a number and h or d, for example 24h'),
  ),
  include_columns: Type.Optional(columnNames('The columns to store. Default: all.')),
})

export const EndpointFields = closed({
  type: text('lookup, timeseries, analytics, realtime, or the type of an installed plugin.', 100),
  description: Type.Optional(Type.String({ maxLength: MANIFEST_LIMITS.descriptionLength })),
  config: Type.Optional(Type.Object({}, { description: 'What the type needs to know.', additionalProperties: true })),
})

export const ServingFile = closed(
  {
    ...header('Serving'),
    endpoints: Type.Optional(
      Type.Array(EndpointFields, { description: 'How the product is read.', maxItems: MANIFEST_LIMITS.endpoints }),
    ),
    visualization: Type.Optional(
      closed({
        enabled: Type.Optional(
          Type.Boolean({ description: 'Whether a dashboard tool shows the product. Default: false.' }),
        ),
        dashboard_template: Type.Optional(text('The name of a template of the platform.', 200)),
        refresh_interval: Type.Optional(
          pattern(
            'How long the dashboard tool may cache.',
            '^[1-9][0-9]{0,5}(s|m|h|d)$',
            'a number and s, m, h or d, for example 15m',
          ),
        ),
      }),
    ),
  },
  { title: 'serving.yaml' },
)

export type LookupFields = Type.Static<typeof LookupFields>
export type TimeseriesFields = Type.Static<typeof TimeseriesFields>
export type RealtimeFields = Type.Static<typeof RealtimeFields>
export type EndpointFields = Type.Static<typeof EndpointFields>
export type ServingFile = Type.Static<typeof ServingFile>
