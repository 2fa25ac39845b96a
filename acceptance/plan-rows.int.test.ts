/** A plan says how many rows leave and come, who is shown what, and what is written: and the deployment does just that. */
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { filesOf } from '../runtime/src/command/product-draft.ts'
import { draftOfTable } from '../runtime/src/command/table-draft.ts'
import { type Client, type Json, manifests } from './client.ts'
import { deployVersion, loginOf, onboardPeople, openWorld, syncNow, type World } from './world.ts'

let world: World
let dora: Client
let dan: Client
let viewer: Client

const COLUMNS = `  - { name: id, type: integer, role: identity, nullable: false }
  - { name: email, type: string, classification: pii.identifier }
  - { name: city, type: string }
`
const FILES = manifests('public.plan_people', { columns: COLUMNS })

/** Another version, by what it changes of the first. */
function changed({ where = '', transform = '', output = 'write_mode: replace', columns = COLUMNS }): typeof FILES {
  const inputs = FILES.inputs.replace('mode: full', `mode: full${where === '' ? '' : `, where: "${where}"`}`)
  const compute = transform === '' ? FILES.compute : `${FILES.compute}transform: ${transform}\n`
  const shaped = manifests('public.plan_people', { columns }).output.replace('write_mode: replace', output)
  return { ...FILES, inputs, compute, output: shaped }
}

before(async () => {
  world = await openWorld()
  const [tenant] = world.tenants
  await world.source.query(`DROP TABLE IF EXISTS plan_people;
    CREATE TABLE plan_people (id integer PRIMARY KEY, email text, city text);
    INSERT INTO plan_people SELECT i, 'a' || i || '@plan.test', 'city' || i % 2 FROM generate_series(1, 200) i;
    DROP TABLE IF EXISTS plan_own;
    CREATE TABLE plan_own (id integer PRIMARY KEY, email text, city text);
    INSERT INTO plan_own SELECT i, 'a' || i || '@plan.test', 'mine' FROM generate_series(1, 5) i`)
  await world.createTenant(tenant)
  dora = await world.as(tenant, 'svc-developers', 'dora')
  dan = await world.as(tenant, 'svc-developers', 'dan')
  viewer = await world.as(tenant, 'svc-viewers', 'vera')
  await onboardPeople(world, dora, FILES)
})

after(() => world?.close())

async function planOf(client: Client, files: typeof FILES, lower: readonly string[] = []): Promise<Json> {
  const query = ['version=90.0.0', ...lower.map((name) => `lower=${name}`)].join('&')
  const { status, body } = await client.upload(`/api/v1/products/crm.people/plan?${query}`, files)
  assert.equal(status, 200, JSON.stringify(body))
  return body.plan
}

const without = (some: ReadonlySet<number>, others: ReadonlySet<number>): number =>
  [...some].filter((key) => !others.has(key)).length

async function keys(): Promise<ReadonlySet<number>> {
  const { status, body } = await dora.post('/api/v1/query', { sql: 'SELECT id FROM crm.people', limit: 1000 })
  assert.equal(status, 200, JSON.stringify(body))
  return new Set(body.rows.map(([id]: [number]) => id))
}

/** In their order, each deployed after it was planned. */
const VERSIONS: Readonly<Record<string, typeof FILES>> = {
  'a condition and a filter of the transform': changed({
    where: 'id > 20',
    transform: "SELECT * FROM source WHERE city = 'city0'",
  }),
  'a transform that makes other keys': changed({ transform: 'SELECT id + 100 AS id, email, city FROM source' }),
  'a merge that keeps what it has no more': changed({
    where: 'id <= 50',
    output: 'write_mode: merge\nkeep_missing: true',
  }),
  'a merge that keeps nothing': changed({ where: 'id <= 50', output: 'write_mode: merge\nkeep_missing: false' }),
  'all of it again': FILES,
}

