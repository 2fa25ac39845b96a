/**
 * A runtime that tells a real endpoint of its runs: what is told of whom, that nothing hidden is in it, that neither a kill of the
 * runtime nor an endpoint that is away loses any, and that OpenLineage's own classes read every event.
 */
import assert from 'node:assert/strict'
import { createServer, type IncomingHttpHeaders } from 'node:http'
import type { AddressInfo } from 'node:net'
import { after, before, it } from 'node:test'
import { type Client, type Json, manifests, ok } from '../../acceptance/client.ts'
import { deployVersion, loginOf, openWorld, syncNow, type World } from '../../acceptance/world.ts'
import { until } from '../../test/until.ts'
import { readByClasses } from './openlineage-classes.ts'

const HIDDEN = 'pii.identifier'
/** In values that are hidden, and in nothing else. */
const MARKER = 'm4rked'
const API_KEY = 'k3y-of-the-endpoint'
const ID = '  - { name: id, type: integer, role: identity, nullable: false }\n'
const EMAIL = `  - { name: email, type: string, classification: ${HIDDEN} }\n`

interface Told {
  readonly headers: IncomingHttpHeaders
  readonly text: string
  readonly event: Json
}

const told: Told[] = []
let isAway = false
const endpoint = createServer((request, response) => {
  let text = ''
  request.setEncoding('utf8').on('data', (chunk: string) => (text += chunk))
  request.on('end', () => {
    if (isAway) return response.writeHead(503).end()
    told.push({ headers: request.headers, text, event: JSON.parse(text) })
    return response.writeHead(201).end()
  })
})

let world: World
let tenant: string
let foreign: string
let owner: Client
let outsider: Client

interface Files {
  readonly inputs: string
  readonly columns: string
  readonly transform?: string
  readonly checks?: string
}

function files(
  name: string,
  { inputs, columns, transform, checks = '  - { name: ids_are_keys, unique: [id] }\n' }: Files,
) {
  const made = manifests('unused', { columns, endpoints: '  - type: lookup\n' })
  const archetype = inputs.includes('product:') ? 'aggregate' : 'source_aligned'
  const owned = 'description: Who buys.\nowner: { team: crm, email: crm@acme.test }\n'
  return {
    ...made,
    product: `${made.product.replace('name: people', `name: ${name}`).replace('source_aligned', archetype)}${owned}`,
    inputs: `apiVersion: svc/v1\nkind: Inputs\ninputs:\n${inputs}`,
    quality: `apiVersion: svc/v1\nkind: Quality\nchecks:\n${checks}`,
    compute: `apiVersion: svc/v1\nkind: Compute\nengine: embedded\ntrigger: on_ingestion\n${transform === undefined ? '' : `transform: ${JSON.stringify(transform)}\n`}`,
  }
}

const PEOPLE: Files = {
  inputs: '  - { name: source, connection: db, table: ol_people, mode: full }\n',
  columns: `${ID}${EMAIL}  - { name: city, type: string }\n`,
  checks: [
    '  - { name: ids_are_keys, unique: [id] }',
    `  - { name: ${MARKER}_email_is_known, accepted_values: { column: email, values: ["${MARKER}-value"] }, severity: warn, on_error: publish }`,
    '  - { name: city_is_known, accepted_values: { column: city, values: [elsewhere] }, severity: warn, on_error: publish }\n',
  ].join('\n'),
}

const SPENDING: Files = {
  inputs:
    '  - { name: p, product: crm.people }\n  - { name: o, connection: db, table: public.ol_orders, mode: full, where: "state = \'paid\'" }\n',
  columns: `${ID}  - { name: contact, type: string, classification: ${HIDDEN} }\n  - { name: cents, type: integer }\n`,
  transform: 'SELECT o.id, p.email AS contact, o.price * 100 AS cents FROM p JOIN o ON o.person = p.id',
}

