import { Readable } from 'node:stream'
import type { ReadableStream } from 'node:stream/web'
import { UsageError } from './arguments.ts'
import { actingUser } from './client.ts'
import { type Command, type CommandCall, word } from './command.ts'
import { printOut } from './output.ts'
import { refuseUnwritable, save, savedLine, tellMasked } from './saved-answer.ts'
import { type Cell, plain, textTable } from './text-table.ts'

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
  readonly meta: {
    readonly elapsed_ms: number
    readonly snapshots?: Readonly<Record<string, string>>
    readonly columns_without_values?: Readonly<Record<string, readonly string[]>>
  }
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
  if (flags['output'] !== undefined) await refuseUnwritable(flags['output'])
  const response = await (await call.client()).open('POST', '/api/v1/query', body, accept)
  if (accept === 'application/json') return answered(response, format, call.args, limit)
  await save(Readable.fromWeb(response.body as ReadableStream), flags['output'])
  tellMasked(response.headers)
  const withoutValues = response.headers.get('columns-without-values')
  if (withoutValues !== null) process.stderr.write(`${leftOut(JSON.parse(withoutValues) as LeftOut).join('\n')}\n`)
  return flags['output'] === undefined ? undefined : savedLine(flags['output'])
}

/** JSON says that it was cut where the server may give no more; nobody who asked for all goes on with a part unawares. */
async function answered(
  response: Response,
  format: string,
  args: CommandCall['args'],
  limit: number | undefined,
): Promise<unknown> {
  const { output } = args.flags
  const text = await response.text()
  const answer = JSON.parse(text, asWritten) as QueryAnswer
  if (format === 'table' && output === undefined)
    await printOut(`${shown(answer)}${maskingHint(answer, actingUser(args))}`)
  else await save(Readable.from([text]), output)
  if (!answer.truncated || answer.row_count === limit)
    return output === undefined ? undefined : savedLine(output, answer.row_count)
  throw new Error(
    `there are more rows than the ${answer.row_count} that the server gives as JSON; --limit says that so many are wanted, --format csv, ndjson or parquet give all`,
  )
}

const COUNTS: ReadonlySet<string> = new Set(['row_count', 'elapsed_ms'])

/** Numbers of rows are shown with the digits that they came with: JavaScript's own have fewer, and no zero below 0. */
function asWritten(name: string, value: unknown, { source }: { readonly source?: string } = {}): unknown {
  return typeof value === 'number' && source !== undefined && !COUNTS.has(name) ? rawJson(source) : value
}

const { rawJSON: rawJson } = JSON as unknown as { readonly rawJSON: (text: string) => object }

function shown({ columns, rows, row_count, truncated, meta }: QueryAnswer): string {
  const header = columns.map(({ name, masked }) => (masked ? `${name} (masked)` : name))
  const cells = rows.map((row) => row.map(cellOf))
  const more = truncated ? ', and there are more' : ''
  return `${textTable(header, cells)}\n\n${row_count} ${row_count === 1 ? 'row' : 'rows'} in ${meta.elapsed_ms} ms${more}${leftOutHint(meta)}`
}

function leftOutHint({ columns_without_values }: QueryAnswer['meta']): string {
  return columns_without_values === undefined ? '' : `\n${leftOut(columns_without_values).join('\n')}`
}

/** Columns by raw table, or where they are too many for a header their number, or nothing. */
type LeftOut = Readonly<Record<string, readonly string[] | number>>

function leftOut(byTable: LeftOut): readonly string[] {
  const tables = Object.entries(byTable)
  if (tables.length === 0) return ['Not all values of raw tables could be carried, those are null.']
  return tables.map(([table, columns]) => {
    const named = typeof columns === 'number' ? `in ${columns} columns` : columns.map(plain).join(', ')
    return `Not all values of ${plain(table)} could be carried, those are null: ${named}`
  })
}

/** The way from masked columns to clear ones, for those who may go it. Of a key of an application there is none. */
function maskingHint({ columns, meta: { snapshots = {} } }: QueryAnswer, user: string | null): string {
  const masked = columns.filter((column) => column.masked).map(({ name }) => name)
  const [product] = Object.keys(snapshots)
  if (masked.length === 0 || product === undefined || user === null) return ''
  return `
Masked for you: ${masked.map(plain).join(', ')}. Shown by the owner of the source, or by an author who reads the source:
  sluice grant add ${plain(product)} --to ${user} --unmask '*'`
}

const cellOf = (value: unknown): Cell =>
  typeof value === 'object' && value !== null ? JSON.stringify(value) : (value as Cell)
