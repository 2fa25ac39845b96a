/**
 * Who is to be shown less of a column than its rows were written with is shown none of them: at no door, not in the past, and
 * not where the configuration asks for it.
 */
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { until } from '../test/until.ts'
import { type Client, type Json, manifests, ok } from './client.ts'
import { connect, deployVersion, openWorld, syncNow, type World } from './world.ts'

const MASKS = ['hash', 'partial', 'redact', 'null', 'omit'] as const
type Mask = (typeof MASKS)[number]

/** What shows nothing does so alike: `policy/made-masks.test.ts` has all pairs. */
const PAIRS = (['hash', 'partial', 'redact'] as const).flatMap((made) =>
  (['hash', 'partial', 'omit'] as const).map((now) => ({ made, now, name: `${made}_${now}` })),
)
/** What the configuration makes of it changes with a restart. */
const CONFIGURED = 'pii.configured'
const classOf = (mask: Mask): string => `pii.by_${mask}`
const setting = (name: string): string => `SLUICE_MASKING__STRATEGIES__${name.toUpperCase()}`

/** The last characters of every value, which `partial` shows. */
const TAIL = '7391'
/** In every row, and in nothing else. */
const ROW = 'Strictville'
const VALUE = `+49-0000-${TAIL}`

let world: World
let owner: Client
let viewer: Client
let tenant: string

before(async () => {
  for (const mask of MASKS) process.env[setting(classOf(mask))] = mask
  process.env[setting(CONFIGURED)] = 'partial'
  world = await openWorld()
  ;[tenant] = world.tenants
  await world.createTenant(tenant, 'enterprise')
  owner = await world.as(tenant, 'svc-developers', 'dora')
  viewer = await world.as(tenant, 'svc-viewers', 'vito')
  await connect(world, owner)
  for (const { name, made } of PAIRS) await deployed(name, classOf(made))
  await deployed('configured', CONFIGURED)
  await syncNow(owner)
})

after(() => world?.close())

/** Of a table of its own: a class of one product is one of its source, and so of all that are made of that. */
async function deployed(name: string, classification: string): Promise<void> {
  await world.source.query(`DROP TABLE IF EXISTS strictly_${name};
    CREATE TABLE strictly_${name} (id integer PRIMARY KEY, phone text, city text, at timestamptz);
    INSERT INTO strictly_${name} SELECT i, '${VALUE}', '${ROW}', '2026-01-01' FROM generate_series(1, 3) i`)
  await ok(owner.post('/api/v1/products', { name, namespace: 'crm', archetype: 'source_aligned', description: '' }))
  await deployVersion(owner, `crm.${name}`, '1.0.0', versionOf(name, classification))
}

/** `isMade` false: a check keeps the version from making rows, so that those of the one before stay. */
function versionOf(name: string, classification: string, isMade = true): Readonly<Record<string, string>> {
  const columns = `  - { name: id, type: integer, role: identity, nullable: false }
  - { name: phone, type: string, classification: ${classification} }
  - { name: city, type: string }
  - { name: at, type: timestamptz, nullable: false }
`
  const endpoints = `  - type: lookup
  - { type: timeseries, config: { time_column: at } }
  - { type: realtime, config: { key_template: "{id}" } }
  - type: analytics
`
  const files = manifests(`public.strictly_${name}`, { columns, endpoints })
  const quality = 'apiVersion: svc/v1\nkind: Quality\nchecks:\n  - { name: high, range: { column: id, min: 100 } }\n'
  return { ...files, product: files.product.replace('people', name), ...(isMade ? {} : { quality }) }
}

async function redeployed(name: string, version: string, classification: string, isMade = true): Promise<void> {
  const path = `/api/v1/products/crm.${name}`
  await ok(owner.upload(`${path}/manifests`, versionOf(name, classification, isMade)))
  const wanted = { version, dry_run: false, lower: ['phone'] }
  const { run_id } = await ok(owner.post(`${path}/deploy`, wanted))
  const { state } = await owner.untilEnded(run_id)
  assert.equal(state === 'succeeded', isMade, `${name} ${version}: ${state}`)
}

const JSON_BOTH_WAYS = { 'content-type': 'application/json', accept: 'application/json' }

interface Heard {
  readonly status: number
  readonly text: string
}

const post = (path: string, body: Json): Promise<Heard> =>
  viewer.text(path, { method: 'POST', headers: JSON_BOTH_WAYS, body: JSON.stringify(body) })

const ask = (sql: string, more: Json = {}): Promise<Heard> => post('/api/v1/query', { sql, ...more })

async function followed(path: string): Promise<Heard> {
  const controller = new AbortController()
  const response = await viewer.begin(path, {}, controller.signal)
  if (!response.ok) return { status: response.status, text: await response.text() }
  let text = ''
  try {
    for await (const chunk of response.body?.pipeThrough(new TextDecoderStream()) ?? []) {
      text += chunk
      if (/^event: (epoch|problem)$/m.test(text)) break
    }
  } finally {
    controller.abort()
  }
  return { status: /^event: problem$/m.test(text) ? 409 : 200, text }
}

async function exported(name: string): Promise<Heard> {
  const asked = await post('/api/v1/exports', { product: `crm.${name}`, format: 'ndjson' })
  if (asked.status !== 202) return asked
  const { id } = JSON.parse(asked.text)
  let found: Json
  await until('the export ends', async () => {
    found = (await viewer.get(`/api/v1/exports/${id}`)).body
    return ['succeeded', 'failed'].includes(found.state)
  })
  const heard =
    found.state === 'failed' ? { status: 409, text: JSON.stringify(found) } : await viewer.text(found.link.path)
  await viewer.send(`/api/v1/exports/${id}`, { method: 'DELETE' })
  return heard
}