describe('rows that leave and come', () => {
  for (const [at, [what, files]] of Object.entries(VERSIONS).entries()) {
    it(what, async () => {
      const old = await keys()
      const { rows, estimated_rows, estimated_from, cost } = await planOf(dora, files)
      assert.deepEqual(await keys(), old, 'a plan changes nothing')
      await deployVersion(dora, 'crm.people', `${at + 2}.0.0`, files)
      const now = await keys()
      assert.deepEqual(rows, {
        before: old.size,
        after: now.size,
        leaving: without(old, now),
        coming: without(now, old),
        not_counted: null,
      })
      assert.notEqual(rows.leaving + rows.coming, 0, 'it changes something')
      assert.deepEqual([estimated_rows, estimated_from], [now.size, 'count'])
      const lake = cost.find(({ place, variant }: Json) => place === 'lake' && variant === 'clear')
      assert.equal(lake.rows, now.size)
      assert.ok(lake.bytes > 0)
    })
  }
})

describe('what is not counted says why', () => {
  const none = { before: null, after: null, leaving: null, coming: null }

  it('of a product that is not in service', async () => {
    const files = { ...FILES, product: FILES.product.replace('people', 'nobody') }
    const { status, body } = await dora.upload('/api/v1/products/crm.nobody/plan?version=1.0.0', files)
    assert.equal(status, 200, JSON.stringify(body))
    assert.deepEqual(body.plan.rows, { ...none, not_counted: 'no version of it is in service' })
  })

  it('of a version that makes its rows as before, whose last epoch is told instead', async () => {
    const described = { ...FILES, product: `${FILES.product}description: other words\n` }
    const { rows } = await planOf(dora, described)
    assert.deepEqual(rows, { ...none, not_counted: 'it makes its rows as the version in service does' })
  })

  it('of rows that are only ever added', async () => {
    const { rows, estimated_from } = await planOf(dora, changed({ where: 'id > 3', output: 'write_mode: append' }))
    assert.deepEqual(rows, { ...none, not_counted: 'rows are only ever added' })
    assert.equal(estimated_from, 'last_epoch')
  })

  it('of an input that was never read', async () => {
    await world.source.query('DROP TABLE IF EXISTS plan_new; CREATE TABLE plan_new (LIKE plan_people INCLUDING ALL)')
    const files = { ...FILES, inputs: FILES.inputs.replace('plan_people', 'plan_new') }
    const { rows } = await planOf(dora, files)
    assert.deepEqual(rows, { ...none, not_counted: 'the input "source" has not been ingested yet' })
  })

  it('of what has no key, the number of rows alone', async () => {
    const columns = COLUMNS.replace(', role: identity', '')
    const files = changed({ where: 'id > 150', columns })
    const { rows } = await planOf(dora, { ...files, serving: FILES.serving.replace(/ {2}- type: lookup\n.*\n/, '') })
    assert.deepEqual(rows, {
      ...none,
      before: 200,
      after: 50,
      not_counted: 'it has no key to compare rows by',
    })
  })
})

describe('the classes that products give to columns already', () => {
  const tableOf = async (client: Client) => {
    const { status, body } = await client.get('/api/v1/connections/db/discover')
    assert.equal(status, 200, JSON.stringify(body))
    return body.tables.find(({ name }: Json) => name === 'plan_people')
  }
  const classesIn = ({ columns }: Json) => columns.map(({ name, classes }: Json) => [name, classes])

  it('are told to whoever may read the table, and to nobody else', async () => {
    const told = (email: readonly string[]) => [
      ['id', []],
      ['email', email],
      ['city', []],
    ]
    assert.deepEqual(classesIn(await tableOf(dora)), told(['pii.identifier']))
    assert.deepEqual(classesIn(await tableOf(dan)), told([]))
  })

  it('are those of a product that begins with the table, which is deployed as it was written', async () => {
    const draftFor = async (client: Client) => {
      const choices = { name: 'again', namespace: 'crm', stores: [], guess: true }
      return filesOf(draftOfTable('db', await tableOf(client), choices).draft, null)
    }
    const planFor = async (files: Readonly<Record<string, string>>) => {
      const { status, body } = await dora.upload('/api/v1/products/crm.again/plan?version=1.0.0', files)
      assert.equal(status, 200, JSON.stringify(body))
      return body.plan.problems.map(({ code }: Json) => code)
    }
    assert.deepEqual(await planFor(await draftFor(dora)), [])
    // By its name alone it would be another one.
    assert.deepEqual(await planFor(await draftFor(dan)), ['class_lowering_unnamed'])
  })
})

