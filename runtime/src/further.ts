/**
 * A further process of a runtime: it answers HTTP beside the first one, which has started it, gives it connections, and does
 * runs, jobs and all that is done once. It ends with the first one, whichever way that ends.
 */
import type { Socket } from 'node:net'
import { kernelWalls } from '@sluice/engine'
import { admissionOf } from './assembly/admission.ts'
import { createApi } from './assembly/api.ts'
import { confinementOf } from './assembly/confinement.ts'
import type { Begin } from './assembly/further-processes.ts'
import { Lifecycle } from './assembly/lifecycle.ts'
import { createLogger } from './assembly/logger.ts'
import { ProcessChannel } from './assembly/process-channel.ts'
import { sharedConfig } from './assembly/process-shares.ts'
import { storeElsewhere } from './assembly/store-elsewhere.ts'
import { TOKENS } from './assembly/tokens.ts'
import { embeddedIssuer, trustedIssuer } from './assembly/trusted-issuers.ts'
import { ownVersion } from './command/release.ts'
import { assemble } from './container.ts'
import { endWithParent } from './database/end-with-parent.ts'
import type { Readiness } from './http/readiness.ts'
import { createFedServer, type FedServer } from './http/server.ts'
import { logMetrics } from './metrics/log.ts'
import { measureOwnProcess } from './metrics/platform.ts'
import { serviceMetrics } from './metrics/services.ts'

interface Serving {
  readonly server: FedServer
  readonly lifecycle: Lifecycle
  metrics(): Promise<string>
  /** On disk: changed rows that wait for followers, and copies of the lake's files. */
  forgetRows(tenant: string): Promise<void>
}

/** Runs until the first process tells it to stop, or is gone. */
export function runFurther(): Promise<never> {
  // Told by the first process alone: a terminal, or whoever ends a group, signals all of them.
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => undefined)
  process.on('disconnect', () => process.exit(1))
  endWithParent()
  let serving: Serving | null = null
  const channel: ProcessChannel = new ProcessChannel(process, {
    answers: {
      begin: async (begin: Begin) => {
        serving = await startServing(begin, channel)
      },
      metrics: () => serving?.metrics() ?? '',
      forget: (tenant: string) => serving?.forgetRows(tenant),
      hear: () => null,
      end: (graceMs: number) => serving?.server.end(graceMs),
    },
    hears: {
      connection: (id: number, socket) => take(serving, channel, id, socket),
      drain: () => serving?.server.drain(),
      stop: (graceMs: number) => void stop(serving, graceMs),
    },
  })
  return new Promise(() => undefined)
}

function take(serving: Serving | null, channel: ProcessChannel, id: number, socket: Socket | undefined): void {
  const left = () => channel.tell('left', id)
  channel.tell('taken', id)
  // Whose client has gone meanwhile may arrive without it.
  if (socket === undefined || serving === null) {
    socket?.destroy()
    left()
    return
  }
  socket.once('close', left)
  serving.server.take(socket)
}

async function stop(serving: Serving | null, graceMs: number): Promise<void> {
  serving?.lifecycle.endWithin(graceMs)
  await serving?.lifecycle.stop()
  process.exit(0)
}

async function startServing(
  { config: whole, index, url, stores, databases }: Begin,
  channel: ProcessChannel,
): Promise<Serving> {
  const place = { index, of: whole.http.processes }
  const config = sharedConfig(whole, place)
  const logger = await createLogger({ ...config.log, pretty: false }, { process: index })
  const lifecycle = new Lifecycle(logger)
  const embedded = await embeddedIssuer(config, url)
  const issuers = embedded ? [embedded.trusted()] : config.auth.issuers.map(trustedIssuer)
  const kept = databases.embedded === null ? null : { ...databases.embedded, stop: async () => undefined }
  const beside = {
    databases: { ...databases, embedded: kept },
    storeOf: (type: string) => storeElsewhere(type, stores, (call) => channel.ask('store', call)),
  }
  const confinement = confinementOf(config, kernelWalls())
  const assembled = await assemble(config, logger, lifecycle, issuers, confinement, { place, beside })
  const { container, metrics } = assembled
  const platform = container.resolve(TOKENS.platform)
  const services = container.resolve(TOKENS.services)
  serviceMetrics(metrics, services.health)
  measureOwnProcess(metrics, platform.pool)
  logMetrics(metrics, logger)
  const app = await createApi({
    ...{ config, url, embedded, issuers, platform, logger, metrics, services, release: ownVersion() },
    // Of the whole runtime, whichever of its processes is asked.
    readiness: { check: () => channel.ask<Readiness>('readiness', null) },
    scrape: () => channel.ask('metrics', null),
    admission: admissionOf(beside.databases, platform, issuers),
    threads: container.resolve(TOKENS.threads),
    faultPoint: container.resolve(TOKENS.faultPoint),
  })
  const server = createFedServer(app, { maxConnections: config.limits.connections })
  assembled.warm()
  const forgetRows = async (tenant: string) => {
    await platform.changeSpools.forgetOf(tenant)
    await assembled.forgetCopies(tenant)
  }
  return { server, lifecycle, metrics: () => metrics.metrics(), forgetRows }
}
