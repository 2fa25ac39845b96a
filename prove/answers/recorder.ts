/**
 * Loaded into processes of tests: keeps every request that a test makes by `fetch`, and its answer, in a file of
 * `SLUICE_TEST_ANSWERS`. An answer that lasts, an event stream, is kept without its body.
 */
import { appendFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import type { Recorded } from './comparison.ts'

const folder = process.env['SLUICE_TEST_ANSWERS']

// The runner that starts those processes loads this, too.
if (folder !== undefined && process.env['NODE_TEST_CONTEXT'] !== undefined) {
  const { fetch } = globalThis
  const test = basename(process.argv[1] ?? '')
  const file = join(folder, `${process.pid}.jsonl`)
  globalThis.fetch = async (input, init) => {
    const response = await fetch(input, init)
    const url = new URL(input instanceof Request ? input.url : String(input))
    const headers = Object.fromEntries(response.headers)
    const kept: Omit<Recorded, 'answer'> = {
      test,
      who: groupsOf(new Headers(init?.headers).get('authorization')),
      method: init?.method ?? 'GET',
      path: `${url.pathname}${url.search}`,
      body: typeof init?.body === 'string' ? init.body : '',
      status: response.status,
      headers,
    }
    const write = (answer: string) => appendFileSync(file, `${JSON.stringify({ ...kept, answer })}\n`)
    if (headers['content-type']?.startsWith('text/event-stream')) write('')
    // What the test itself stops to read is no answer.
    else
      void response
        .clone()
        .text()
        .then(write, () => undefined)
    return response
  }
}

/** What of a token decides the answer: its groups. Another kind of token is a word of its own. */
function groupsOf(authorization: string | null): string {
  const payload = authorization?.split('.')[1]
  if (authorization === null || payload === undefined) return authorization === null ? 'nobody' : 'no token'
  try {
    const { groups } = JSON.parse(Buffer.from(payload, 'base64url').toString()) as { readonly groups?: unknown }
    return JSON.stringify(groups ?? [])
  } catch {
    return 'no token'
  }
}
