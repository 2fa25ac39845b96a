/** The plugin that the configuration chooses to make dashboards by, and what it could show of this deployment. */
import type { DashboardDatasetId, DashboardPlugin } from '@sluice/sdk'
import { DEFAULT_DASHBOARD_DRIVER } from '../config/servers-beside.ts'
import type { Config } from '../config.ts'
import type { DashboardSupport } from '../manifest/context.ts'
import { loadService, type ServiceSearch } from '../plugins/services.ts'

const [TYPES, DRIVER] = [['lookup', 'timeseries'], 'postgresql'] as const

/** Without a word in the configuration, the one that comes with the runtime. Throws CONFIG as `loadService` does. */
export function dashboardPlugin(
  { dashboards }: Pick<Config, 'dashboards'>,
  search: ServiceSearch,
): Promise<DashboardPlugin<Readonly<Record<string, unknown>>>> {
  return loadService('dashboard', dashboards?.driver ?? DEFAULT_DASHBOARD_DRIVER, search)
}

/** What the driver could show of a deployment with this configuration, whether there is a server or not. */
export function dashboardSupport(
  { serving }: Pick<Config, 'serving'>,
  { templates }: Pick<DashboardPlugin<never>, 'templates'>,
): DashboardSupport {
  return { endpoints: TYPES.filter((type) => serving[type]?.driver === DRIVER), templates }
}

/** What a dashboard server can show, and where people find it. */
export interface ShowingServer extends DashboardSupport {
  /** Null where there is no one address of it. */
  linkTo(dataset: DashboardDatasetId): string | null
}
