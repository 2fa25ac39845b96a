/**
 * Where a PostgreSQL database is and who logs in. Built once at the edge (configuration, embedded server) and passed on
 * as a value; nothing below reads the PG* environment.
 */
import { SluiceError } from '@sluice/sdk'

export type TlsMode =
  /** No TLS. */
  | 'disable'
  /** TLS without a check of the server's certificate. */
  | 'require'
  /** TLS, certificate and host name checked. */
  | 'verify-full'

export interface DatabaseAddress {
  /** Host name or address, or the folder of a unix socket (absolute path). */
  readonly host: string
  readonly port: number
  readonly database: string
  readonly user: string
  readonly password: string
  readonly tls: TlsMode
}

const TLS_MODES: readonly string[] = ['disable', 'require', 'verify-full'] satisfies TlsMode[]

function invalid(what: string): SluiceError {
  return new SluiceError('CONFIG', `the database URL ${what}`, {
    code: 'database_url_invalid',
    remedy: 'Write it as postgresql://user:password@host:5432/database?sslmode=verify-full.',
  })
}

/**
 * Reads a `postgresql://` URL. A unix socket is given as `?host=/folder`. Throws a CONFIG error that never repeats the
 * URL, since it holds a password.
 */
export function parseAddress(url: string): DatabaseAddress {
  if (!URL.canParse(url)) throw invalid('cannot be read')
  const parsed = new URL(url)
  if (parsed.protocol !== 'postgresql:' && parsed.protocol !== 'postgres:') throw invalid('is not a PostgreSQL URL')
  const host = parsed.searchParams.get('host') ?? decodeURIComponent(parsed.hostname).replace(/^\[(.*)\]$/, '$1')
  const database = decodeURIComponent(parsed.pathname.slice(1))
  const user = decodeURIComponent(parsed.username)
  if (host === '' || database === '' || user === '') throw invalid('names no host, user or database')
  const tls =
    parsed.searchParams.get('sslmode') ?? (host.startsWith('/') || isLoopback(host) ? 'disable' : 'verify-full')
  if (!TLS_MODES.includes(tls)) throw invalid(`has an sslmode other than ${TLS_MODES.join(', ')}`)
  return {
    host,
    port: parsed.port === '' ? 5432 : Number(parsed.port),
    database,
    user,
    password: decodeURIComponent(parsed.password),
    tls: tls as TlsMode,
  }
}

/** The address as a URL that `parseAddress` and libpq read. It holds the password: never log it. */
export function formatAddress(address: DatabaseAddress): string {
  const socket = address.host.startsWith('/')
  const host = socket ? 'localhost' : address.host.includes(':') ? `[${address.host}]` : address.host
  const login = `${encodeURIComponent(address.user)}:${encodeURIComponent(address.password)}`
  const query = socket
    ? `?host=${encodeURIComponent(address.host)}`
    : address.tls === 'disable'
      ? '?sslmode=disable'
      : `?sslmode=${address.tls}`
  return `postgresql://${login}@${host}:${address.port}/${encodeURIComponent(address.database)}${query}`
}

function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '::1' || /^127(\.\d{1,3}){3}$/.test(host)
}
