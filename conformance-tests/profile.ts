/** How an endpoint of each type is configured for a shape, so that one check serves all types of store. */
import type { Row, ServingPlugin, TableSchema } from '@sluice/sdk'
import { TIME_COLUMN } from './shapes.ts'

/** What a check wants of the endpoint, in no store's words. */
export interface ConfigWish {
  /** Columns that filters will name. Default: the primary key. */
  readonly indexed?: readonly string[]
  readonly history?: { readonly mode: 'type_2' | 'type_3'; readonly tracked: readonly string[] }
  readonly ttl?: string
  readonly aggregates?: readonly { readonly interval: string; readonly columns: readonly string[] }[]
  readonly keyTemplate?: string
  readonly include?: readonly string[]
  /** The endpoint names no time column. */
  readonly defaultTimeColumn?: boolean
}

/** What a store's author tells the suite about it. All optional. */
export interface Knobs {
  /** The endpoint's config for types that the suite does not know. */
  config?(schema: TableSchema, wish: ConfigWish): unknown
  /** False where the store belongs to one process: opening it twice is then to be refused. Default: true. */
  readonly opensTwice?: boolean
  /** By declared operation; one that is not named here is tried with its example alone. */
  readonly operations?: Readonly<Record<string, OperationTrial>>
  /** How many random schedules to run, by level, where the suite's own numbers take too long. */
  readonly schedules?: Partial<Readonly<Record<'core' | 'full' | 'hard', number>>>
}

/** How a declared operation is tried on rows that the suite has made up. */
export interface OperationTrial {
  /** Inputs that fit the operation's schema, and of which most find some of these rows and not all. */
  inputs(schema: TableSchema, rows: readonly Row[]): readonly Readonly<Record<string, unknown>>[]
  /** The rows that it is to give, in this order, by a way that shares nothing with the store; null where none is known. */
  expected?(input: Readonly<Record<string, unknown>>, schema: TableSchema, rows: readonly Row[]): readonly Row[] | null
}

type ConfigOf = (schema: TableSchema, wish: ConfigWish) => Readonly<Record<string, unknown>>

const lookup: ConfigOf = (schema, wish) => ({
  ...(wish.indexed
    ? { index_columns: wish.indexed }
    : schema.primaryKey.length > 0
      ? {}
      : { index_columns: [TIME_COLUMN] }),
  ...(wish.history ? { history_mode: wish.history.mode, tracked_columns: wish.history.tracked } : {}),
})

const timeseries: ConfigOf = (_, wish) => ({
  ...(wish.defaultTimeColumn ? {} : { time_column: TIME_COLUMN }),
  chunk_interval: '1 day',
  ...(wish.aggregates ? { continuous_aggregates: wish.aggregates } : {}),
})

const realtime: ConfigOf = (schema, wish) => ({
  key_template: templateOf(schema, wish),
  ttl: wish.ttl ?? '24h',
  ...(wish.include ? { include_columns: wish.include } : {}),
})

const CONFIGS: Readonly<Record<string, ConfigOf>> = {
  lookup,
  timeseries,
  realtime,
  analytics: () => ({}),
  reference: (schema, wish) => {
    const { chunk_interval: _, ...timed } = timeseries(schema, wish)
    return { ...lookup(schema, wish), ...timed, ...realtime(schema, wish) }
  },
}

/** The template through which a `key` read finds the shape's rows. */
export function templateOf(schema: TableSchema, wish: ConfigWish): string {
  return wish.keyTemplate ?? schema.primaryKey.map((name) => `{${name}}`).join(':')
}

export function configFor(plugin: ServingPlugin, knobs: Knobs, schema: TableSchema, wish: ConfigWish): unknown {
  return knobs.config?.(schema, wish) ?? CONFIGS[plugin.type]?.(schema, wish) ?? {}
}
