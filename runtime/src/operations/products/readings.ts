/** What each way to read a product gives and takes, whatever tells it: a client in some language, or a document. */
import type { ProductSchema, SchemaColumn } from './product-schema.ts'

export interface ShownColumn {
  readonly name: string
  readonly type: string
  /** Null alone, or beside its values, or never. */
  readonly nulls: 'only' | 'some' | 'none'
  readonly mask: string | null
  /** Whose class and description it has; null: the endpoint adds it. */
  readonly of: string | null
}

export interface Readings {
  /** Of queries, of changed rows and of time ranges. */
  readonly row: readonly ShownColumn[]
  /** Columns that are omitted for the caller. */
  readonly omitted: readonly string[]
  readonly lookup: {
    readonly row: readonly ShownColumn[]
    /** Null: the key is masked, and rows are found by other columns alone. */
    readonly key: readonly ShownColumn[] | null
    readonly filters: readonly ShownColumn[]
    readonly keepsHistory: boolean
  } | null
  readonly realtime: { readonly row: readonly ShownColumn[]; readonly key: readonly ShownColumn[] } | null
  readonly timeseries: { readonly filters: readonly ShownColumn[]; readonly intervals: readonly string[] } | null
  /** The key that removed rows are told by; null: there is none for the caller. */
  readonly changes: readonly ShownColumn[] | null
  /** Ways to read the product that the caller's masks close, and why. */
  readonly closed: readonly string[]
}

export function readingsOf(schema: ProductSchema): Readings {
  const row = schema.columns.flatMap(shown)
  const keyColumns = schema.columns.filter((column) => column.key)
  const key = keyColumns.flatMap(shown)
  // Where two rows could share a mask, they have no key: changes tell no rows apart, and no history is kept.
  const hasKey = keyColumns.length > 0 && keyColumns.every(({ mask }) => mask === null || mask === 'hash')
  const { lookup, realtime, timeseries } = schema
  const isHistoryLost = lookup !== null && lookup.history !== 'current' && !hasKey
  const realtimeKey = (realtime?.key ?? []).flatMap((name) => row.filter((column) => column.name === name))
  const isKeyShown = realtimeKey.length === (realtime?.key.length ?? 0) && realtimeKey.every(isClear)
  const isTimeShown = row.some((column) => column.name === timeseries?.time && isClear(column))
  return {
    row,
    omitted: schema.columns.filter(({ mask }) => mask === 'omit').map(({ name }) => name),
    lookup:
      lookup === null || isHistoryLost
        ? null
        : {
            row: [...row, ...historyColumns(lookup, schema.columns)],
            key: key.length > 0 && key.length === keyColumns.length && key.every(isClear) ? key : null,
            filters: row.filter((column) => lookup.by.includes(column.name) && isClear(column)),
            keepsHistory: lookup.history === 'type_2',
          },
    realtime:
      realtime === null || !isKeyShown || realtimeKey.length === 0
        ? null
        : { row: row.filter(({ name }) => realtime.columns.includes(name)), key: realtimeKey },
    timeseries:
      timeseries === null || !isTimeShown ? null : { filters: row.filter(isClear), intervals: timeseries.intervals },
    changes: hasKey ? key : null,
    closed: [
      ...(isHistoryLost ? ['lookup: the key of its states is masked'] : []),
      ...(lookup !== null && !isHistoryLost && !key.every(isClear) ? ['rows of the lookup by key: it is masked'] : []),
      ...(realtime !== null && !isKeyShown ? ['realtime: its key is masked'] : []),
      ...(timeseries !== null && !isTimeShown ? ['timeseries: its time is masked'] : []),
      ...(keyColumns.length > 0 && !hasKey ? ['changes: the key is masked'] : []),
      ...(keyColumns.length === 0 ? ['changes: the product has no key'] : []),
    ],
  }
}

/** A column that rows may be chosen by. */
const isClear = ({ mask, type }: ShownColumn): boolean => mask === null && type !== 'json'

function shown({ name, type, nullable, mask }: SchemaColumn): readonly ShownColumn[] {
  if (mask === 'omit') return []
  return [{ name, type, nulls: nullsOf(nullable, mask), mask, of: name }]
}

/** A redacted value does not even say that it is missing; a hash does, and a mask that is not known may. */
function nullsOf(nullable: boolean, mask: string | null): ShownColumn['nulls'] {
  if (mask === 'null') return 'only'
  if (mask === 'redact' || mask === 'partial') return 'none'
  return nullable || (mask !== null && mask !== 'hash') ? 'some' : 'none'
}

/** What a lookup with a history adds to each row. */
function historyColumns(
  { history, tracked }: NonNullable<ProductSchema['lookup']>,
  columns: readonly SchemaColumn[],
): readonly ShownColumn[] {
  const added = { mask: null, of: null } as const
  if (history === 'type_2') {
    return [
      { name: 'valid_from', type: 'timestamptz', nulls: 'none', ...added },
      { name: 'valid_to', type: 'timestamptz', nulls: 'some', ...added },
      { name: 'is_current', type: 'boolean', nulls: 'none', ...added },
    ]
  }
  if (history !== 'type_3') return []
  return tracked.flatMap((name) =>
    columns
      .filter((column) => column.name === name)
      .flatMap(shown)
      .map((column) => ({ ...column, name: `previous_${name}`, nulls: column.nulls === 'only' ? 'only' : 'some' })),
  )
}
