import type { DuckDBConnection } from '@duckdb/node-api'
import { fromWire, type WireFile, type WireFilesOutput } from '../protocol.ts'
import { fileType, quoteName, quoteText } from '../sql-text.ts'
import { shapeOf } from './collect.ts'
import { prepare } from './duckdb.ts'
import { RowEncoder } from './encode.ts'

export async function writeParquetFiles(connection: DuckDBConnection, output: WireFilesOutput): Promise<WireFile[]> {
  const statement = await prepare(connection, copyStatement(output), output.parameters.map(fromWire))
  const result = await statement.run()
  const encoder = new RowEncoder(shapeOf(result))
  const chunks = await result.fetchAllChunks()
  return chunks.flatMap((chunk) => encoder.rows(chunk)).map((row) => toWireFile(JSON.parse(row)))
}

function copyStatement(output: WireFilesOutput): string {
  const names = output.columns.map(
    (column) => `CAST(${quoteName(column.name)} AS ${fileType(column.type)}) AS ${quoteName(column.name)}`,
  )
  const ids = output.columns.map((column) => `${quoteName(column.name)}: ${column.fieldId}`)
  const order = output.orderBy?.length ? ` ORDER BY ${output.orderBy.map(quoteName).join(', ')}` : ''
  const size = output.fileSizeBytes
  const options = [
    'FORMAT parquet',
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