before(async () => {
  await new Promise<void>((resolve) => endpoint.listen(0, '127.0.0.1', resolve))
  const { port } = endpoint.address() as AddressInfo
  process.env['SLUICE_OPENLINEAGE__URL'] = `http://127.0.0.1:${port}/api/v1/lineage`
  process.env['SLUICE_OPENLINEAGE__API_KEY'] = API_KEY
  process.env['SLUICE_LIMITS__LEASE_MS'] = '2000'
  world = await openWorld()
  ;[tenant, foreign] = world.tenants
  await world.source.query(`DROP TABLE IF EXISTS ol_people, ol_orders;
    CREATE TABLE ol_people (id integer PRIMARY KEY, email text, city text);
    CREATE TABLE ol_orders (id integer PRIMARY KEY, person integer, price integer, state text);
    INSERT INTO ol_people SELECT i, '${MARKER}' || i || '@p.test', 'city' FROM generate_series(1, 5) i;
    INSERT INTO ol_orders SELECT i, i, i, 'paid' FROM generate_series(1, 5) i`)
  for (const slug of world.tenants) await world.createTenant(slug)
  owner = await world.as(tenant, 'svc-developers', 'owner')
  outsider = await world.as(foreign, 'svc-developers', 'olga')
  for (const client of [owner, outsider]) {
    const connection = { name: 'db', connector_type: 'postgresql', config_encrypted: loginOf(world.deployment) }
    await ok(client.post('/api/v1/connections', connection))
  }
})

after(async () => {
  await world?.close()
  endpoint.close()
})

async function make(client: Client, name: string, content: Files): Promise<void> {
  await ok(client.post('/api/v1/products', { name, namespace: 'crm', archetype: 'aggregate' }))
  await deployVersion(client, name, '1.0.0', files(name, content))
}

const runOf = ({ run }: Json): string => run.facets.tags.tags.find(({ key }: Json) => key === 'run').value
/** What was told of a run of ours, in the order in which it came, without what came again. */
function eventsOf(runId: string, of?: string): Json[] {
  const own = told.map(({ event }) => event).filter((event) => runOf(event) === runId)
  const named = of === undefined ? own : own.filter(({ job }) => job.name === `crm.${of}`)
  const kinds = new Map(named.map((event) => [`${event.job.name} ${event.eventType}`, event]))
  return [...kinds.values()]
}
const kindsOf = (runId: string, of: string) => eventsOf(runId, of).map(({ eventType }) => eventType)

const untilEnded = (runId: string, of: string) =>
  until(
    () => `the end of ${runId} of ${of} is told: ${kindsOf(runId, of)}`,
    () => kindsOf(runId, of).some((kind) => kind !== 'START'),
  )

it('a sync is told of each product that it makes, with inputs, columns, checks and what it published', async () => {
  await make(owner, 'people', PEOPLE)
  await make(owner, 'spending', SPENDING)
  const run = await syncNow(owner)
  for (const name of ['people', 'spending']) await untilEnded(run.id, name)
  const [start, complete] = eventsOf(run.id, 'people')
  assert.deepEqual(kindsOf(run.id, 'people'), ['START', 'COMPLETE'])
  assert.equal(start.run.runId, complete.run.runId)
  assert.notEqual(start.run.runId, eventsOf(run.id, 'spending')[0].run.runId)
  assert.deepEqual([complete.job.namespace, complete.job.name], [`sluice/${tenant}`, 'crm.people'])
  assert.deepEqual(
    complete.job.facets.ownership.owners.map(({ name }: Json) => name),
    ['team:crm', 'user:crm@acme.test'],
  )
  const [output] = complete.outputs
  assert.equal(output.facets.documentation.description, 'Who buys.')
  const outcome = run.products.find(({ name }: Json) => name === 'crm.people')
  assert.equal(output.facets.version.datasetVersion, String(outcome.epoch))
  const { rowCount, size, fileCount } = output.outputFacets.outputStatistics
  assert.deepEqual([rowCount, size > 0, fileCount > 0], [5, true, true])
  const checks = output.facets.dataQualityAssertions.assertions
  assert.deepEqual(checks.map(({ name, success }: Json) => [name, success]).slice(0, 2), [
    ['ids_are_keys', true],
    ['city_is_known', false],
  ])
  const { fields, dataset } = eventsOf(run.id, 'spending')[1].outputs[0].facets.columnLineage
  assert.deepEqual(fields.contact.inputFields[0], {
    namespace: `sluice/${tenant}`,
    name: 'crm.people',
    field: 'email',
    transformations: [{ type: 'DIRECT', subtype: 'IDENTITY', masking: true }],
  })
  assert.deepEqual(
    [fields.cents.inputFields[0].name, fields.cents.inputFields[0].transformations[0].subtype],
    ['db/public.ol_orders', 'TRANSFORMATION'],
  )
  assert.ok(dataset.some(({ name, field }: Json) => name === 'crm.people' && field === 'id'))
  const inputs = eventsOf(run.id, 'spending')[1].inputs
  const people = inputs.find(({ name }: Json) => name === 'crm.people')
  assert.equal(people.facets.version.datasetVersion, String(outcome.epoch))
})

