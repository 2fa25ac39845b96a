/** Reads that wait for an epoch, or for products that rest on the same rows: while syncs go on, and rights end. */
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { until } from '../test/until.ts'
import { type Answer, type Client, type Json, manifests, ok } from './client.ts'
import { connect, deployVersion, openWorld, syncNow, type World } from './world.ts'

const COLUMNS = `  - { name: id, type: integer, role: identity, nullable: false }
  - { name: email, type: string, classification: pii.identifier }
  - { name: mark, type: integer }
`
const STORES = '  - type: lookup\n  - type: realtime\n    config: { key_template: "{id}" }\n'

let world: World
let owner: Client
let viewer: Client
let stranger: Client

interface Made {
  readonly name: string
  readonly trigger?: string
  readonly classification?: string
}

async function make(
  client: Client,
  { name, trigger = 'on_ingestion', classification = 'internal' }: Made,
): Promise<void> {
  await ok(client.post('/api/v1/products', { name, namespace: 'crm', archetype: 'source_aligned', description: '' }))
  const files = manifests('public.things', { columns: COLUMNS, endpoints: STORES })
  await deployVersion(client, `crm.${name}`, '1.0.0', {
    ...files,
    product: `${files.product.replace('name: people', `name: ${name}`)}classification: ${classification}\n`,
    compute: `apiVersion: svc/v1\nkind: Compute\nengine: auto\ntrigger: ${trigger}\n`,
  })
}

before(async () => {
  world = await openWorld()
  const [own, other] = world.tenants
  await world.source.query(`CREATE TABLE things (id integer PRIMARY KEY, email text, mark integer);
    INSERT INTO things SELECT i, 'e' || i || '@waiting.test', 0 FROM generate_series(1, 50) i`)
  await world.createTenant(own, 'enterprise')
  await world.createTenant(other)
  owner = await world.as(own, 'svc-developers', 'dora')
  viewer = await world.as(own, 'svc-viewers', 'vito')
  stranger = await world.as(other, 'svc-developers', 'olga')
  await connect(world, owner)
  await make(owner, { name: 'things' })
  await make(owner, { name: 'slow', trigger: 'manual' })
  await make(owner, { name: 'closed', classification: 'confidential' })
  await syncNow(owner)
  await materialize('slow')
})

after(() => world?.close())

async function materialize(name: string): Promise<void> {
  const { id: run } = await ok(owner.post(`/api/v1/products/crm.${name}/materialize`))
  assert.equal((await owner.untilEnded(run)).state, 'succeeded')
}

async function epochOf(name: string): Promise<number> {
  return (await ok(owner.get(`/api/v1/products/crm.${name}`))).last_materialization.epoch
}

/** Every row has the mark from then on. */
async function mark(value: number): Promise<void> {
  await world.source.query('UPDATE things SET mark = $1', [value])
}

const madeBy = (run: Json, name: string): number =>
  run.products.find((product: Json) => product.name === `crm.${name}`).epoch

const marks = 'SELECT DISTINCT mark FROM crm.things'
const query = (client: Client, body: Json): Promise<Answer> => client.post('/api/v1/query', body)
const readKeys = (client: Client, body: Json): Promise<Answer> => client.post('/api/v1/read', body)
const item = (product: string, store = 'lookup') => ({ product, store, keys: [store === 'lookup' ? 7 : '7'] })

/** Answers as they come: how many of them have. */
function counted(answers: readonly Promise<Answer>[]) {
  let come = 0
  for (const answer of answers) void answer.then(() => (come += 1))
  return { come: () => come, all: () => Promise.all(answers) }
}

