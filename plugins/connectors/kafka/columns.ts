/** Which columns a topic has: those that are named, or those that some of its records show. */
import { type Column, jsonCells, parseJsonAsWritten } from '@sluice/sdk'
import { SeenJson } from '../files/infer.ts'
import { isColumnName, MAX_COLUMNS } from '../files/table-settings.ts'
import type { ClusterClient, PartitionRange } from './cluster.ts'
import { tooMuch } from './failure.ts'
import { committedOf, fetchedFrom } from './partition-records.ts'
import { KEY_COLUMN, METADATA_COLUMNS, type NamedType, type TopicTable } from './topic-settings.ts'
import type { TopicPlaces } from './wire/answers.ts'
import type { KafkaRecord } from './wire/records.ts'

const SAMPLE_PARTITIONS = 4
const SAMPLE_RECORDS = 200
const SAMPLE_BYTES = 512 * 1024

/** What values hold, key columns of an upsert included; without those of where a record stood. */
export async function valueColumns(
  table: TopicTable,
  topic: TopicPlaces,
  ranges: readonly PartitionRange[],
  client: ClusterClient,
  signal: AbortSignal,
): Promise<readonly NamedType[]> {
  const { columns, avro, mode } = table
  if (columns !== null) return withKey(table, columns)
  if (avro !== null)
    return withKey(
      table,
      avro.fields.map(({ name, type }) => ({ name, type: type ?? 'string' })),
    )
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
  )
}

/**
 * Keys that nobody has described are texts, whatever a sample shows: rows are told apart by them, in reads that have seen
 * different samples.
 */
function keyAsText({ primaryKey }: TopicTable, name: string): 'string' | null {
  return primaryKey.includes(name) ? 'string' : null
}

function withKey(table: TopicTable, columns: readonly NamedType[]): readonly NamedType[] {
  const known = new Set([...columns, ...ownColumns(table)].map(({ name }) => name))
  const lacking = table.primaryKey.filter((name) => !known.has(name))
  return [...lacking.map((name) => ({ name, type: 'string' }) as const), ...columns]
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
