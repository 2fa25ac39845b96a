/** The commands' way to a running server: its REST API, with a token of the environment or of the folder of keys. */
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { issueToken } from '../auth/embedded-issuer.ts'
import type { Config } from '../config.ts'
import type { Arguments } from './arguments.ts'

export interface Client {
  /** JSON there and back; null where the answer is empty. Throws what the server says, in words. */
  request(method: string, path: string, body?: unknown): Promise<unknown>
  /** All pages of a list. */
  list(path: string): Promise<unknown[]>
  /** Null where there is no such thing. */
  find(path: string): Promise<unknown>
  /** The answer as it comes, for what may be large. */
  open(method: string, path: string, body: unknown, accept: string): Promise<Response>
  upload(path: string, parts: Readonly<Record<string, string>>): Promise<unknown>
}

const PAGE = 500
const NOT_FOUND = 404

type Folders = Pick<Config, 'data_dir' | 'secrets_dir'>

/** As whom commands act, where no token says it. */
export const DEFAULT_USER = 'operator'

/** What the server writes into its data folder while it runs. */
export const ADDRESS_FILE = 'runtime.json'

/**
 * `--url` or SLUICE_URL names the server, else the data folder's running one; SLUICE_TOKEN is sent, else one is made
 * with the keys of `secrets_dir`, for `--tenant` (as a developer) or as administrator.
 */
export async function openClient(args: Arguments, folders: Folders): Promise<Client> {
  const url = args.flags['url'] ?? process.env['SLUICE_URL'] ?? (await runningAddress(folders.data_dir))
  const token = process.env['SLUICE_TOKEN'] ?? (await ownToken(args, folders.secrets_dir))
  const tenant = isAdminOf(args) ? { 'x-tenant-id': args.flags['tenant'] as string } : {}
  const send = async (method: string, path: string, init: RequestInit): Promise<Response> => {
    const headers = { ...init.headers, ...tenant, authorization: `Bearer ${token}` }
    const response = await fetchFrom(url, path, { ...init, method, headers })
    if (response.ok) return response
    throw new ServerRefused(response.status, describeFailure(response.status, await response.text()))
  }
  const request: Client['request'] = async (method, path, body) => valueOf(await send(method, path, jsonBody(body)))
  return {
    request,
    list: (path) => allPages(request, path),
    find: (path) =>
      request('GET', path).catch((error: unknown) => {
        if (error instanceof ServerRefused && error.status === NOT_FOUND) return null
        throw error
      }),
    open: (method, path, body, accept) => {
      const { headers, ...init } = jsonBody(body)
      return send(method, path, { ...init, headers: { ...headers, accept } })
    },
    upload: async (path, parts) => {
      const form = new FormData()
      for (const [name, text] of Object.entries(parts)) form.append(name, new Blob([text]), `${name}.yaml`)
      return valueOf(await send('POST', path, { body: form }))
    },
  }
}

/** What the server answered instead of doing it. */
class ServerRefused extends Error {
  readonly status: number

  constructor(status: number, message: string) {
    super(message)
    this.status = status
  }
}

/** An own token of SLUICE_TOKEN may be an administrator's, who names the tenant; others may name only their own. */
function isAdminOf(args: Arguments): boolean {
  const token = process.env['SLUICE_TOKEN']
  if (token === undefined || args.flags['tenant'] === undefined) return false
  const claims = claimsOf(token)
  return claims !== null && claims.tenant_id === undefined
}

/** Whose rights the command has; null where the token does not tell. */
export function actingUser(args: Arguments): string | null {
  const token = process.env['SLUICE_TOKEN']
  return token === undefined ? (args.flags['user'] ?? DEFAULT_USER) : (claimsOf(token)?.sub ?? null)
}

/** Null of what is no token with claims, as keys of applications are. */
function claimsOf(token: string): { readonly sub?: string; readonly tenant_id?: string } | null {
  try {
    return JSON.parse(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString()) as { sub?: string }
  } catch {
    return null
  }
}

function jsonBody(body: unknown): { readonly body?: string; readonly headers?: Readonly<Record<string, string>> } {
  if (body === undefined) return {}
  return { body: JSON.stringify(body), headers: { 'content-type': 'application/json' } }
}

async function fetchFrom(url: string, path: string, init: RequestInit): Promise<Response> {
  try {
    return await fetch(new URL(path, url), init)
  } catch (cause) {
    throw new Error(`${url} cannot be reached: is the server running there?`, { cause })
  }
}

async function valueOf(response: Response): Promise<unknown> {
  const text = await response.text()
  return text === '' ? null : JSON.parse(text)
}

async function allPages(request: Client['request'], path: string): Promise<unknown[]> {
  const items: unknown[] = []
  let cursor = ''
  for (;;) {
    const page = (await request('GET', `${path}?limit=${PAGE}${cursor}`)) as Page
    items.push(...page.data)
    if (page.next_cursor === null) return items
    cursor = `&cursor=${encodeURIComponent(page.next_cursor)}`
  }
}

interface Page {
  readonly data: readonly unknown[]
  readonly next_cursor: string | null
}

async function runningAddress(dataDirectory: string): Promise<string> {
  try {
    return (JSON.parse(await readFile(join(dataDirectory, ADDRESS_FILE), 'utf8')) as { url: string }).url
  } catch {
    throw Object.assign(new Error(`no server runs on ${dataDirectory}`), {
      remedy:
        'Start one with "sluice start" ("npm start" in a checkout), or name another folder with --data-dir, or its address with --url.',
    })
  }
}

async function ownToken(args: Arguments, secretsFolder: string): Promise<string> {
  const tenant = args.flags['tenant']
  const subject = tenant
    ? { tenant, groups: [args.flags['group'] ?? 'svc-developers'], user: args.flags['user'] ?? DEFAULT_USER }
    : ({ role: 'admin' } as const)
  return issueToken(secretsFolder, subject, { ttlS: 900 })
}

/** Where a flag helps that the server does not know of. */
const FLAG_HINTS: Readonly<Record<string, string>> = {
  tenant_required: 'On the command line that is --tenant T.',
  raw_table_forbidden: 'If you are the creator, say so with --user NAME (where no SLUICE_TOKEN is set).',
}

function describeFailure(status: number, text: string): string {
  try {
    const problem = JSON.parse(text) as ProblemAnswer
    const lines = (problem.errors ?? []).map((entry) => {
      const place = entry.manifest ? `${entry.manifest}.yaml` : `${entry.in ?? ''}${entry.pointer ?? ''}`
      const position = entry.line ? `:${entry.line}:${entry.column}` : ''
      return `  ${place}${position} ${entry.message}${entry.hint ? ` (${entry.hint})` : ''}`
    })
    const hints = [problem.remedy, FLAG_HINTS[problem.code ?? '']].filter((text) => text !== undefined)
    return [`${problem.detail ?? problem.title} (${problem.code}, ${status})`, ...lines, ...hints].join('\n')
  } catch {
    return `${status}: the server answered something that is no problem document`
  }
}

interface ProblemAnswer {
  readonly detail?: string
  readonly title?: string
  readonly code?: string
  readonly remedy?: string
  readonly errors?: readonly {
    readonly in?: string
    readonly manifest?: string
    readonly pointer?: string
    readonly line?: number
    readonly column?: number
    readonly message: string
    readonly hint?: string
  }[]
}
