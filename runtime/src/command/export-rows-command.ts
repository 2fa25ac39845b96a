import { Readable } from 'node:stream'
import type { ReadableStream } from 'node:stream/web'
import { setTimeout as sleep } from 'node:timers/promises'
import { UsageError } from './arguments.ts'
import type { Client } from './client.ts'
import type { Command, CommandCall } from './command.ts'
import { refuseUnwritable, save } from './saved-answer.ts'

const ACCEPT: Readonly<Record<string, string>> = {
  parquet: 'application/vnd.apache.parquet',
  csv: 'text/csv',
  ndjson: 'application/x-ndjson',
}
const POLL_MS = 500

export const EXPORT_ROWS_COMMANDS: Readonly<Record<string, Command>> = {
  'export-rows': {
    usage: 'export-rows [PRODUCT]',
    summary: 'write the rows of a product, or of a SELECT, to a file, of any number',
    flags: {
      out: 'the file to write to',
      to: 'in place of --out: a bucket that an operator has named (exports.destinations)',
      sql: 'a SELECT over <namespace>.<product>, in place of PRODUCT',
      format: 'parquet (default), csv or ndjson',
    },
    remote: true,
    run: exportRows,
  },
}

interface ExportAnswer {
  readonly id: string
  readonly state: string
  readonly rows: number | null
  readonly bytes: number
  /** Null: it was written to no destination. */
  readonly address: string | null
  readonly error: { readonly code: string; readonly message: string; readonly remedy: string | null } | null
  readonly link: { readonly path: string } | null
}

/** The server has the file until it is here, and not longer. */
async function exportRows(call: CommandCall): Promise<unknown> {
  const { out, to, sql, format = 'parquet', json } = call.args.flags
  const [product] = call.words
  const accept = ACCEPT[format]
  if (accept === undefined) throw new UsageError(`--format is one of ${Object.keys(ACCEPT).join(', ')}`)
  if ((out === undefined) === (to === undefined))
    throw new UsageError('an export needs --out FILE, or --to DESTINATION')
  if ((sql === undefined) === (product === undefined)) throw new UsageError('name a PRODUCT, or give --sql')
  if (out !== undefined) await refuseUnwritable(out)
  const client = await call.client()
  const of = sql === undefined ? { product } : { sql }
  const begun = (await client.request('POST', '/api/v1/exports', {
    ...of,
    format,
    ...(to === undefined ? {} : { to }),
  })) as ExportAnswer
  const found = await untilEnded(client, begun)
  try {
    if (out === undefined) requireWritten(found)
    else await download(client, found, { out, accept })
  } finally {
    await client.request('DELETE', `/api/v1/exports/${found.id}`)
  }
  const file = out ?? found.address
  if (json !== undefined) return { rows: found.rows, bytes: found.bytes, file }
  return `${found.rows} rows, ${found.bytes} bytes: ${file}`
}

async function untilEnded(client: Client, { id }: ExportAnswer): Promise<ExportAnswer> {
  for (;;) {
    const found = (await client.request('GET', `/api/v1/exports/${id}`)) as ExportAnswer
    if (found.state !== 'queued' && found.state !== 'running') return found
    await sleep(POLL_MS)
  }
}

function requireWritten({ error }: ExportAnswer): void {
  if (error === null) return
  const { code, message, remedy } = error
  throw Object.assign(new Error(`the export has failed: ${message} (${code})`), remedy === null ? {} : { remedy })
}

async function download(
  client: Client,
  found: ExportAnswer,
  { out, accept }: { readonly out: string; readonly accept: string },
): Promise<void> {
  requireWritten(found)
  const { link, bytes } = found
  if (link === null) throw new Error('the rows of the export may not be shown to you any more')
  const response = await client.open('GET', link.path, undefined, accept)
  await save(Readable.from(whole(Readable.fromWeb(response.body as ReadableStream), bytes)), out)
}

async function* whole(source: AsyncIterable<Uint8Array>, bytes: number): AsyncGenerator<Uint8Array> {
  let read = 0
  for await (const chunk of source) {
    read += chunk.length
    yield chunk
  }
  if (read !== bytes) throw new Error(`the file has ${bytes} bytes, and ${read} came`)
}
