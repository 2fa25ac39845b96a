/**
 * Identity is issuer and subject. Two issuers that may both claim a tenant call people by the same names, and none of
 * these people is served by what the other was given, or meets what the other owns.
 */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { exportJWK, generateKeyPair, SignJWT } from 'jose'
import pg from 'pg'
import { type Answer, Client, manifests, ok } from '../acceptance/client.ts'
import type { EmbeddedServer } from '../runtime/src/database/embedded-server.ts'
import { placeTestCluster, startCopiedServer } from '../runtime/src/database/testing.ts'
import { withDatabase } from './crash/databases.ts'
import { RuntimeProcess } from './crash/runtime-process.ts'

const TENANT = 'acme'
const PLAIN = '@plain.test'
const OTHERS = 'https://others.test'
const RAW = { sql: 'SELECT count(*)::INTEGER FROM raw_db.people' }

interface Issuer {
  readonly url: string
  readonly server: Server
  token(subject: string, claims: Readonly<Record<string, unknown>>): Promise<string>
}

async function startIssuer(): Promise<Issuer> {
  const { privateKey, publicKey } = await generateKeyPair('ES256', { extractable: true })
  const jwk = { ...(await exportJWK(publicKey)), kid: 'one', alg: 'ES256' }
  const server = createServer((request, response) => {
    const isKeys = request.url === '/keys'
    response.writeHead(200, { 'content-type': 'application/json' })
    response.end(JSON.stringify(isKeys ? { keys: [jwk] } : { issuer: url, jwks_uri: `${url}/keys` }))
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  return {
    url,
    server,
    token: (subject, claims) =>
      new SignJWT({ ...claims, sub: subject })
        .setProtectedHeader({ alg: 'ES256', kid: 'one' })
        .setIssuer(url)
        .setAudience('sluice')
        .setExpirationTime('1h')
        .sign(privateKey),
  }
}

let folder: string
let data: string
let first: Issuer
let second: Issuer
let source: EmbeddedServer
let runtime: RuntimeProcess
let url: string

before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sluice-identities-'))
  data = join(folder, 'data')
  ;[first, second] = await Promise.all([startIssuer(), startIssuer()])
  source = await startCopiedServer(join(folder, 'source'))
  const { host, port, user, password, database } = source.tcpAddress
  const login = { host, port, user, password, database }
  const client = new pg.Client(login)
  await client.connect()
  await client.query(`CREATE TABLE people (id integer PRIMARY KEY, email text, city text);
    INSERT INTO people SELECT i, 'a' || i || '${PLAIN}', 'city' FROM generate_series(1, 9) i`)
  await client.end()
  await start(first, second)
  const admin = new Client(url, await first.token('ada', { roles: ['admin'] }))
  await ok(admin.post('/api/v1/tenants', { slug: TENANT, display_name: TENANT, tier: 'enterprise' }))
  const dora = await developer(first)
  const config_encrypted = JSON.stringify({ ...login, ssl_mode: 'prefer' })
  await ok(dora.post('/api/v1/connections', { name: 'db', connector_type: 'postgresql', config_encrypted }))
  await deploy(dora, 'people', '')
  await deploy(dora, 'named', 'classification: restricted\naccess: { users: [nina] }\n')
  const { id } = await ok(dora.post('/api/v1/connections/db/sync'))
  assert.equal((await dora.untilEnded(id)).state, 'succeeded')
})

after(async () => {
  await stop()
  await source?.stop()
  for (const issuer of [first, second]) issuer?.server.close()
  await rm(folder, { recursive: true, force: true })
})

/** The runtime, in the same folder, with these issuers; the first may claim the role admin. */
async function start(...issuers: readonly Issuer[]): Promise<void> {
  const config = {
    auth: {
      issuers: [
        ...issuers.map(({ url: issuer }) => ({ issuer, audience: 'sluice', admin: issuer === first.url })),
        ...(issuers.length > 1 ? [{ issuer: OTHERS, audience: 'sluice', tenants: ['globex'] }] : []),
      ],
    },
    limits: { rate: { address: 5000 } },
  }
  await writeFile(join(folder, 'sluice.yaml'), JSON.stringify(config))
  await placeTestCluster(data)
  runtime = await RuntimeProcess.spawn(data, null, 0, join(folder, 'sluice.yaml'))
  url = (await runtime.address()) ?? assert.fail(runtime.output)
}

