/** Reads tables out of a folder of files: CSV, JSON lines, Parquet and Avro, in full or by the files that are new. */
import { defineConnector } from '@sluice/sdk'
import { createConnector } from './connector.ts'
import { Folder } from './folder.ts'
import { type FolderSettings, parseFolderSettings, settingsSchema } from './settings.ts'

export default defineConnector<FolderSettings>({
  type: 'files',
  name: 'files',
  version: '0.1.0',
  description: 'Tables in a folder of CSV, JSON-lines, Parquet and Avro files.',
  settingsSchema,
  capabilities: { modes: ['full', 'incremental'], csv: true },
  async open(settings, host) {
    const { folder, tables } = parseFolderSettings(settings)
    return createConnector(new Folder(folder), tables, host)
  },
})
