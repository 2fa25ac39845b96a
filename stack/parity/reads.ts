/** Generated reads. What only one deployment knows, its snapshots and times, is filled in when it is asked. */
import type { Random } from '../readers/random.ts'
import { type Dialect, duckdb, quoted, trino } from '../readers/sql.ts'
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
  const times = timesOf(deployment, product)
  const [first = 0, last = 0] = [times[0], times.at(-1)]
  if (epochs === 0) return new Date(first - 60_000).toISOString()
  const from = times[epochs - 1] as number
  return new Date(epochs === times.length ? last + 1 : (from + (times[epochs] as number)) / 2).toISOString()
}

/**
 * As `timeWithin`, of all products at once: each has an epoch of each sync, one after the other, and how long that takes is
 * another on each deployment. Between two syncs all have as many.
 */
function timeBetweenSyncs(deployment: ParityDeployment, epochs: number): string {
  const all = [...deployment.epochs.keys()].map((product) => timesOf(deployment, product))
  if (epochs === 0) return new Date(Math.min(...all.map(([first = 0]) => first)) - 60_000).toISOString()
  const from = Math.max(...all.map((times) => times[epochs - 1] as number))
  const until = Math.min(...all.map((times) => times[epochs] ?? Number.POSITIVE_INFINITY))
  return new Date(until === Number.POSITIVE_INFINITY ? from + 1 : (from + until) / 2).toISOString()
}

const timesOf = (deployment: ParityDeployment, product: string): readonly number[] =>
  (deployment.epochs.get(product) ?? []).map(({ committedAt }) => Date.parse(committedAt))

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
  const make = random.pick(STATEMENTS)(random, rows)
  const epochs = random.chance(0.4) ? random.integer(4) : null
  const byTime = random.chance(0.5)
  return {
    kind: 'sql',
    product: name,
    reader: random.pick(READERS),
    path: () => '/api/v1/query',
    body(deployment) {
      const sql = make(deployment.isTrino ? trino : duckdb)
      if (epochs === null) return { sql }
      const known = deployment.epochs.get(name) ?? []
      if (byTime) return { sql, as_of: timeBetweenSyncs(deployment, epochs) }
      return { sql, as_of: known[Math.max(0, epochs - 1)]?.snapshotId }
    },
  }
}

/** Hashes have an order of their own on each deployment, so nothing is sorted or compared by them. */
const open = ({ columns }: GeneratedTable) => columns.filter(({ name }) => !HASHED.has(name))

/**
 * What both dialects have an order for: to DuckDB NaN is above every number and -0 is 0, to Trino NaN is no number at
 * all, and it has no order of documents.
 */
const ordered = (table: GeneratedTable) =>
  open(table).filter(({ type }) => !['boolean', 'json', 'float', 'double'].includes(type))

/** A document is a text to Trino. */
const shown = ({ name, type }: TableColumn): string =>
  type === 'json' ? `cast(${name} as varchar) as ${name}` : quoted(name)

/** Each makes its choices once, and is written in the dialect of whom it is asked. */
const STATEMENTS: readonly ((random: Random, rows: Rows) => (dialect: Dialect) => string)[] = [
  (random, { table }) => {
    const columns = random.sample(table.columns, 1 + random.integer(6)).filter(({ name }) => name !== KEY)
    const sql = `select ${KEY}, ${columns.map(shown).join(', ') || '1 as one'} from ${DOMAIN}.${table.name} order by ${KEY}`
    return () => sql
  },
  (random, { table, all }) => {
    const { name, type } = random.pick(ordered(table))
    const cell = random.pick(all.map((row) => row.get(name) ?? null))
    const sign = random.pick(['=', '<', '>='])
    return (dialect) => {
      const condition =
        cell === null ? `${quoted(name)} is null` : `${quoted(name)} ${sign} ${dialect.literal(cell, type)}`
      return `select ${table.columns.map(shown).join(', ')} from ${DOMAIN}.${table.name} where ${condition} order by ${KEY}`
    }
  },
  (random, { table }) => {
    const { name } = random.pick([...ordered(table), ...table.columns.filter((column) => HASHED.has(column.name))])
    const sql = `select ${quoted(name)}, count(*) as n, min(${KEY}) as first from ${DOMAIN}.${table.name} group by ${quoted(name)} order by first`
    return () => sql
  },
  (random, { table }) => {
    const sums = random
      .sample(ordered(table), 3)
      .flatMap(({ name }) => [
        `min(${quoted(name)}) as ${name}_min`,
        `max(${quoted(name)}) as ${name}_max`,
        `count(distinct ${quoted(name)}) as ${name}_n`,
      ])
    const sql = `select ${sums.join(', ')}, count(*) as n, sum(cast(i as decimal(38,0))) as total from ${DOMAIN}.${table.name}`
    return () => sql
  },
  (_, { table }) => {
    const total = `cast(sum(i) over (order by ${KEY}) as bigint)`
    const sql = `select ${KEY}, lag(${KEY}) over (order by ${KEY}) as before, i, ${total} as total from ${DOMAIN}.${table.name} order by ${KEY}`
    return () => sql
  },
  () => () =>
    `select a.k, a.mail, b.mail as other, a.s from ${DOMAIN}.facts a join ${DOMAIN}.dated b on a.k = b.k order by a.k`,
  (_, { table }) =>
    () =>
      `with t as (select ${KEY}, i from ${DOMAIN}.${table.name} where i is not null) select count(*) as n, max(t.${KEY}) as last from t`,
  (_, { table }) =>
    () =>
      `select nothing from ${DOMAIN}.${table.name}`,
  (_, { table }) =>
    () =>
      `select ${KEY} from ${DOMAIN}.${table.name} join ${DOMAIN}.nowhere using (${KEY})`,
  (_, { table }) =>
    () =>
      `select count(*) as n, count(i) as m from ${DOMAIN}."${table.name}@v1.0.0"`,
]
