/**
 * Who is shown what of a product and of its source: every reader at every door that reads, for every level of a product.
 * What is expected is written by hand, from the rules that readers are told, and not from what decides it.
 */
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import pg from 'pg'
import { freePort } from '../runtime/src/database/free-port.ts'
import { until } from '../test/until.ts'
import { Client, type Json, manifests, ok } from './client.ts'
import { Receiver } from './webhook-receiver.ts'
import { connect, deployVersion, openWorld, syncNow, type World } from './world.ts'

const LEVELS = ['public', 'internal', 'confidential', 'restricted'] as const
type Level = (typeof LEVELS)[number]

/** In every row, and in nothing else. */
const ROW = 'Readerville'
/** In the classified column of every row, where it is clear. */
const PLAIN = '@readers.test'

type Sees = 'nothing' | 'masked' | 'clear'
const O = 'nothing'
const M = 'masked'
const C = 'clear'

/** Rows of products of each level, and whether each is told of what is made of them: scores, snapshots, events. */
interface Rule {
  readonly rows: readonly [Sees, Sees, Sees, Sees]
  readonly told: readonly [boolean, boolean, boolean, boolean]
  /** Raw tables of the connection. */
  readonly raw: boolean
}

const EVERY = [true, true, true, true] as const
const NONE = [false, false, false, false] as const
const MEMBER = { rows: [M, M, O, O], told: [true, true, false, false], raw: false } as const

/**
 * `narrowed` shows a token that asks for less, `teammate` is granted reading by the team, `granted` and `cleared` by name,
 * `colleague` is a developer with nothing. `author` has deployed the products by a grant on the raw table, `owner` has made
 * the connection. Keys are of a developer who is cleared for all of them: one names the internal product, one none, one all
 * of them and the class.
 */
const READERS = {
  anonymous: { rows: [O, O, O, O], told: NONE, raw: false },
  nobody: { rows: [M, O, O, O], told: NONE, raw: false },
  narrowed: { rows: [M, O, O, O], told: [true, false, false, false], raw: false },
  viewer: MEMBER,
  teammate: { rows: [M, M, M, O], told: [true, true, true, false], raw: false },
  granted: { rows: [M, M, M, M], told: EVERY, raw: false },
  cleared: { rows: [C, C, C, C], told: EVERY, raw: false },
  colleague: MEMBER,
  author: { rows: [M, M, O, O], told: EVERY, raw: true },
  owner: { rows: [M, M, O, O], told: EVERY, raw: true },
  admin: { rows: [C, C, C, C], told: EVERY, raw: true },
  foreigner: { rows: [O, O, O, O], told: NONE, raw: false },
  keyOfOne: { rows: [O, M, O, O], told: [false, true, false, false], raw: false },
  keyOfAny: { rows: [M, M, M, O], told: [true, true, true, false], raw: false },
  keyOfAll: { rows: [C, C, C, C], told: EVERY, raw: false },
} as const satisfies Readonly<Record<string, Rule>>

type Reader = keyof typeof READERS

const NAMES = Object.keys(READERS) as readonly Reader[]
const KEYS: readonly Reader[] = ['keyOfOne', 'keyOfAny', 'keyOfAll']
/** In no group of the tenant. */
const OUTSIDE: readonly Reader[] = ['anonymous', 'nobody', 'foreigner']
const DEVELOPERS: readonly Reader[] = ['colleague', 'author', 'owner', 'admin']
/** What a check saw of the classified column: who may read the source may see that, too. */
const SOURCE_READERS: readonly Reader[] = ['author', 'owner']

interface Heard {
  readonly status: number
  readonly text: string
  /** Where a door says by something else than values what it shows. */
  readonly sees?: Sees
}

const clients = new Map<Reader, Client>()
/** Who has made the keys; and the ids of keys, those that developers make for webhooks of theirs, too. */
let maker: Client
const keyIds = new Map<Reader, string>()
let world: World
let headers: Record<string, string>
const snapshots = new Map<Level, string>()
const ids = new Map<Level, string>()
/** The run that has made all products. */
let run: string
const ALONE = 'confidential'
const NEW = { namespace: 'crm', archetype: 'source_aligned', description: '' }

/** Of the wire; null where the runtime is another's, which may have none. */
let wirePort: number | null = null

before(async () => {
  if (process.env['SLUICE_ACCEPTANCE_URL'] === undefined) {
    wirePort = await freePort()
    process.env['SLUICE_WIRE__PORT'] = String(wirePort)
  }
  world = await openWorld()
  const [own, other] = world.tenants
  headers = { 'x-tenant-id': own }
  await world.source.query(`DROP TABLE IF EXISTS readers_people;
    CREATE TABLE readers_people (id integer PRIMARY KEY, email text, city text, seen_at timestamptz, born date);
    INSERT INTO readers_people SELECT i, 'm' || i || '${PLAIN}', '${ROW}', '2026-01-01T00:00Z', '2000-01-01'
      FROM generate_series(-1, 7) i WHERE i <> 0;
    INSERT INTO readers_people VALUES (4711, 'm${PLAIN}', '${ROW}', '2026-01-01T00:00Z', 'infinity')`)
  await world.createTenant(own)
  await world.createTenant(other)
  await gather(own, other)
  const owner = as('owner')
  await connect(world, owner)
  await ok(owner.post('/api/v1/connections/db/grants', { subject: { user: 'author' } }))
  for (const level of LEVELS) await deploy(level)
  await makeKeys()
  run = (await syncNow(owner)).id
  for (const level of LEVELS) {
    const { data } = await ok(owner.get(`/api/v1/products/${productOf(level)}/snapshots`))
    snapshots.set(level, data[0].snapshots?.clear ?? data[0].snapshot_id)
  }
})

