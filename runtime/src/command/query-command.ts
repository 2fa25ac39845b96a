import { createWriteStream } from 'node:fs'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import type { ReadableStream } from 'node:stream/web'
import { UsageError } from './arguments.ts'
import { type Command, type CommandCall, word } from './command.ts'
import { type Cell, textTable } from './text-table.ts'

const ACCEPT: Readonly<Record<string, string>> = {
  table: 'application/json',
  json: 'application/json',
  ndjson: 'application/x-ndjson',
  csv: 'text/csv',
  parquet: 'application/vnd.apache.parquet',
}

interface QueryAnswer {
  readonly columns: readonly { readonly name: string; readonly masked: boolean }[]
  readonly rows: readonly (readonly unknown[])[]
  readonly row_count: number
  readonly truncated: boolean
  readonly meta: { readonly elapsed_ms: number }
}

export const QUERY_COMMANDS: Readonly<Record<string, Command>> = {
  query: {
    usage: 'query SQL',
    summary: 'run one SELECT over NAMESPACE.PRODUCT',
    flags: {
      format: 'table (default), json, ndjson, csv or parquet',
      output: 'the file to write to; parquet needs one',
      limit: 'at most so many rows',
      'as-of': 'a time, or the id of a snapshot',
    },
    remote: true,
    run: runQuery,
  },
}

async function runQuery(call: CommandCall): Promise<unknown> {
  const { flags } = call.args
  const format = flags['json'] ? 'json' : (flags['format'] ?? 'table')
  const accept = ACCEPT[format]
  if (accept === undefined) throw new UsageError(`--format is one of ${Object.keys(ACCEPT).join(', ')}`)
  if (format === 'parquet' && flags['output'] === undefined) throw new UsageError('parquet needs --output FILE')
  const limit = flags['limit'] === undefined ? undefined : Number(flags['limit'])
  if (limit !== undefined && !Number.isInteger(limit)) throw new UsageError('--limit is a whole number')
  const body = { sql: word(call, 0, 'SQL'), limit, as_of: flags['as-of'] }
  const response = await (await call.client()).open('POST', '/api/v1/query', body, accept)
  if (format === 'table' && flags['output'] === undefined) return shown((await response.json()) as QueryAnswer)
  const target = flags['output'] === undefined ? process.stdout : createWriteStream(flags['output'])
  const source = Readable.fromWeb(response.body as ReadableStream)
  await pipeline(source, target, { end: flags['output'] !== undefined })
  return undefined
}

function shown({ columns, rows, row_count, truncated, meta }: QueryAnswer): string {
  const header = columns.map(({ name, masked }) => (masked ? `${name} (masked)` : name))
  const cells = rows.map((row) => row.map(cellOf))
  const more = truncated ? ', and there are more' : ''
  return `${textTable(header, cells)}\n\n${row_count} rows in ${meta.elapsed_ms} ms${more}`
}

const cellOf = (value: unknown): Cell =>
  typeof value === 'object' && value !== null ? JSON.stringify(value) : (value as Cell)