describe('reads that wait for an epoch', () => {
  it('are answered at once where it is there, and tell it', async () => {
    const epoch = await epochOf('things')
    const { meta } = await ok(query(viewer, { sql: marks, at_least_epoch: epoch }))
    assert.equal(meta.epochs['crm.things'], epoch)
    assert.equal(meta.consistent, true)
    const { data } = await ok(readKeys(viewer, { items: [item('crm.things')], at_least_epoch: epoch }))
    assert.equal(data[0].meta.epoch, epoch)
  })

  it('wait while a sync makes it, in every kind of read, and see what it brought', async () => {
    const next = (await epochOf('things')) + 1
    await mark(1)
    const waiting = counted([
      ...Array.from({ length: 8 }, () => query(viewer, { sql: marks, at_least_epoch: next })),
      ...Array.from({ length: 8 }, () => query(owner, { sql: marks, at_least_epoch: { 'crm.things': next } })),
      ...Array.from({ length: 8 }, () => readKeys(viewer, { items: [item('crm.things')], at_least_epoch: next })),
      ...Array.from({ length: 8 }, () =>
        readKeys(owner, {
          items: [item('crm.things', 'realtime'), item('crm.slow')],
          at_least_epoch: { 'crm.things': next },
        }),
      ),
      viewer.get(`/api/v1/products/crm.things/latest?filter=id:7&at_least_epoch=${next}`),
      viewer.get(`/api/v1/products/crm.things/realtime?key=7&at_least_epoch=${next}`),
    ])
    // Others are answered meanwhile, however many wait.
    for (let at = 0; at < 20; at += 1) {
      const { data } = await ok(viewer.get('/api/v1/products/crm.things/latest?filter=id:7'))
      assert.equal(data[0].mark, 0)
    }
    assert.equal(waiting.come(), 0, 'nobody is answered by an epoch before')
    const run = await syncNow(owner)
    assert.equal(madeBy(run, 'things'), next, 'the run tells the epoch that it made')
    for (const { status, body } of await waiting.all()) {
      assert.equal(status, 200, JSON.stringify(body))
      if (body.rows !== undefined) assert.deepEqual([body.rows, body.meta.epochs['crm.things']], [[[1]], next])
      else if (body.meta.epoch !== undefined) assert.deepEqual([body.data[0].mark, body.meta.epoch], [1, next])
      else assert.deepEqual([body.data[0].rows[0].mark, body.data[0].meta.epoch], [1, next])
    }
  })

  it('are refused with what there is when it does not come, and hold nobody up', async () => {
    const epoch = await epochOf('things')
    const asked = { sql: marks, at_least_epoch: epoch + 5, timeout_ms: 500 }
    const { status, body } = await query(viewer, asked)
    assert.deepEqual([status, body.code], [409, 'epoch_not_reached'])
    assert.match(body.detail, new RegExp(`crm\\.things is at epoch ${epoch}, and at least ${epoch + 5}`))
    const { data } = await ok(
      readKeys(viewer, { items: [item('crm.things'), item('crm.slow')], at_least_epoch: { 'crm.things': epoch + 5 } }),
    )
    assert.deepEqual([data[0].error.code, data[1].rows.length], ['epoch_not_reached', 1])
  })

  it('take no contradiction, and nothing that names no product of theirs', async () => {
    for (const [body, code] of [
      [{ sql: marks, at_least_epoch: 1, as_of: 'v1.0.0' }, 'invalid_value'],
      [{ sql: marks, at_least_epoch: { 'crm.other': 1 } }, 'invalid_value'],
      [{ sql: 'SELECT 1 FROM crm.things, crm.slow', at_least_epoch: 1 }, 'invalid_value'],
      [{ sql: marks, at_least_epoch: 0 }, 'validation_failed'],
    ] as const) {
      assert.equal((await query(viewer, body)).body.code, code, JSON.stringify(body))
    }
    const strange = await readKeys(viewer, { items: [item('crm.things')], at_least_epoch: { 'crm.slow': 1 } })
    assert.equal(strange.body.code, 'invalid_value')
  })

  it('do not tell a product that is closed, or of others, from one that is not there', async () => {
    const [closed, absent] = await Promise.all(
      ['closed', 'absent'].map((name) =>
        query(viewer, {
          sql: `SELECT * FROM crm.${name}`,
          at_least_epoch: { [`crm.${name}`]: 99 },
          timeout_ms: 60_000,
        }),
      ),
    )
    assert.equal(closed?.status, absent?.status)
    assert.deepEqual(closed?.body.code, absent?.body.code)
    const foreign = await query(stranger, { sql: marks, at_least_epoch: 99, timeout_ms: 60_000 })
    assert.equal(foreign.body.code, absent?.body.code)
    const keys = await ok(readKeys(stranger, { items: [item('crm.things')], at_least_epoch: 99 }))
    assert.equal(keys.data[0].error.code, 'product_not_found')
  })

  it('end with the right to read, whatever comes', async () => {
    const { id } = await ok(
      owner.post('/api/v1/products/crm.closed/grants', { subject: { user: 'vito' }, may: 'read' }),
    )
    const next = (await epochOf('closed')) + 1
    await until(
      'the grant holds',
      async () => (await query(viewer, { sql: 'SELECT 1 FROM crm.closed' })).status === 200,
    )
    await mark(2)
    const waiting = counted([
      query(viewer, { sql: 'SELECT mark FROM crm.closed', at_least_epoch: next }),
      readKeys(viewer, { items: [item('crm.closed')], at_least_epoch: next }),
    ])
    await owner.send(`/api/v1/products/crm.closed/grants/${id}`, { method: 'DELETE' })
    await syncNow(owner)
    const [asked, read] = await waiting.all()
    assert.equal(asked?.status, 400, JSON.stringify(asked?.body))
    assert.equal(asked?.body.code, 'table_not_found')
    assert.equal(read?.body.data[0].error.code, 'product_not_found')
  })

  it('go on for the others where a product is removed meanwhile', async () => {
    await make(owner, { name: 'leaving' })
    await syncNow(owner)
    await ok(readKeys(viewer, { items: [item('crm.leaving')] }))
    const next = (await epochOf('things')) + 1
    const items = [item('crm.things'), item('crm.leaving')]
    const waiting = counted([
      readKeys(viewer, { items, at_least_epoch: { 'crm.things': next, 'crm.leaving': 99 } }),
      readKeys(viewer, { items, at_least_epoch: { 'crm.things': next } }),
    ])
    await mark(7)
    const removed = await owner.send('/api/v1/products/crm.leaving', { method: 'DELETE' })
    assert.ok(removed.status < 300, JSON.stringify(removed.body))
    await syncNow(owner)
    for (const { status, body } of await waiting.all()) {
      assert.equal(status, 200, JSON.stringify(body))
      assert.deepEqual([body.data[0].rows[0].mark, body.data[1].error.code], [7, 'product_not_found'])
    }
  })

  it('leave no wait behind when their client goes', async () => {
    const next = (await epochOf('things')) + 1
    for (let round = 0; round < 3; round += 1) {
      const gone = new AbortController()
      const init = { method: 'POST', body: JSON.stringify({ sql: marks, at_least_epoch: next }) }
      const headers = { 'content-type': 'application/json' }
      const begun = Array.from({ length: 40 }, () => viewer.begin('/api/v1/query', headers, gone.signal, init))
      const ended = Promise.allSettled(begun)
      // More than may wait at once, were those before still counted.
      await until('the runtime answers', async () => (await viewer.get('/api/v1/products/crm.things')).status === 200)
      gone.abort()
      await ended
    }
    const { status, body } = await query(viewer, { sql: marks, at_least_epoch: next, timeout_ms: 300 })
    assert.deepEqual([status, body.code], [409, 'epoch_not_reached'])
  })
})