after(() => world?.close())

const as = (reader: Reader): Client => clients.get(reader) as Client
const productOf = (level: Level): string => `a_${level}`
const at = (level: Level): number => LEVELS.indexOf(level)

async function gather(own: string, other: string): Promise<void> {
  const { url } = world.deployment
  const token = async (...flags: string[]) => new Client(url, await world.deployment.token(['--tenant', own, ...flags]))
  clients.set('anonymous', new Client(url, null))
  clients.set('admin', world.admin)
  clients.set('nobody', await world.as(own, null, 'nobody'))
  clients.set('narrowed', await token('--group', 'svc-viewers', '--user', 'narrowed', '--clearance', 'public'))
  clients.set('teammate', await token('--group', 'svc-viewers,readers', '--user', 'teammate'))
  for (const viewer of ['viewer', 'granted', 'cleared'] as const) {
    clients.set(viewer, await world.as(own, 'svc-viewers', viewer))
  }
  for (const developer of ['colleague', 'author', 'owner'] as const) {
    clients.set(developer, await world.as(own, 'svc-developers', developer))
  }
  clients.set('foreigner', await world.as(other, 'svc-developers', 'foreigner'))
}

async function deploy(level: Level): Promise<void> {
  const name = productOf(level)
  const columns = `  - { name: id, type: integer, role: identity, nullable: false }
  - { name: email, type: string, classification: pii.identifier }
  - { name: city, type: string }
  - { name: seen_at, type: timestamptz }
  - { name: born, type: date }
`
  const endpoints = `  - type: lookup
    config: { index_columns: [id] }
  - type: timeseries
    config: { time_column: seen_at }
  - type: realtime
    config: { key_template: "p:{id}" }
  - type: analytics
`
  const files = manifests('public.readers_people', { columns, endpoints })
  const quality = `apiVersion: svc/v1\nkind: Quality\nchecks:
  - { name: positive, range: { column: id, min: 0 }, on_error: quarantine }
  - { name: known, accepted_values: { column: city, values: [elsewhere] }, severity: warn, on_error: publish }
  - { name: reachable, accepted_values: { column: email, values: [none] }, severity: warn, on_error: publish }
`
  const product = `${files.product.replace('name: people', `name: ${name}`)}classification: ${level}\n`
  const author = as('author')
  const wanted = { ...NEW, name }
  ids.set(level, (await ok(author.post('/api/v1/products', wanted))).id)
  await deployVersion(author, name, '1.0.0', { ...files, product, quality })
  const grants = [
    { subject: { team: 'readers' }, may: 'read' },
    { subject: { user: 'granted' }, may: 'read' },
    { subject: { user: 'cleared' }, may: 'unmask', classes: ['*'] },
    { subject: { user: 'maker' }, may: 'unmask', classes: ['*'] },
  ]
  for (const grant of grants) await ok(as('owner').post(`/api/v1/products/${name}/grants`, grant))
}

async function makeKeys(): Promise<void> {
  maker = await world.as(world.tenants[0], 'svc-developers', 'maker')
  const wanted = {
    keyOfOne: { products: [productOf('internal')] },
    keyOfAny: {},
    keyOfAll: { products: LEVELS.map(productOf), unmask: ['pii.identifier'] },
  }
  for (const [reader, scope] of Object.entries(wanted)) {
    const { id, token } = await ok(maker.post('/api/v1/application-keys', { name: reader, ...scope }))
    keyIds.set(reader as Reader, id)
    clients.set(reader as Reader, new Client(world.deployment.url, token))
  }
}

function headersOf(reader: Reader, more: Record<string, string> = {}): Record<string, string> {
  return reader === 'admin' ? { ...headers, ...more } : more
}

function get(reader: Reader, path: string): Promise<Heard> {
  return as(reader).text(path, { headers: headersOf(reader) })
}

function ask(reader: Reader, sql: string, more: Json = {}, accept = 'application/json'): Promise<Heard> {
  const sent = headersOf(reader, { 'content-type': 'application/json', accept })
  return as(reader).text('/api/v1/query', { method: 'POST', headers: sent, body: JSON.stringify({ sql, ...more }) })
}

function seenIn({ status, text, sees }: Heard): Sees {
  if (text.includes(PLAIN)) return 'clear'
  if (text.includes(ROW)) return sees ?? 'masked'
  return status === 200 ? (sees ?? 'nothing') : 'nothing'
}

