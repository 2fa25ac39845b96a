/** New versions whose first rows are compared with those that are served: what comes into service, and what readers see. HTTP only. */
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { until } from '../test/until.ts'
import { type Answer, type Client, type Json, manifests, ok } from './client.ts'
import { deployVersion, onboardPeople, openWorld, syncNow, type World } from './world.ts'

const PEOPLE = '/api/v1/products/crm.people'
const COLUMNS = `  - { name: id, type: integer, role: identity, nullable: false }
  - { name: email, type: string, classification: pii.identifier }
  - { name: city, type: string }
`
const BOUNDS = `new_version:
  rows: 10%
  leaving: 2
  joining: 2
  changed: [{ columns: [city], at_most: 20% }, { columns: email, at_most: 0 }]
  null_share: [{ columns: email, at_most: 1% }]
`

let world: World
let owner: Client
let colleague: Client
let viewer: Client

before(async () => {
  world = await openWorld()
  const [tenant] = world.tenants
  await world.source.query(`
    CREATE TABLE people (id integer PRIMARY KEY, email text, city text);
    INSERT INTO people SELECT i, 'p' || i || '@hidden.test', 'city ' || i % 3 FROM generate_series(1, 30) i;
    CREATE TABLE open_people (id integer PRIMARY KEY, email text, city text);
    INSERT INTO open_people SELECT i, 'guess', 'city ' || i % 3 FROM generate_series(1, 30) i`)
  await world.createTenant(tenant)
  owner = await world.as(tenant, 'svc-developers', 'dora')
  colleague = await world.as(tenant, 'svc-developers', 'carl')
  viewer = await world.as(tenant, 'svc-viewers', 'vito')
  await onboardPeople(world, owner, files({}))
})

after(() => world?.close())

interface Version {
  readonly city?: string
  readonly email?: string
  readonly where?: string
  readonly quality?: string
  readonly compute?: string
  readonly table?: string
  readonly description?: string
}

function files({ city = 'city', email = 'email', where = 'true', ...more }: Version): Readonly<Record<string, string>> {
  const made = manifests(`public.${more.table ?? 'people'}`, { columns: COLUMNS, endpoints: '  - { type: lookup }\n' })
  const transform = `SELECT id, ${email} AS email, ${city} AS city FROM source WHERE ${where}`
  return {
    ...made,
    product: `${made.product}description: ${more.description ?? 'as it was'}\n`,
    quality: `${made.quality}${more.quality ?? ''}`,
    compute: `${more.compute ?? made.compute}transform: ${JSON.stringify(transform)}\n`,
  }
}

async function deploy(version: string, made: Version, more: Json = {}, who = owner): Promise<Answer> {
  await ok(who.upload(`${PEOPLE}/manifests`, files({ quality: BOUNDS, ...made })))
  return who.post(`${PEOPLE}/deploy`, { version, dry_run: false, ...more })
}

/** Deployed, and how its run has ended. */
async function tried(
  version: string,
  made: Version,
  more: Json = {},
): Promise<{ readonly body: Json; readonly run: Json }> {
  const body = await ok(deploy(version, made, more))
  return { body, run: await owner.untilEnded(body.run_id) }
}

async function refused(answer: Promise<Answer>, status: number, code: string): Promise<Json> {
  const { status: got, body } = await answer
  assert.deepEqual([got, body.code], [status, code], JSON.stringify(body))
  return body
}

const product = (): Promise<Json> => ok(owner.get(PEOPLE))

/** By name, what came of the bounds in the newest attempt, as that client is told. */
async function compared(client: Client, of = PEOPLE): Promise<Readonly<Record<string, Json>>> {
  const { data } = await ok(client.get(`${of}/quality?limit=1`))
  const checks: readonly Json[] = data[0].quality.checks.filter(({ compared: one }: Json) => one !== null)
  return Object.fromEntries(checks.map((check) => [check.name, check]))
}

const citiesOf = async (client: Client): Promise<string> => {
  const { data } = await ok(client.get(`${PEOPLE}/latest?limit=100`))
  return data
    .map((row: Json) => `${row.id}=${row.city}`)
    .sort()
    .join()
}

/** Reads all rows without a pause while `work` is done: none fails, and each is of one version whole. */
async function readThroughout<T>(may: readonly string[], work: () => Promise<T>): Promise<T> {
  let isDone = false
  let reads = 0
  const reading = (async () => {
    while (!isDone || reads === 0) {
      const seen = await citiesOf(viewer)
      assert.ok(may.includes(seen), seen)
      reads += 1
    }
  })()
  const [done] = await Promise.all([work().finally(() => (isDone = true)), reading])
  return done
}

const shown = (city: (id: number) => string, ids = Array.from({ length: 30 }, (_, at) => at + 1)): string =>
  ids
    .map((id) => `${id}=${city(id)}`)
    .sort()
    .join()
const AS_BEFORE = shown((id) => `city ${id % 3}`)
const LOUD = shown((id) => `CITY ${id % 3}`)
const FEW_MOVED = shown((id) => (id <= 5 ? 'moved' : `city ${id % 3}`))

