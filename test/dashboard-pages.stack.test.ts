/**
 * Another server of dashboards than the one that comes with the runtime: examples/plugins/pages, from its tarball, outside of
 * the repository, chosen by the configuration. What is shown to whom is what the REST API would read for them.
 */
import assert from 'node:assert/strict'
import { mkdir, mkdtemp, readdir, readFile, rm, stat, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, it } from 'node:test'
import { Client as Source } from 'pg'
import { type Client, type Json, manifests, ok } from '../acceptance/client.ts'
import { printedBy } from '../packaging/tarballs.ts'
import { lintFolder } from '../runtime/src/command/lint.ts'
import { loadConfig } from '../runtime/src/config.ts'
import type { EmbeddedServer } from '../runtime/src/database/embedded-server.ts'
import { placeTestCluster, startCopiedServer } from '../runtime/src/database/testing.ts'
import { RuntimeProcess } from './crash/runtime-process.ts'
import { adminOf, connectSource, makeTenant, personOf, registerProduct, servedAt } from './first-steps.ts'
import { until } from './until.ts'

const ROOT = join(import.meta.dirname, '..')
const [ACME, BETA] = ['acme', 'beta']
const roleOf = (tenant: string, team: string) => `sluice:${tenant}:team:${team}`
const [DEVELOPERS, VIEWERS] = ['svc-developers', 'svc-viewers']
const ROWS = 20

let folder: string
let plugin: string
let server: EmbeddedServer
let runtime: RuntimeProcess
let admin: Client
let grant: string
const developers = new Map<string, Client>()

const pagesFolder = () => join(folder, 'web/pages')
const developerOf = (tenant: string) => developers.get(tenant) as Client

before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sluice-pages-'))
  server = await startCopiedServer(join(folder, 'source'))
  const source = new Source({ ...server.tcpAddress, database: 'postgres' })
  await source.connect()
  await source.query(`CREATE TABLE people (id int PRIMARY KEY, email text, city text);
    INSERT INTO people SELECT i, 'p' || i || '@people.test', 'city ' || i % 3 FROM generate_series(1, ${ROWS}) i`)
  await source.end()
  plugin = await unpacked()
  await start()
})

after(async () => {
  await runtime?.stop()
  await server?.stop()
  await rm(folder, { recursive: true, force: true })
})

/** The plugin as it is packed, beside nothing of the repository but what it depends on. */
async function unpacked(): Promise<string> {
  const outside = join(folder, 'outside')
  await mkdir(join(outside, 'node_modules/@sluice'), { recursive: true })
  const example = join(ROOT, 'examples/plugins/pages')
  const packed = await printedBy(example, 'npm', ['pack', '--json', '--ignore-scripts', '--pack-destination', outside])
  const [{ filename }] = JSON.parse(packed) as [{ readonly filename: string }]
  await printedBy(outside, 'tar', ['-xzf', filename])
  await symlink(join(ROOT, 'sdk'), join(outside, 'node_modules/@sluice/sdk'))
  await symlink(join(ROOT, 'node_modules/pg'), join(outside, 'node_modules/pg'))
  return join(outside, 'package')
}

async function configFile(dashboards: object): Promise<string> {
  const config = {
    plugins: ['@sluice/lookup/postgresql', '@sluice/analytics/duckdb', '@sluice/connectors/postgresql', plugin],
    serving: { lookup: { driver: 'postgresql' }, analytics: { driver: 'duckdb' } },
    dashboards,
  }
  const file = join(folder, 'sluice.yaml')
  await writeFile(file, JSON.stringify(config))
  return file
}

const ownSettings = () => ({ driver: 'pages', folder: join(folder, 'web'), renew_seconds: '1' })

async function start(): Promise<void> {
  const data = join(folder, 'data')
  await placeTestCluster(data)
  runtime = await RuntimeProcess.spawn(data, null, 0, await configFile(ownSettings()))
  const place = { url: await servedAt(runtime), data }
  admin = await adminOf(place)
  for (const tenant of [ACME, BETA]) {
    developers.set(tenant, await personOf(place, `dora-${tenant}`, { tenant, group: DEVELOPERS }))
  }
}

const filesOf = (template: string) => {
  const files = manifests('public.people', { endpoints: '  - type: lookup\n' })
  const shown = `visualization: { enabled: true, dashboard_template: ${template} }\n`
  return { ...files, serving: `${files.serving}${shown}` }
}

const upload = (client: Client, template: string) =>
  client.upload('/api/v1/products/people/manifests', filesOf(template))

async function onboard(tenant: string): Promise<void> {
  const client = developerOf(tenant)
  await makeTenant(admin, tenant)
  await connectSource(client, server.tcpAddress)
  await registerProduct(client, 'people')
}

async function deployAndSync(client: Client): Promise<void> {
  await ok(upload(client, 'list'))
  await ok(client.post('/api/v1/products/people/deploy', { version: '1.0.0', dry_run: false }))
  const run = await client.untilEnded((await ok(client.post('/api/v1/connections/db/sync'))).id)
  assert.equal(run.state, 'succeeded', JSON.stringify(run))
}

const shownOf = async (tenant: string): Promise<Json> =>
  (await ok(developerOf(tenant).get('/api/v1/products/people'))).dashboards

