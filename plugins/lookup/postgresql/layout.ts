/** What a lookup table looks like, which columns it serves, and what they are called in it. */
import {
  type Column,
  columnNamed,
  type HistoryMode,
  structuredName,
  type TableSchema,
  type Target,
  tenantOf,
} from '@sluice/sdk'
import {
  type DatasetKey,
  type PlacedColumn,
  physicalColumns,
  quoteIdentifier,
  ROW_NUMBER,
  type ServedColumn,
  type TableIndex,
  type TableShape,
  type WantedTable,
} from '../row-secured-postgresql/index.ts'
import { filterableColumns, historyMode, indexColumns, type LookupConfig, readColumns } from './config.ts'

export const ENDPOINT = 'lookup'

export interface Layout {
  readonly mode: HistoryMode
  readonly shape: TableShape
  /** The product's columns in its order. */
  readonly columns: readonly PlacedColumn[]
  readonly key: readonly PlacedColumn[]
  readonly tracked: readonly PlacedColumn[]
  readonly filterable: readonly string[]
  /** Columns that lead an index. */
  readonly indexed: readonly string[]
  readonly served: ReadonlyMap<string, ServedColumn>
  /** What makes an order of rows total. */
  readonly tieBreak: readonly ServedColumn[]
}

const layouts = new WeakMap<TableSchema, WeakMap<LookupConfig, Layout>>()

/** Remembered by identity: the runtime hands over the same schema and config with every read of a version. */
export function layoutOf(schema: TableSchema, config: LookupConfig): Layout {
  const known = layouts.get(schema)?.get(config)
  if (known) return known
  const made = makeLayout(schema, config)
  const byConfig = layouts.get(schema) ?? new WeakMap<LookupConfig, Layout>()
  byConfig.set(config, made)
  layouts.set(schema, byConfig)
  return made
}

export function datasetKey(target: Target<LookupConfig>): DatasetKey {
  const { domain, product, variant } = target
  return { tenant: tenantOf(target.scope), domain, product, variant, endpoint: ENDPOINT }
}

export function wantedTable(target: Target<LookupConfig>): WantedTable {
  const key = datasetKey(target)
  return { key, ...structuredName(key), shape: layoutOf(target.schema, target.config).shape }
}

function makeLayout(schema: TableSchema, config: LookupConfig): Layout {
  const mode = historyMode(config)
  const all = readColumns(config, schema)
  const names = physicalColumns(all.map((column) => column.name))
  const physical = (name: string) => names.get(name) ?? name
  const place = (column: Column): PlacedColumn => {
    return { name: column.name, type: column.type, sql: quoteIdentifier(physical(column.name)) }
  }
  const placeNamed = (name: string) => place(columnNamed(schema, name))
  const served = servedColumns(all, schema, place)
  const indexed = [...new Set([...schema.primaryKey.slice(0, 1), ...indexColumns(config, schema)])]
  return {
    mode,
    shape: shapeOf(schema, config, all, physical),
    columns: schema.columns.map(place),
    key: schema.primaryKey.map(placeNamed),
    tracked: (config.tracked_columns ?? []).map(placeNamed),
    filterable: filterableColumns(config, schema),
    indexed,
    served,
    tieBreak: tieBreakOf(schema, mode, served),
  }
}

function servedColumns(
  columns: readonly Column[],
  schema: TableSchema,
  place: (column: Column) => PlacedColumn,
): ReadonlyMap<string, ServedColumn> {
  const never = new Set([...schema.primaryKey, 'valid_from'])
  return new Map(
    columns.map((column) => {
      const { name, type, sql } = place(column)
      return [name, { name, type, sql: `t.${sql}`, nullable: !never.has(name) || schema.primaryKey.length === 0 }]
    }),
  )
}

function tieBreakOf(
  schema: TableSchema,
  mode: HistoryMode,
  served: ReadonlyMap<string, ServedColumn>,
): readonly ServedColumn[] {
  if (schema.primaryKey.length === 0) return [{ ...ROW_NUMBER, sql: 't.row_number', nullable: false }]
  const names = mode === 'type_2' ? [...schema.primaryKey, 'valid_from'] : schema.primaryKey
  return names.flatMap((name) => served.get(name) ?? [])
}

function shapeOf(
  schema: TableSchema,
  config: LookupConfig,
  columns: readonly Column[],
  physical: (name: string) => string,
): TableShape {
  const mode = historyMode(config)
  const keyed = schema.primaryKey.length > 0
  const key = schema.primaryKey.map(physical)
  const placed = columns.map(({ name, type }) => ({ name: physical(name), type }))
  return {
    kind: ENDPOINT,
    columns: keyed ? placed : [...placed, ROW_NUMBER],
    key: !keyed ? [ROW_NUMBER.name] : mode === 'type_2' ? [...key, physical('valid_from')] : key,
    indexes: indexesOf(schema, config, physical),
    traits: { mode, identity: key, tracked: [...(config.tracked_columns ?? [])].sort() },
  }
}

/** One for each index column but the one that leads the key; with history, one that allows one open row a key. */
function indexesOf(
  schema: TableSchema,
  config: LookupConfig,
  physical: (name: string) => string,
): readonly TableIndex[] {
  const listed = indexColumns(config, schema).filter((name) => name !== schema.primaryKey[0])
  const single = listed.map((name) => ({ columns: [physical(name)], unique: false }))
  if (historyMode(config) !== 'type_2') return single
  const where = quoteIdentifier(physical('is_current'))
  return [{ columns: schema.primaryKey.map(physical), unique: true, where }, ...single]
}
