/** What readers do: requests that a seed chooses, the same in both worlds of a pair. */
import type { Random } from '../../conformance-tests/random.ts'
import { derivedFiles } from './derived.ts'
import { type Difference, HIDDEN, hasPseudonyms, SHOWN } from './worlds.ts'

export interface Operation {
  /** Of `World.readers`. */
  readonly reader: string
  readonly method: string
  /** `{tenant}` stands for the slug of the world's first tenant. */
  readonly path: string
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: unknown
  /** A body that is no JSON of ours. */
  readonly text?: string
  /** Manifests, as a form. */
  readonly files?: Readonly<Record<string, string>>
  /**
   * pages: with the place that an earlier answer gave, if there was one, and on to the next pages; unchanged: only if it is
   * not what an earlier answer was; newest: what the list has at its head by itself; draft: with the digest of the draft;
   * changes: as a stream, until an epoch is whole.
   */
  readonly follow?: 'pages' | 'unchanged' | 'newest' | 'draft' | 'changes'
}

const PEOPLE = '/api/v1/products/crm.people'
/** A product of the developer's own, of which only plans are made. */
export const PLANNED = '/api/v1/products/crm.planned'

const PARTS = ['', '/deployments', '/snapshots', '/quality', '/grants', '/manifests', '/manifests/1.0.0']

/** What is asked for without any choice, at the end of each step. */
export const PLACES: readonly string[] = [
  ...PARTS.map((what) => `${PEOPLE}${what}`),
  ...['', '/quality', '/snapshots'].map((what) => `/api/v1/products/crm.derived${what}`),
  ...['', '/db', '/db/quarantine', '/db/quarantine?table=public.people', '/db/grants'].map(
    (what) => `/api/v1/connections${what}`,
  ),
  ...[
    'products',
    'ingestion',
    'ingestion?state=failed',
    'tenants/{tenant}',
    'audit',
    'plugins',
    'application-keys',
    'service-passwords',
  ].map((what) => `/api/v1/${what}`),
  ...['/metrics', '/readyz'],
  ...['people', 'derived'].map((name) => `/api/v1/products/crm.${name}/lineage?direction=both`),
  `${PEOPLE}/lineage/impact?column=salary`,
  '/api/v1/connections/db/lineage/impact?table=public.people&column=salary',
  ...['people/latest', 'people/realtime?key=1', 'people/timeseries', 'derived/latest'].map(
    (what) => `/api/v1/products/${what}`,
  ),
  '/iceberg/v1/config?warehouse={tenant}',
  ...['', '/crm', '/crm/tables', '/crm/tables/people', '/crm/tables/people__quarantine', '/crm/tables/derived'].map(
    (what) => `/iceberg/v1/{tenant}/namespaces${what}`,
  ),
  ...['/raw_db/tables', '/raw_db/tables/people'].map((what) => `/iceberg/v1/{tenant}/namespaces${what}`),
]

const ALL = [...SHOWN, ...Object.keys(HIDDEN)]

/** Columns that a statement may use. A pseudonym is another one in each tenant: it is compared where equality shows alone. */
interface Columns {
  readonly all: readonly string[]
  /** Whose text and order are compared. */
  readonly ordered: readonly string[]
}

export function operationsOf(
  random: Random,
  readers: readonly string[],
  count: number,
  difference: Difference,
): readonly Operation[] {
  const columns = { all: ALL, ordered: hasPseudonyms(difference) ? ALL.filter((name) => name !== 'email') : ALL }
  return Array.from({ length: count }, () => operationOf(random, readers, columns))
}

const KINDS = {
  query: 5,
  read: 6,
  keys: 2,
  training: 2,
  tool: 2,
  changes: 1,
  impact: 1,
  pages: 1,
  unchanged: 1,
  place: 3,
  one: 1,
  plan: 1,
  right: 1,
  malformed: 2,
} as const

const WEIGHED = Object.entries(KINDS).flatMap(([kind, weight]) => Array<string>(weight).fill(kind))

