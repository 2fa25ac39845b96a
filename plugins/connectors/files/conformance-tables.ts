/** Tables of the suite as files, wherever these lie: each write of the owner makes a file, and takes rows out of others. */
import { gzipSync } from 'node:zlib'
import type { SourceFixture, SourceTable } from '@sluice/conformance'
import type { Row, Value } from '@sluice/sdk'
import type { TableSettings } from './table-settings.ts'

export interface FilesPlace {
  write(path: string, content: string | Uint8Array): Promise<void>
  remove(path: string): Promise<void>
}

/** As people write such files: no quotes where none are needed, a zone, a number with fewer places, one file packed. */
const BY_HAND: SourceTable = {
  name: 'by_hand',
  columns: [
    { name: 'at', type: 'timestamptz', nullable: true },
    { name: 'id', type: 'long', nullable: false },
    { name: 'word', type: 'string', nullable: true },
    { name: 'price', type: 'decimal(38,9)', nullable: true },
  ],
  primaryKey: ['id'],
}

/** Its columns are found out. */
const byHandTable: TableSettings = {
  glob: 'by hand/**/*.csv*',
  format: 'csv',
  delimiter: ';',
  primary_key: ['id'],
}

const byHandFiles: readonly (readonly [string, string])[] = [
  [
    'by hand/a.csv',
    '\uFEFFat;id;word;price\r\n2026-03-01 01:30:00+02:00;9007199254740993;plain;1.5\r\n;-1;"a ""b"";\nc";-0.250\r\n\r\n;2;"";\r\n',
  ],
  ['by hand/deeper/b.csv.gz', 'price;word;id;at\n12345678901234567890.000000001;007;3;2026-03-01T00:00:00.123456Z'],
]

const byHandRows: readonly Row[] = [
  ['2026-02-28T23:30:00.000000Z', 9007199254740993n, 'plain', '1.500000000'],
  [null, -1n, 'a "b";\nc', '-0.250000000'],
  [null, 2n, '', null],
  ['2026-03-01T00:00:00.123456Z', 3n, '007', '12345678901234567890.000000001'],
]

/** The same two rows by two writers, pyarrow and fastavro: the suite brings none. */
const typed = (name: string): SourceTable => ({
  name,
  columns: [
    { name: 'id', type: 'long', nullable: false },
    { name: 'word', type: 'string', nullable: true },
    { name: 'at', type: 'timestamptz', nullable: true },
    { name: 'price', type: 'decimal(10,2)', nullable: true },
  ],
  primaryKey: ['id'],
})

const typedRows: readonly Row[] = [
  [9223372036854775807n, 'ünï "x"', '2026-03-01T00:00:00.123456Z', '-0.25'],
  [-1n, null, null, '12345678.90'],
]

const PARQUET_FILE =
  'UEFSMRUAFSwVMCwVBBUAFQYVBhwAAAAWVAIAAAAEAf////////9///////////8VABUmFSosFQQVABUGFQYcAAAAE0gCAAAAAwEJAAAAw7xuw6' +
  '8gIngiFQAVHBUgLBUEFQAVBhUGHAAAAA40AgAAAAMBQELFJutLBgAVABUgFSQsFQQVABUGFQYcAAAAEDwCAAAABAH/////5wBJlgLSFQQZXDUA' +
  'GAZzY2hlbWEVCAAVBCUCGAJpZAAVDCUCGAR3b3JkJQBMHAAAABUEJQIYAmF0JRRMjBEcLAAAAAAAFQ4VChUCGAVwcmljZSUKFQQVFCxcFQQVFA' +
  'AAABYEGRwZTCYAHBUEGSUGABkYAmlkFQIWBBZSFlYmCEkcFQAVABUCADwpBhkmAAQAAAAmABwVDBklBgAZGAR3b3JkFQIWBBZMFlAmXkkcFQAV' +
  'ABUCADwWEhkGGSYCAgAAACYAHBUEGSUGABkYAmF0FQIWBBZCFkYmrgFJHBUAFQAVAgA8KQYZJgICAAAAJgAcFQ4ZJQYAGRgFcHJpY2UVAhYEFk' +
  'YWSib0AUkcFQAVABUCADwpBhkmAAQAAAAWpgIWBCYIFrYCACggcGFycXVldC1jcHAtYXJyb3cgdmVyc2lvbiAyNi4wLjEZTBwAABwAABwAABwA' +
  'AABSAQAAUEFSMQ=='

