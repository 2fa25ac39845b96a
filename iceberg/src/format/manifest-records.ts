import { parseDecimal, typeName } from '@sluice/sdk'
import type { AvroContent } from './avro-file.ts'
import type { DataFile } from './data-file.ts'
import type { Int64 } from './int64.ts'
import type { EntryStatus, ManifestEntry, ManifestFile } from './manifest-entries.ts'
import { avroName, decimalBytes } from './manifest-schema.ts'
import { type PartitionField, type PartitionSpec, partitionType } from './partitioning.ts'
import { encodeStored, fromTwosComplement, type StoredValue } from './stored-value.ts'
import { fromIceberg, type IcebergSchema, type LakeSchema } from './table-schema.ts'
import { Turn } from './turn.ts'

/** Between a manifest's Avro records, which have Iceberg's names, and our values. */

interface KeyValue<Value> {
  readonly key: number
  readonly value: Value
}

interface DataFileRecord {
  readonly content?: number
  readonly file_path: string
  readonly file_format: string
  readonly partition: Readonly<Record<string, unknown>>
  readonly record_count: Int64
  readonly file_size_in_bytes: Int64
  readonly column_sizes: readonly KeyValue<Int64>[] | null
  readonly value_counts: readonly KeyValue<Int64>[] | null
  readonly null_value_counts: readonly KeyValue<Int64>[] | null
  readonly nan_value_counts: readonly KeyValue<Int64>[] | null
  readonly lower_bounds: readonly KeyValue<Uint8Array>[] | null
  readonly upper_bounds: readonly KeyValue<Uint8Array>[] | null
  readonly sort_order_id: number | null
}

interface EntryRecord {
  readonly status: number
  readonly snapshot_id: Int64 | null
  readonly sequence_number: Int64 | null
  readonly file_sequence_number: Int64 | null
  readonly data_file: DataFileRecord
}

export function dataFileRecord(file: DataFile, spec: PartitionSpec, schema: LakeSchema): unknown {
  return {
    content: file.content === 'data' ? 0 : 1,
    file_path: file.uri,
    file_format: 'PARQUET',
    partition: Object.fromEntries(
      spec.fields.map((field, at) => [avroName(field.name), toAvro(field, schema, file.partition[at] ?? null)]),
    ),
    record_count: file.rows,
    file_size_in_bytes: file.sizeBytes,
    column_sizes: pairs(file.columnSizes),
    value_counts: pairs(file.valueCounts),
    null_value_counts: pairs(file.nullCounts),
    nan_value_counts: pairs(file.nanCounts),
    lower_bounds: pairs(file.lowerBounds),
    upper_bounds: pairs(file.upperBounds),
    key_metadata: null,
    split_offsets: null,
    equality_ids: null,
    sort_order_id: file.sortOrderId,
  }
}

function pairs<Value>(map: ReadonlyMap<number, Value>): readonly KeyValue<Value>[] {
  return Array.from(
    map,
    ([key, value]) => ({ key, value: value instanceof Uint8Array ? asBuffer(value) : value }) as KeyValue<Value>,
  )
}

const asBuffer = (bytes: Uint8Array): Buffer => Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)

function toAvro(field: PartitionField, schema: LakeSchema, value: StoredValue | null): unknown {
  const type = partitionType(field, schema)
  if (value === null || type === null) return null
  switch (typeName(type)) {
    case 'decimal': {
      const size = decimalBytes(parseDecimal(type)?.precision ?? 38)
      const bytes = encodeStored(type, value)
      return Buffer.concat([Buffer.alloc(size - bytes.length, (value as bigint) < 0n ? 0xff : 0), bytes])
    }
    case 'uuid':
      return encodeStored(type, value)
    case 'binary':
      return asBuffer(value as Uint8Array)
    default:
      return value
  }
}

