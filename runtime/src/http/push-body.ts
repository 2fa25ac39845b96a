/** Takes the bodies of rows that are pushed apart: a JSON array, one object, or an object on each line. */
import { isSluiceError, parseJsonAsWritten } from '@sluice/sdk'
import { type PushedRows, pushedRows } from '../ingestion/push/changes.ts'
import type { PushTable } from '../ingestion/push/settings.ts'
import type { ParseThreads } from '../parsing/parse-threads.ts'
import { decodeText, parseJsonText } from './json-body.ts'
import { refuse } from './problem.ts'

export interface PushTask {
  readonly bytes: Uint8Array
  readonly form: PushForm
  readonly table: PushTable
  /** Of a body that is one document of somebody else's, and makes one row: the row's other columns. */
  readonly webhook?: { readonly webhook_id: string; readonly sent_at: string }
}

export type PushForm = 'json' | 'lines'

/** Of one document: an array of all rows, or a line. */
const MAX_VALUES = 200_000
const MOST_BYTES_HERE = 8 * 1024

/** Throws `malformed_body`, `body_too_large`, and `push_rows_refused`. */
export function parsePushBody({ bytes, form, table, webhook }: PushTask): PushedRows {
  const text = decodeText(bytes)
  const found = form === 'json' ? parseJsonText(text, parseJsonAsWritten, MAX_VALUES) : linesOf(text)
  if (webhook !== undefined) return pushedRows([{ ...webhook, payload: found }], table)
  const documents = Array.isArray(found) ? found : [found]
  if (documents.length === 0) throw refuse('malformed_body', 'the body holds no row')
  return pushedRows(documents, table)
}

function linesOf(text: string): readonly unknown[] {
  return text.split('\n').flatMap((line, index) => {
    if (line.trim() === '') return []
    try {
      return [parseJsonText(line, parseJsonAsWritten, MAX_VALUES)]
    } catch (error) {
      if (!isSluiceError(error) || error.code !== 'malformed_body') throw error
      throw refuse('malformed_body', `line ${index + 1}: ${error.message}`)
    }
  })
}

/** In a thread where it is long. */
export async function readPushBody(
  task: PushTask,
  threads: ParseThreads,
  { tenant, signal }: { readonly tenant: string; readonly signal: AbortSignal },
): Promise<PushedRows> {
  if (task.bytes.length <= MOST_BYTES_HERE) return parsePushBody(task)
  return (await threads.run({ name: 'push', input: task, key: tenant, signal })) as PushedRows
}

export function pushFormOf(contentType: string | undefined): PushForm {
  const [type = '', ...parameters] = (contentType ?? '').split(';').map((part) => part.trim().toLowerCase())
  const charset =
    parameters
      .find((one) => one.startsWith('charset='))
      ?.slice(8)
      .replaceAll('"', '') ?? 'utf-8'
  if (charset !== 'utf-8' && charset !== 'utf8') throw refuse('unsupported_media_type', 'the body must be UTF-8')
  if (type === 'application/json') return 'json'
  if (type === 'application/x-ndjson' || type === 'application/jsonl') return 'lines'
  throw refuse('unsupported_media_type', 'the body must be application/json or application/x-ndjson')
}
