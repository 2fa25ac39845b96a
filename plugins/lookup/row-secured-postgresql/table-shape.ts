/** What a table looks like, apart from its name and whose rows it holds: two datasets of one shape may share it. */
import type { LogicalType } from '@sluice/sdk'
import { columnType } from './column-types.ts'
import { quoteIdentifier, shortHash } from './identifiers.ts'

export interface TableColumn {
  /** Physical: see `physicalColumns`. */
  readonly name: string
  readonly type: LogicalType
}

export interface TableIndex {
  /** What follows `tenant_id`. */
  readonly columns: readonly string[]
  readonly unique: boolean
  /** SQL of a partial index. */
  readonly where?: string
}

export interface TableShape {
  /** `lookup`, `timeseries`: what kind of table it is. */
  readonly kind: string
  readonly columns: readonly TableColumn[]
  /** The primary key, after `tenant_id`. */
  readonly key: readonly string[]
  readonly indexes: readonly TableIndex[]
  /** Whatever else must be equal, such as the history mode. */
  readonly traits: Readonly<Record<string, unknown>>
}

/** `tenant_id`, the key, then the others by name: the order tells nothing of who came first. */
export function orderedColumns(shape: TableShape): readonly TableColumn[] {
  const byName = new Map(shape.columns.map((column) => [column.name, column]))
  const key = shape.key.flatMap((name) => byName.get(name) ?? [])
  const others = shape.columns.filter((column) => !shape.key.includes(column.name))
  return [...key, ...others.sort((left, right) => (left.name < right.name ? -1 : 1))]
}

/** Equal for equal shapes, whatever the order in which columns, indexes and traits were named. */
export function shapeHash(shape: TableShape): string {
  const canonical = [
    shape.kind,
    orderedColumns(shape).map((column) => [column.name, column.type]),
    shape.key,
    shape.indexes.map((index) => JSON.stringify([index.columns, index.unique, index.where ?? ''])).sort(),
    Object.entries(shape.traits).sort(([left], [right]) => (left < right ? -1 : 1)),
  ]
  return shortHash(JSON.stringify(canonical), 32)
}

/** The column definitions of a table or partition. A tenant's own partition fills in its tenant by itself. */
export function columnDefinitions(shape: TableShape, tenantDefault?: string): string {
  const tenant = `tenant_id text collate "C" not null${tenantDefault === undefined ? '' : ` default ${tenantDefault}`}`
  const columns = orderedColumns(shape).map((column) => {
    const notNull = shape.key.includes(column.name) ? ' not null' : ''
    return `${quoteIdentifier(column.name)} ${columnType(column.type)}${notNull}`
  })
  return [tenant, ...columns].join(', ')
}

/** Key and indexes of a table; the same statements make those of a partition, which attaching then adopts. */
export function indexStatements(shape: TableShape, table: string): readonly string[] {
  const list = (columns: readonly string[]) => ['tenant_id', ...columns.map(quoteIdentifier)].join(', ')
  const key = shape.key.length > 0 ? [`alter table ${table} add primary key (${list(shape.key)})`] : []
  const indexes = shape.indexes.map((index) => {
    const where = index.where === undefined ? '' : ` where ${index.where}`
    return `create ${index.unique ? 'unique ' : ''}index on ${table} (${list(index.columns)})${where}`
  })
  return [...key, ...indexes]
}
