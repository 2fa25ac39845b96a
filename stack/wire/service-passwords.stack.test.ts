/**
 * Service passwords at a real runtime: what each reads, at the door for clients of PostgreSQL and at no other; when sessions
 * by them end; and that a password is nowhere but with who was shown it.
 */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { chmod, mkdir, mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { promisify } from 'node:util'
import pg from 'pg'
import { Client, type Json, manifests, ok } from '../../acceptance/client.ts'
import { runSluice } from '../../acceptance/sluice-command.ts'
import { deployVersion, loginOf, openWorld, syncNow, type World } from '../../acceptance/world.ts'
import { freePort } from '../../runtime/src/database/free-port.ts'
import { until } from '../../test/until.ts'

const run = promisify(execFile)

const PASSWORDS = '/api/v1/service-passwords'
const LEVELS = ['public', 'internal', 'confidential', 'restricted'] as const
/** In every row, and in nothing else. */
const ROW = 'Serviceville'
/** In the classified column of every row, where it is clear. */
const PLAIN = '@services.test'

type Sees = 'nothing' | 'masked' | 'clear'
const O = 'nothing'
const M = 'masked'
const C = 'clear'

/**
 * What each password reads of a product of each level. The team `finance` is granted reading the confidential and the
 * restricted one, and the classes of the internal one.
 */
const READERS: Readonly<Record<string, { readonly wanted: Json; readonly sees: readonly [Sees, Sees, Sees, Sees] }>> = {
  plain: { wanted: { group: 'marketing' }, sees: [M, M, O, O] },
  viewers: { wanted: { group: '/svc-viewers' }, sees: [M, M, O, O] },
  developers: { wanted: { group: 'svc-developers' }, sees: [M, M, O, O] },
  finance: { wanted: { group: 'finance', expires_in_days: 30 }, sees: [M, C, M, O] },
  narrowed: { wanted: { group: 'marketing', clearance: 'public' }, sees: [M, O, O, O] },
  narrowedFinance: { wanted: { group: 'finance', clearance: 'public' }, sees: [M, C, M, O] },
}

let world: World
let folder: string
let port: number
let tenant: string
let other: string
let owner: Client
const made = new Map<string, Json>()
const clients: pg.Client[] = []

const inTenant = (slug = tenant) => ({ 'x-tenant-id': slug })

/** As an administrator makes it. */
const make = (wanted: Json, slug = tenant): Promise<Json> =>
  ok(world.admin.post(PASSWORDS, { name: 'tool', ...wanted }, inTenant(slug)))

const remove = async (id: string): Promise<void> => {
  const path = `${PASSWORDS}/${id}`
  assert.equal((await world.admin.send(path, { method: 'DELETE', headers: inTenant() })).status, 204)
}

async function wireAs({ id, password }: Json, change: pg.ClientConfig = {}): Promise<pg.Client> {
  const client = new pg.Client({ host: '127.0.0.1', port, user: id, database: tenant, password, ...change })
  client.on('error', () => undefined)
  await client.connect()
  clients.push(client)
  return client
}

const codeOf = (done: Promise<unknown>): Promise<string | undefined> =>
  done.then(
    () => 'done',
    (error: pg.DatabaseError) => error.code,
  )

before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'slp-'))
  port = await freePort()
  const [key, cert] = [join(folder, 'key.pem'), join(folder, 'cert.pem')]
  const fresh = ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-sha384', '-nodes']
  await run('openssl', [...fresh, '-days', '2', '-subj', '/CN=localhost', '-keyout', key, '-out', cert])
  await mkdir(join(folder, 't'))
  // Where an administrator of the machine runs this, PostgreSQL has an account of its own, which has to get there.
  for (const each of [folder, join(folder, 't')]) await chmod(each, 0o711)
  Object.assign(process.env, {
    // All that the runtime writes lies in there.
    TMPDIR: join(folder, 't'),
    SLUICE_WIRE__PORT: String(port),
    SLUICE_WIRE__CERT_FILE: cert,
    SLUICE_WIRE__KEY_FILE: key,
    // However slow the machine is: nothing here is to meet it.
    SLUICE_LIMITS__QUERY_TIMEOUT_MS: '600000',
  })
  world = await openWorld()
  ;[tenant, other] = world.tenants
  await world.source.query(`CREATE TABLE served (id integer PRIMARY KEY, email text, city text);
    INSERT INTO served SELECT i, 's' || i || '${PLAIN}', '${ROW}' FROM generate_series(1, 20) i`)
  for (const slug of [tenant, other]) await world.createTenant(slug)
  owner = await world.as(tenant, 'svc-developers', 'dora')
  const wanted = { name: 'db', connector_type: 'postgresql', config_encrypted: loginOf(world.deployment) }
  await ok(owner.post('/api/v1/connections', wanted))
  for (const level of LEVELS) {
    const name = `a_${level}`
    const files = manifests('public.served')
    const product = `${files.product.replace('name: people', `name: ${name}`)}classification: ${level}\n`
    await ok(owner.post('/api/v1/products', { name, namespace: 'crm', archetype: 'source_aligned', description: '' }))
    await deployVersion(owner, name, '1.0.0', { ...files, product })
  }
  await syncNow(owner)
  const grant = (level: string, may: Json) =>
    ok(world.admin.post(`/api/v1/products/a_${level}/grants`, { subject: { team: 'finance' }, ...may }, inTenant()))
  for (const level of ['confidential', 'restricted']) await grant(level, { may: 'read' })
  await grant('internal', { may: 'unmask', classes: ['*'] })
  for (const [name, { wanted: asked }] of Object.entries(READERS)) made.set(name, await make({ name, ...asked }))
})

