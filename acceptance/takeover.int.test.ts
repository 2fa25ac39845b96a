/** Rows that a developer may not read stay so, whatever is deployed over them and whatever is called by their names. */
import assert from 'node:assert/strict'
import { after, before, it } from 'node:test'
import { type Client, manifests } from './client.ts'
import { deployVersion, loginOf, onboardPeople, openWorld, syncNow, type World } from './world.ts'

const PLAIN = '@takeover.test'
const REFUSED = [403, 'class_lowering_refused'] as const

let world: World
let dora: Client
let dan: Client

before(async () => {
  world = await openWorld()
  const [tenant] = world.tenants
  await world.source.query(`DROP TABLE IF EXISTS takeover_people, takeover_own;
    CREATE TABLE takeover_people (id integer PRIMARY KEY, email text, city text);
    INSERT INTO takeover_people SELECT i, 'a' || i || '${PLAIN}', 'city' FROM generate_series(1, 9) i;
    CREATE TABLE takeover_own (id integer PRIMARY KEY, city text);
    INSERT INTO takeover_own VALUES (100, 'mine')`)
  await world.createTenant(tenant)
  dora = await world.as(tenant, 'svc-developers', 'dora')
  dan = await world.as(tenant, 'svc-developers', 'dan')
  await onboardPeople(world, dora, people('db', 'public.takeover_people', { level: 'restricted', email: CLASSIFIED }))
  assert.equal((await register(dan, 'own')).status, 201)
})

after(() => world?.close())

const CLASSIFIED = '  - { name: email, type: string, classification: pii.identifier }\n'

/** A product that keeps the rows it has: those of the source are merged into them. */
function people(
  connection: string,
  table: string,
  { level, email }: { readonly level: string; readonly email: string },
) {
  const columns = `  - { name: id, type: integer, role: identity, nullable: false }\n${email}  - { name: city, type: string }\n`
  const files = manifests(table, { columns, endpoints: '  - type: analytics\n' })
  const has =
    email !== '' && connection === 'own' ? 'id, NULL AS email, city' : email === '' ? 'id, city' : 'id, email, city'
  return {
    ...files,
    product: `${files.product}classification: ${level}\n`,
    inputs: files.inputs.replace('connection: db', `connection: ${connection}`),
    output: files.output.replace('write_mode: replace', 'write_mode: merge\nkeep_missing: true'),
    compute: `${files.compute}transform: SELECT ${has} FROM source\n`,
  }
}

function register(client: Client, name: string) {
  const body = { name, connector_type: 'postgresql', config_encrypted: loginOf(world.deployment) }
  return client.post('/api/v1/connections', body)
}

function patch(path: string, body: unknown) {
  const headers = { 'content-type': 'application/json' }
  return dan.send(path, { method: 'PATCH', headers, body: JSON.stringify(body) })
}

async function rename(connection: string, name: string) {
  const { status, body } = await patch(`/api/v1/connections/${connection}`, { name })
  return [status, body.code ?? body.name]
}

async function verdict(client: Client, version: string, files: Readonly<Record<string, string>>) {
  assert.equal((await client.upload('/api/v1/products/people/manifests', files)).status, 200)
  const { status, body } = await client.post('/api/v1/products/people/deploy', { version, dry_run: true })
  return [status, body.code]
}

it('refuses to open a product to more readers by somebody who does not own its source', async () => {
  const open = { level: 'internal', email: CLASSIFIED }
  assert.deepEqual(await verdict(dan, '1.1.0', people('own', 'public.takeover_own', open)), REFUSED)
  const [status] = await verdict(dora, '1.1.0', people('db', 'public.takeover_people', open))
  assert.equal(status, 200, 'its owner may')
})

it('refuses to show a column that a former version hid, also when one between them had none of that name', async () => {
  const without = people('own', 'public.takeover_own', { level: 'restricted', email: '' })
  await deployVersion(dan, 'people', '2.0.0', without)
  const open = '  - { name: email, type: string }\n'
  const again = people('own', 'public.takeover_own', { level: 'restricted', email: open })
  assert.deepEqual(await verdict(dan, '3.0.0', again), REFUSED)
})

it('gives nobody the rows of a connection by its name', async () => {
  assert.equal((await dora.send('/api/v1/products/people', { method: 'DELETE' })).status, 204)
  const seen = async (client: Client) =>
    JSON.stringify((await client.post('/api/v1/query', { sql: 'SELECT * FROM raw_db.takeover_people' })).body)
  assert.match(await seen(dora), new RegExp(PLAIN))
  assert.deepEqual(await rename('db', 'moved'), [409, 'connection_in_use'])
  assert.equal((await register(dan, 'DB')).body.code, 'connection_exists')
  assert.equal((await dan.send('/api/v1/connections/db', { method: 'DELETE' })).status, 204)
  assert.equal((await register(dan, 'db')).status, 201)
  assert.doesNotMatch(await seen(dan), new RegExp(PLAIN))
  assert.doesNotMatch(await seen(dora), new RegExp(PLAIN))
})

it('gives nobody a name that is another’s in another case, and everybody another case of their own', async () => {
  assert.equal((await register(dan, 'spare')).status, 201)
  assert.deepEqual(await rename('spare', 'DB'), [409, 'connection_exists'])
  assert.deepEqual(await rename('spare', 'SPARE'), [200, 'SPARE'])
  assert.equal((await register(dora, 'spare')).body.code, 'connection_exists')
})

it('keeps a password where the login stays, and asks for it again where it goes elsewhere', async () => {
  const change = (settings: Readonly<Record<string, unknown>>) => {
    const { password: _, ...open } = JSON.parse(loginOf(world.deployment, settings))
    return patch('/api/v1/connections/own', { config_encrypted: JSON.stringify(open) })
  }
  const works = async () => (await dan.post('/api/v1/connections/own/test')).body.ok
  assert.equal((await change({ schemas: ['public'] })).status, 200)
  assert.equal(await works(), true)
  for (const elsewhere of [{ host: 'localhost' }, { port: 1 }, { user: 'somebody' }, { ssl_mode: 'disable' }]) {
    const { status, body } = await change(elsewhere)
    assert.deepEqual([status, body.code], [400, 'invalid_connection_config'], JSON.stringify(elsewhere))
    assert.deepEqual(
      body.errors.map(({ pointer }: { readonly pointer: string }) => pointer),
      ['/config_encrypted/password'],
    )
  }
  assert.equal(await works(), true, 'what was refused has changed nothing')
  await syncNow(dan)
})
