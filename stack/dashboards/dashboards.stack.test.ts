/**
 * People who log in to Superset meet the tenants, classes and masks of the REST API. The runtime makes everything there
 * from a product's manifests; people's roles are those that it made.
 */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import pg from 'pg'
import { Client, manifests } from '../../acceptance/client.ts'
import { type Deployment, openDeployment } from '../../acceptance/deployment.ts'
import type { SupersetSession } from '../../plugins/dashboard/superset/client.ts'
import { chartRows, listed, operator, person, refusal } from './people.ts'

// biome-ignore lint/suspicious/noExplicitAny: answers are checked where they are used
type Json = any

const suffix = Date.now().toString(36)
const [ALPHA, BETA] = [`alpha${suffix}`, `beta${suffix}`]
const VISUALIZATION = 'visualization: { enabled: true, dashboard_template: overview, refresh_interval: 15m }\n'
const KINDS = ['database', 'dataset', 'chart', 'dashboard', 'rowlevelsecurity', 'security/roles'] as const

let deployment: Deployment
let admin: Client
let superset: SupersetSession
/** Clears the developers of one tenant. */
let grant: string
const developers = new Map<string, Client>()
const people: Record<string, SupersetSession> = {}

const developerOf = (tenant: string) => developers.get(tenant) as Client
const asAdminOf = (tenant: string) => ({ 'x-tenant-id': tenant })

before(async () => {
  deployment = await openDeployment()
  admin = new Client(deployment.url, await deployment.token(['--role', 'admin']))
  superset = await operator()
  const source = new pg.Client(deployment.source)
  await source.connect()
  await source.query(`DROP TABLE IF EXISTS shown_people;
    CREATE TABLE shown_people (id integer PRIMARY KEY, email text, city text);
    INSERT INTO shown_people SELECT i, 'p' || i || '@people.test', 'city ' || i % 3 FROM generate_series(1, 20) i`)
  await source.end()
  for (const tenant of [ALPHA, BETA]) {
    const created = await admin.post('/api/v1/tenants', { slug: tenant, display_name: tenant, tier: 'standard' })
    assert.equal(created.status, 201, JSON.stringify(created.body))
    const flags = ['--tenant', tenant, '--group', 'svc-developers', '--user', `dora-${tenant}`]
    developers.set(tenant, new Client(deployment.url, await deployment.token(flags)))
    await onboard(tenant)
  }
  const granted = await grantDevelopers()
  assert.equal(granted.status, 201, JSON.stringify(granted.body))
  grant = granted.body.id
  for (const tenant of [ALPHA, BETA]) await untilOk(tenant)
  people['viewer'] = await person(`viewer-${suffix}`, ['Gamma', `sluice:${ALPHA}:team:svc-viewers`])
  people['developer'] = await person(`developer-${suffix}`, ['Gamma', `sluice:${ALPHA}:team:svc-developers`])
  people['stranger'] = await person(`stranger-${suffix}`, ['Gamma', `sluice:${BETA}:team:svc-viewers`])
  people['analyst'] = await person(`analyst-${suffix}`, ['Alpha'])
})

after(async () => {
  for (const tenant of [ALPHA, BETA])
    await admin?.send(`/api/v1/tenants/${tenant}?confirm=${tenant}`, { method: 'DELETE' })
  await deployment?.stop()
})

function grantDevelopers() {
  const body = { subject: { team: 'svc-developers' }, may: 'unmask', classes: ['*'] }
  return admin.post('/api/v1/products/people/grants', body, asAdminOf(ALPHA))
}

async function onboard(tenant: string): Promise<void> {
  const client = developerOf(tenant)
  const { host, port, user, password, database } = deployment.source
  const config = JSON.stringify({ host, port, user, password, database, ssl_mode: 'prefer' })
  await client.post('/api/v1/connections', { name: 'db', connector_type: 'postgresql', config_encrypted: config })
  await client.post('/api/v1/products', { name: 'people', namespace: 'crm', archetype: 'source_aligned' })
  assert.equal((await upload(client, VISUALIZATION)).status, 200)
  await deploy(tenant, '1.0.0')
  const run = await client.untilEnded((await client.post('/api/v1/connections/db/sync')).body.id)
  assert.equal(run.state, 'succeeded', JSON.stringify(run))
}

function upload(client: Client, visualization: string) {
  const files = manifests('public.shown_people', { endpoints: '  - type: lookup\n' })
  return client.upload('/api/v1/products/people/manifests', { ...files, serving: `${files.serving}${visualization}` })
}

async function deploy(tenant: string, version: string): Promise<void> {
  const deployed = await developerOf(tenant).post('/api/v1/products/people/deploy', { version, dry_run: false })
  assert.equal(deployed.status, 201, JSON.stringify(deployed.body))
}

const detail = async (tenant: string): Promise<Json> => (await developerOf(tenant).get('/api/v1/products/people')).body

async function until<T>(what: string, look: () => Promise<T | null>): Promise<T> {
  const deadline = Date.now() + 240_000
  while (Date.now() < deadline) {
    const found = await look()
    if (found !== null) return found
    await new Promise((resolve) => setTimeout(resolve, 250))
  }
  throw new Error(`it did not come about: ${what}`)
}

