/** Products that are made of products: what comes to them, in which order, who sees what of it, and what may break them. */
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { type Client, type Json, manifests, ok } from './client.ts'
import { gatherPeople, THINGS } from './people.ts'
import { deployVersion, openWorld, syncNow, type World } from './world.ts'

const HIDDEN = 'pii.identifier'
const ID = '  - { name: id, type: integer, role: identity, nullable: false }\n'

let world: World
let tenant: string
let owner: Client
let colleague: Client
let cleared: Client
let viewer: Client

interface Files {
  readonly inputs: string
  readonly columns: string
  readonly transform?: string
  readonly product?: string
  readonly quality?: string
  readonly trigger?: string
}

/** Of a product `crm.NAME` that may be made of others. */
function files(name: string, { inputs, columns, transform, product = '', quality, trigger }: Files) {
  const made = manifests('unused', {
    columns,
    endpoints: '  - type: lookup\n  - type: realtime\n    config: { key_template: "{id}" }\n',
  })
  const archetype = inputs.includes('product:') ? 'aggregate' : 'source_aligned'
  return {
    ...made,
    product: `${made.product.replace('name: people', `name: ${name}`).replace('source_aligned', archetype)}${product}`,
    inputs: `apiVersion: svc/v1\nkind: Inputs\ninputs:\n${inputs}`,
    quality: `apiVersion: svc/v1\nkind: Quality\nchecks:\n${quality ?? '  - name: id_unique\n    unique: [id]\n'}`,
    compute: `apiVersion: svc/v1\nkind: Compute\nengine: embedded\ntrigger: ${trigger ?? 'on_ingestion'}\n${transform === undefined ? '' : `transform: ${JSON.stringify(transform)}\n`}`,
  }
}

const table = (name: string, alias = 'source') => `  - { name: ${alias}, connection: db, table: ${name}, mode: full }\n`
const product = (name: string, alias = 'source', more = '') => `  - { name: ${alias}, product: ${name}${more} }\n`

async function make(client: Client, name: string, content: Files, version = '1.0.0'): Promise<Json> {
  await client.post('/api/v1/products', { name, namespace: 'crm', archetype: 'aggregate' })
  return deployVersion(client, name, version, files(name, content))
}

/** What the deployment is refused with. */
async function refusal(
  client: Client,
  name: string,
  content: Files,
  more: object = {},
  version = '1.0.0',
): Promise<Json> {
  await client.post('/api/v1/products', { name, namespace: 'crm', archetype: 'aggregate' })
  const uploaded = await client.upload(`/api/v1/products/${name}/manifests`, files(name, content))
  if (uploaded.status >= 300) return uploaded.body
  const { status, body } = await client.post(`/api/v1/products/${name}/deploy`, { version, dry_run: false, ...more })
  assert.ok(status >= 400, JSON.stringify(body))
  return body
}

async function rows(client: Client, name: string): Promise<Json> {
  const { rows: found } = await ok(client.post('/api/v1/query', { sql: `SELECT * FROM crm.${name} ORDER BY ALL` }))
  return found.map((row: Json) => (Array.isArray(row) ? row : Object.values(row)))
}

async function epochOf(name: string): Promise<number> {
  const { last_materialization: last } = await ok(owner.get(`/api/v1/products/${name}`))
  return last?.epoch ?? 0
}

/** What a run did to each product, in the order in which it did. */
async function synced(): Promise<readonly Json[]> {
  const { id } = await ok(owner.post('/api/v1/connections/db/sync'))
  return outcomes(await owner.untilEnded(id))
}

async function outcomes(run: Json): Promise<readonly Json[]> {
  return run.products
}

const states = (found: readonly Json[]) =>
  Object.fromEntries(found.map(({ name, state, reason }) => [name.replace('crm.', ''), reason?.code ?? state]))

