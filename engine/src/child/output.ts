import { writeSync } from 'node:fs'
import type { DuckDBConnection, DuckDBType } from '@duckdb/node-api'
import { type KeyTemplate, SluiceError } from '@sluice/sdk'
import { fromDriver } from '../driver-error.ts'
import { type EngineLimits, failsBeyondRows, type StreamOutput } from '../job.ts'
import {
  fromWire,
  type Opening,
  OUTPUT_FD,
  type WireFile,
  type WireFilesOutput,
  type WireSessionOutput,
  type WireStreamOutput,
} from '../protocol.ts'
import { quoteName, quoteText } from '../sql-text.ts'
import { describe } from './collect.ts'
import { askedTypes, prepare, runInThreads } from './duckdb.ts'
import { type ResultShape, resultColumns } from './encode.ts'
import { cellName, countedCell, csvCell, isText, jsonOrNull, postgresCell } from './json-sql.ts'
import { keySql } from './key-sql.ts'
import { writeParquetFiles } from './parquet-files.ts'
import { isLossy, parquetValue } from './parquet-value.ts'
import { descriptorPath } from './relations.ts'

export interface Written {
  readonly rows: number
  readonly files: readonly WireFile[]
}

/**
 * Runs the output's statement; `opened` is told its columns before the first byte leaves. DuckDB writes into the pipe
 * itself, and a full pipe stops it until the reader has taken some.
 */
export async function writeOutput(
  connection: DuckDBConnection,
  output: WireStreamOutput | WireFilesOutput,
  limits: EngineLimits,
  opened: (opening: Opening) => void,
): Promise<Written> {
  try {
    if (output.kind !== 'parquet-files') return await streamOutput(connection, output, limits, opened)
    const files = await writeParquetFiles(connection, output)
    opened({ columns: [], lineage: [] })
    return { rows: files.reduce((sum, file) => sum + file.rows, 0), files }
  } catch (error) {
    throw fromDriver(error, output.sql)
  }
}

/** Behind an output in the pipe; waits for a full one, as the output does. */
export function writeMark(mark: string): void {
  const bytes = Buffer.from(mark, 'base64')
  for (let sent = 0; sent < bytes.length; ) sent += writeSync(OUTPUT_FD, bytes, sent)
}

/** As `writeOutput`, into a new file. */
export async function writeOutputFile(
  connection: DuckDBConnection,
  output: WireSessionOutput,
  limits: EngineLimits,
  path: string,
): Promise<Opening & { readonly rows: number }> {
  let opening: Opening = { columns: [], lineage: [] }
  const opened = (told: Opening) => {
    opening = told
  }
  try {
    const { rows } = await streamOutput(connection, output, limits, opened, path)
    return { ...opening, rows }
  } catch (error) {
    throw fromDriver(error, output.sql)
  }
}

async function streamOutput(
  connection: DuckDBConnection,
  output: WireStreamOutput,
  limits: EngineLimits,
  opened: (opening: Opening) => void,
  path = descriptorPath(OUTPUT_FD),
): Promise<Written> {
  const parameters = output.parameters.map(fromWire)
  const shape = await describe(connection, output.sql, parameters)
  const parameterTypes = parameters.length === 0 ? {} : { parameterTypes: await askedTypes(connection, output.sql) }
  if (output.kind === 'shape') {
    opened({ columns: resultColumns(shape), lineage: [], ...parameterTypes })
    return { rows: 0, files: [] }
  }
  // Planned before anybody is told of an output: what cannot be planned has none.
  const statement = await prepare(connection, copyStatement(output, shape, limits, path), parameters)
  opened({ columns: resultColumns(shape), lineage: [], ...parameterTypes })
  if (output.kind === 'csv') writeSync(OUTPUT_FD, `${shape.names.map(csvQuote).join(',')}\n`)
  const rows = Number((await runInThreads(statement)).rowsChanged)
  const { maxRows } = limits
  if (maxRows !== undefined && rows > maxRows && failsBeyondRows(output.kind, limits)) throw tooLarge(maxRows)
  return { rows, files: [] }
}

