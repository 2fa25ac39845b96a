/** SQL of quality.yaml as its author meets it: what cannot run is told when it is deployed, and what can run runs. */
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { type Client, type Json, manifests } from './client.ts'
import { loginOf, onboardPeople, openWorld, syncNow, type World } from './world.ts'

const FILES = manifests('public.quality_people')

let world: World
let developer: Client
let product: Json

before(async () => {
  world = await openWorld()
  const [tenant] = world.tenants
  await world.source.query(`DROP TABLE IF EXISTS quality_people;
    CREATE TABLE quality_people (id integer PRIMARY KEY, email text, city text, note text, gone text);
    INSERT INTO quality_people SELECT i, 'a' || i || '@q.test', 'c' || i % 3, 'n', 'g' FROM generate_series(1, 9) i`)
  await world.createTenant(tenant)
  developer = await world.as(tenant, 'svc-developers', 'dora')
  product = await onboardPeople(world, developer, {
    ...FILES,
    inputs: FILES.inputs.replace('mode: full', 'mode: full, columns: [id, email, city]'),
  })
  // The lake has the column still, until the next sync.
  await world.source.query('ALTER TABLE quality_people DROP COLUMN gone')
})

after(() => world?.close())

/** Each check stands on a line of its own, behind four lines of head. */
function qualityOf(checks: readonly string[]): string {
  return `apiVersion: svc/v1\nkind: Quality\nchecks:\n${checks.map((check, index) => `  - { name: c${index}, ${check} }\n`).join('')}`
}

async function deploy(checks: readonly string[], version: string, isDryRun = true) {
  const path = `/api/v1/products/${product.id}`
  const inputs = FILES.inputs.replace('mode: full', 'mode: full, columns: [id, email, city]')
  const uploaded = await developer.upload(`${path}/manifests`, { ...FILES, inputs, quality: qualityOf(checks) })
  assert.equal(uploaded.status, 200, JSON.stringify(uploaded.body))
  return developer.post(`${path}/deploy`, { version, dry_run: isDryRun })
}

const sql = (text: string) => `sql: ${JSON.stringify(text)}`

/** What can run: over the output, the inputs with all their columns, counted or as rows. */
const SOUND = [
  sql('SELECT * FROM {{this}} WHERE id < 0;'),
  sql('SELECT id FROM {{ this }} GROUP BY id HAVING count(*) > 1 -- keys'),
  sql("SELECT count(*) AS violations FROM source WHERE note = ''"),
  sql('SELECT count(*) * 0.0 AS VIOLATIONS FROM source WHERE gone IS NULL'),
  sql('WITH lost AS (SELECT id FROM source EXCEPT SELECT id FROM {{this}}) SELECT * FROM lost'),
  sql('SELECT a.id, b.id FROM {{this}} AS a JOIN source AS b ON a.id = b.id WHERE a.city <> b.city'),
  // Fails over rows that are not there, and not over those that are.
  sql("SELECT CAST(CASE WHEN count(*) = 0 THEN 'none' ELSE '0' END AS integer) AS violations FROM {{this}}"),
  sql(
    "SELECT CAST(CASE WHEN count(*) = 0 THEN 'none' ELSE '0' END AS integer) AS n FROM {{this}} HAVING count(*) > 99",
  ),
  'references: { columns: id, input: source }',
  'references: { columns: city, input: source, input_columns: note }, severity: warn, on_error: publish',
] as const

const BROKEN: readonly (readonly [check: string, message: RegExp, hint: RegExp])[] = [
  [sql('SELECT * FROM {{this}} WHERE nothing = 1'), /there is no column "nothing"/, /output\.yaml/],
  [sql('SELECT note FROM {{this}}'), /there is no column "note"/, /output\.yaml/],
  [sql('SELECT * FROM crm.people'), /there is no table crm\.people/, /\{\{this\}\}.*source/],
  [sql('SELECT * FROM {{that}}'), /not valid SQL/, /\w/],
  [sql('DELETE FROM {{this}}'), /anything but SELECT/, /SELECT/],
  [sql('SELECT 1; SELECT 2'), /more than one statement/, /SELECT/],
  [sql('SELECT * FROM {{this}}) AS output, (SELECT 1'), /not valid SQL/, /\w/],
  [sql("SELECT * FROM read_text('/etc/passwd')"), /may not use/, /SELECT/],
  [sql("SELECT 'three' AS violations FROM {{this}}"), /violations, is no number/, /\w/],
  ['references: { columns: id, input: source, input_columns: nothing }', /"source" has no column "nothing"/, /\w/],
  ["matches: { column: city, pattern: '(' }", /no regular expression/, /bracket/],
  ["matches: { column: city, pattern: '(a{0,1000}){0,1000}' }", /too large/, /less often/],
]