const rowsOf = (reader: Reader, level: Level): Sees => READERS[reader].rows[at(level)] as Sees
const isTold = (reader: Reader, level: Level): boolean => READERS[reader].told[at(level)] as boolean

/** Its place says which variant it is of: what a client is shown are files. */
async function loaded(reader: Reader, level: Level): Promise<Heard> {
  const answer = await get(reader, `/iceberg/v1/${world.tenants[0]}/namespaces/crm/tables/${productOf(level)}`)
  if (answer.status !== 200) return answer
  return { ...answer, sees: JSON.parse(answer.text).metadata.location.includes('masked') ? 'masked' : 'clear' }
}

/** All rows that there are, by the stream of those that change. */
async function followed(reader: Reader, level: Level): Promise<Heard> {
  const controller = new AbortController()
  const path = `/api/v1/products/${productOf(level)}/changes?from=start`
  const response = await as(reader).begin(path, headersOf(reader), controller.signal)
  if (!response.ok) return { status: response.status, text: await response.text() }
  let text = ''
  try {
    for await (const chunk of response.body?.pipeThrough(new TextDecoderStream()) ?? []) {
      text += chunk
      if (/^event: epoch$/m.test(text)) break
    }
  } finally {
    controller.abort()
  }
  return { status: response.status, text }
}

/** Administrators and developers lend an agent what members may do; nobody lends a class, or what names its readers. */
function lentRows(reader: Reader, level: Level): Sees {
  const own = reader === 'admin' ? (level === 'public' ? 'masked' : 'nothing') : rowsOf(reader, level)
  return level === 'restricted' || own === 'nothing' ? 'nothing' : 'masked'
}

const toolCalled = (product: string) => (form: (product: string) => Json) => ({
  name: 'make_training_set',
  arguments: form(product),
})

async function byAgent(reader: Reader, level: Level): Promise<Heard> {
  const sent = headersOf(reader, { 'content-type': 'application/json' })
  const product = `crm.${productOf(level)}`
  const forms = [{ name: 'sample_rows', arguments: { product } }, ...TRAINING_SETS.map(toolCalled(product))]
  const call = forms[(NAMES.indexOf(reader) + at(level)) % forms.length]
  const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params: call })
  return as(reader).text('/mcp', { method: 'POST', headers: sent, body })
}

const LOADS_NOTHING: readonly Reader[] = KEYS

interface Door {
  readonly operation: string
  readonly open: (reader: Reader, level: Level) => Promise<Heard>
  readonly expected: (reader: Reader, level: Level) => Sees
  /** Restricted products are read on record. */
  readonly action?: string
}

const onPage = (operation: string, path: (product: string) => string, action: string): Door => ({
  operation,
  action,
  open: (reader, level) => get(reader, path(`/api/v1/products/${productOf(level)}`)),
  expected: rowsOf,
})

/** Ways to ask for the same rows: each reader asks for each product in one of them, and all of them are used. */
const QUERIES: readonly ((reader: Reader, level: Level, table: string) => Promise<Heard>)[] = [
  (reader, _level, table) => ask(reader, `SELECT * FROM ${table}`),
  (reader, _level, table) => ask(reader, `SELECT * FROM ${table}`, {}, 'application/x-ndjson'),
  (reader, _level, table) => ask(reader, `SELECT * FROM ${table}`, {}, 'text/csv'),
  (reader, _level, table) => ask(reader, `SELECT p.* FROM (SELECT 1) AS one JOIN ${table} AS p ON true`),
  (reader, level, table) => ask(reader, `SELECT * FROM ${table}`, { as_of: snapshots.get(level) }),
  (reader, _level, table) => ask(reader, `SELECT * FROM ${table}__quarantine`),
  (reader, _level, table) => ask(reader, `SELECT min(email) AS email, min(city) AS city FROM ${table} GROUP BY id`),
]

/** A product as a feature, as one of the past, and as labels. */
const TRAINING_SETS: readonly ((product: string) => Json)[] = [
  (product) => ({ ...labelsOfOne, features: [{ product, key: 'id', time_column: 'seen_at' }] }),
  (product) => ({
    ...labelsOfOne,
    features: [{ product, key: 'id', time_column: 'seen_at' }],
    known_by: '2999-01-01T00:00:00Z',
  }),
  (product) => ({
    labels: { product },
    time_column: 'seen_at',
    features: [{ product, key: 'id', time_column: 'seen_at', columns: ['born'] }],
  }),
]
const labelsOfOne = { labels: [{ id: 1, event_time: '2026-06-01T00:00:00Z' }] }

/** Asked for by name or by a statement, and read by the link. */
async function exported(reader: Reader, level: Level): Promise<Heard> {
  const sent = headersOf(reader, { 'content-type': 'application/json' })
  const product = `crm.${productOf(level)}`
  const of = (NAMES.indexOf(reader) + at(level)) % 2 === 0 ? { product } : { sql: `SELECT * FROM ${product}` }
  const body = JSON.stringify({ ...of, format: 'ndjson' })
  const asked = await as(reader).text('/api/v1/exports', { method: 'POST', headers: sent, body })
  if (asked.status !== 202) return asked
  const path = `/api/v1/exports/${JSON.parse(asked.text).id}`
  let found: Json
  await until('the export ends', async () => {
    found = JSON.parse((await get(reader, path)).text)
    return ['succeeded', 'failed'].includes(found.state)
  })
  const heard =
    found.state === 'failed' ? { status: 404, text: found.error.code } : await as(reader).text(found.link.path)
  await as(reader).text(path, { method: 'DELETE', headers: headersOf(reader, {}) })
  return heard
}