function operationOf(random: Random, readers: readonly string[], columns: Columns): Operation {
  const reader = random.pick(readers)
  const get = (path: string): Operation => ({ reader, method: 'GET', path, headers: packed(random) })
  switch (random.pick(WEIGHED)) {
    case 'query':
      return { reader, method: 'POST', path: '/api/v1/query', ...queryOf(random, columns) }
    case 'read':
      return get(readOf(random, columns))
    case 'keys':
      return { reader, method: 'POST', path: '/api/v1/read', headers: packed(random), body: keysOf(random, columns) }
    case 'training':
      return { reader, method: 'POST', path: '/api/v1/training-sets', ...trainingOf(random, columns) }
    case 'tool':
      return { reader, method: 'POST', path: '/mcp', ...toolOf(random, columns) }
    case 'changes':
      return { reader, method: 'GET', path: changesFrom(random), follow: 'changes' }
    case 'impact':
      return get(impactOf(random, columns))
    case 'pages':
      return { ...get(random.pick(LISTS)), follow: 'pages' }
    case 'unchanged':
      return { ...get(random.pick(UNCHANGED)), follow: 'unchanged' }
    case 'one':
      return { ...get(random.pick(['/api/v1/ingestion', '/api/v1/ingestion?state=succeeded'])), follow: 'newest' }
    case 'plan':
      return planOf(random, reader)
    case 'right':
      return { reader, method: 'POST', ...rightOf(random) }
    case 'malformed':
      return { reader, ...malformedOf(random) }
    default:
      return get(random.chance(0.05) ? '/api/v1/connections/db/discover' : random.pick(PLACES))
  }
}

const packed = (random: Random): Readonly<Record<string, string>> =>
  random.chance(0.3) ? { 'accept-encoding': 'gzip' } : {}

function queryOf(random: Random, columns: Columns): Pick<Operation, 'headers' | 'body'> {
  const accept = random.pick([
    ...['application/json', 'application/json', 'application/json'],
    ...['text/csv', 'application/x-ndjson', 'application/vnd.apache.parquet'],
  ])
  const wish = random.pick([
    ...[{}, {}, {}, {}, {}, { limit: random.integer(1, 5) }],
    { as_of: random.pick(['v1.0.0', 'v2.0.0', 'v0.1.0', '2020-01-01T00:00:00Z', '12345']) },
  ])
  return { headers: { accept, ...packed(random) }, body: { sql: sqlOf(random, columns), ...wish } }
}

const LISTS = [
  ...['people/latest?limit=5', 'people/timeseries?limit=5', 'people/latest?limit=4&order=id:desc'].map(
    (what) => `/api/v1/products/${what}`,
  ),
  ...['ingestion?limit=2', 'audit?limit=3', 'products?limit=1', 'connections/db/quarantine?limit=1'].map(
    (what) => `/api/v1/${what}`,
  ),
  ...['quality', 'snapshots', 'deployments', 'grants'].map((what) => `${PEOPLE}/${what}?limit=1`),
]

const UNCHANGED = [
  ...['latest', 'latest?filter=id:1', 'realtime?key=1', 'realtime?key=5', 'timeseries', 'latest?columns=id,n'].map(
    (what) => `/api/v1/products/people/${what}`,
  ),
  ...[PEOPLE, '/iceberg/v1/{tenant}/namespaces/crm/tables/people'],
]

function readOf(random: Random, { all, ordered }: Columns): string {
  const column = random.pick(all)
  const value = random.pick(['1', '2', 'c1', 'Name 1', 'e1@x.test', '1000', 'x', '2026-01-01', ''])
  const operator = random.pick(['', '.lt', '.ge', '.ne', '.in'])
  const common = [
    `filter=${random.pick(ordered)}${operator}:${value}`,
    `filter=${random.pick(SHOWN)}${operator}:${value}`,
    `filter=id:${random.integer(0, 30)}`,
    `columns=id,${column}`,
    `order=${random.pick(ordered)}`,
    `limit=${random.integer(1, 9)}`,
  ]
  const [path, query] = random.pick([
    ['latest', random.pick([...common, `at=2026-01-01`, 'history=true'])],
    ['latest', random.pick(common)],
    ['realtime', `key=${random.integer(0, 30)}${random.pick(['', '', `&columns=${column}`])}`],
    ['timeseries', random.pick([...common, ...timesOf(random, column, value)])],
  ] as const)
  return `/api/v1/products/people/${path}?${query.replaceAll(' ', '%20')}`
}

function keysOf(random: Random, { all }: Columns) {
  const count = random.integer(1, 3)
  const items = Array.from({ length: count }, () => {
    const keys = Array.from({ length: random.integer(1, 5) }, () =>
      random.pick([random.integer(0, 30), String(random.integer(0, 30)), { id: random.integer(0, 30) }, 'x']),
    )
    const columns = random.chance(0.3) ? { columns: ['id', random.pick(all)] } : {}
    const product = random.pick(['crm.people', 'people', 'crm.derived', 'crm.nothing'])
    return { product, store: random.pick(['lookup', 'lookup', 'realtime']), keys, ...columns }
  })
  return { items }
}

