/** The dashboard server of the configuration: its client, and where in the serving database it reads. */
import { type Logger, SluiceError } from '@sluice/sdk'
import type pg from 'pg'
import type { Config } from '../config.ts'
import { ServingViews } from '../dashboards/serving-views.ts'
import { SupersetClient } from '../dashboards/superset-client.ts'
import { dashboardSupport } from '../dashboards/support.ts'
import { type DatabaseAddress, parseAddress } from '../database/address.ts'
import { openPool } from '../database/pools.ts'
import type { DashboardSupport } from '../manifest/context.ts'
import type { Databases } from './storage.ts'

export interface DashboardServer {
  readonly support: DashboardSupport
  readonly views: ServingViews
  readonly server: SupersetClient
  close(): Promise<void>
}

const CONNECTIONS = 3

/** Null where none is configured. Asks nobody anything yet: a runtime starts without its dashboard server. */
export function openDashboardServer(config: Config, databases: Databases, logger: Logger): DashboardServer | null {
  const { dashboards } = config
  if (dashboards === undefined) return null
  const support = dashboardSupport(config)
  const owner = ownerOf(config, databases, support.endpoints[0])
  const pool: pg.Pool = openPool(owner, { applicationName: 'sluice-dashboards', maxConnections: CONNECTIONS })
  const { host, port } = databases.embedded?.tcpAddress ?? owner
  const { database_host: shownHost = host, database_port: shownPort = port } = dashboards
  return {
    support,
    views: new ServingViews({
      pool,
      admin: { ...adminOf(dashboards, databases), database: owner.database },
      shown: { host: shownHost, port: shownPort, database: owner.database, tls: owner.tls },
      onGaps: (gaps) =>
        logger.warn('logins of dashboards may do more than read; deploy/postgres/20-walls.sh mends that', { gaps }),
    }),
    server: new SupersetClient({
      url: dashboards.url,
      username: dashboards.username,
      password: dashboards.password,
      timeoutMs: dashboards.timeout_ms,
    }),
    close: () => pool.end(),
  }
}

function ownerOf({ serving }: Config, databases: Databases, type: string | undefined): DatabaseAddress {
  const settings = type === undefined ? undefined : serving[type]?.settings
  const owner = settings?.['owner'] ?? (type === undefined ? undefined : databases.serving?.owner)
  if (typeof owner === 'string') return parseAddress(owner)
  throw invalid('dashboards need a store in PostgreSQL', 'Serve lookup or timeseries by the driver postgresql.')
}

function adminOf(dashboards: NonNullable<Config['dashboards']>, databases: Databases): DatabaseAddress {
  if (dashboards.database_admin_url !== undefined) return parseAddress(dashboards.database_admin_url)
  if (databases.embedded !== null) return databases.embedded.address
  const remedy = 'Set dashboards.database_admin_url to a login of the serving database’s server that may make roles.'
  throw invalid('dashboards need a login for each dataset, and nobody may make one', remedy)
}

function invalid(what: string, remedy: string): SluiceError {
  return new SluiceError('CONFIG', what, { code: 'invalid_config', remedy })
}
