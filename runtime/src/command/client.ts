/** The commands' way to a running server: its REST API, with a token of the environment or of the folder of keys. */
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { TokenSubject } from '../auth/embedded-issuer.ts'
import type { Config } from '../config.ts'
import { type Arguments, UsageError } from './arguments.ts'
import { reasonOf } from './failures.ts'
import { checkedAddress, otherServer, ServerAway, tokenVariable, unreachable, variable } from './server-address.ts'

export interface Client {
  /** Of the server, without a slash at its end. */
  readonly url: string
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
const TOO_MANY = 429
/** A command of many requests goes over the rate of a small tenant at once, and is in time a second later. */
const LONGEST_WAIT_S = 10
const MOST_WAITS = 10

/** Asked where the caller does not say the server, or has no token. */
type Folders = () => Promise<Pick<Config, 'data_dir' | 'secrets_dir'>>

/** As whom commands act, where no token says it. */
export const DEFAULT_USER = 'operator'

/** What the server writes into its data folder while it runs. */
export const ADDRESS_FILE = 'runtime.json'

/**
 * `--url` or SLUICE_URL names the server, else the data folder's running one; SLUICE_TOKEN is sent, else one is made
 * with the keys of `secrets_dir`, for `--tenant` (as a developer) or as administrator, who names the tenant where `as` says so.
 */
export async function openClient(args: Arguments, folders: Folders, as?: 'admin'): Promise<Client> {
  requireOwnFlags(args)
  const named = namedAddress(args)
  const url = named ?? (await runningAddress((await folders()).data_dir))
  const token = tokenVariable() ?? (await ownToken(args, folders, named, as))
  const tenant = isAdminOf(args, as) ? { 'x-tenant-id': args.flags['tenant'] as string } : {}
  const send = async (method: string, path: string, init: RequestInit): Promise<Response> => {
    const headers = { ...init.headers, ...tenant, authorization: `Bearer ${token}` }
    for (let attempt = 1; ; attempt += 1) {
      const response = await fetchFrom(url, path, { ...init, method, headers })
      if (response.ok) return response
      const text = await response.text()
      const waitMs = attempt > MOST_WAITS ? null : waitOf(response, text)
      if (waitMs === null) throw refusal(url, response.status, text)
      await sleep(waitMs)
    }
  }
  const request: Client['request'] = async (method, path, body) =>
    valueOf(url, await send(method, path, jsonBody(body)))
  return {
    url: url.replace(/\/+$/, ''),
    request,
    list: async (path) => {
      const items = await allPages(request, path)
      if (items.length === 0) await checkTenant(args, folders, url)
      return items
    },
    find: (path) =>
      request('GET', path).catch((error: unknown) => {
        if (error instanceof ServerRefused && error.status === NOT_FOUND) return null
        throw error
      }),
    open: async (method, path, body, accept) => {
      const { headers, ...init } = jsonBody(body)
      const response = await send(method, path, { ...init, headers: { ...headers, accept } })
      if (!response.headers.get('content-type')?.startsWith(accept)) throw otherServer(url, response.status)
      return response
    },
    upload: async (path, parts) => {
      const form = new FormData()
      for (const [name, text] of Object.entries(parts)) form.append(name, new Blob([text]), `${name}.yaml`)
      return valueOf(url, await send('POST', path, { body: form }))
    },
  }
}

/** What the server answered instead of doing it. */
export class ServerRefused extends Error {
  readonly status: number
  readonly code: string
  /** Places in manifests or inputs that it names. */
  readonly places: NonNullable<ProblemAnswer['errors']>

