/** What readiness looks at. */
import type { ServiceKind } from '@sluice/sdk'
import { type MigrationList, newerMigrations } from '../database/migrate.ts'
import { takesNoWrites } from '../database/pools.ts'
import type { Probe } from '../http/readiness.ts'
import { strangeBuckets } from '../lake/registry-catalog.ts'
import { roomOn } from '../metrics/disk.ts'
import { loadedTypes } from '../operations/products/product-notices.ts'
import type { ServiceHealth } from '../plugins/service-health.ts'
import { readinessOf } from '../plugins/store-probes.ts'
import { changeBacklog } from '../registry/change-topics.ts'
import { lostCopies } from '../registry/endpoint-states.ts'
import { outdatedProducts } from '../registry/products.ts'
import { unservable } from '../registry/raised-classes.ts'
import type { Confinement } from './confinement.ts'
import type { Platform } from './platform.ts'
import { healthJson } from './plugin-summaries.ts'

/** What the last review of stores and buckets has found. */
export interface Reviewed {
  /** Why a store does not keep tenants apart; null where it does. */
  storeFault(type: string): string | null
  unknownBuckets(): number
}

/** @param migrations that this release knows */
export function probesOf(
  platform: Platform,
  { missing, isConfined }: Confinement,
  { upkeep: reviewed, services }: { readonly upkeep: Reviewed; readonly services: Pick<ServiceHealth, 'states'> },
  migrations: readonly MigrationList[],
): readonly Probe[] {
  return [
    {
      name: 'registry',
      async check() {
        const [outdated, newer, isReadOnly] = await Promise.all([
          outdatedProducts(platform.pool),
          newerMigrations(platform.pool, migrations),
          takesNoWrites(platform.pool),
        ])
        return {
          ...(outdated > 0 || newer.breaks || isReadOnly ? { state: 'degraded' } : {}),
          // As after a failover to a standby: what is there is served, and nothing is deployed, run or kept up.
          ...(isReadOnly ? { read_only: true } : {}),
          ...(outdated > 0 ? { outdated_products: outdated } : {}),
          // What a later release has added; where that breaks this one, it does not start here again.
          ...(newer.migrations.length > 0 ? { newer_migrations: newer.migrations.length, too_old: newer.breaks } : {}),
        }
      },
    },
    ...platform.plugins.servingTypes().map(({ type, store }) => ({
      name: `store:${type}`,
      async check() {
        return readinessOf(store, reviewed.storeFault(type))
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
        const unknown = reviewed.unknownBuckets()
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
    ...serviceProbes(services),
    {
      name: 'disk',
      async check() {
        return roomOn(platform.config.data_dir)
      },
    },
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
  if (platform.bus?.changes?.isOn !== true) return []
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

/** Rows of the lake, and all that is made of them, lie in the object store; without another one what is there is served. */
const ESSENTIAL: ServiceKind = 'object-store'

/** Each that is open by now. */
function serviceProbes(health: Pick<ServiceHealth, 'states'>): readonly Probe[] {
  return health.states().map(({ kind, name }) => ({
    name: `service:${kind}:${name}`,
    async check() {
      const state = health.states().find((one) => one.kind === kind && one.name === name)
      if (state === undefined) return undefined
      const { status, ...details } = healthJson(state)
      return { state: status, ...details, ...(status === 'down' && kind === ESSENTIAL ? { ok: false } : {}) }
    },
  }))
}
