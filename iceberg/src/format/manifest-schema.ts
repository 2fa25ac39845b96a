import { parseDecimal } from '@sluice/sdk'
import { icebergPartitionType, type PartitionSpec } from './partitioning.ts'
import type { LakeSchema } from './table-schema.ts'

/** The Avro schemas of Iceberg's manifests and manifest lists: https://iceberg.apache.org/spec/#manifests. */

const optional = (name: string, type: unknown, fieldId: number) => ({
  name,
  type: ['null', type],
  default: null,
  'field-id': fieldId,
})

const required = (name: string, type: unknown, fieldId: number) => ({ name, type, 'field-id': fieldId })

function mapOf(keyId: number, valueId: number, valueType: string): unknown {
  const items = {
    type: 'record',
    name: `k${keyId}_v${valueId}`,
    fields: [required('key', 'int', keyId), required('value', valueType, valueId)],
  }
  return { type: 'array', logicalType: 'map', items }
}

const listOf = (elementId: number, items: unknown): unknown => ({ type: 'array', 'element-id': elementId, items })

export function manifestEntrySchema(spec: PartitionSpec, schema: LakeSchema): unknown {
  return {
    type: 'record',
    name: 'manifest_entry',
    fields: [
      required('status', 'int', 0),
      optional('snapshot_id', 'long', 1),
      optional('sequence_number', 'long', 3),
      optional('file_sequence_number', 'long', 4),
      required('data_file', dataFileSchema(spec, schema), 2),
    ],
  }
}

function dataFileSchema(spec: PartitionSpec, schema: LakeSchema): unknown {
  return {
    type: 'record',
    name: 'r2',
    fields: [
      required('content', 'int', 134),
      required('file_path', 'string', 100),
      required('file_format', 'string', 101),
      required('partition', partitionSchema(spec, schema), 102),
      required('record_count', 'long', 103),
      required('file_size_in_bytes', 'long', 104),
      optional('column_sizes', mapOf(117, 118, 'long'), 108),
      optional('value_counts', mapOf(119, 120, 'long'), 109),
      optional('null_value_counts', mapOf(121, 122, 'long'), 110),
      optional('nan_value_counts', mapOf(138, 139, 'long'), 137),
      optional('lower_bounds', mapOf(126, 127, 'bytes'), 125),
      optional('upper_bounds', mapOf(129, 130, 'bytes'), 128),
      optional('key_metadata', 'bytes', 131),
      optional('split_offsets', listOf(133, 'long'), 132),
      optional('equality_ids', listOf(136, 'int'), 135),
      optional('sort_order_id', 'int', 140),
    ],
  }
}

function partitionSchema(spec: PartitionSpec, schema: LakeSchema): unknown {
  const fields = spec.fields.map((field) =>
    optional(avroName(field.name), avroType(icebergPartitionType(field, schema), field['field-id']), field['field-id']),
  )
  return { type: 'record', name: 'r102', fields }
}

function avroType(type: string, fieldId: number): unknown {
  const decimal = parseDecimal(type)
  if (decimal !== null) {
    const size = decimalBytes(decimal.precision)
    return { type: 'fixed', name: `decimal_${fieldId}`, size, logicalType: 'decimal', ...decimal }
  }
  switch (type) {
    case 'date':
      return { type: 'int', logicalType: 'date' }
    case 'timestamp':
    case 'timestamptz':
      return { type: 'long', logicalType: 'timestamp-micros', 'adjust-to-utc': type === 'timestamptz' }
    case 'uuid':
      return { type: 'fixed', name: `uuid_${fieldId}`, size: 16, logicalType: 'uuid' }
    case 'binary':
      return 'bytes'
    default:
      return type
  }
}

/** Bytes that every unscaled value of the precision fits into. */
export function decimalBytes(precision: number): number {
  const largest = 10n ** BigInt(precision) - 1n
  let bytes = 1
  while (largest >= 1n << BigInt(8 * bytes - 1)) bytes += 1
  return bytes
}

/** Avro names are narrower than ours; others are written as Iceberg's own library does: `_x` and the code in hex. */
export function avroName(name: string): string {
  const escaped = Array.from(name, (character, at) => {
    if (/[A-Za-z_]/.test(character) || (at > 0 && /\d/.test(character))) return character
    return /\d/.test(character) ? `_${character}` : `_x${(character.codePointAt(0) ?? 0).toString(16).toUpperCase()}`
  })
  return escaped.join('')
}

const partitionSummary = {
  type: 'record',
  name: 'r508',
  fields: [
    required('contains_null', 'boolean', 509),
    optional('contains_nan', 'boolean', 518),
    optional('lower_bound', 'bytes', 510),
    optional('upper_bound', 'bytes', 511),
  ],
}

export const MANIFEST_LIST_SCHEMA: unknown = {
  type: 'record',
  name: 'manifest_file',
  fields: [
    required('manifest_path', 'string', 500),
    required('manifest_length', 'long', 501),
    required('partition_spec_id', 'int', 502),
    required('content', 'int', 517),
    required('sequence_number', 'long', 515),
    required('min_sequence_number', 'long', 516),
    required('added_snapshot_id', 'long', 503),
    required('added_files_count', 'int', 504),
    required('existing_files_count', 'int', 505),
    required('deleted_files_count', 'int', 506),
    required('added_rows_count', 'long', 512),
    required('existing_rows_count', 'long', 513),
    required('deleted_rows_count', 'long', 514),
    optional('partitions', listOf(508, partitionSummary), 507),
    optional('key_metadata', 'bytes', 519),
  ],
}
