/** What products made of another one expect of its rows: before these are published, by the rights of each, told to both. HTTP only. */
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { until } from '../test/until.ts'
import { type Client, type Json, manifests, ok } from './client.ts'
import { gatherPeople, THINGS } from './people.ts'
import { runSluice } from './sluice-command.ts'
import { Receiver } from './webhook-receiver.ts'
import { deployVersion, openWorld, type World } from './world.ts'

const HIDDEN = 'pii.identifier'
const BASE_COLUMNS = `  - { name: id, type: integer, role: identity, nullable: false }
  - { name: kind, type: string }
  - { name: size, type: integer }
  - { name: secret, type: string, classification: ${HIDDEN} }
`
const COLUMNS = '  - { name: id, type: integer, role: identity, nullable: false }\n  - { name: size, type: integer }\n'

let world: World
let tenant: string
let owner: Client
let colleague: Client
let cleared: Client
let viewer: Client
let ear: Receiver

interface Made {
  readonly inputs: string
  readonly columns?: string
  readonly quality?: string
  readonly owner?: string
  readonly transform?: string
  readonly product?: string
}

function files(name: string, { inputs, columns = COLUMNS, quality = '', owner: team, transform, product = '' }: Made) {
  const made = manifests('unused', { columns, endpoints: '  - type: lookup\n' })
  const archetype = inputs.includes('product:') ? 'aggregate' : 'source_aligned'
  const named = made.product.replace('name: people', `name: ${name}`).replace('source_aligned', archetype)
  return {
    ...made,
    product: `${named}${team === undefined ? '' : `owner: { team: ${team} }\n`}${product}`,
    inputs: `apiVersion: svc/v1\nkind: Inputs\ninputs:\n${inputs}`,
    quality: `apiVersion: svc/v1\nkind: Quality\n${quality}`,
    compute: `${made.compute.replace('engine: auto', 'engine: embedded')}${transform === undefined ? '' : `transform: ${JSON.stringify(transform)}\n`}`,
  }
}

const base = (policy: string, more = ''): Made => ({
  inputs: '  - { name: source, connection: db, table: public.things, mode: full }\n',
  columns: BASE_COLUMNS,
  owner: 'goods',
  quality: `${policy === '' ? '' : `downstream_expectations: ${policy}\n`}${more}`,
})

const expecting = (expectations: string, more: Partial<Made> = {}, input = ''): Made => ({
  inputs: `  - { name: things, product: crm.base${input} }\n`,
  quality: `expectations:\n${expectations}`,
  owner: 'finance',
  transform: 'SELECT id, size FROM things',
  ...more,
})

let versions = 0

async function make(client: Client, name: string, content: Made): Promise<Json> {
  await client.post('/api/v1/products', { name, namespace: 'crm', archetype: 'aggregate' })
  versions += 1
  return deployVersion(client, name, `1.0.${versions}`, files(name, content))
}

async function refusal(client: Client, name: string, content: Made): Promise<Json> {
  await client.post('/api/v1/products', { name, namespace: 'crm', archetype: 'aggregate' })
  const uploaded = await client.upload(`/api/v1/products/${name}/manifests`, files(name, content))
  if (uploaded.status >= 300) return uploaded.body
  versions += 1
  const wanted = { version: `1.0.${versions}`, dry_run: false }
  const { status, body } = await client.post(`/api/v1/products/${name}/deploy`, wanted)
  assert.ok(status >= 400, JSON.stringify(body))
  return body
}

/** What became of each product, by name. */
async function synced(statement: string): Promise<Readonly<Record<string, Json>>> {
  await world.source.query(statement)
  const { id } = await ok(owner.post('/api/v1/connections/db/sync'))
  const { products } = await owner.untilEnded(id)
  return Object.fromEntries(products.map((one: Json) => [one.name.replace('crm.', ''), one]))
}

