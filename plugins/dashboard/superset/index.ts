/** Dashboards in Superset: each dataset a connection, a dataset and a dashboard, of which the roles of its audience see rows. */
import { type DashboardServer, defineDashboard } from '@sluice/sdk'
import { SupersetClient } from './client.ts'
import { putDataset, removeDataset } from './datasets.ts'
import { dashboardSlug } from './names.ts'
import { type SupersetSettings, settingsSchema } from './settings.ts'
import { DASHBOARD_TEMPLATES } from './templates.ts'

export default defineDashboard<SupersetSettings>({
  name: 'superset',
  version: '0.1.0',
  description: 'Dashboards in Apache Superset.',
  settingsSchema,
  templates: DASHBOARD_TEMPLATES,
  open: async (settings) => serverOf(settings),
})

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
    ping: (signal) => client.ping(signal),
    close: async () => undefined,
  }
}