describe('answers that are to be consistent', () => {
  const sql = 'SELECT (SELECT max(mark) FROM crm.things) AS a, (SELECT max(mark) FROM crm.slow) AS b'

  it('wait until both rest on the same rows, and say whether they do', async () => {
    await mark(3)
    await syncNow(owner)
    const apart = await ok(query(viewer, { sql }))
    assert.equal(apart.meta.consistent, false)
    const refused = await query(viewer, { sql, consistent: true, timeout_ms: 300 })
    assert.deepEqual([refused.status, refused.body.code], [409, 'answer_not_consistent'])
    const items = [item('crm.things'), item('crm.slow', 'realtime')]
    assert.equal((await ok(readKeys(viewer, { items }))).meta.consistent, false)
    const waiting = counted([
      ...Array.from({ length: 5 }, () => query(viewer, { sql, consistent: true })),
      ...Array.from({ length: 5 }, () => readKeys(viewer, { items, consistent: true })),
    ])
    await ok(viewer.get('/api/v1/products/crm.slow'))
    assert.equal(waiting.come(), 0)
    await materialize('slow')
    for (const { status, body } of await waiting.all()) {
      assert.equal(status, 200, JSON.stringify(body))
      assert.equal(body.meta.consistent, true)
      if (body.rows !== undefined) assert.deepEqual(body.rows, [[3, 3]])
      else
        assert.deepEqual(
          body.data.map(({ rows }: Json) => rows[0].mark),
          [3, 3],
        )
    }
  })

  it('may have raw tables and pasts among them', async () => {
    const both = 'SELECT count(*) FROM crm.things t JOIN raw_db."public.things" r USING (id)'
    const { meta } = await ok(
      query(owner, { sql: both.replace('public.things', 'things'), consistent: true, timeout_ms: 10_000 }),
    )
    assert.equal(meta.consistent, true)
    const { data: snapshots } = await ok(owner.get('/api/v1/products/crm.things/snapshots?limit=50'))
    const old = `SELECT count(*) FROM crm.things JOIN crm."things@${snapshots.at(-1).snapshot_id}" o USING (id)`
    const refused = await query(owner, { sql: old, consistent: true, timeout_ms: 500 })
    assert.equal(refused.body.code, 'answer_not_consistent', JSON.stringify(refused.body))
  })
})
