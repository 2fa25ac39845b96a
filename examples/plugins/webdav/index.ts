/** The lake on a WebDAV server: a folder for each bucket, below an address. */
import { defineObjectStore } from '@sluice/sdk'
import { WebdavBuckets } from './buckets.ts'
import { settingsSchema, type WebdavSettings } from './settings.ts'

export default defineObjectStore<WebdavSettings>({
  name: 'webdav',
  version: '1.0.0',
  description: 'Files in folders of a WebDAV server.',
  settingsSchema,
  open: async (settings) => new WebdavBuckets(settings),
})