describe('a check that cannot run', () => {
  for (const isDryRun of [true, false]) {
    it(`refuses the ${isDryRun ? 'dry run' : 'deployment'}, with each in its place`, async () => {
      const checks = BROKEN.flatMap(([check], index) => [check, SOUND[index % SOUND.length] as string])
      const { status, body } = await deploy(checks, '1.1.0', isDryRun)
      assert.deepEqual([status, body.code], [422, 'check_invalid'], JSON.stringify(body))
      assert.match(body.remedy, /\w/)
      assert.equal(body.errors.length, BROKEN.length, JSON.stringify(body.errors))
      for (const [at, [check, message, hint]] of BROKEN.entries()) {
        const error = body.errors[at]
        const kind = check.slice(0, check.indexOf(':'))
        assert.deepEqual([error.manifest, error.line], ['quality', 4 + 2 * at], JSON.stringify(error))
        assert.ok(error.path.startsWith(`checks[${2 * at}].${kind}`), error.path)
        assert.ok(error.column > 1)
        assert.match(error.message, new RegExp(`"c${2 * at}"`))
        assert.match(error.message, message)
        assert.match(error.hint, hint, check)
      }
      assert.equal((await developer.get(`/api/v1/products/${product.id}`)).body.current_version, '1.0.0')
    })
  }

  it('counts lines of its own text', async () => {
    const { body } = await deploy([sql('SELECT id\nFROM {{this}}\nWHERE WHERE')], '1.1.0')
    assert.match(body.errors[0].message, /line 3, column 7/)
  })
})

