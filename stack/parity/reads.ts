/** Generated reads. What only one deployment knows, its snapshots and times, is filled in when it is asked. */
import type { Random } from '../readers/random.ts'
import { duckdb } from '../readers/sql.ts'
import { DOMAIN, type ParityDeployment, READERS, type Reader } from './deployments.ts'
import { type GeneratedTable, HASHED, KEY, type Rows, requestText, type TableColumn } from './tables.ts'

export interface Read {
  readonly kind: 'lookup' | 'history' | 'timeseries' | 'realtime' | 'sql'
  readonly product: string
  readonly reader: Reader
  path(deployment: ParityDeployment): string
  /** Of a statement that is posted. */
  body?(deployment: ParityDeployment): Readonly<Record<string, unknown>>
}

export interface ReadCounts {
  readonly lookups: number
  readonly histories: number
  readonly timeseries: number
  readonly realtime: number
  readonly statements: number
}

export function generateReads(random: Random, tables: readonly Rows[], counts: ReadCounts): readonly Read[] {
  const named = (name: string) => tables.find(({ table }) => table.name === name) as Rows
  const many = (count: number, make: () => Read) => Array.from({ length: count }, make)
  const looked = ['facts', 'dated', 'former'].map(named)
  return [
    ...many(counts.lookups, () => lookup(random, random.pick(looked))),
    ...many(counts.histories, () => history(random, named('dated'))),
    ...many(counts.timeseries, () => timeseries(random, named('series'))),
    ...many(counts.realtime, () => realtime(random, named(random.pick(['facts', 'facts', 'dated'])))),
    ...many(counts.statements, () => statement(random, random.pick(tables))),
  ]
}

type Parameters = readonly (readonly [string, string])[]

const OPERATORS = ['', '.eq', '.ne', '.lt', '.le', '.gt', '.ge', '.in'] as const

function pathOf(product: string, endpoint: string, parameters: Parameters): string {
  const query = new URLSearchParams(parameters.map(([name, value]): [string, string] => [name, value]))
  return `/api/v1/products/${product}/${endpoint}?${query}`
}

/** Now and then a column that cannot be filtered by, which must be refused alike. */
function filter(random: Random, { table, all }: Rows): readonly [string, string] {
  const name = random.chance(0.05) ? random.pick(table.columns).name : random.pick(table.indexed)
  const { type } = table.columns.find((column) => column.name === name) as TableColumn
  const operator = random.pick(OPERATORS)
  const cells = all.map((row) => row.get(name) ?? null).filter((cell) => cell !== null)
  const asked = random.sample(cells, operator === '.in' ? 3 : 1).map((cell) => requestText(cell, type))
  return ['filter', `${name}${operator}:${asked.join(',') || '7'}`]
}

function lookup(random: Random, rows: Rows): Read {
  const { name } = rows.table
  const parameters = [...filters(random, rows), ...shape(random, rows.table)]
  return { kind: 'lookup', product: name, reader: random.pick(READERS), path: () => pathOf(name, 'latest', parameters) }
}

const filters = (random: Random, rows: Rows): Parameters =>
  Array.from({ length: random.pick([0, 1, 1, 1, 2]) }, () => filter(random, rows))

/** Which columns, in which order, how many a page. */
function shape(random: Random, table: GeneratedTable): Parameters {
  const names = table.columns.map((column) => column.name)
  const parameters: [string, string][] = [['limit', String(random.pick([3, 7, 50, 1000]))]]
  if (random.chance(0.4)) parameters.push(['columns', random.sample(names, 1 + random.integer(5)).join(',')])
  if (random.chance(0.5)) {
    const asked = random.sample(random.chance(0.1) ? names : table.indexed, 1 + random.integer(2))
    const order = asked.map((column) => (random.chance(0.4) ? `${column}:desc` : column))
    parameters.push(['order', [...order, ...(asked.includes(KEY) ? [] : [KEY])].join(',')])
  }
  return parameters
}

/** A time of the deployment's own between two of the product's epochs, before all, or after all. */
function timeWithin(deployment: ParityDeployment, product: string, epochs: number): string {
  const times = (deployment.epochs.get(product) ?? []).map(({ committedAt }) => Date.parse(committedAt))
  const [first = 0, last = 0] = [times[0], times.at(-1)]
  if (epochs === 0) return new Date(first - 60_000).toISOString()
  const from = times[epochs - 1] as number
  return new Date(epochs === times.length ? last + 1 : (from + (times[epochs] as number)) / 2).toISOString()
}

function history(random: Random, rows: Rows): Read {
  const { name } = rows.table
  const parameters = [...filters(random, rows), ...shape(random, rows.table)]
  const epochs = random.integer(4)
  const isAll = random.chance(0.5)
  return {
    kind: 'history',
    product: name,
    reader: random.pick(READERS),
    path(deployment) {
      const past = isAll ? (['history', 'true'] as const) : (['at', timeWithin(deployment, name, epochs)] as const)
      return pathOf(name, 'latest', [...parameters, past])
    },
  }
}