function trainingOf(random: Random, { all }: Columns): Pick<Operation, 'headers' | 'body'> {
  const accept = random.pick(['application/json', 'application/json', 'text/csv', 'application/vnd.apache.parquet'])
  const feature = {
    product: random.pick(['crm.people', 'crm.people', 'people', 'crm.derived', 'crm.nothing']),
    key: random.pick(['id', 'id', 'id', { city: 'town' }, { [random.pick(all)]: 'id' }]),
    time_column: random.pick(['at', 'at', 'at', random.pick(all)]),
    columns: [random.pick(all), random.pick(all)],
    ...(random.chance(0.3) ? { max_age: `${random.integer(1, 9)}d` } : {}),
  }
  const labels = Array.from({ length: random.integer(1, 5) }, () => ({
    id: random.integer(0, 30),
    town: `c${random.integer(0, 3)}`,
    when: `2026-01-0${random.integer(1, 9)}T12:00:00Z`,
  }))
  const own = random.pick([
    ...[
      { labels, time_column: 'when' },
      { labels, time_column: 'when' },
    ],
    { labels: { product: 'crm.people' }, time_column: random.pick(['at', 'at', random.pick(all)]) },
  ])
  const past = random.chance(0.3) ? { known_by: random.pick(['2999-01-01T00:00:00Z', '2020-01-01T00:00:00Z']) } : {}
  return { headers: { accept, ...packed(random) }, body: { ...own, features: [feature], ...past } }
}

/** Agents are another client of the same reader. */
function toolOf(random: Random, columns: Columns): Pick<Operation, 'headers' | 'body'> {
  const product = random.pick(['crm.people', 'crm.people', 'crm.derived', 'crm.nothing'])
  const wanted = { columns: ['id', random.pick(columns.all)], limit: random.integer(1, 9) }
  const [name, args] = random.pick<readonly [string, unknown]>([
    ['search_products', random.pick([{}, { text: random.pick(['people', 'salary', 'Zoe', '7777']) }])],
    ['describe_product', { product }],
    ['sample_rows', { product, ...random.pick([{}, wanted]) }],
    ['query', { sql: sqlOf(random, columns) }],
    ['query', { sql: sqlOf(random, columns) }],
    ['make_training_set', trainingOf(random, columns).body],
    ['explain_failure', random.pick([{}, { product }])],
    ['nothing', {}],
  ])
  const called = { method: 'tools/call', params: { name, arguments: args } }
  const asked = random.pick([called, called, called, called, { method: 'tools/list' }])
  return {
    headers: { accept: 'application/json, text/event-stream' },
    body: { jsonrpc: '2.0', id: 1, ...asked },
  }
}

function changesFrom(random: Random): string {
  const product = random.pick(['people', 'people', 'derived', 'nothing'])
  return `/api/v1/products/${product}/changes?from=${random.pick(['start', 'start', 'now', 'x'])}`
}

function impactOf(random: Random, { all }: Columns): string {
  const column = random.pick([...all, 'shown', 'nothing'])
  return random.pick([
    `/api/v1/products/crm.${random.pick(['people', 'derived'])}/lineage/impact?column=${column}`,
    `/api/v1/connections/db/lineage/impact?table=public.${random.pick(['people', 'nothing'])}&column=${column}`,
  ])
}

const timesOf = (random: Random, column: string, value: string): readonly string[] => [
  `from=2026-01-01&to=2026-01-0${random.integer(1, 9)}`,
  `order=desc&limit=${random.integer(1, 9)}`,
  'interval=1%20day',
  `interval=1%20day&filter=${random.pick(SHOWN)}:${value}`,
  `interval=1%20day&columns=${column}`,
]

