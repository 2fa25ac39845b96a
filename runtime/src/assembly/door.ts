/** Where HTTP comes in: by this process alone, or by several that share the port. */
import { rm } from 'node:fs/promises'
import { availableParallelism } from 'node:os'
import type { Logger } from '@sluice/sdk'
import type { Registry as MetricsRegistry } from 'prom-client'
import type { Config } from '../config.ts'
import type { HttpApp } from '../http/app.ts'
import type { Probe, ReadinessChecks } from '../http/readiness.ts'
import { Reception } from '../http/reception.ts'
import { createFedServer, startServer } from '../http/server.ts'
import { mergedScrapes, processMetrics } from '../metrics/processes.ts'
import { FurtherProcesses } from './further-processes.ts'
import type { Lifecycle } from './lifecycle.ts'
import type { RuntimeLogger } from './logger.ts'
import type { Platform } from './platform.ts'
import { enginesOfAll, foldersOf } from './process-shares.ts'
import type { Databases } from './storage.ts'
import { answerStoreCall, optionalCalls, type StoreCall } from './store-elsewhere.ts'

export interface DoorParts {
  /** Undivided; what this process has of it is the platform's. */
  readonly whole: Config
  readonly platform: Platform
  readonly port: number
  readonly url: string
  readonly databases: Databases
  readonly logger: Logger & Partial<Pick<RuntimeLogger, 'relay'>>
  readonly metrics: MetricsRegistry
}

export interface Opening {
  readonly app: HttpApp
  readonly readiness: ReadinessChecks
  readonly lifecycle: Lifecycle
  /** How long requests under way have when it stops. */
  drainMs(): number
}

export interface Door {
  /** What readiness asks of it. */
  readonly probes: readonly Probe[]
  /** The metrics of all processes that serve, in Prometheus's format. */
  scrape(): Promise<string>
  open(opening: Opening): Promise<void>
}

export function createDoor(parts: DoorParts): Door {
  return parts.whole.http.processes === 1 ? ownDoor(parts) : sharedDoor(parts)
}

/** Behind proxies all connections are theirs, and they count the addresses in front of them. */
export function connectionLimits({ limits, trusted_proxies: proxies }: Config) {
  const { connections: maxConnections, connections_per_address: maxConnectionsPerAddress } = limits
  return { maxConnections, ...(proxies === 0 ? { maxConnectionsPerAddress } : {}) }
}

function ownDoor({ whole, port, metrics }: DoorParts): Door {
  return {
    probes: [],
    scrape: () => metrics.metrics(),
    async open({ app, lifecycle, drainMs }) {
      await lifecycle.start(
        'the server',
        () => startServer(app, { host: whole.host, port, ...connectionLimits(whole) }),
        (server) => server.stop(drainMs()),
      )
    },
  }
}

/** For what is left of a process that serves no request any more. */
const LEAST_END_MS = 1_000

function sharedDoor({ whole, platform, port, url, databases, logger, metrics }: DoorParts): Door {
  const { maxConnections, maxConnectionsPerAddress = null } = connectionLimits(whole)
  const limits = { maxConnections, maxPerAddress: maxConnectionsPerAddress }
  const reception = new Reception({ host: whole.host, port, ...limits })
  const scrape = async () => mergedScrapes([await metrics.metrics(), ...(await further.metrics())])
  let readiness: ReadinessChecks | null = null
  const further: FurtherProcesses = new FurtherProcesses({
    begin: { config: whole, url, stores: optionalCalls(platform.plugins), databases: told(databases) },
    reception,
    logger,
    clear: (index) => {
      const { scratch } = foldersOf(whole, { index, of: whole.http.processes })
      // Its engines end with it, and may write until then.
      return rm(scratch, { recursive: true, force: true, maxRetries: 5 })
    },
    relay: (line, index) => relay(logger, line, index),
    answers: {
      metrics: scrape,
      readiness: () => readiness?.check(),
      store: (call: StoreCall) => answerStoreCall(platform.plugins, call),
    },
  })
  processMetrics(metrics, further)
  platform.changeSpools.forgetElsewhere = (tenant) => further.forgetRows(tenant)
  return {
    probes: [processesProbe(further, whole.http.processes)],
    scrape,
    async open({ app, lifecycle, drainMs, ...opening }) {
      readiness = opening.readiness
      await lifecycle.start(
        'the further processes that serve',
        () => further.start(),
        () => further.stop(Math.max(LEAST_END_MS, lifecycle.leftMs(LEAST_END_MS))),
      )
      const own = createFedServer(app, { maxConnections: platform.config.limits.connections })
      const seat = reception.admit((socket, id) => {
        seat.taken(id)
        socket.once('close', () => seat.left(id))
        own.take(socket)
      })
      const drain = () => {
        own.drain()
        further.drain()
      }
      await lifecycle.start(
        'the server',
        () => reception.listen(),
        async () => {
          await reception.close(drain)
          await Promise.all([own.end(drainMs()), further.end(drainMs())])
        },
      )
    },
  }
}

/** What of them can be told to another process: not how the embedded server is ended. */
function told({ registry, serving, embedded }: Databases) {
  const { address, tcpAddress } = embedded ?? {}
  const where = address === undefined || tcpAddress === undefined ? null : { address, tcpAddress }
  return { registry, serving, embedded: where }
}

/** The others serve meanwhile: it is told of, and readiness stays. */
function processesProbe(further: FurtherProcesses, wanted: number): Probe {
  return {
    name: 'processes',
    async check() {
      const serving = further.serving + 1
      return { state: serving < wanted ? 'degraded' : 'ok', serving, wanted }
    },
  }
}

/** Lines of its log come as they are; what Node says where a process ends by a fault is no such line. */
function relay(logger: DoorParts['logger'], line: string, index: number): void {
  if (line.startsWith('{') && logger.relay !== undefined) logger.relay(line)
  else if (line !== '') logger.warn('a process that serves says', { process: index, line })
}

/** What whoever configured several processes may not expect. */
export function tellProcesses(config: Config, logger: Logger): void {
  const { http, limits } = config
  if (http.processes === 1) return
  const cores = availableParallelism()
  if (http.processes > cores) {
    logger.warn('more processes serve HTTP than this machine has processor cores', {
      processes: http.processes,
      cores,
      remedy: 'Set http.processes to the number of cores at most; more answer no more requests, and take memory.',
    })
  }
  const engines = enginesOfAll(config)
  if (engines > limits.engine_processes) {
    logger.info('each process that serves has two engine processes at least, so that there are more than configured', {
      engines,
      configured: limits.engine_processes,
    })
  }
}