const AVRO_FILE =
  'T2JqAQQUYXZyby5jb2RlYw5kZWZsYXRlFmF2cm8uc2NoZW1h/gR7InR5cGUiOiAicmVjb3JkIiwgIm5hbWUiOiAiUiIsICJmaWVsZHMiOiBbey' +
  'JuYW1lIjogImlkIiwgInR5cGUiOiAibG9uZyJ9LCB7Im5hbWUiOiAid29yZCIsICJ0eXBlIjogWyJudWxsIiwgInN0cmluZyJdfSwgeyJuYW1l' +
  'IjogImF0IiwgInR5cGUiOiBbIm51bGwiLCB7InR5cGUiOiAibG9uZyIsICJsb2dpY2FsVHlwZSI6ICJ0aW1lc3RhbXAtbWljcm9zIn1dfSwgey' +
  'JuYW1lIjogInByaWNlIiwgInR5cGUiOiBbIm51bGwiLCB7InR5cGUiOiAiYnl0ZXMiLCAibG9naWNhbFR5cGUiOiAiZGVjaW1hbCIsICJwcmVj' +
  'aXNpb24iOiAxMCwgInNjYWxlIjogMn1dfV19AI6t9uTNUdTJpFLs9JkMiUUEVvv3HwoYmYQO78k7vF5BqUKJqaFz1Zsnv5ayMTE9Z2RgYOLwnM' +
  'Z0CQAtPBWOrfbkzVHUyaRS7PSZDIlF'

/** What lies in the place from the beginning. */
export const givenFiles: readonly (readonly [string, string | Uint8Array])[] = [
  ...byHandFiles.map(([path, text]) => [path, path.endsWith('.gz') ? gzipSync(text) : text] as const),
  ['typed/a.parquet', Buffer.from(PARQUET_FILE, 'base64')],
  ['typed/b.avro', Buffer.from(AVRO_FILE, 'base64')],
]

export const givenTables: Readonly<Record<string, TableSettings>> = {
  [BY_HAND.name]: byHandTable,
  of_parquet: { glob: 'typed/*.parquet', format: 'parquet', primary_key: ['id'] },
  of_avro: { glob: 'typed/*.avro', format: 'avro', primary_key: ['id'] },
}

export const givenRows: NonNullable<SourceFixture['expected']> = [
  { table: BY_HAND, rows: byHandRows },
  { table: typed('of_parquet'), rows: typedRows },
  { table: typed('of_avro'), rows: typedRows },
]

type Cells = readonly (string | null)[]

interface Written {
  readonly table: SourceTable
  readonly format: 'csv' | 'jsonl'
  /** By the path of the file: its rows by key. */
  readonly files: Map<string, Map<string, Row>>
  /** Rows by key that have a text in place of the values of some column. */
  readonly odd: Map<string, string>
  unfit: number
}

