/** The commands' way to a running server: its REST API, with a token of the environment or of the data folder. */
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { issueToken } from '../auth/embedded-issuer.ts'
import { type Arguments, UsageError } from './arguments.ts'

export interface Client {
  request(method: string, path: string, body?: unknown): Promise<unknown>
  upload(path: string, parts: Readonly<Record<string, string>>): Promise<unknown>
}

/** What the server writes into its data folder while it runs. */
export const ADDRESS_FILE = 'runtime.json'

/**
 * `--url` or SLUICE_URL names the server, else the data folder's running one; SLUICE_TOKEN is sent, else one is made
 * from the data folder for `--tenant` (as a developer), or as administrator.
 */
export async function openClient(args: Arguments, dataDirectory: string): Promise<Client> {
  const url = args.flags['url'] ?? process.env['SLUICE_URL'] ?? (await runningAddress(dataDirectory))
  const token = process.env['SLUICE_TOKEN'] ?? (await ownToken(args, dataDirectory))
  const send = async (method: string, path: string, init: RequestInit): Promise<unknown> => {
    const headers = { ...init.headers, authorization: `Bearer ${token}` }
    const response = await fetch(new URL(path, url), { ...init, method, headers })
    const text = await response.text()
    if (!response.ok) throw new Error(describeFailure(response.status, text))
    return text === '' ? null : JSON.parse(text)
  }
  return {
    request: (method, path, body) =>
      send(
        method,
        path,
        body === undefined ? {} : { body: JSON.stringify(body), headers: { 'content-type': 'application/json' } },
      ),
    upload: (path, parts) => {
      const form = new FormData()
      for (const [name, text] of Object.entries(parts)) form.append(name, new Blob([text]), `${name}.yaml`)
      return send('POST', path, { body: form })
    },
  }
}

async function runningAddress(dataDirectory: string): Promise<string> {
  try {
    return (JSON.parse(await readFile(join(dataDirectory, ADDRESS_FILE), 'utf8')) as { url: string }).url
  } catch {
    throw new UsageError(`no server runs on ${dataDirectory}; start one with "npm start", or name one with --url`)
  }
}

async function ownToken(args: Arguments, dataDirectory: string): Promise<string> {
  const tenant = args.flags['tenant']
  const subject = tenant
    ? { tenant, groups: [args.flags['group'] ?? 'svc-developers'], user: args.flags['user'] ?? 'operator' }
    : ({ role: 'admin' } as const)
  return issueToken(dataDirectory, subject, { ttlS: 900 })
}

function describeFailure(status: number, text: string): string {
  try {
    const problem = JSON.parse(text) as { detail?: string; title?: string; code?: string; errors?: ProblemEntry[] }
    const lines = (problem.errors ?? []).map(
      (entry) =>
        `  ${entry.manifest ?? entry.pointer ?? ''}${entry.line ? `:${entry.line}:${entry.column}` : ''} ${entry.message}`,
    )
    return [`${status} ${problem.code}: ${problem.detail ?? problem.title}`, ...lines].join('\n')
  } catch {
    return `${status}: the server answered something that is no problem document`
  }
}

interface ProblemEntry {
  readonly manifest?: string
  readonly pointer?: string
  readonly line?: number
  readonly column?: number
  readonly message: string
}