describe('by the rights of whoever plans', () => {
  it('says which keys are there to nobody from whom they are hidden, and of hidden columns no size', async () => {
    const columns = `  - { name: id, type: integer }
  - { name: email, type: string, role: identity, nullable: false, classification: pii.identifier }
  - { name: city, type: string }
`
    const keyed = changed({ columns })
    await deployVersion(dora, 'crm.people', '20.0.0', keyed)
    const { status } = await dan.post('/api/v1/connections', {
      name: 'own',
      connector_type: 'postgresql',
      config_encrypted: loginOf(world.deployment),
    })
    assert.equal(status, 201)
    const probing = {
      ...keyed,
      inputs: keyed.inputs.replace('connection: db', 'connection: own').replace('plan_people', 'plan_own'),
    }
    const own = { ...probing, product: probing.product.replace('people', 'own') }
    await dan.post('/api/v1/products', { name: 'own', namespace: 'crm', archetype: 'source_aligned', description: '' })
    await deployVersion(dan, 'crm.own', '1.0.0', own)
    await syncNow(dan, 'own')
    const { rows, cost } = await planOf(dan, probing)
    assert.deepEqual(rows, {
      before: 200,
      after: 5,
      leaving: null,
      coming: null,
      not_counted: 'rows are compared by email, which is hidden from you',
    })
    assert.ok(cost.every(({ bytes }: Json) => bytes === null))
    const ofLake = cost.filter(({ place }: Json) => place === 'lake')
    assert.ok(
      ofLake.length > 0 && ofLake.every(({ whole }: Json) => !whole),
      'a size that is hidden is no table that is not there',
    )
    await dora.post('/api/v1/connections/db/grants', { subject: { user: 'dan' } })
    const { rows: seen } = await planOf(dan, probing)
    assert.deepEqual([seen.leaving, seen.coming], [195, 0], 'who reads the source anyway is told')
  })
})

describe('who is shown what', () => {
  it('says it of each group before and after, as its reads then have it', async () => {
    await dora.post('/api/v1/products/crm.people/grants', {
      subject: { team: 'support' },
      may: 'unmask',
      classes: ['pii.identifier'],
    })
    const columns = COLUMNS.replace('city, type: string', 'city, type: string, classification: pii.name')
    const next = changed({ columns })
    const { access } = await planOf(dora, next)
    const cells = (type: string, name: string | null) =>
      access.groups
        .find((group: Json) => group.type === type && group.name === name)
        ?.columns.map((column: Json) => `${column.name} ${column.before} ${column.after}`)
    const masked = (await viewer.get('/api/v1/products/crm.people')).body.schema.find(
      ({ name }: Json) => name === 'email',
    ).mask
    const coming = cells('team', 'svc-viewers')
    assert.equal(coming?.[1], `email ${masked} ${masked}`)
    await deployVersion(dora, 'crm.people', '30.0.0', next)
    const after = (await viewer.get('/api/v1/products/crm.people')).body.schema
    assert.deepEqual(
      coming.map((cell: string) => cell.split(' ').at(-1)),
      after.map(({ mask }: Json) => mask ?? 'clear'),
    )
    assert.equal(cells('team', 'support')?.[1], 'email clear clear')
    assert.match(cells('team', 'support')?.[2] ?? '', /^city clear (redact|hash|partial|null|omit)$/)
    assert.deepEqual(cells('everybody', null)?.[0], 'id forbidden forbidden')
  })
})

