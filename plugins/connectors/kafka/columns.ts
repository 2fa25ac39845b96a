/** Which columns a topic has: those that are named, or those that some of its records show. */
import { type Column, jsonCells, type LogicalType, parseJsonAsWritten } from '@sluice/sdk'
import type { AvroNode, Field } from '../files/avro/schema.ts'
import { Values } from '../files/avro/values.ts'
import { SeenJson } from '../files/infer.ts'
import { isColumnName, MAX_COLUMNS } from '../files/table-settings.ts'
import type { ClusterClient, PartitionRange } from './cluster.ts'
import type { Readers } from './decoder.ts'
import { tooMuch } from './failure.ts'
import { committedOf, fetchedFrom } from './partition-records.ts'
import { schemaUnusable } from './registry/failure.ts'
import { KEY_COLUMN, METADATA_COLUMNS, type NamedType, type TopicTable } from './topic-settings.ts'
import type { TopicPlaces } from './wire/answers.ts'
import type { KafkaRecord } from './wire/records.ts'

const SAMPLE_PARTITIONS = 4
const SAMPLE_RECORDS = 200
const SAMPLE_BYTES = 512 * 1024
const NO_READERS: Readers = { value: null, key: null }

/** What values hold, key columns of an upsert included; without those of where a record stood. */
export async function valueColumns(
  table: TopicTable,
  topic: TopicPlaces,
  ranges: readonly PartitionRange[],
  client: ClusterClient,
  signal: AbortSignal,
  readers: Readers = NO_READERS,
): Promise<readonly NamedType[]> {
  const { columns, avro, mode, subjects } = table
  if (columns !== null) return withKey(table, columns, readers)
  if (avro !== null)
    return withKey(
      table,
      avro.fields.map(({ name, type }) => ({ name, type: type ?? 'string' })),
      readers,
    )
  if (subjects.value !== null) return withKey(table, registeredColumns(readers.value), readers)
  const seen = new Map<string, SeenJson>()
  const taken = new Set<string>(table.metadata ? [...METADATA_COLUMNS, KEY_COLUMN].map(({ name }) => name) : [])
  for await (const { key, value } of sampled(topic, ranges, client, signal)) {
    look(value, seen, taken)
    if (mode === 'upsert' && table.keyFormat === 'json') look(key, seen, taken)
  }
  if (seen.size > MAX_COLUMNS)
    throw tooMuch(
      `the records of the topic have more than ${MAX_COLUMNS} fields`,
      'List under columns those that are to be read.',
    )
  return withKey(
    table,
    [...seen].map(([name, { type }]) => ({ name, type: keyAsText(table, name) ?? type })),
    readers,
  )
}

/**
 * Keys that nobody has described are texts, whatever a sample shows: rows are told apart by them, in reads that have seen
 * different samples.
 */
function keyAsText({ primaryKey }: TopicTable, name: string): 'string' | null {
  return primaryKey.includes(name) ? 'string' : null
}

function withKey(table: TopicTable, columns: readonly NamedType[], { key }: Readers): readonly NamedType[] {
  const known = new Set([...columns, ...ownColumns(table)].map(({ name }) => name))
  const lacking = table.primaryKey.filter((name) => !known.has(name))
  const types = table.mode === 'upsert' && key !== null ? keyTypes(key, table) : new Map<string, LogicalType>()
  const isSaid = table.columns !== null
  return [
    ...lacking.map((name) => ({ name, type: types.get(name) ?? ('string' as const) })),
    ...columns.map(({ name, type }) => ({ name, type: isSaid ? type : (types.get(name) ?? type) })),
  ]
}

/** A key that is no record is the one column of the key. Throws INVALID_DATA. */
function keyTypes(key: AvroNode, { primaryKey, subjects }: TopicTable): ReadonlyMap<string, LogicalType> {
  if (key.kind !== 'record' && primaryKey.length === 1)
    return new Map([[primaryKey[0] ?? '', new Values().of(key).type ?? 'string']])
  const fields = key.kind === 'record' ? key.fields : []
  const lacking = primaryKey.find((name) => !fields.some((field) => field.name === name))
  if (lacking !== undefined)
    throw schemaUnusable(subjects.key ?? '', `it has no field ${JSON.stringify(lacking)}, which primary_key names`)
  const types = typesOf(fields)
  return new Map(
    primaryKey.flatMap((name) => types.filter((one) => one.name === name)).map((one) => [one.name, one.type]),
  )
}

function typesOf(fields: readonly Field[]): readonly NamedType[] {
  const values = new Values()
  return fields.map(({ name, node }) => ({ name, type: values.of(node).type ?? 'string' }))
}

function registeredColumns(value: AvroNode | null): readonly NamedType[] {
  if (value?.kind !== 'record' || value.fields.length === 0) return []
  return typesOf(value.fields)
}

export function allColumns(table: TopicTable, values: readonly NamedType[]): readonly Column[] {
  const all = [...values.map(({ name, type }) => ({ name, type, nullable: true })), ...ownColumns(table)]
  return all.map((column) => ({ ...column, nullable: column.nullable && !table.primaryKey.includes(column.name) }))
}

/** Of where a record stood. */
function ownColumns({ mode, metadata }: TopicTable): readonly Column[] {
  return metadata ? [...(mode === 'append' ? [KEY_COLUMN] : []), ...METADATA_COLUMNS] : []
}

function look(bytes: Buffer | null, seen: Map<string, SeenJson>, taken: ReadonlySet<string>): void {
  if (bytes === null) return
  let cells: ReturnType<typeof jsonCells>
  try {
    cells = jsonCells(parseJsonAsWritten(bytes.toString('utf8')))
  } catch {
    // Told as a rejected row when it is read.
    return
  }
  for (const [name, cell] of cells ?? []) {
    if (!isColumnName(name) || taken.has(name)) continue
    const column = seen.get(name) ?? new SeenJson()
    seen.set(name, column)
    column.add(cell)
  }
}

/** The first records say what there was, the last what there is. */
async function* sampled(
  topic: TopicPlaces,
  ranges: readonly PartitionRange[],
  client: ClusterClient,
  signal: AbortSignal,
): AsyncGenerator<KafkaRecord> {
  const filled = ranges.filter(({ first, end }) => first < end).slice(0, SAMPLE_PARTITIONS)
  for (const { partition, first, end } of filled) {
    const late = Math.max(first, end - SAMPLE_RECORDS)
    for (const offset of late > first ? [first, late] : [first]) {
      const span = { topic: topic.name, topicId: topic.id, partition, from: offset, to: end }
      const fetched = await fetchedFrom(span, offset, SAMPLE_BYTES, client, signal)
      if (fetched === null) continue
      let left = SAMPLE_RECORDS
      for (const { batch, marker, isAborted } of committedOf(fetched)) {
        if (marker !== null || isAborted) continue
        for (const record of batch.records()) {
          if (record.offset < offset) continue
          yield record
          left -= 1
          if (left === 0) break
        }
        if (left === 0) break
      }
    }
  }
}