async function stop(): Promise<void> {
  await runtime?.stop()
  await runtime?.lastSurvivors()
}

async function refused(code: string, answer: Promise<Answer>): Promise<void> {
  const { status, body } = await answer
  assert.deepEqual([status >= 400, body.code], [true, code], JSON.stringify(body))
}

async function as(issuer: Issuer, subject: string, group = 'svc-viewers'): Promise<Client> {
  return new Client(url, await issuer.token(subject, { tenant_id: TENANT, groups: [group] }))
}

const developer = (issuer: Issuer) => as(issuer, 'dora', 'svc-developers')

async function deploy(client: Client, name: string, more: string): Promise<void> {
  await ok(client.post('/api/v1/products', { name, namespace: 'crm', archetype: 'source_aligned', description: '' }))
  const files = manifests('public.people')
  const product = `${files.product.replace('name: people', `name: ${name}`)}${more}`
  await ok(client.upload(`/api/v1/products/${name}/manifests`, { ...files, product }))
  await ok(client.post(`/api/v1/products/${name}/deploy`, { version: '1.0.0', dry_run: false }))
}

const grants = (product: string) => `/api/v1/products/${product}/grants`

/** Which paths show the person an e-mail address in plain, or refuse nothing. */
async function reads(client: Client, product: string) {
  const lookup = await client.get(`/api/v1/products/${product}/latest?filter=id:7`)
  const query = await client.post('/api/v1/query', { sql: `SELECT email FROM crm.${product}` })
  const listed = await client.get(`/iceberg/v1/${TENANT}/namespaces/crm/tables`)
  return {
    lookup: lookup.status,
    query: query.status,
    plain: [lookup, query].some(({ body }) => JSON.stringify(body).includes(PLAIN)),
    listed: JSON.stringify(listed.body).includes(`"${product}"`),
  }
}

const MASKED = { lookup: 200, query: 200, plain: false, listed: true }
const CLEAR = { ...MASKED, plain: true }
/** For a query it does not exist. */
const NOTHING = { lookup: 403, query: 400, plain: false, listed: false }