/** In whose name a webhook delivers: keys have one that their maker has made, developers by a key of their own. */
async function delivered(reader: Reader, level: Level): Promise<Heard> {
  const path = `/api/v1/products/${productOf(level)}/webhooks`
  const by = KEYS.includes(reader) ? maker : as(reader)
  const sent = (by === as(reader) && headersOf(reader)) || {}
  if (DEVELOPERS.includes(reader) && !keyIds.has(reader)) {
    const { status, body } = await by.post('/api/v1/application-keys', { name: 'hooks' }, sent)
    if (status === 201) keyIds.set(reader, body.id)
  }
  const to = new Receiver()
  await to.listen()
  to.signingKey = `whsec_${Buffer.from('the same for all of these tests.').toString('base64')}`
  try {
    const application_key = keyIds.get(reader) ?? 'key_none'
    const wanted = { name: reader, url: to.url, application_key, from: 'start', secret: to.signingKey }
    const { status, body } = await by.post(path, wanted, sent)
    if (status !== 201) return { status, text: JSON.stringify(body) }
    await until('all rows are delivered', () => to.epochs.length > 0)
    await by.send(`${path}/${body.id}`, { method: 'DELETE', headers: sent })
    assert.deepEqual(to.faults, [])
    return { status: 200, text: to.deliveries.map(({ text }) => text).join('\n') }
  } finally {
    await to.close()
  }
}

/** By whatever way of the protocol: a simple query, a portal, COPY, a cursor. Another tenant's database, and administrators, are nobody's. */
const STATEMENTS: readonly ((client: pg.Client, table: string) => Promise<unknown>)[] = [
  (client, table) => client.query(`SELECT * FROM ${table}`),
  (client, table) => client.query({ text: `SELECT * FROM ${table} WHERE id > $1`, values: [0], name: 'one' }),
  (client, table) => client.query(`SELECT p.* FROM (SELECT 1) AS one JOIN ${table} AS p ON true`),
  async (client, table) => {
    await client.query(`BEGIN ISOLATION LEVEL REPEATABLE READ; DECLARE some CURSOR FOR SELECT * FROM ${table}`)
    return client.query('FETCH ALL FROM some')
  },
]

async function overWire(reader: Reader, level: Level): Promise<Heard> {
  const login = { host: '127.0.0.1', port: wirePort as number, database: world.tenants[0], user: reader }
  const client = new pg.Client({ ...login, password: as(reader).token ?? 'none' })
  client.on('error', () => undefined)
  try {
    await client.connect()
    const ask = STATEMENTS[(NAMES.indexOf(reader) + at(level)) % STATEMENTS.length] as (typeof STATEMENTS)[number]
    return { status: 200, text: JSON.stringify(await ask(client, `crm.${productOf(level)}`)) }
  } catch (error) {
    const { code, message } = error as pg.DatabaseError
    return { status: 403, text: `${code} ${message}` }
  } finally {
    await client.end().catch(() => undefined)
  }
}

/** Doors that show rows. */
const ROWS: Readonly<Record<string, Door>> = {
  lookup: onPage('readLookup', (product) => `${product}/latest?filter=id:1`, 'read.lookup'),
  timeseries: onPage('readTimeseries', (product) => `${product}/timeseries?from=2026-01-01`, 'read.timeseries'),
  realtime: onPage('readRealtime', (product) => `${product}/realtime?key=p:1`, 'read.realtime'),
  keys: {
    operation: 'readKeys',
    action: 'read.lookup',
    open(reader, level) {
      const keys = { lookup: [1, 2], realtime: ['p:1', { id: 2 }] }
      const store = (NAMES.indexOf(reader) + at(level)) % 2 === 0 ? 'lookup' : 'realtime'
      const items = [{ product: `crm.${productOf(level)}`, store, keys: keys[store] }]
      const sent = headersOf(reader, { 'content-type': 'application/json' })
      return as(reader).text('/api/v1/read', { method: 'POST', headers: sent, body: JSON.stringify({ items }) })
    },
    expected: rowsOf,
  },
  query: {
    operation: 'query',
    action: 'read.query',
    open(reader, level) {
      const form = QUERIES[(NAMES.indexOf(reader) * LEVELS.length + at(level)) % QUERIES.length]
      return (form as (typeof QUERIES)[number])(reader, level, `crm.${productOf(level)}`)
    },
    expected: rowsOf,
  },
  wire: {
    operation: 'query',
    action: 'read.query',
    open: overWire,
    expected: (reader, level) => (reader === 'admin' ? 'nothing' : rowsOf(reader, level)),
  },
  training: {
    operation: 'makeTrainingSet',
    action: 'read.training_set',
    open(reader, level) {
      const form = TRAINING_SETS[(NAMES.indexOf(reader) + at(level)) % TRAINING_SETS.length]
      const body = JSON.stringify((form as (typeof TRAINING_SETS)[number])(`crm.${productOf(level)}`))
      const sent = headersOf(reader, { 'content-type': 'application/json', accept: 'application/json' })
      return as(reader).text('/api/v1/training-sets', { method: 'POST', headers: sent, body })
    },
    expected: rowsOf,
  },
  exports: {
    operation: 'getExport',
    action: 'read.export',
    open: exported,
    expected: (reader, level) => (KEYS.includes(reader) ? 'nothing' : rowsOf(reader, level)),
  },
  changes: {
    operation: 'followChanges',
    action: 'read.changes',
    open: followed,
    expected: rowsOf,
  },
  webhooks: {
    operation: 'createWebhook',
    action: 'read.changes',
    open: delivered,
    // Administrators have no keys.
    expected: (reader, level) =>
      KEYS.includes(reader) || (DEVELOPERS.includes(reader) && reader !== 'admin') ? rowsOf(reader, level) : 'nothing',
  },
  catalog: {
    operation: 'icebergTable',
    action: 'read.iceberg',
    open: loaded,
    expected: (reader, level) => (LOADS_NOTHING.includes(reader) ? 'nothing' : rowsOf(reader, level)),
  },
}

