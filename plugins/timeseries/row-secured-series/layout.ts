/** What a timeseries' tables look like: the rows' own, and one for each aggregate that is kept. */
import {
  type DatasetKey,
  type PlacedColumn,
  physicalColumns,
  quoteIdentifier,
  ROW_NUMBER,
  type ServedColumn,
  type TableShape,
  type WantedTable,
} from '@sluice/lookup/row-secured-postgresql'
import {
  type Column,
  columnNamed,
  type Interval,
  physicalName,
  structuredName,
  type TableSchema,
  type Target,
  tenantOf,
} from '@sluice/sdk'
import type { TimeType } from './buckets.ts'
import { DEFAULT_CHUNK_INTERVAL, intervalOf, type TimeseriesConfig, timeColumn } from './config.ts'
import { type Measure, measuresOf } from './measures.ts'

export const ENDPOINT = 'timeseries'

export interface PlacedMeasure extends Measure {
  /** The column it is computed of, quoted. */
  readonly source: string
  /** Its own column, quoted. */
  readonly sql: string
}

export interface AggregateLayout {
  /** As the config names it. */
  readonly interval: string
  readonly every: Interval
  readonly shape: TableShape
  readonly measures: readonly PlacedMeasure[]
  readonly served: ReadonlyMap<string, ServedColumn>
}

export interface Layout {
  readonly shape: TableShape
  readonly chunkEvery: Interval
  readonly time: PlacedColumn & { readonly type: TimeType }
  /** The product's columns in its order. */
  readonly columns: readonly PlacedColumn[]
  readonly key: readonly PlacedColumn[]
  readonly served: ReadonlyMap<string, ServedColumn>
  /** Time, then what makes the order total. */
  readonly order: readonly ServedColumn[]
  readonly aggregates: readonly AggregateLayout[]
}

const layouts = new WeakMap<TableSchema, WeakMap<TimeseriesConfig, Layout>>()

/** Remembered by identity: the runtime hands over the same schema and config with every read of a version. */
export function layoutOf(schema: TableSchema, config: TimeseriesConfig): Layout {
  const known = layouts.get(schema)?.get(config)
  if (known) return known
  const made = makeLayout(schema, config)
  const byConfig = layouts.get(schema) ?? new WeakMap<TimeseriesConfig, Layout>()
  byConfig.set(config, made)
  layouts.set(schema, byConfig)
  return made
}

export function datasetKey(target: Target<TimeseriesConfig>, aggregate?: AggregateLayout): DatasetKey {
  const { domain, product, variant } = target
  const endpoint = aggregate ? `${ENDPOINT}/${aggregate.interval}` : ENDPOINT
  return { tenant: tenantOf(target.scope), domain, product, variant, endpoint }
}

export function wantedTable(target: Target<TimeseriesConfig>): WantedTable {
  const key = datasetKey(target)
  return { key, ...structuredName(key), shape: layoutOf(target.schema, target.config).shape }
}

/** An aggregate stands beside the rows as `{product}__1_week`. */
export function wantedAggregate(target: Target<TimeseriesConfig>, aggregate: AggregateLayout): WantedTable {
  const key = datasetKey(target, aggregate)
  const { schema, table } = structuredName(key)
  const { count, unit } = aggregate.every
  return { key, schema, table: physicalName(`${table}__${count}_${unit}`), shape: aggregate.shape }
}

function makeLayout(schema: TableSchema, config: TimeseriesConfig): Layout {
  const time = timeColumn(config, schema)
  const chunkInterval = config.chunk_interval ?? DEFAULT_CHUNK_INTERVAL
  const names = physicalColumns(schema.columns.map((column) => column.name))
  const physical = (name: string) => names.get(name) ?? name
  const place = (column: Column): PlacedColumn => {
    return { name: column.name, type: column.type, sql: quoteIdentifier(physical(column.name)) }
  }
  const never = new Set([time.name, ...schema.primaryKey])
  const serve = (column: Column): ServedColumn => {
    const { name, type, sql } = place(column)
    return { name, type, sql: `t.${sql}`, nullable: !never.has(name) }
  }
  const served = new Map(schema.columns.map((column) => [column.name, serve(column)]))
  return {
    shape: shapeOf(schema, time, chunkInterval, physical),
    chunkEvery: intervalOf(chunkInterval, '/chunk_interval'),
    time: { ...place(time), type: time.type as TimeType },
    columns: schema.columns.map(place),
    key: schema.primaryKey.map((name) => place(columnNamed(schema, name))),
    served,
    order: orderOf(schema, time, served),
    aggregates: (config.continuous_aggregates ?? []).map(({ interval, columns }, index) => {
      const every = intervalOf(interval, `/continuous_aggregates/${index}/interval`)
      return aggregateLayout(
        interval,
        every,
        columns.map((name) => columnNamed(schema, name)),
        physical,
      )
    }),
  }
}

/** Time leads, so that ranges are read in order; a key that does not hold the time gets an index of its own. */
function shapeOf(
  schema: TableSchema,
  time: Column,
  chunkInterval: string,
  physical: (name: string) => string,
): TableShape {
  const keyed = schema.primaryKey.length > 0
  const columns = schema.columns.map(({ name, type }) => ({ name: physical(name), type }))
  const identity = schema.primaryKey.map(physical)
  const rest = keyed ? identity.filter((name) => name !== physical(time.name)) : [ROW_NUMBER.name]
  const byKey = keyed && !schema.primaryKey.includes(time.name) ? [{ columns: identity, unique: false }] : []
  return {
    kind: ENDPOINT,
    columns: keyed ? columns : [...columns, ROW_NUMBER],
    key: [physical(time.name), ...rest],
    indexes: byKey,
    traits: { time: physical(time.name), chunkInterval, identity },
  }
}

function orderOf(
  schema: TableSchema,
  time: Column,
  served: ReadonlyMap<string, ServedColumn>,
): readonly ServedColumn[] {
  const rowNumber: ServedColumn = { ...ROW_NUMBER, sql: `t.${ROW_NUMBER.name}`, nullable: false }
  const names = [time.name, ...schema.primaryKey.filter((name) => name !== time.name)]
  const named = names.flatMap((name) => served.get(name) ?? [])
  return schema.primaryKey.length === 0 ? [...named, rowNumber] : named
}

function aggregateLayout(
  interval: string,
  every: Interval,
  columns: readonly Column[],
  physical: (name: string) => string,
): AggregateLayout {
  const sources = columns.flatMap((column) => measuresOf(column).map((measure) => ({ column, measure })))
  const names = physicalColumns(['bucket', ...sources.map(({ measure }) => measure.name)])
  const own = (name: string) => names.get(name) ?? name
  const measures = sources.map(({ column, measure }) => {
    return { ...measure, source: quoteIdentifier(physical(column.name)), sql: quoteIdentifier(own(measure.name)) }
  })
  const bucket: ServedColumn = { name: 'bucket', type: 'timestamptz', sql: 't.bucket', nullable: false }
  return {
    interval,
    every,
    measures,
    shape: {
      kind: `${ENDPOINT} aggregate`,
      columns: [
        { name: 'bucket', type: 'timestamptz' },
        ...measures.map(({ name, type }) => ({ name: own(name), type })),
      ],
      key: ['bucket'],
      indexes: [],
      traits: { interval },
    },
    served: new Map([
      ['bucket', bucket],
      ...measures.map(({ name, type, sql }) => [name, { name, type, sql: `t.${sql}`, nullable: true }] as const),
    ]),
  }
}
