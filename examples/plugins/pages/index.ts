/** Dashboards as pages: plain HTML in a folder for each role, written anew by the clock. Whose roles they are, a web server asks. */
import type { DashboardPlugin } from '@sluice/sdk'
import { PageServer } from './server.ts'
import { type PagesSettings, settingsSchema } from './settings.ts'
import { TEMPLATES } from './templates.ts'

const pages: DashboardPlugin<PagesSettings> = {
  kind: 'dashboard',
  name: 'pages',
  version: '1.0.0',
  description: 'Pages in a folder',
  settingsSchema,
  templates: TEMPLATES,
  open: (settings, host) => PageServer.start(settings, host),
}

export default pages