const stateOf = (one: Json): string => one?.reason?.code ?? one?.state

async function sizes(name = 'base', client: Client = owner): Promise<string> {
  const { rows } = await ok(client.post('/api/v1/query', { sql: `SELECT id, size FROM crm.${name} ORDER BY ALL` }))
  return rows.map((row: Json) => Object.values(row).join('=')).join()
}

/** By the name of the expectation, what the newest attempt to make the product found, as that client is told. */
async function found(client: Client, of = 'base'): Promise<Readonly<Record<string, Json>>> {
  const { data } = await ok(client.get(`/api/v1/products/${of}/quality?limit=1`))
  const told = data[0].quality.checks.filter(({ expected }: Json) => expected !== undefined)
  return Object.fromEntries(
    told.map((one: Json) => [`${one.expected.product.replace('crm.', '')} ${one.expected.name}`, one]),
  )
}

async function expectedBy(name: string, client: Client = colleague): Promise<Readonly<Record<string, Json>>> {
  const { expectations } = await ok(client.get(`/api/v1/products/${name}`))
  return Object.fromEntries(expectations.map((one: Json) => [one.name, one]))
}

const remove = (name: string, client: Client) => ok(client.send(`/api/v1/products/${name}`, { method: 'DELETE' }))

const incidents = (): readonly string[] =>
  ear.deliveries.map(({ body }) => `${body.type.replace('sluice.incident.', '')} ${body.subject.name} ${body.cause}`)

before(async () => {
  world = await openWorld()
  tenant = world.tenants[0]
  await world.source.query(THINGS)
  ;({ owner, colleague, viewer } = await gatherPeople(world, tenant))
  cleared = await world.as(tenant, 'svc-developers', 'cleared')
  await make(owner, 'base', base(''))
  await make(
    colleague,
    'small',
    expecting(
      '  - { on: things, name: sized, not_null: size }\n  - { on: things, name: positive, range: { column: size, min: 1 }, severity: warn }\n',
    ),
  )
  await synced('SELECT 1')
  ear = new Receiver()
  await ear.listen()
  const target = { kind: 'webhook', name: 'ear', url: ear.url }
  ear.signingKey = (await ok(world.admin.post('/api/v1/notifications', target, { 'x-tenant-id': tenant }))).signing_key
})

after(async () => {
  await world?.close()
  await ear?.close()
})

