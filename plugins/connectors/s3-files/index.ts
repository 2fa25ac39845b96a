/** Reads tables out of a bucket of S3: CSV, JSON lines, Parquet and Avro, in full or by the objects that are new. */
import { defineConnector } from '@sluice/sdk'
import { parseBucketSettings, type S3FilesSettings, settingsSchema } from './settings.ts'

/** What reads sources, with its driver. The runtime needs the settings alone; a process that reads loads it ahead. */
export const load = () => Promise.all([import('../files/connector.ts'), import('./bucket.ts')])

export default defineConnector<S3FilesSettings>({
  type: 's3-files',
  name: 's3-files',
  version: '0.1.0',
  description: 'Tables in a bucket of S3, of CSV, JSON-lines, Parquet and Avro files.',
  settingsSchema,
  capabilities: { modes: ['full', 'incremental'], csv: true },
  async open(settings, host) {
    const { place, tables } = parseBucketSettings(settings)
    const [{ createConnector }, { Bucket }] = await load()
    return createConnector(new Bucket(place, host.network), tables, host)
  },
})
