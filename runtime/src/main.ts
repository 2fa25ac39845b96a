/** The server: everything started in order, stopped in the opposite one. */
import { mkdir, rm, writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { isSluiceError, type Logger } from '@sluice/sdk'
import { EMBEDDED_ISSUER_PATH, EmbeddedIssuer } from './auth/embedded-issuer.ts'
import { DEFAULT_CLAIMS, SIGNATURE_ALGORITHMS, type TrustedIssuer } from './auth/issuers.ts'
import { remoteKeys } from './auth/remote-keys.ts'
import { TokenVerifier } from './auth/verifier.ts'
import { ADDRESS_FILE } from './command/client.ts'
import type { Config, IssuerConfig } from './config.ts'
import { type Assembled, assemble } from './container.ts'
import { lockFolder } from './database/folder-lock.ts'
import { createHttpApp, type HttpApp } from './http/app.ts'
import { Cursors } from './http/cursor.ts'
import { DEFAULT_RATE_LIMITS } from './http/guard.ts'
import { httpMetrics } from './http/metrics.ts'
import { type Probe, ReadinessChecks } from './http/readiness.ts'
import type { Route } from './http/route.ts'
import { connectionRoutes } from './http/routes/connections.ts'
import { oidcRoutes } from './http/routes/oidc.ts'
import { pluginRoutes } from './http/routes/plugins.ts'
import { productRoutes } from './http/routes/products.ts'
import { queryRoutes } from './http/routes/query.ts'
import { readRoutes } from './http/routes/reads.ts'
import { runRoutes } from './http/routes/runs.ts'
import { documentRoutes, probeRoutes } from './http/routes/system.ts'
import { tenantRoutes } from './http/routes/tenants.ts'
import { type RunningServer, startServer } from './http/server.ts'
import { createWorker } from './jobs.ts'
import { Lifecycle } from './lifecycle.ts'
import { createLogger } from './logger.ts'
import type { Platform } from './operations/platform.ts'
import { endHalfProvisioned } from './operations/tenants.ts'
import { actorOf } from './registry/actor.ts'
import { appendAudit } from './registry/audit.ts'
import { IdempotencyKeys } from './registry/idempotency.ts'
import { findTenant } from './registry/tenants.ts'
import type { Tier } from './registry/tiers.ts'
import { cursorKey } from './storage.ts'
import { TOKENS } from './tokens.ts'

const DRAIN_MS = 25_000

export interface RunningRuntime {
  readonly url: string
  stop(): Promise<void>
}

/** The command `start`: runs until it is told to stop, then drains. */
export async function runServer(config: Config): Promise<void> {
  const logger = await createLogger(config.log)
  const runtime = await startRuntime(config, logger)
  console.log(welcome(runtime.url, config))
  await new Promise<void>((resolve) => {
    process.once('SIGTERM', resolve)
    process.once('SIGINT', resolve)
  })
  logger.info('stopping: no new work, running commits end')
  await runtime.stop()
}

function welcome(url: string, config: Config): string {
  const token = config.auth.issuers.length === 0 ? '\nToken      npx sluice token --role admin' : ''
  return `Sluice is ready.\nAddress    ${url}\nReference  ${url}/docs${token}\nData       ${config.data_dir}`
}

export async function startRuntime(config: Config, logger: Logger): Promise<RunningRuntime> {
  const lifecycle = new Lifecycle(logger)
  try {
    await mkdir(config.data_dir, { recursive: true, mode: 0o700 })
    await lifecycle.start(
      'the lock',
      () => lockFolder(config.data_dir),
      (lock) => lock.release(),
    )
    const port = config.port === 0 ? await freePort(config.host) : config.port
    const url = config.public_url ?? `http://${config.host.includes(':') ? `[${config.host}]` : config.host}:${port}`
    const assembled = await assemble(config, logger, lifecycle)
    const platform = assembled.container.resolve(TOKENS.platform)
    await recover(platform, assembled)
    const app = await createApp(config, url, assembled, platform, logger)
    const worker = createWorker(assembled.container)
    await lifecycle.start(
      'the workers',
      () => worker.start(),
      () => worker.stop(DRAIN_MS),
    )
    await lifecycle.start(
      'the server',
      () => startServer(app, { host: config.host, port }),
      (server) => drain(app, server),
    )
    const addressFile = join(config.data_dir, ADDRESS_FILE)
    await lifecycle.start(
      'the address file',
      () => writeFile(addressFile, JSON.stringify({ url, pid: process.pid }), { mode: 0o600 }),
      () => rm(addressFile, { force: true }),
    )
    return { url, stop: () => lifecycle.stop() }
  } catch (error) {
    await lifecycle.stop()
    throw error
  }
}

/** A process that was killed left its runs `running` and its tenants half provisioned. */
async function recover(platform: Platform, { databases }: Assembled): Promise<void> {
  // Nobody else works on an embedded registry, so no lease of a former process is worth waiting for.
  if (databases.embedded) {
    await platform.pool.query("update runs set lease_until = now() - interval '1 second' where state = 'running'")
  }
  await endHalfProvisioned(platform)
  // Not waited for: readiness says which walls are up as soon as it is known.
  platform.engine.probe(AbortSignal.timeout(30_000)).catch(() => undefined)
}

async function drain(app: HttpApp, server: RunningServer): Promise<void> {
  app.drain()
  await server.stop(DRAIN_MS)
}

function freePort(host: string): Promise<number> {
  return new Promise((resolve, reject) => {
    const probe = createServer()
    probe.once('error', reject)
    probe.listen(0, host, () => {
      const { port } = probe.address() as { port: number }
      probe.close(() => resolve(port))
    })
  })
}

async function createApp(
  config: Config,
  url: string,
  { metrics }: Assembled,
  platform: Platform,
  logger: Logger,
): Promise<HttpApp> {
  const embedded =
    config.auth.issuers.length > 0
      ? null
      : await EmbeddedIssuer.open({
          dataDirectory: config.data_dir,
          issuer: `${url}${EMBEDDED_ISSUER_PATH}`,
          audience: config.auth.audience,
        })
  const issuers = embedded ? [embedded.trusted()] : config.auth.issuers.map(trustedIssuer)
  const cursors = new Cursors([await cursorKey(config.data_dir)])
  const readiness = new ReadinessChecks(probesOf(platform))
  const api: readonly Route[] = [
    ...tenantRoutes(platform, cursors),
    ...connectionRoutes(platform, cursors),
    ...productRoutes(platform, cursors),
    ...readRoutes(platform, cursors),
    ...queryRoutes(platform),
    ...runRoutes(platform, cursors),
    ...pluginRoutes(() => pluginSummaries(platform)),
    ...(embedded ? oidcRoutes(embedded) : []),
    ...probeRoutes(readiness, metrics),
  ]
  const info = { title: 'Sluice', version: '1', url, description: 'Data products over REST.' }
  const tiers = new TierCache(platform)
  return createHttpApp({
    routes: [...api, ...documentRoutes(api, info)],
    idempotency: new IdempotencyKeys(platform.pool),
    authenticator: new TokenVerifier({ issuers }),
    tierOf: (tenant) => tiers.get(tenant),
    rateLimits: rateLimits(config),
    trustedProxies: 0,
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
    onFinished: httpMetrics(metrics),
    onFault: (error, requestId) => logFault(logger, error, requestId),
  })
}

function trustedIssuer(issuer: IssuerConfig): TrustedIssuer {
  return {
    issuer: issuer.issuer,
    audience: issuer.audience,
    algorithms: SIGNATURE_ALGORITHMS,
    tenants: issuer.tenants === undefined ? 'all' : new Set(issuer.tenants),
    mayClaimAdmin: issuer.admin,
    claims: { ...DEFAULT_CLAIMS, ...issuer.claims },
    keys: remoteKeys({ issuer: issuer.issuer }),
  }
}

function rateLimits(config: Config) {
  const policy = (ratePerS: number) => ({ ratePerS, burst: ratePerS * 2 })
  const { free, standard, enterprise } = config.limits.rate
  return {
    ...DEFAULT_RATE_LIMITS,
    tiers: { free: policy(free), standard: policy(standard), enterprise: policy(enterprise) },
  }
}

const TIER_AGE_MS = 5_000
const MAX_TIERS = 10_000

/** Asked for every request, so kept for moments. */
class TierCache {
  readonly #platform: Platform
  readonly #known = new Map<string, { readonly tier: Tier; readonly untilMs: number }>()

  constructor(platform: Platform) {
    this.#platform = platform
  }

  get(tenant: string): Tier | Promise<Tier> {
    const known = this.#known.get(tenant)
    return known !== undefined && known.untilMs > Date.now() ? known.tier : this.#load(tenant)
  }

  async #load(tenant: string): Promise<Tier> {
    const tier = (await findTenant(this.#platform.pool, tenant))?.tier ?? 'free'
    if (this.#known.size >= MAX_TIERS) this.#known.clear()
    this.#known.set(tenant, { tier, untilMs: Date.now() + TIER_AGE_MS })
    return tier
  }
}

function probesOf(platform: Platform): readonly Probe[] {
  return [
    {
      name: 'registry',
      async check() {
        await platform.pool.query('select 1')
        return undefined
      },
    },
    ...platform.plugins.servingTypes().map(({ type, store }) => ({
      name: `store:${type}`,
      async check() {
        const health = store.health()
        if (health.status === 'down') throw new Error('the store is down')
        return { state: health.status }
      },
    })),
    {
      name: 'engine',
      async check() {
        return { walls: platform.engine.walls() }
      },
    },
  ]
}

function pluginSummaries(platform: Platform) {
  return platform.plugins.loaded.map(({ plugin, packageName, packageVersion, sdkRange }) => {
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
      health: isChosen && store ? store.store.health() : { status: plugin.kind === 'connector' ? 'ok' : 'unused' },
    }
  })
}

/** Only here does the process's log say what was behind an internal error. */
function logFault(logger: Logger, error: unknown, requestId: string): void {
  const cause = error instanceof Error ? error.cause : undefined
  logger.error('a request failed', {
    request_id: requestId,
    code: isSluiceError(error) ? error.code : undefined,
    error: error instanceof Error ? (error.stack ?? error.message) : String(error),
    cause: cause instanceof Error ? (cause.stack ?? cause.message) : undefined,
  })
}