const labels = [{ id: 1, event_time: '2026-06-01T00:00:00Z' }]
const features = (product: string) => ({ labels, features: [{ product, key: 'id', time_column: 'at' }] })
const called = (name: string, args: Json) =>
  post('/mcp', { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name, arguments: args } })

/** Rows as they are now. */
const NOW: Readonly<Record<string, (name: string) => Promise<Heard>>> = {
  lookup: (name) => viewer.text(`/api/v1/products/crm.${name}/latest?filter=id:1`),
  timeseries: (name) => viewer.text(`/api/v1/products/crm.${name}/timeseries?from=2026-01-01`),
  realtime: (name) => viewer.text(`/api/v1/products/crm.${name}/realtime?key=1`),
  keys: (name) => post('/api/v1/read', { items: [{ product: `crm.${name}`, store: 'lookup', keys: [1] }] }),
  query: (name) => ask(`SELECT * FROM crm.${name}`),
  training: (name) => post('/api/v1/training-sets', features(`crm.${name}`)),
  agents: (name) => called('sample_rows', { product: `crm.${name}` }),
  changes: (name) => followed(`/api/v1/products/crm.${name}/changes?from=start`),
  exports: exported,
}

/** Rows of the first version. */
const PAST: Readonly<Record<string, (name: string) => Promise<Heard>>> = {
  asOf: (name) => ask(`SELECT * FROM crm.${name}`, { as_of: 'v1.0.0' }),
  named: (name) => ask(`SELECT * FROM crm."${name}@v1.0.0"`),
}

const shownIn = ({ text }: Heard): Mask | null => {
  if (text.includes(TAIL)) return 'partial'
  return /\b[0-9a-f]{32}\b/.test(text.replaceAll(/"(request_id|cursor|digest)":"[^"]*"/g, '')) ? 'hash' : null
}

const showsNothing = (mask: Mask): boolean => mask !== 'hash' && mask !== 'partial'
const isKept = (made: Mask, now: Mask): boolean => made === now || showsNothing(made)

/** Rows with the mask that they were made with where that shows no more than today's, else none. */
function assertHeard(what: string, heard: Heard, made: Mask, now: Mask): void {
  const about = `${what}, ${made} then and ${now} now: ${heard.status} ${heard.text.slice(0, 200)}`
  const expected = isKept(made, now) && !showsNothing(made) ? made : null
  assert.equal(shownIn(heard), expected, about)
  assert.equal(heard.status === 200 && heard.text.includes(ROW), isKept(made, now), about)
}

async function snapshotsListed(name: string): Promise<readonly string[] | number> {
  const { status, body } = await viewer.get(`/iceberg/v1/${tenant}/namespaces/crm/tables/${name}`)
  return status === 200 ? body.metadata.snapshots.map((one: Json) => String(one['snapshot-id'])) : status
}

describe('rows whose mask shows more than that of today', () => {
  it('are what every door shows before', async () => {
    for (const { name, made } of PAIRS.filter((pair) => pair.now === 'omit')) {
      for (const [door, open] of Object.entries(NOW)) assertHeard(door, await open(name), made, made)
    }
  })

  it('are shown at no door once a stricter class is deployed, and not made yet', async () => {
    for (const { name, made, now } of PAIRS) {
      await redeployed(name, '2.0.0', made === now ? classOf(made) : classOf(now), false)
      for (const [door, open] of Object.entries({ ...NOW, ...PAST })) assertHeard(door, await open(name), made, now)
      const listed = await snapshotsListed(name)
      assert.equal(Array.isArray(listed), isKept(made, now), `the catalog, ${made} then and ${now} now: ${listed}`)
    }
  })

  it('are not shown in the past once they have been made anew', async () => {
    for (const { name, made, now } of PAIRS) {
      const former = (await snapshotsListed(name)) as readonly string[]
      await redeployed(name, '3.0.0', classOf(now))
      for (const [door, open] of Object.entries(PAST)) assertHeard(door, await open(name), made, now)
      const heard = await ask(`SELECT * FROM crm.${name}`)
      assert.equal(heard.status, 200)
      assert.equal(shownIn(heard), showsNothing(now) ? null : now)
      const listed = (await snapshotsListed(name)) as readonly string[]
      assert.equal(listed.length > 1, isKept(made, now), `the catalog, ${made} then and ${now} now`)
      if (isKept(made, now)) assert.ok(former.every((one) => listed.includes(one)))
    }
  })

  it('are not shown where the configuration asks for a stricter mask, until they have been made anew', async (test) => {
    const { crash } = world.deployment
    if (crash === null) return test.skip('the runtime was not started here')
    const first = await snapshotsListed('configured')
    assertHeard('lookup', (await NOW['lookup']?.('configured')) as Heard, 'partial', 'partial')
    process.env[setting(CONFIGURED)] = 'redact'
    await crash()
    for (const [door, open] of Object.entries({ ...NOW, ...PAST })) {
      assertHeard(door, await open('configured'), 'partial', 'redact')
    }
    assert.equal(await snapshotsListed('configured'), 409)
    // Its rows are what they were: what made them is not.
    await syncNow(owner)
    for (const [door, open] of Object.entries(NOW)) assertHeard(door, await open('configured'), 'redact', 'redact')
    for (const [door, open] of Object.entries(PAST)) assertHeard(door, await open('configured'), 'redact', 'redact')
    const listed = (await snapshotsListed('configured')) as readonly string[]
    assert.ok((first as readonly string[]).every((one) => !listed.includes(one)))
  })
})
