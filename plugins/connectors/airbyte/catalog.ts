/** Streams of a connector as tables: their columns, keys and cursors. */
import { createHash } from 'node:crypto'
import type { Column, DiscoveredTable } from '@sluice/sdk'
import { isColumnName, MAX_COLUMNS } from '../files/table-settings.ts'
import { answerInvalid } from './failure.ts'
import { type Fields, fieldsOf, namespaceOf } from './messages.ts'
import { typeOf } from './types.ts'

/** The schema of streams that are of no namespace. */
const NO_NAMESPACE = 'airbyte'
const MAX_STREAMS = 10_000
const MAX_NAME_CHARACTERS = 128

export interface Stream {
  readonly schema: string
  readonly name: string
  readonly namespace: string | null
  /** As the program said it, and wants to hear it. */
  readonly said: Fields
  readonly columns: readonly (Column & { readonly sourceType: string })[]
  readonly primaryKey: readonly string[]
  readonly cursor: readonly string[]
  readonly isIncremental: boolean
}

export interface Catalog {
  readonly streams: readonly Stream[]
  /** How many are left out, because their names, columns or schemas are none that a table can have. */
  readonly refused: number
}

/** Throws INVALID_DATA. */
export function catalogOf(said: readonly unknown[]): Catalog {
  if (said.length > MAX_STREAMS) throw answerInvalid(`its catalogue has more than ${MAX_STREAMS} streams`)
  const streams = new Map<string, Stream>()
  let refused = 0
  for (const each of said) {
    const stream = streamOf(fieldsOf(each) ?? {})
    const key = stream === null ? '' : `${stream.schema}.${stream.name}`
    if (stream === null || streams.has(key)) refused += 1
    else streams.set(key, stream)
  }
  const inOrder = [...streams].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, stream]) => stream)
  return { streams: inOrder, refused }
}

/** Null where no table can be made of it. */
function streamOf(said: Fields): Stream | null {
  const { name } = said
  const namespace = namespaceOf(said['namespace'])
  const schema = namespace ?? NO_NAMESPACE
  if (!isName(name) || !isName(schema) || schema.includes('.')) return null
  const properties = Object.entries(fieldsOf(fieldsOf(said['json_schema'])?.['properties']) ?? {})
  if (properties.length === 0 || properties.length > MAX_COLUMNS) return null
  if (!properties.every(([column]) => isColumnName(column))) return null
  if (new Set(properties.map(([column]) => column.toLowerCase())).size < properties.length) return null
  const primaryKey = pathsOf(said['source_defined_primary_key'], properties)
  const modes = said['supported_sync_modes']
  return {
    ...{ schema, name, namespace, said, primaryKey },
    cursor: pathsOf([said['default_cursor_field']], properties),
    isIncremental: Array.isArray(modes) && modes.includes('incremental') && said['source_defined_cursor'] === true,
    columns: properties.map(([column, property]) => ({
      name: column,
      type: typeOf(property),
      nullable: !primaryKey.includes(column),
      sourceType: sourceTypeOf(property),
    })),
  }
}

function isName(value: unknown): value is string {
  return typeof value === 'string' && value.length <= MAX_NAME_CHARACTERS && isColumnName(value)
}

/** Fields by the way to them. A part that lies within another, or is not there, is none of a table's: then there are none at all. */
function pathsOf(said: unknown, properties: readonly (readonly [string, unknown])[]): readonly string[] {
  if (!Array.isArray(said)) return []
  const names = said.map((path: unknown) => (Array.isArray(path) && path.length === 1 ? path[0] : path))
  const known = new Set<unknown>(properties.map(([name]) => name))
  const isWhole = names.every((name) => known.has(name)) && new Set(names).size === names.length
  return isWhole ? (names as string[]) : []
}

const MAX_TYPE_CHARACTERS = 100

function sourceTypeOf(property: unknown): string {
  const { type, format, airbyte_type: airbyteType } = fieldsOf(property) ?? {}
  const parts = [
    Array.isArray(type) ? type.filter((one) => typeof one === 'string').join('|') : type,
    format,
    airbyteType,
  ]
  const text = parts.filter((part) => typeof part === 'string' && part !== '').join(' ')
  return text === '' ? 'any' : text.toWellFormed().slice(0, MAX_TYPE_CHARACTERS)
}

export function tableOf({ schema, name, primaryKey, cursor, isIncremental, columns }: Stream): DiscoveredTable {
  const [column = null] = isIncremental ? cursor : []
  // A key says nothing of changes.
  const isKey = column !== null && primaryKey.length === 1 && primaryKey[0] === column
  return {
    ...{ schema, name, kind: 'table', estimatedRows: null, primaryKey, columns },
    suggestedCursor: isKey ? null : column,
  }
}

/** What rows are made by: those of another are another table's. */
export function shapeOf(columns: readonly Column[], primaryKey: readonly string[]): string {
  const parts = [columns.map(({ name, type }) => [name, type]), primaryKey]
  return createHash('sha256').update(JSON.stringify(parts)).digest('base64url').slice(0, 22)
}
