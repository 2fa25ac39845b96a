/**
 * Versions whose rows no store can take in the place of those before: while one is deployed, and while it is gone back on,
 * readers without a pause get the rows of the one or of the other, whole, and of the newer one from its first answer on.
 * HTTP only.
 */
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { type Client, type Json, manifests, ok } from './client.ts'
import { deployVersion, onboardPeople, openWorld, type World } from './world.ts'

const PEOPLE = '/api/v1/products/people'
const ENDPOINTS = `  - type: lookup
    config: { index_columns: [id] }
  - type: timeseries
    config: { time_column: seen, continuous_aggregates: [] }
  - type: realtime
    config: { key_template: "{id}" }
  - type: analytics
`
/** Of the first version, by name; a change leaves one out, or says it anew. */
const COLUMNS: Readonly<Record<string, string>> = {
  id: 'type: integer, role: identity, nullable: false',
  code: 'type: string, nullable: false',
  seen: 'type: timestamp, nullable: false',
  email: 'type: string, classification: pii.identifier',
  phone: 'type: string, classification: pii.phone',
  city: 'type: string',
  note: 'type: string',
  score: 'type: integer',
}
const filesOf = (change: Readonly<Record<string, string | null>>) => {
  const all = Object.entries({ ...COLUMNS, ...change }).filter(([, said]) => said !== null)
  const columns = all.map(([name, said]) => `  - { name: ${name}, ${said} }\n`).join('')
  return manifests('public.switched', { columns, endpoints: ENDPOINTS })
}

const CHANGES: Readonly<Record<string, Readonly<Record<string, string | null>>>> = {
  'a column less, and one of another type': { note: null, score: 'type: string' },
  'another key': { id: 'type: integer, nullable: false', code: 'type: string, role: identity, nullable: false' },
  'without any masked column': { email: null, phone: null },
}

const DOORS: Readonly<Record<string, (client: Client) => ReturnType<Client['get']>>> = {
  lookup: (client) => client.get(`${PEOPLE}/latest?limit=100`),
  timeseries: (client) => client.get(`${PEOPLE}/timeseries?limit=100`),
  realtime: (client) => client.get(`${PEOPLE}/realtime?key=3`),
  query: (client) => client.post('/api/v1/query', { sql: 'SELECT * FROM crm.people ORDER BY id LIMIT 100' }),
}
/** More than an answer has. */
const ROWS = 300

let world: World
let product: Json
let developer: Client
let readers: Readonly<Record<'cleared' | 'masked', Client>>

before(async () => {
  world = await openWorld()
  const [tenant] = world.tenants
  await world.source.query(`DROP TABLE IF EXISTS switched;
    CREATE TABLE switched (id integer PRIMARY KEY, code text NOT NULL, seen timestamp NOT NULL, email text, phone text, city text,
      note text, score integer);
    INSERT INTO switched SELECT i, 'c' || i, '2026-01-01'::timestamp + i * interval '1 hour', 'a' || i || '@hidden.test',
      '+44 hidden ' || i, 'city ' || i % 3, 'n' || i, i * 10 FROM generate_series(1, ${ROWS}) i`)
  await world.createTenant(tenant)
  developer = await world.as(tenant, 'svc-developers', 'dora')
  const cleared = await world.as(tenant, 'svc-viewers', 'clara')
  readers = { cleared, masked: await world.as(tenant, 'svc-viewers', 'vito') }
  product = await onboardPeople(world, developer, filesOf({}))
  const grant = { subject: { user: 'clara' }, may: 'unmask', classes: ['*'] }
  await ok(world.admin.post(`${PEOPLE}/grants`, grant, { 'x-tenant-id': tenant }))
  await world.heard(async () => JSON.stringify((await DOORS['lookup']?.(cleared))?.body).includes('@hidden.test'))
})

after(() => world?.close())