describe('a check that can run', () => {
  it('is deployed, and gives its verdict', async () => {
    const { status, body } = await deploy(SOUND, '1.1.0', false)
    assert.equal(status, 201, JSON.stringify(body))
    const run = await developer.untilEnded(body.run_id)
    assert.equal(run.state, 'succeeded', JSON.stringify(run.error))
    const { data } = (await developer.get(`/api/v1/products/${product.id}/quality`)).body
    const verdicts = data[0].quality.checks.map((check: Json) => [check.name, check.passed, check.violations !== null])
    assert.deepEqual(
      verdicts,
      SOUND.map((_, index) => [`c${index}`, index < SOUND.length - 1, true]),
    )
  })

  it('shows what came of it to who may see the columns that it looks at', async () => {
    const secret = sql('SELECT length(max(email)) AS violations FROM source')
    const checks = [`${secret}, severity: warn, on_error: publish`, sql('SELECT id FROM {{this}} WHERE id < 0')]
    const planned = await deploy(checks, '1.1.1')
    assert.match(JSON.stringify(planned.body.plan.notes), /"c0\\"/)
    assert.doesNotMatch(JSON.stringify(planned.body.plan.notes), /"c1\\"/)
    const { status, body } = await deploy(checks, '1.1.1', false)
    assert.equal(status, 201, JSON.stringify(body))
    await developer.untilEnded(body.run_id)
    const [tenant] = world.tenants
    const viewer = await world.as(tenant, 'svc-viewers', 'vera')
    const seen = async (client: Client) => {
      const path = `/api/v1/products/${product.id}`
      const [newest] = (await client.get(`${path}/quality`)).body.data
      const detail = (await client.get(path)).body
      assert.deepEqual(detail.quality.checks, newest.quality.checks)
      assert.equal(detail.quality.score, newest.quality_score)
      return [newest.quality_score, newest.quality.checks.map(({ name, violations }: Json) => [name, violations])]
    }
    assert.deepEqual(await seen(viewer), [100, [['c1', 0]]])
    assert.deepEqual(
      await seen(developer),
      [
        50,
        [
          ['c0', 9],
          ['c1', 0],
        ],
      ],
      'no more than there are rows',
    )
  })

  it('shows the rows that failed it, as the product would be shown to the reader', async () => {
    const [tenant] = world.tenants
    const viewer = await world.as(tenant, 'svc-viewers', 'vera')
    const named = { name: 'mails', namespace: 'crm', archetype: 'source_aligned', description: '' }
    const { body: mails } = await developer.post('/api/v1/products', named)
    const path = `/api/v1/products/${mails.id}`
    const schema = [
      '{ name: email, type: string, role: identity, classification: pii.identifier, nullable: false }',
      '{ name: id, type: integer }',
      '{ name: city, type: string }',
    ]
    const checks = [
      'range: { column: id, max: 6 }, severity: warn',
      `${sql('SELECT email, city FROM {{this}} WHERE id = 1')}, severity: warn`,
      `${sql('SELECT id, note FROM source WHERE id = 2')}, severity: warn`,
      'accepted_values: { column: city, values: [c0, c1] }',
      'row_count: { min: 100 }, severity: warn',
      `${sql("SELECT id AS key, repeat('x', 300) || chr(27) AS long FROM {{this}} WHERE id = 3")}, severity: warn`,
    ]
    const files = {
      ...FILES,
      product: FILES.product.replace('name: people', 'name: mails'),
      inputs: FILES.inputs.replace('mode: full', 'mode: full, columns: [id, email, city]'),
      output: FILES.output.replace(
        /schema:[\s\S]*write_mode/,
        `schema:\n${schema.map((line) => `  - ${line}\n`).join('')}write_mode`,
      ),
    }
    const release = async (version: string, some: readonly string[]) => {
      const uploaded = await developer.upload(`${path}/manifests`, { ...files, quality: qualityOf(some) })
      assert.equal(uploaded.status, 200, JSON.stringify(uploaded.body))
      const { status, body } = await developer.post(`${path}/deploy`, { version, dry_run: false })
      assert.equal(status, 201, JSON.stringify(body))
      await developer.untilEnded(body.run_id)
      return body.run_id as string
    }
    const run = await release('1.0.0', checks)
    const seen = async (client: Client) => {
      const { data } = (await client.get(`${path}/quality`)).body
      return Object.fromEntries(data[0].quality.checks.map((check: Json) => [check.name, check.violating]))
    }
    const own = await seen(developer)
    assert.deepEqual(own.c0, {
      columns: ['email', 'id'],
      masked_columns: [],
      rows: ['7', '8', '9'].map((id) => [`a${id}@q.test`, id]),
    })
    assert.deepEqual(own.c1, { columns: ['email', 'city'], masked_columns: [], rows: [['a1@q.test', 'c1']] })
    assert.deepEqual(own.c2, { columns: ['id', 'note'], masked_columns: [], rows: [['2', 'n']] })
    assert.deepEqual(
      own.c3.rows.map(([, city]: Json) => city),
      ['c2', 'c2', 'c2'],
    )
    assert.equal(own.c4, null, 'it speaks of no rows')
    assert.deepEqual(own.c5.rows, [['3', `${'x'.repeat(200)}…`]])

    const others = await seen(viewer)
    assert.deepEqual(Object.keys(others), ['c0', 'c2', 'c3', 'c4', 'c5'])
    assert.deepEqual(others.c0.masked_columns, ['email'])
    assert.deepEqual(others.c0.rows.map(([, id]: Json) => id).sort(), ['7', '8', '9'])
    assert.equal(others.c2, null, 'rows of the source are for who may read them')
    assert.doesNotMatch(JSON.stringify(others), /@q\.test/)

    const summaries = async (client: Client) => (await client.get(`/api/v1/ingestion/${run}`)).body.failed_checks
    const [first, , , , last] = await summaries(developer)
    assert.equal(first.summary, 'c0: 3 of 9 rows, first: email=a7@q.test id=7')
    assert.deepEqual([first.product, last.summary], ['crm.mails', 'c4: violated by 1 of 1'])
    const told = JSON.stringify(await summaries(viewer))
    assert.doesNotMatch(told, /@q\.test|c1:/)
    assert.match(told, /c0: 3 of 9 rows, first: email=\S+ id=[789]/)
    assert.doesNotMatch(JSON.stringify((await developer.get('/api/v1/ingestion')).body), /@q\.test/)

    await release('1.0.1', checks.slice(0, 1))
    const { data } = (await developer.get(`${path}/quality`)).body
    assert.deepEqual(
      data.map((one: Json) => one.quality.checks.map(({ violating }: Json) => violating?.rows.length ?? null)),
      [[3], [null, null, null, null, null, null]],
      'rows go with the materialization that had them',
    )
    assert.equal((await developer.send(path, { method: 'DELETE' })).status, 204)
  })

  it('may name what the source has lost until the lake has lost it, too; a version in service before comes back', async () => {
    const without = SOUND.filter((check) => !check.includes('gone'))
    const { status, body } = await deploy(without, '1.2.0', false)
    assert.equal(status, 201, JSON.stringify(body))
    await developer.untilEnded(body.run_id)
    await syncNow(developer)
    const refused = await deploy(SOUND, '1.3.0')
    assert.deepEqual(
      refused.body.errors?.map(({ path, message }: Json) => [path, message.includes('"gone"')]),
      [['checks[3].sql', true]],
      JSON.stringify(refused.body),
    )
    const back = await developer.post(`/api/v1/products/${product.id}/rollback`, { version: '1.1.0' })
    assert.equal(back.status, 202, JSON.stringify(back.body))
    assert.equal((await developer.untilEnded(back.body.run_id)).state, 'succeeded')
  })

  it('is deployed while its source does not answer, unless the output lacks what it names', async () => {
    const change = { config_encrypted: loginOf(world.deployment, { port: 1 }) }
    const headers = { 'content-type': 'application/json' }
    const patched = await developer.send('/api/v1/connections/db', {
      method: 'PATCH',
      body: JSON.stringify(change),
      headers,
    })
    assert.equal(patched.status, 200, JSON.stringify(patched.body))
    const { status, body } = await deploy(SOUND, '1.3.0')
    assert.equal(status, 200, JSON.stringify(body))
    const broken = await deploy([SOUND[2] as string, sql('SELECT nothing FROM {{this}}')], '1.3.0')
    assert.deepEqual(
      broken.body.errors?.map(({ path }: Json) => path),
      ['checks[1].sql'],
      JSON.stringify(broken.body),
    )
  })
})
