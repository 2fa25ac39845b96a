/**
 * Several runtimes on one PostgreSQL, one Redis and one S3 store, configured by the file that is deployed too, behind one
 * address that gives requests to them in turn.
 */
import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { openSync } from 'node:fs'
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import pg from 'pg'
import { parse, stringify } from 'yaml'
import { Client } from '../../acceptance/client.ts'
import { formatAddress, parseAddress } from '../../runtime/src/database/address.ts'
import { freePort } from '../../runtime/src/database/free-port.ts'
import { preparePlatformDatabases, ROLE_NAMES } from '../../runtime/src/database/roles.ts'
import { startCopiedServer } from '../../runtime/src/database/testing.ts'
import { RoundRobin } from './round-robin.ts'

const run = promisify(execFile)
const root = join(import.meta.dirname, '../..')
const launcher = join(root, 'runtime/bin/sluice.js')
const END_WITH_TEST = join(import.meta.dirname, '../../test/crash/end-with-test.js')
const START_MS = 180_000
/** What a runtime gives to what it has accepted, and to its clients of servers that are away, several times over. */
const END_MS = 120_000

export interface FleetServers {
  /** A superuser's login. */
  readonly postgres: string
  readonly redis: string
  readonly s3: { readonly endpoint: string; readonly key: string; readonly secret: string }
}

export interface FleetOptions {
  /** More `SLUICE_…` variables for the runtimes. */
  readonly settings?: Readonly<Record<string, string>>
  /** `kafka://user:password@host:port`; without it events stay in the registry. */
  readonly kafka?: string
  /** Address of a coordinator that lets everybody in: transforms may run there, over the fleet's own lake. */
  readonly trino?: string
  /** Whether it serves analytics, and answers queries, as well. */
  readonly isAnalyticsInTrino?: boolean
  /** Where a runtime is reached that listens on the port; for a proxy before it. */
  readonly reachedBy?: (name: string, port: number) => Promise<number>
}

export function serversFromEnvironment(environment: NodeJS.ProcessEnv): FleetServers {
  const named = (name: string): string => {
    const value = environment[name]
    if (value === undefined) throw new Error(`${name} is not set`)
    return value
  }
  return {
    postgres: named('SLUICE_TEST_POSTGRES_URL'),
    redis: named('SLUICE_TEST_REDIS_URL'),
    s3: {
      endpoint: named('SLUICE_TEST_S3_URL'),
      key: named('SLUICE_TEST_S3_KEY'),
      secret: named('SLUICE_TEST_S3_SECRET'),
    },
  }
}

export class FleetRuntime {
  readonly name: string
  readonly #fleet: Fleet
  #child: ChildProcess | null = null

  constructor(name: string, fleet: Fleet) {
    this.name = name
    this.#fleet = fleet
  }

