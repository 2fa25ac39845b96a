/** Who may do what, as a table over every operation of the document; an operation that is not in it fails the test. */
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { type Answer, Client, type Json, manifests } from './client.ts'
import { exampleFaults, shapeDifference } from './examples.ts'
import { onboardPeople, openWorld, type World } from './world.ts'

type Caller = (typeof CALLERS)[number] | 'key'
const CALLERS = ['anonymous', 'nobody', 'viewer', 'developer', 'foreigner', 'admin'] as const

/**
 * What each caller is told: refused (401, 403), told that it is not there (404), or anything else: then the answer is
 * about the request. `nobody` is in the tenant without a group, `foreigner` a developer of another tenant.
 */
type Verdict = 401 | 403 | 404 | 'heard'
type Rule = readonly [Verdict, Verdict, Verdict, Verdict, Verdict, Verdict]

const OPEN: Rule = ['heard', 'heard', 'heard', 'heard', 'heard', 'heard']
const ANY_TOKEN: Rule = [401, 'heard', 'heard', 'heard', 'heard', 'heard']
const ADMIN: Rule = [401, 403, 403, 403, 403, 'heard']
/** Reading one thing of the tenant. */
const MEMBER: Rule = [401, 403, 'heard', 'heard', 404, 'heard']
/** Reading the own tenant's list. */
const OWN_LIST: Rule = [401, 403, 'heard', 'heard', 'heard', 'heard']
const DEVELOPER: Rule = [401, 403, 403, 'heard', 404, 'heard']
const OWN_CHANGE: Rule = [401, 403, 403, 'heard', 'heard', 'heard']
/** No token opens it: whoever calls signs what is sent. */
const SIGNED: Rule = [401, 401, 401, 401, 401, 401]
/** An internal product's rows: administrators act by their role. */
const READER: Rule = [401, 403, 'heard', 'heard', 404, 'heard']

const RULES: Readonly<Record<string, Rule>> = {
  createTenant: ADMIN,
  listTenants: ADMIN,
  getTenant: [401, 'heard', 'heard', 'heard', 404, 'heard'],
  updateTenant: ADMIN,
  rotateTenantKey: ADMIN,
  rotateMasterKey: ADMIN,
  deleteTenant: ADMIN,
  createConnection: OWN_CHANGE,
  listConnections: OWN_LIST,
  getConnection: MEMBER,
  updateConnection: DEVELOPER,
  deleteConnection: DEVELOPER,
  testConnection: DEVELOPER,
  discoverConnection: DEVELOPER,
  syncConnection: DEVELOPER,
  backfillConnection: DEVELOPER,
  withdrawBackfill: DEVELOPER,
  pushRows: DEVELOPER,
  receiveWebhook: SIGNED,
  getConnectionLag: MEMBER,
  listQuarantine: MEMBER,
  replayQuarantine: DEVELOPER,
  discardQuarantine: DEVELOPER,
  createApplicationKey: [401, 403, 403, 'heard', 'heard', 403],
  listApplicationKeys: OWN_CHANGE,
  deleteApplicationKey: DEVELOPER,
  deleteApplicationKeysOf: OWN_CHANGE,
  /** By administrators, in a tenant. */
  createServicePassword: [401, 403, 403, 403, 403, 'heard'],
  createErasure: [401, 403, 403, 403, 403, 'heard'],
  listErasures: [401, 403, 403, 403, 403, 'heard'],
  getErasure: [401, 403, 403, 403, 403, 'heard'],
  listServicePasswords: OWN_CHANGE,
  deleteServicePassword: DEVELOPER,
  createNotificationTarget: OWN_CHANGE,
  listNotificationTargets: OWN_CHANGE,
  deleteNotificationTarget: DEVELOPER,
  createRawGrant: DEVELOPER,
  listRawGrants: DEVELOPER,
  deleteRawGrant: DEVELOPER,
  createProduct: OWN_CHANGE,
  listProducts: OWN_LIST,
  getProduct: MEMBER,
  getProductOpenApi: READER,
  getLineage: MEMBER,
  getImpact: MEMBER,
  getImpactOfSource: MEMBER,
  updateProduct: DEVELOPER,
  deleteProduct: DEVELOPER,
  uploadManifests: DEVELOPER,
  getManifests: MEMBER,
  getManifestsOfVersion: MEMBER,
  planProduct: DEVELOPER,
  deployProduct: DEVELOPER,
  previewProduct: DEVELOPER,
  promoteProduct: DEVELOPER,
  discardPreview: DEVELOPER,
  rollBackProduct: DEVELOPER,
  listDeployments: MEMBER,
  materializeProduct: DEVELOPER,
  resumeProduct: DEVELOPER,
  listSnapshots: MEMBER,
  listQuality: MEMBER,
  createGrant: DEVELOPER,
  listGrants: DEVELOPER,
  deleteGrant: DEVELOPER,
  readLookup: READER,
  readTimeseries: READER,
  readRealtime: READER,
  followChanges: READER,
  createWebhook: DEVELOPER,
  listWebhooks: DEVELOPER,
  getWebhook: DEVELOPER,
  deleteWebhook: DEVELOPER,
  pauseWebhook: DEVELOPER,
  resumeWebhook: DEVELOPER,
  redeliverWebhook: DEVELOPER,
  testWebhook: DEVELOPER,
  listDeadLetters: DEVELOPER,
  /** What a caller may not read is told by each item, as if it were not there. */
  readKeys: ANY_TOKEN,
  query: ANY_TOKEN,
  /** As by queries: what a caller may not read is not there. */
  makeTrainingSet: [401, 404, 'heard', 'heard', 404, 'heard'],
  createExport: ANY_TOKEN,
  /** One's own. */
  listExports: ANY_TOKEN,
  /** Its author's alone. */
  getExport: [401, 404, 404, 404, 404, 404],
  deleteExport: [401, 404, 404, 404, 404, 404],
  /** By the signature of a link. */
  downloadExport: OPEN,
  listIngestion: OWN_LIST,
  getIngestion: MEMBER,
  cancelIngestion: DEVELOPER,
  retryIngestion: DEVELOPER,
  listAudit: OWN_CHANGE,
  followEvents: OWN_LIST,
  keepUpLake: OWN_CHANGE,
  listPlugins: ANY_TOKEN,
  getManifestSchema: OPEN,
  getOpenIdConfiguration: OPEN,
  getJwks: OPEN,
  getHealth: OPEN,
  getReadiness: OPEN,
  getMetrics: ADMIN,
  getOpenApi: OPEN,
  getDocs: OPEN,
  getRoot: OPEN,
}