const BASE: Files = {
  inputs: table('public.things'),
  columns: `${ID}  - { name: kind, type: string }\n  - { name: size, type: integer }\n  - { name: secret, type: string, classification: ${HIDDEN} }\n`,
}
const SMALL: Files = {
  inputs: product('crm.base'),
  columns: `${ID}  - { name: size, type: integer }\n`,
  transform: "SELECT id, size FROM source WHERE kind = 'small'",
}
const KINDS: Files = {
  inputs: product('crm.base'),
  columns: `${ID}  - { name: things, type: long }\n`,
  transform: 'SELECT size % 2 AS id, count(*) AS things FROM source GROUP BY 1',
}
const BOTH: Files = {
  inputs: `${product('crm.small', 's')}${product('crm.kinds', 'k')}`,
  columns: `${ID}  - { name: size, type: integer }\n  - { name: things, type: long }\n`,
  transform: 'SELECT s.id, s.size, k.things FROM s JOIN k ON k.id = s.size % 2',
}

before(async () => {
  world = await openWorld()
  tenant = world.tenants[0]
  await world.source.query(`${THINGS}
    CREATE TABLE others (id integer PRIMARY KEY, note text); INSERT INTO others VALUES (3, 'three'), (6, 'six')`)
  ;({ owner, colleague, viewer } = await gatherPeople(world, tenant))
  cleared = await world.as(tenant, 'svc-developers', 'cleared')
  await make(owner, 'base', BASE)
  await make(colleague, 'small', SMALL)
  await make(colleague, 'kinds', KINDS)
  await make(colleague, 'both', BOTH)
})

after(() => world?.close())

/** What the join gives by the source alone. */
async function wanted(): Promise<Json> {
  const { rows: found } = await world.source.query({
    text: `SELECT s.id, s.size, k.things::int FROM things s JOIN (SELECT size % 2 AS id, count(*) AS things FROM things GROUP BY 1) k
      ON k.id = s.size % 2 WHERE kind = 'small' ORDER BY 1`,
    rowMode: 'array',
  })
  return found
}

const numbers = (found: Json) => found.map((row: Json) => row.map(Number))