describe('people of two issuers with one name', () => {
  it('are granted what they are granted one by one', async () => {
    const dora = await developer(first)
    const unmask = { may: 'unmask', classes: ['pii.identifier'] }
    const own = await ok(dora.post(grants('people'), { subject: { user: 'vito' }, ...unmask }))
    const other = await ok(dora.post(grants('people'), { subject: { user: 'vera' }, issuer: second.url, ...unmask }))
    const team = await ok(dora.post(grants('people'), { subject: { team: 'sales' }, ...unmask }))
    assert.deepEqual(
      [own, other, team].map((grant) => grant.issuer),
      [first.url, second.url, null],
    )
    assert.deepEqual((await ok(dora.get(grants('people')))).data, [team, other, own])
    assert.deepEqual(await reads(await as(first, 'vito'), 'people'), CLEAR)
    assert.deepEqual(await reads(await as(second, 'vito'), 'people'), MASKED)
    assert.deepEqual(await reads(await as(first, 'vera'), 'people'), MASKED)
    assert.deepEqual(await reads(await as(second, 'vera'), 'people'), CLEAR)
  })

  it('are named apart by products for named individuals, in manifests and by grants', async () => {
    assert.deepEqual(await reads(await as(first, 'nina'), 'named'), MASKED)
    assert.deepEqual(await reads(await as(second, 'nina'), 'named'), NOTHING)
    const noor = { subject: { user: 'noor' }, may: 'read' }
    await refused('grant_not_held', (await developer(second)).post(grants('named'), noor))
    await ok((await developer(first)).post(grants('named'), { ...noor, issuer: second.url }))
    assert.deepEqual(await reads(await as(second, 'noor'), 'named'), MASKED)
    assert.deepEqual(await reads(await as(first, 'noor'), 'named'), NOTHING)
  })

  it('are given raw tables one by one, by the creator of the connection alone', async () => {
    const path = '/api/v1/connections/db/grants'
    const [dora, namesake] = [await developer(first), await developer(second)]
    await refused('table_not_found', namesake.post('/api/v1/query', RAW))
    await refused('raw_table_forbidden', namesake.post(path, { subject: { user: 'dora' } }))
    const granted = await ok(dora.post(path, { subject: { user: 'vito' } }))
    await ok(dora.post(path, { subject: { user: 'vera' }, issuer: second.url, table: 'public.people' }))
    assert.deepEqual([granted.subject, granted.issuer], [{ user: 'vito' }, first.url])
    await ok((await as(first, 'vito')).post('/api/v1/query', RAW))
    await refused('table_not_found', (await as(second, 'vito')).post('/api/v1/query', RAW))
    await refused('table_not_found', (await as(first, 'vera')).post('/api/v1/query', RAW))
    await ok((await as(second, 'vera')).post('/api/v1/query', RAW))
  })

  it('own what they made one by one', async () => {
    const namesake = await developer(second)
    const files = manifests('public.people')
    const open = { ...files, output: files.output.replace(', classification: pii.identifier', '') }
    await ok(namesake.upload('/api/v1/products/people/manifests', open))
    const deployment = { version: '2.0.0', dry_run: true }
    // Deploying takes the right to read the raw tables.
    await refused('raw_table_forbidden', namesake.post('/api/v1/products/people/deploy', deployment))
    const dora = await developer(first)
    await ok(dora.post('/api/v1/connections/db/grants', { subject: { user: 'dora' }, issuer: second.url }))
    await refused('class_lowering_refused', namesake.post('/api/v1/products/people/deploy', deployment))
    await ok(dora.post('/api/v1/products/people/deploy', deployment))
  })

  it('grant what they own one by one', async () => {
    const [dora, namesake] = [await developer(first), await developer(second)]
    const grant = { subject: { user: 'dora' }, may: 'read' }
    await refused('grant_not_held', namesake.post(grants('named'), grant))
    const { id } = await ok(dora.post(grants('named'), grant))
    assert.deepEqual(await reads(dora, 'named'), MASKED)
    assert.deepEqual(await reads(namesake, 'named'), NOTHING)
    await ok(dora.send(`${grants('named')}/${id}`, { method: 'DELETE' }))
    await ok(dora.post(grants('named'), { ...grant, issuer: second.url }))
    assert.deepEqual(await reads(namesake, 'named'), MASKED)
  })

  it('are of an issuer that may name people of the tenant', async () => {
    const dora = await developer(first)
    for (const path of [grants('people'), '/api/v1/connections/db/grants']) {
      const more = path.includes('products') ? { may: 'read' } : {}
      for (const issuer of ['https://nobody.test', OTHERS, `${second.url}/`]) {
        await refused('invalid_grant', dora.post(path, { subject: { user: 'vera' }, issuer, ...more }))
      }
      await refused('invalid_grant', dora.post(path, { subject: { team: 'sales' }, issuer: first.url, ...more }))
    }
  })
})

describe('grants from before issuers were kept with them', () => {
  /** As former versions left them. */
  async function forgetIssuers(): Promise<void> {
    await withDatabase(data, 'sluice_registry', async (client) => {
      for (const table of ['product_grants', 'raw_table_grants']) {
        const rule = `${table}_issuer`
        await client.query(`alter table ${table} drop constraint ${rule}; update ${table} set issuer = null;
          alter table ${table} add constraint ${rule} check ((subject_type = 'user') = (issuer is not null)) not valid`)
      }
    })
    await stop()
  }

  it('serve people of the one who granted, where several issuers are trusted', async () => {
    await forgetIssuers()
    await start(second, first)
    assert.deepEqual(await reads(await as(first, 'vito'), 'people'), CLEAR)
    assert.deepEqual(await reads(await as(second, 'vito'), 'people'), MASKED)
    assert.deepEqual(await reads(await as(second, 'vera'), 'people'), MASKED)
    await refused('table_not_found', (await as(second, 'vera')).post('/api/v1/query', RAW))
  })

  it('go on serving everybody, where one issuer is trusted', async () => {
    await forgetIssuers()
    await start(second)
    assert.deepEqual(await reads(await as(second, 'vito'), 'people'), CLEAR)
    assert.deepEqual(await reads(await as(second, 'nina'), 'named'), MASKED)
    await ok((await as(second, 'vera')).post('/api/v1/query', RAW))
  })
})