describe('a new version that may differ by so much', () => {
  it('says so in its plan, comes into service within its bounds, and tells what differs', async () => {
    const few = { city: "CASE WHEN id <= 5 THEN 'moved' ELSE city END" }
    await ok(owner.upload(`${PEOPLE}/manifests`, files({ quality: BOUNDS, ...few })))
    const { plan } = await ok(owner.post(`${PEOPLE}/deploy`, { version: '1.1.0', dry_run: true }))
    assert.match(plan.notes.join('\n'), /compared with those that are served.*rows 10%.*changed city 20%/)
    const { body, run } = await readThroughout([AS_BEFORE, FEW_MOVED], () => tried('1.1.0', few))
    assert.equal(run.state, 'succeeded', JSON.stringify(run))
    assert.equal(body.deployment.state, 'running')
    const { data } = await ok(owner.get(`${PEOPLE}/deployments?limit=1`))
    assert.deepEqual([data[0].state, data[0].version], ['succeeded', '1.1.0'])
    assert.equal(await citiesOf(viewer), FEW_MOVED)
    const found = await compared(owner)
    assert.deepEqual(
      Object.entries(found).map(([name, { passed, violations, total }]) => [name, passed, violations, total]),
      [
        ['new_version: rows', true, 0, 30],
        ['new_version: leaving', true, 0, 30],
        ['new_version: joining', true, 0, 30],
        ['new_version: changed city', true, 5, 30],
        ['new_version: changed email', true, 0, 30],
        ['new_version: null_share email', true, 0, 1],
      ],
    )
    const rows = { metric: 'rows', column: null, former: 30, now: 30, accepted: false, at_most: '10%' }
    assert.deepEqual(found['new_version: rows'].compared, rows)
    const { data: made } = await ok(owner.get(`${PEOPLE}/quality?limit=1`))
    assert.equal(made[0].quality_score, 100, 'it counts for no score')
  })

  it('does not come into service beyond them: readers see the former one, which goes on', async () => {
    const beyond = {
      city: 'upper(city)',
      email: "nullif(nullif(nullif(email, 'p1@hidden.test'), 'p2@hidden.test'), 'p3@hidden.test')",
      where: 'id <= 26',
      description: 'another one',
      compute: 'apiVersion: svc/v1\nkind: Compute\nengine: auto\ntrigger: schedule\nschedule: { every: 1h }\n',
    }
    const { run } = await readThroughout([FEW_MOVED], () => tried('1.2.0', beyond))
    assert.deepEqual([run.state, run.products[0].reason.code], ['failed', 'version_differs'], JSON.stringify(run))
    const now = await product()
    assert.deepEqual([now.current_version, now.description, now.schedule], ['1.1.0', 'as it was', null])
    const { data } = await ok(owner.get(`${PEOPLE}/deployments?limit=1`))
    assert.deepEqual([data[0].state, data[0].version, data[0].error.code], ['failed', '1.2.0', 'version_differs'])
    const found = await compared(owner)
    assert.deepEqual(
      Object.entries(found).map(([name, { passed, violations, total }]) => [name.slice(13), passed, violations, total]),
      [
        ['rows', false, 4, 30],
        ['leaving', false, 4, 30],
        ['joining', true, 0, 30],
        ['changed city', false, 26, 26],
        ['changed email', false, 3, 26],
        ['null_share email', false, 1, 1],
      ],
    )
    await world.source.query("UPDATE people SET city = 'new' WHERE id = 30")
    await syncNow(owner)
    assert.equal(
      await citiesOf(viewer),
      shown((id) => (id <= 5 ? 'moved' : id === 30 ? 'new' : `city ${id % 3}`)),
    )
    await world.source.query("UPDATE people SET city = 'city 0' WHERE id = 30")
    await syncNow(owner)
    assert.deepEqual(await compared(owner), {}, 'epochs after the first are compared with nothing')
  })

  it('tells nobody of hidden columns what differs in them', async () => {
    const { run } = await tried('1.2.1', { email: "email || 'x'" })
    assert.equal(run.products[0].reason.code, 'version_differs')
    assert.equal((await compared(owner))['new_version: changed email'].violations, 30)
    assert.deepEqual(
      Object.keys(await compared(viewer)).map((name) => name.slice(13)),
      ['rows', 'leaving', 'joining', 'changed city'],
    )
    const told = await Promise.all(
      [`${PEOPLE}/quality`, PEOPLE, '/api/v1/ingestion', `/api/v1/ingestion/${run.id}`, `${PEOPLE}/deployments`].map(
        async (path) => JSON.stringify((await viewer.get(path)).body),
      ),
    )
    assert.doesNotMatch(told.join('\n'), /changed email|null_share|hidden\.test/)
  })

  it('is not for those to deploy who may not see what it is compared with', async () => {
    const { data: connections } = await ok(owner.get('/api/v1/connections'))
    const grant = { subject: { user: 'carl' }, table: 'public.open_people' }
    await ok(owner.post(`/api/v1/connections/${connections[0].id}/grants`, grant))
    const guess = { table: 'open_people', quality: 'new_version: { changed: [{ columns: email, at_most: 29 }] }\n' }
    const body = await refused(deploy('1.2.2', guess, {}, colleague), 403, 'comparison_forbidden')
    assert.match(body.detail ?? body.message, /email/)
  })

  it('comes into service whatever differs where somebody says so, on record', async () => {
    const { run } = await readThroughout([FEW_MOVED, LOUD], () =>
      tried('1.2.3', { city: 'upper(city)' }, { accept_differences: true }),
    )
    assert.equal(run.state, 'succeeded', JSON.stringify(run))
    assert.equal(await citiesOf(viewer), LOUD)
    const city = (await compared(owner))['new_version: changed city']
    assert.deepEqual([city.passed, city.severity, city.compared.accepted], [false, 'warn', true])
    const { data } = await ok(owner.get('/api/v1/audit?limit=50'))
    const record = data.find(({ action, details }: Json) => action === 'product.deploy' && details.accept_differences)
    assert.equal(record?.details.version, '1.2.3')
  })

  it('is compared as a preview, and again when it is promoted', async () => {
    const calm = { city: 'lower(city)' }
    const first = await tried('1.3.0', calm, { stage: 'preview' })
    assert.equal(first.run.products[0].reason.code, 'version_differs')
    assert.equal((await compared(owner, `${PEOPLE}@preview`))['new_version: changed city'].violations, 30)
    await ok(owner.send(`${PEOPLE}/preview`, { method: 'DELETE' }))
    await until('the preview is gone', async () => (await product()).preview === null)
    const second = await tried('1.3.0', calm, { stage: 'preview', accept_differences: true })
    assert.equal(second.run.state, 'succeeded', JSON.stringify(second.run))
    const { data } = await ok(owner.get(`${PEOPLE}@preview/latest?filter=id:1`))
    assert.equal(data[0].city, 'city 1')
    const promoted = await ok(owner.post(`${PEOPLE}/promote`, {}))
    assert.equal((await owner.untilEnded(promoted.run_id)).products[0].reason.code, 'version_differs')
    assert.equal((await product()).current_version, '1.2.3')
    const accepted = await tried('1.3.0', calm, { accept_differences: true })
    assert.equal(accepted.run.state, 'succeeded')
    assert.equal(await citiesOf(viewer), AS_BEFORE)
  })

  it('gives way to a later deployment, which goes back to what there was before both', async () => {
    // Its new input has never been read: the version waits for it.
    const waiting = { table: 'open_people', city: "'elsewhere'" }
    const body = await ok(deploy('2.0.0', waiting))
    assert.deepEqual([body.run_id, body.deployment.state], [null, 'running'])
    const { run } = await tried('2.1.0', { city: "'nowhere'" })
    assert.equal(run.products[0].reason.code, 'version_differs')
    assert.equal((await product()).current_version, '1.3.0')
    const { data } = await ok(owner.get(`${PEOPLE}/deployments?limit=2`))
    assert.deepEqual(
      data.map(({ error }: Json) => error?.code),
      ['version_differs', 'deployment_superseded'],
    )
    assert.equal(await citiesOf(viewer), AS_BEFORE)
  })

  it('waits for its first rows beside a rollback, which ends it where it succeeds', async () => {
    await ok(deploy('2.2.0', { table: 'open_people', city: "'elsewhere'" }))
    const back = await ok(owner.post(`${PEOPLE}/rollback`, { version: '1.2.3' }))
    assert.equal((await owner.untilEnded(back.run_id)).state, 'succeeded')
    const { data } = await ok(owner.get(`${PEOPLE}/deployments?limit=2`))
    assert.deepEqual(
      data.map(({ kind, version, state }: Json) => [kind, version, state]),
      [
        ['rollback', '1.2.3', 'succeeded'],
        ['deploy', '2.2.0', 'failed'],
      ],
    )
    const again = await tried('2.3.0', { city: "'nowhere'" })
    assert.equal(again.run.products[0].reason.code, 'version_differs')
    const now = await product()
    assert.deepEqual([now.current_version, now.paused?.version], ['1.2.3', '1.2.3'], 'it is paused as before')
    assert.equal(await citiesOf(viewer), LOUD)
  })
})

describe('deployments at one time', () => {
  it('take the place of the version that they were judged against, or are refused', async () => {
    await deployVersion(owner, 'crm.people', '3.0.0', files({ city: "city || ''" }))
    let refusals = 0
    for (let round = 1; round <= 10 && refusals === 0; round += 1) {
      const versions = [0, 1, 2, 3].map((at) => `3.${round}.${at}`)
      const answers = await Promise.all(
        versions.map((version) => owner.post(`${PEOPLE}/deploy`, { version, dry_run: false })),
      )
      const taken = answers.filter(({ status }) => status === 201)
      const others = answers.filter(({ status }) => status !== 201)
      assert.ok(taken.length >= 1, JSON.stringify(answers.map(({ body }) => body)))
      for (const { status, body } of others) assert.deepEqual([status, body.code], [409, 'plan_changed'])
      refusals += others.length
      assert.ok(taken.map(({ body }) => body.deployment.version).includes((await product()).current_version))
    }
    assert.ok(refusals > 0, 'some were judged at one time')
  })
})
