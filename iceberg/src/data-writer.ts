import { randomUUID } from 'node:crypto'
import { type EngineStep, fileCell, parquetOptions, quoteName, quoteText, type StepResult } from '@sluice/engine'
import { SluiceError } from '@sluice/sdk'
import type { DataFile } from './format/data-file.ts'
import { fileFields } from './format/marks.ts'
import { type PartitionSpec, parsePartitionKey, partitionKeySql } from './format/partitioning.ts'
import { UNSORTED } from './format/sort-order.ts'
import { type ColumnStatistics, fileMetrics } from './format/statistics.ts'
import type { LakeField, LakeSchema } from './format/table-schema.ts'
import { RESERVED_COLUMNS_PREFIX } from './names.ts'

/** Rows to write as data files of a table. */
export interface DataRequest {
  /** A statement whose rows are written. Its columns are taken by name; all of the schema's must be there. */
  readonly select: string
  readonly schema: LakeSchema
  readonly spec: PartitionSpec
  /** What the metadata calls the order of `sortBy`. */
  readonly sortOrderId: number
  /** An existing folder, in which the engine makes one of its own. */
  readonly dir: string
  /** A new file is begun when one has grown past this, which is looked at after every row group. */
  readonly targetFileBytes?: number
  /** Rows lie in this order in the files, so that bounds tell the files apart. */
  readonly sortBy?: readonly string[]
  /** See `WriteTarget.marks`. */
  readonly marks?: boolean
}

/** A file that the engine has written and the table does not have yet. */
export interface WrittenFile {
  readonly localFile: string
  readonly metrics: Omit<DataFile, 'uri'>
}

const DEFAULT_TARGET_BYTES = 128 * 1024 * 1024
const ROW_GROUP_ROWS = 122_880
/** Files of one job. A partitioning that makes more is a mistake, and its manifests would not be readable any more. */
export const MAX_FILES = 10_000

/** The steps of an own job that write the files; the last one collects what `parseWritten` reads. */
export function writeSteps(request: DataRequest): readonly EngineStep[] {
  const { schema, spec } = request
  const columns = fileFields(schema.fields, request.marks).map(({ name, type }) => fileCell(name, type))
  const rows = `SELECT ${columns.join(', ')} FROM (${request.select}\n)`
  const keys = spec.fields.map((field, at) => {
    const source = sourceOf(schema, field['source-id'])
    return `${partitionKeySql(field, source, quoteName(source.name))} AS ${keyName(at)}`
  })
  const keyed = keys.length === 0 ? rows : `SELECT *, ${keys.join(', ')} FROM (${rows})`
  const way = keys.length === 0 ? sized(request) : partitioned(request)
  return [
    copyStep(
      request,
      `${keyed}${orderBy(
        request,
        spec.fields.map((_, at) => keyName(at)),
      )}`,
      way,
    ),
  ]
}

/** A file may be this much larger than asked for before it is worth being written again. */
const TOLERANCE = 1.25

/**
 * The engine cannot part files by a partition's value and by their size at once. What a partition has got in one file
 * that is too large is written again into several.
 */
export function isTooLarge({ spec, targetFileBytes }: DataRequest, { metrics }: WrittenFile): boolean {
  const hasSeveralGroups = metrics.rows > ROW_GROUP_ROWS
  return (
    spec.fields.length > 0 &&
    hasSeveralGroups &&
    metrics.sizeBytes > (targetFileBytes ?? DEFAULT_TARGET_BYTES) * TOLERANCE
  )
}

/** Collects what `parseSplit` reads. */
export function splitStep(request: DataRequest, { localFile }: WrittenFile): EngineStep {
  const fields = fileFields(request.schema.fields, request.marks)
  const columns = fields.map(({ name }) => quoteName(name)).join(', ')
  const rows = `SELECT ${columns} FROM read_parquet(${quoteText(localFile)}, hive_partitioning = false)`
  return copyStep(request, `${rows}${orderBy(request)}`, sized(request))
}

function copyStep(request: DataRequest, rows: string, way: string): EngineStep {
  const target = quoteText(`${request.dir}/${randomUUID()}`)
  return {
    sql: `COPY (${rows}) TO ${target} (${[...options(request), way].join(', ')})`,
    rows: 'collect',
    maxRows: MAX_FILES,
  }
}