function untilOk(tenant: string): Promise<Json> {
  return until('dashboards that are up to date', async () => {
    const { dashboards } = await detail(tenant)
    return dashboards?.state === 'ok' && dashboards.links.length > 0 ? dashboards : null
  })
}

/** The number of a dataset of the tenant's product. */
async function datasetOf(tenant: string, variant: 'clear' | 'masked'): Promise<number> {
  const all = await listed(superset, 'dataset')
  const found = all.filter(({ database }) => database.database_name.startsWith(`${tenant} crm.people ${variant} `))
  assert.equal(found.length, 1, JSON.stringify(all))
  return found[0].id
}

async function overRest(): Promise<readonly Json[]> {
  const flags = ['--tenant', ALPHA, '--group', 'svc-viewers', '--user', 'vito']
  const viewer = new Client(deployment.url, await deployment.token(flags))
  const { body } = await viewer.post('/api/v1/query', { sql: 'SELECT email FROM crm.people ORDER BY id' })
  return body.rows.map(([email]: readonly Json[]) => email)
}

const idsOf = async (session: SupersetSession, kind: string): Promise<readonly number[]> =>
  (await listed(session, kind)).map((one) => one.id as number).sort()

async function snapshot(): Promise<Record<string, readonly number[]>> {
  const entries: [string, readonly number[]][] = []
  for (const kind of KINDS) entries.push([kind, await idsOf(superset, kind)])
  return Object.fromEntries(entries)
}