/** One row more than is wanted tells that there are more; of a parquet file nobody could take it off again. */
function copyStatement(output: WireStreamOutput, shape: ResultShape, limits: EngineLimits, path: string): string {
  const { maxRows } = limits
  const cells = shape.types.map((_type, index) => cellName(index))
  const limit = maxRows === undefined ? '' : ` LIMIT ${maxRows + 1}`
  const from = `FROM (${output.sql}\n) AS output(${cells.join(', ')})${limit}`
  const target = quoteText(path)
  if (output.kind === 'parquet') {
    const exactly = maxRows === undefined || failsBeyondRows(output.kind, limits) ? limit : ` LIMIT ${maxRows}`
    return `COPY (SELECT * FROM (${withWholeValues(output.sql, shape)}\n)${exactly}) TO ${target} (FORMAT parquet, COMPRESSION zstd, WRITE_BLOOM_FILTER false)`
  }
  if (output.kind === 'copy-csv') {
    const list = shape.types.map((type, index) => postgresCell(type, cellName(index))).join(', ')
    return `COPY (SELECT ${list} ${from}) TO ${target} (FORMAT csv, HEADER false, FORCE_QUOTE *, NULL '')`
  }
  if (output.kind === 'csv') {
    const cell = output.timestamps === 'micros' ? countedCell : csvCell
    const list = shape.types.map((type, index) => `${cell(type, cellName(index))} AS ${cellName(index)}`).join(', ')
    const texts = cells.filter((_cell, index) => isText(shape.types[index] as DuckDBType))
    const quotes = texts.length === 0 ? '' : `, FORCE_QUOTE (${texts.join(', ')})`
    return `COPY (SELECT ${list} ${from}) TO ${target} (FORMAT csv, HEADER false, NULL ''${quotes})`
  }
  if (output.kind === 'keyed-json') {
    return `COPY (SELECT ${keyedText(output.template, shape)} ${from}) TO ${target} (${PLAIN_LINES})`
  }
  return `COPY (SELECT ${rowText(output.kind, shape)} ${from}) TO ${target} (${PLAIN_LINES})`
}

/** The statement, whose values a file of parquet can hold whole. */
function withWholeValues(sql: string, { names, types }: ResultShape): string {
  if (!types.some(isLossy)) return sql
  const cells = types.map((type, index) => {
    return `${parquetValue(type, cellName(index))} AS ${quoteName(names[index] ?? '')}`
  })
  return `SELECT ${cells.join(', ')} FROM (${sql}\n) AS output(${types.map((_type, index) => cellName(index)).join(', ')})`
}

/**
 * Texts in a line, as they are: no JSON and no rendered key holds any of these marks. Without a quote nothing is quoted;
 * with one, DuckDB quotes every text that holds a `#`, whatever marks a comment.
 */
const PLAIN_LINES = "FORMAT csv, HEADER false, DELIMITER '\x1f', QUOTE '', ESCAPE '', NULL '\x1d'"

function keyedText(template: KeyTemplate, { names, types }: ResultShape): string {
  const width = types.length - template.parts.length
  const keys = types.slice(width).map((type, index) => ({ type, sql: cellName(width + index) }))
  const object = rowText('keyed-json', { names: names.slice(0, width), types: types.slice(0, width) })
  return `${keySql(template, keys)}, ${object}`
}

function rowText(kind: StreamOutput['kind'], shape: ResultShape): string {
  const flavour = kind === 'rows' ? 'values' : 'json'
  const isObject = kind === 'ndjson' || kind === 'keyed-json'
  const cells = shape.types.map((type, index) => {
    const label = isObject ? `${JSON.stringify(shape.names[index])}:` : ''
    return `${quoteText((index === 0 ? '' : ',') + label)}, ${jsonOrNull(type, cellName(index), flavour)}`
  })
  const [open, close] = isObject ? ['{', '}'] : ['[', kind === 'json-rows' ? '],' : ']']
  // One call: a chain of || over some hundred columns is deeper than an expression may be, and takes longer to plan.
  return `concat('${open}', ${cells.join(', ')}, '${close}')`
}

function csvQuote(text: string): string {
  return `"${text.replaceAll('"', '""')}"`
}

function tooLarge(maxRows: number): SluiceError {
  return new SluiceError('QUOTA', `the statement gives more rows than it may (${maxRows})`, {
    code: 'query_result_too_large',
    details: { max_rows: maxRows },
  })
}