  constructor(status: number, { code, errors = [] }: ProblemAnswer, message: string) {
    super(message)
    this.status = status
    this.code = code
    this.places = errors
  }
}

/** How long a request has to wait whose caller asked too often: nothing was done. Null where that is not why, or is long. */
function waitOf(response: Response, text: string): number | null {
  if (response.status !== TOO_MANY || problemIn(text)?.code !== 'rate_limited') return null
  const seconds = Number(response.headers.get('retry-after') ?? Number.NaN)
  return seconds <= LONGEST_WAIT_S ? Math.max(1, seconds) * 1000 : null
}

/** An own token of SLUICE_TOKEN may be an administrator's, who names the tenant; others may name only their own. */
function isAdminOf(args: Arguments, as?: 'admin'): boolean {
  const token = tokenVariable()
  if (args.flags['tenant'] === undefined) return false
  if (token === undefined) return as === 'admin'
  const claims = claimsOf(token)
  return claims !== null && claims.tenant_id === undefined
}

/**
 * A flag that names another tenant or user than the token does would be passed over: what was meant for one tenant would be done in
 * another. Not known of keys of applications, and of tokens that say it by other claims; those are good for what they name alone.
 */
function requireOwnFlags({ flags }: Arguments): void {
  const token = tokenVariable()
  const claims = token === undefined ? null : claimsOf(token)
  for (const [flag, own] of [
    ['tenant', claims?.tenant_id],
    ['user', claims?.sub],
  ] as const) {
    const asked = flags[flag]
    if (asked === undefined || own === undefined || asked === own) continue
    throw new UsageError(`--${flag} is ${asked}, and SLUICE_TOKEN is a token of ${own}: leave one of them out`)
  }
}

/** Whose rights the command has; null where the token does not tell. */
export function actingUser(args: Arguments): string | null {
  const token = tokenVariable()
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

function namedAddress({ flags: { url } }: Arguments): string | undefined {
  if (url !== undefined) return checkedAddress(url, '--url')
  const named = variable('SLUICE_URL')
  return named === undefined ? undefined : checkedAddress(named, 'SLUICE_URL')
}

async function fetchFrom(url: string, path: string, init: RequestInit): Promise<Response> {
  try {
    return await fetch(new URL(path, url), init)
  } catch (cause) {
    throw unreachable(url, cause)
  }
}

async function valueOf(url: string, response: Response): Promise<unknown> {
  const text = await response.text()
  try {
    return text === '' ? null : JSON.parse(text)
  } catch {
    // What it is instead may be a page of any length.
    throw otherServer(url, response.status)
  }
}

/** Who makes his own tokens may misspell the tenant: a token of one that is not there is shown nothing, and told nothing. */
async function checkTenant(args: Arguments, folders: Folders, url: string): Promise<void> {
  const { tenant } = args.flags
  if (tenant === undefined || tokenVariable() !== undefined) return
  const token = await tokenFor({ role: 'admin' }, folders, 60)
  const headers = { authorization: `Bearer ${token}` }
  const { status } = await fetchFrom(url, `/api/v1/tenants/${encodeURIComponent(tenant)}`, { headers })
  if (status !== NOT_FOUND) return
  throw Object.assign(new Error(`there is no tenant "${tenant}"`), { remedy: '"sluice tenant list" names them.' })
}

async function allPages(request: Client['request'], path: string): Promise<unknown[]> {
  const items: unknown[] = []
  let cursor = ''
  for (;;) {
    const page = (await request('GET', `${path}${path.includes('?') ? '&' : '?'}limit=${PAGE}${cursor}`)) as Page
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
  } catch (cause) {
    if (isRefusal(cause)) {
      throw Object.assign(new Error(`whether a server runs on ${dataDirectory} cannot be seen; ${reasonOf(cause)}`), {
        remedy: 'Say it as the account that the server has, or name its address with --url and set SLUICE_TOKEN.',
      })
    }
    throw new ServerAway(`no server runs on ${dataDirectory}`, {
      remedy:
        'Start one with "sluice start" ("npm start" in a checkout), or name another folder with --data-dir, or its address with --url.',
    })
  }
}

/** What is not there, or half written, is no server; of what may not be looked at nobody knows. */
function isRefusal(error: unknown): boolean {
  const { code = '' } = error as NodeJS.ErrnoException
  return !['ENOENT', 'ENOTDIR'].includes(code) && reasonOf(error) !== undefined
}

async function ownToken(args: Arguments, folders: Folders, named: string | undefined, as?: 'admin'): Promise<string> {
  const tenant = as === 'admin' ? undefined : args.flags['tenant']
  const subject = tenant
    ? { tenant, groups: [args.flags['group'] ?? 'svc-developers'], user: args.flags['user'] ?? DEFAULT_USER }
    : ({ role: 'admin' } as const)
  return tokenFor(subject, folders, 900).catch((error: unknown) => {
    if (named === undefined || (error as { readonly code?: string }).code !== 'issuer_keys_missing') throw error
    throw Object.assign(new Error(`there is no token for ${named}`, { cause: error }), {
      remedy: 'Set SLUICE_TOKEN to one, or name the data folder of that server with --data-dir.',
    })
  })
}

async function tokenFor(subject: TokenSubject, folders: Folders, ttlS: number): Promise<string> {
  const { issueToken } = await import('../auth/embedded-issuer.ts')
  return issueToken((await folders()).secrets_dir, subject, { ttlS })
}

/** Where a flag helps that the server does not know of. */
const FLAG_HINTS: Readonly<Record<string, string>> = {
  tenant_required: 'On the command line that is --tenant T.',
  raw_table_forbidden: 'If you are the creator, say so with --user NAME (where no SLUICE_TOKEN is set).',
  grant_not_held: 'If you are one of them, say so with --user NAME (where no SLUICE_TOKEN is set).',
  confirmation_missing: 'On the command line that is --confirm SLUG.',
  tenant_not_active: '"sluice tenant list" names the tenants and how each is.',
}

function refusal(url: string, status: number, text: string): Error {
  const problem = problemIn(text)
  return problem === null
    ? otherServer(url, status)
    : new ServerRefused(status, problem, describeFailure(status, problem))
}

/** What is told of single places stands below it; the remedy of an answer with such says no more than to look there. */
function describeFailure(status: number, problem: ProblemAnswer): string {
  const { detail = problem.title ?? '', errors = [] } = problem
  const lines = errors.flatMap((entry) => {
    const place = entry.manifest ? `${entry.manifest}.yaml` : `${entry.in ?? ''}${entry.pointer ?? ''}`
    const position = entry.line ? `:${entry.line}:${entry.column}` : ''
    if (detail.endsWith(entry.message) && !entry.hint && !position) return []
    return [`  ${place}${position} ${entry.message}${entry.hint ? ` (${entry.hint})` : ''}`]
  })
  const remedy = lines.length > 0 ? undefined : problem.remedy
  const hints = [remedy, FLAG_HINTS[problem.code]].filter((hint) => hint !== undefined)
  return [`${detail} (${problem.code}, ${status})`, ...lines, ...hints].join('\n')
}

function problemIn(text: string): ProblemAnswer | null {
  try {
    const problem = JSON.parse(text) as ProblemAnswer | null
    return typeof problem?.code === 'string' ? problem : null
  } catch {
    // A page, or nothing: whoever sent it is no Sluice.
    return null
  }
}

interface ProblemAnswer {
  readonly detail?: string
  readonly title?: string
  readonly code: string
  readonly remedy?: string
  readonly errors?: readonly {
    readonly in?: string
    readonly manifest?: string
    readonly pointer?: string
    /** Within the manifest. */
    readonly path?: string
    readonly line?: number
    readonly column?: number
    readonly message: string
    readonly hint?: string
  }[]
}
