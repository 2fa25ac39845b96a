/** Dashboards in Superset: each dataset a connection, a dataset and a dashboard, of which the roles of its audience see rows. */
import type { DashboardPlugin, DashboardServer } from '@sluice/sdk'
import { SupersetClient } from './client.ts'
import { putDataset, removeDataset } from './datasets.ts'
import { dashboardSlug } from './names.ts'
import { SUPERSET_SETTINGS, type SupersetSettings } from './settings.ts'
import { DASHBOARD_TEMPLATES } from './templates.ts'

const superset: DashboardPlugin<SupersetSettings> = {
  kind: 'dashboard',
  name: 'superset',
  version: '1.0.0',
  description: 'Apache Superset',
  settingsSchema: SUPERSET_SETTINGS,
  templates: DASHBOARD_TEMPLATES,
  open: async (settings) => serverOf(settings),
}

function serverOf({ timeout_ms: timeoutMs, ...login }: SupersetSettings): DashboardServer {
  const client = new SupersetClient({ ...login, timeoutMs })
  return {
    async open(signal) {
      const session = await client.open(signal)
      return {
        put: (dataset, audience) => putDataset(session, dataset, audience),
        remove: (dataset) => removeDataset(session, dataset),
      }
    },
    linkTo: (dataset, publicUrl) =>
      `${(publicUrl ?? login.url).replace(/\/+$/, '')}/superset/dashboard/${dashboardSlug(dataset)}/`,
    close: async () => undefined,
  }
}

export default superset