/** What checks found stands in clear for whoever sees the source in clear. */
function foundFor(reader: Reader, level: Level): Sees {
  if (!isTold(reader, level)) return 'nothing'
  return SOURCE_READERS.includes(reader) ? 'clear' : rowsOf(reader, level)
}

const notForKeys =
  (expected: Door['expected']): Door['expected'] =>
  (reader, level) =>
    KEYS.includes(reader) ? 'nothing' : expected(reader, level)

const CHECKED: Readonly<Record<string, Door>> = {
  agents: {
    operation: 'callMcp',
    open: byAgent,
    expected: lentRows,
  },
  quality: {
    operation: 'listQuality',
    open: (reader, level) => get(reader, `/api/v1/products/${productOf(level)}/quality`),
    expected: notForKeys(foundFor),
  },
  page: {
    operation: 'getProduct',
    open: (reader, level) => get(reader, `/api/v1/products/${productOf(level)}`),
    expected: foundFor,
  },
  /** Of the draft that was deployed: what its reader would see of it, for who may deploy it. */
  preview: {
    operation: 'previewProduct',
    async open(reader, level) {
      const path = `/api/v1/products/${productOf(level)}`
      const { digest } = await ok(as('author').get(`${path}/manifests`))
      const sent = headersOf(reader, { 'content-type': 'application/json' })
      return as(reader).text(`${path}/preview`, { method: 'POST', headers: sent, body: JSON.stringify({ digest }) })
    },
    expected: (reader, level) => (READERS[reader].raw ? rowsOf(reader, level) : 'nothing'),
  },
  run: {
    operation: 'getIngestion',
    async open(reader, level) {
      const { status, text } = await get(reader, `/api/v1/ingestion/${run}`)
      const failed = status === 200 ? JSON.parse(text).failed_checks : []
      const own = failed.filter(({ product }: Json) => product === `crm.${productOf(level)}`)
      return { status, text: JSON.stringify(own) }
    },
    expected: notForKeys(foundFor),
  },
}

/** What every member is told: names, columns, versions, and who deployed them; keys of applications where they say so. */
const NAMED = {
  getProduct: (product: string) => `/api/v1/products/${product}`,
  getLineage: (product: string) => `/api/v1/products/${product}/lineage`,
  getImpact: (product: string) => `/api/v1/products/${product}/lineage/impact?column=id`,
  getManifests: (product: string) => `/api/v1/products/${product}/manifests`,
  getManifestsOfVersion: (product: string) => `/api/v1/products/${product}/manifests/1.0.0`,
  listDeployments: (product: string) => `/api/v1/products/${product}/deployments`,
  listGrants: (product: string) => `/api/v1/products/${product}/grants`,
} as const

/** Of these, what keys of applications are told of their own products. */
const OF_KEYS = ['getProduct', 'getLineage']