it('a run that checks keep from publishing fails without a word of hidden columns, and a rollback is a run', async () => {
  const block = `  - { name: ${MARKER}_blocks, accepted_values: { column: email, values: ["${MARKER}-value"] }, on_error: block }\n`
  const blocked = {
    ...PEOPLE,
    checks: `${block}  - { name: city_blocks, accepted_values: { column: city, values: [elsewhere] }, on_error: block }\n`,
  }
  await make(owner, 'people2', PEOPLE)
  await ok(owner.upload('/api/v1/products/people2/manifests', files('people2', blocked)))
  const { run_id: failing } = await ok(
    owner.post('/api/v1/products/people2/deploy', { version: '2.0.0', dry_run: false }),
  )
  const failed = await owner.untilEnded(failing)
  assert.equal(failed.state, 'failed')
  await untilEnded(failing, 'people2')
  const [, fail] = eventsOf(failing, 'people2')
  assert.equal(fail.eventType, 'FAIL')
  assert.match(fail.run.facets.errorMessage.message, /city_blocks/)
  assert.deepEqual(
    fail.outputs[0].facets.dataQualityAssertions.assertions.map(({ name, success }: Json) => [name, success]),
    [['city_blocks', false]],
  )
  const undo = await ok(owner.post('/api/v1/products/people2/rollback', { version: '1.0.0' }))
  assert.equal((await owner.untilEnded(undo.run_id)).state, 'succeeded')
  await untilEnded(undo.run_id, 'people2')
  assert.deepEqual(kindsOf(undo.run_id, 'people2'), ['START', 'COMPLETE'])
  assert.equal(eventsOf(undo.run_id, 'people2')[0].run.facets.tags.tags[1].value, 'rollback')
})

it('neither an endpoint that is away nor a runtime that is killed loses an event, and no run waits', async (t) => {
  const { crash } = world.deployment
  if (crash === null) return t.skip('the runtime was not started here')
  isAway = true
  const begun = told.length
  await world.source.query(`UPDATE ol_people SET city = 'other' WHERE id = 1`)
  const first = await syncNow(owner)
  await world.source.query(`UPDATE ol_people SET city = 'third' WHERE id = 2`)
  const second = await ok(owner.post('/api/v1/connections/db/sync'))
  await until('it has begun', async () => (await ok(owner.get(`/api/v1/ingestion/${second.id}`))).state !== 'queued')
  await crash()
  assert.equal((await owner.untilEnded(second.id)).state, 'succeeded')
  assert.equal(told.length, begun)
  isAway = false
  for (const { id } of [first, second]) {
    for (const name of ['people', 'spending']) {
      await untilEnded(id, name)
      assert.deepEqual(kindsOf(id, name), ['START', 'COMPLETE'], `${id} ${name}`)
    }
  }
  const order = told.slice(begun).map(({ event }) => `${event.job.name} ${runOf(event)} ${event.eventType}`)
  assert.ok(
    order.indexOf(`crm.people ${first.id} COMPLETE`) < order.indexOf(`crm.people ${second.id} START`),
    order.join('\n'),
  )
  const metrics = await world.admin.text('/metrics')
  assert.match(metrics.text, /^sluice_openlineage_waiting_runs \d+$/m)
  assert.match(metrics.text, /^sluice_openlineage_dropped_total\{why="age"\} 0$/m)
  return undefined
})

for (const fault of ['materializer.before-commit', 'materializer.after-commit', 'ingestion.before-finish']) {
  it(`a runtime that dies at ${fault} tells the run as one, with one end`, async (t) => {
    const { crash, url } = world.deployment
    if (crash === null) return t.skip('the runtime was not started here')
    process.env['SLUICE_FAULT'] = `${fault}@1`
    await crash()
    await world.source.query(`UPDATE ol_people SET city = '${fault}' WHERE id = 3`)
    const run = await ok(owner.post('/api/v1/connections/db/sync'))
    await until('it has died', () =>
      fetch(`${url}/healthz`).then(
        () => false,
        () => true,
      ),
    )
    delete process.env['SLUICE_FAULT']
    await crash()
    assert.equal((await owner.untilEnded(run.id)).state, 'succeeded')
    for (const name of ['people', 'spending']) {
      await untilEnded(run.id, name)
      assert.deepEqual(kindsOf(run.id, name), ['START', 'COMPLETE'])
      assert.equal(new Set(eventsOf(run.id, name).map((event) => event.run.runId)).size, 1)
    }
    return undefined
  })
}