const sized = ({ targetFileBytes }: DataRequest): string => `FILE_SIZE_BYTES ${targetFileBytes ?? DEFAULT_TARGET_BYTES}`

const partitioned = ({ spec }: DataRequest): string =>
  `PARTITION_BY (${spec.fields.map((_, at) => keyName(at)).join(', ')}), WRITE_PARTITION_COLUMNS false`

/** @param keys of partitions, whose rows then come together */
function orderBy({ sortBy = [] }: DataRequest, keys: readonly string[] = []): string {
  return sortBy.length === 0 ? '' : ` ORDER BY ${[...keys, ...sortBy.map(quoteName)].join(', ')}`
}

function options({ schema, marks }: DataRequest): readonly string[] {
  const ids = fileFields(schema.fields, marks).map((field) => `${quoteName(field.name)}: ${field.id}`)
  return [
    ...parquetOptions(schema.fields.map(({ type }) => type)),
    'COMPRESSION zstd',
    `ROW_GROUP_SIZE ${ROW_GROUP_ROWS}`,
    `FIELD_IDS {${ids.join(', ')}}`,
    "FILENAME_PATTERN '{uuid}'",
    'RETURN_STATS',
  ]
}

const keyName = (at: number): string => `${RESERVED_COLUMNS_PREFIX}${at}`

function sourceOf(schema: LakeSchema, id: number): LakeField {
  const source = schema.fields.find((field) => field.id === id)
  if (source !== undefined) return source
  throw new SluiceError('CONFIG', 'the table is partitioned by a column that its new schema has not', {
    code: 'lake_partitioning_invalid',
    remedy: 'Keep the column, or change the partitioning.',
  })
}

/**
 * Reads the result of `writeSteps`. Throws INVALID_DATA where rows cannot be stored: `required_value_missing`,
 * `lake_partition_value_invalid`.
 */
export function parseWritten(
  request: Pick<DataRequest, 'schema' | 'spec' | 'dir' | 'sortOrderId'>,
  result: StepResult,
): readonly WrittenFile[] {
  // Its threads write a partition's rows in an order that is nearly, and not quite, the one asked for.
  const sortOrderId = request.spec.fields.length === 0 ? request.sortOrderId : UNSORTED['order-id']
  return parseFiles({ ...request, sortOrderId }, result, (keys) => partitionOf(request, keys))
}

/** Reads the result of a `splitStep` for that file. */
export function parseSplit(request: DataRequest, { metrics }: WrittenFile, result: StepResult): readonly WrittenFile[] {
  return parseFiles(request, result, () => metrics.partition)
}

function parseFiles(
  request: Pick<DataRequest, 'schema' | 'spec' | 'dir' | 'sortOrderId'>,
  result: StepResult,
  partition: (keys: unknown) => DataFile['partition'],
): readonly WrittenFile[] {
  const at = (name: string) => result.columns.findIndex((column) => column.name === name)
  const [filename, count, size, statistics, keys] = [
    at('filename'),
    at('count'),
    at('file_size_bytes'),
    at('column_statistics'),
    at('partition_keys'),
  ]
  return result.rows
    .filter((row) => Number(row[count as number]) > 0)
    .map((row) => ({
      localFile: insideOf(request.dir, String(row[filename as number])),
      metrics: {
        content: 'data',
        rows: Number(row[count as number]),
        sizeBytes: Number(row[size as number]),
        specId: request.spec['spec-id'],
        partition: partition(row[keys as number]),
        ...fileMetrics(request.schema, row[statistics as number] as Readonly<Record<string, ColumnStatistics>>),
        sortOrderId: request.sortOrderId,
      },
    }))
}

function partitionOf({ schema, spec }: Pick<DataRequest, 'schema' | 'spec'>, keys: unknown): DataFile['partition'] {
  const byName = (keys ?? {}) as Readonly<Record<string, string | null>>
  return spec.fields.map((field, at) =>
    parsePartitionKey(field, sourceOf(schema, field['source-id']), byName[keyName(at)] ?? null),
  )
}

/** The engine's word is not taken for where its files are. */
function insideOf(dir: string, file: string): string {
  if (file.startsWith(`${dir}/`) && !file.split('/').includes('..')) return file
  throw new SluiceError('INTERNAL', 'the engine reports a file outside its folder', { code: 'engine_output_suspect' })
}
