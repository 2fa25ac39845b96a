import type { Config } from '../config.ts'
import type { DashboardSupport } from '../manifest/context.ts'
import { DASHBOARD_TEMPLATES } from './templates.ts'

const [TYPES, DRIVER] = [['lookup', 'timeseries'], 'postgresql'] as const

/** What a dashboard server could show of a deployment with this configuration, whether it has one or not. */
export function dashboardSupport({ serving }: Pick<Config, 'serving'>): DashboardSupport {
  return { endpoints: TYPES.filter((type) => serving[type]?.driver === DRIVER), templates: DASHBOARD_TEMPLATES }
}