  /** Resolves when it answers; from then on it is given requests. */
  async start(): Promise<void> {
    const port = await freePort()
    const { folder, configFile, environment, front } = this.#fleet
    const data = join(folder, this.name)
    const settings = ['--config', configFile, '--data-dir', data, '--port', String(port)]
    const args = ['--import', END_WITH_TEST, launcher, 'start', ...settings]
    const log = openSync(join(folder, `${this.name}.log`), 'a')
    const child = spawn(process.execPath, args, {
      stdio: ['ignore', log, log],
      detached: true,
      env: { ...environment, TEST_PROCESS_ID: String(process.pid) },
    })
    this.#child = child
    const address = { host: '127.0.0.1', port }
    for (const deadline = Date.now() + START_MS; Date.now() < deadline; await sleep(100)) {
      if (child.exitCode !== null) throw new Error(await this.#story())
      // Not up yet: asked again until the deadline.
      const answer = await fetch(`http://127.0.0.1:${port}/readyz`).catch(() => null)
      await answer?.arrayBuffer()
      if (answer?.status === 200) {
        const reached = (await this.#fleet.reachedBy?.(this.name, port)) ?? port
        return front.add(this.name, { ...address, port: reached })
      }
    }
    throw new Error(await this.#story())
  }

  /** `SIGTERM` ends it as an operator does, `SIGKILL` as a crash. Throws where it does not end by itself. */
  async stop(signal: 'SIGTERM' | 'SIGKILL' = 'SIGTERM'): Promise<void> {
    const child = this.#child
    this.#child = null
    if (child === null || child.exitCode !== null || child.signalCode !== null) return
    // A balancer is told of an orderly end before it comes; of a crash it learns by itself.
    if (signal === 'SIGTERM') this.#fleet.front.remove(this.name)
    const ended = once(child, 'exit')
    child.kill(signal)
    const isLate = await Promise.race([ended.then(() => false), sleep(END_MS, true, { ref: false })])
    if (isLate) child.kill('SIGKILL')
    await ended
    this.#fleet.front.remove(this.name)
    if (isLate) throw new Error(`the runtime ${this.name} did not end by itself within ${END_MS} ms`)
  }

  /** `SIGSTOP` and `SIGCONT`: it is there, and does nothing meanwhile. */
  signal(name: 'SIGSTOP' | 'SIGCONT'): void {
    this.#child?.kill(name)
  }

  async #story(): Promise<string> {
    const log = await readFile(join(this.#fleet.folder, `${this.name}.log`), 'utf8').catch(() => '')
    return `the runtime ${this.name} did not start:\n${log.slice(-4000)}`
  }
}

export class Fleet {
  readonly folder: string
  readonly configFile: string
  readonly front: RoundRobin
  readonly runtimes: readonly FleetRuntime[]
  readonly environment: NodeJS.ProcessEnv
  /** Prints a token; flags say for whom. */
  readonly tokenCommand: readonly string[]
  /** The folder of the keys that sign tokens. */
  readonly keys: string
  /** A superuser's login to a server for tables of a source. */
  readonly source: string
  readonly reachedBy: FleetOptions['reachedBy']
  readonly #dropDatabases: () => Promise<void>

  private constructor(
    parts: Omit<Fleet, 'runtimes' | 'token' | 'client' | 'close'> & { readonly drop: () => Promise<void> },
    count: number,
  ) {
    this.folder = parts.folder
    this.configFile = parts.configFile
    this.front = parts.front
    this.environment = parts.environment
    this.tokenCommand = parts.tokenCommand
    this.keys = parts.keys
    this.source = parts.source
    this.reachedBy = parts.reachedBy
    this.#dropDatabases = parts.drop
    this.runtimes = Array.from({ length: count }, (_, index) => new FleetRuntime(`runtime-${index + 1}`, this))
  }

  static async start(folder: string, servers: FleetServers, count: number, options: FleetOptions = {}): Promise<Fleet> {
    await mkdir(folder, { recursive: true })
    const front = await RoundRobin.listen()
    const databases = await makeDatabases(servers.postgres)
    // A server of its own: connections to the platform's are refused.
    const source = await startCopiedServer(join(folder, 'source'))
    const secrets = join(folder, 'secrets')
    const fleet = new Fleet(
      {
        folder,
        front,
        configFile: await writeConfig(folder, options, {
          LAKE_PASSWORD: databases.lakePassword,
          LAKE_S3_ACCESS_KEY: servers.s3.key,
          LAKE_S3_SECRET_KEY: servers.s3.secret,
        }),
        reachedBy: options.reachedBy,
        environment: {
          ...foreignEnvironment(),
          ...databases.settings,
          ...settingsOf(folder, servers, front.url),
          ...kafkaSettings(options.kafka),
          ...trinoSettings(options.trino, databases.settings.SLUICE_DATABASE__REGISTRY_URL),
          ...options.settings,
        },
        tokenCommand: [process.execPath, launcher, 'token', '--data-dir', secrets],
        keys: secrets,
        source: formatAddress(source.tcpAddress),
        async drop() {
          await source.destroy()
          await databases.drop()
        },
      },
      count,
    )
    try {
      for (const runtime of fleet.runtimes) await runtime.start()
      return fleet
    } catch (error) {
      await fleet.close()
      throw error
    }
  }

  async token(flags: readonly string[]): Promise<string> {
    const [command = '', ...args] = this.tokenCommand
    return (await run(command, [...args, ...flags])).stdout.trim()
  }

  /** Of whom the flags of a token name, at the one address. */
  async client(flags: readonly string[]): Promise<Client> {
    return new Client(this.front.url, await this.token(flags))
  }

  async close(): Promise<void> {
    await Promise.allSettled(this.runtimes.map((runtime) => runtime.stop()))
    await this.front.close()
    await this.#dropDatabases()
  }
}

/** What makes a connection to a source, named `db`. */
export function connectionTo(source: string) {
  const { host, port, user, password, database } = parseAddress(source)
  const config = { host, port, user, password, database, ssl_mode: 'prefer' }
  return { name: 'db', connector_type: 'postgresql', config_encrypted: JSON.stringify(config) }
}

/** As it is deployed, but for what these tests have no server for. */
async function writeConfig(folder: string, options: FleetOptions, ofTrino: NodeJS.ProcessEnv): Promise<string> {
  // The coordinator was started before there was anything that its environment could name.
  const text = (await readFile(join(root, 'deploy/sluice/sluice.yaml'), 'utf8')).replace(
    /\$\{ENV:(\w+)\}/g,
    (_, name: string) => JSON.stringify(ofTrino[name]),
  )
  const { auth: _, events, compute, ...kept } = parse(text) as DeployedConfig
  const chosen = {
    ...(options.kafka ? { events } : {}),
    ...(options.trino ? { compute } : {}),
    ...(options.isAnalyticsInTrino ? servedByTrino(kept, compute.trino) : {}),
  }
  const file = join(folder, 'sluice.yaml')
  await writeFile(file, stringify({ ...kept, ...chosen, host: '127.0.0.1' }, { aliasDuplicateObjects: false }))
  return file
}

interface DeployedConfig extends Record<string, unknown> {
  readonly plugins: readonly string[]
  readonly serving: Readonly<Record<string, unknown>>
  readonly compute: { readonly trino: Readonly<Record<string, unknown>> }
}

function servedByTrino({ plugins, serving }: Pick<DeployedConfig, 'plugins' | 'serving'>, trino: object) {
  const settings = { ...trino, path: `\${env:ANALYTICS_DIR}` }
  return {
    plugins: plugins.map((name) => name.replace('@sluice/analytics/duckdb', '@sluice/analytics/trino')),
    serving: { ...serving, analytics: { driver: 'trino', settings } },
  }
}

function settingsOf(folder: string, { redis, s3 }: FleetServers, publicUrl: string): NodeJS.ProcessEnv {
  const login = new URL(redis)
  const password = decodeURIComponent(login.password)
  login.password = ''
  return {
    ANALYTICS_DIR: join(folder, 'analytics'),
    REDIS_URL: login.href,
    REDIS_PASSWORD: password,
    S3_ENDPOINT: s3.endpoint,
    S3_ACCESS_KEY: s3.key,
    S3_SECRET_KEY: s3.secret,
    SLUICE_SECRETS_DIR: join(folder, 'secrets'),
    SLUICE_PUBLIC_URL: publicUrl,
    SLUICE_NETWORK__ALLOW_LOOPBACK: 'true',
    SLUICE_LIMITS__RATE__STANDARD: '5000',
    SLUICE_LIMITS__RATE__FREE: '5000',
    SLUICE_LIMITS__LEASE_MS: '3000',
    // Its address is told at once.
    SLUICE_STOP__NOTICE_MS: '0',
    SLUICE_LOG__LEVEL: 'warn',
  }
}

function kafkaSettings(url: string | undefined): NodeJS.ProcessEnv {
  if (url === undefined) return {}
  const { host, username, password } = new URL(url)
  return { KAFKA_BROKER: host, KAFKA_USERNAME: username, KAFKA_PASSWORD: decodeURIComponent(password) }
}

function trinoSettings(url: string | undefined, registry: string): NodeJS.ProcessEnv {
  if (url === undefined) return {}
  const { host, port, database } = parseAddress(registry)
  return { TRINO_URL: url, TRINO_LAKE_URL: `jdbc:postgresql://${host}:${port}/${database}` }
}

function foreignEnvironment(): NodeJS.ProcessEnv {
  return Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith('SLUICE_')))
}

async function makeDatabases(superuser: string) {
  const admin = parseAddress(superuser)
  const suffix = `_fleet_${Date.now().toString(36)}`
  const names = Object.fromEntries(Object.entries(ROLE_NAMES).map(([key, name]) => [key, `${name}${suffix}`]))
  const { registry, serving } = await preparePlatformDatabases(admin, names as unknown as typeof ROLE_NAMES)
  const statements = async (...texts: readonly string[]) => {
    const client = new pg.Client({ connectionString: superuser })
    await client.connect()
    for (const text of texts) await client.query(text)
    await client.end()
  }
  // Its name stands in policies, so that there is one on a server.
  const lakePassword = randomBytes(18).toString('hex')
  await statements(
    `do $$ begin create role sluice_lake; exception when duplicate_object then null; end $$`,
    `alter role sluice_lake login nosuperuser nobypassrls password '${lakePassword}'`,
    'alter role sluice_lake set default_transaction_read_only = on',
  )
  const roles = [names['registryRole'], names['servingOwner'], names['servingWriter'], names['servingReader']]
  const databases = [names['registryDatabase'], names['servingDatabase']]
  return {
    lakePassword,
    settings: {
      SLUICE_DATABASE__REGISTRY_URL: formatAddress(registry),
      SLUICE_DATABASE__SERVING_OWNER_URL: formatAddress(serving.owner),
      SLUICE_DATABASE__SERVING_WRITER_URL: formatAddress(serving.writer),
      SLUICE_DATABASE__SERVING_READER_URL: formatAddress(serving.reader),
    },
    drop: () =>
      statements(
        ...databases.map((name) => `drop database if exists ${name} with (force)`),
        ...roles.map((role) => `drop role if exists ${role}`),
      ),
  }
}
