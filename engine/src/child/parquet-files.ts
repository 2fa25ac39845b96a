import type { DuckDBConnection } from '@duckdb/node-api'
import type { Value } from '@sluice/sdk'
import { lossCondition } from '../cast-loss.ts'
import type { EngineColumn } from '../job.ts'
import { fromWire, type WireFile, type WireFilesOutput } from '../protocol.ts'
import { fileCell, parquetOptions, quoteName, quoteText } from '../sql-text.ts'
import { lossColumn } from '../written-losses.ts'
import { describe, shapeOf } from './collect.ts'
import { prepare, runInThreads } from './duckdb.ts'
import { RowEncoder } from './encode.ts'
import { resultTypeName } from './result-type.ts'

export async function writeParquetFiles(connection: DuckDBConnection, output: WireFilesOutput): Promise<WireFile[]> {
  const parameters = output.parameters.map(fromWire)
  const losses = output.countsLosses ? await lossMarks(connection, output, parameters) : []
  const statement = await prepare(connection, copyStatement(output, losses), parameters)
  const result = await runInThreads(statement)
  const encoder = new RowEncoder(shapeOf(result))
  const chunks = await result.fetchAllChunks()
  return chunks.flatMap((chunk) => encoder.rows(chunk)).map((row) => toWireFile(JSON.parse(row)))
}

interface LossMark {
  readonly fieldId: number
  readonly name: string
  readonly sql: string
}

/** Null in every row that loses something: what the engine tells of the files has the number of nulls. */
async function lossMarks(
  connection: DuckDBConnection,
  output: WireFilesOutput,
  parameters: readonly Value[],
): Promise<readonly LossMark[]> {
  const shape = await describe(connection, output.sql, parameters)
  const marked = (column: EngineColumn): readonly LossMark[] => {
    const type = shape.types[shape.names.findIndex((name) => name.toLowerCase() === column.name.toLowerCase())]
    if (type === undefined) return []
    const loses = lossCondition(quoteName(column.name), resultTypeName(type), type.toString(), column.type)
    const { fieldId } = column
    const name = lossColumn(fieldId)
    return loses === null ? [] : [{ fieldId, name, sql: `CASE WHEN ${loses} THEN NULL ELSE false END` }]
  }
  return output.columns.flatMap(marked)
}

/** Field ids of marks lie beyond those of columns. */
const FIRST_MARK = 1_000_000

function copyStatement(output: WireFilesOutput, losses: readonly LossMark[]): string {
  const names = output.columns.map(({ name, type }) => fileCell(name, type))
  for (const { name, sql } of losses) names.push(`${sql} AS ${quoteName(name)}`)
  const ids = output.columns.map((column) => `${quoteName(column.name)}: ${column.fieldId}`)
  for (const { name, fieldId } of losses) ids.push(`${quoteName(name)}: ${FIRST_MARK + fieldId}`)
  const order = output.orderBy?.length ? ` ORDER BY ${output.orderBy.map(quoteName).join(', ')}` : ''
  const size = output.fileSizeBytes
  const options = [
    ...parquetOptions(output.columns.map(({ type }) => type)),
    'COMPRESSION zstd',
    `FIELD_IDS {${ids.join(', ')}}`,
    'RETURN_STATS',
    'OVERWRITE_OR_IGNORE',
    "FILENAME_PATTERN '{uuid}'",
    size === undefined ? 'PER_THREAD_OUTPUT' : `FILE_SIZE_BYTES ${size}`,
    ...(output.rowGroupRows === undefined ? [] : [`ROW_GROUP_SIZE ${output.rowGroupRows}`]),
  ]
  return `COPY (SELECT ${names.join(', ')} FROM (${output.sql}\n)${order}) TO ${quoteText(output.dir)} (${options.join(', ')})`
}

type StatsRow = [string, number, number, number, Record<string, Record<string, string>>, unknown]

function toWireFile([name, rows, sizeBytes, footerSizeBytes, columnStatistics]: StatsRow): WireFile {
  return {
    name,
    rows: Number(rows),
    sizeBytes: Number(sizeBytes),
    footerSizeBytes: Number(footerSizeBytes),
    columnStatistics,
  }
}