describe('products made of products', () => {
  it('wait for the first rows of what they are made of, and come with them in one run, each once', async () => {
    assert.equal(await epochOf('both'), 0)
    const made = await synced()
    assert.deepEqual(made.map(({ name, epoch }) => [name, epoch]).at(0), ['crm.base', 1])
    assert.deepEqual(made.map(({ name, epoch }) => [name, epoch]).at(-1), ['crm.both', 1])
    assert.deepEqual(states(made), { base: 'succeeded', kinds: 'succeeded', small: 'succeeded', both: 'succeeded' })
    assert.deepEqual(numbers(await rows(owner, 'both')), await wanted())
  })

  it('have what changed in the source after the next sync, in stores, too', async () => {
    await world.source.query(
      `UPDATE things SET size = 8, kind = 'small' WHERE id = 1; DELETE FROM things WHERE id = 12`,
    )
    assert.equal((await synced()).length, 4)
    assert.deepEqual(numbers(await rows(owner, 'both')), await wanted())
    const { data } = await ok(owner.get('/api/v1/products/both/realtime?key=1'))
    assert.deepEqual(data, [{ id: 1, size: 8, things: 6 }])
    assert.equal(await epochOf('both'), 2)
  })

  it('say what they are made of, what is made of them, and how old their rows are', async () => {
    const base = await ok(owner.get('/api/v1/products/base'))
    assert.deepEqual(base.lineage.downstream, ['crm.kinds', 'crm.small'])
    const both = await ok(owner.get('/api/v1/products/both'))
    assert.deepEqual(both.lineage.inputs, [
      { name: 's', product: 'crm.small' },
      { name: 'k', product: 'crm.kinds' },
    ])
    assert.equal(both.freshness.read_at, base.freshness.read_at)
    assert.equal(both.reads[0].product, 'crm.small')
  })

  it('follow a product that is made by itself, and one that goes back', async () => {
    await world.source.query('UPDATE things SET size = 10 WHERE id = 1')
    await synced()
    const { run_id: id } = await ok(owner.post('/api/v1/products/base/rollback', { version: '1.0.0' }))
    assert.deepEqual(states(await outcomes(await owner.untilEnded(id))), {
      base: 'succeeded',
      kinds: 'succeeded',
      small: 'succeeded',
      both: 'succeeded',
    })
    const { snapshots } = { snapshots: await ok(owner.get('/api/v1/products/base/snapshots')) }
    assert.ok(snapshots.data.length >= 4)
    assert.deepEqual(states(await synced()), {
      base: 'product_paused',
      kinds: 'input_behind',
      small: 'input_behind',
      both: 'input_behind',
    })
    const resumed = await ok(owner.post('/api/v1/products/base/resume'))
    await owner.untilEnded(resumed.id)
    assert.deepEqual(numbers(await rows(owner, 'both')), await wanted())
  })

  it('stay as they are where a product that they are made of could not be made, and all others go on', async () => {
    await make(colleague, 'small', { ...SMALL, quality: '  - name: few\n    row_count: { max: 5 }\n' }, '1.0.1')
    const before = [await rows(owner, 'both'), await epochOf('kinds')] as const
    await world.source.query(`INSERT INTO things VALUES (21, 'small', 1, 'x'), (22, 'small', 2, 'y')`)
    const made = states(await synced())
    assert.deepEqual(made, { base: 'succeeded', kinds: 'succeeded', small: 'quality_blocked', both: 'input_behind' })
    assert.deepEqual(await rows(owner, 'both'), before[0])
    assert.equal(await epochOf('kinds'), before[1] + 1)
    await make(colleague, 'small', SMALL, '1.0.2')
    assert.deepEqual(numbers(await rows(owner, 'both')), await wanted())
  })

  it('are made of the same rows of a source by every way, or wait', async () => {
    const mixed = (more: string): Files => ({
      inputs: `${table('public.things', 't')}${product('crm.asked', 'a', more)}`,
      columns: `${ID}  - { name: size, type: integer }\n  - { name: other, type: integer }\n`,
      transform: 'SELECT t.id, t.size, a.size AS other FROM t JOIN a USING (id)',
    })
    await make(owner, 'asked', { ...SMALL, trigger: 'manual' })
    await make(owner, 'mixed', mixed(''))
    await make(owner, 'loose', mixed(', epoch: latest'))
    const same = async () => (await rows(owner, 'mixed')).every((row: Json) => row[1] === row[2])
    assert.ok(await same())
    await world.source.query('UPDATE things SET size = size + 100 WHERE id IN (3, 6)')
    const made = states(await synced())
    assert.deepEqual([made['mixed'], made['loose']], ['inputs_of_several_waves', 'succeeded'])
    assert.ok(await same())
    assert.ok((await rows(owner, 'loose')).some((row: Json) => row[1] !== row[2]))
    const { id } = await ok(owner.post('/api/v1/products/asked/materialize'))
    assert.deepEqual(states(await outcomes(await owner.untilEnded(id))), {
      asked: 'succeeded',
      loose: 'succeeded',
      mixed: 'succeeded',
    })
    assert.ok(await same())
    assert.ok((await rows(owner, 'mixed')).some((row: Json) => row[1] > 100))
    for (const name of ['mixed', 'loose', 'asked']) {
      assert.equal((await owner.send(`/api/v1/products/${name}`, { method: 'DELETE' })).status, 204)
    }
  })

  it('cannot be made of themselves, by whatever way', async () => {
    const own = await refusal(owner, 'base', { ...BASE, inputs: product('crm.base') }, {}, '2.0.0')
    assert.equal(own.errors[0].message, 'a product cannot be made of itself')
    const circle = await refusal(
      colleague,
      'small',
      { ...SMALL, inputs: product('crm.both'), transform: 'SELECT id, size FROM source' },
      {},
      '2.0.0',
    )
    assert.equal(circle.code, 'product_cycle', JSON.stringify(circle))
    assert.match(circle.detail, /crm\.small ← crm\.both ← crm\.small/)
  })

  it('are named by a plan of what they are made of, and broken only where that is said', async () => {
    const next: Files = { ...BASE, columns: BASE.columns.replace('  - { name: kind, type: string }\n', '') }
    await owner.upload('/api/v1/products/base/manifests', files('base', next))
    const { plan } = await ok(owner.post('/api/v1/products/base/deploy', { version: '2.0.0', dry_run: true }))
    const told = Object.fromEntries(plan.downstream.map(({ product: name, breaks }: Json) => [name, breaks]))
    assert.deepEqual(told, { kinds: [], small: ['kind'] })
    assert.equal(plan.problems[0].code, 'breaks_downstream')
    assert.equal((await refusal(owner, 'base', next, {}, '2.0.0')).code, 'breaks_downstream')
    assert.equal((await refusal(owner, 'base', next, { breaks: ['crm.kinds'] }, '2.0.0')).code, 'breaks_downstream')
    const { deployment } = await ok(
      owner.post('/api/v1/products/base/deploy', { version: '2.0.0', dry_run: false, breaks: ['crm.small'] }),
    )
    assert.equal(deployment.version, '2.0.0')
    const made = states(await synced())
    assert.deepEqual([made['kinds'], made['small'], made['both']], ['succeeded', 'source_column_gone', 'input_behind'])
    await make(owner, 'base', BASE, '3.0.0')
    assert.deepEqual(numbers(await rows(owner, 'both')), await wanted())
  })

  it('break by a column that is hidden from whoever made them, and not by one that comes to it', async () => {
    const hide = (column: string) => `  - { name: ${column}, type: string, classification: ${HIDDEN} }\n`
    const kind = '  - { name: kind, type: string }\n'
    const plain = (columns: string, transform: string): Files => {
      return { inputs: table('public.things'), columns: `${ID}${columns}`, transform }
    }
    await make(owner, 'plain', plain(kind, 'SELECT id, kind FROM source'))
    const made = plain('  - { name: told, type: string }\n', 'SELECT id, CAST(source AS VARCHAR) AS told FROM source')
    await make(colleague, 'plainer', { ...made, inputs: product('crm.plain') })
    await ok(
      owner.post('/api/v1/products/plain/grants', { subject: { user: 'cleared' }, may: 'unmask', classes: [HIDDEN] }),
    )
    await make(cleared, 'plainest', { ...made, inputs: product('crm.plain') })
    await synced()
    // Columns that nobody has judged do not come to what is made of all columns, whoever reads them.
    await make(owner, 'plain', plain(`${kind}${hide('secret')}`, 'SELECT id, kind, secret FROM source'), '1.1.0')
    const after = states(await synced())
    assert.deepEqual([after['plainer'], after['plainest']], ['succeeded', 'succeeded'])
    for (const name of ['plainer', 'plainest']) {
      assert.doesNotMatch(JSON.stringify(await rows(viewer, name)), /hidden-|secret/, name)
    }
    const next = plain(`${hide('kind')}${hide('secret')}`, 'SELECT id, kind, secret FROM source')
    const refused = await refusal(owner, 'plain', next, {}, '2.0.0')
    assert.deepEqual([refused.code, refused.products], ['breaks_downstream', ['crm.plainer']], JSON.stringify(refused))
    for (const name of ['plainest', 'plainer', 'plain']) {
      assert.equal((await owner.send(`/api/v1/products/${name}`, { method: 'DELETE' })).status, 204)
    }
  })

  it('keep what they are made of from being deleted', async () => {
    const refused = await owner.send('/api/v1/products/base', { method: 'DELETE' })
    assert.deepEqual([refused.status, refused.body.code], [409, 'product_in_use'])
    assert.match(refused.body.detail, /crm\.kinds, crm\.small/)
    assert.equal((await rows(owner, 'base')).length > 0, true)
  })
})

