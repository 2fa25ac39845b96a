/**
 * PostgreSQL for tests: the same server as the embedded one, with databases that take some 50 ms to make.
 *
 * `SLUICE_TEST_POSTGRES_URL` names a superuser's login to a server that the tests may use; a test run over many files
 * sets it (see `test-server.ts`). Without it each test process starts a server of its own, which ends with the process.
 */
import { createHash, randomBytes } from 'node:crypto'
import { existsSync, mkdirSync, mkdtempSync, readdirSync, renameSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { type DatabaseAddress, formatAddress, parseAddress } from './address.ts'
import { type EmbeddedServer, startEmbeddedServer } from './embedded-server.ts'
import { sqlState } from './errors.ts'
import { type FolderLock, lockFolder } from './folder-lock.ts'
import { type MigrationList, migrate } from './migrate.ts'
import { clientConfig, openPool, type PoolOptions } from './pools.ts'
import { chooseAccount } from './postgres-account.ts'
import { cacheFolder, findBinaries } from './postgres-binaries.ts'
import { ensureCluster } from './postgres-cluster.ts'
import { prepareHome } from './postgres-home.ts'
import { prepareServingDatabase, type RoleNames, type ServingLogins } from './roles.ts'

export interface TestDatabase extends AsyncDisposable {
  /** An ordinary role that owns the database. */
  readonly address: DatabaseAddress
  /** `address` as a URL. */
  readonly url: string
  /** A superuser in the same database. */
  readonly admin: DatabaseAddress
  /** A pool on `address`; `drop` closes it. */
  pool(options?: Partial<PoolOptions>): pg.Pool
  /** Closes the pools and drops the database, other connections included. */
  drop(): Promise<void>
}

export interface TestServingDatabase extends AsyncDisposable {
  readonly logins: ServingLogins
  /** A superuser in the same database. */
  readonly admin: DatabaseAddress
  drop(): Promise<void>
}

export interface TestPostgres {
  /** The superuser's login to the database `postgres`. */
  readonly admin: DatabaseAddress
  /** A new database, empty or cloned from one that these migrations made. */
  createDatabase(options?: { readonly migrations?: readonly MigrationList[] }): Promise<TestDatabase>
  /** A new database with owner, writer and reader roles of its own. */
  createServingDatabase(): Promise<TestServingDatabase>
}

/** No test waits for as long as this for anything that happens at all, however slow the machine is. */
export const PATIENT = {
  connectTimeoutMs: 300_000,
  statementTimeoutMs: 300_000,
  idleInTransactionTimeoutMs: 300_000,
} as const

/** Owns every test database; its password is no secret, the server is thrown away. */
const TEST_ROLE = 'sluice_test'
const TEST_PASSWORD = 'sluice-test'

let shared: Promise<TestPostgres> | undefined

/**
 * The server of this test process; the same one at every call. The promise is each caller's own: node:test takes what is
 * defined after a promise was awaited for a part of the suite that made the promise.
 */
export async function startTestPostgres(): Promise<TestPostgres> {
  shared ??= connectOrStart()
  return shared
}

async function connectOrStart(): Promise<TestPostgres> {
  const url = process.env.SLUICE_TEST_POSTGRES_URL
  const admin = url === undefined ? (await startOwn()).address : parseAddress(url)
  await onServer(admin, (client) =>
    ignoring(['42710', '23505', 'XX000'], client.query(`create role ${TEST_ROLE} login password '${TEST_PASSWORD}'`)),
  )
  return {
    admin,
    createDatabase: (options = {}) => createDatabase(admin, options.migrations ?? []),
    createServingDatabase: () => createServingDatabase(admin),
  }
}

async function startOwn(): Promise<EmbeddedServer> {
  const server = await startThrowawayServer({ keepsProcessAlive: false })
  process.once('beforeExit', () => void server.stop())
  return server
}

/** A server in a temporary folder, without durability, started from a kept copy; `stop` removes the folder. */
export async function startThrowawayServer(options: { readonly keepsProcessAlive: boolean }): Promise<EmbeddedServer> {
  sweepTemporaryFolders()
  const template = await testCluster()
  const dataFolder = mkdtempSync(join(tmpdir(), TEMPORARY_PREFIX))
  const settings = {
    shared_buffers: '64MB',
    max_connections: '400',
    autovacuum: 'off',
    wal_level: 'minimal',
    max_wal_senders: '0',
    // Tests log in thousands of times; a hash that is hard to find out helps none of them.
    scram_iterations: '1',
  }
  const server = await startEmbeddedServer({ dataFolder, template, durable: false, settings, ...options })
  return {
    ...server,
    async stop() {
      await server.destroy()
      rmSync(dataFolder, { recursive: true, force: true })
    },
  }
}

const TEMPORARY_PREFIX = 'sluice-test-postgres-'
const ABANDONED_AFTER_MS = 15 * 60_000

/** Removes what killed test processes left. A folder whose lock can be had has no server any more. */
function sweepTemporaryFolders(): void {
  for (const name of readdirSync(tmpdir()).filter((entry) => entry.startsWith(TEMPORARY_PREFIX))) {
    const folder = join(tmpdir(), name)
    try {
      if (Date.now() - statSync(folder).mtimeMs < ABANDONED_AFTER_MS) continue
      if (existsSync(join(folder, 'postgres'))) lockFolder(join(folder, 'postgres'), 'server.lock').release()
      rmSync(folder, { recursive: true, force: true })
    } catch {
      // In use, or another user's.
    }
  }
}

/** A cluster made once per version and account, kept in the cache folder: copying it takes a tenth of what making one does. */
export async function testCluster(): Promise<string> {
  const account = chooseAccount('')
  const cache = cacheFolder(account)
  mkdirSync(cache, { recursive: true, mode: 0o755 })
  const { version } = findBinaries(account)
  const target = join(cache, `test-cluster-${version}-${account?.uid ?? process.getuid?.()}`)
  if (existsSync(target)) return join(target, 'postgres')
  const lock = await waitForLock(cache)
  try {
    if (!existsSync(target)) await makeTemplate(cache, target)
  } finally {
    lock.release()
  }
  return join(target, 'postgres')
}

/** A server to read from, without durability, on a copy of that cluster. The caller removes the folder. */
export async function startCopiedServer(dataFolder: string): Promise<EmbeddedServer> {
  return startEmbeddedServer({ dataFolder, durable: false, template: await testCluster() })
}

/**
 * Puts a copy of that cluster where a runtime would make its own, in a data folder that has none: for tests whose subject is
 * not the first start. Repeatable.
 */
export async function placeTestCluster(dataFolder: string): Promise<void> {
  if (existsSync(join(dataFolder, 'postgres'))) return
  const account = chooseAccount('')
  const home = prepareHome(dataFolder, account)
  await ensureCluster({
    home,
    account,
    binaries: findBinaries(account),
    durable: false,
    template: await testCluster(),
  })
}

async function makeTemplate(cache: string, target: string): Promise<void> {
  const staging = mkdtempSync(join(cache, '.test-cluster-'))
  const server = await startEmbeddedServer({ dataFolder: staging, durable: false })
  await server.stop()
  renameSync(staging, target)
}

async function waitForLock(folder: string): Promise<FolderLock> {
  for (;;) {
    try {
      return lockFolder(folder, 'test-cluster.lock')
    } catch {
      await sleep(50)
    }
  }
}

async function createDatabase(admin: DatabaseAddress, migrations: readonly MigrationList[]): Promise<TestDatabase> {
  const name = `test_${randomBytes(8).toString('hex')}`
  const template = migrations.length === 0 ? null : await migratedTemplate(admin, migrations)
  await onServer(admin, (client) =>
    // Files are copied: through the log it takes half as much again.
    client.query(`create database ${name} owner ${TEST_ROLE} template ${template ?? 'template1'} strategy file_copy`),
  )
  const address = { ...admin, database: name, user: TEST_ROLE, password: TEST_PASSWORD }
  const pools: pg.Pool[] = []
  const drop = async (): Promise<void> => {
    await Promise.all(pools.splice(0).map((pool) => pool.end()))
    await onServer(admin, (client) => client.query(`drop database if exists ${name} with (force)`))
  }
  return {
    address,
    url: formatAddress(address),
    admin: { ...admin, database: name },
    pool(options = {}) {
      const pool = openPool(address, { ...PATIENT, applicationName: 'sluice-test', ...options })
      pools.push(pool)
      return pool
    },
    drop,
    [Symbol.asyncDispose]: drop,
  }
}

const templates = new Map<string, Promise<string>>()

/** The template's name; looked for once in each process. */
function migratedTemplate(admin: DatabaseAddress, migrations: readonly MigrationList[]): Promise<string> {
  const hash = createHash('sha256').update(JSON.stringify(migrations)).digest('hex').slice(0, 24)
  const key = `${formatAddress(admin)} ${hash}`
  const template = templates.get(key) ?? makeMigratedTemplate(admin, migrations, hash)
  templates.set(key, template)
  return template
}

/** Made under another name and renamed when complete; test processes that need the same one wait for the first. */
async function makeMigratedTemplate(
  admin: DatabaseAddress,
  migrations: readonly MigrationList[],
  hash: string,
): Promise<string> {
  const name = `template_${hash}`
  await onServer(admin, async (client) => {
    await client.query('select pg_advisory_lock(hashtextextended($1, 0))', [name])
    if ((await client.query('select from pg_database where datname = $1', [name])).rowCount !== 0) return
    await client.query(`drop database if exists making_${hash} with (force)`)
    await client.query(`create database making_${hash} owner ${TEST_ROLE}`)
    const pool = openPool(
      { ...admin, database: `making_${hash}`, user: TEST_ROLE, password: TEST_PASSWORD },
      { ...PATIENT, applicationName: 'sluice-test', maxConnections: 1 },
    )
    await migrate(pool, migrations)
    await pool.end()
    // A backend lives on for a moment after its client has gone, and would stand in the way of the renaming.
    await client.query('select pg_terminate_backend(pid, 5000) from pg_stat_activity where datname = $1', [
      `making_${hash}`,
    ])
    await client.query(`alter database making_${hash} rename to ${name}`)
  })
  return name
}

async function createServingDatabase(admin: DatabaseAddress): Promise<TestServingDatabase> {
  const id = randomBytes(6).toString('hex')
  const names: Omit<RoleNames, 'registryDatabase' | 'registryRole'> = {
    servingDatabase: `serving_${id}`,
    servingOwner: `owner_${id}`,
    servingWriter: `writer_${id}`,
    servingReader: `reader_${id}`,
  }
  const logins = await prepareServingDatabase(admin, names)
  const drop = async (): Promise<void> => {
    await onServer(admin, async (client) => {
      await client.query(`drop database if exists ${names.servingDatabase} with (force)`)
      await client.query(`drop role if exists ${names.servingOwner}, ${names.servingWriter}, ${names.servingReader}`)
    })
  }
  return { logins, admin: { ...admin, database: names.servingDatabase }, drop, [Symbol.asyncDispose]: drop }
}

/** One connection to the server's own database, closed afterwards. */
async function onServer<T>(admin: DatabaseAddress, work: (client: pg.Client) => Promise<T>): Promise<T> {
  const client = new pg.Client(clientConfig(admin, { ...PATIENT, applicationName: 'sluice-test-admin' }))
  await client.connect()
  try {
    return await work(client)
  } finally {
    await client.end()
  }
}

async function ignoring(states: readonly string[], work: Promise<unknown>): Promise<void> {
  try {
    await work
  } catch (error) {
    if (!states.includes(sqlState(error) ?? '')) throw error
  }
}
