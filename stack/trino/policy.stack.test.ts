/**
 * People who log in to Trino itself meet the tenants, classifications and masks of the REST API. The runtime answers
 * what the real Trino asks; every product, grant and token comes about over HTTP.
 */
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { mkdtemp, readdir, rm } from 'node:fs/promises'
import type { IncomingMessage } from 'node:http'
import { Agent, request } from 'node:https'
import { tmpdir } from 'node:os'
import { join, relative, sep } from 'node:path'
import { after, before, describe, test } from 'node:test'
import pg from 'pg'
import { Client, manifests } from '../../acceptance/client.ts'
import { type Deployment, openDeployment } from '../../acceptance/deployment.ts'
import { createLakeCatalog } from '../servers/governed-trino.ts'
import { TrinoError, trinoRows } from './rows.ts'

const suffix = Date.now().toString(36)
const [ALPHA, BETA] = [`alpha${suffix}`, `beta${suffix}`]
const trinoUrl = process.env['SLUICE_TEST_GOVERNED_TRINO_URL'] as string
const policyUrl = process.env['SLUICE_TEST_TRINO_POLICY_URL'] as string

let deployment: Deployment
let admin: Client
let developer: Client
let viewer: Client
const tokens: Record<string, string> = {}

async function login(name: string, flags: readonly string[]): Promise<Client> {
  tokens[name] = await deployment.token(flags)
  return new Client(deployment.url, tokens[name] as string)
}

const person = (name: string, tenant: string, group = 'svc-viewers') =>
  login(name, ['--tenant', tenant, '--group', group, '--user', name])

/** What the named person gets from Trino. */
function ask(name: string, sql: string): Promise<readonly (readonly unknown[])[]> {
  return trinoRows({ url: trinoUrl, token: tokens[name] as string }, sql)
}

/** Trino's name of the refusal. */
async function refusal(name: string, sql: string): Promise<string> {
  const rows = await ask(name, sql).catch((error: unknown) => error)
  if (rows instanceof TrinoError) return rows.code
  throw new Error(`${name} was not refused: ${sql}`, { cause: rows })
}

const DENIED = 'PERMISSION_DENIED'

before(async () => {
  deployment = await openDeployment()
  admin = await login('admin', ['--role', 'admin'])
  developer = await person('dora', ALPHA, 'svc-developers')
  viewer = await person('vito', ALPHA)
  await person('clara', ALPHA)
  await person('noah', ALPHA, 'nobodies')
  const other = await person('olga', BETA, 'svc-developers')
  const source = new pg.Client(deployment.source)
  await source.connect()
  await source.query(`DROP TABLE IF EXISTS trino_people, trino_staff;
    CREATE TABLE trino_people (id integer PRIMARY KEY, email text, city text);
    INSERT INTO trino_people SELECT i, 'p' || i || '@people.test', 'city ' || i % 3 FROM generate_series(1, 20) i;
    CREATE TABLE trino_staff (LIKE trino_people INCLUDING ALL);
    INSERT INTO trino_staff SELECT * FROM trino_people`)
  await source.end()
  for (const slug of [ALPHA, BETA]) {
    const created = await admin.post('/api/v1/tenants', { slug, display_name: slug, tier: 'standard' })
    assert.equal(created.status, 201, JSON.stringify(created.body))
    const lake = [process.env['SLUICE_TEST_TRINO_LAKE_URL'], process.env['SLUICE_TEST_TRINO_LAKE_FOLDER']] as [
      string,
      string,
    ]
    await ask('admin', createLakeCatalog(slug, ...lake))
  }
  for (const owner of [developer, other]) await onboard(owner, 'people', 'internal')
  await onboard(developer, 'wages', 'confidential')
  await grant('people', 'clara', ['pii.identifier'])
})

after(async () => {
  for (const tenant of [ALPHA, BETA]) {
    await ask('admin', `DROP CATALOG lakehouse_${tenant}`).catch(() => undefined)
    await admin?.send(`/api/v1/tenants/${tenant}?confirm=${tenant}`, { method: 'DELETE' })
  }
  await deployment?.stop()
})

interface OwnSource {
  readonly table: string
  readonly columns: string
}

/** Of a table of its own: a class that is raised for a source's column reaches the products that were made of it before. */
const TWO_CLASSES: OwnSource = {
  table: 'public.trino_staff',
  columns: `  - { name: id, type: integer, role: identity, nullable: false }
  - { name: email, type: string, classification: pii.identifier }
  - { name: city, type: string, classification: pii.contact }
`,
}

