/** The servers of a stack, each behind a proxy, and each to be killed, stopped for a while, and started again. */
import { randomBytes } from 'node:crypto'
import { mkdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { childrenOf } from '@sluice/engine/process-table'
import { formatAddress } from '../../runtime/src/database/address.ts'
import { type EmbeddedServer, startEmbeddedServer } from '../../runtime/src/database/embedded-server.ts'
import { freePort } from '../../runtime/src/database/free-port.ts'
import { freeListening, kafkaUrl, startKafka } from '../servers/kafka.ts'
import { redisCommand, startRedisLike } from '../servers/redis.ts'
import { startTrino } from '../servers/trino.ts'
import { startVersitygw } from '../servers/versitygw.ts'
import type { FleetOptions, FleetServers } from '../several/fleet.ts'
import { TcpProxy } from './proxy.ts'

/** One that things are done to. */
export interface Victim {
  readonly name: string
  /** Ends it without a word. */
  kill(): Promise<void>
  /** After `kill`: with all that it had kept. */
  restart(): Promise<void>
  pause(): void
  resume(): void
  cut(): void
  heal(): void
}

export interface OwnServers {
  readonly addresses: FleetServers
  /** Those that a fleet may do without: Trino for analytics, Kafka for events. */
  readonly engines: Pick<FleetOptions, 'trino' | 'isAnalyticsInTrino' | 'kafka'>
  /** By the name that it was started under: `PostgreSQL`, `Redis`, `S3`, `Trino`, `Kafka`. */
  victim(name: string): Victim
  stop(): Promise<void>
}

interface Running {
  readonly port: number
  /** All that belong to it. */
  processes(): readonly number[]
  stop(): Promise<void>
}

/** Brings a server up that is reached through the proxy, the second time with what it had kept. */
type Start = (proxy: TcpProxy) => Promise<Running>

class OwnServer implements Victim {
  readonly name: string
  readonly proxy: TcpProxy
  readonly #start: Start
  #running: Running
  #stopped: readonly number[] = []

  private constructor(name: string, start: Start, running: Running, proxy: TcpProxy) {
    this.name = name
    this.#start = start
    this.#running = running
    this.proxy = proxy
  }

  static async start(name: string, start: Start): Promise<OwnServer> {
    const proxy = await TcpProxy.listen(0)
    try {
      const running = await start(proxy)
      proxy.target = running.port
      return new OwnServer(name, start, running, proxy)
    } catch (error) {
      await proxy.close()
      throw error
    }
  }

  async kill(): Promise<void> {
    send(this.#running.processes(), 'SIGKILL')
    await this.#running.stop()
  }

  async restart(): Promise<void> {
    this.#running = await this.#start(this.proxy)
    this.proxy.target = this.#running.port
  }

  pause(): void {
    this.#stopped = this.#running.processes()
    send(this.#stopped, 'SIGSTOP')
  }

  resume(): void {
    send(this.#stopped, 'SIGCONT')
    this.#stopped = []
  }

  cut(): void {
    this.proxy.cut()
  }

  heal(): void {
    this.proxy.heal()
  }

  async stop(): Promise<void> {
    this.resume()
    await this.#running.stop()
    await this.proxy.close()
  }
}

function send(processes: readonly number[], signal: NodeJS.Signals): void {
  for (const pid of processes) {
    try {
      process.kill(pid, signal)
    } catch {
      // It has ended already.
    }
  }
}

type Add = (name: string, start: Start) => Promise<OwnServer>

export async function startOwnServers(folder: string, hasEngines = false): Promise<OwnServers> {
  await mkdir(folder, { recursive: true })
  const started: OwnServer[] = []
  const stop = async () => {
    for (const server of started.splice(0).reverse()) await server.stop()
  }
  const add: Add = async (name, start) => {
    const server = await OwnServer.start(name, start)
    started.push(server)
    return server
  }
  try {
    let database: EmbeddedServer | undefined
    const postgres = await add('PostgreSQL', async () => {
      database = await startPostgres(join(folder, 'platform'))
      return postgresRunning(database)
    })
    const redis = { port: await freePort(), url: '' }
    const values = await add('Redis', () => startRedis(join(folder, 'redis'), redis))
    const s3 = { port: await freePort(), key: 'sluice', secret: randomBytes(18).toString('base64url') }
    const objects = await add('S3', () => startS3(join(folder, 's3'), s3))
    const login = (database as EmbeddedServer).tcpAddress
    const engines = hasEngines ? await addEngines(folder, add) : {}
    return {
      victim(name) {
        const found = started.find((server) => server.name === name)
        if (found === undefined) throw new Error(`no server is named ${name}`)
        return found
      },
      engines,
      addresses: {
        postgres: formatAddress({ ...login, port: postgres.proxy.port }),
        redis: redis.url.replace(String(redis.port), String(values.proxy.port)),
        s3: { endpoint: `http://127.0.0.1:${objects.proxy.port}`, key: s3.key, secret: s3.secret },
      },
      stop,
    }
  } catch (error) {
    await stop()
    throw error
  }
}

/** What was committed outlasts a kill of the server; of the machine nobody asks here. */
function startPostgres(dataFolder: string): Promise<EmbeddedServer> {
  return startEmbeddedServer({ dataFolder, settings: { fsync: 'off', full_page_writes: 'off' } })
}

function postgresRunning(server: EmbeddedServer): Running {
  return {
    port: server.tcpAddress.port,
    // Each connection is served by a child, which has a process group of its own.
    processes: () => [server.pid, ...childrenOf(server.pid)],
    stop: () => server.stop(),
  }
}

async function startRedis(folder: string, wanted: { port: number; url: string }): Promise<Running> {
  const { env, pid, stop } = await startRedisLike('redis', await redisCommand(), folder, [], wanted.port)
  wanted.url = env['SLUICE_TEST_REDIS_URL'] as string
  return { port: wanted.port, processes: () => [pid], stop }
}

async function startS3(
  folder: string,
  login: { readonly port: number; readonly key: string; readonly secret: string },
): Promise<Running> {
  const { pid, stop } = await startVersitygw(folder, login)
  return { port: login.port, processes: () => [pid], stop }
}

async function addEngines(folder: string, add: Add): Promise<OwnServers['engines']> {
  const [listening, port] = [await freeListening(), await freePort()]
  const starting = [
    add('Kafka', (proxy) => startEvents(join(folder, 'kafka'), listening, proxy)),
    add('Trino', () => startStatements(join(folder, 'trino'), port)),
  ] as const
  // Whatever becomes of the one, the other is there to be ended.
  await Promise.allSettled(starting)
  const [events, statements] = await Promise.all(starting)
  return {
    kafka: kafkaUrl(`127.0.0.1:${events.proxy.port}`),
    trino: `http://127.0.0.1:${statements.proxy.port}`,
    isAnalyticsInTrino: true,
  }
}

/** It tells its clients to come by the proxy, as whoever waits for its start does too. */
async function startEvents(
  folder: string,
  listening: Awaited<ReturnType<typeof freeListening>>,
  proxy: TcpProxy,
): Promise<Running> {
  const port = Number(new URL(`tcp://${listening.clients}`).port)
  proxy.target = port
  const { pid, stop } = await startKafka({ folder, listening, reached: `127.0.0.1:${proxy.port}` })
  return { port, processes: () => [pid], stop }
}

/** Each time without catalogs, as a container that is made anew: whoever needs one has to make it again. */
async function startStatements(folder: string, port: number): Promise<Running> {
  await rm(join(folder, 'etc/catalog'), { recursive: true, force: true })
  const { pid, stop } = await startTrino({ folder, port })
  return { port, processes: () => [pid], stop }
}