/** Read, and of no product or source: other tests have them. */
const ELSEWHERE = [
  ...[
    'listTenants',
    'getTenant',
    'getConnection',
    'getConnectionLag',
    'listConnections',
    'listApplicationKeys',
    'listServicePasswords',
    'listRawGrants',
    'listNotificationTargets',
    'getImpactOfSource',
  ],
  ...['listPlugins', 'getOpenIdConfiguration', 'getJwks', 'getHealth', 'getReadiness', 'getMetrics', 'getOpenApi'],
  ...['getDocs', 'getRoot', 'getManifestSchema', 'downloadExport', 'listExports'],
  // Of deliveries, and of no row.
  ...['listWebhooks', 'getWebhook', 'listDeadLetters'],
  // For administrators, without keys.
  ...['listErasures', 'getErasure'],
]
/** What changes something, and is answered by what was changed: who may do it is `rules.int.test.ts`. */
const CHANGES: readonly string[] = [
  ...['createTenant', 'updateTenant', 'deleteTenant', 'rotateTenantKey', 'rotateMasterKey', 'createConnection'],
  ...['updateConnection', 'deleteConnection', 'testConnection', 'syncConnection', 'backfillConnection'],
  ...['withdrawBackfill', 'replayQuarantine', 'discardQuarantine', 'createErasure', 'pushRows', 'receiveWebhook'],
  ...['createRawGrant', 'deleteRawGrant', 'createApplicationKey', 'deleteApplicationKeysOf', 'deleteApplicationKey'],
  ...['createServicePassword', 'deleteServicePassword', 'createNotificationTarget', 'deleteNotificationTarget'],
  ...['createProduct', 'updateProduct', 'deleteProduct', 'uploadManifests', 'deployProduct', 'rollBackProduct'],
  ...['materializeProduct', 'resumeProduct', 'createGrant', 'deleteGrant', 'discardPreview', 'promoteProduct'],
  ...['deleteWebhook', 'pauseWebhook', 'resumeWebhook', 'redeliverWebhook', 'testWebhook', 'deleteExport'],
  ...['cancelIngestion', 'retryIngestion', 'keepUpLake'],
  // What it makes is read by the doors above.
  'createExport',
  // Of rows it tells how many there are, to who may deploy them.
  'planProduct',
  // A login to the catalog, which has no row.
  ...['issueCatalogLogin', 'revokeCatalogLogin'],
]

/** In the tests below that are about more than one product. */
const TOGETHER = ['listProducts', 'listIngestion', 'followEvents', 'listAudit', 'listQuarantine', 'discoverConnection']

/** By the rules of answers: who has no part in the tenant, or a key for another product, learns of nothing there. */
function refusalOf(reader: Reader, level: Level): number {
  if (reader === 'anonymous') return 401
  if (reader === 'foreigner') return 404
  return reader === 'keyOfOne' && level !== 'internal' ? 404 : 403
}

async function unexpected(cell: (reader: Reader, level: Level) => Promise<string | null>): Promise<readonly string[]> {
  const wrong: string[] = []
  for (const reader of NAMES) {
    for (const level of LEVELS) {
      const found = await cell(reader, level)
      if (found !== null) wrong.push(`${reader} ${level}: ${found}`)
    }
  }
  return wrong
}

const told = ({ status, text }: Heard): string => `${status} ${text.slice(0, 160)}`

