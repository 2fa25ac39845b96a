/** Checks that a product uses of another: what they look at, when they change, and who is told of them. */
import assert from 'node:assert/strict'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { type Client, type Json, manifests } from './client.ts'
import { runSluice } from './sluice-command.ts'
import { connect, deployVersion, openWorld, syncNow, type World } from './world.ts'

const HEAD = 'apiVersion: svc/v1\nkind: Quality\n'
const RULES = (limit: number) => `${HEAD}checks:
  - { name: mails_written, not_null: email, severity: warn }
  - { name: cities_known, accepted_values: { column: city, values: [c0, c1, c2] }, on_error: publish }
  - { name: ids_small, range: { column: id, max: ${limit} }, severity: warn }
  - { name: of_source, sql: "SELECT id FROM source WHERE id < 0" }
  - { name: rows, anomaly: { metric: row_count, min_history: 3 } }
  - { name: of_others, sql: "SELECT note FROM {{this}}" , severity: warn }
`

let world: World
let developer: Client
let viewer: Client

before(async () => {
  world = await openWorld()
  const [tenant] = world.tenants
  await world.createTenant(tenant)
  await world.source.query(`DROP TABLE IF EXISTS sharing, using_them;
    CREATE TABLE sharing (id integer PRIMARY KEY, email text, city text, note text);
    INSERT INTO sharing SELECT i, 'm' || i || '@s.test', 'c' || i % 3, 'n' FROM generate_series(1, 9) i;
    CREATE TABLE using_them (id integer PRIMARY KEY, email text, city text);
    INSERT INTO using_them VALUES (1, NULL, 'c0'), (2, NULL, 'elsewhere'), (30, 'x@s.test', 'c1')`)
  developer = await world.as(tenant, 'svc-developers', 'dora')
  viewer = await world.as(tenant, 'svc-viewers', 'vera')
  await connect(world, developer)
  for (const name of ['people', 'guests']) {
    const wanted = { name, namespace: 'crm', archetype: 'source_aligned', description: '' }
    assert.equal((await developer.post('/api/v1/products', wanted)).status, 201)
  }
  await deployVersion(developer, 'people', '1.0.0', sharing(20))
  await syncNow(developer)
})

after(() => world?.close())

function sharing(limit: number) {
  const columns = `${manifests('x').output.match(/schema:\n([^]*?)write_mode/)?.[1]}  - { name: note, type: string }\n`
  return { ...manifests('public.sharing', { columns }), quality: RULES(limit) }
}

function using(uses: string, checks = '') {
  const files = manifests('public.using_them')
  const product = files.product.replace('name: people', 'name: guests')
  return { ...files, product, quality: `${HEAD}uses:\n${uses}${checks === '' ? '' : `checks:\n${checks}`}` }
}

const USES = '  - { product: crm.people, checks: [mails_written, cities_known, ids_small, of_source, rows] }\n'

async function refused(uses: string, checks = ''): Promise<readonly string[]> {
  const { status, body } = await developer.upload('/api/v1/products/guests/manifests', using(uses, checks))
  assert.deepEqual([status, body.code], [422, 'manifests_invalid'], JSON.stringify(body))
  return body.errors.map(({ path, message, line }: Json) => `${path}:${line > 3 ? '' : ' at line 3'} ${message}`)
}

async function results(client: Client): Promise<readonly Json[]> {
  const { body } = await client.get('/api/v1/products/guests/quality?limit=1')
  return body.data[0].quality.checks.map(({ name, passed, violations }: Json) => [name, passed, violations])
}