after(async () => {
  for (const client of clients) await client.end().catch(() => undefined)
  await world?.close()
  await rm(folder, { recursive: true, force: true })
})

const passwordOf = (name: string): Json => made.get(name) as Json

async function seen(client: pg.Client, level: string): Promise<Sees> {
  const text = await client.query(`SELECT * FROM crm.a_${level}`).then(
    ({ rows }) => JSON.stringify(rows),
    ({ code, message }: pg.DatabaseError) => {
      assert.equal(code, '42P01', message)
      return ''
    },
  )
  if (text.includes(PLAIN)) return 'clear'
  return text.includes(ROW) ? 'masked' : 'nothing'
}

describe('a service password', () => {
  for (const [name, { sees }] of Object.entries(READERS)) {
    it(`reads as ${name}, rows and catalogue`, async () => {
      const client = await wireAs(passwordOf(name))
      for (const [at, level] of LEVELS.entries()) assert.equal(await seen(client, level), sees[at], level)
      const { rows } = await client.query("SELECT relname FROM pg_class WHERE relname LIKE 'a\\_%' ORDER BY relname")
      const readable = LEVELS.filter((_, at) => sees[at] !== 'nothing').map((level) => `a_${level}`)
      assert.deepEqual(
        rows.map(({ relname }) => relname),
        readable.sort(),
      )
      assert.equal(await codeOf(client.query('SELECT * FROM raw_db.served')), '42P01')
      await client.end()
    })
  }

  it('reads what a member of its group is answered over HTTP', async () => {
    const client = await wireAs(passwordOf('finance'))
    const flags = ['--tenant', tenant, '--group', 'svc-viewers,finance', '--user', 'fiona']
    const fiona = new Client(world.deployment.url, await world.deployment.token(flags))
    for (const level of ['public', 'internal', 'confidential']) {
      const sql = `SELECT id, email, city FROM crm.a_${level} ORDER BY id`
      const { rows } = await client.query({ text: sql, rowMode: 'array' })
      assert.deepEqual(rows, (await ok(fiona.post('/api/v1/query', { sql }))).rows)
    }
    await client.end()
  })

  it('opens nothing of another tenant, and is nothing there', async () => {
    const finance = passwordOf('finance')
    assert.equal(await codeOf(wireAs(finance, { database: other })), '28P01')
    const foreign = await make({ group: 'finance' }, other)
    assert.equal(await codeOf(wireAs(foreign)), '28P01')
    const stranger = await wireAs(foreign, { database: other })
    for (const level of LEVELS) assert.equal(await seen(stranger, level), 'nothing')
    const { rows } = await stranger.query('SELECT relname FROM pg_class')
    assert.doesNotMatch(JSON.stringify(rows), /a_public/)
    await stranger.end()
    const olga = await world.as(other, 'svc-developers', 'olga')
    assert.doesNotMatch(JSON.stringify(await ok(olga.get(PASSWORDS))), new RegExp(finance.id))
    const { status, body } = await olga.send(`${PASSWORDS}/${finance.id}`, { method: 'DELETE' })
    assert.deepEqual([status, body.code], [404, 'service_password_not_found'])
    await (await wireAs(finance)).end()
  })

  it('opens no other door', async () => {
    const { id, password } = passwordOf('finance')
    for (const token of [password, id, `${id}:${password}`]) {
      const bearer = new Client(world.deployment.url, token)
      for (const path of ['/api/v1/products', '/api/v1/products/a_public/latest?filter=id:1', PASSWORDS]) {
        assert.equal((await bearer.get(path)).status, 401, path)
      }
      assert.equal((await bearer.post('/api/v1/query', { sql: 'SELECT 1' })).status, 401)
    }
    assert.equal(await codeOf(wireAs({ id: 'anybody', password })), '28P01')
  })

  it('is told once, and made by administrators alone', async () => {
    const idempotent = { ...inTenant(), 'idempotency-key': 'make-one' }
    const first = await world.admin.post(PASSWORDS, { name: 'once', group: 'finance' }, idempotent)
    assert.deepEqual([first.status, first.headers.get('cache-control')], [201, 'no-store'])
    assert.match(first.body.password, /^slp_[0-9a-f]{64}$/)
    const again = await world.admin.post(PASSWORDS, { name: 'once', group: 'finance' }, idempotent)
    assert.deepEqual(again.body, { ...first.body, password: null })
    const { password, ...shown } = first.body
    assert.deepEqual((await ok(owner.get(PASSWORDS))).data[0], shown)
    assert.deepEqual([shown.clearance, shown.expires_at, shown.last_used_at], [null, null, null])
    for (const group of ['svc-developers', 'svc-viewers']) {
      const member = await world.as(tenant, group, 'mo')
      const refused = await member.post(PASSWORDS, { name: 'x', group: 'svc-viewers' })
      assert.deepEqual([refused.status, refused.body.code], [403, 'admin_required'])
    }
    const wrong = [{ group: 'a\nb' }, { group: '' }, { group: '//a' }, { clearance: 'all' }, { expires_in_days: 0 }]
    for (const one of wrong) {
      const asked = { name: 'x', group: 'finance', ...one }
      assert.equal((await world.admin.post(PASSWORDS, asked, inTenant())).status, 400, JSON.stringify(one))
    }
    await (await wireAs(first.body)).end()
    const used = (await ok(owner.get(PASSWORDS))).data.find(({ id }: Json) => id === shown.id)
    assert.match(used.last_used_at, /:00\.000Z$/, 'to the minute')
    await remove(shown.id)
    const audit = (await ok(owner.get('/api/v1/audit?limit=100'))).data
    const records = audit.filter((record: Json) => record.object?.id === shown.id || record.object_id === shown.id)
    assert.deepEqual(records.map(({ action }: Json) => action).sort(), [
      'service_password.create',
      'service_password.delete',
    ])
    assert.equal(JSON.stringify(audit).includes(password.slice(4)), false)
  })

  it('is made, listed and deleted by commands', async () => {
    const { url } = world.deployment
    const token = await world.deployment.token(['--role', 'admin'])
    const sluice = async (...words: string[]) => {
      const { code, out, err } = await runSluice([...words, '--tenant', tenant], { url, token, cwd: folder })
      assert.equal(code, 0, err)
      return out
    }
    const shown = await sluice('service-password', 'create', 'bi', '--team', 'finance', '--days', '7')
    const [, id = '', password = ''] = /^user +(svp_\w+)\npassword +(slp_\w+)\n/.exec(shown) ?? []
    const client = await wireAs({ id, password })
    assert.equal(await seen(client, 'confidential'), 'masked')
    const listed = await sluice('service-password', 'list')
    assert.match(listed, new RegExp(`^bi +finance .* ${id}$`, 'm'))
    assert.ok(!listed.includes(password))
    assert.match(await sluice('service-password', 'delete', id), /is deleted/)
    assert.equal(await codeOf(wireAs({ id, password })), '28P01')
  })
})