describe('products made of it', () => {
  const OWNERS: Readonly<Record<string, string>> = {
    both: 'owner:\n  team: analysts\n  email: anna@plan.test\n',
    team: 'owner:\n  team: analysts\n',
    email: 'owner:\n  email: anna@plan.test\n',
    nobody: '',
  }
  const TOLD: Readonly<Record<string, object>> = {
    both: { team: 'analysts', email: 'anna@plan.test' },
    team: { team: 'analysts', email: null },
    email: { team: null, email: 'anna@plan.test' },
    nobody: { team: null, email: null },
  }

  it('are told with who owns them, and with the columns that they lose', async () => {
    for (const [name, owner] of Object.entries(OWNERS)) {
      const product = `${FILES.product.replace('people', name).replace('source_aligned', 'consumer_aligned')}${owner}`
      const inputs = `${FILES.inputs.split('inputs:\n')[0]}inputs:\n  - { name: source, product: crm.people }\n`
      const compute = `${FILES.compute}transform: SELECT id, city FROM source\n`
      const columns = COLUMNS.replace(/ {2}- { name: email.*\n/, '').replace(
        'city, type: string',
        'city, type: string, classification: pii.name',
      )
      const output = manifests('public.plan_people', { columns }).output
      const serving = FILES.serving.replace('[id, city]', '[id]')
      await dora.post('/api/v1/products', { name, namespace: 'crm', archetype: 'consumer_aligned', description: '' })
      await deployVersion(dora, `crm.${name}`, '1.0.0', { ...FILES, product, inputs, compute, output, serving })
    }
    const columns = COLUMNS.replace(/ {2}- { name: city.*\n/, '')
    const { downstream } = await planOf(dora, {
      ...changed({ columns }),
      serving: FILES.serving.replace('[id, city]', '[id]'),
    })
    const told = downstream.map(({ product, owner, breaks }: Json) => [product, owner, breaks])
    assert.deepEqual(
      told.toSorted(([a]: [string], [b]: [string]) => (a < b ? -1 : 1)),
      Object.keys(OWNERS)
        .toSorted()
        .map((name) => [name, TOLD[name], ['city']]),
    )
  })
})

describe('an endpoint by a column that the version in service has not', () => {
  const filesOf = (times: readonly string[], endpoints: string) => {
    const columns = [
      '  - { name: id, type: integer, role: identity, nullable: false }\n',
      ...times.map((name) => `  - { name: ${name}, type: timestamp, nullable: false }\n`),
    ].join('')
    const files = manifests('public.plan_times', { columns, endpoints: `  - type: lookup\n${endpoints}` })
    return { ...files, product: files.product.replace('people', 'times') }
  }
  const by = (name: string) => filesOf([name], `  - { type: timeseries, config: { time_column: ${name} } }\n`)
  const VERSIONS = { '1.0.0': filesOf([], ''), '2.0.0': by('begun'), '3.0.0': by('over') }
  const PATH = '/api/v1/products/crm.times'

  it('is planned, deployed, and gone back to', async () => {
    await world.source.query(`DROP TABLE IF EXISTS plan_times;
      CREATE TABLE plan_times (id integer PRIMARY KEY, begun timestamp NOT NULL, over timestamp NOT NULL);
      INSERT INTO plan_times SELECT i, '2026-01-01', '2026-02-01' FROM generate_series(1, 3) i`)
    await dora.post('/api/v1/products', { name: 'times', namespace: 'crm', archetype: 'source_aligned' })
    const timesOf = async (name: string) => {
      const { status, body } = await viewer.get(`${PATH}/timeseries?columns=id,${name}`)
      assert.equal(status, 200, JSON.stringify(body))
      return body.data.length
    }
    for (const [version, files] of Object.entries(VERSIONS)) {
      const { status, body } = await dora.upload(`${PATH}/plan?version=${version}`, files)
      assert.equal(status, 200, JSON.stringify(body))
      await deployVersion(dora, 'crm.times', version, files)
      await syncNow(dora)
      if (version !== '1.0.0') assert.equal(await timesOf(version === '2.0.0' ? 'begun' : 'over'), 3)
    }
    for (const version of ['2.0.0', '1.0.0', '3.0.0']) {
      const back = await dora.post(`${PATH}/rollback`, { version })
      assert.equal(back.status, 202, JSON.stringify(back.body))
      const run = await dora.untilEnded(back.body.run_id)
      assert.equal(run.state, 'succeeded', JSON.stringify(run))
      if (version !== '1.0.0') assert.equal(await timesOf(version === '2.0.0' ? 'begun' : 'over'), 3)
    }
  })
})