function sqlOf(random: Random, columns: Columns): string {
  const { all, ordered } = columns
  const table = random.pick(['crm.people', 'crm.people', '"crm"."people"', 'crm.people__quarantine'])
  const [column, other, by] = [random.pick(all), random.pick(all), random.pick(ordered)]
  const where = random.chance(0.5) ? ` WHERE ${predicateOf(random, columns)}` : ''
  const order = random.chance(0.5) ? ` ORDER BY ${random.pick(ordered)}, id` : ' ORDER BY id'
  return random.pick([
    `SELECT id, ${column}, ${other} FROM ${table}${where}${order}`,
    `SELECT * FROM ${table}${where}${order} LIMIT ${random.integer(1, 30)}`,
    `SELECT count(*), count(${column}), count(DISTINCT ${other}) FROM ${table}${where}`,
    `SELECT min(${column}) IS NULL, max(length(CAST(${other} AS VARCHAR))) FROM ${table}${where}`,
    `SELECT city, count(${column}) AS c FROM ${table}${where} GROUP BY city ORDER BY city`,
    `SELECT count(*) AS c FROM ${table}${where} GROUP BY ${column} ORDER BY c`,
    `SELECT a.id, b.id FROM crm.people a JOIN crm.people b ON a.${column} = b.${column} ORDER BY 1, 2`,
    `SELECT a.id, d.* FROM crm.people a JOIN crm.derived d ON a.id = d.id ORDER BY 1`,
    'SELECT * FROM crm.derived ORDER BY ALL',
    'SELECT count(*), count(shown), count(DISTINCT shown) FROM crm.derived',
    'SELECT a.id FROM crm.people a JOIN range(0, 30) r(x) ON r.x * 1000 = a.salary ORDER BY 1',
    `SELECT CAST(${column} AS INTEGER) FROM ${table}${where} ORDER BY id`,
    `SELECT 1 / (length(CAST(${column} AS VARCHAR)) - ${random.integer(0, 40)}) FROM ${table} ORDER BY id`,
    `SELECT id, row_number() OVER (ORDER BY ${by}, id) FROM ${table}${order}`,
    `SELECT id FROM crm.people p WHERE EXISTS (SELECT 1 FROM crm.people q WHERE q.${by} > p.${by}) ORDER BY id`,
    `SELECT ${column} FROM raw_db.people`,
    `SELECT ${column} FROM nothing.at_all`,
    // Worlds are told apart by the catalog's name, of which parquet has a hash.
    `SELECT * EXCLUDE (table_catalog) FROM information_schema.${random.pick(['columns', 'tables'])} ORDER BY ALL`,
    'SELECT schema_name FROM information_schema.schemata ORDER BY ALL',
    ...['SHOW TABLES', `DESCRIBE ${table}`, `SUMMARIZE ${table}`],
    `EXPLAIN SELECT ${column} FROM ${table}${where}`,
    `EXPLAIN ANALYZE SELECT ${column} FROM ${table}${where}`,
    `SELECT error(${column}) FROM ${table}`,
    `SELECT id, repeat(CAST(${column} AS VARCHAR), 3) FROM ${table} ORDER BY id`,
  ])
}