describe('a session by a service password', () => {
  it('ends with it: one that waits, one whose statement runs, and one that reads a cursor', async () => {
    const password = await make({ group: 'finance' })
    const [waiting, running, reading] = [await wireAs(password), await wireAs(password), await wireAs(password)]
    const told = new Promise<pg.DatabaseError>((resolve) => waiting.once('error', resolve))
    await reading.query('BEGIN; DECLARE c CURSOR FOR SELECT id FROM crm.a_public')
    assert.equal((await reading.query('FETCH 1 FROM c')).rows.length, 1)
    const endless = codeOf(
      running.query('SELECT count(*) FROM range(1000000000000) r(a), crm.a_public p WHERE r.a * p.id = 3'),
    )
    await remove(password.id)
    assert.equal(await codeOf(reading.query('FETCH 1 FROM c')), '28000')
    assert.equal((await told).code, '28000')
    assert.equal(await endless, '28000')
    assert.equal(await codeOf(wireAs(password)), '28P01')
  })

  it('reads by the grants of today', async () => {
    const client = await wireAs(passwordOf('plain'))
    assert.equal(await seen(client, 'confidential'), 'nothing')
    const subject = { subject: { team: 'marketing' }, may: 'read' }
    const grants = '/api/v1/products/a_confidential/grants'
    const { id } = await ok(world.admin.post(grants, subject, inTenant()))
    assert.equal(await seen(client, 'confidential'), 'masked')
    await world.admin.send(`${grants}/${id}`, { method: 'DELETE', headers: inTenant() })
    assert.equal(await seen(client, 'confidential'), 'nothing')
    await client.end()
  })

  it('is begun under TLS as well, and bound to it', async () => {
    const plus = { enableChannelBinding: true, ssl: { rejectUnauthorized: false } }
    for (const change of [plus, { ssl: { rejectUnauthorized: false } }]) {
      const client = await wireAs(passwordOf('finance'), change as pg.ClientConfig)
      assert.equal(await seen(client, 'internal'), 'clear')
      await client.end()
    }
  })
})

