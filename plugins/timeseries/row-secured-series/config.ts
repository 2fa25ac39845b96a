import {
  type Column,
  type ConfigProblem,
  type Interval,
  type JsonSchema,
  parseInterval,
  SluiceError,
  type TableSchema,
} from '@sluice/sdk'
import { measuresOf } from './measures.ts'

/** The endpoint's `config` in serving.yaml. */
export interface TimeseriesConfig {
  readonly time_column?: string
  readonly chunk_interval?: string
  readonly continuous_aggregates?: readonly AggregateConfig[]
}

export interface AggregateConfig {
  /** As `parseInterval` reads it: `1 week`. */
  readonly interval: string
  readonly columns: readonly string[]
}

export const DEFAULT_CHUNK_INTERVAL = '1 day'

export const CONFIG_SCHEMA: JsonSchema = {
  type: 'object',
  additionalProperties: false,
  properties: {
    time_column: {
      type: 'string',
      minLength: 1,
      description: 'The column rows are kept and read by; default: the first date or timestamp column.',
    },
    chunk_interval: {
      type: 'string',
      default: DEFAULT_CHUNK_INTERVAL,
      examples: ['1 day', '2 weeks'],
      description: 'How much time a partition holds: a number and minute, hour, day, week, month or year.',
    },
    continuous_aggregates: {
      type: 'array',
      minItems: 1,
      maxItems: 10,
      description: 'Aggregates that are kept with the rows.',
      items: {
        type: 'object',
        additionalProperties: false,
        required: ['interval', 'columns'],
        properties: {
          interval: { type: 'string', examples: ['1 week'], description: 'The time that one line sums up.' },
          columns: {
            type: 'array',
            minItems: 1,
            maxItems: 50,
            uniqueItems: true,
            items: { type: 'string', minLength: 1 },
            description: 'Columns to sum up.',
          },
        },
      },
    },
  },
}

const TIME_TYPES = ['date', 'timestamp', 'timestamptz']

export function timeColumn(config: TimeseriesConfig, schema: TableSchema): Column {
  const found =
    config.time_column === undefined
      ? schema.columns.find((column) => TIME_TYPES.includes(column.type))
      : schema.columns.find((column) => column.name === config.time_column)
  if (found && TIME_TYPES.includes(found.type)) return found
  throw new SluiceError('CONFIG', 'the timeseries endpoint has no time column', {
    code: 'invalid_config',
    remedy: 'Name a date or timestamp column as time_column.',
    details: { pointer: '/time_column' },
  })
}

export function intervalOf(text: string, pointer: string): Interval {
  const interval = parseInterval(text)
  if (interval) return interval
  throw new SluiceError('CONFIG', 'an interval is a number and a unit', {
    code: 'invalid_config',
    remedy: 'Write for example 1 day or 2 weeks.',
    details: { pointer },
  })
}

export function checkConfig(config: TimeseriesConfig, schema: TableSchema): readonly ConfigProblem[] {
  const aggregates = config.continuous_aggregates ?? []
  return [
    ...checkTimeColumn(config, schema),
    ...checkInterval(config.chunk_interval ?? DEFAULT_CHUNK_INTERVAL, '/chunk_interval', config, schema),
    ...aggregates.flatMap((aggregate, index) => checkAggregate(aggregate, index, config, schema)),
    ...checkRepeats(aggregates),
    ...schema.primaryKey
      .filter((name) => schema.columns.some((column) => column.name === name && column.type === 'json'))
      .map((name) => ({ pointer: '', message: `the key column "${name}" is json` })),
  ]
}

function checkTimeColumn(config: TimeseriesConfig, schema: TableSchema): ConfigProblem[] {
  const candidates = schema.columns.filter((column) => TIME_TYPES.includes(column.type)).map((column) => column.name)
  const hint = candidates.length > 0 ? `Possible are ${candidates.join(', ')}.` : 'Add a date or timestamp column.'
  if (config.time_column === undefined) {
    if (candidates.length > 0) return []
    return [{ pointer: '/time_column', message: 'the product has no date or timestamp column', hint }]
  }
  if (candidates.includes(config.time_column)) return []
  return [{ pointer: '/time_column', message: `"${config.time_column}" is no date or timestamp column`, hint }]
}

function checkInterval(text: string, pointer: string, config: TimeseriesConfig, schema: TableSchema): ConfigProblem[] {
  const interval = parseInterval(text)
  if (!interval) {
    return [
      { pointer, message: `"${text}" is no interval`, hint: 'Write a number and a unit, such as 1 day or 2 weeks.' },
    ]
  }
  const time = schema.columns.find(
    (column) => column.name === (config.time_column ?? column.name) && TIME_TYPES.includes(column.type),
  )
  if (time?.type === 'date' && ['minute', 'hour'].includes(interval.unit)) {
    return [{ pointer, message: 'the time column is a date, which has no hours', hint: 'Use days or longer.' }]
  }
  return []
}

function checkAggregate(
  aggregate: AggregateConfig,
  index: number,
  config: TimeseriesConfig,
  schema: TableSchema,
): ConfigProblem[] {
  const pointer = `/continuous_aggregates/${index}`
  const known = schema.columns.map((column) => column.name)
  const unknown = aggregate.columns.flatMap((name, at) =>
    known.includes(name)
      ? []
      : [
          {
            pointer: `${pointer}/columns/${at}`,
            message: `there is no column "${name}"`,
            hint: `The columns are ${known.join(', ')}.`,
          },
        ],
  )
  const names = schema.columns
    .filter((column) => aggregate.columns.includes(column.name))
    .flatMap((column) => measuresOf(column).map((measure) => measure.name))
  const clash = [...names, 'bucket'].find((name, at, all) => all.indexOf(name) !== at)
  return [
    ...checkInterval(aggregate.interval, `${pointer}/interval`, config, schema),
    ...unknown,
    ...(clash === undefined
      ? []
      : [{ pointer: `${pointer}/columns`, message: `two values would be called "${clash}"` }]),
  ]
}

function checkRepeats(aggregates: readonly AggregateConfig[]): ConfigProblem[] {
  return aggregates.flatMap(({ interval }, index) =>
    aggregates.findIndex((other) => other.interval === interval) === index
      ? []
      : [{ pointer: `/continuous_aggregates/${index}/interval`, message: `there are two aggregates of ${interval}` }],
  )
}