/** Throws a plain Error where a record is not what it should be. Gives way to others, as reading the records does. */
export async function entriesFromRecords(
  content: AvroContent,
  manifest: ManifestFile,
): Promise<readonly ManifestEntry[]> {
  const fields = JSON.parse(content.metadata.get('partition-spec') ?? '[]') as readonly PartitionField[]
  const schema = fromIceberg(JSON.parse(content.metadata.get('schema') ?? 'null') as IcebergSchema)
  const names = partitionNames(content.schema)
  const entries: ManifestEntry[] = []
  const turn = new Turn()
  for (const record of content.records as readonly EntryRecord[]) {
    const status = statusOf(record.status)
    const inherits = status === 'added'
    entries.push({
      status,
      snapshotId: record.snapshot_id ?? manifest.added_snapshot_id,
      sequenceNumber: known(record.sequence_number ?? (inherits ? manifest.sequence_number : null)),
      fileSequenceNumber: known(record.file_sequence_number ?? (inherits ? manifest.sequence_number : null)),
      file: toDataFile(record.data_file, fields, schema, names, manifest),
    })
    if (turn.isOver()) await turn.next()
  }
  return entries
}

function statusOf(code: number): EntryStatus {
  const status = (['existing', 'added', 'deleted'] as const)[code]
  if (status === undefined) throw new Error(`manifest entry with status ${code}`)
  return status
}

function known(value: Int64 | null): Int64 {
  if (value === null) throw new Error('manifest entry without a sequence number')
  return value
}

/** Field id → name in the records: writers escape names differently, but all write the ids. */
function partitionNames(schema: unknown): ReadonlyMap<number, string> {
  type Field = { readonly name: string; readonly type: unknown; readonly 'field-id'?: number }
  const fieldsOf = (type: unknown): readonly Field[] => (type as { fields?: readonly Field[] } | null)?.fields ?? []
  const dataFile = fieldsOf(schema).find((field) => field['field-id'] === 2)
  const partition = fieldsOf(dataFile?.type).find((field) => field['field-id'] === 102)
  return new Map(fieldsOf(partition?.type).map((field) => [field['field-id'] ?? -1, field.name]))
}

function toDataFile(
  record: DataFileRecord,
  fields: readonly PartitionField[],
  schema: LakeSchema,
  names: ReadonlyMap<number, string>,
  manifest: ManifestFile,
): DataFile {
  const content = record.content ?? 0
  if (content > 1 || record.file_format.toUpperCase() !== 'PARQUET') {
    throw new Error(`a file of content ${content} and format ${JSON.stringify(record.file_format)} is not supported`)
  }
  return {
    content: content === 0 ? 'data' : 'deletes',
    uri: record.file_path,
    rows: Number(record.record_count),
    sizeBytes: Number(record.file_size_in_bytes),
    specId: manifest.partition_spec_id,
    partition: fields.map((field) =>
      fromAvro(field, schema, record.partition[names.get(field['field-id']) ?? field.name]),
    ),
    columnSizes: toNumbers(record.column_sizes),
    valueCounts: toNumbers(record.value_counts),
    nullCounts: toNumbers(record.null_value_counts),
    nanCounts: toNumbers(record.nan_value_counts),
    lowerBounds: toMap(record.lower_bounds),
    upperBounds: toMap(record.upper_bounds),
    sortOrderId: record.sort_order_id,
  }
}

function toNumbers(list: readonly KeyValue<Int64>[] | null): ReadonlyMap<number, number> {
  return new Map((list ?? []).map(({ key, value }) => [key, Number(value)]))
}

function toMap(list: readonly KeyValue<Uint8Array>[] | null): ReadonlyMap<number, Uint8Array> {
  return new Map((list ?? []).map(({ key, value }) => [key, value]))
}

function fromAvro(field: PartitionField, schema: LakeSchema, value: unknown): StoredValue | null {
  const type = partitionType(field, schema)
  if (value === null || value === undefined || type === null) return null
  switch (typeName(type)) {
    case 'decimal':
      return fromTwosComplement(value as Uint8Array)
    case 'uuid':
      return (value as Buffer).toString('hex').replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5')
    case 'long':
    case 'timestamp':
    case 'timestamptz':
      return BigInt(value as Int64)
    default:
      return value as StoredValue
  }
}