describe('what products made of another one expect of its rows', () => {
  it('is told of both, and keeps nothing from being published where that is not agreed', async () => {
    assert.deepEqual(
      Object.entries(await found(owner)).map(([name, { passed, weight }]) => [name, passed, weight]),
      [
        ['small sized', true, 0],
        ['small positive', true, 0],
      ],
    )
    const made = await synced('UPDATE things SET size = NULL WHERE id = 3; UPDATE things SET size = 0 WHERE id = 4')
    assert.deepEqual([stateOf(made['base']), stateOf(made['small'])], ['succeeded', 'succeeded'])
    const told = await found(owner)
    assert.deepEqual(
      [
        told['small sized'].passed,
        told['small sized'].violations,
        told['small sized'].total,
        told['small sized'].severity,
      ],
      [false, 1, 12, 'warn'],
    )
    assert.deepEqual(told['small sized'].expected.owner, 'finance')
    const { sized, positive } = await expectedBy('small')
    assert.deepEqual(
      [sized.may, sized.last.passed, sized.last.violations, sized.last.state],
      ['warn', false, 1, 'committed'],
    )
    assert.equal(positive.last.passed, false)
    const { data } = await ok(owner.get('/api/v1/products/base/quality?limit=1'))
    assert.equal(data[0].quality_score, null, 'what others expect is no part of the score')
    await until('both are told', () => incidents().length === 2)
    assert.deepEqual(incidents().toSorted(), [
      'opened crm.base expectation_failed',
      'opened crm.small input_unexpected',
    ])
    await synced('UPDATE things SET size = NULL WHERE id = 6')
    await synced('UPDATE things SET size = id')
    await until('both are told of the end', () => incidents().length === 4)
    assert.deepEqual(incidents().slice(2).toSorted(), [
      'closed crm.base expectation_failed',
      'closed crm.small input_unexpected',
    ])
    assert.deepEqual(ear.faults, [])
  })

  it('keeps the former rows in service where the owner has agreed, and says whose it is', async () => {
    await make(owner, 'base', base('enforce'))
    const served = await sizes()
    const made = await synced('UPDATE things SET size = NULL WHERE id = 3; UPDATE things SET size = 0 WHERE id = 4')
    assert.equal(stateOf(made['base']), 'quality_blocked')
    assert.match(made['base'].reason.message, /expected by crm\.small of finance: sized$/)
    assert.equal(stateOf(made['small']), 'input_behind')
    assert.equal(await sizes(), served)
    assert.equal(await sizes('small'), served)
    const told = await found(owner)
    assert.deepEqual([told['small sized'].severity, told['small sized'].expected.also_served], ['error', false])
    assert.deepEqual([told['small positive'].passed, told['small positive'].severity], [false, 'warn'])
    assert.equal((await expectedBy('small'))['sized'].last.state, 'blocked')
    const token = await world.deployment.token(['--tenant', tenant, '--group', 'svc-developers', '--user', 'owner'])
    const of = async (product: string) =>
      (await runSluice(['quality', product], { url: world.deployment.url, token })).out
    assert.match(await of('crm.base'), /crm\.small +finance +sized +error +failed +1 +12 +kept from being published/)
    assert.match(await of('crm.small'), /crm\.base +sized +error +enforce +failed +1 +12 +not published/)
    const mended = await synced('UPDATE things SET size = id')
    assert.deepEqual([stateOf(mended['base']), stateOf(mended['small'])], ['succeeded', 'succeeded'])
  })

  it('holds up nothing that is no better in service, and nothing that it cannot judge', async () => {
    const never = '  - { on: things, name: never, row_count: { max: 1 } }\n'
    const broken = `  - { on: things, name: broken, sql: "SELECT id FROM {{this}} WHERE CASE WHEN size = 7 THEN CAST(kind AS integer) > 0 ELSE false END" }\n`
    const slow = `  - { on: things, name: endless, sql: "SELECT sum(r.range) AS violations FROM {{this}} t, range(100000000) r, range(100000) s" }\n`
    await make(colleague, 'eager', expecting(`${never}${broken}`))
    const made = await synced('UPDATE things SET size = size + 100')
    assert.equal(stateOf(made['base']), 'succeeded', JSON.stringify(made['base']))
    const told = await found(owner)
    assert.deepEqual([told['eager never'].severity, told['eager never'].expected.also_served], ['warn', true])
    assert.deepEqual([told['eager broken'].passed, told['eager broken'].severity], [true, 'warn'])
    const seven = await synced('UPDATE things SET size = id')
    assert.equal(stateOf(seven['base']), 'succeeded')
    const { 'eager broken': failed } = await found(owner)
    assert.deepEqual([failed.passed, failed.violations, failed.severity], [false, null, 'warn'])
    await make(colleague, 'eager', expecting(slow))
    const run = await synced('UPDATE things SET size = size + 200')
    assert.equal(stateOf(run['base']), 'succeeded')
    assert.equal((await found(owner))['eager endless'].violations, null)
    await remove('eager', colleague)
    assert.equal((await synced('UPDATE things SET size = id'))['base'].state, 'succeeded')
    assert.deepEqual(Object.keys(await found(owner)), ['small sized', 'small positive'])
  })

  it('is held against what its product is shown, and is shown to who may see it', async () => {
    const secret =
      '  - { on: things, name: secrets, sql: "SELECT id FROM {{this}} WHERE secret NOT LIKE \'hidden-%\'", severity: warn }\n'
    const rows = '  - { on: things, name: few, row_count: { max: 4 }, severity: warn }\n'
    await make(colleague, 'masked', expecting(`${secret}${rows}`, {}, ', where: "kind = \'small\'"'))
    await ok(
      owner.post('/api/v1/products/base/grants', { subject: { user: 'cleared' }, may: 'unmask', classes: [HIDDEN] }),
    )
    await make(cleared, 'clear', expecting(secret))
    await synced("UPDATE things SET secret = 'other-' || id WHERE id = 3")
    const told = await found(owner)
    assert.deepEqual(
      [told['masked secrets'].violations, told['masked secrets'].total],
      [4, 4],
      'of masks and of its own rows alone',
    )
    assert.deepEqual([told['masked few'].violations, told['masked few'].total], [0, 1])
    assert.deepEqual([told['clear secrets'].violations, told['clear secrets'].total], [1, 12])
    const seen = await found(viewer)
    assert.equal(seen['clear secrets'], undefined, 'it says something of what is hidden')
    assert.ok(seen['small sized'])
    assert.equal((await expectedBy('clear', cleared))['secrets'].last.violations, 1)
    assert.equal((await expectedBy('clear', viewer))['secrets'].last, null)
    const unknown = await refusal(
      colleague,
      'other',
      expecting('  - { on: things, name: x, sql: "SELECT * FROM source" }\n'),
    )
    assert.equal(unknown.code, 'check_invalid', JSON.stringify(unknown))
    const missing = await refusal(colleague, 'other', expecting('  - { on: things, name: x, not_null: nothing }\n'))
    assert.match(JSON.stringify(missing), /has no column \\"nothing\\"/)
    const ofTable = { ...base(''), quality: 'expectations:\n  - { on: source, name: x, not_null: id }\n' }
    const table = await refusal(owner, 'other', ofTable)
    assert.match(JSON.stringify(table), /expectations are of inputs that are products/)
    await remove('masked', colleague)
    await remove('clear', cleared)
  })

  it('is looked at by nobody where it is to be ignored', async () => {
    await make(owner, 'base', base('ignore'))
    const made = await synced('UPDATE things SET size = NULL WHERE id = 3')
    assert.equal(stateOf(made['base']), 'succeeded')
    assert.deepEqual(await found(owner), {})
    const { sized } = await expectedBy('small')
    assert.deepEqual([sized.may, sized.last], ['ignore', null])
    await synced('UPDATE things SET size = id')
  })

  it('is said in the plan of either, with what a version cannot keep', async () => {
    await make(owner, 'base', base('enforce'))
    const unsized = {
      ...base('enforce'),
      columns: BASE_COLUMNS.replace('  - { name: size, type: integer }\n', ''),
      transform: 'SELECT id, kind, secret FROM source',
    }
    await ok(owner.upload('/api/v1/products/base/manifests', files('base', unsized)))
    const { plan } = await ok(owner.post('/api/v1/products/base/deploy', { version: '2.0.0', dry_run: true }))
    const [small] = plan.downstream
    assert.deepEqual(small.expectations, [
      { name: 'sized', severity: 'error', problem: 'its input has no column "size"' },
      { name: 'positive', severity: 'warn', problem: 'its input has no column "size"' },
    ])
    assert.match(
      plan.notes.join('\n'),
      /crm\.small expects what this version cannot keep, sized: its input has no column "size"/,
    )
    await ok(
      colleague.upload(
        '/api/v1/products/small/manifests',
        files('small', expecting('  - { on: things, name: sized, not_null: size }\n')),
      ),
    )
    const own = await ok(colleague.post('/api/v1/products/small/deploy', { version: '3.0.0', dry_run: true }))
    assert.match(own.plan.notes.join('\n'), /it expects of crm\.base: sized; .*downstream_expectations: enforce/)
  })
})
