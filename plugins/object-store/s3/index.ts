/** The lake, and places of exports, in an S3-compatible store. */
import { defineObjectStore } from '@sluice/sdk'
import { S3Buckets } from './buckets.ts'
import { destinationSchema, type Settings, settingsSchema } from './settings.ts'

const MB = 1024 * 1024
/** Of a destination, whose files have one way and no reader who waits. */
const DEADLINE_MS = 120_000
const ATTEMPT_MS = 60_000

export default defineObjectStore<Settings>({
  name: 's3',
  version: '0.1.0',
  description: 'Files in buckets of an S3-compatible store.',
  settingsSchema,
  destinationSchema,
  open: async (settings) =>
    new S3Buckets({
      endpoint: settings.endpoint,
      region: settings.region,
      accessKeyId: settings.access_key_id,
      secretAccessKey: settings.secret_access_key,
      ...(settings.session_token === undefined ? {} : { sessionToken: settings.session_token }),
      pathStyle: settings.path_style,
      deadlineMs: settings.deadline_ms ?? DEADLINE_MS,
      attemptMs: settings.attempt_ms ?? ATTEMPT_MS,
      ...(settings.part_mb === undefined ? {} : { partBytes: settings.part_mb * MB }),
    }),
})