describe('a product with the block visualization', () => {
  test('has a dataset for each clearance, and a dashboard that renews itself', async () => {
    const { links } = await untilOk(ALPHA)
    assert.deepEqual(links.map((link: Json) => link.variant).sort(), ['clear', 'masked'])
    for (const { url } of links) {
      const slug = new URL(url).pathname.split('/').at(-2)
      const { result } = (await superset.get(`/api/v1/dashboard/${slug}`)) as Json
      assert.equal(JSON.parse(result.json_metadata).refresh_frequency, 900)
      assert.equal(result.published, true)
      const { result: charts } = (await superset.get(`/api/v1/dashboard/${slug}/charts`)) as Json
      assert.equal(charts.length, 2)
    }
    const { result } = (await superset.get(`/api/v1/dataset/${await datasetOf(ALPHA, 'clear')}`)) as Json
    assert.equal(result.cache_timeout, 900)
    assert.equal((await untilOk(BETA)).links.length, 1, 'nobody of the other tenant is cleared')
  })

  test('shows a viewer the masks of the REST API, and not what they hide', async () => {
    const viewer = people['viewer'] as SupersetSession
    const masked = await chartRows(viewer, await datasetOf(ALPHA, 'masked'))
    assert.equal(masked.length, 20)
    assert.ok(!JSON.stringify(masked).includes('@people.test'))
    assert.deepEqual(
      masked.map((row) => row.email),
      await overRest(),
    )
    assert.equal(await refusal(chartRows(viewer, await datasetOf(ALPHA, 'clear'))), 403)
    const filtered = { filters: [{ col: 'email', op: '==', val: 'p7@people.test' }] }
    assert.deepEqual(await chartRows(viewer, await datasetOf(ALPHA, 'masked'), filtered), [])
    assert.deepEqual(await idsOf(viewer, 'dataset'), [await datasetOf(ALPHA, 'masked')])
    assert.equal((await listed(viewer, 'dashboard')).length, 1)
  })

  test('shows a cleared developer the values', async () => {
    const rows = await chartRows(people['developer'] as SupersetSession, await datasetOf(ALPHA, 'clear'))
    assert.equal(rows.length, 20)
    assert.deepEqual(rows[6], { id: 7, email: 'p7@people.test', city: 'city 1' })
  })

  test('is not there for another tenant', async () => {
    const stranger = people['stranger'] as SupersetSession
    for (const variant of ['clear', 'masked'] as const) {
      const id = await datasetOf(ALPHA, variant)
      assert.equal(await refusal(chartRows(stranger, id)), 403)
      assert.equal(await stranger.get(`/api/v1/dataset/${id}`).catch(() => null), null)
    }
    assert.equal((await chartRows(stranger, await datasetOf(BETA, 'masked'))).length, 20)
    assert.equal((await listed(stranger, 'dataset')).length, 1)
    assert.equal((await listed(stranger, 'dashboard')).length, 1)
  })

  test('gives no row to whoever comes by the dataset in another way', async () => {
    const analyst = people['analyst'] as SupersetSession
    for (const variant of ['clear', 'masked'] as const) {
      assert.deepEqual(await chartRows(analyst, await datasetOf(ALPHA, variant)), [])
    }
  })

  test('opens no way to SQL', async () => {
    const databases = await listed(superset, 'database')
    for (const name of ['viewer', 'developer', 'stranger', 'analyst']) {
      const session = people[name] as SupersetSession
      for (const { id } of databases) {
        const statement = { database_id: id, sql: 'select 1', client_id: `c${suffix.slice(-6)}${id}`, runAsync: false }
        assert.equal(await refusal(session.send('POST', '/api/v1/sqllab/execute/', statement)), 403, name)
      }
    }
    const clear = (await superset.get(`/api/v1/dataset/${await datasetOf(ALPHA, 'clear')}`)) as Json
    const hidden = `"${clear.result.schema}"."${clear.result.table_name}"`
    for (const sqlExpression of [
      `(select max(email) from ${hidden})`,
      `max((table ${hidden}))`,
      `query_to_xml('table ${hidden}', true, true, '')`,
    ]) {
      const metric = { expressionType: 'SQL', sqlExpression, label: 'x' }
      const asked = chartRows(people['viewer'] as SupersetSession, await datasetOf(ALPHA, 'masked'), {
        ...{ columns: [], orderby: [], metrics: [metric] },
      })
      assert.ok((await refusal(asked)) >= 400, sqlExpression)
    }
  })

  test('is deployed again without anything twice', async () => {
    const before = await snapshot()
    assert.equal((await upload(developerOf(ALPHA), VISUALIZATION.replace('15m', '5m'))).status, 200)
    await deploy(ALPHA, '1.0.1')
    await untilOk(ALPHA)
    assert.deepEqual(await snapshot(), before)
    const { result } = (await superset.get(`/api/v1/dataset/${await datasetOf(ALPHA, 'clear')}`)) as Json
    assert.equal(result.cache_timeout, 300)
    assert.equal((await chartRows(people['developer'] as SupersetSession, result.id)).length, 20)
  })

  test('is refused where nothing could be made of it', async () => {
    const asked = VISUALIZATION.replace('overview', '"x; drop table dashboards"')
    const { status, body } = await upload(developerOf(ALPHA), asked)
    assert.equal(status, 422)
    assert.equal(body.code, 'manifests_invalid')
    assert.match(JSON.stringify(body.errors), /there is no dashboard template/)
  })

  test('is deployed while the dashboard server hangs, and shown when it is back', async () => {
    const group = -Number(process.env['SLUICE_TEST_SUPERSET_GROUP'])
    process.kill(group, 'SIGSTOP')
    try {
      await upload(developerOf(ALPHA), VISUALIZATION)
      await deploy(ALPHA, '1.0.2')
      const failed = await until('a failure that is told', async () => {
        const { dashboards } = await detail(ALPHA)
        return dashboards.state === 'failed' ? dashboards : null
      })
      assert.equal(failed.error.code, 'dashboards_unavailable')
      assert.match(failed.error.remedy, /dashboards\.url/)
    } finally {
      process.kill(group, 'SIGCONT')
    }
    await untilOk(ALPHA)
  })

  test('follows a grant that is taken back', async () => {
    const clear = await datasetOf(ALPHA, 'clear')
    const path = `/api/v1/products/people/grants/${grant}`
    assert.equal((await admin.send(path, { method: 'DELETE', headers: asAdminOf(ALPHA) })).status, 204)
    const developer = people['developer'] as SupersetSession
    await until(
      'the clear dataset closed to them',
      async () =>
        await chartRows(developer, clear).then(
          () => null,
          () => true,
        ),
    )
    await untilOk(ALPHA)
    assert.equal((await chartRows(developer, await datasetOf(ALPHA, 'masked'))).length, 20)
    assert.deepEqual(await idsOf(developer, 'dataset'), [await datasetOf(ALPHA, 'masked')])
  })

  test('can be read while rules of other products go', async () => {
    const tables = [await datasetOf(ALPHA, 'masked')]
    let changing = true
    const readers = Array.from({ length: 4 }, async () => {
      while (changing) await listed(superset, 'rowlevelsecurity')
    })
    const changes = async () => {
      for (let index = 0; index < 25; index++) {
        const rule = { name: `passing ${index}`, filter_type: 'Base', tables, roles: [], clause: '1 = 1' }
        const { id } = (await superset.send('POST', '/api/v1/rowlevelsecurity/', rule)) as Json
        await superset.delete(`/api/v1/rowlevelsecurity/${id}`)
      }
    }
    await Promise.all([...readers, changes().finally(() => (changing = false))])
  })

  test('is gone with the product', async () => {
    assert.equal((await developerOf(ALPHA).send('/api/v1/products/people', { method: 'DELETE' })).status, 204)
    await until('a dashboard server without it', async () => {
      const { rowlevelsecurity: rules, dataset: datasets } = await snapshot()
      return rules?.length === 2 && datasets?.length === 1 ? true : null
    })
    const left = await snapshot()
    for (const [kind, count] of [
      ['database', 1],
      ['dataset', 1],
      ['chart', 2],
      ['dashboard', 1],
      ['rowlevelsecurity', 2],
    ] as const) {
      assert.equal(left[kind]?.length, count, `${kind}: the other tenant's`)
    }
    assert.equal((await chartRows(people['stranger'] as SupersetSession, await datasetOf(BETA, 'masked'))).length, 20)
  })
})
