/** What a connection says of its files: where they are, and which of them are a table. */
import { type JsonSchema, SluiceError } from '@sluice/sdk'
import { parseTable, type TableOfFiles, type TableSettings, tableSchema } from './table-settings.ts'

export interface FolderSettings {
  readonly folder: string
  readonly tables?: Readonly<Record<string, TableSettings>>
}

export interface FolderSource {
  readonly folder: string
  readonly tables: readonly TableOfFiles[]
}

export const tablesSchema: JsonSchema = {
  type: 'object',
  description: 'The tables, by name: which files each is made of, and how they are written.',
  additionalProperties: tableSchema,
  examples: [{ orders: { glob: 'orders/*.csv', format: 'csv', primary_key: ['id'] } }],
}

export const settingsSchema: JsonSchema = {
  type: 'object',
  description: 'A folder of CSV, JSON-lines, Parquet and Avro files to read from.',
  additionalProperties: false,
  required: ['folder'],
  properties: {
    folder: {
      type: 'string',
      pattern: '^/',
      minLength: 1,
      maxLength: 4096,
      description: 'Where the files are, from the root. The operator allows it under folders in sluice.yaml.',
      examples: ['/srv/files'],
      'x-folder': true,
    },
    tables: tablesSchema,
  },
  examples: [
    { folder: '/srv/files', tables: { orders: { glob: 'orders/*.csv', format: 'csv', primary_key: ['id'] } } },
  ],
}

const MAX_TABLES = 1000

/** Throws CONFIG for what the schema lets pass and cannot be right. */
export function parseFolderSettings(settings: unknown): FolderSource {
  const { folder, tables, ...others } = asObject(settings, 'the settings')
  if (typeof folder !== 'string' || !folder.startsWith('/') || folder.includes('\0'))
    throw invalid('folder is no path from the root', 'Write it as /srv/files.')
  expectNoOthers(others, 'the settings')
  return { folder, tables: parseTables(tables) }
}

export function parseTables(value: unknown): readonly TableOfFiles[] {
  if (value === undefined) return []
  const entries = Object.entries(asObject(value, 'tables'))
  if (entries.length > MAX_TABLES) throw invalid('there are too many tables', `Name at most ${MAX_TABLES}.`)
  return entries.map(([name, table]) => parseTable(name, table, ''))
}

export function asObject(value: unknown, what: string): Readonly<Record<string, unknown>> {
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as Record<string, unknown>
  throw invalid(`${what} are no object`, 'Write names with values.')
}

export function expectNoOthers(others: Readonly<Record<string, unknown>>, where: string): void {
  const [first] = Object.keys(others)
  if (first === undefined) return
  throw invalid(`${where}: ${JSON.stringify(first.slice(0, 64))} is not known`, 'Leave it out.')
}

export function invalid(message: string, remedy: string): SluiceError {
  return new SluiceError('CONFIG', message, { code: 'settings_invalid', remedy })
}