/** What an answer says, without what differs between two answers of one epoch. */
function said(door: string, { body }: { readonly body: Json }): { readonly version: string; readonly text: string } {
  if (door === 'query') return { version: '', text: JSON.stringify([body.columns, body.rows]) }
  const rows: readonly Json[] = body.data
  const sorted = rows.map((row) => JSON.stringify(row)).sort()
  return { version: body.meta.version, text: sorted.join('\n') }
}

/** By door and reader, each answer that was not the one before it. */
type Seen = ReadonlyMap<string, readonly string[]>

async function settled(): Promise<ReadonlyMap<string, string>> {
  const answers = new Map<string, string>()
  for (const [door, ask] of Object.entries(DOORS))
    for (const [name, client] of Object.entries(readers)) {
      const answer = await ask(client)
      assert.equal(answer.status, 200, `${door}, ${name}: ${JSON.stringify(answer.body)}`)
      answers.set(`${door}, ${name}`, JSON.stringify(said(door, answer)))
    }
  return answers
}

/** Each door as each reader, asked again and again while `work` is done. Errors are answers, too. */
async function whileAsked(work: () => Promise<unknown>): Promise<Seen> {
  const done = new AbortController()
  const seen = new Map<string, string[]>()
  const asking = Object.entries(DOORS).flatMap(([door, ask]) =>
    Object.entries(readers).map(async ([name, client]) => {
      const own: string[] = []
      seen.set(`${door}, ${name}`, own)
      while (!done.signal.aborted) {
        const answer = await ask(client)
        const met = answer.status === 200 ? JSON.stringify(said(door, answer)) : `${answer.status} ${answer.body.code}`
        if (own.at(-1) !== met) own.push(met)
        await new Promise((resolve) => setTimeout(resolve, door === 'query' ? 500 : 50))
      }
    }),
  )
  await work().finally(() => done.abort())
  await Promise.all(asking)
  return seen
}

async function switches(what: string, work: () => Promise<unknown>): Promise<void> {
  const before = await settled()
  const seen = await whileAsked(work)
  const then = await settled()
  for (const [asked, own] of seen) {
    const [old, next] = [before.get(asked), then.get(asked)] as [string, string]
    const isWhole = own.every((one) => one === old || one === next)
    const order = own.map((one) => (one === old ? 'before' : one === next ? 'after' : one))
    assert.ok(isWhole && own.lastIndexOf(old) <= 0, `${what}: ${asked} met ${order.join(', then ')}`)
    if (asked.endsWith('masked'))
      assert.ok(!/@hidden|44 hidden/.test(own.join()), `${what}: ${asked} met what is hidden`)
  }
}

describe('a version whose rows take no place of those before', () => {
  let last = 0
  for (const [what, change] of Object.entries(CHANGES)) {
    it(`${what}: readers meet the one or the other, deployed and gone back on`, async () => {
      last += 1
      const version = `${last + 1}.0.0`
      await switches(`deployed ${what}`, () => deployVersion(developer, product.id, version, filesOf(change)))
      await switches(`back from ${what}`, async () => {
        const back = await ok(developer.post(`${PEOPLE}/rollback`, { version: '1.0.0' }))
        const run = await developer.untilEnded(back.run_id)
        assert.equal(run.state, 'succeeded', JSON.stringify(run))
      })
    })
  }

  for (const [what, lacking] of Object.entries({ 'beside another': ['phone'], alone: ['email', 'phone'] }))
    it(`a masked column that comes ${what}: nobody is refused rows that have none of it`, async () => {
      const change = Object.fromEntries(lacking.map((name) => [name, null]))
      last += 1
      await switches(`deployed without ${lacking}`, () =>
        deployVersion(developer, product.id, `${last + 1}.0.0`, filesOf(change)),
      )
      await switches(`deployed with ${lacking}`, () =>
        deployVersion(developer, product.id, `${last + 1}.1.0`, filesOf({})),
      )
    })
})