/** Of the fixture what the owner does. */
export function tablesIn(
  place: FilesPlace,
): Pick<SourceFixture, 'create' | 'put' | 'remove' | 'alter' | 'drop' | 'putUnfit' | 'putWithout'> {
  const tables = new Map<string, Written>()
  let made = 0
  const known = ({ name }: SourceTable): Written => {
    const written = tables.get(name)
    if (written === undefined) throw new Error(`there is no table ${name}`)
    return written
  }
  const save = (written: Written, path: string) => {
    const rows = [...(written.files.get(path)?.values() ?? [])].map((row) => cellsOf(written, row))
    if (rows.length > 0) return place.write(path, textOf(written, rows))
    written.files.delete(path)
    return place.remove(path)
  }
  /** Where a row is replaced its file is written anew, and no other. */
  const take = async (written: Written, keys: ReadonlySet<string>) => {
    for (const [path, rows] of [...written.files]) {
      const found = [...rows.keys()].filter((key) => keys.has(key))
      for (const key of found) rows.delete(key)
      if (found.length > 0) await save(written, path)
    }
    for (const key of keys) written.odd.delete(key)
  }
  const add = async (written: Written, rows: readonly Row[]) => {
    made += 1
    const path = `${folderOf(written.table)}/${String(made).padStart(6, '0')}.${written.format}`
    written.files.set(path, new Map(rows.map((row) => [keyOf(written.table, row), row])))
    await save(written, path)
  }
  const keysOf = (table: SourceTable, rows: readonly Row[]) => new Set(rows.map((row) => keyOf(table, row)))
  return {
    create: async (table) => {
      const written: Written = {
        table,
        format: tables.size % 2 === 0 ? 'csv' : 'jsonl',
        files: new Map(),
        odd: new Map(),
        unfit: 0,
      }
      tables.set(table.name, written)
      made += 1
      // Some servers tell times to the second: what is made anew within it has to be told by its bytes.
      await place.write(`${folderOf(table)}/_table.json`, descriptionOf(written) + ' '.repeat(made))
    },
    put: async (table, rows) => {
      const written = known(table)
      await take(written, keysOf(table, rows))
      await add(written, rows)
    },
    remove: (table, rows) => take(known(table), keysOf(table, rows)),
    alter: async (table, next) => {
      const written = known(table)
      const altered = { ...written, table: next }
      tables.set(next.name, altered)
      await place.write(`${folderOf(next)}/_table.json`, descriptionOf(altered))
      for (const [path, rows] of altered.files) {
        altered.files.set(path, new Map([...rows].map(([key, row]) => [key, reshaped(table, next, row)])))
        await save(altered, path)
      }
    },
    drop: async (table) => {
      tables.delete(table.name)
      await place.remove(folderOf(table))
    },
    putUnfit: async (table, count) => {
      const written = known(table)
      const rows = Array.from({ length: count }, (_, index) => unfitRow(table, written.unfit + index))
      written.unfit += count
      made += 1
      await place.write(`${folderOf(table)}/${made}.${written.format}`, textOf(written, rows))
    },
    putWithout: async (table, row) => {
      const written = known(table)
      await take(written, keysOf(table, [row]))
      written.odd.set(keyOf(table, row), 'rank')
      await add(written, [row])
      return 'rank'
    },
  }
}

/** Names that begin with a dot are nobody's table. */
const folderOf = ({ name, hidden }: SourceTable) => `${hidden ? '.' : ''}${name}`

function descriptionOf({ table, format }: Written): string {
  const description: TableSettings = {
    glob: `**/*.${format}`,
    format,
    columns: table.columns.map(({ name, type }) => ({ name, type })),
    primary_key: table.primaryKey,
    ...(table.cursorColumn === undefined ? {} : { cursor_column: table.cursorColumn }),
  }
  return JSON.stringify(description)
}

function keyOf({ columns, primaryKey }: SourceTable, row: Row): string {
  return JSON.stringify(primaryKey.map((name) => String(row[columns.findIndex((column) => column.name === name)])))
}

function reshaped(from: SourceTable, to: SourceTable, row: Row): Row {
  return to.columns.map(({ name, type }) => {
    const value = row[from.columns.findIndex((column) => column.name === name)] ?? null
    return value !== null && type === 'string' ? String(value) : value
  })
}

function cellsOf({ table, odd }: Written, row: Row): Cells {
  const at = table.columns.findIndex(({ name }) => name === odd.get(keyOf(table, row)))
  return row.map((value, index) => (index === at ? 'of no rank' : value === null ? null : valueText(value)))
}

function valueText(value: NonNullable<Value>): string {
  if (value instanceof Uint8Array) return `\\x${Buffer.from(value).toString('hex')}`
  return Object.is(value, -0) ? '-0' : String(value)
}

/** A row whose columns of times hold none. */
function unfitRow({ columns }: SourceTable, index: number): Cells {
  return columns.map(({ type }) => (type === 'timestamptz' ? 'never' : type === 'long' ? String(-1 - index) : null))
}

function textOf({ table, format }: Written, rows: readonly Cells[]): string {
  const quoted = (text: string | null) => (text === null ? '' : `"${text.replaceAll('"', '""')}"`)
  const names = table.columns.map(({ name }) => name)
  if (format === 'csv') return [names, ...rows].map((row) => `${row.map(quoted).join(',')}\n`).join('')
  return rows.map((row) => `${jsonLine(table, row)}\n`).join('')
}

function jsonLine({ columns }: SourceTable, row: Cells): string {
  const parts = columns.map(({ name, type }, index) => {
    const text = row[index] ?? null
    // Numbers as numbers, where JSON has them; 2^63 - 1 is written out.
    const isNumber = ['integer', 'long', 'float', 'double'].includes(type) || type.startsWith('decimal')
    const isBare = text !== null && (type === 'json' || (isNumber && /^-?\d+(\.\d+)?(e[+-]\d+)?$/.test(text)))
    return `${JSON.stringify(name)}:${isBare ? text : JSON.stringify(text)}`
  })
  return `{${parts.join(',')}}`
}