/** Operations that take a key of an application; all others refuse it. */
const FOR_KEYS = [
  'listProducts',
  'getProduct',
  'getProductOpenApi',
  'getLineage',
  'readLookup',
  'readTimeseries',
  'readRealtime',
  'followChanges',
  'readKeys',
  'query',
  'makeTrainingSet',
]

/** Tables of engines' catalogs and logins have tests of their own, with their own clients. */
const ELSEWHERE = /catalog|iceberg/i

interface Operation {
  readonly id: string
  readonly method: string
  readonly path: string
  readonly hasBody: boolean
  readonly takesKeys: boolean
}

let world: World
let document: Json
let operations: readonly Operation[] = []
let product: Json
let connection: Json
let run: Json
const clients = new Map<Caller, Client>()

before(async () => {
  world = await openWorld()
  const [own, other] = world.tenants
  await world.source.query(`DROP TABLE IF EXISTS rules_people;
    CREATE TABLE rules_people (id integer PRIMARY KEY, email text, city text);
    INSERT INTO rules_people SELECT i, 'r' || i || '@r.test', 'city' FROM generate_series(1, 5) i`)
  await world.createTenant(own)
  await world.createTenant(other)
  const { url } = world.deployment
  clients.set('anonymous', new Client(url, null))
  clients.set('nobody', await world.as(own, null, 'noah'))
  clients.set('viewer', await world.as(own, 'svc-viewers', 'vito'))
  clients.set('developer', await world.as(own, 'svc-developers', 'dora'))
  clients.set('foreigner', await world.as(other, 'svc-developers', 'olga'))
  clients.set('admin', world.admin)
  const developer = clients.get('developer') as Client
  product = await onboardPeople(world, developer, manifests('public.rules_people'))
  connection = (await developer.get('/api/v1/connections/db')).body
  run = (await developer.get(`/api/v1/ingestion?tenant_id=${own}`)).body.data[0]
  document = (await developer.get('/openapi.json')).body
  operations = operationsOf(document)
})

after(() => world?.close())

function operationsOf(document: Json): readonly Operation[] {
  return Object.entries(document.paths as Record<string, Record<string, Json>>).flatMap(([path, methods]) =>
    Object.entries(methods)
      .filter(([, operation]) => !ELSEWHERE.test(`${path} ${operation.operationId}`))
      .map(([method, operation]) => ({
        id: operation.operationId,
        method: method.toUpperCase(),
        path,
        hasBody: operation.requestBody?.content?.['application/json'] !== undefined,
        takesKeys: operation.security.some((scheme: Json) => 'applicationKey' in scheme),
      })),
  )
}

