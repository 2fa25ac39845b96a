/** The server: everything started in order, stopped in the opposite one. */
import { readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { isatty } from 'node:tty'
import { kernelWalls } from '@sluice/engine'
import { type Logger, SluiceError } from '@sluice/sdk'
import { trinosOf } from './assembly/catalog.ts'
import { type Confinement, checkTenants, confined, confinementOf, confinementText } from './assembly/confinement.ts'
import { Lifecycle } from './assembly/lifecycle.ts'
import { createLogger } from './assembly/logger.ts'
import { ownLimits } from './assembly/materialization.ts'
import { cursorKey } from './assembly/storage.ts'
import { TOKENS } from './assembly/tokens.ts'
import { openWire } from './assembly/wire.ts'
import { KeyAuthenticator, keyStoreIn } from './auth/application-keys.ts'
import { EMBEDDED_ISSUER_PATH, EmbeddedIssuer } from './auth/embedded-issuer.ts'
import {
  DEFAULT_CLAIMS,
  issuerOfDashboards,
  issuerOfTrino,
  SIGNATURE_ALGORITHMS,
  type TrustedIssuer,
} from './auth/issuers.ts'
import { remoteKeys } from './auth/remote-keys.ts'
import { tokenEndOf } from './auth/trino-user.ts'
import { TokenVerifier } from './auth/verifier.ts'
import { ADDRESS_FILE } from './command/client.ts'
import { makeFolder } from './command/failures.ts'
import { ownVersion } from './command/release.ts'
import { TrinoStatements } from './compute/trino-statements.ts'
import type { Config, IssuerConfig } from './config.ts'
import { type Assembled, assemble } from './container.ts'
import { DashboardKeeper } from './dashboards/keeper.ts'
import { reviewDashboards } from './dashboards/states.ts'
import { lockFolder } from './database/folder-lock.ts'
import { freePort } from './database/free-port.ts'
import { newerMigrations } from './database/migrate.ts'
import { type Housekeeping, housekeeping } from './housekeeping.ts'
import { accessLog } from './http/access-log.ts'
import { createHttpApp, type HttpApp, type RequestReport } from './http/app.ts'
import type { CorsOptions } from './http/cors.ts'
import { Cursors } from './http/cursor.ts'
import { faultLog } from './http/fault-log.ts'
import type { Authenticator, RateLimits, Standing } from './http/guard.ts'
import { httpMetrics } from './http/metrics.ts'
import { type PolicyListenerOptions, personOrNobody, startPolicyListener } from './http/policy-listener.ts'
import { LocalRateLimiter, type RateLimiter } from './http/rate-limit.ts'
import { type Probe, ReadinessChecks } from './http/readiness.ts'
import type { Route } from './http/route.ts'
import { applicationKeyRoutes } from './http/routes/application-keys.ts'
import { catalogLoginRoutes } from './http/routes/catalog-logins.ts'
import { changeRoutes } from './http/routes/changes.ts'
import { connectionRoutes } from './http/routes/connections.ts'
import { declaredOperationRoutes } from './http/routes/declared-operations.ts'
import { erasureRoutes } from './http/routes/erasures.ts'
import { exportRoutes } from './http/routes/exports.ts'
import { icebergCatalog } from './http/routes/iceberg.ts'
import { lakeRoutes } from './http/routes/lake.ts'
import { lineageRoutes } from './http/routes/lineage.ts'
import { manifestSchemaRoutes } from './http/routes/manifest-schemas.ts'
import { mcpRoutes } from './http/routes/mcp.ts'
import { notificationRoutes } from './http/routes/notifications.ts'
import { oidcRoutes } from './http/routes/oidc.ts'
import { pluginRoutes } from './http/routes/plugins.ts'
import { previewRoutes } from './http/routes/preview.ts'
import { productDocumentRoutes } from './http/routes/product-document.ts'
import { productRoutes } from './http/routes/products.ts'
import { pushRoutes } from './http/routes/push.ts'
import { quarantineRoutes } from './http/routes/quarantine.ts'
import { queryRoutes } from './http/routes/query.ts'
import { rawGrantRoutes } from './http/routes/raw-grants.ts'
import { readDeps, readRoutes } from './http/routes/reads.ts'
import { runRoutes } from './http/routes/runs.ts'
import { servicePasswordRoutes } from './http/routes/service-passwords.ts'
import { documentRoutes, probeRoutes } from './http/routes/system.ts'
import { tenantRoutes } from './http/routes/tenants.ts'
import { trainingSetRoutes } from './http/routes/training-sets.ts'
import { webhookRoutes } from './http/routes/webhooks.ts'
import { checkAddress, startServer } from './http/server.ts'
import { SharedRateLimiter } from './http/shared-rate-limit.ts'
import { endJobLeases } from './jobs/claims.ts'
import { scheduleTicks } from './jobs/ticks.ts'
import { JobWorker } from './jobs/worker.ts'
import { createWorker, storeComparisons, storeRetries } from './jobs.ts'
import { strangeBuckets } from './lake/registry-catalog.ts'
import { servingTypesOf } from './manifest/context.ts'
import { captureMetrics } from './metrics/captures.ts'
import { comparisonMetrics } from './metrics/comparisons.ts'
import { diskMetrics } from './metrics/disk.ts'
import { jobMetrics } from './metrics/jobs.ts'
import { type CountsDropped, logMetrics } from './metrics/log.ts'
import { openLineageMetrics } from './metrics/openlineage.ts'
import { platformMetrics } from './metrics/platform.ts'
import { pushMetrics } from './metrics/pushes.ts'
import { wireMetrics } from './metrics/wire.ts'
import { MIGRATIONS } from './migrations.ts'
import { TrinoWatch } from './operations/catalog/trino-watch.ts'
import { exportJobs } from './operations/exports/export-job.ts'
import { openLineage } from './operations/lineage/open-lineage/deliver.ts'
import type { Platform } from './operations/platform.ts'
import { wantedDashboards } from './operations/products/dashboards.ts'
import { loadedTypes, tellNotices } from './operations/products/product-notices.ts'
import { undoAbandoned } from './operations/tenants/tenants.ts'
import { webhookJobs } from './operations/webhooks/deliver.ts'
import { readinessOf } from './plugins/store-probes.ts'
import { identityOf } from './policy/identity.ts'
import { pushWatch } from './push-watch.ts'
import { actorOf } from './registry/actor.ts'
import { appendAudit } from './registry/audit.ts'
import { changeBacklog } from './registry/change-topics.ts'
import { lostCopies } from './registry/endpoint-states.ts'
import { bindGrants } from './registry/grants.ts'
import { forgetStarted, IdempotencyKeys } from './registry/idempotency.ts'
import { outdatedProducts } from './registry/products.ts'
import { endProvisioningLeases, tenantsBeside } from './registry/provisioning.ts'
import { unservable } from './registry/raised-classes.ts'
import { RateBuckets } from './registry/rate-buckets.ts'
import { findTenant } from './registry/tenants.ts'

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
  const told = toldToStop(config, logger)
  const runtime = await startRuntime(config, logger)
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
function toldToStop({ stop }: Config, logger: Logger): Promise<void> {
  return new Promise((resolve) => {
    let times = 0
    const hear = (signal: NodeJS.Signals) => {
      times += 1
      if (times > 1) logger.info(`${signal} again: it is stopping, and has ${stop.deadline_ms} ms for it in all`)
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
  })
}

function welcome(url: string, config: Config): string {
  const token = config.auth.issuers.length === 0 ? '\nToken      npx sluice token --role admin' : ''
  return `Sluice is ready.\nAddress    ${url}\nReference  ${url}/docs${token}\nData       ${config.data_dir}`
}

export async function startRuntime(
  configured: Config,
  logger: Logger & Partial<CountsDropped>,
): Promise<RunningRuntime> {
  const lifecycle = new Lifecycle(logger)
  const confinement = confinementOf(configured, kernelWalls())
  const config = confined(configured, confinement)
  const lack = confinementText(confinement)
  if (lack !== null) logger.warn(lack)
  try {
    for (const folder of [config.data_dir, config.secrets_dir]) await makeFolder(folder)
    await lifecycle.start(
      'the lock',
      () => lockFolder(config.data_dir),
      (lock) => lock.release(),
    )
    // Before anything is made or taken up for a server that could not listen.
    await checkAddress(config.host, config.port)
    const port = config.port === 0 ? await freePort(config.host) : config.port
    const url = config.public_url ?? `http://${config.host.includes(':') ? `[${config.host}]` : config.host}:${port}`
    const embedded = await embeddedIssuer(config, url)
    const issuers = embedded ? [embedded.trusted()] : config.auth.issuers.map(trustedIssuer)
    const assembled = await assemble(config, logger, lifecycle, issuers, confinement)
    const platform = assembled.container.resolve(TOKENS.platform)
    if (confinement.isConfined) checkTenants(confinement, await tenantsBeside(platform.pool, NO_SLUG))
    await recover(platform, assembled)
    const [only] = issuers
    await bindGrants(platform.pool, only !== undefined && issuers.length === 1 ? identityOf(only) : null)
    await tellNotices(platform)
    const upkeep = housekeeping(platform, ownLimits(config))
    const readiness = new ReadinessChecks(probesOf(platform, confinement, upkeep))
    const admission = admissionOf(assembled, platform, issuers)
    const app = await createApp({ config, url, embedded, issuers, assembled, platform, logger, readiness, admission })
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
    const kinds = [
      ...upkeep.kinds,
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
    pushMetrics(assembled.metrics, platform.pool)
    const jobs = new JobWorker({
      pool: platform.pool,
      address: assembled.databases.registry,
      logger,
      kinds,
      sources: [
        ...upkeep.sources,
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
    const tls = await policyTls(config)
    const issuer = tls === null ? null : issuerOfTrino(issuers, config.trino.issuer)
    const trinos = trinosOf(config).map((settings) => new TrinoStatements(settings))
    if (trinos.length > 0) {
      const logins = issuer && { personOf: (user: string) => personOrNobody(user, issuer), tokenEndOf }
      const watch = new TrinoWatch(platform, { trinos, logins, logger })
      await lifecycle.start(
        'the watch over statements in Trino',
        () => watch.start(),
        () => watch.stop(),
      )
    }
    if (tls !== null && issuer !== null) {
      const listener = { host: config.trino.policy_host, port: config.trino.policy_port, tls, issuer, logger }
      await lifecycle.start(
        'the policy endpoint of Trino',
        () => startPolicyListener(platform, listener),
        (running) => running.stop(drainMs()),
      )
    }
    const wire = { config, platform, authorities: admission, logger, count: wireMetrics(assembled.metrics) }
    await lifecycle.start(
      'the endpoint for clients of PostgreSQL',
      () => openWire(wire),
      (running) => running?.stop(drainMs()),
    )
    await lifecycle.start(
      'the server',
      () => startServer(app, { host: config.host, port, ...connectionLimits(config) }),
      (server) => server.stop(drainMs()),
    )
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

/** Null where Trino is not to be answered. Throws CONFIG `invalid_config` where only a part of it is set. */
async function policyTls({ trino }: Config): Promise<PolicyListenerOptions['tls'] | null> {
  const files = [trino.policy_cert_file, trino.policy_key_file, trino.policy_client_ca_file]
  if (files.every((file) => file === undefined)) return null
  try {
    const [cert = '', key = '', clientCa = ''] = await Promise.all(
      files.map((file) => readFile(file as string, 'utf8')),
    )
    return { cert, key, clientCa }
  } catch (cause) {
    throw new SluiceError('CONFIG', 'the policy endpoint of Trino has no certificates', {
      code: 'invalid_config',
      remedy: 'Name three readable files: trino.policy_cert_file, policy_key_file and policy_client_ca_file.',
      cause,
    })
  }
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

/** Null where others are configured. */
async function embeddedIssuer(config: Config, url: string): Promise<EmbeddedIssuer | null> {
  if (config.auth.issuers.length > 0) return null
  return EmbeddedIssuer.open({
    dataDirectory: config.secrets_dir,
    issuer: `${url}${EMBEDDED_ISSUER_PATH}`,
    audience: config.auth.audience,
  })
}

interface AppParts {
  readonly config: Config
  readonly url: string
  readonly embedded: EmbeddedIssuer | null
  readonly issuers: readonly TrustedIssuer[]
  readonly assembled: Assembled
  readonly platform: Platform
  readonly logger: Logger
  readonly readiness: ReadinessChecks
  readonly admission: Admission
}

/** Who is let in, and how often: the same at every door. */
interface Admission {
  readonly authenticator: Authenticator
  standingOf(tenant: string): Standing | Promise<Standing>
  readonly rateLimits: RateLimits
  readonly rateLimiter: RateLimiter
}

function admissionOf({ databases }: Assembled, platform: Platform, issuers: readonly TrustedIssuer[]): Admission {
  const standings = new Standings(platform)
  return {
    authenticator: new KeyAuthenticator(new TokenVerifier({ issuers }), keyStoreIn(platform.pool)),
    standingOf: (tenant) => standings.get(tenant),
    rateLimits: rateLimits(platform.config),
    // Of one process the limits are its own; several that share a registry share the buckets in it.
    rateLimiter: databases.embedded ? new LocalRateLimiter() : new SharedRateLimiter(new RateBuckets(platform.pool)),
  }
}

async function createApp({ readiness, admission, ...parts }: AppParts): Promise<HttpApp> {
  const { config, url, embedded, issuers, assembled, platform, logger } = parts
  const { container, metrics } = assembled
  const cursors = new Cursors([await cursorKey(config.secrets_dir)])
  const reads = readDeps(platform, cursors)
  const own: readonly Route[] = [
    ...tenantRoutes(platform, cursors),
    ...connectionRoutes(platform, cursors),
    ...quarantineRoutes(platform, cursors),
    ...erasureRoutes(platform, cursors),
    ...pushRoutes(platform, container.resolve(TOKENS.threads)),
    ...rawGrantRoutes(platform, cursors),
    ...applicationKeyRoutes(platform, cursors),
    ...servicePasswordRoutes(platform, cursors),
    ...notificationRoutes(platform, cursors),
    ...productRoutes(platform, cursors),
    ...previewRoutes(platform),
    ...lineageRoutes(platform),
    ...readRoutes(platform, reads),
    ...changeRoutes(platform, cursors),
    ...webhookRoutes(platform, cursors),
    ...queryRoutes(platform),
    ...trainingSetRoutes(platform),
    ...exportRoutes(platform, cursors),
    ...runRoutes(platform, cursors),
    ...pluginRoutes(() => pluginSummaries(platform)),
    ...manifestSchemaRoutes(servingTypesOf(platform.plugins.servingTypes().map(({ plugin }) => plugin))),
    ...lakeRoutes(platform, ownLimits(config)),
    ...icebergCatalog(platform, url),
    ...catalogLoginRoutes(platform),
    ...mcpRoutes(platform, { url, issuers: issuers.map(({ issuer }) => issuer), release: ownVersion() }),
    ...(embedded ? oidcRoutes(embedded) : []),
    ...probeRoutes(readiness, metrics),
  ]
  const operations = [...own, ...declaredOperationRoutes(platform, reads, own)]
  const api = [...operations, ...productDocumentRoutes(platform, operations, url)]
  const info = { title: 'Sluice', version: '1', url, description: 'Data products over REST.' }
  return createHttpApp({
    ...admission,
    routes: [...api, ...documentRoutes(api, info)],
    idempotency: new IdempotencyKeys(platform.pool),
    trustedProxies: config.trusted_proxies,
    ...corsOf(config),
    ...(config.metrics_token === undefined ? {} : { metricsToken: config.metrics_token }),
    onAdminUse: async (use) => {
      await appendAudit(platform.pool, {
        tenant: use.tenant,
        actor: actorOf(use.principal),
        action: 'admin.use',
        objectType: 'route',
        objectId: `${use.method} ${use.path}`.slice(0, 500),
        outcome: 'allowed',
        requestId: use.requestId,
      })
    },
    threads: container.resolve(TOKENS.threads),
    maxStreamsPerSubject: config.limits.event_streams,
    faultPoint: container.resolve(TOKENS.faultPoint),
    onFinished: finishedBy(config, httpMetrics(metrics), logger),
    onFault: faultLog(logger),
  })
}

/** Absent where no pages are configured. */
function corsOf({ cors }: Config): { readonly cors?: CorsOptions } {
  return cors.origins.length === 0 && Object.keys(cors.tenants).length === 0 ? {} : { cors }
}

function finishedBy(
  config: Config,
  count: (report: RequestReport) => void,
  logger: Logger,
): (report: RequestReport) => void {
  if (!config.log.access) return count
  const log = accessLog(logger)
  return (report) => {
    count(report)
    log(report)
  }
}

function trustedIssuer(issuer: IssuerConfig): TrustedIssuer {
  return {
    issuer: issuer.issuer,
    audience: issuer.audience,
    algorithms: SIGNATURE_ALGORITHMS,
    tenants: issuer.tenants === undefined ? 'all' : new Set(issuer.tenants),
    mayClaimAdmin: issuer.admin,
    claims: { ...DEFAULT_CLAIMS, ...issuer.claims },
    keys: remoteKeys({
      issuer: issuer.issuer,
      allowHttp: issuer.allow_http,
      ...(issuer.jwks_uri === undefined ? {} : { jwksUri: issuer.jwks_uri }),
    }),
  }
}

/** Behind proxies all connections are theirs, and they count the addresses in front of them. */
function connectionLimits({ limits, trusted_proxies: proxies }: Config) {
  const { connections: maxConnections, connections_per_address: maxConnectionsPerAddress } = limits
  return { maxConnections, ...(proxies === 0 ? { maxConnectionsPerAddress } : {}) }
}

/** Seconds of its rate that an address may ask for at once. */
const ADDRESS_BURST = 4

function rateLimits(config: Config): RateLimits {
  const { free, standard, enterprise, address, burst } = config.limits.rate
  const policy = (ratePerS: number) => ({ ratePerS, burst: Math.ceil(ratePerS * burst) })
  return {
    address: { ratePerS: address, burst: address * ADDRESS_BURST },
    tiers: { free: policy(free), standard: policy(standard), enterprise: policy(enterprise) },
  }
}

const STANDING_AGE_MS = 5_000
const MAX_STANDINGS = 10_000

/** Asked for every request, so kept for moments; but for tenants that are not active: those may be from now on. */
class Standings {
  readonly #platform: Platform
  readonly #active = new Map<string, { readonly standing: Standing; readonly untilMs: number }>()

  constructor(platform: Platform) {
    this.#platform = platform
  }

  get(tenant: string): Standing | Promise<Standing> {
    const known = this.#active.get(tenant)
    return known !== undefined && known.untilMs > performance.now() ? known.standing : this.#load(tenant)
  }

  async #load(tenant: string): Promise<Standing> {
    const found = await findTenant(this.#platform.pool, tenant)
    if (found?.status !== 'active') return { tier: found?.tier ?? 'free', status: found ? 'inactive' : 'unknown' }
    const standing: Standing = { tier: found.tier, status: 'active' }
    if (this.#active.size >= MAX_STANDINGS) this.#active.clear()
    this.#active.set(tenant, { standing, untilMs: performance.now() + STANDING_AGE_MS })
    return standing
  }
}

function probesOf(platform: Platform, { missing, isConfined }: Confinement, upkeep: Housekeeping): readonly Probe[] {
  return [
    {
      name: 'registry',
      async check() {
        const [outdated, newer] = await Promise.all([
          outdatedProducts(platform.pool),
          newerMigrations(platform.pool, MIGRATIONS),
        ])
        return {
          ...(outdated > 0 || newer.breaks ? { state: 'degraded' } : {}),
          ...(outdated > 0 ? { outdated_products: outdated } : {}),
          // What a later release has added; where that breaks this one, it does not start here again.
          ...(newer.migrations.length > 0 ? { newer_migrations: newer.migrations.length, too_old: newer.breaks } : {}),
        }
      },
    },
    ...platform.plugins.servingTypes().map(({ type, store }) => ({
      name: `store:${type}`,
      async check() {
        return readinessOf(store, upkeep.storeFault(type))
      },
    })),
    {
      name: 'copies',
      async check() {
        const rebuilding = await lostCopies(platform.pool)
        return { state: rebuilding > 0 ? 'degraded' : 'ok', rebuilding }
      },
    },
    {
      // Writing to those buckets waits; whatever stores have is served.
      name: 'lake',
      async check() {
        const { emptied, foreign } = await strangeBuckets(platform.pool)
        const unknown = upkeep.unknownBuckets()
        return {
          state: emptied + foreign + unknown > 0 ? 'degraded' : 'ok',
          emptied_buckets: emptied,
          foreign_buckets: foreign,
          unknown_buckets: unknown,
        }
      },
    },
    {
      // Products whose endpoint nobody serves, and connections that nobody reads: their plugin was taken away.
      name: 'plugins',
      async check() {
        const { products, connections } = await unservable(platform.pool, loadedTypes(platform.plugins))
        const state = products + connections > 0 ? 'degraded' : 'ok'
        return { state, products_without_store: products, connections_without_connector: connections }
      },
    },
    ...changesProbe(platform),
    {
      name: 'walls',
      async check() {
        return { missing, confined: isConfined }
      },
    },
    {
      name: 'engine',
      async check() {
        return { walls: platform.engine.walls() }
      },
    },
    {
      name: 'sources',
      async check() {
        return { walls: platform.sourceWalls() }
      },
    },
  ]
}

/** Topics of changes that wait stop nobody from being served: they are told of, and readiness stays. */
function changesProbe(platform: Platform): readonly Probe[] {
  if (platform.config.events.kafka?.change_topics !== true) return []
  return [
    {
      name: 'change-topics',
      async check() {
        const backlogs = await changeBacklog(platform.pool)
        const failing = backlogs.reduce((sum, backlog) => sum + backlog.failing, 0)
        return { state: failing > 0 ? 'degraded' : 'ok', failing }
      },
    },
  ]
}

function pluginSummaries(platform: Platform) {
  return platform.plugins.loaded.map(({ plugin, packageName, packageVersion, sdkRange, proof }) => {
    const store = plugin.kind === 'serving' ? platform.plugins.serving(plugin.type) : undefined
    const isChosen = store?.plugin === plugin
    return {
      name: plugin.name,
      version: plugin.version,
      type: plugin.kind === 'serving' ? plugin.type : 'connector',
      kind: plugin.kind,
      package: packageName,
      package_version: packageVersion,
      sdk: sdkRange,
      capabilities: plugin.capabilities as unknown as Readonly<Record<string, unknown>>,
      proof: {
        status: proof.status,
        levels: proof.levels,
        certificates: proof.certificates,
        off: proof.off,
        message: proof.message,
      },
      health: isChosen && store ? store.store.health() : { status: plugin.kind === 'connector' ? 'ok' : 'unused' },
    }
  })
}
