import { typeName } from '@sluice/sdk'
import type { SortOrder } from './metadata.ts'
import type { LakeSchema } from './table-schema.ts'

export interface PlannedSortOrder {
  readonly order: SortOrder
  readonly isNew: boolean
}

/** As Iceberg has it: https://iceberg.apache.org/spec/#sorting. */
interface SortField {
  readonly transform: 'identity'
  readonly 'source-id': number
  readonly direction: 'asc'
  readonly 'null-order': 'nulls-last'
}

export const UNSORTED: SortOrder = { 'order-id': 0, fields: [] }

/** Engines order these as Iceberg does. Of the others (uuid, binary, documents) nothing is claimed. */
const ORDERED: readonly string[] = [
  'string',
  'boolean',
  'integer',
  'long',
  'float',
  'double',
  'decimal',
  'date',
  'timestamp',
  'timestamptz',
]

/** What the metadata may say of rows that lie in the order of `columns`: as much of it as every engine agrees on. */
export function planSortOrder(
  known: readonly SortOrder[],
  schema: LakeSchema,
  columns: readonly string[],
): PlannedSortOrder {
  const fields: SortField[] = []
  for (const name of columns) {
    const field = schema.fields.find((candidate) => candidate.name === name)
    if (field === undefined || !ORDERED.includes(typeName(field.type))) break
    fields.push({ transform: 'identity', 'source-id': field.id, direction: 'asc', 'null-order': 'nulls-last' })
  }
  const equal = known.find((order) => JSON.stringify(order.fields) === JSON.stringify(fields))
  if (equal !== undefined) return { order: equal, isNew: false }
  if (fields.length === 0) return { order: UNSORTED, isNew: true }
  const highest = known.reduce((id, order) => Math.max(id, order['order-id']), 0)
  return { order: { 'order-id': highest + 1, fields }, isNew: true }
}

/** The columns of an order, for rewriting rows as they lie; empty where it sorts by what we do not know. */
export function sortColumns(order: SortOrder | undefined, schema: LakeSchema): readonly string[] {
  const names: string[] = []
  for (const field of (order?.fields ?? []) as readonly Partial<SortField>[]) {
    const column = schema.fields.find((candidate) => candidate.id === field['source-id'])
    const plain = field.transform === 'identity' && field.direction === 'asc' && field['null-order'] === 'nulls-last'
    if (column === undefined || !plain) break
    names.push(column.name)
  }
  return names
}