/** Tables in the lake's folder: the product's and its copies. */
/** Those with files: of a table that is gone the empty folder may stay. */
async function tablesOf(product: string): Promise<readonly string[]> {
  const lake = process.env['SLUICE_TEST_TRINO_LAKE_FOLDER'] as string
  const folder = join(lake, `sluice-${ALPHA}`, ALPHA, 'crm')
  const entries = await readdir(folder, { recursive: true, withFileTypes: true })
  const files = entries.filter((entry) => !entry.isDirectory()).map((entry) => relative(folder, entry.parentPath))
  const names = new Set(files.map((path) => path.split(sep)[0] ?? ''))
  return [...names].filter((name) => name === product || name.startsWith(`${product}__`))
}

async function synced(client: Client): Promise<void> {
  const run = await client.untilEnded((await client.post('/api/v1/connections/db/sync')).body.id)
  assert.equal(run.state, 'succeeded', JSON.stringify(run))
}

async function onboard(client: Client, name: string, classification: string, own?: OwnSource): Promise<void> {
  const { host, port, user, password, database } = deployment.source
  const config = JSON.stringify({ host, port, user, password, database, ssl_mode: 'prefer' })
  await client.post('/api/v1/connections', { name: 'db', connector_type: 'postgresql', config_encrypted: config })
  const product = await client.post('/api/v1/products', { name, namespace: 'crm', archetype: 'source_aligned' })
  const files = manifests(own?.table ?? 'public.trino_people', {
    endpoints: '  - type: analytics\n',
    ...(own === undefined ? {} : { columns: own.columns }),
  })
  const renamed = files.product.replace('name: people', `name: ${name}`)
  const uploaded = await client.upload(`/api/v1/products/${product.body.id}/manifests`, {
    ...files,
    product: `${renamed}classification: ${classification}\n`,
  })
  assert.equal(uploaded.status, 200, JSON.stringify(uploaded.body))
  const deployed = await client.post(`/api/v1/products/${product.body.id}/deploy`, { version: '1.0.0', dry_run: false })
  assert.equal(deployed.status, 201, JSON.stringify(deployed.body))
  await synced(client)
}

