/** A folder that the suite fills: every second table as CSV, the others as JSON lines. */
import { createHash } from 'node:crypto'
import { mkdir, mkdtemp, readdir, readFile, readlink, rename, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { SourceFixture, SourceTable } from '@sluice/conformance'
import type { Row, Value } from '@sluice/sdk'

interface Written {
  readonly table: SourceTable
  readonly format: 'csv' | 'jsonl'
  readonly rows: ReadonlyMap<string, Row>
  readonly unfit: number
}

/** As people write such files: no quotes where none are needed, a zone, a number with fewer places. */
const BY_HAND: SourceTable = {
  name: 'by_hand',
  columns: [
    { name: 'id', type: 'long', nullable: false },
    { name: 'word', type: 'string', nullable: true },
    { name: 'price', type: 'decimal(8,3)', nullable: true },
    { name: 'at', type: 'timestamptz', nullable: true },
  ],
  primaryKey: ['id'],
}

export async function start(): Promise<SourceFixture> {
  const root = await mkdtemp(join(tmpdir(), 'sluice-folder-'))
  const folder = join(root, 'files')
  await mkdir(folder)
  const tables = new Map<string, Written>()
  const fileOf = ({ name, hidden }: SourceTable, ending: string) =>
    join(folder, `${hidden ? '.' : ''}${name}.${ending}`)
  /** In one step, as whoever replaces a file that others read should do. */
  const replace = async (path: string, text: string) => {
    await writeFile(join(root, 'next'), text)
    await rename(join(root, 'next'), path)
  }
  const write = async (written: Written) => {
    tables.set(written.table.name, written)
    await replace(
      fileOf(written.table, written.format),
      written.format === 'csv' ? csvOf(written) : jsonLinesOf(written),
    )
  }
  const describe = (table: SourceTable) =>
    replace(fileOf(table, 'schema.json'), JSON.stringify({ columns: table.columns, primaryKey: table.primaryKey }))
  const known = ({ name }: SourceTable): Written => {
    const written = tables.get(name)
    if (written === undefined) throw new Error(`there is no table ${name}`)
    return written
  }
  await describe(BY_HAND)
  await writeFile(
    fileOf(BY_HAND, 'csv'),
    'at,id,word,price\r\n2026-03-01 01:30:00+02:00,9007199254740993,plain,1.5\r\n,-1,"a ""b"",\nc",-0.250\r\n,2,"",\r\n',
  )
  return {
    settings: { folder },
    schema: 'files',
    steps: ['privileges'],
    broken: { privileges: { folder: join(root, 'absent') } },
    expected: [
      {
        table: BY_HAND,
        rows: [
          [9007199254740993n, 'plain', '1.500', '2026-02-28T23:30:00.000000Z'],
          [-1n, 'a "b",\nc', '-0.250', null],
          [2n, '', null, null],
        ],
      },
    ],
    create: async (table) => {
      await describe(table)
      await write({ table, format: tables.size % 2 === 0 ? 'csv' : 'jsonl', rows: new Map(), unfit: 0 })
    },
    put: async (table, rows) => {
      const written = known(table)
      await write({
        ...written,
        rows: new Map([...written.rows, ...rows.map((row) => [keyOf(table, row), row] as const)]),
      })
    },
    remove: async (table, rows) => {
      const written = known(table)
      const gone = new Set(rows.map((row) => keyOf(table, row)))
      await write({ ...written, rows: new Map([...written.rows].filter(([key]) => !gone.has(key))) })
    },
    alter: async (table, next) => {
      const written = known(table)
      const rows = [...written.rows.values()].map((row) => reshaped(table, next, row))
      await describe(next)
      await write({ ...written, table: next, rows: new Map(rows.map((row) => [keyOf(next, row), row])) })
    },
    drop: async (table) => {
      tables.delete(table.name)
      for (const ending of ['csv', 'jsonl', 'schema.json']) await rm(fileOf(table, ending), { force: true })
    },
    putUnfit: async (table, count) => {
      const written = known(table)
      await write({ ...written, unfit: written.unfit + count })
    },
    digest: () => digestOf(folder),
    sessions: () => openFilesIn(folder),
    stop: () => rm(root, { recursive: true, force: true }),
  }
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

function textOf(value: NonNullable<Value>): string {
  if (value instanceof Uint8Array) return `\\x${Buffer.from(value).toString('hex')}`
  return Object.is(value, -0) ? '-0' : String(value)
}

/** A row whose first column of times holds none. */
function unfitRows({ table, unfit }: Written): readonly (readonly (string | null)[])[] {
  return Array.from({ length: unfit }, (_, index) =>
    table.columns.map(({ type }) => (type === 'timestamptz' ? 'never' : type === 'long' ? String(-1 - index) : null)),
  )
}

function textRows(written: Written): readonly (readonly (string | null)[])[] {
  const rows = [...written.rows.values()].map((row) => row.map((value) => (value === null ? null : textOf(value))))
  return [...rows, ...unfitRows(written)]
}

function csvOf(written: Written): string {
  const quoted = (text: string | null) => (text === null ? '' : `"${text.replaceAll('"', '""')}"`)
  const header = written.table.columns.map(({ name }) => name)
  return [header, ...textRows(written)].map((row) => `${row.map(quoted).join(',')}\n`).join('')
}

function jsonLinesOf(written: Written): string {
  const { columns } = written.table
  return textRows(written)
    .map((row) => {
      const parts = columns.map(({ name, type }, index) => {
        const text = row[index] ?? null
        // Numbers as numbers, where JSON has them; 2^63 - 1 is written out.
        const isBare =
          text !== null && (type === 'json' || (['integer', 'long'].includes(type) && /^-?\d+$/.test(text)))
        return `${JSON.stringify(name)}:${isBare ? text : JSON.stringify(text)}`
      })
      return `{${parts.join(',')}}\n`
    })
    .join('')
}

async function digestOf(folder: string): Promise<string> {
  const hash = createHash('sha256')
  for (const name of (await readdir(folder)).sort()) hash.update(name).update(await readFile(join(folder, name)))
  return hash.digest('hex')
}

/** By the kernel's list, where there is one. */
async function openFilesIn(folder: string): Promise<number> {
  const numbers = await readdir('/proc/self/fd').catch(() => [])
  const paths = await Promise.all(numbers.map((number) => readlink(`/proc/self/fd/${number}`).catch(() => '')))
  return paths.filter((path) => path.startsWith(`${folder}/`)).length
}