/** By role, the pages that its folder has. */
async function pages(): Promise<ReadonlyMap<string, readonly string[]>> {
  const found = new Map<string, readonly string[]>()
  for (const role of await readdir(pagesFolder())) {
    const names = (await readdir(join(pagesFolder(), role))).filter((name) => name.endsWith('.html'))
    const texts = names.map((name) => readFile(join(pagesFolder(), role, name), 'utf8').catch(() => ''))
    if (names.length > 0) found.set(role, await Promise.all(texts))
  }
  return found
}

const pagesOf = async (tenant: string, team: string) => (await pages()).get(roleOf(tenant, team)) ?? []
const emailsIn = (page: string | undefined) => page?.match(/p\d+@people\.test/g)?.length ?? 0

it('has its own settings and templates, which configuration and manifests are checked by', async () => {
  await onboard(ACME)
  for (const [template, said] of [
    ['trend', /there is no dashboard template \\"trend\\".*Possible here: list, days/],
    ['days', /the template \\"days\\" needs a column of type date, timestamp, timestamptz/],
  ] as const) {
    const refused = await upload(developerOf(ACME), template)
    assert.equal(refused.status, 422, template)
    assert.match(JSON.stringify(refused.body), said)
  }
  const product = join(folder, 'product')
  await mkdir(product)
  for (const [name, text] of Object.entries(filesOf('days'))) await writeFile(join(product, `${name}.yaml`), text)
  const config = loadConfig({ file: join(folder, 'sluice.yaml'), environment: {}, flags: {} })
  assert.match((await lintFolder(product, config)).lines.join('\n'), /the template "days" needs/)
})

it('refuses to start with settings that the plugin does not take, and names them', async () => {
  const file = await configFile({ ...ownSettings(), url: 'http://x', renew_seconds: 'soon' })
  const second = await RuntimeProcess.spawn(join(folder, 'second'), null, 0, file)
  assert.notEqual((await second.ended).code, 0)
  assert.match(second.output, /dashboards\.url is not known/)
  assert.match(second.output, /dashboards\.renew_seconds/)
})

it('shows each team what it may read: masked, clear, or nothing', async () => {
  await deployAndSync(developerOf(ACME))
  await onboard(BETA)
  await deployAndSync(developerOf(BETA))
  const body = { subject: { team: DEVELOPERS }, may: 'unmask', classes: ['*'] }
  const asAcme = { 'x-tenant-id': ACME }
  grant = (await ok(admin.post('/api/v1/products/people/grants', body, asAcme))).id
  await until('developers see clear rows', async () => emailsIn((await pagesOf(ACME, DEVELOPERS))[0]) === ROWS)
  for (const [tenant, team] of [
    [ACME, VIEWERS],
    [BETA, VIEWERS],
    [BETA, DEVELOPERS],
  ] as const) {
    await until(`${team} of ${tenant} have a page`, async () => (await pagesOf(tenant, team)).length === 1)
    const [page = ''] = await pagesOf(tenant, team)
    assert.equal(emailsIn(page), 0, `${tenant} ${team}`)
    assert.match(page, new RegExp(`class="number">${ROWS}<`))
  }
  assert.equal((await pages()).size, 4)
  assert.deepEqual(await shownOf(ACME), { state: 'ok', error: null, links: [] })
})

it('keeps its logins from whoever serves the pages', async () => {
  const kept = join(folder, 'web/datasets')
  assert.equal((await stat(kept)).mode & 0o777, 0o700)
  assert.ok((await readdir(kept)).length > 0)
  for (const texts of (await pages()).values())
    for (const text of texts) assert.doesNotMatch(text, /postgresql:|sluice_view/)
})

it('takes a page from whoever may see it no more, and follows the source', async () => {
  await ok(
    admin.send(`/api/v1/products/people/grants/${grant}`, { method: 'DELETE', headers: { 'x-tenant-id': ACME } }),
  )
  await until('developers see no clear rows', async () => {
    const [page] = await pagesOf(ACME, DEVELOPERS)
    return page !== undefined && page !== '' && emailsIn(page) === 0
  })
  const source = new Source({ ...server.tcpAddress, database: 'postgres' })
  await source.connect()
  await source.query("INSERT INTO people VALUES (100, 'new@people.test', 'Zuerich')")
  await source.end()
  const client = developerOf(ACME)
  await client.untilEnded((await ok(client.post('/api/v1/connections/db/sync'))).id)
  await until('the page has the new row', async () => /Zuerich/.test((await pagesOf(ACME, VIEWERS))[0] ?? ''))
})

it('goes on after the runtime was started again, and leaves nothing of a product that is gone', async () => {
  await runtime.stop()
  await rm(pagesFolder(), { recursive: true })
  await start()
  await until('the page is written anew', async () => (await pagesOf(ACME, VIEWERS)).length === 1)
  await ok(developerOf(ACME).send('/api/v1/products/people', { method: 'DELETE' }))
  const isOfAcme = (role: string) => role.startsWith(`sluice:${ACME}:`)
  await until('no page is left', async () => ![...(await pages()).keys()].some(isOfAcme))
  assert.equal((await pages()).size, 2)
  await until('no login is left', async () => (await readdir(join(folder, 'web/datasets'))).length === 1)
})