it('nothing hidden, no address of a source, no secret and nothing of another tenant is in what was told', async () => {
  await make(outsider, 'theirs', PEOPLE)
  await syncNow(outsider)
  await until('it is told', () => told.some(({ event }) => event.job.name === 'crm.theirs'))
  const { host, port, password, user } = world.deployment.source
  for (const { text, headers, event } of told) {
    for (const secret of [MARKER, API_KEY, `${host}:${port}`, password, ...(user === 'postgres' ? [] : [user])]) {
      if (typeof secret === 'string') assert.ok(!text.includes(secret), `${secret} in ${text}`)
    }
    const [own, other] = event.job.name === 'crm.theirs' ? [foreign, tenant] : [tenant, foreign]
    assert.ok(text.includes(`sluice/${own}`) && !text.includes(other), text)
    assert.equal(headers.authorization, `Bearer ${API_KEY}`)
  }
})

it('a product that fails in a sync fails alone, and what is made of it is not begun', async () => {
  const checks = '  - { name: few_cities, sql: "SELECT id FROM {{this}} WHERE city = \'atlantis\'", on_error: block }\n'
  await make(owner, 'strict', { ...PEOPLE, checks })
  await make(owner, 'of_strict', {
    inputs: '  - { name: s, product: crm.strict }\n',
    columns: `${ID}  - { name: city, type: string }\n`,
  })
  await world.source.query(`UPDATE ol_people SET city = 'atlantis' WHERE id = 4`)
  const { id } = await ok(owner.post('/api/v1/connections/db/sync'))
  assert.equal((await owner.untilEnded(id)).state, 'failed')
  for (const name of ['people', 'strict']) await untilEnded(id, name)
  assert.deepEqual(kindsOf(id, 'people'), ['START', 'COMPLETE'])
  assert.deepEqual(kindsOf(id, 'strict'), ['START', 'FAIL'])
  assert.deepEqual(kindsOf(id, 'of_strict'), [])
  assert.match(eventsOf(id, 'strict')[1].run.facets.errorMessage.message, /few_cities/)
  assert.doesNotMatch(JSON.stringify(eventsOf(id)), /atlantis/)
})

it('tables are named by their hosts where the operator wants it', async (t) => {
  const { crash, source } = world.deployment
  if (crash === null) return t.skip('the runtime was not started here')
  process.env['SLUICE_OPENLINEAGE__SOURCE_HOSTS'] = 'true'
  await crash()
  delete process.env['SLUICE_OPENLINEAGE__SOURCE_HOSTS']
  await world.source.query(`UPDATE ol_people SET city = 'told' WHERE id = 4`)
  const run = await syncNow(owner)
  await untilEnded(run.id, 'people')
  const [, { inputs, outputs }] = eventsOf(run.id, 'people')
  const [{ namespace, name }] = inputs
  assert.deepEqual(
    [namespace, name],
    [`postgres://${source.host}:${source.port}`, `${source.database}.public.ol_people`],
  )
  const [field] = outputs[0].facets.columnLineage.fields.email.inputFields
  assert.deepEqual([field.namespace, field.name, field.field], [namespace, name, 'email'])
  return undefined
})

it('OpenLineage’s own classes read every event', async (t) => {
  const python = process.env['SLUICE_TEST_OPENLINEAGE_PYTHON']
  if (python === undefined)
    return t.skip('SLUICE_TEST_OPENLINEAGE_PYTHON names no Python; npm run test:stack installs one')
  const events = told.map(({ event }) => event)
  assert.deepEqual([...new Set(events.map(({ eventType }) => eventType))].sort(), ['COMPLETE', 'FAIL', 'START'])
  assert.equal(await readByClasses(python, events), events.length)
  await assert.rejects(readByClasses(python, [{ ...events[0], eventTime: 'yesterday' }]))
  const { facets, ...job } = events[0].job
  await assert.rejects(readByClasses(python, [{ ...events[0], job: { ...job, facets: { ...facets, made_up: {} } } }]))
  return undefined
})
