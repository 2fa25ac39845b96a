/** Every operation over HTTP, and what is done with each request that it is asked by. */
import type { Logger } from '@sluice/sdk'
import type { Registry as MetricsRegistry } from 'prom-client'
import type { EmbeddedIssuer } from '../auth/embedded-issuer.ts'
import type { TrustedIssuer } from '../auth/issuers.ts'
import type { Config } from '../config.ts'
import type { FaultPoint } from '../fault-points.ts'
import { accessLog } from '../http/access-log.ts'
import { createHttpApp, type HttpApp, type RequestReport } from '../http/app.ts'
import type { CorsOptions } from '../http/cors.ts'
import { Cursors } from '../http/cursor.ts'
import { faultLog } from '../http/fault-log.ts'
import { httpMetrics } from '../http/metrics.ts'
import type { ReadinessChecks } from '../http/readiness.ts'
import type { Route } from '../http/route.ts'
import { applicationKeyRoutes } from '../http/routes/application-keys.ts'
import { catalogLoginRoutes } from '../http/routes/catalog-logins.ts'
import { changeRoutes } from '../http/routes/changes.ts'
import { connectionRoutes } from '../http/routes/connections.ts'
import { declaredOperationRoutes } from '../http/routes/declared-operations.ts'
import { erasureRoutes } from '../http/routes/erasures.ts'
import { exportRoutes } from '../http/routes/exports.ts'
import { icebergCatalog } from '../http/routes/iceberg.ts'
import { lakeRoutes } from '../http/routes/lake.ts'
import { lineageRoutes } from '../http/routes/lineage.ts'
import { manifestSchemaRoutes } from '../http/routes/manifest-schemas.ts'
import { mcpRoutes } from '../http/routes/mcp.ts'
import { notificationRoutes } from '../http/routes/notifications.ts'
import { oidcRoutes } from '../http/routes/oidc.ts'
import { pluginRoutes } from '../http/routes/plugins.ts'
import { previewRoutes } from '../http/routes/preview.ts'
import { productDocumentRoutes } from '../http/routes/product-document.ts'
import { productRoutes } from '../http/routes/products.ts'
import { promotionRoutes } from '../http/routes/promotion.ts'
import { pushRoutes } from '../http/routes/push.ts'
import { quarantineRoutes } from '../http/routes/quarantine.ts'
import { queryRoutes } from '../http/routes/query.ts'
import { rawGrantRoutes } from '../http/routes/raw-grants.ts'
import { readDeps, readRoutes } from '../http/routes/reads.ts'
import { runRoutes } from '../http/routes/runs.ts'
import { servicePasswordRoutes } from '../http/routes/service-passwords.ts'
import { documentRoutes, probeRoutes } from '../http/routes/system.ts'
import { tenantRoutes } from '../http/routes/tenants.ts'
import { trainingSetRoutes } from '../http/routes/training-sets.ts'
import { webhookRoutes } from '../http/routes/webhooks.ts'
import { servingTypesOf } from '../manifest/context.ts'
import type { ParseThreads } from '../parsing/parse-threads.ts'
import { actorOf } from '../registry/actor.ts'
import { appendAudit } from '../registry/audit.ts'
import { IdempotencyKeys } from '../registry/idempotency.ts'
import type { Admission } from './admission.ts'
import { ownLimits } from './materialization.ts'
import type { Platform } from './platform.ts'
import type { Services } from './plugin-host.ts'
import { pluginSummaries } from './plugin-summaries.ts'
import { cursorKey } from './storage.ts'

/** What the server answers from. */
export interface ApiParts {
  readonly config: Config
  readonly url: string
  readonly embedded: EmbeddedIssuer | null
  readonly issuers: readonly TrustedIssuer[]
  readonly metrics: MetricsRegistry
  readonly threads: ParseThreads
  readonly faultPoint: FaultPoint
  /** The version of this runtime. */
  readonly release: string
  readonly platform: Platform
  /** Those that were loaded until now. */
  readonly services: Pick<Services, 'loaded' | 'health'>
  readonly logger: Logger
  readonly readiness: Pick<ReadinessChecks, 'check'>
  /** The metrics of all processes, in Prometheus's format. */
  readonly scrape: () => Promise<string>
  readonly admission: Admission
}

export async function createApi({ readiness, admission, ...parts }: ApiParts): Promise<HttpApp> {
  const { config, url, embedded, issuers, platform, services, logger, metrics, threads } = parts
  const cursors = new Cursors([await cursorKey(config.secrets_dir)])
  const reads = readDeps(platform, cursors)
  const own: readonly Route[] = [
    ...tenantRoutes(platform, cursors),
    ...connectionRoutes(platform, cursors),
    ...quarantineRoutes(platform, cursors),
    ...erasureRoutes(platform, cursors),
    ...pushRoutes(platform, threads),
    ...rawGrantRoutes(platform, cursors),
    ...applicationKeyRoutes(platform, cursors),
    ...servicePasswordRoutes(platform, cursors),
    ...notificationRoutes(platform, cursors),
    ...productRoutes(platform, cursors),
    ...previewRoutes(platform),
    ...promotionRoutes(platform),
    ...lineageRoutes(platform),
    ...readRoutes(platform, reads),
    ...changeRoutes(platform, cursors),
    ...webhookRoutes(platform, cursors),
    ...queryRoutes(platform),
    ...trainingSetRoutes(platform),
    ...exportRoutes(platform, cursors),
    ...runRoutes(platform, cursors),
    ...pluginRoutes(() => pluginSummaries(platform.plugins, services.loaded(), services.health.states())),
    ...manifestSchemaRoutes(servingTypesOf(platform.plugins.servingTypes().map(({ plugin }) => plugin))),
    ...lakeRoutes(platform, ownLimits(config)),
    ...icebergCatalog(platform, url),
    ...catalogLoginRoutes(platform),
    ...mcpRoutes(platform, { url, issuers: issuers.map(({ issuer }) => issuer), release: parts.release }),
    ...(embedded ? oidcRoutes(embedded) : []),
    ...probeRoutes(readiness, { contentType: metrics.contentType, metrics: parts.scrape }),
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
    threads,
    maxStreamsPerSubject: config.limits.event_streams,
    processes: config.http.processes,
    faultPoint: parts.faultPoint,
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