describe('a product', () => {
  it('has every operation in one of these tables', async () => {
    const { paths } = await ok(as('viewer').get('/openapi.json'))
    const operations = Object.values(paths as Record<string, Record<string, Json>>).flatMap(Object.values)
    const doors = Object.values({ ...ROWS, ...CHECKED }).map(({ operation }) => operation)
    const shown = [...doors, 'listSnapshots', 'getProductOpenApi', ...Object.keys(NAMED), ...TOGETHER]
    const known = new Set([...shown, ...ELSEWHERE, ...CHANGES])
    const names = operations.map(({ operationId }) => operationId)
    assert.deepEqual(
      names.filter((name) => !known.has(name)),
      [],
    )
    assert.deepEqual(
      CHANGES.filter((name) => !names.includes(name) || shown.includes(name)),
      [],
    )
  })

  for (const [name, door] of Object.entries({ ...ROWS, ...CHECKED })) {
    it(`shows its rows by ${name} as the table says`, async (t) => {
      if (door === ROWS['wire'] && wirePort === null) return t.skip('the runtime is another’s, and may have no wire')
      const wrong = await unexpected(async (reader, level) => {
        const heard = await door.open(reader, level)
        const [seen, expected] = [seenIn(heard), door.expected(reader, level)]
        return seen === expected ? null : `${seen}, not ${expected}: ${told(heard)}`
      })
      assert.deepEqual(wrong, [])
    })
  }

  it('is refused where it has other readers, and is not there for who has no part in it', async () => {
    const pages = ['latest', 'timeseries', 'realtime?key=p:1', 'snapshots', 'quality']
    const wrong = await unexpected(async (reader, level) => {
      const page = pages[(NAMES.indexOf(reader) + at(level)) % pages.length] as string
      const isRows = !['snapshots', 'quality'].includes(page)
      const isShown = isRows ? rowsOf(reader, level) !== 'nothing' : isTold(reader, level) && !KEYS.includes(reader)
      const heard = await get(reader, `/api/v1/products/${ids.get(level)}/${page}`)
      const isKeyRefused = !isRows && KEYS.includes(reader)
      const expected = isShown ? 200 : isKeyRefused ? 403 : refusalOf(reader, level)
      if (heard.status !== expected) return `${page} ${told(heard)}, not ${expected}`
      if (expected !== 404) return null
      const nowhere = await get(reader, `/api/v1/products/none/${page}`)
      return withoutRequest(nowhere.text) === withoutRequest(heard.text) ? null : `is told from none: ${told(heard)}`
    })
    assert.deepEqual(wrong, [])
  })

  it('says what can be done with it to those who may read its rows', async () => {
    const wrong = await unexpected(async (reader, level) => {
      const heard = await get(reader, `/api/v1/products/${ids.get(level)}/openapi.json`)
      const expected = rowsOf(reader, level) === 'nothing' ? refusalOf(reader, level) : 200
      return heard.status === expected && seenIn(heard) === 'nothing' ? null : `${told(heard)}, not ${expected}`
    })
    assert.deepEqual(wrong, [])
  })

  it('tells its readers, and who reads its sources, what was made of it', async () => {
    const wrong = await unexpected(async (reader, level) => {
      const product = productOf(level)
      const isShown = isTold(reader, level)
      const list = await get(reader, `/api/v1/products/${product}/snapshots`)
      if ((list.status === 200) !== (isShown && !KEYS.includes(reader))) return `snapshots ${told(list)}`
      const page = await get(reader, `/api/v1/products/${product}`)
      if (page.status !== 200) return isShown ? `page ${told(page)}` : null
      const { quality, last_materialization: newest, endpoints, freshness, reads } = JSON.parse(page.text)
      const shown = [
        quality,
        newest,
        freshness.age_s,
        freshness.read_at,
        ...reads.flatMap((one: Json) => [one.read_at, one.mode]),
      ]
        .concat(endpoints.flatMap((one: Json) => [one.rows_left_out, one.epoch, one.behind]))
        .map((value) => value !== null)
      return shown.every((one) => one === isShown) ? null : `page ${shown}`
    })
    assert.deepEqual(wrong, [])
  })

  it('is in runs for those readers alone, with what was made of it', async () => {
    const { id: runAlone } = await ok(as('author').post(`/api/v1/products/${productOf(ALONE)}/materialize`))
    await as('author').untilEnded(runAlone)
    // Everybody hears of a product that is gone, and nothing of what came before is heard later.
    const { id: mark } = await ok(as('author').post('/api/v1/products', { ...NEW, name: 'mark' }))
    await as('author').send(`/api/v1/products/${mark}`, { method: 'DELETE' })
    for (const reader of NAMES.filter((name) => !OUTSIDE.includes(name) && !KEYS.includes(name))) {
      const subjects = await heardBy(reader, mark)
      assert.equal(subjects.has(runAlone), isTold(reader, ALONE), `${reader} of the end of a run`)
    }
    const wrong = await unexpected(async (reader, level) => {
      if (OUTSIDE.includes(reader) || KEYS.includes(reader)) return null
      const one = JSON.parse((await get(reader, `/api/v1/ingestion/${run}`)).text)
      const listed = JSON.parse((await get(reader, '/api/v1/ingestion')).text).data
      const ownRuns: readonly Json[] = [one, ...listed.filter(({ id }: Json) => id === run)]
      const shown = ownRuns.map(({ products }) => products.some(({ id }: Json) => id === ids.get(level)))
      const lines = one.log.map(({ message }: Json) => message)
      shown.push(lines.some((line: string) => line.startsWith(`crm.${productOf(level)}: `)))
      if (level === ALONE) {
        const alone = JSON.parse((await get(reader, `/api/v1/ingestion/${runAlone}`)).text)
        shown.push(alone.products.length > 0, alone.log.length > 0)
      }
      return shown.every((is) => is === isTold(reader, level)) ? null : `${shown}`
    })
    assert.deepEqual(wrong, [])
  })

  for (const [operation, pathOf] of Object.entries(NAMED)) {
    it(`says to members what it is: ${operation}`, async () => {
      const wrong = await unexpected(async (reader, level) => {
        const heard = await get(reader, pathOf(productOf(level)))
        const isKey = KEYS.includes(reader)
        const isMember = !OUTSIDE.includes(reader) && !isKey
        const isOwnKey = OF_KEYS.includes(operation) && isKey && refusalOf(reader, level) === 403
        const isShown = isOwnKey || (operation === 'listGrants' ? DEVELOPERS.includes(reader) : isMember)
        const isRefusedKey = isKey && !OF_KEYS.includes(operation)
        const expected = isShown ? 200 : isRefusedKey ? 403 : refusalOf(reader, level)
        return heard.status === expected ? null : `${told(heard)}, not ${expected}`
      })
      assert.deepEqual(wrong, [])
    })
  }

  it('is in lists of names for members, and in lists of tables for its readers', async () => {
    for (const reader of NAMES) {
      const named = await get(reader, '/api/v1/products')
      const inNames = LEVELS.filter((level) => named.text.includes(`"${ids.get(level)}"`))
      const isMember = !OUTSIDE.includes(reader)
      const expected = LEVELS.filter(() => isMember).filter((level) => reader !== 'keyOfOne' || level === 'internal')
      assert.deepEqual(inNames, expected, `${reader} ${told(named)}`)
      const readable = LEVELS.filter((level) => rowsOf(reader, level) !== 'nothing')
      const tables = await get(reader, `/iceberg/v1/${world.tenants[0]}/namespaces/crm/tables`)
      const inCatalog = LEVELS.filter((level) => tables.text.includes(`"${productOf(level)}"`))
      assert.deepEqual(inCatalog, LOADS_NOTHING.includes(reader) ? [] : readable, `${reader} ${told(tables)}`)
      const listed = await ask(reader, 'SELECT table_schema, table_name, column_name FROM information_schema.columns')
      const inQueries = LEVELS.filter((level) => listed.text.includes(`"${productOf(level)}"`))
      assert.deepEqual(inQueries, readable, `${reader} ${told(listed)}`)
      assert.equal(/raw_db/.test(listed.text), READERS[reader].raw, `${reader} is shown the columns of raw tables`)
    }
  })

  it('is in the events of who is told of it', async () => {
    // A stream of another tenant says nothing that could be waited for.
    for (const reader of NAMES.filter((name) => name !== 'foreigner')) {
      const subjects = await heardBy(reader)
      const isListener = !OUTSIDE.includes(reader) && !KEYS.includes(reader)
      for (const level of LEVELS) {
        const isHeard = subjects.has(ids.get(level) as string)
        assert.equal(isHeard, isListener && isTold(reader, level), `${reader} ${level}`)
      }
    }
  })

  it('is read on record over the wire as well', async (t) => {
    if (wirePort === null) return t.skip('the runtime is another’s, and may have no wire')
    const reads = async (reader: Reader) => {
      const { data } = await ok(as('owner').get('/api/v1/audit?limit=1000'))
      return data.filter(
        ({ actor, action, object }: Json) =>
          actor.subject === reader && action === 'read.query' && object.id === ids.get('restricted'),
      ).length
    }
    for (const reader of ['granted', 'cleared'] as const) {
      const before = await reads(reader)
      await overWire(reader, 'restricted')
      assert.ok((await reads(reader)) > before, reader)
    }
  })

  it('is read on record where it is restricted, and by administrators always', async () => {
    const { data } = await ok(as('owner').get('/api/v1/audit?limit=1000'))
    const reads = new Set(data.map(({ actor, action, object }: Json) => `${actor.subject} ${action} ${object.id}`))
    const uses = data.filter(({ action }: Json) => action === 'admin.use')
    assert.ok(uses.length > 0)
    for (const reader of ['granted', 'cleared', 'admin'] as const) {
      for (const { action } of Object.values(ROWS)) {
        for (const level of reader === 'admin' ? LEVELS : (['restricted'] as const)) {
          assert.ok(reads.has(`${reader} ${action} ${ids.get(level)}`), `${reader} ${action} ${level}`)
        }
      }
    }
    for (const reader of NAMES) {
      const { status } = await get(reader, '/api/v1/audit')
      assert.equal(status === 200, DEVELOPERS.includes(reader) || reader === 'foreigner', reader)
    }
    const { text } = await get('foreigner', '/api/v1/audit?limit=1000')
    assert.ok(LEVELS.every((level) => !text.includes(ids.get(level) as string)))
  })
})

