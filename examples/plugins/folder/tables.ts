/** Which tables a folder has, and what each file says of its columns. */
import { type FileHandle, open, readdir, readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { type Column, type LogicalType, SluiceError, type TableSchema } from '@sluice/sdk'

export interface TableFile {
  readonly name: string
  readonly format: 'csv' | 'jsonl'
  readonly path: string
  readonly schemaPath: string
}

/** By name. Links are left out, since they lead elsewhere, and so is what begins with a dot. */
export async function tablesIn(folder: string): Promise<readonly TableFile[]> {
  const entries = await readdir(folder, { withFileTypes: true })
  const files = new Set(entries.filter((entry) => entry.isFile()).map(({ name }) => name))
  const tables = new Map<string, TableFile>()
  for (const file of [...files].sort()) {
    const [, name = '', format] = /^([^.].*)\.(csv|jsonl)$/.exec(file) ?? []
    if (name === '' || tables.has(name) || !files.has(`${name}.schema.json`)) continue
    const schemaPath = join(folder, `${name}.schema.json`)
    tables.set(name, { name, format: format as TableFile['format'], path: join(folder, file), schemaPath })
  }
  return [...tables.values()].sort((left, right) => (left.name < right.name ? -1 : 1))
}

/** Throws INVALID_DATA for a file that describes no columns. */
export async function schemaOf({ name, schemaPath }: TableFile): Promise<TableSchema> {
  const text = await readFile(schemaPath, 'utf8')
  try {
    const { columns, primaryKey = [] } = JSON.parse(text) as Partial<TableSchema>
    const isRight = Array.isArray(columns) && columns.every(isColumn) && Array.isArray(primaryKey)
    const isKeyed = primaryKey.every((key) => columns?.some((column: Column) => column.name === key))
    if (isRight && columns.length > 0 && isKeyed) return { columns, primaryKey }
  } catch {
    // It is told below, without the text.
  }
  throw new SluiceError('INVALID_DATA', `${name}.schema.json does not say which columns the table has`, {
    code: 'source_schema_invalid',
    remedy: 'Write {"columns": [{"name": "id", "type": "long", "nullable": false}], "primaryKey": ["id"]}.',
  })
}

const TYPES =
  /^(string|boolean|integer|long|float|double|date|timestamp|timestamptz|uuid|binary|json|decimal\(\d+,\d+\))$/

function isColumn(column: unknown): column is Column {
  const { name, type, nullable } = (column ?? {}) as Partial<Column>
  return typeof name === 'string' && TYPES.test(String(type as LogicalType)) && typeof nullable === 'boolean'
}

/** A file and its columns as they are at one moment: whoever replaces a table replaces two files. */
export async function openTable(
  table: TableFile,
): Promise<{ readonly file: FileHandle; readonly schema: TableSchema }> {
  for (let look = 0; look < 100; look += 1) {
    const before = await stat(table.schemaPath, { bigint: true })
    const schema = await schemaOf(table)
    const file = await open(table.path, 'r')
    const after = await stat(table.schemaPath, { bigint: true }).catch(() => null)
    if (after !== null && after.ino === before.ino && after.mtimeNs === before.mtimeNs) return { file, schema }
    await file.close()
  }
  throw new SluiceError('TRANSIENT', `the files of ${table.name} are replaced all the time`, { code: 'source_busy' })
}