function bodySchema({ path, method }: Operation): Json {
  return document.paths[path][method.toLowerCase()].requestBody.content['application/json'].schema
}

/** Of things that are there; but grants and versions are not, and nothing is destroyed before its rule was looked at. */
function addressOf({ path }: Operation): string {
  const values: Record<string, string> = {
    tenant_id: world.tenants[0],
    connection_id: connection.id,
    connection_name: connection.id,
    product_id: product.id,
    name: product.id,
    run_id: run.id,
    grant_id: 'grt_none',
    key_id: 'key_none',
    password_id: 'svp_none',
    version: '1.0.0',
    task: 'check',
  }
  return path.replaceAll(/\{(\w+)\}/g, (_, name: string) => values[name] ?? 'none')
}

/** Bodies that are refused where they are looked at, so that nothing is done: the rules come before. */
async function ask(operation: Operation, caller: Caller): Promise<Answer> {
  const client = clients.get(caller) as Client
  const headers: Record<string, string> = {}
  if (caller === 'admin' && !operation.path.includes('tenants')) headers['x-tenant-id'] = world.tenants[0]
  const query =
    operation.id === 'readRealtime'
      ? '?key=none'
      : operation.id === 'deleteTenant'
        ? '?confirm=no'
        : operation.id === 'deleteApplicationKeysOf'
          ? '?created_by=nobody'
          : operation.id === 'planProduct'
            ? '?version=1.0.0'
            : operation.id === 'pushRows'
              ? '?table=none'
              : operation.id === 'getImpact'
                ? '?column=id'
                : operation.id === 'getImpactOfSource'
                  ? '?table=rules_people&column=id'
                  : ''
  const body = operation.hasBody ? JSON.stringify(BODIES[operation.id] ?? {}) : undefined
  if (body !== undefined) headers['content-type'] = 'application/json'
  if (['uploadManifests', 'planProduct'].includes(operation.id))
    return upload(client, `${addressOf(operation)}${query}`, headers)
  if (['followEvents', 'followChanges'].includes(operation.id)) return beginOf(operation, caller, headers)
  const init = { method: operation.method, headers, ...(body === undefined ? {} : { body }) }
  return client.send(`${addressOf(operation)}${query}`, init)
}

/** Valid for the schema, and refused or without effect after it. */
const BODIES: Readonly<Record<string, unknown>> = {
  createTenant: { slug: 'No Slug', display_name: 'x', tier: 'free' },
  updateTenant: {},
  createConnection: { name: '!', connector_type: 'none', config_encrypted: '{}' },
  updateConnection: { config_encrypted: '!' },
  createApplicationKey: { name: 'none', products: ['none'] },
  createServicePassword: { name: 'none', group: 'none' },
  createErasure: { table: 'none', key: { none: 'none' } },
  createNotificationTarget: { kind: 'webhook', name: 'none', url: 'none' },
  createRawGrant: { subject: {} },
  discardQuarantine: { table: 'public.none' },
  createProduct: { name: 'pg_x', namespace: 'pg_x', archetype: 'aggregate' },
  updateProduct: { description: 'as it was' },
  deployProduct: { version: '9.9.9', dry_run: true },
  previewProduct: { digest: 'none' },
  rollBackProduct: { version: '0.0.1' },
  createGrant: { subject: {}, may: 'read' },
  readKeys: { items: [{ product: 'crm.people', store: 'lookup', keys: [1] }] },
  query: { sql: 'DROP TABLE x' },
  makeTrainingSet: { labels: [{ id: 1 }], features: [{ product: 'crm.people', key: 'id', time_column: 'city' }] },
  createExport: {},
  createWebhook: { name: 'none', url: 'none', application_key: 'none' },
  keepUpLake: { table: 'no.such_table' },
}

function upload(client: Client, path: string, headers: Record<string, string>): Promise<Answer> {
  const form = new FormData()
  form.append('product', new Blob(['not: a manifest']), 'product.yaml')
  return client.send(path, { method: 'POST', body: form, headers })
}

/** A stream has no end to wait for. */
async function beginOf(operation: Operation, caller: Caller, headers: Record<string, string>): Promise<Answer> {
  const controller = new AbortController()
  const response = await (clients.get(caller) as Client).begin(addressOf(operation), headers, controller.signal)
  const body = response.ok ? '' : await response.json()
  controller.abort()
  return { status: response.status, headers: response.headers, body }
}

