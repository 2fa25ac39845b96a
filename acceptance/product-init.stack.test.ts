/** `sluice product init --from`: what it writes is planned, deployed, synced and read as it was written. */
import assert from 'node:assert/strict'
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { parse } from 'yaml'
import { type Client, type Json, ok } from './client.ts'
import { type Ended, runSluice } from './sluice-command.ts'
import { connect, openWorld, syncNow, type World } from './world.ts'

let world: World
let developer: Client
let folder = ''
let token = ''

before(async () => {
  world = await openWorld()
  folder = await mkdtemp(join(tmpdir(), 'init-'))
  const [tenant] = world.tenants
  await world.source.query(`
    CREATE TYPE mood AS ENUM ('calm', 'angry');
    CREATE SCHEMA shop;
    CREATE TABLE shop."raw Visits" (
      "Visit ""No""" bigint, tenant_id integer, email text NOT NULL, "Größe: #1" numeric(6,2), client_ip inet,
      seen_at timestamptz NOT NULL, updated_at timestamptz NOT NULL DEFAULT now(), born date, ok boolean, small smallint,
      f real, g double precision, n numeric, wide numeric(60,20), cash money, u uuid, b bytea, j jsonb, tags text[], how mood,
      span interval, t time, x xml, "Weird
Name" text, "select" text,
      PRIMARY KEY (tenant_id, "Visit ""No"""));
    INSERT INTO shop."raw Visits" SELECT i, 7, 'a' || i || '@a.test', i / 100.0, '10.0.0.1', '2026-01-01Z'::timestamptz + i * interval '1 h',
      now(), '2000-02-29', true, 1, 1.5, 2.5, 3.25, 4.125, 5, '0e1a3e9e-3a5b-4d7c-8b7a-111111111111', '\\x01', '{"a": 1}', '{a,b}', 'calm',
      '1 day', '10:00', '<a/>', 'odd ' || i, 'kept' FROM generate_series(1, 20) i;
    CREATE TABLE plain_facts (note text, amount integer);
    INSERT INTO plain_facts VALUES ('a', 1), ('b', 2)`)
  await world.createTenant(tenant, 'enterprise')
  token = await world.deployment.token(['--tenant', tenant, '--group', 'svc-developers', '--user', 'dora'])
  developer = await world.as(tenant, 'svc-developers', 'dora')
  await connect(world, developer)
})

after(async () => {
  await world?.close()
  await rm(folder, { recursive: true, force: true })
})

function sluice(...words: string[]): Promise<Ended> {
  return runSluice(words, { url: world.deployment.url, token, cwd: folder })
}

async function done(...words: string[]): Promise<string> {
  const { code, out, err } = await sluice(...words)
  assert.equal(code, 0, `${words.join(' ')}: ${err}${out}`)
  return out
}

const written = (path: string, part: string) => readFile(join(folder, path, `${part}.yaml`), 'utf8')

async function asWritten(path: string): Promise<void> {
  assert.match(await done('product', 'lint', path), /The manifests are valid/)
  const plan = JSON.parse(await done('product', 'plan', path, '--version', '1.0.0', '--json')).plan
  assert.deepEqual(plan.problems, [], JSON.stringify(plan))
  await done('product', 'deploy', path, '--version', '1.0.0')
}

const rowsOf = async (name: string, query = ''): Promise<Json> =>
  (await ok(developer.get(`/api/v1/products/${name}/latest${query}`))).data