const hasPsql = (await run('psql', ['--version']).catch(() => null)) !== null

it('is what psql logs in by, bound to TLS where it is asked to be', {
  skip: !hasPsql && 'there is no psql',
}, async () => {
  const { id, password } = passwordOf('finance')
  const psql = (more: NodeJS.ProcessEnv) => {
    const env = { ...process.env, PGHOST: '127.0.0.1', PGPORT: String(port), PGDATABASE: tenant, PGUSER: id, ...more }
    return run('psql', ['-X', '-At', '-c', 'SELECT count(*) FROM crm.a_confidential'], { env }).then(
      ({ stdout }) => stdout.trim(),
      ({ stderr }: { stderr: string }) => stderr,
    )
  }
  const asked = { PGPASSWORD: password, PGREQUIREAUTH: 'scram-sha-256' }
  assert.equal(await psql({ ...asked, PGSSLMODE: 'require', PGCHANNELBINDING: 'require' }), '20')
  assert.equal(await psql({ ...asked, PGSSLMODE: 'require', PGCHANNELBINDING: 'disable' }), '20')
  assert.equal(await psql({ ...asked, PGSSLMODE: 'disable' }), '20')
  const wrong = { ...asked, PGSSLMODE: 'require', PGPASSWORD: `${password.slice(0, -1)}x` }
  assert.match(await psql(wrong), /FATAL: +authentication failed/)
})

it('the password is in no file that the runtime has written', async () => {
  const secrets = Object.keys(READERS).map((name) => passwordOf(name).password.slice(4) as string)
  const { id } = passwordOf('finance')
  // Its name is in the registry: once that is found, this looks in the right place.
  await until('the registry is written', async () => {
    const entries = await readdir(join(folder, 't'), { recursive: true, withFileTypes: true })
    let isThere = false
    for (const file of entries.filter((entry) => entry.isFile())) {
      const path = join(file.parentPath, file.name)
      const bytes = await readFile(path).catch(() => Buffer.alloc(0))
      isThere ||= bytes.includes(id)
      assert.ok(!secrets.some((secret) => bytes.includes(secret)), path)
    }
    return isThere
  })
})
