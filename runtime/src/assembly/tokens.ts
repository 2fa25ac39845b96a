/** Names of what the container holds. A token carries its type, so wrong wiring does not compile. */
import type { Engine } from '@sluice/engine'
import type { Lake, ReachableFiles } from '@sluice/iceberg'
import type { EventBus, LentAccess, Logger } from '@sluice/sdk'
import type pg from 'pg'
import type { InjectionToken } from 'tsyringe'
import type { CatalogLogins } from '../catalog/logins.ts'
import type { Sandbox } from '../catalog/sandbox.ts'
import type { Config } from '../config.ts'
import type { EventFeed } from '../events/feed.ts'
import type { FaultPoint } from '../fault-points.ts'
import type { MaterializeDeps } from '../materializer/deps.ts'
import type { ServedProducts } from '../operations/served/served-products.ts'
import type { ParseThreads } from '../parsing/parse-threads.ts'
import type { PluginSet } from '../plugins/plugin-set.ts'
import type { NamingIssuer } from '../policy/identity.ts'
import type { MaskingRules } from '../policy/masking.ts'
import type { MasterKeys } from '../registry/master-keys.ts'
import type { Computes } from './compute.ts'
import type { OpenDashboards } from './dashboard-server.ts'
import type { Platform } from './platform.ts'
import type { Services } from './plugin-host.ts'

function token<T>(name: string): InjectionToken<T> {
  return Symbol(name) as InjectionToken<T>
}

export const TOKENS = {
  config: token<Config>('config'),
  logger: token<Logger>('logger'),
  faultPoint: token<FaultPoint>('faultPoint'),
  pool: token<pg.Pool>('pool'),
  masters: token<MasterKeys>('masters'),
  engine: token<Engine>('engine'),
  computes: token<Computes>('computes'),
  lake: token<Lake>('lake'),
  threads: token<ParseThreads>('threads'),
  reachable: token<ReachableFiles>('reachable'),
  lentAccess: token<LentAccess | null>('lentAccess'),
  sandbox: token<Sandbox>('sandbox'),
  catalogLogins: token<CatalogLogins>('catalogLogins'),
  rules: token<MaskingRules>('rules'),
  issuers: token<readonly NamingIssuer[]>('issuers'),
  plugins: token<PluginSet>('plugins'),
  services: token<Services>('services'),
  events: token<EventFeed>('events'),
  bus: token<EventBus | null>('bus'),
  served: token<ServedProducts>('served'),
  dashboards: token<OpenDashboards | null>('dashboards'),
  materialize: token<MaterializeDeps>('materialize'),
  platform: token<Platform>('platform'),
} as const
