import { writeSync } from 'node:fs'
import type { DuckDBConnection } from '@duckdb/node-api'
import { fromDriver } from '../driver-error.ts'
import type { EngineLimits, ResultColumn, StreamOutput } from '../job.ts'
import { fromWire, OUTPUT_FD, type WireFile, type WireOutput, type WireStreamOutput } from '../protocol.ts'
import { shapeOf } from './collect.ts'
import { copyToPipe } from './copy-output.ts'
import { prepare } from './duckdb.ts'
import { CsvEncoder, csvHeader, type ResultShape, RowEncoder, resultColumns } from './encode.ts'
import { writeParquetFiles } from './parquet-files.ts'

export interface Written {
  readonly rows: number
  readonly truncated: boolean
  readonly files: readonly WireFile[]
}

/** Runs the output's statement; `opened` is told its columns before the first byte leaves. */
export async function writeOutput(
  connection: DuckDBConnection,
  output: WireOutput,
  limits: EngineLimits,
  opened: (columns: readonly ResultColumn[]) => void,
): Promise<Written> {
  try {
    if (output.kind === 'parquet-files') {
      const files = await writeParquetFiles(connection, output)
      opened([])
      return { rows: files.reduce((sum, file) => sum + file.rows, 0), truncated: false, files }
    }
    if (output.kind === 'copy-csv' || output.kind === 'parquet') {
      return await copyToPipe(connection, output, limits, opened)
    }
    return await streamRows(connection, output, limits, opened)
  } catch (error) {
    throw fromDriver(error, output.sql)
  }
}

async function streamRows(
  connection: DuckDBConnection,
  output: WireStreamOutput,
  limits: EngineLimits,
  opened: (columns: readonly ResultColumn[]) => void,
): Promise<Written> {
  const maxRows = limits.maxRows ?? Number.POSITIVE_INFINITY
  const statement = await prepare(connection, output.sql, output.parameters.map(fromWire))
  const result = await statement.stream()
  const shape = shapeOf(result)
  opened(resultColumns(shape))
  const { encoder, separator, terminator, head } = rowForm(output.kind, shape)
  if (head !== '') writeAll(head)
  let rows = 0
  for (let chunk = await result.fetchChunk(); chunk && chunk.rowCount > 0; chunk = await result.fetchChunk()) {
    const lines = encoder.rows(chunk).slice(0, maxRows - rows)
    const lead = rows === 0 || lines.length === 0 ? '' : separator
    if (lines.length > 0) writeAll(lead + lines.join(separator + terminator) + terminator)
    rows += lines.length
    if (lines.length < chunk.rowCount) return { rows, truncated: true, files: [] }
  }
  return { rows, truncated: false, files: [] }
}

function rowForm(kind: StreamOutput['kind'], shape: ResultShape) {
  if (kind === 'csv') {
    return { encoder: new CsvEncoder(shape), separator: '', terminator: '\r\n', head: `${csvHeader(shape.names)}\r\n` }
  }
  if (kind === 'ndjson') {
    return { encoder: new RowEncoder(shape, 'json', 'object'), separator: '', terminator: '\n', head: '' }
  }
  const flavour = kind === 'rows' ? 'values' : 'json'
  return { encoder: new RowEncoder(shape, flavour, 'array'), separator: ',\n', terminator: '', head: '' }
}

/**
 * The pipe is a blocking one: a full pipe stops the statement until the reader has taken some. A reader that is gone
 * ends the process with EPIPE.
 */
function writeAll(text: string): void {
  const bytes = Buffer.from(text)
  for (let at = 0; at < bytes.length; ) at += writeSync(OUTPUT_FD, bytes, at)
}
