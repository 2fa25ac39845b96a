/** The dashboard server of the configuration: its driver, and where in the serving database it reads. */
import { type DashboardPlugin, type DashboardServer, type Logger, SluiceError } from '@sluice/sdk'
import type pg from 'pg'
import { settingsOfDriver } from '../config/servers-beside.ts'
import type { Settings } from '../config/services.ts'
import type { Config } from '../config.ts'
import { dashboardPlugin, dashboardSupport, type ShowingServer } from '../dashboards/driver.ts'
import { ServingViews } from '../dashboards/serving-views.ts'
import { type DatabaseAddress, parseAddress } from '../database/address.ts'
import type { KeptServer } from '../database/kept-server.ts'
import { openPool } from '../database/pools.ts'
import { completeSettings, openService, type ServiceParts, type ServiceSearch } from '../plugins/services.ts'
import type { Databases } from './storage.ts'

export interface OpenDashboards {
  readonly support: ShowingServer
  readonly views: ServingViews
  readonly driver: string
  readonly server: DashboardServer
  close(): Promise<void>
}

export interface DashboardParts {
  readonly services: ServiceParts
  readonly databases: Databases
  readonly logger: Logger
}

const CONNECTIONS = 3

interface ChosenDashboards {
  readonly plugin: DashboardPlugin<Settings>
  readonly settings: Settings
  readonly owner: DatabaseAddress
  /** Of a login that may make roles; null: the embedded server's. */
  readonly admin: DatabaseAddress | null
}

/**
 * Throws CONFIG where there is no such server, where it does not take what it is told, and where no database has what it would show,
 * or nobody could make its logins there.
 */
export async function chosenDashboards(
  config: Config,
  dashboards: Dashboards,
  search: ServiceSearch,
  { serving, isEmbedded }: { readonly serving: Databases['serving']; readonly isEmbedded: boolean },
): Promise<ChosenDashboards> {
  const plugin = await dashboardPlugin(config, search)
  const settings: Settings = completeSettings(plugin, settingsOfDriver(dashboards), 'dashboards')
  const owner = ownerOf(config, serving, dashboardSupport(config, plugin).endpoints[0])
  return { plugin, settings, owner, admin: adminOf(dashboards, isEmbedded) }
}

/** Null where none is configured. Asks nobody anything yet: a runtime starts without its dashboard server. */
export async function openDashboards(config: Config, parts: DashboardParts): Promise<OpenDashboards | null> {
  const { dashboards } = config
  if (dashboards === undefined) return null
  const { serving, embedded } = parts.databases
  const known = { serving, isEmbedded: embedded !== null }
  const { plugin, settings, ...logins } = await chosenDashboards(config, dashboards, parts.services, known)
  const { views, pool } = viewsOf(dashboards, logins, parts)
  const { service: server, close } = await openService(plugin, settings, parts.services).catch(
    async (error: unknown) => {
      await pool.end()
      throw error
    },
  )
  const publicUrl = dashboards.public_url ?? null
  return {
    support: { ...dashboardSupport(config, plugin), linkTo: (dataset) => server.linkTo(dataset, publicUrl) },
    views,
    driver: plugin.name,
    server,
    async close() {
      await close()
      await pool.end()
    },
  }
}

type Dashboards = NonNullable<Config['dashboards']>

function viewsOf(
  dashboards: Dashboards,
  { owner, ...logins }: Pick<ChosenDashboards, 'owner' | 'admin'>,
  { databases, logger }: DashboardParts,
): { readonly views: ServingViews; readonly pool: pg.Pool } {
  const admin = { ...(logins.admin ?? (databases.embedded as KeptServer).address), database: owner.database }
  const { host, port } = databases.embedded?.tcpAddress ?? owner
  const { database_host: shownHost = host, database_port: shownPort = port } = dashboards
  const pool = openPool(owner, { applicationName: 'sluice-dashboards', maxConnections: CONNECTIONS })
  const views = new ServingViews({
    pool,
    admin,
    shown: { host: shownHost, port: shownPort, database: owner.database, tls: owner.tls },
    onGaps: (gaps) =>
      logger.warn('logins of dashboards may do more than read; deploy/postgres/20-walls.sh mends that', { gaps }),
  })
  return { views, pool }
}

function ownerOf({ serving }: Config, logins: Databases['serving'], type: string | undefined): DatabaseAddress {
  const settings = type === undefined ? undefined : serving[type]?.settings
  const owner = settings?.['owner'] ?? (type === undefined ? undefined : logins?.owner)
  if (typeof owner === 'string') return parseAddress(owner)
  throw invalid('dashboards need a store in PostgreSQL', 'Serve lookup or timeseries by the driver postgresql.')
}

function adminOf(dashboards: Dashboards, isEmbedded: boolean): DatabaseAddress | null {
  if (dashboards.database_admin_url !== undefined) return parseAddress(dashboards.database_admin_url)
  if (isEmbedded) return null
  const remedy = 'Set dashboards.database_admin_url to a login of the serving database’s server that may make roles.'
  throw invalid('dashboards need a login for each dataset, and nobody may make one', remedy)
}

function invalid(what: string, remedy: string): SluiceError {
  return new SluiceError('CONFIG', what, { code: 'invalid_config', remedy })
}
