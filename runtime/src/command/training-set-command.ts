import { readFile } from 'node:fs/promises'
import { Readable } from 'node:stream'
import type { ReadableStream } from 'node:stream/web'
import { UsageError } from './arguments.ts'
import { type Command, type CommandCall, word } from './command.ts'
import { reasonUnread } from './failures.ts'
import { refuseUnwritable, save, savedLine, tellMasked } from './saved-answer.ts'

const ACCEPT: Readonly<Record<string, string>> = {
  parquet: 'application/vnd.apache.parquet',
  csv: 'text/csv',
  ndjson: 'application/x-ndjson',
  json: 'application/json',
}

export const TRAINING_SET_COMMANDS: Readonly<Record<string, Command>> = {
  'training-set': {
    usage: 'training-set FILE',
    summary: 'find for each label of FILE (JSON) what was known at its time',
    flags: {
      out: 'the file to write to; parquet needs one',
      format: 'parquet (default), csv, ndjson or json',
      'known-by': 'a time: features are read as they were known then',
    },
    remote: true,
    run: makeTrainingSet,
  },
}

async function makeTrainingSet(call: CommandCall): Promise<unknown> {
  const { flags } = call.args
  const format = flags['json'] ? 'json' : (flags['format'] ?? 'parquet')
  const accept = ACCEPT[format]
  if (accept === undefined) throw new UsageError(`--format is one of ${Object.keys(ACCEPT).join(', ')}`)
  const { out } = flags
  if (format === 'parquet' && out === undefined) throw new UsageError('parquet needs --out FILE')
  const asked = await readRequest(word(call, 0, 'FILE'))
  const body = flags['known-by'] === undefined ? asked : { ...asked, known_by: flags['known-by'] }
  if (out !== undefined) await refuseUnwritable(out)
  const response = await (await call.client()).open('POST', '/api/v1/training-sets', body, accept)
  await save(Readable.fromWeb(response.body as ReadableStream), out)
  tellMasked(response.headers)
  return out === undefined ? undefined : savedLine(out)
}

/** What it says is the server's to judge. */
async function readRequest(file: string): Promise<object> {
  const text = await readFile(file, 'utf8').catch((cause: unknown) => {
    throw new Error(`${file} cannot be read: ${reasonUnread(cause) ?? (cause as Error).message}`, { cause })
  })
  try {
    const value: unknown = JSON.parse(text, asWritten)
    if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value
  } catch {
    // Told below.
  }
  throw new Error(`${file} holds no JSON object with labels and features`)
}

/** Which digits count is the server's to say: all are sent. */
function asWritten(_: string, value: unknown, { source }: { readonly source?: string } = {}): unknown {
  return typeof value === 'number' && source !== undefined ? rawJson(source) : value
}

const { rawJSON: rawJson } = JSON as unknown as { readonly rawJSON: (text: string) => object }