describe('a source', () => {
  it('shows its rows, their number and those that were refused to who may read it raw', async () => {
    for (const reader of NAMES) {
      const { raw } = READERS[reader]
      const rows = await ask(reader, 'SELECT * FROM raw_db.readers_people')
      assert.equal(seenIn(rows), raw ? 'clear' : 'nothing', `${reader} ${told(rows)}`)
      const aside = await get(reader, '/api/v1/connections/db/quarantine')
      assert.equal(aside.text.includes('infinity'), raw, `${reader} ${told(aside)}`)
      assert.ok(aside.status !== 200 || raw === JSON.parse(aside.text).data.length > 0)
      for (const path of [`/api/v1/ingestion/${run}`, '/api/v1/ingestion']) {
        const { status, text } = await get(reader, path)
        assert.equal(status === 200 && /"bytes":\d/.test(text), raw, `${reader} ${path}`)
        assert.equal(/readers_people: \d/.test(text), raw && path.endsWith(run), `${reader} ${path}`)
      }
      const found = await get(reader, '/api/v1/connections/db/discover')
      assert.equal(found.status === 200, DEVELOPERS.includes(reader), `${reader} ${told(found)}`)
    }
  })
})

const withoutRequest = (text: string): string => {
  const { instance, request_id, ...problem } = JSON.parse(text)
  return JSON.stringify(problem)
}

/** Of which things the reader hears, until the end of the run that made all products. */
async function heardBy(reader: Reader, last = run): Promise<ReadonlySet<string>> {
  const subjects = new Set<string>()
  const controller = new AbortController()
  const response = await as(reader).begin('/api/v1/events', headersOf(reader), controller.signal)
  try {
    if (!response.ok) return subjects
    const decoder = new TextDecoder()
    let text = ''
    for await (const chunk of response.body as ReadableStream<Uint8Array>) {
      text += decoder.decode(chunk, { stream: true })
      for (const [, json] of text.matchAll(/^data: (.*)\n/gm)) subjects.add(JSON.parse(json as string).subject)
      if (subjects.has(last) && /\n\n$/.test(text)) return subjects
    }
    return subjects
  } finally {
    controller.abort()
  }
}