/** The next version, with another line for the column of that name. */
async function onboardAgain(name: string, column: string): Promise<number> {
  const files = manifests('public.trino_people', { endpoints: '  - type: analytics\n' })
  const output = files.output.replace(/ *- \{ name: city.*\n/, column)
  assert.notEqual(output, files.output)
  const product = `${files.product}classification: internal\n`
  const uploaded = await developer.upload(`/api/v1/products/${name}/manifests`, { ...files, product, output })
  assert.equal(uploaded.status, 200, JSON.stringify(uploaded.body))
  return (await developer.post(`/api/v1/products/${name}/deploy`, { version: '2.0.0', dry_run: false })).status
}

async function grant(product: string, user: string, classes: readonly string[]): Promise<string> {
  const body = { subject: { user }, ...(classes.length > 0 ? { may: 'unmask', classes } : { may: 'read' }) }
  const granted = await developer.post(`/api/v1/products/${product}/grants`, body)
  assert.equal(granted.status, 201, JSON.stringify(granted.body))
  return granted.body.id
}

const table = (name: string, tenant = ALPHA): string => `lakehouse_${tenant}.crm.${name}`

async function overRest(client: Client, name: string): Promise<readonly (readonly unknown[])[]> {
  const { body } = await client.post('/api/v1/query', { sql: `SELECT id, email, city FROM crm.${name} ORDER BY id` })
  return body.rows
}

describe('a person who logs in to Trino', () => {
  test('needs a token of the issuer, and stays the one that it names', async () => {
    for (const token of ['nonsense', `${tokens['vito']}x`]) {
      const code = await trinoRows({ url: trinoUrl, token }, 'SELECT 1').catch((error: TrinoError) => error.code)
      assert.equal(code, 'HTTP_401')
    }
    const user = JSON.stringify({ subject: 'clara', tenant: ALPHA, groups: ['svc-viewers'] })
    await assert.rejects(trinoRows({ url: trinoUrl, token: tokens['vito'] as string, user }, 'SELECT 1'))
    assert.deepEqual(await ask('vito', 'SELECT 1'), [[1]])
  })

  test('meets the catalog of the own tenant and no other', async () => {
    assert.deepEqual((await ask('vito', 'SHOW CATALOGS')).flat(), [`lakehouse_${ALPHA}`, 'system'])
    assert.equal(await refusal('vito', `SELECT * FROM ${table('people__masked', BETA)}`), DENIED)
    assert.equal(await refusal('vito', `SHOW SCHEMAS FROM lakehouse_${BETA}`), DENIED)
    const known = await ask('vito', 'SELECT DISTINCT table_cat FROM system.jdbc.tables')
    assert.ok(!known.flat().includes(`lakehouse_${BETA}`))
  })

  test('reads the same masks as over REST, and not what they hide', async () => {
    const masked = await ask('vito', `SELECT id, email, city FROM ${table('people__masked')} ORDER BY id`)
    assert.deepEqual(masked, await overRest(viewer, 'people'))
    assert.ok(!JSON.stringify(masked).includes('@people.test'))
    assert.equal(await refusal('vito', `SELECT id FROM ${table('people')}`), DENIED)
    assert.equal(
      await refusal('vito', `SELECT count(*) FROM ${table('people')} WHERE email = 'p7@people.test'`),
      DENIED,
    )
    assert.deepEqual((await ask('vito', `SHOW TABLES FROM lakehouse_${ALPHA}.crm`)).flat(), ['people__masked'])
    const described = `SELECT table_name FROM lakehouse_${ALPHA}.information_schema.columns WHERE table_schema = 'crm'`
    assert.deepEqual([...new Set((await ask('vito', described)).flat())], ['people__masked'])
  })

  test('is told of each column its class, and of a twin how it masks it', async () => {
    const told = async (name: string, of: string) =>
      Object.fromEntries((await ask(name, `DESCRIBE ${table(of)}`)).map(([column, , , comment]) => [column, comment]))
    const clear = { id: 'class public', email: 'class pii.identifier', city: 'class public' }
    assert.deepEqual(await told('vito', 'people__masked'), { ...clear, email: `${clear.email}; masked: hash` })
    assert.deepEqual(await told('clara', 'people'), clear)
    assert.equal(await refusal('vito', `DESCRIBE ${table('people')}`), DENIED)
  })

  test('reads in clear with a grant, as long as it stands', async () => {
    const clear = await ask('clara', `SELECT id, email, city FROM ${table('people')} ORDER BY id`)
    assert.deepEqual(clear[6], [7, 'p7@people.test', 'city 1'])
    const id = await grant('people', 'vito', ['pii.identifier'])
    await until(async () => (await ask('vito', `SELECT email FROM ${table('people')} WHERE id = 7`))[0]?.[0] !== null)
    await developer.send(`/api/v1/products/people/grants/${id}`, { method: 'DELETE' })
    await until(async () => (await refusal('vito', `SELECT email FROM ${table('people')}`)) === DENIED)
  })

  test('meets the classification of the product', async () => {
    for (const name of ['vito', 'noah']) {
      assert.equal(await refusal(name, `SELECT * FROM ${table('wages__masked')}`), DENIED)
      assert.equal(await refusal(name, `SELECT * FROM ${table('wages')}`), DENIED)
    }
    assert.equal(await refusal('noah', `SELECT * FROM ${table('people__masked')}`), DENIED)
    await grant('wages', 'vito', [])
    await until(async () => (await ask('vito', `SELECT * FROM ${table('wages__masked')}`)).length === 20)
  })

  test('finds nothing of a deleted product, nor of copies that were made for grants', async () => {
    await onboard(developer, 'staff', 'internal', TWO_CLASSES)
    const id = await grant('staff', 'vito', ['pii.contact'])
    await synced(developer)
    const copyOf = async () => (await tablesOf('staff')).find((name) => name.startsWith('staff__masked_')) ?? 'none'
    await until(async () => (await copyOf()) !== 'none')
    const copy = await copyOf()
    const city = `SELECT city FROM ${table(copy)} WHERE id = 7`
    await until(async () => (await ask('vito', city).catch(() => []))[0]?.[0] === 'city 1')
    const [[then]] = (await ask('admin', `SELECT to_iso8601(current_timestamp)`)) as [[string]]
    await developer.send(`/api/v1/products/staff/grants/${id}`, { method: 'DELETE' })
    await synced(developer)
    await until(async () => (await refusal('vito', city)) === DENIED)
    const deleted = await developer.send('/api/v1/products/staff', { method: 'DELETE' })
    assert.equal(deleted.status, 204, JSON.stringify(deleted.body))
    assert.deepEqual(await tablesOf('staff'), [])
    // Another of the same name, with the same grant, has a copy of the same name.
    await onboard(developer, 'staff', 'internal', TWO_CLASSES)
    await grant('staff', 'vito', ['pii.contact'])
    await synced(developer)
    await until(async () => (await ask('vito', city).catch(() => []))[0]?.[0] === 'city 1')
    const past = `SELECT * FROM ${table(copy)} FOR TIMESTAMP AS OF from_iso8601_timestamp('${then}')`
    assert.notEqual(await refusal('vito', past), DENIED, 'it is there, without that past')
  })

  test('gets nothing but reading', async () => {
    const readable = table('people__masked')
    for (const sql of [
      ...['snapshots', 'files', 'history', 'manifests', 'partitions', 'properties', 'refs', 'metadata_log_entries'].map(
        (hidden) => `SELECT * FROM lakehouse_${ALPHA}.crm."people__masked$${hidden}"`,
      ),
      `SHOW CREATE TABLE ${readable}`,
      `CREATE TABLE lakehouse_${ALPHA}.crm.copy AS SELECT * FROM ${readable}`,
      `CREATE SCHEMA lakehouse_${ALPHA}.mine`,
      `CREATE VIEW lakehouse_${ALPHA}.crm.v AS SELECT * FROM ${readable}`,
      `INSERT INTO ${readable} SELECT * FROM ${readable}`,
      `DELETE FROM ${readable}`,
      `UPDATE ${readable} SET city = 'x'`,
      `TRUNCATE TABLE ${readable}`,
      `DROP TABLE ${readable}`,
      `ALTER TABLE ${readable} RENAME TO gone`,
      `ALTER TABLE ${readable} EXECUTE optimize`,
      `CALL lakehouse_${ALPHA}.system.register_table('crm', 'x', 'file:///etc')`,
      `CALL lakehouse_${ALPHA}.system.rollback_to_snapshot('crm', 'people__masked', 1)`,
      `CALL system.runtime.kill_query('x', 'y')`,
      `SELECT * FROM TABLE(lakehouse_${ALPHA}.system.table_changes('crm', 'people__masked', 1, 2))`,
      'SELECT * FROM system.runtime.nodes',
      'SELECT * FROM system.runtime.tasks',
      'SELECT * FROM system.metadata.catalogs',
      "SET SESSION query_max_run_time = '1h'",
      'CREATE CATALOG mine USING tpch',
      `DROP CATALOG lakehouse_${ALPHA}`,
      'CREATE ROLE r',
      `GRANT SELECT ON ${readable} TO USER x`,
    ]) {
      const code = await refusal('vito', sql)
      // Some are refused before Trino asks: the catalog knows no such thing.
      assert.ok([DENIED, 'NOT_SUPPORTED', 'FUNCTION_NOT_FOUND', 'TABLE_NOT_FOUND'].includes(code), `${sql}: ${code}`)
    }
    assert.equal((await ask('vito', `SELECT * FROM ${readable}`)).length, 20, 'nothing of it had an effect')
  })

  test('sees the own statements only', async () => {
    await ask('clara', `SELECT 'a statement of Clara''s' FROM ${table('people')}`)
    const seen = (await ask('vito', 'SELECT query FROM system.runtime.queries')).flat().join('\n')
    assert.ok(seen.includes('people__masked'))
    assert.ok(!seen.includes('Clara'))
  })
})

describe('the policy endpoint', () => {
  const question = (operation: string, more: object = {}, user = person0()) => ({
    input: { context: { identity: { user, groups: [] } }, action: { operation, ...more } },
  })
  const person0 = () => JSON.stringify({ subject: 'vito', tenant: ALPHA, groups: ['svc-viewers'] })
  const column = (columnName: string, columnType = 'varchar', tableName = 'people') => ({
    column: { catalogName: `lakehouse_${ALPHA}`, schemaName: 'crm', tableName, columnName, columnType },
  })

  const own = readFileSync(process.env['SLUICE_TEST_TRINO_POLICY_CERTIFICATE'] as string)
  const ca = readFileSync(process.env['SLUICE_TEST_TRINO_POLICY_TRUSTED'] as string)

  function put(path: string, body: unknown, login: object = { key: own, cert: own }) {
    return new Promise<{ readonly status: number; readonly body: { readonly result?: unknown } }>((resolve, reject) => {
      const asking = request(`${policyUrl}/${path}`, { method: 'POST', ca, agent: false, ...login }, async (answer) => {
        const text = Buffer.concat(await Array.fromAsync(answer as AsyncIterable<Buffer>)).toString()
        resolve({ status: answer.statusCode as number, body: JSON.parse(text) })
      })
      asking.once('error', reject)
      asking.end(JSON.stringify(body))
    })
  }

  test('answers to whoever shows the right certificate only', async () => {
    await assert.rejects(put('allow', question('ExecuteQuery'), {}))
    const folder = await mkdtemp(join(tmpdir(), 'sluice-other-'))
    const fresh = [
      'req',
      '-x509',
      '-newkey',
      'ec',
      '-pkeyopt',
      'ec_paramgen_curve:P-256',
      '-nodes',
      '-subj',
      '/CN=trino',
    ]
    execFileSync('openssl', [...fresh, '-keyout', `${folder}/key`, '-out', `${folder}/cert`], { stdio: 'ignore' })
    const other = { key: readFileSync(`${folder}/key`), cert: readFileSync(`${folder}/cert`) }
    await assert.rejects(put('allow', question('ExecuteQuery'), other))
    await rm(folder, { recursive: true })
    assert.deepEqual(await put('allow', question('ExecuteQuery')), { status: 200, body: { result: true } })
  })

  /** Its client closes what was idle for a minute; where the other side is first, a statement fails. */
  test('keeps an idle connection for longer than Trino does', async () => {
    const agent = new Agent({ keepAlive: true })
    const asking = request(`${policyUrl}/allow`, { method: 'POST', ca, agent, key: own, cert: own })
    const answered = once(asking, 'response')
    asking.end(JSON.stringify(question('ExecuteQuery')))
    const [answer] = (await answered) as [IncomingMessage]
    answer.resume()
    const idleS = Number(/timeout=(\d+)/.exec(String(answer.headers['keep-alive']))?.[1])
    agent.destroy()
    assert.ok(idleS > 60, `${idleS} s`)
  })

  test('refuses what it does not know', async () => {
    for (const operation of ['ImpersonateUser', 'ReadSystemInformation', 'DropTable', 'SomethingNew', 'toString']) {
      assert.deepEqual((await put('allow', question(operation))).body, { result: false }, operation)
    }
    for (const nobody of [
      'vito',
      '{"subject":"x","admin":true,"tenant":"a"}',
      '{"subject":"x","tenant":"A","groups":[]}',
    ]) {
      assert.deepEqual((await put('allow', question('ExecuteQuery', {}, nobody))).body, { result: false })
    }
    assert.equal((await put('allow', { input: {} })).status, 500)
    assert.equal((await put('nothing', question('ExecuteQuery'))).status, 404)
  })

  test('gives every column that is hidden an expression, or no answer', async () => {
    const filterResources = [column('id', 'integer'), column('email'), column('city', 'varchar(10)')]
    const asked = await put('column-masks', question('GetColumnMask', { filterResources }))
    assert.deepEqual(asked.body.result, [
      { index: 0, viewExpression: { expression: 'CAST(NULL AS integer)' } },
      { index: 1, viewExpression: { expression: 'CAST(NULL AS varchar)' } },
      { index: 2, viewExpression: { expression: 'CAST(NULL AS varchar(10))' } },
    ])
    const readable = [column('email', 'varchar', 'people__masked')]
    const open = await put('column-masks', question('GetColumnMask', { filterResources: readable }))
    assert.deepEqual(open.body.result, [])
    for (const strange of [{ table: {} }, column('email', "varchar) OR ('x' = 'x'"), column('email', 'a) OR (b')]) {
      const broken = question('GetColumnMask', { filterResources: [column('email'), strange] })
      assert.equal((await put('column-masks', broken)).status, 500)
    }
  })

  test('lets no row of a table pass that may not be read', async () => {
    const of = (tableName: string) =>
      question('GetRowFilters', {
        resource: { table: { catalogName: `lakehouse_${ALPHA}`, schemaName: 'crm', tableName } },
      })
    assert.deepEqual((await put('row-filters', of('people'))).body.result, [{ expression: 'false' }])
    assert.deepEqual((await put('row-filters', of('people__masked'))).body.result, [])
  })
})

describe('a statement whose rows are being fetched', () => {
  test('ends with its token, its grant, the class that it was read under, and the tenant, and others go on', async () => {
    await person('petra', ALPHA)
    const wages = await grant('wages', 'petra', [])
    await until(async () => (await ask('petra', `SELECT * FROM ${table('wages__masked')}`)).length === 20)
    tokens['tina'] = await deployment.token([
      ...['--tenant', ALPHA, '--group', 'svc-viewers', '--user', 'tina', '--ttl', '20s'],
    ])
    const open = {
      token: await fetching('tina', table('people__masked')),
      grant: await fetching('petra', table('wages__masked')),
      tenant: await fetching('olga', table('people__masked', BETA)),
      stands: await fetching('clara', table('people')),
    }
    await developer.send(`/api/v1/products/wages/grants/${wages}`, { method: 'DELETE' })
    assert.equal(await endOf(open.grant), ENDED)
    assert.equal(await endOf(open.token), ENDED)
    const deleted = await admin.send(`/api/v1/tenants/${BETA}?confirm=${BETA}`, { method: 'DELETE' })
    assert.ok(deleted.status < 300)
    assert.equal(await endOf(open.tenant), ENDED)
    assert.equal(await open.stands.next(), null, 'rights that stand')
    const raised = await onboardAgain('people', '  - { name: city, type: string, classification: pii.contact }\n')
    assert.equal(raised, 201)
    // What Clara may see in clear is less than what she reads.
    assert.equal(await endOf(open.stands), ENDED)
  })

  test('is on the account of its tenant, which is refused more when its CPU time is used up', async () => {
    const { text } = await admin.text('/metrics')
    assert.match(text, /^sluice_cpu_seconds_total\{process="trino"\} (?!0$)/m)
    const patch = { method: 'PATCH', headers: { 'content-type': 'application/json' }, body: '{"tier":"free"}' }
    assert.equal((await admin.send(`/api/v1/tenants/${ALPHA}`, patch)).status, 200)
    // However quick the processor is, it takes longer for this than the second that the tier has.
    const sql = 'SELECT count(*) FROM UNNEST(sequence(1, 10000)) AS a (i), UNNEST(sequence(1, 10000)) AS b (i)'
    await until(async () => (await refusal('vito', sql)) === DENIED)
    const { body } = await viewer.post('/api/v1/query', { sql: 'SELECT 1 AS one' })
    assert.equal(body.code, 'cpu_time_spent')
  })
})

/** A statement whose rows are fetched page by page, and never all. */
interface Fetching {
  /** Null while there are rows; else Trino's name of what ended it. */
  next(): Promise<string | null>
}

/** Resolves when rows have come. */
async function fetching(name: string, relation: string): Promise<Fetching> {
  const headers = { authorization: `Bearer ${tokens[name]}` }
  const sql = `SELECT * FROM ${relation}, UNNEST(sequence(1, 10000)) AS a (i), UNNEST(sequence(1, 1000)) AS b (i)`
  const pageOf = async (answer: Response) => {
    const page = (await answer.json()) as { nextUri?: string; data?: readonly unknown[]; error?: { errorName: string } }
    next = page.nextUri
    return page
  }
  let next: string | undefined
  let page = await pageOf(await fetch(`${trinoUrl}/v1/statement`, { method: 'POST', body: sql, headers }))
  while (page.data === undefined || page.data.length === 0) {
    assert.ok(next !== undefined && page.error === undefined, `${name}: ${JSON.stringify(page.error)}`)
    page = await pageOf(await fetch(next, { headers }))
  }
  return {
    async next() {
      if (next === undefined) return 'no page is left'
      return (await pageOf(await fetch(next, { headers }))).error?.errorName ?? null
    },
  }
}

const ENDED = 'ADMINISTRATIVELY_KILLED'
const TRIES = 120

/** By whoever has fetched rows until then. */
async function endOf(statement: Fetching): Promise<string> {
  for (let attempt = 0; attempt < TRIES; attempt += 1) {
    const ended = await statement.next()
    if (ended !== null) return ended
    await new Promise((resolve) => setTimeout(resolve, 250))
  }
  return 'it goes on'
}

async function until(holds: () => Promise<boolean>): Promise<void> {
  for (let attempt = 0; attempt < 1_500; attempt += 1) {
    if (await holds().catch(() => false)) return
    await new Promise((resolve) => setTimeout(resolve, 200))
  }
  throw new Error('it did not come about')
}