function timeseries(random: Random, rows: Rows): Read {
  const { name } = rows.table
  const instants = rows.all.map((row) => row.get('at') as string)
  const bound = () => (random.chance(0.5) ? random.pick(instants) : random.pick(instants).slice(0, 10))
  const parameters: [string, string][] = [['limit', String(random.pick([5, 40, 1000]))]]
  if (random.chance(0.7)) parameters.push(['from', bound()])
  if (random.chance(0.7)) parameters.push(['to', bound()])
  if (random.chance(0.4)) parameters.push(['order', random.pick(['asc', 'desc'])])
  const interval = random.pick([null, null, '1 day', '1 week', '1 hour'])
  if (interval !== null) parameters.push(['interval', interval])
  else if (random.chance(0.3)) parameters.push(['columns', 'k,at,mail,n9'])
  const reader = random.pick(READERS)
  return { kind: 'timeseries', product: name, reader, path: () => pathOf(name, 'timeseries', parameters) }
}

function realtime(random: Random, { table, all }: Rows): Read {
  const row = random.pick(all)
  const isThere = random.chance(0.9)
  const parts = table.keyTemplate.map((part) => {
    const column = table.columns.find(({ name }) => name === part)
    if (column === undefined) return part
    return isThere ? (row.get(part) ?? '') : '999999'
  })
  const parameters: [string, string][] = [['key', parts.join('')]]
  if (random.chance(0.3)) parameters.push(['columns', random.sample([KEY, 's', 'mail', 'n38'], 2).join(',')])
  const reader = random.pick(READERS)
  const { name } = table
  return { kind: 'realtime', product: name, reader, path: () => pathOf(name, 'realtime', parameters) }
}

function statement(random: Random, rows: Rows): Read {
  const { name } = rows.table
  const sql = random.pick(STATEMENTS)(random, rows)
  const epochs = random.chance(0.4) ? random.integer(4) : null
  const byTime = random.chance(0.5)
  return {
    kind: 'sql',
    product: name,
    reader: random.pick(READERS),
    path: () => '/api/v1/query',
    body(deployment) {
      if (epochs === null) return { sql }
      const known = deployment.epochs.get(name) ?? []
      if (byTime) return { sql, as_of: timeWithin(deployment, name, epochs) }
      return { sql, as_of: known[Math.max(0, epochs - 1)]?.snapshotId }
    },
  }
}

/** Hashes have an order of their own on each deployment, so nothing is sorted or compared by them. */
const open = ({ columns }: GeneratedTable) => columns.filter(({ name }) => !HASHED.has(name))

const STATEMENTS: readonly ((random: Random, rows: Rows) => string)[] = [
  (random, { table }) => {
    const names = random.sample(
      table.columns.map(({ name }) => name),
      1 + random.integer(6),
    )
    return `select ${KEY}, ${names.filter((name) => name !== KEY).join(', ') || '1 as one'} from ${DOMAIN}.${table.name} order by ${KEY}`
  },
  (random, { table, all }) => {
    const { name, type } = random.pick(open(table).filter((column) => column.type !== 'json'))
    const cell = random.pick(all.map((row) => row.get(name) ?? null))
    const sign = random.pick(['=', '<', '>='])
    const condition =
      cell === null || cell === 'nan' ? `${name} is null` : `${name} ${sign} ${duckdb.literal(cell, type)}`
    return `select * from ${DOMAIN}.${table.name} where ${condition} order by ${KEY}`
  },
  (random, { table }) => {
    const { name } = random.pick(table.columns)
    return `select ${name}, count(*) as n, min(${KEY}) as first from ${DOMAIN}.${table.name} group by ${name} order by first`
  },
  (random, { table }) => {
    const columns = random.sample(
      open(table).filter(({ type }) => !['boolean', 'json'].includes(type)),
      3,
    )
    const sums = columns.flatMap(({ name }) => [`min(${name})`, `max(${name})`, `count(distinct ${name})`])
    return `select ${sums.join(', ')}, count(*), sum(i::decimal(38,0)) from ${DOMAIN}.${table.name}`
  },
  (_, { table }) =>
    `select ${KEY}, lag(${KEY}) over (order by ${KEY}) as before, i, sum(i) over (order by ${KEY}) from ${DOMAIN}.${table.name} order by ${KEY}`,
  () => `select a.k, a.mail, b.mail, a.s from ${DOMAIN}.facts a join ${DOMAIN}.dated b using (k) order by a.k`,
  (_, { table }) => `select nothing from ${DOMAIN}.${table.name}`,
  (_, { table }) => `select count(*), count(i) from ${DOMAIN}."${table.name}@v1.0.0"`,
]
