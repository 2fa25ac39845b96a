/** Dashboards as pages: plain HTML in a folder for each role, written anew by the clock. Whose roles they are, a web server asks. */
import { defineDashboard } from '@sluice/sdk'
import { PageServer } from './server.ts'
import { type PagesSettings, settingsSchema } from './settings.ts'
import { TEMPLATES } from './templates.ts'

export default defineDashboard<PagesSettings>({
  name: 'pages',
  version: '1.0.0',
  description: 'Dashboards as pages in a folder.',
  settingsSchema,
  templates: TEMPLATES,
  open: (settings, host) => PageServer.start(settings, host),
})
