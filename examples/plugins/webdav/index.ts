/** The lake on a WebDAV server: a folder for each bucket, below an address. */
import { defineObjectStore } from '@sluice/sdk'
import { WebdavBuckets, type WebdavSettings } from './buckets.ts'

export default defineObjectStore<WebdavSettings>({
  name: 'webdav',
  version: '1.0.0',
  description: 'Files in folders of a WebDAV server.',
  settingsSchema: {
    type: 'object',
    properties: {
      url: { type: 'string', pattern: '^https?://', description: 'Of the folder that buckets are made in.' },
      username: { type: 'string', description: 'Of a login that may do everything there, and lock.' },
      password: { type: 'string', 'x-secret': true, description: 'Of that login.' },
      deadline_ms: {
        type: 'integer',
        default: 120_000,
        minimum: 1_000,
        description: 'One operation, retries and all.',
      },
      attempt_ms: {
        type: 'integer',
        default: 30_000,
        minimum: 100,
        maximum: 60_000,
        description: 'One request; of a large file, the time without any bytes.',
      },
    },
    required: ['url', 'username', 'password'],
    additionalProperties: false,
  },
  open: async (settings) => new WebdavBuckets(settings),
})
