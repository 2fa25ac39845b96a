/** Connections to one server or a cluster: one for reads, so that a load does not stand before them, and one for the rest. */
import { readFile } from 'node:fs/promises'
import type { ConnectionOptions } from 'node:tls'
import { type Health, isSluiceError } from '@sluice/sdk'
import { Cluster, Redis } from 'ioredis'
import { checkSettings, invalidSettings } from '../keyed-values/settings.ts'
import { BulkConnection } from './bulk-connection.ts'
import { DEFAULT_COMMAND_TIMEOUT_MS, DEFAULT_CONNECT_TIMEOUT_MS, type RedisSettings, settingsSchema } from './config.ts'
import { storeError } from './driver-errors.ts'
import { beginningWith } from './keys.ts'
import type { Script } from './scripts.ts'

const MAX_RECONNECT_DELAY_MS = 2000
const SCAN_COUNT = 1000

export type Client = Redis | Cluster

export interface Connections {
  readonly reads: Client
  readonly writes: Client
  readonly isCluster: boolean
  readonly replicas: number
  /** Every server that takes writes. */
  servers(): readonly Redis[]
  /** A new one, its caller's to close. A cluster has none: it would have to be told where each key lies. */
  readonly openBulk: (() => Promise<BulkConnection>) | null
  health(): Health
  close(): Promise<void>
}

/** Throws CONFIG for settings that cannot be right, TRANSIENT where the server does not answer in time. */
export async function openConnections(settings: RedisSettings): Promise<Connections> {
  checkSettings(settingsSchema, settings)
  const options = await clientOptions(settings)
  const clients: Client[] = []
  let told: unknown
  const connect = async (): Promise<Client> => {
    const client = settings.cluster ? clusterClient(settings, options) : new Redis(options)
    clients.push(client)
    // Of a refused login the connecting call says no more than that the connection was closed.
    client.on('error', (error: unknown) => {
      told = error
    })
    await withDeadline(client.connect(), options.connectTimeout)
    return client
  }
  try {
    const [reads, writes] = [await connect(), await connect()]
    return connectionsOf(settings, options, reads, writes)
  } catch (error) {
    for (const client of clients) client.disconnect()
    throw storeError(isSluiceError(error) ? error : (told ?? error))
  }
}

function connectionsOf(
  { cluster = false, replicas = 0 }: RedisSettings,
  options: ClientOptions,
  reads: Client,
  writes: Client,
): Connections {
  let closed = false
  return {
    reads,
    writes,
    isCluster: cluster,
    replicas,
    openBulk: cluster ? null : () => BulkConnection.open(options),
    servers: () => (writes instanceof Cluster ? writes.nodes('master') : [writes]),
    health: () =>
      closed || (reads.status === 'ready' && writes.status === 'ready')
        ? { status: 'ok' }
        : { status: 'down', message: 'the connection to the Redis server is lost and tried again' },
    async close() {
      if (closed) return
      closed = true
      for (const client of [reads, writes]) client.disconnect()
    },
  }
}

async function clientOptions(settings: RedisSettings) {
  const url = parsedUrl(settings.url)
  const tls = url.protocol === 'rediss:' || settings.tls ? await tlsOptions(settings.tls ?? {}) : undefined
  const username = settings.username ?? (decodeURIComponent(url.username) || undefined)
  const password = settings.password ?? (decodeURIComponent(url.password) || undefined)
  return {
    host: url.hostname.replace(/^\[|\]$/g, ''),
    port: Number(url.port || 6379),
    db: Number(url.pathname.slice(1) || 0),
    ...(username === undefined ? {} : { username }),
    ...(password === undefined ? {} : { password }),
    ...(tls === undefined ? {} : { tls }),
    connectionName: 'sluice',
    lazyConnect: true,
    // While there is no connection a call is refused at once, instead of waiting for one that may not come.
    enableOfflineQueue: false,
    autoResendUnfulfilledCommands: false,
    maxRetriesPerRequest: 0,
    connectTimeout: settings.connect_timeout_ms ?? DEFAULT_CONNECT_TIMEOUT_MS,
    commandTimeout: settings.command_timeout_ms ?? DEFAULT_COMMAND_TIMEOUT_MS,
    // A connection on which calls wait in silence is dead, even where nobody has said so.
    socketTimeout: settings.command_timeout_ms ?? DEFAULT_COMMAND_TIMEOUT_MS,
    retryStrategy: (times: number) => Math.min(50 * 2 ** Math.min(times, 10), MAX_RECONNECT_DELAY_MS),
    // After a failover the former master is a replica: only a new connection finds the new one.
    reconnectOnError: (error: Error) => error.message.startsWith('READONLY'),
  }
}