describe('what is hidden in a product', () => {
  const shown: Files = {
    inputs: product('crm.base'),
    columns: `${ID}  - { name: told, type: string }\n`,
    transform: 'SELECT id, secret AS told FROM source',
  }
  const hidden: Files = {
    ...shown,
    columns: shown.columns.replace('type: string', `type: string, classification: ${HIDDEN}`),
  }

  it('is hidden in what is made of it, whoever makes it', async () => {
    for (const client of [colleague, owner]) {
      const made = await refusal(client, 'told', shown)
      // The owner of the source may lower it, by name.
      assert.equal(
        made.code,
        client === owner ? 'class_lowering_unnamed' : 'class_lowering_refused',
        JSON.stringify(made),
      )
    }
    for (const transform of [
      "SELECT id, CASE WHEN secret < 'hidden-5' THEN 'a' ELSE 'b' END AS told FROM source",
      "SELECT id, kind AS told FROM source WHERE secret < 'hidden-5'",
      'SELECT id, kind AS told FROM source ORDER BY secret LIMIT 3',
      'SELECT min(id) AS id, max(kind) AS told FROM source GROUP BY length(secret)',
    ]) {
      assert.equal(
        (await refusal(colleague, 'told', { ...shown, transform })).code,
        'class_lowering_refused',
        transform,
      )
    }
  })

  it('decides about no rows by a condition upon columns that were not chosen', async () => {
    const whole = "CAST(source AS VARCHAR) LIKE '%hidden-5%'"
    await make(owner, 'chosen', {
      inputs: `  - { name: source, connection: db, table: public.things, columns: [id, kind], where: "${whole}" }\n`,
      columns: `${ID}  - { name: kind, type: string }\n`,
    })
    await synced()
    assert.deepEqual(await rows(viewer, 'chosen'), [])
    assert.equal((await owner.send('/api/v1/products/chosen', { method: 'DELETE' })).status, 204)
  })

  it('is given on in clear by who is cleared for it, and is masked for who is not', async () => {
    await ok(
      owner.post('/api/v1/products/base/grants', { subject: { user: 'cleared' }, may: 'unmask', classes: [HIDDEN] }),
    )
    await make(cleared, 'told', hidden)
    const clear = (await rows(owner, 'base')).length
    assert.ok(clear > 0)
    assert.ok((await rows(viewer, 'told')).every((row: Json) => !String(row[1]).startsWith('hidden-')))
    const admin = world.admin
    const { rows: all } = await ok(
      admin.post('/api/v1/query', { sql: 'SELECT told FROM crm.told' }, { 'x-tenant-id': tenant }),
    )
    assert.ok(all.some((row: Json) => String(Object.values(row)[0]).startsWith('hidden-')))
  })

  it('is masked in what somebody makes of it who is not cleared, for everybody', async () => {
    await make(colleague, 'masked', hidden)
    const { rows: all } = await ok(
      world.admin.post('/api/v1/query', { sql: 'SELECT told FROM crm.masked' }, { 'x-tenant-id': tenant }),
    )
    assert.ok(all.length > 0)
    assert.ok(all.every((row: Json) => !String(Object.values(row)[0]).startsWith('hidden-')))
  })

  it('is not given on any more when the clearance is gone, and what there was stays', async () => {
    const { data } = await ok(owner.get('/api/v1/products/base/grants'))
    const grant = data.find((one: Json) => one.subject?.user === 'cleared' || one.subject === 'cleared')
    const before = await epochOf('told')
    assert.equal((await owner.send(`/api/v1/products/base/grants/${grant.id}`, { method: 'DELETE' })).status, 204)
    const made = states(await synced())
    assert.equal(made['told'], 'input_forbidden')
    assert.equal(made['masked'], 'succeeded')
    assert.equal(await epochOf('told'), before)
    assert.equal((await owner.send('/api/v1/products/told', { method: 'DELETE' })).status, 204)
  })

  it('is not given on by what was hidden in the rows that there are, and is not in those that are to come', async () => {
    const lent = (content: Partial<Files>): Files => ({
      inputs: table('public.things'),
      columns: `${ID}  - { name: x, type: string, classification: ${HIDDEN} }\n`,
      transform: 'SELECT id, secret AS x FROM source',
      ...content,
    })
    await make(owner, 'lent', lent({}))
    await ok(
      owner.post('/api/v1/products/lent/grants', { subject: { user: 'cleared' }, may: 'unmask', classes: [HIDDEN] }),
    )
    await synced()
    const columns = `${ID}  - { name: x, type: string }\n`
    const next = lent({ columns, transform: 'SELECT id, kind AS x FROM source' })
    const blocked = { ...next, quality: '  - name: few\n    row_count: { max: 1 }\n' }
    await ok(owner.upload('/api/v1/products/lent/manifests', files('lent', blocked)))
    const lowering = { version: '2.0.0', dry_run: false, lower: ['x'] }
    const { run_id: id } = await ok(owner.post('/api/v1/products/lent/deploy', lowering))
    assert.equal(states(await outcomes(await owner.untilEnded(id)))['lent'], 'quality_blocked')
    await make(cleared, 'borrowed', { inputs: product('crm.lent'), columns, transform: 'SELECT id, x FROM source' })
    assert.equal(await epochOf('borrowed'), 0)
    const asked = await ok(owner.post('/api/v1/products/borrowed/materialize'))
    assert.equal(states(await outcomes(await owner.untilEnded(asked.id)))['borrowed'], 'input_forbidden')
    await make(owner, 'lent', next, '2.0.1')
    const shown = await rows(viewer, 'borrowed')
    assert.ok(shown.length > 0)
    assert.ok(shown.every((row: Json) => ['small', 'large'].includes(row[1])))
    for (const name of ['borrowed', 'lent']) {
      assert.equal((await owner.send(`/api/v1/products/${name}`, { method: 'DELETE' })).status, 204)
    }
  })

  it('reaches what was made of it where it is hidden later, through others, too', async () => {
    await make(owner, 'names', {
      inputs: table('public.others'),
      columns: `${ID}  - { name: note, type: string }\n`,
    })
    const copy = (of: string): Files => ({ inputs: product(of), columns: `${ID}  - { name: note, type: string }\n` })
    await make(owner, 'names2', copy('crm.names'))
    await make(owner, 'names3', copy('crm.names2'))
    await synced()
    assert.equal((await rows(viewer, 'names3')).length, 2)
    const raised: Files = {
      inputs: table('public.others'),
      columns: `${ID}  - { name: note, type: string, classification: ${HIDDEN} }\n`,
    }
    await owner.upload('/api/v1/products/names/manifests', files('names', raised))
    const { plan } = await ok(owner.post('/api/v1/products/names/deploy', { version: '2.0.0', dry_run: true }))
    assert.deepEqual(plan.reaches.map(({ product: name, blocked }: Json) => [name, blocked]).sort(), [
      ['names2', true],
      ['names3', true],
    ])
    const breaks = ['crm.names2']
    const raising = await ok(owner.post('/api/v1/products/names/deploy', { version: '2.0.0', dry_run: false, breaks }))
    await owner.untilEnded(raising.run_id)
    for (const name of ['names2', 'names3']) {
      const { body } = await viewer.post('/api/v1/query', { sql: `SELECT * FROM crm.${name}` })
      assert.equal(body.code, 'mask_pending', JSON.stringify(body))
    }
    const again = (of: string): Files => ({ ...copy(of), columns: raised.columns })
    // What was made of them before was made in clear by somebody who is not cleared.
    await ok(owner.upload('/api/v1/products/names2/manifests', files('names2', again('crm.names'))))
    const named = { version: '2.0.0', dry_run: false, breaks: ['crm.names3'] }
    const second = await owner.untilEnded((await ok(owner.post('/api/v1/products/names2/deploy', named))).run_id)
    assert.equal(second.state, 'succeeded', JSON.stringify(second))
    await make(owner, 'names3', again('crm.names2'), '2.0.0')
    const shown = await rows(viewer, 'names3')
    assert.deepEqual(
      shown.map((row: Json) => row[0]),
      [3, 6],
    )
    assert.ok(shown.every((row: Json) => !['three', 'six'].includes(row[1])))
  })
})

