/** What readers do: requests that a seed chooses, the same in both worlds of a pair. */
import type { Random } from '../../conformance-tests/random.ts'
import { HIDDEN, SHOWN } from './worlds.ts'

export interface Operation {
  /** Of `World.readers`. */
  readonly reader: string
  readonly method: 'GET' | 'POST'
  /** `{tenant}` stands for the slug of the world's first tenant. */
  readonly path: string
  readonly body?: unknown
  readonly accept?: string
}

const ALL = [...SHOWN, ...Object.keys(HIDDEN)]
const PRODUCT = '/api/v1/products/crm.people'

/** What is asked for without any choice, at the end of each step. */
export const PLACES: readonly string[] = [
  ...['', '/deployments', '/snapshots', '/quality', '/quarantine', '/lineage', '/grants', '/manifests', '/schema'].map(
    (what) => `${PRODUCT}${what}`,
  ),
  ...['/api/v1/products', '/api/v1/connections', '/api/v1/connections/db', '/api/v1/connections/db/discover'],
  ...['/api/v1/ingestion', '/api/v1/tenants/{tenant}', '/api/v1/audit', '/api/v1/plugins', '/metrics', '/readyz'],
  ...['/latest', '/realtime', '/timeseries'].map((what) => `/api/v1/products/people${what}`),
  '/iceberg/v1/config?warehouse={tenant}',
  ...['', '/crm', '/crm/tables', '/crm/tables/people', '/raw_db/tables', '/raw_db/tables/people'].map(
    (what) => `/iceberg/v1/{tenant}/namespaces${what}`,
  ),
]

export function operationsOf(random: Random, readers: readonly string[], count: number): readonly Operation[] {
  return Array.from({ length: count }, () => operationOf(random, readers))
}

function operationOf(random: Random, readers: readonly string[]): Operation {
  const reader = random.pick(readers)
  const kind = random.pick(['query', 'query', 'query', 'query', 'read', 'read', 'place', 'plan'])
  if (kind === 'place') return { reader, method: 'GET', path: random.pick(PLACES) }
  if (kind === 'read') return { reader, method: 'GET', path: readOf(random) }
  if (kind === 'plan') {
    return { reader, method: 'POST', path: `${PRODUCT}/deploy`, body: { version: '9.9.9', dry_run: true } }
  }
  const accept = random.pick(['application/json', 'application/json', 'text/csv', 'application/x-ndjson'])
  return { reader, method: 'POST', path: '/api/v1/query', body: { sql: sqlOf(random) }, accept }
}

function readOf(random: Random): string {
  const column = random.pick(ALL)
  const value = random.pick(['1', '2', 'c1', 'Name 1', 'e1@x.test', '1000', 'x', ''])
  const path = random.pick(['latest', 'latest', 'realtime'])
  const query = random.pick([
    `id=${random.integer(0, 30)}`,
    `filter=${column}:${value}`,
    `filter=${column}:eq:${value}`,
    `${column}=${value}`,
    `sort=${column}`,
    `order_by=${column}`,
    `limit=${random.integer(1, 9)}`,
    `columns=id,${column}`,
    `fields=${column}`,
    `key=${random.integer(0, 30)}`,
    `as_of=${random.integer(1, 3)}`,
  ])
  return `/api/v1/products/people/${path}?${query.replaceAll(' ', '%20')}`
}

function sqlOf(random: Random): string {
  const table = random.pick(['crm.people', 'crm.people', 'crm.people', 'crm.people p', '"crm"."people"'])
  const column = random.pick(ALL)
  const other = random.pick(ALL)
  const where = random.chance(0.5) ? ` WHERE ${predicateOf(random)}` : ''
  const order = random.chance(0.5) ? ` ORDER BY ${random.pick(ALL)}, id` : ' ORDER BY id'
  return random.pick([
    `SELECT id, ${column}, ${other} FROM ${table}${where}${order}`,
    `SELECT * FROM ${table}${where}${order} LIMIT ${random.integer(1, 30)}`,
    `SELECT count(*), count(${column}), count(DISTINCT ${other}) FROM ${table}${where}`,
    `SELECT min(${column}) IS NULL, max(length(CAST(${other} AS VARCHAR))) FROM ${table}${where}`,
    `SELECT city, count(${column}) AS c FROM ${table}${where} GROUP BY city ORDER BY city`,
    `SELECT a.id, b.id FROM crm.people a JOIN crm.people b ON a.${column} = b.${column} ORDER BY 1, 2`,
    `SELECT a.id FROM crm.people a JOIN range(0, 30) r(x) ON r.x * 1000 = a.salary ORDER BY 1`,
    `SELECT CAST(${column} AS INTEGER) FROM ${table}${where} ORDER BY id`,
    `SELECT 1 / (length(CAST(${column} AS VARCHAR)) - ${random.integer(0, 40)}) FROM ${table} ORDER BY id`,
    `SELECT id, row_number() OVER (ORDER BY ${column}, id) FROM ${table}${order}`,
    `SELECT id FROM ${table} WHERE EXISTS (SELECT 1 FROM crm.people q WHERE q.${column} > p.${column}) ORDER BY id`,
    `SELECT ${column} FROM raw_db.people`,
    `SELECT ${column} FROM nothing.at_all`,
    `SELECT table_name, column_name, data_type FROM information_schema.columns ORDER BY 1, 2`,
    `DESCRIBE ${table}`,
    `EXPLAIN SELECT ${column} FROM ${table}${where}`,
    `SELECT error(${column}) FROM ${table}`,
    `SELECT id, repeat(CAST(${column} AS VARCHAR), 3) FROM ${table} ORDER BY id`,
  ])
}

function predicateOf(random: Random): string {
  const column = random.pick(ALL)
  const text = `CAST(${column} AS VARCHAR)`
  return random.pick([
    `${column} IS NULL`,
    `${column} IS NOT NULL AND n > 1`,
    `${text} LIKE '%${random.pick(['1', 'a', 'Name', '7777', 'x.test'])}%'`,
    `length(${text}) > ${random.integer(0, 20)}`,
    `${text} BETWEEN 'A' AND 'z'`,
    `${text} = '${random.pick(['1000', 'Name 1', 'Zoe', '1981-01-01', 'e1@x.test'])}'`,
    `salary > ${random.integer(0, 30000)}`,
    `born < DATE '1990-01-01'`,
    `${column} IN (SELECT ${column} FROM crm.people WHERE id < 5)`,
  ])
}

/** Statements of the source, which hide nothing and show nothing of what worlds differ in. */
export function changesOf(random: Random): readonly string[] {
  const id = random.integer(2, 24)
  return [
    random.pick([
      `INSERT INTO people VALUES (${random.integer(100, 900)}, 'new', 3, 'n${id}@x.test', 'New', '+1', 5, NULL, NULL) ON CONFLICT DO NOTHING`,
      `UPDATE people SET city = 'moved' WHERE id = ${id}`,
      `DELETE FROM people WHERE id = ${id}`,
      `UPDATE people SET salary = salary + 1, name = name || '.' WHERE id > 1 AND n = ${random.integer(0, 4)}`,
      'SELECT 1',
    ]),
  ]
}

/** Checks of shown columns alone, or of hidden ones as well: their results are readings of what they name. */
export function qualityOf(random: Random): string {
  return random
    .shuffled([
      '  - { name: known, not_null: [city] }\n',
      '  - { name: distinct, unique: [id] }\n',
      '  - { name: sane, range: { column: n, min: 1 }, on_error: quarantine }\n',
    ])
    .slice(0, random.integer(1, 3))
    .join('')
}
