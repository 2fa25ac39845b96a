/** Exports whose runtime dies while they are written, and links whose time is over. */
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { until } from '../test/until.ts'
import { Client, type Json, manifests, ok } from './client.ts'
import { onboardPeople, openWorld, type World } from './world.ts'

const LINK_S = '4'
const ROWS = 60_000
const COPIES = 100

let world: World
let owner: Client
let nobody: Client

before(async () => {
  // Of the runtime that is started here.
  process.env['SLUICE_EXPORTS__LINK_SECONDS'] = LINK_S
  world = await openWorld()
  await world.source.query(`CREATE TABLE people (id integer PRIMARY KEY, email text, city text);
    INSERT INTO people SELECT i, 'p' || i || '@exports.test', 'city ' || i FROM generate_series(1, ${ROWS}) i`)
  await world.createTenant(world.tenants[0], 'enterprise')
  owner = await world.as(world.tenants[0], 'svc-developers', 'dora')
  nobody = new Client(world.deployment.url, null)
  await onboardPeople(world, owner, manifests('public.people'))
})

after(() => world?.close())

const told = async ({ id }: Json): Promise<Json> => ok(owner.get(`/api/v1/exports/${id}`))

async function ended(made: Json): Promise<Json> {
  let found = made
  await until(
    () => `the export ${JSON.stringify(found)} ends`,
    async () => {
      found = await told(made)
      return ['succeeded', 'failed'].includes(found.state)
    },
  )
  return found
}

/** Of the first test. */
let whole: Json = null

const sql = `SELECT c.id * ${ROWS} + p.id AS no, p.city FROM crm.people p, crm.people c WHERE c.id <= ${COPIES} ORDER BY no`

describe('exports that are interrupted', () => {
  it('are begun anew when the runtime is killed, and have each row once', async (t) => {
    const { crash } = world.deployment
    if (crash === null) return t.skip('the deployment was not started here')
    const made = await ok(owner.post('/api/v1/exports', { sql, format: 'csv' }))
    let before: Json = made
    await until('a part of it is written', async () => {
      before = await told(made)
      return before.state !== 'queued' && before.bytes > 0
    })
    assert.equal(before.state, 'running', 'it is not done when the runtime dies')
    assert.equal(before.link, null)
    await crash()
    const found = await ended(made)
    assert.equal(found.state, 'succeeded', JSON.stringify(found))
    assert.equal(found.rows, ROWS * COPIES)
    whole = found
    const fresh = await told(made)
    const response = await nobody.begin(fresh.link.path, {}, AbortSignal.timeout(300_000))
    assert.equal(response.status, 200)
    let bytes = 0
    let lines = 0
    let last = Buffer.alloc(0)
    for await (const chunk of response.body as unknown as AsyncIterable<Uint8Array>) {
      bytes += chunk.length
      for (const byte of chunk) if (byte === 10) lines += 1
      last = Buffer.concat([last, chunk]).subarray(-100)
    }
    assert.equal(bytes, found.bytes)
    assert.equal(lines, ROWS * COPIES + 1, 'a header, and each row once')
    assert.match(last.toString(), new RegExp(`\n${COPIES * ROWS + ROWS},"city ${ROWS}"\n$`))
  })

  it('are given to a few at once', async (t) => {
    if (world.deployment.crash === null) return t.skip('the deployment was not started here')
    const found = whole ?? (await ended(await ok(owner.post('/api/v1/exports', { sql, format: 'csv' }))))
    const download = async () => {
      const ended = new AbortController()
      const response = await nobody.begin((await told(found)).link.path, {}, ended.signal)
      return { response, end: () => ended.abort() }
    }
    // Nobody reads them, so that they do not end.
    const held = [await download(), await download(), await download(), await download()]
    assert.deepEqual(
      held.map(({ response }) => response.status),
      [200, 200, 200, 200],
    )
    const { response } = await download()
    assert.equal(response.status, 429)
    assert.ok(Number(response.headers.get('retry-after')) > 0)
    assert.equal(((await response.json()) as Json).code, 'too_many_at_once')
    for (const { end } of held) end()
    await until('a place is free again', async () => {
      const { response: next, end } = await download()
      end()
      return next.status === 200
    })
  })

  it('have links that expire; who asks again gets another', async (t) => {
    if (world.deployment.crash === null) return t.skip('the deployment was not started here')
    const { link } = await ended(await ok(owner.post('/api/v1/exports', { sql: 'SELECT 1 AS one', format: 'csv' })))
    await until('the link has expired', async () => {
      const { status, body } = await nobody.get(link.path)
      if (status === 410) assert.equal(body.code, 'export_gone')
      return status === 410
    })
    const id = link.path.split('/')[4]
    await until('a new link is good', async () => (await nobody.get((await told({ id })).link.path)).status === 200)
  })
})
