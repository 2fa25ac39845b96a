/** The server: everything started in order, stopped in the opposite one. */
import { rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { isatty } from 'node:tty'
import { kernelWalls } from '@sluice/engine'
import type { Logger } from '@sluice/sdk'
import { admissionOf } from './assembly/admission.ts'
import { createApi } from './assembly/api.ts'
import { checkConfig } from './assembly/checked-config.ts'
import { watchedEngines } from './assembly/compute.ts'
import { checkTenants, confined, confinementOf, confinementText } from './assembly/confinement.ts'
import { createDoor, tellProcesses } from './assembly/door.ts'
import { Lifecycle } from './assembly/lifecycle.ts'
import { createLogger, type RuntimeLogger } from './assembly/logger.ts'
import { ownLimits } from './assembly/materialization.ts'
import { MIGRATIONS } from './assembly/migrations.ts'
import type { Platform } from './assembly/platform.ts'
import { policyEndpoint } from './assembly/policy-endpoint.ts'
import { probesOf } from './assembly/probes.ts'
import { sharedConfig } from './assembly/process-shares.ts'
import { createWorker, storeComparisons, storeRetries } from './assembly/run-worker.ts'
import { TOKENS } from './assembly/tokens.ts'
import { embeddedIssuer, ownUrl, trustedIssuer } from './assembly/trusted-issuers.ts'
import { tokenEndOf } from './auth/engine-user.ts'
import { issuerOfDashboards, type TrustedIssuer } from './auth/issuers.ts'
import { ADDRESS_FILE } from './command/client.ts'
import { makeFolder } from './command/failures.ts'
import { ownVersion } from './command/release.ts'
import type { Config } from './config.ts'
import { type Assembled, assemble } from './container.ts'
import { DashboardKeeper } from './dashboards/keeper.ts'
import { reviewDashboards } from './dashboards/states.ts'
import { lockFolder } from './database/folder-lock.ts'
import { freePort } from './database/free-port.ts'
import { personOrNobody, startPolicyListener } from './http/policy-listener.ts'
import { ReadinessChecks } from './http/readiness.ts'
import { checkAddress } from './http/server.ts'
import { endJobLeases } from './jobs/claims.ts'
import { scheduleTicks } from './jobs/ticks.ts'
import { JobWorker } from './jobs/worker.ts'
import { captureMetrics, followMetrics, logSpoolMetrics } from './metrics/captures.ts'
import { comparisonMetrics } from './metrics/comparisons.ts'
import { diskMetrics } from './metrics/disk.ts'
import { jobMetrics } from './metrics/jobs.ts'
import { type CountsDropped, logMetrics } from './metrics/log.ts'
import { openLineageMetrics } from './metrics/openlineage.ts'
import { platformMetrics } from './metrics/platform.ts'
import { pushMetrics } from './metrics/pushes.ts'
import { serviceMetrics } from './metrics/services.ts'
import { wireMetrics } from './metrics/wire.ts'
import { StatementWatch } from './operations/catalog/statement-watch.ts'
import { previewJobs } from './operations/deploy/previews.ts'
import { exportJobs } from './operations/exports/export-job.ts'
import { openLineage } from './operations/lineage/open-lineage/deliver.ts'
import { wantedDashboards } from './operations/products/dashboards.ts'
import { tellNotices } from './operations/products/product-notices.ts'
import { ConnectionFollower } from './operations/runs/connection-follower.ts'
import { pushWatch } from './operations/runs/push-watch.ts'
import { undoAbandoned } from './operations/tenants/tenants.ts'
import { housekeeping } from './operations/upkeep/housekeeping.ts'
import { webhookJobs } from './operations/webhooks/deliver.ts'
import { identityOf } from './policy/identity.ts'
import { bindGrants } from './registry/grants.ts'
import { forgetStarted } from './registry/idempotency.ts'
import { endProvisioningLeases, tenantsBeside } from './registry/provisioning.ts'

export { runFurther } from './further.ts'

/** No tenant is called so. */
const NO_SLUG = ''
/** Of the time to stop in, for what closes when requests and runs have ended. */
const CLOSING_MS = 5_000
/** What was left behind must not keep the process. */
const LINGER_MS = 1_000

export interface RunningRuntime {
  readonly url: string
  stop(): Promise<void>
}

/** The command `start`: runs until it is told to stop, then drains. */
export async function runServer(config: Config): Promise<void> {
  const logger = await createLogger(config.log)
  const { told, started } = toldToStop(config, logger)
  const runtime = await startRuntime(config, logger)
  started()
  console.log(welcome(runtime.url, config))
  await told
  logger.info('stopping: no new work, running commits end')
  await runtime.stop()
  setTimeout(() => process.exit(), LINGER_MS).unref()
}

/**
 * Heard from the beginning on, since the first process of a container is not ended by a signal that it does not take. A
 * terminal and npm tell twice, so the second time ends nothing sooner: the stop has its deadline.
 */
function toldToStop({ stop }: Config, logger: Logger): { readonly told: Promise<void>; started(): void } {
  const { promise: told, resolve } = Promise.withResolvers<void>()
  let times = 0
  let isStarted = false
  const hear = (signal: NodeJS.Signals) => {
    times += 1
    if (!isStarted) logger.info(`${signal}: it stops as soon as it has started`)
    else if (times > 1) logger.info(`${signal} again: it is stopping, and has ${stop.deadline_ms} ms for it in all`)
    resolve()
  }
  process.on('SIGTERM', hear)
  process.on('SIGINT', hear)
  // A terminal that is closed takes what was started in it along. Without one it is said to servers that log to files.
  const isInTerminal = [0, 1, 2].some((stream) => isatty(stream))
  process.on('SIGHUP', (signal) => {
    if (isInTerminal) hear(signal)
    else logger.info('SIGHUP changes nothing: no file of the log is open, and the configuration is read at the start')
  })
  const started = () => {
    isStarted = true
  }
  return { told, started }
}

function welcome(url: string, config: Config): string {
  const token = config.auth.issuers.length === 0 ? '\nToken      npx sluice token --role admin' : ''
  return `Sluice is ready.\nAddress    ${url}\nReference  ${url}/docs${token}\nData       ${config.data_dir}`
}

export async function startRuntime(
  configured: Config,
  logger: Logger & Partial<CountsDropped> & Partial<Pick<RuntimeLogger, 'relay'>>,
): Promise<RunningRuntime> {
  const lifecycle = new Lifecycle(logger)
  const confinement = confinementOf(configured, kernelWalls())
  const whole = confined(configured, confinement)
  const lack = confinementText(confinement)
  if (lack !== null) logger.warn(lack)
  const place = { index: 1, of: whole.http.processes }
  const config = sharedConfig(whole, place)
  try {
    for (const folder of [config.data_dir, config.secrets_dir]) await makeFolder(folder)
    await checkConfig(config)
    tellProcesses(whole, logger)
    await lifecycle.start(
      'the lock',
      () => lockFolder(config.data_dir),
      (lock) => lock.release(),
    )
    // Before anything is made or taken up for a server that could not listen.
    await checkAddress(config.host, config.port)
    const port = config.port === 0 ? await freePort(config.host) : config.port
    const url = ownUrl(config, port)
    const embedded = await embeddedIssuer(config, url)
    const issuers = embedded ? [embedded.trusted()] : config.auth.issuers.map(trustedIssuer)
    const assembled = await assemble(config, logger, lifecycle, issuers, confinement, { place, beside: null })
    const platform = assembled.container.resolve(TOKENS.platform)
    if (confinement.isConfined) checkTenants(confinement, await tenantsBeside(platform.pool, NO_SLUG))
    await lifecycle.during('what a runtime before has left under way', () => recover(platform, assembled))
    const [only] = issuers
    await bindGrants(platform.pool, only !== undefined && issuers.length === 1 ? identityOf(only) : null)
    await tellNotices(platform)
    const services = assembled.container.resolve(TOKENS.services)
    serviceMetrics(assembled.metrics, services.health)
    const upkeep = housekeeping(platform, ownLimits(config))
    const { container, metrics } = assembled
    const door = createDoor({ whole, platform, port, url, databases: assembled.databases, logger, metrics })
    const beside = { upkeep, services: services.health }
    const readiness = new ReadinessChecks([...probesOf(platform, confinement, beside, MIGRATIONS), ...door.probes])
    const admission = admissionOf(assembled.databases, platform, issuers)
    const app = await createApi({
      ...{ config, url, embedded, issuers, platform, logger, readiness, admission, metrics, release: ownVersion() },
      threads: container.resolve(TOKENS.threads),
      faultPoint: container.resolve(TOKENS.faultPoint),
      scrape: door.scrape,
      services,
    })
    diskMetrics(assembled.metrics, config.data_dir)
    logMetrics(assembled.metrics, logger)
    const drainMs = () => lifecycle.leftMs(CLOSING_MS)
    const worker = createWorker(assembled.container, platformMetrics(assembled.metrics, platform.pool))
    await lifecycle.start(
      'the workers',
      () => worker.start(),
      () => worker.stop(drainMs()),
    )
    const retries = storeRetries(assembled.container)
    const comparisons = storeComparisons(assembled.container, comparisonMetrics(assembled.metrics))
    const keeper = await dashboardKeeper(assembled, issuers)
    const lineage = await openLineage(platform, ownVersion(), openLineageMetrics(assembled.metrics, platform.pool))
    const exporting = exportJobs(platform)
    const webhooks = webhookJobs(platform, assembled.container.resolve(TOKENS.faultPoint))
    const previews = previewJobs(platform, assembled.container.resolve(TOKENS.faultPoint))
    const follower = new ConnectionFollower({
      platform,
      address: assembled.databases.registry,
      places: config.limits.followed_connections,
    })
    await lifecycle.start(
      'the ear for runs of followed connections',
      () => follower.start(),
      () => follower.stop(),
    )
    const kinds = [
      ...upkeep.kinds,
      previews.kind,
      follower.kind,
      retries.kind,
      ...(comparisons === null ? [] : [comparisons.kind]),
      scheduleTicks(platform.pool),
      pushWatch(platform),
      ...(keeper === null ? [] : [keeper.kind]),
      ...(lineage === null ? [] : [lineage.kind]),
      ...exporting.kinds,
      webhooks.kind,
    ]
    captureMetrics(assembled.metrics, platform.pool)
    logSpoolMetrics(assembled.metrics, platform.pool)
    followMetrics(assembled.metrics, platform.pool)
    pushMetrics(assembled.metrics, platform.pool)
    const jobs = new JobWorker({
      pool: platform.pool,
      address: assembled.databases.registry,
      logger,
      kinds,
      sources: [
        ...upkeep.sources,
        previews.source,
        retries.source,
        ...(comparisons === null ? [] : [comparisons.source]),
        ...(keeper === null ? [] : [keeper.source]),
        ...(lineage === null ? [] : [lineage.source]),
        exporting.source,
        webhooks.source,
      ],
      onEnded: jobMetrics(assembled.metrics, platform.pool, kinds),
    })
    await lifecycle.start(
      'jobs',
      () => jobs.start(),
      () => jobs.stop(),
    )
    const computes = assembled.container.resolve(TOKENS.computes)
    const policy = await policyEndpoint(config, issuers, computes.all, container.resolve(TOKENS.services))
    const engines = watchedEngines(computes)
    if (engines.length > 0) {
      const issuer = policy?.issuer
      const logins =
        issuer === undefined ? null : { personOf: (user: string) => personOrNobody(user, issuer), tokenEndOf }
      const watch = new StatementWatch(platform, { engines, logins, logger })
      await lifecycle.start(
        'the watch over statements in engines outside',
        () => watch.start(),
        () => watch.stop(),
      )
    }
    if (policy !== null) {
      await lifecycle.start(
        'the policy endpoint of engines outside',
        () => startPolicyListener(platform, { ...policy, logger }),
        (running) => running.stop(drainMs()),
      )
    }
    const wire = { config, platform, authorities: admission, logger, count: wireMetrics(assembled.metrics) }
    await lifecycle.start(
      'the endpoint for clients of PostgreSQL',
      async () => (config.wire.port === undefined ? null : (await import('./assembly/wire.ts')).openWire(wire)),
      (running) => running?.stop(drainMs()),
    )
    await door.open({ app, readiness, lifecycle, drainMs })
    assembled.warm()
    const addressFile = join(config.data_dir, ADDRESS_FILE)
    await lifecycle.start(
      'the address file',
      () => writeFile(addressFile, JSON.stringify({ url, pid: process.pid }), { mode: 0o600 }),
      () => rm(addressFile, { force: true }),
    )
    const stop = async (): Promise<void> => {
      lifecycle.endWithin(config.stop.deadline_ms)
      // Whoever looks learns of it while everything is still answered.
      readiness.stop()
      await sleep(Math.min(config.stop.notice_ms, drainMs()))
      // Runs end beside requests, so that neither takes the other's time.
      // How it went is told by the lifecycle, which stops the worker, too, and waits for it.
      worker.stop(drainMs()).catch(() => undefined)
      await lifecycle.stop()
    }
    let stopping: Promise<void> | null = null
    return {
      url,
      stop() {
        stopping ??= stop()
        return stopping
      },
    }
  } catch (error) {
    lifecycle.endWithin(config.stop.deadline_ms)
    await lifecycle.stop()
    throw error
  }
}

/** Null where no dashboard server is configured. */
async function dashboardKeeper(
  { container }: Assembled,
  issuers: readonly TrustedIssuer[],
): Promise<DashboardKeeper | null> {
  const dashboards = container.resolve(TOKENS.dashboards)
  if (dashboards === null) return null
  const platform = container.resolve(TOKENS.platform)
  const { config, pool, logger } = platform
  const issuer = identityOf(issuerOfDashboards(issuers, config.dashboards?.issuer))
  await reviewDashboards(pool)
  return new DashboardKeeper({
    pool,
    logger,
    load: (product) => wantedDashboards(platform, product, issuer),
    ...dashboards,
  })
}

/**
 * A process that was killed left its runs `running` and its tenants half provisioned. On a registry that several share,
 * housekeeping sees to the latter when their leases have ended.
 */
async function recover(platform: Platform, { databases }: Assembled): Promise<void> {
  // Nobody else works on an embedded registry, so no lease of a former process is worth waiting for.
  if (databases.embedded) {
    await platform.pool.query("update runs set lease_until = now() - interval '1 second' where state = 'running'")
    await endJobLeases(platform.pool)
    await forgetStarted(platform.pool)
    await endProvisioningLeases(platform.pool)
    await undoAbandoned(platform)
  }
  // Not waited for: readiness says which walls are up as soon as it is known.
  // Where it fails, readiness says that no walls are known, and the first query tries again.
  platform.engine.probe(AbortSignal.timeout(30_000)).catch(() => undefined)
}