type ClientOptions = Awaited<ReturnType<typeof clientOptions>>

function parsedUrl(text: string): URL {
  const url = URL.parse(text)
  if (url && url.hostname !== '' && /^\/?\d*$/.test(url.pathname)) return url
  throw invalidSettings('is not of the form redis://host:port/database', '/url')
}

async function tlsOptions(tls: NonNullable<RedisSettings['tls']>): Promise<ConnectionOptions> {
  const read = async (name: 'ca_file' | 'cert_file' | 'key_file'): Promise<Buffer | undefined> => {
    const path = tls[name]
    if (path === undefined) return undefined
    return readFile(path).catch(() =>
      Promise.reject(invalidSettings('names a file that cannot be read', `/tls/${name}`)),
    )
  }
  const [ca, cert, key] = await Promise.all([read('ca_file'), read('cert_file'), read('key_file')])
  return {
    ...(ca === undefined ? {} : { ca }),
    ...(cert === undefined ? {} : { cert }),
    ...(key === undefined ? {} : { key }),
    ...(tls.server_name === undefined ? {} : { servername: tls.server_name }),
  }
}

function clusterClient(settings: RedisSettings, options: ClientOptions): Cluster {
  if (options.db !== 0) throw invalidSettings('names a database, and a cluster has none besides 0', '/url')
  const { host, port, enableOfflineQueue: _, retryStrategy, ...redisOptions } = options
  return new Cluster([{ host, port }], {
    redisOptions,
    lazyConnect: true,
    enableOfflineQueue: false,
    slotsRefreshTimeout: settings.connect_timeout_ms ?? DEFAULT_CONNECT_TIMEOUT_MS,
    clusterRetryStrategy: retryStrategy,
    // Names of certificates are those that nodes announce.
    dnsLookup: (address, done) => done(null, address),
  })
}

async function withDeadline(connecting: Promise<void>, timeoutMs: number): Promise<void> {
  const { promise: late, reject } = Promise.withResolvers<never>()
  const timer = setTimeout(() => reject(new Error('no connection in time')), timeoutMs)
  try {
    await Promise.race([connecting, late])
  } finally {
    clearTimeout(timer)
  }
}

/** Runs a script by its hash; the server that does not know it is sent it once. */
export async function runScript(
  client: Client,
  { lua, sha }: Script,
  keys: readonly string[],
  args: readonly (string | number)[],
): Promise<unknown> {
  try {
    return await client.evalsha(sha, keys.length, ...keys, ...args)
  } catch (error) {
    if (!(error instanceof Error && error.message.startsWith('NOSCRIPT'))) throw error
    return client.eval(lua, keys.length, ...keys, ...args)
  }
}

/** As `runScript` for each of the keys; on a cluster, where they lie on many nodes, in a call for each. */
export async function runForKeys(
  { writes, isCluster }: Connections,
  script: Script,
  keys: readonly string[],
  args: readonly (string | number)[],
): Promise<void> {
  if (keys.length === 0) return
  if (!isCluster) return void (await runScript(writes, script, keys, args))
  await Promise.all(keys.map((key) => runScript(writes, script, [key], args)))
}

/** All keys that begin with the text, in no order; one may come twice. */
export async function* keysBeginningWith(connections: Connections, text: string): AsyncGenerator<readonly string[]> {
  for (const server of connections.servers()) {
    let cursor = '0'
    do {
      const [next, keys] = await server.scan(cursor, 'MATCH', beginningWith(text), 'COUNT', SCAN_COUNT)
      cursor = next
      if (keys.length > 0) yield keys
    } while (cursor !== '0')
  }
}