function predicateOf(random: Random, { all, ordered }: Columns): string {
  const column = random.pick(all)
  const text = `CAST(${random.pick(ordered)} AS VARCHAR)`
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

/** Of the product as its owner drafted it, or of what the reader makes of its source and of itself. */
function planOf(random: Random, reader: string): Operation {
  if (random.chance(0.5)) return { reader, method: 'POST', path: PEOPLE, follow: 'draft' }
  return { reader, method: 'POST', path: PLANNED, files: derivedFiles(random, 'planned'), follow: 'draft' }
}

/** What somebody would ask for to see more. Nobody gets it. */
function rightOf(random: Random): Pick<Operation, 'path' | 'body'> {
  const user = random.pick(['vito', 'dan', 'dora'])
  const classes = [random.pick(['pii.salary', 'pii.name', 'pii.identifier', 'nothing', '*'])]
  return random.pick([
    { path: `${PEOPLE}/grants`, body: { subject: { user }, may: 'unmask', classes } },
    { path: '/api/v1/connections/db/grants', body: { subject: { user }, table: 'public.people' } },
    { path: '/api/v1/connections/db/test' },
    { path: '/api/v1/keys/rotate-master', body: {} },
    { path: '/api/v1/lake/check', body: { table: random.pick(['crm.people', 'raw_db.people', 'crm.nothing']) } },
  ])
}

function malformedOf(random: Random): Omit<Operation, 'reader'> {
  const column = random.pick(ALL)
  const json = { 'content-type': 'application/json' }
  const query = { method: 'POST', path: '/api/v1/query', headers: json }
  const texts = [
    ...[
      '{"sql":',
      '{"sql":1}',
      '{}',
      '[]',
      '"SELECT 1"',
      '',
      '\u0000',
      '{"sql":"SELECT"}',
      '{"sql":"SELECT 1; SELECT 2"}',
    ],
    `{"sql":"DELETE FROM crm.people WHERE ${column} IS NULL"}`,
    `{"sql":"SELECT ${column} FROM crm.people WHERE"}`,
    `{"sql":"SELECT ${column} FROM read_csv('/etc/passwd')"}`,
    `{"sql":"SELECT ${column} || ? FROM crm.people","params":[1,2]}`,
    `{"sql":"SELECT ${column} FROM crm.people","as_of":"${column}"}`,
    `{"sql":"SELECT ${column} FROM crm.people","limit":0}`,
    `{"sql":"${'('.repeat(2000)}"}`,
  ]
  const reads = [
    ...['cursor=abc', 'limit=0', 'limit=x', 'filter=', 'filter=x', `filter=${column}.like:1`, 'columns=nothing'],
    ...['namespace=nothing', `${column}=1`, 'order=nothing', `order=${column}:up`, 'at=yesterday', 'from=x', 'to=9'],
    ...['interval=1%20hour', 'key=', 'key=%00', 'key=%ff', `cursor=${'A'.repeat(120)}`],
  ]
  const endpoint = random.pick(['latest', 'realtime', 'timeseries'])
  return random.pick<Omit<Operation, 'reader'>>([
    { ...query, text: random.pick(texts) },
    { ...query, text: random.pick(texts) },
    { ...query, headers: { 'content-type': 'text/plain' }, text: 'SELECT 1' },
    { ...query, headers: { ...json, accept: 'image/png' }, text: '{"sql":"SELECT 1"}' },
    { method: 'GET', path: `/api/v1/products/people/${endpoint}?${random.pick(reads)}` },
    { method: 'GET', path: `/api/v1/products/people/${endpoint}?${random.pick(reads)}` },
    { method: 'GET', path: `${PEOPLE}/${random.pick(['lineage', 'schema', 'rows', '%2e%2e', 'manifests/9.9.9'])}` },
    { method: random.pick(['PUT', 'PATCH', 'DELETE', 'HEAD']), path: '/api/v1/query' },
    { method: 'HEAD', path: '/api/v1/products/people/latest' },
    { method: 'GET', path: PEOPLE, headers: { 'x-tenant-id': random.pick(['nobody', '{tenant}']) } },
    { method: 'GET', path: '/api/v1/ingestion/run_000000000000000000000000' },
    { method: 'GET', path: `/iceberg/v1/{tenant}/namespaces/${random.pick(['x', 'crm%1Fx', '%1F'])}/tables/people` },
    { method: 'POST', path: '/iceberg/v1/{tenant}/namespaces/crm/tables/people', headers: json, text: '{}' },
  ])
}

/** Statements of the source, which hide nothing and show nothing of what worlds differ in. */
export function changesOf(random: Random): readonly string[] {
  const id = random.integer(6, 24)
  return [
    random.pick([
      `INSERT INTO people VALUES (${random.integer(100, 900)}, 'new', 3, 'n${id}@x.test', 'New', '+1', 5, NULL, NULL) ON CONFLICT DO NOTHING`,
      `UPDATE people SET city = 'moved' WHERE id = ${id}`,
      `DELETE FROM people WHERE id = ${id}`,
      `UPDATE people SET salary = salary + 1, name = name || '.' WHERE id > 5 AND id <= 24 AND n = ${random.integer(0, 4)}`,
      'SELECT 1',
    ]),
  ]
}

/**
 * Checks of shown columns, and of hidden ones that block nothing: their results are readings of what they name. Rows are put
 * aside by shown columns alone, for a deployment refuses another one.
 */
export function qualityOf(random: Random): string {
  return random
    .shuffled([
      '  - { name: paid, range: { column: salary, min: 500, max: 100000 }, severity: warn }\n',
      '  - { name: called, not_null: [name], severity: warn }\n',
      '  - { name: noted, unique: [note], severity: warn }\n',
      '  - { name: born_late, sql: "SELECT * FROM {{this}} WHERE born > DATE \'2000-01-01\'", severity: warn }\n',
      '  - { name: reached, sql: "SELECT count(*) AS violations FROM {{this}} WHERE phone LIKE \'%7777\' AND salary > 5", severity: warn }\n',
      '  - { name: odd, sql: "SELECT * FROM {{this}} WHERE n > 3", severity: warn }\n',
      '  - { name: known, not_null: [city] }\n',
      '  - { name: distinct, unique: [id] }\n',
      '  - { name: sane, range: { column: n, min: 1 }, on_error: quarantine }\n',
    ])
    .slice(0, random.integer(2, 7))
    .join('')
}