describe('a product that somebody may not read', () => {
  it('is not there for who would make something of it', async () => {
    await make(owner, 'closed', { ...BASE, product: 'classification: restricted\n' })
    await synced()
    const content: Files = { ...SMALL, inputs: product('crm.closed'), product: 'classification: restricted\n' }
    const absent = await refusal(colleague, 'opened', { ...content, inputs: product('crm.absent') })
    const refused = await refusal(colleague, 'opened', content)
    assert.equal(refused.code, 'manifests_invalid')
    const text = (body: Json) => JSON.stringify(body.errors).replaceAll('crm.absent', 'X').replaceAll('crm.closed', 'X')
    assert.equal(text(refused), text(absent))
  })

  it('is not opened to more by what is made of it', async () => {
    await ok(owner.post('/api/v1/products/closed/grants', { subject: { user: 'colleague' }, may: 'read', classes: [] }))
    const content: Files = { ...SMALL, inputs: product('crm.closed') }
    assert.equal((await refusal(colleague, 'opened', content)).code, 'class_lowering_refused')
    const strict = { ...content, product: 'classification: restricted\n' }
    await make(colleague, 'opened', strict)
    assert.equal((await viewer.get('/api/v1/products/opened/latest?limit=2')).status, 403)
    const named = { ...strict, product: 'classification: restricted\naccess:\n  users: [vito]\n' }
    assert.equal((await refusal(colleague, 'opened2', named)).code, 'grant_not_held')
  })

  it('is not opened by what was made of it before it was closed, and is deployed again', async () => {
    const columns = `${ID}  - { name: kind, type: string }\n`
    const shut = (more: string): Files => ({
      ...BASE,
      columns,
      product: more,
      transform: 'SELECT id, kind FROM source',
    })
    const closing = 'classification: restricted\n'
    const made = (more: string): Files => ({ ...shut(more), inputs: product('crm.shut') })
    await make(owner, 'shut', shut(''))
    await synced()
    await make(colleague, 'ajar', made(''))
    await make(colleague, 'shared', made(`${closing}access:\n  users: [vito]\n`))
    await ok(owner.upload('/api/v1/products/shut/manifests', files('shut', shut(closing))))
    const breaks = ['crm.ajar', 'crm.shared']
    const { run_id: id } = await ok(
      owner.post('/api/v1/products/shut/deploy', { version: '1.1.0', dry_run: false, breaks }),
    )
    await owner.untilEnded(id)
    for (const user of ['colleague', 'owner']) {
      await ok(owner.post('/api/v1/products/shut/grants', { subject: { user }, may: 'read', classes: [] }))
    }
    const after = states(await synced())
    assert.deepEqual(
      [after['shut'], after['ajar'], after['shared']],
      ['succeeded', 'input_forbidden', 'input_forbidden'],
    )
    assert.equal((await refusal(colleague, 'ajar', made(''))).code, 'class_lowering_refused')
    const named = made(`${closing}access:\n  users: [vito]\n`)
    assert.equal((await refusal(colleague, 'shared', named)).code, 'grant_not_held')
    // The owner of the source may show it to them, once and for those who deploy after him.
    await make(owner, 'shared', named)
    await make(owner, 'ajar', made(''))
    await make(colleague, 'ajar', made(''))
    const then = states(await synced())
    assert.deepEqual([then['ajar'], then['shared']], ['succeeded', 'succeeded'])
    for (const name of ['ajar', 'shared', 'shut']) {
      assert.equal((await owner.send(`/api/v1/products/${name}`, { method: 'DELETE' })).status, 204)
    }
  })

  it('is not read any more when its grant is gone', async () => {
    const { data } = await ok(owner.get('/api/v1/products/closed/grants'))
    for (const { id } of data) await owner.send(`/api/v1/products/closed/grants/${id}`, { method: 'DELETE' })
    const made = states(await synced())
    assert.equal(made['closed'], 'succeeded')
    assert.equal(made['opened'], 'input_forbidden')
  })
})