describe('checks of another product', () => {
  it('are refused where there are none, they stand here twice, or this product is another one', async () => {
    assert.deepEqual(
      await refused('  - { product: crm.nobody, checks: [a] }\n  - { product: people, checks: [b] }\n'),
      [
        'uses[0].product: there is no product crm.nobody with a version in service, whose checks could be used',
        'uses[1].product: "people" is no name of a product',
      ],
    )
    assert.deepEqual(
      await refused('  - { product: crm.people, checks: [rows, row] }\n', '  - { name: rows, unique: id }\n'),
      [
        'uses[0].checks[0]: the check "rows" stands here twice',
        'uses[0].checks[1]: crm.people has no check "row" in service',
      ],
    )
    assert.deepEqual(await refused('  - { product: crm.guests, checks: [rows] }\n'), [
      'uses[0].product: a product has its own checks already',
    ])
    const files = using('  - { product: crm.people, checks: [mails_written, of_source] }\n')
    const other = {
      ...files,
      output: files.output.replace(/ {2}- \{ name: email.*\n/, ''),
      inputs: files.inputs.replace('name: source', 'name: other'),
    }
    const { body } = await developer.upload('/api/v1/products/guests/manifests', other)
    assert.deepEqual(
      body.errors.map(({ path, message }: Json) => [path, message]),
      [
        [
          'uses[0].checks[0]',
          'the check "mails_written" of crm.people does not fit: output.yaml has no column "email"',
        ],
      ],
    )
  })

  it('that cannot run here are told at their place', async () => {
    const files = using('  - { product: crm.people, checks: [rows, of_others] }\n')
    assert.equal((await developer.upload('/api/v1/products/guests/manifests', files)).status, 200)
    const { status, body } = await developer.post('/api/v1/products/guests/deploy', { version: '1.0.0', dry_run: true })
    assert.deepEqual([status, body.code], [422, 'check_invalid'], JSON.stringify(body))
    assert.deepEqual(
      body.errors.map(({ path, line }: Json) => [path, line]),
      [['uses[0].checks[1]', 4]],
    )
  })

  it('look at the rows of this one, and are told to who may see its columns', async () => {
    await deployVersion(developer, 'guests', '1.0.0', using(USES, '  - { name: own, unique: id }\n'))
    await syncNow(developer)
    const all = [
      ['own', true, 0],
      ['mails_written', false, 2],
      ['cities_known', false, 1],
      ['ids_small', false, 1],
      ['of_source', true, 0],
      ['rows', true, 0],
    ]
    assert.deepEqual(await results(developer), all)
    assert.deepEqual(
      await results(viewer),
      all.filter(([name]) => name !== 'mails_written'),
    )
  })

  it('are what they were when the manifests were uploaded; uploaded again, what they are by now', async () => {
    const files = using(USES)
    const upload = async () => {
      const { status, body } = await developer.upload('/api/v1/products/guests/manifests', files)
      assert.equal(status, 200, JSON.stringify(body))
      return body.manifests.digest as string
    }
    const before = await upload()
    await deployVersion(developer, 'people', '1.1.0', sharing(50))
    const path = '/api/v1/products/guests/deploy'
    const planned = await developer.post(path, { version: '1.0.1', dry_run: true })
    assert.equal(planned.body.digest, before)
    const { notes, shared_checks: shared } = planned.body.plan
    assert.deepEqual(
      notes.filter((note: string) => note.includes('crm.people')),
      [
        'crm.people is in service as 1.1.0 by now, which has others or none instead of the checks "ids_small": upload the manifests again to take what it has',
      ],
    )
    const limits = ({ check, version, version_in_service: now, differs }: Json) => [
      ...[check.name, check.range?.max, version, now, differs],
    ]
    assert.deepEqual(shared.map(limits), [
      ['mails_written', undefined, '1.0.0', '1.1.0', false],
      ['cities_known', undefined, '1.0.0', '1.1.0', false],
      ['ids_small', 20, '1.0.0', '1.1.0', true],
      ['of_source', undefined, '1.0.0', '1.1.0', false],
      ['rows', undefined, '1.0.0', '1.1.0', false],
    ])
    assert.equal(shared[3].check.sql, 'SELECT id FROM source WHERE id < 0')
    assert.ok(shared.every(({ product }: Json) => product === 'crm.people'))
    const told = await developer.get('/api/v1/products/guests/manifests')
    assert.deepEqual(told.body.shared_checks, shared, 'the manifests tell the same')
    const { status, body } = await developer.post(path, { version: '1.0.1', dry_run: false, digest: before })
    assert.equal(status, 201, JSON.stringify(body))
    await developer.untilEnded(body.run_id)
    assert.deepEqual((await results(developer))[2], ['ids_small', false, 1])
    const ofVersion = await viewer.get('/api/v1/products/guests/manifests/1.0.1')
    assert.deepEqual(ofVersion.body.shared_checks, shared)
    const after = await upload()
    assert.notEqual(after, before, 'the digest is of the checks as they run')
    assert.equal(await upload(), after)
    const next = (await developer.post(path, { version: '1.0.2', dry_run: true })).body.plan
    assert.deepEqual(limits(next.shared_checks[2]), ['ids_small', 50, '1.1.0', '1.1.0', false])
    assert.deepEqual(
      next.notes.filter((note: string) => note.includes('crm.people')),
      ['the check "ids_small" by crm.people 1.1.0 is another one than the version in service has of it'],
    )
    await deployVersion(developer, 'guests', '1.0.2', files)
    assert.deepEqual((await results(developer))[2], ['ids_small', true, 0])
    const back = await developer.post('/api/v1/products/guests/rollback', { version: '1.0.1' })
    assert.equal((await developer.untilEnded(back.body.run_id)).state, 'succeeded')
    assert.equal((await developer.post('/api/v1/products/guests/resume')).status, 202)
    await syncNow(developer)
    assert.deepEqual((await results(developer))[2], ['ids_small', false, 1], 'a version that comes back has its own')
  })

  it('show as a change of a folder where they changed, in the order that they need, and as drift', async () => {
    const [tenant] = world.tenants
    const folder = await mkdtemp(join(tmpdir(), 'sluice-shared-'))
    const token = await world.deployment.token(['--tenant', tenant, '--group', 'svc-developers', '--user', 'dora'])
    const put = async (name: string, files: Readonly<Record<string, string>>) => {
      await mkdir(join(folder, 'all', name), { recursive: true })
      for (const [part, text] of Object.entries(files)) await writeFile(join(folder, 'all', name, `${part}.yaml`), text)
    }
    const json = async (...words: string[]): Promise<readonly [number | null, Json]> => {
      const { code, out, err } = await runSluice([...words, '--json'], {
        url: world.deployment.url,
        token,
        cwd: folder,
      })
      assert.ok(out !== '', err)
      return [code, JSON.parse(out)]
    }
    const actions = ({ products }: Json) =>
      Object.fromEntries(products.map((one: Json) => [one.product, [one.action, one.waits_for.join()]]))
    try {
      await put('people', sharing(50))
      await put('guests', using(USES))
      await json('apply', 'all', '--yes')
      const same = { 'crm.guests': ['unchanged', ''], 'crm.people': ['unchanged', ''] }
      const [settled, unchanged] = await json('apply', 'all', '--check')
      assert.deepEqual([settled, actions(unchanged)], [0, same])
      await deployVersion(developer, 'people', '1.2.0', sharing(60))
      const [drifted, { drifts }] = await json('drift', 'all')
      assert.deepEqual(
        [drifted, drifts.filter(({ product }: Json) => product === 'crm.guests').map(({ message }: Json) => message)],
        [2, ['the check "ids_small" of crm.people is as of its upload; that product has another or none as 1.2.0']],
      )
      await put('people', sharing(60))
      const [changing, change] = await json('apply', 'all', '--check')
      assert.deepEqual([changing, actions(change)], [2, { ...same, 'crm.guests': ['change', ''] }])
      assert.match(JSON.stringify(change), /ids_small.{2,4} by crm\.people 1\.2\.0 is another one/)
      await put('people', sharing(70))
      const [, both] = await json('apply', 'all', '--check')
      const waits = { 'crm.people': ['change', ''], 'crm.guests': ['change', 'crm.people'] }
      assert.deepEqual(actions(both), waits, 'what it uses is known when that is deployed')
      const [applied, { result }] = await json('apply', 'all', '--yes')
      assert.deepEqual(
        [applied, result.deployed.map(({ product }: Json) => product)],
        [0, ['crm.people', 'crm.guests']],
      )
      const { body } = await developer.get('/api/v1/products/guests/manifests')
      assert.equal(body.shared_checks[2].check.range.max, 70)
      const [done, again] = await json('apply', 'all', '--check')
      assert.deepEqual([done, actions(again)], [0, same], 'once is enough')
    } finally {
      await rm(folder, { recursive: true, force: true })
    }
  })

  it('are not those of another tenant', async () => {
    const [, other] = world.tenants
    await world.createTenant(other)
    const stranger = await world.as(other, 'svc-developers', 'otto')
    const wanted = { name: 'guests', namespace: 'crm', archetype: 'source_aligned', description: '' }
    assert.equal((await stranger.post('/api/v1/products', wanted)).status, 201)
    const { status, body } = await stranger.upload('/api/v1/products/guests/manifests', using(USES))
    assert.deepEqual([status, body.errors[0].path], [422, 'uses[0].product'], JSON.stringify(body))
  })
})