/** Deleting comes last: nothing could be asked of what is gone. */
const isDestructive = ({ id }: Operation): boolean => ['deleteProduct', 'deleteConnection'].includes(id)

describe('every operation', () => {
  it('is in the table', () => {
    assert.deepEqual(
      operations.map(({ id }) => id).filter((id) => RULES[id] === undefined),
      [],
    )
  })

  it('has examples of what it takes and answers, which fit their schemas and tell of no real place', async () => {
    assert.deepEqual(exampleFaults(document), [])
    const page: string = (await world.admin.get('/docs')).body
    const sections = page.split('<section id="').map((section) => [section.slice(0, section.indexOf('"')), section])
    const unshown = operations.filter(({ id }) => !Object.fromEntries(sections)[id]?.includes('<h4>Example</h4><pre>'))
    assert.deepEqual(unshown, [], 'the page shows them')
    assert.ok(
      page.includes('<pre>GET /api/v1/products/crm.customers/latest?columns=id,email,city&#38;filter=id:7</pre>'),
    )
  })

  it('answers in the shape that its example shows', async () => {
    const wrong: string[] = []
    for (const operation of operations.filter(({ method }) => method === 'GET')) {
      const example = document.paths[operation.path].get.responses['200']?.content?.['application/json']?.example
      if (example === undefined || operation.id === 'getOpenApi') continue
      const { status, body } = await ask(
        operation,
        document.paths[operation.path].get.security.length > 0 ? 'admin' : 'anonymous',
      )
      if (status === 200) wrong.push(...shapeDifference(example, body).map((one) => `${operation.id}: ${one}`))
    }
    assert.deepEqual(wrong, [])
  })

  it('tells of nothing inside where an input is not as its schema says', async () => {
    const developer = clients.get('developer') as Client
    const wrong = [null, [], 1, {}, { unknown: 1 }]
    for (const operation of operations.filter(({ hasBody }) => hasBody)) {
      const { properties = {} } = bodySchema(operation)
      const bodies = Object.keys(properties).flatMap((name) => [1, '\u0000/'].map((value) => ({ [name]: value })))
      for (const body of [...wrong, ...bodies]) {
        const answer = await developer.send(addressOf(operation), {
          method: operation.method,
          headers: { 'content-type': 'application/json' },
          body: JSON.stringify(body),
        })
        checkInside(`${operation.id} ${JSON.stringify(body)}`, answer.body)
      }
    }
    const paths = [
      'products/a%20%5C',
      'products?limit=x',
      'products?limit=0',
      'products/x/latest?limit=9999',
      'audit?limit=1.5',
    ]
    for (const path of paths) checkInside(path, (await developer.get(`/api/v1/${path}`)).body)
    const settings = { host: '^', port: 0, database: '', user: 1, password: 'x', ssl_mode: 'none', other: 1 }
    const config = { name: 'inside', connector_type: 'postgresql', config_encrypted: JSON.stringify(settings) }
    const { body } = await developer.post('/api/v1/connections', config)
    assert.equal(body.code, 'invalid_connection_config')
    checkInside('settings', body)
  })

  for (const [place, caller] of CALLERS.entries()) {
    it(`hears or refuses ${caller} as the table says`, async () => {
      const wrong: string[] = []
      for (const operation of operations.filter((one) => !isDestructive(one))) {
        const expected = RULES[operation.id]?.[place]
        const answer = await ask(operation, caller)
        const { status, body } = answer
        const isRefusal = status === 401 || status === 403
        const isAsExpected = expected === 'heard' ? !isRefusal && status < 500 : status === expected
        if (!isAsExpected) wrong.push(`${operation.id}: ${status} ${body?.code ?? ''}, not ${expected}`)
        if (status >= 400) checkProblem(operation, answer)
        // The document of a product is made of schemas.
        const isDocument = operation.id === 'getProductOpenApi' && status === 200
        if (caller !== 'admin' && RULES[operation.id] !== OPEN && !isDocument)
          checkInside(`${operation.id} as ${caller}`, body)
      }
      assert.deepEqual(wrong, [])
    })
  }

  it('refuses a token of a tenant that was never made at every door, and an administrator who names it', async () => {
    const ghost = await world.as(`ghost-${world.tenants[0]}`.slice(0, 30), 'svc-developers', 'gustav')
    const named = { 'x-tenant-id': `ghost-${world.tenants[1]}`.slice(0, 30) }
    const wrong: string[] = []
    const answers = new Set<string>()
    const doors = Object.entries(document.paths as Record<string, Record<string, Json>>).flatMap(([path, methods]) =>
      Object.entries(methods).map(([method, operation]) => ({ path, method: method.toUpperCase(), operation })),
    )
    for (const { path, method, operation } of doors.filter((door) => door.operation.security.length > 0)) {
      const address = path.replaceAll(/\{\w+\}/g, 'none')
      const { status, body } = await ghost.send(address, { method })
      const code = body.code ?? body.error?.code ?? body.error?.type
      const isForAdmins = RULES[operation.operationId] === ADMIN || path.endsWith('/catalog-login')
      const expected = isForAdmins ? 'admin_required' : 'tenant_not_served'
      if (status !== 403 || (code !== expected && path.startsWith('/api/')))
        wrong.push(`${method} ${path}: ${status} ${code}`)
      if (!isForAdmins && path.startsWith('/api/')) answers.add(body.detail)
      const takesTenant = operation.parameters?.some(({ name }: Json) => name === 'X-Tenant-Id')
      if (!takesTenant) continue
      const asAdmin = await world.admin.send(address, { method, headers: named })
      if (asAdmin.status !== 404) wrong.push(`${method} ${path} as an administrator: ${asAdmin.status}`)
    }
    assert.deepEqual([wrong, answers.size], [[], 1])
    assert.equal((await world.admin.get('/api/v1/tenants')).status, 200)
  })

  it('takes a key of an application where the document says so, and nowhere else', async () => {
    const { body } = await (clients.get('developer') as Client).post('/api/v1/application-keys', { name: 'app' })
    clients.set('key', new Client(world.deployment.url, body.token))
    const wrong: string[] = []
    for (const operation of operations.filter(({ id }) => RULES[id] !== OPEN && RULES[id] !== SIGNED)) {
      const answer = await ask(operation, 'key')
      const isTaken = ![401, 403].includes(answer.status)
      const isRefused = answer.status === 403 && answer.body.code === 'key_not_allowed'
      if (FOR_KEYS.includes(operation.id) ? !isTaken : !isRefused) wrong.push(`${operation.id}: ${answer.status}`)
      if (operation.takesKeys !== FOR_KEYS.includes(operation.id)) wrong.push(`${operation.id} is documented otherwise`)
    }
    assert.deepEqual(wrong, [])
    const catalog = await (clients.get('key') as Client).get('/iceberg/v1/config')
    assert.equal(catalog.status, 403, 'and no engine’s catalog')
  })

  it('destroys for developers only', async () => {
    for (const operation of operations.filter(isDestructive).reverse()) {
      for (const [place, caller] of CALLERS.entries()) {
        const expected = RULES[operation.id]?.[place]
        if (typeof expected === 'number') assert.equal((await ask(operation, caller)).status, expected, operation.id)
      }
    }
    const product = operations.find(({ id }) => id === 'deleteProduct') as Operation
    assert.equal((await ask(product, 'developer')).status, 204)
    assert.equal((await ask(product, 'developer')).status, 404)
  })
})