describe('what has not changed', () => {
  const pushed = (name: string): Files => ({
    inputs: `  - { name: source, connection: told, table: ${name} }\n`,
    columns: `${ID}  - { name: note, type: string }\n`,
  })
  const copy = (of: string): Files => ({ inputs: product(of), columns: `${ID}  - { name: note, type: string }\n` })
  const push = (name: string, ...told: readonly object[]) =>
    ok(owner.post(`/api/v1/connections/told/events?table=${name}`, told))
  const seen = new Set<string>()
  /** What became of the products since the last time: a run also begins by itself, some seconds after rows were pushed. */
  const sync = async () => {
    const { id, connection_id } = await ok(owner.post('/api/v1/connections/told/sync'))
    await owner.untilEnded(id)
    const { data } = await ok(owner.get('/api/v1/ingestion?limit=50'))
    const fresh = data.filter((run: Json) => run.connection_id === connection_id && !seen.has(run.id))
    const became: Record<string, string> = {}
    for (const run of fresh.toReversed()) {
      seen.add(run.id)
      for (const [name, state] of Object.entries<string>(states((await owner.untilEnded(run.id)).products))) {
        if (became[name] === undefined || state !== UNCHANGED) became[name] = state
      }
    }
    return became
  }
  const UNCHANGED = 'inputs_unchanged'

  it('is not made anew, and what is made of it is not', async () => {
    const columns = [
      { name: 'id', type: 'integer' },
      { name: 'note', type: 'string' },
    ]
    const tables = { left: { columns, primary_key: ['id'] }, right: { columns, primary_key: ['id'] } }
    const config_encrypted = JSON.stringify({ tables })
    await ok(owner.post('/api/v1/connections', { name: 'told', connector_type: 'push', config_encrypted }))
    await make(owner, 'left', pushed('left'))
    await make(owner, 'right', pushed('right'))
    await make(owner, 'right2', copy('crm.right'))
    await make(owner, 'clocked', {
      ...copy('crm.right'),
      transform: 'SELECT id, note || CAST(now() AS VARCHAR) AS note FROM source',
    })
    await make(owner, 'fresh', {
      ...copy('crm.right'),
      quality: '  - { name: some, sql: "SELECT 1 AS violations WHERE current_date < DATE \'2000-01-01\'" }\n',
    })
    await push('left', { id: 1, note: 'a' })
    await push('right', { id: 1, note: 'b' })
    await sync()
    await push('left', { id: 2, note: 'c' })
    const before = await Promise.all(['right', 'right2'].map(epochOf))
    const readAt = async () => Date.parse((await ok(owner.get('/api/v1/products/right2'))).freshness.read_at)
    const readBefore = await readAt()
    assert.deepEqual(await sync(), {
      left: 'succeeded',
      right: UNCHANGED,
      right2: UNCHANGED,
      clocked: 'succeeded',
      fresh: 'succeeded',
    })
    assert.deepEqual(await Promise.all(['right', 'right2'].map(epochOf)), before)
    // A read that finds nothing is one as well.
    assert.ok((await readAt()) > readBefore)
    assert.deepEqual(await rows(owner, 'left'), [
      [1, 'a'],
      [2, 'c'],
    ])
    await push('right', { id: 1, note: 'd' })
    assert.deepEqual(await sync(), {
      left: UNCHANGED,
      right: 'succeeded',
      right2: 'succeeded',
      clocked: 'succeeded',
      fresh: 'succeeded',
    })
    assert.deepEqual(await rows(owner, 'right2'), [[1, 'd']])
  })

  it('is made where another version asks for it, a grant for another twin, or somebody', async () => {
    await make(
      owner,
      'right2',
      { ...copy('crm.right'), transform: 'SELECT id, upper(note) AS note FROM source' },
      '1.0.1',
    )
    assert.deepEqual(await rows(owner, 'right2'), [[1, 'D']])
    const before = await epochOf('right2')
    const { id } = await ok(owner.post('/api/v1/products/right2/materialize'))
    assert.equal((await owner.untilEnded(id)).state, 'succeeded')
    assert.equal(await epochOf('right2'), before + 1)
    const classed = (one: Files): Files => ({
      ...one,
      columns: one.columns.replace('type: string', `type: string, classification: ${HIDDEN}`),
    })
    await make(owner, 'left', classed(pushed('left')), '2.0.0')
    assert.equal((await sync())['left'], UNCHANGED)
    await ok(
      owner.post('/api/v1/products/left/grants', { subject: { user: 'vito' }, may: 'unmask', classes: [HIDDEN] }),
    )
    await sync()
    assert.deepEqual(await rows(viewer, 'left'), [
      [1, 'a'],
      [2, 'c'],
    ])
  })

  it('is made where it could not be made before', async () => {
    await make(
      owner,
      'right2',
      { ...copy('crm.right'), quality: '  - name: few\n    row_count: { max: 1 }\n' },
      '1.0.2',
    )
    await push('right', { id: 2, note: 'e' })
    assert.equal((await sync())['right2'], 'quality_blocked')
    assert.equal((await sync())['right2'], 'quality_blocked')
    await push('right', { id: 2, _op: 'delete' })
    assert.equal((await sync())['right2'], 'succeeded')
  })
})

describe('two tenants', () => {
  it('have nothing of each other’s products', async () => {
    const [, other] = world.tenants
    await world.createTenant(other)
    const stranger = await world.as(other, 'svc-developers', 'owner')
    const refused = await refusal(stranger, 'stolen', SMALL)
    assert.match(refused.errors[0].message, /there is no product "crm.base"/)
    await syncNow(owner).catch(() => undefined)
  })
})