describe('sluice product init --from', () => {
  it('makes a product of a table of many types that is served as it is', async () => {
    const said = await done('product', 'init', 'web/visits', '--from', 'db.shop.raw Visits')
    assert.match(said, /Six manifests of web\.visits are in web\/visits: 25 columns[^]*client_ip: pii\.ip_address/)
    const output = await written('web/visits', 'output')
    assert.match(output, /name: born[^\n]*pii\.birth_date \} # guessed by its name: born/)
    assert.match(output, /name: source_tenant_id[^\n]*role: identity/)
    await asWritten('web/visits')
    await syncNow(developer)
    const rows = await rowsOf('web.visits', '?filter=source_tenant_id:7&filter=Visit_No:3')
    assert.equal(rows.length, 1, JSON.stringify(rows))
    const { Visit_No, Grosse_1, Weird_Name, select, how, j, email } = rows[0]
    assert.deepEqual([Visit_No, Number(Grosse_1), Weird_Name, select, how], [3, 0.03, 'odd 3', 'kept', 'calm'])
    assert.deepEqual(typeof j === 'string' ? JSON.parse(j) : j, { a: 1 })
    assert.notEqual(email, 'a3@a.test', 'what is guessed is masked')
    const range = 'from=2026-01-01T01:00:00Z&to=2026-01-01T04:00:00Z'
    assert.equal((await ok(developer.get(`/api/v1/products/web.visits/timeseries?${range}`))).data.length, 3)
    const live = await ok(developer.get('/api/v1/products/web.visits/realtime?key=visits:7:3'))
    assert.match(JSON.stringify(live), /"Weird_Name":"odd 3"/)
  })

  it('makes one of a product, with its classes, and reads it', async () => {
    const said = await done('product', 'init', 'insight/people', '--from', 'web.visits')
    assert.match(said, /Six manifests of insight\.people are in insight\/people: 25 columns/)
    assert.match(await written('insight/people', 'inputs'), /product: web\.visits/)
    assert.match(await written('insight/people', 'output'), /name: client_ip[^\n]*pii\.ip_address/)
    await asWritten('insight/people')
    const rows = await rowsOf('insight.people', '?filter=source_tenant_id:7&filter=Visit_No:3')
    assert.equal(rows[0]?.Weird_Name, 'odd 3', JSON.stringify(rows))
  })

  it('makes one of a table without a key, in the schema public, with the namespace that is asked for', async () => {
    const told = JSON.parse(
      await done('product', 'init', 'plain', '--from', 'db.plain_facts', '--namespace', 'facts', '--json'),
    )
    assert.deepEqual([told.product, told.columns, told.guessed], ['facts.plain', 2, []])
    await asWritten('plain')
    await syncNow(developer)
    const sql = 'SELECT sum(amount) AS total FROM facts.plain'
    assert.deepEqual(
      (await ok(developer.post('/api/v1/query', { sql }))).rows.map(([total]: Json) => Number(total)),
      [3],
    )
  })

  it('says where the name is a product’s already, as a version of which it would be deployed', async () => {
    const said = await done('product', 'init', 'taken/web/visits', '--from', 'db.plain_facts')
    assert.match(said, /There is a product web\.visits already: .*a version of it/)
    const told = JSON.parse(await done('product', 'init', 'taken/web/others', '--from', 'db.plain_facts', '--json'))
    assert.deepEqual([told.product, told.registered], ['web.others', false])
    await rm(join(folder, 'taken'), { recursive: true })
  })

  it('exports the contract of a product in service, which makes the same product again', async () => {
    const exported = await sluice('product', 'export', 'web.visits', '--odcs')
    assert.equal(exported.code, 0, exported.err)
    assert.match(exported.err, /^not said by the contract: inputs\.yaml: /)
    await writeFile(join(folder, 'visits.odcs.yaml'), exported.out)
    const { version, status, servers } = parse(exported.out)
    const address = `${world.deployment.url}/api/v1/products/web.visits`
    assert.deepEqual([version, status, servers[0].location], ['1.0.0', 'active', address])
    assert.equal((await developer.get('/api/v1/products/web.visits')).status, 200)
    const made = await sluice('product', 'init', 'again', '--from', 'visits.odcs.yaml')
    assert.deepEqual(
      [made.code, made.err.trim()],
      [
        0,
        'not said by the manifests: version: give it when you deploy: --version 1.0.0\nnot said by the manifests: inputs.yaml: the contract does not say where rows come from: fill in the connection, and the table',
      ],
    )
    await done('product', 'lint', 'again')
    const columns = async (path: string) =>
      parse(await written(path, 'output')).schema.map(({ name, type, classification }: Json) => [
        name,
        type,
        classification,
      ])
    assert.deepEqual(await columns('again'), await columns('web/visits'))
    const fromFolder = parse(await done('product', 'export', 'again', '--odcs', '--version', '2.0.0'))
    assert.deepEqual([fromFolder.version, fromFolder.status, fromFolder.servers], ['2.0.0', 'draft', undefined])
    assert.equal((await sluice('product', 'export', 'again')).code, 2)
  })

  it('writes where its server has the schema of each manifest, for whoever asks', async () => {
    for (const file of await readdir(join(folder, 'web/visits'))) {
      const [, url = ''] =
        /^# yaml-language-server: \$schema=(\S+)\n/.exec(await written('web/visits', file.slice(0, -5))) ?? []
      const answer = await fetch(url)
      assert.equal(answer.status, 200, `${file}: ${url}`)
      const { title } = (await answer.json()) as Json
      assert.equal(title, file)
    }
    assert.equal((await fetch(`${world.deployment.url}/api/v1/manifest-schemas/nothing`)).status, 400)
  })

  it('names in the next step the flags by which it found the server and the person', async () => {
    const flags = ['--url', world.deployment.url, '--user', 'dora']
    const said = await done('product', 'init', 'plain/flagged', '--from', 'db.plain_facts', ...flags)
    const [, next = ''] = /^Then: npx sluice (.*)$/m.exec(said) ?? []
    for (const index of [0, 2]) assert.ok(next.includes(flags.slice(index, index + 2).join(' ')), said)
    await done(...next.split(' '))
  })

  it('overwrites nothing, and says what was probably meant', async () => {
    const before = await written('web/visits', 'output')
    for (const [words, wanted] of [
      [['web/visits', '--from', 'db.plain_facts'], /product\.yaml is there already/],
      [['new', '--from', 'db.plain_fact'], /no table "plain_fact"; did you mean db\.public\.plain_facts\?/],
      [['new', '--from', 'dbb.plain_facts'], /did you mean db\.plain_facts\?/],
      [['new', '--from', 'db.raw Visits'], /did you mean db\.shop\.raw Visits\?/],
      [['new', '--from', 'product:web.visitors'], /there is no product web\.visitors/],
      [['new', '--from', 'db.plain_facts', '--namespace', 'Public!'], /--namespace Public! cannot be one/],
      [['new', '--namespace', 'x'], /--namespace is of use only with --from/],
    ] as const) {
      const { code, err } = await sluice('product', 'init', ...words)
      assert.deepEqual([code, wanted.test(err)], [2, true], err)
    }
    assert.equal(await written('web/visits', 'output'), before)
    assert.deepEqual((await readdir(folder)).toSorted(), ['again', 'insight', 'plain', 'visits.odcs.yaml', 'web'])
  })
})
