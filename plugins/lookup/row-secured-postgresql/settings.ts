import { type JsonSchema, SluiceError } from '@sluice/sdk'
import type { ClientConfig } from 'pg'

/** Three logins of one database, none of which may be a superuser or have BYPASSRLS. */
export interface Settings {
  /** Owns schemas and tables; provisions and builds partitions. */
  readonly owner: string
  /** Changes rows. */
  readonly writer: string
  /** Reads rows. */
  readonly reader: string
  /** Pipelined connections for point reads; default 2. */
  readonly fast_readers?: number
  /** Connections for scans, ranges and large answers; default 8. */
  readonly slow_readers?: number
  /** Writes at a time; default 4. */
  readonly writers?: number
}

const URL_PATTERN = '^postgres(ql)?://'

function login(description: string): JsonSchema {
  return { type: 'string', description, pattern: URL_PATTERN, maxLength: 2000, 'x-secret': true }
}

export const SETTINGS_SCHEMA: JsonSchema = {
  type: 'object',
  required: ['owner', 'writer', 'reader'],
  additionalProperties: false,
  properties: {
    owner: login('postgresql:// URL of the login that owns schemas and tables; a socket: ?host=/folder.'),
    writer: login('postgresql:// URL of the login that changes rows.'),
    reader: login('postgresql:// URL of the login that reads rows.'),
    fast_readers: { type: 'integer', minimum: 1, maximum: 32, default: 2, description: 'Connections for point reads.' },
    slow_readers: { type: 'integer', minimum: 1, maximum: 100, default: 8, description: 'Connections for long reads.' },
    writers: { type: 'integer', minimum: 1, maximum: 32, default: 4, description: 'Writes at a time.' },
  },
}

const SSL_MODES = ['disable', 'require', 'verify-ca', 'verify-full', 'no-verify'] as const

export interface Login {
  readonly user: string
  readonly database: string
  readonly config: ClientConfig
}

/**
 * Everything that a connection needs, said outright: whatever is left out, the driver would take from the PG*
 * variables of the process.
 */
export function parseLogin(name: 'owner' | 'writer' | 'reader', url: string): Login {
  const parsed = parseUrl(name, url)
  const user = decodeURIComponent(parsed.username)
  const database = decodeURIComponent(parsed.pathname.slice(1))
  const host = parsed.searchParams.get('host') ?? decodeURIComponent(parsed.hostname).replace(/^\[(.*)\]$/, '$1')
  if (!user || !database || !host || host === NO_HOST) throw badUrl(name, 'names no user, database or host')
  const password = decodeURIComponent(parsed.password)
  const port = Number(parsed.searchParams.get('port') ?? (parsed.port || 5432))
  if (!Number.isInteger(port) || port < 1 || port > 65_535) throw badUrl(name, 'has no valid port')
  return { user, database, config: { user, database, host, port, password: () => password, ssl: sslOf(name, parsed) } }
}

/** A URL parser takes no user without a host, as `postgresql://user@/db?host=/folder` has it. */
const NO_HOST = 'no-host.invalid'

function parseUrl(name: string, url: string): URL {
  try {
    return new URL(url.replace(/^postgres(?:ql)?:\/\//, 'postgresql://').replace('@/', `@${NO_HOST}/`))
  } catch {
    throw badUrl(name, 'cannot be parsed')
  }
}

function sslOf(name: string, url: URL): NonNullable<ClientConfig['ssl']> {
  const mode = url.searchParams.get('sslmode') ?? 'disable'
  if (!(SSL_MODES as readonly string[]).includes(mode)) throw badUrl(name, 'has an unknown sslmode')
  if (mode === 'disable') return false
  return { rejectUnauthorized: mode !== 'no-verify' }
}

function badUrl(name: string, what: string): SluiceError {
  return new SluiceError('CONFIG', `the PostgreSQL store's setting "${name}" ${what}`, {
    code: 'invalid_settings',
    remedy: 'Write postgresql://user:password@host:5432/database, or postgresql://user@/database?host=/socket/folder.',
    details: { pointer: `/${name}` },
  })
}