/** Folders of the machine, errors of the system, patterns and wordings of libraries, stacks. */
const INSIDE = [
  /file:\/\/\/|\/(?:tmp|home|root|var|usr)\//,
  /node_modules|\bat [\w.]+ \(|\.ts:\d/,
  /\bE(?:NOENT|ACCES|PERM|NOSPC|ADDRINUSE|CONNREFUSED|CONNRESET|NOTFOUND|EXIST|INVAL)\b/,
  /must (?:NOT|not have|match)\b|must be (?:string|object|array|integer|number|boolean)\b|oneOf|anyOf|\^\[|\)\$/,
  /sluice_(?:registry|serving|store|partitions)/,
]

function checkInside(where: string, body: unknown): void {
  const text = typeof body === 'string' ? body : JSON.stringify(body ?? null)
  for (const pattern of INSIDE) assert.doesNotMatch(text, pattern, where)
}

/** Every refusal has the one shape, and names nothing of the inside. */
function checkProblem(operation: Operation, { status, headers, body }: Answer): void {
  const where = `${operation.id} ${status}`
  assert.match(headers.get('content-type') ?? '', /^application\/problem\+json/, where)
  for (const name of ['type', 'title', 'detail', 'instance', 'code', 'request_id', 'remedy']) {
    assert.equal(typeof body[name], 'string', `${where}: ${name}`)
  }
  assert.equal(body.status, status, where)
  assert.equal(body.request_id, headers.get('x-request-id'), where)
  if (status === 401) assert.match(headers.get('www-authenticate') ?? '', /^Bearer /, where)
  assert.doesNotMatch(JSON.stringify(body), /\bat .*\.ts|node_modules|select .* from |\/data\//i, where)
}
