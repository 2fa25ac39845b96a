/** Reads tables out of a folder of files: CSV, JSON lines, Parquet and Avro, in full or by the files that are new. */
import { defineConnector } from '@sluice/sdk'
import { type FolderSettings, parseFolderSettings, settingsSchema } from './settings.ts'

/** What reads sources, with its driver. The runtime needs the settings alone; a process that reads loads it ahead. */
export const load = () => Promise.all([import('./connector.ts'), import('./folder.ts')])

export default defineConnector<FolderSettings>({
  type: 'files',
  name: 'files',
  version: '0.1.0',
  description: 'Tables in a folder of CSV, JSON-lines, Parquet and Avro files.',
  settingsSchema,
  capabilities: { modes: ['full', 'incremental'], csv: true },
  async open(settings, host) {
    const { folder, tables } = parseFolderSettings(settings)
    const [{ createConnector }, { Folder }] = await load()
    return createConnector(new Folder(folder), tables, host)
  },
})
