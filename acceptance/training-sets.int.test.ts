/** Training sets against an oracle that loops over rows, and what readers may not learn or do by them. */
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { Random } from '../conformance-tests/random.ts'
import { type Answer, type Client, type Json, manifests, ok } from './client.ts'
import { deployVersion, loginOf, openWorld, syncNow, type World } from './world.ts'

const PLAIN = '@training.test'
const DAY_MS = 86_400_000
const SEED = 20_261

let world: World
let owner: Client
let viewer: Client
let foreigner: Client

type Row = Readonly<Record<string, string | number | null>>

/** What the source holds, and what it held at each sync. */
const now = { visits: new Map<number, Row>(), rates: new Map<string, Row>(), marks: new Map<number, Row>() }
interface Past {
  readonly knownBy: string
  readonly rows: Readonly<Record<keyof typeof now, readonly Row[]>>
}
const pasts: Past[] = []

const random = new Random(SEED)
const instantOf = (hours: number) => new Date(Date.UTC(2026, 0, 1) + hours * 3_600_000).toISOString()
const orNull = <T>(value: T, chance = 0.1): T | null => (random.chance(chance) ? null : value)

/** Few keys and few times: ties, and rows at the edge of every age. */
function someVisit(id: number): Row {
  return {
    id,
    customer: orNull(random.integer(1, 5)),
    region: orNull(random.pick(['north', 'south', 'o\'k"\n'])),
    seen_at: orNull(instantOf(random.integer(0, 12) * 6)),
    amount: orNull(`${random.integer(-9, 99)}.${random.integer(10, 99)}`),
  }
}

function someRate(day: string, region: string): Row {
  return { day, region, level: orNull(random.integer(1, 1000)) }
}

function someMark(no: number): Row {
  return {
    no,
    customer: orNull(random.integer(1, 5)),
    at: orNull(instantOf(random.integer(0, 72)).slice(0, 19)),
    mark: `m${no}`,
  }
}

async function write(table: keyof typeof now, key: readonly string[], row: Row): Promise<void> {
  const names = Object.keys(row)
  await world.source.query(
    `INSERT INTO ${table} (${names.join(', ')}) VALUES (${names.map((_, at) => `$${at + 1}`).join(', ')})
     ON CONFLICT (${key.join(', ')}) DO UPDATE SET ${names.map((name) => `${name} = excluded.${name}`).join(', ')}`,
    Object.values(row),
  )
}

/** Rows come, change and go; then the products are made of them. */
async function turn(): Promise<void> {
  for (let count = 0; count < 40; count += 1) {
    const id = random.integer(1, 60)
    now.visits.set(id, someVisit(id))
    await write('visits', ['id'], now.visits.get(id) as Row)
    const no = random.integer(1, 40)
    now.marks.set(no, someMark(no))
    await write('marks', ['no'], now.marks.get(no) as Row)
    const [day, region] = [`2026-01-0${random.integer(1, 4)}`, random.pick(['north', 'south', 'o\'k"\n'])]
    now.rates.set(`${day} ${region}`, someRate(day, region))
    await write('rates', ['day', 'region'], now.rates.get(`${day} ${region}`) as Row)
  }
  for (const id of [...now.visits.keys()].filter(() => random.chance(0.2))) {
    now.visits.delete(id)
    await world.source.query('DELETE FROM visits WHERE id = $1', [id])
  }
  await syncNow(owner)
  const commits = await Promise.all(
    Object.keys(now).map(async (name) => {
      const { data } = await ok(owner.get(`/api/v1/products/ml.${name}/snapshots?limit=1`))
      return Date.parse(data[0].committed_at)
    }),
  )
  const rows = { visits: [...now.visits.values()], rates: [...now.rates.values()], marks: [...now.marks.values()] }
  pasts.push({ knownBy: new Date(Math.max(...commits) + 1).toISOString(), rows })
}

before(async () => {
  world = await openWorld()
  const [own, other] = world.tenants
  await world.source.query(`
    CREATE TABLE visits (id bigint PRIMARY KEY, customer integer, region text, seen_at timestamptz, amount numeric(10,2));
    CREATE TABLE rates (day date, region text, level integer, PRIMARY KEY (day, region));
    CREATE TABLE marks (no integer PRIMARY KEY, customer integer, at timestamp, mark text);
    CREATE TABLE people (id integer PRIMARY KEY, email text, city text, seen_at timestamptz, born timestamptz, "select" text);
    INSERT INTO people SELECT i, 'p' || i || '${PLAIN}', 'c' || i, '2026-01-01T00:00Z', '2026-01-01T00:00Z', 's' || i
      FROM generate_series(1, 9) i`)
  await world.createTenant(own, 'enterprise')
  await world.createTenant(other, 'enterprise')
  owner = await world.as(own, 'svc-developers', 'dora')
  viewer = await world.as(own, 'svc-viewers', 'vito')
  foreigner = await world.as(other, 'svc-developers', 'olga')
  for (const [client, name] of [
    [owner, 'db'],
    [foreigner, 'db'],
  ] as const) {
    const config_encrypted = loginOf(world.deployment)
    await ok(client.post('/api/v1/connections', { name, connector_type: 'postgresql', config_encrypted }))
  }
  await made(owner, 'visits', 'visits', VISITS)
  await made(owner, 'rates', 'rates', RATES)
  await made(owner, 'marks', 'marks', MARKS)
  for (const level of ['internal', 'confidential', 'restricted'])
    await made(owner, `people_${level}`, 'people', PEOPLE, level)
  await made(foreigner, 'people_foreign', 'people', PEOPLE)
  await syncNow(foreigner)
  for (let count = 0; count < 3; count += 1) await turn()
})

after(() => world?.close())

const VISITS = `  - { name: id, type: long, role: identity, nullable: false }
  - { name: customer, type: integer }
  - { name: region, type: string }
  - { name: seen_at, type: timestamptz }
  - { name: amount, type: "decimal(10,2)" }
`
const RATES = `  - { name: day, type: date, role: identity, nullable: false }
  - { name: region, type: string, role: identity, nullable: false }
  - { name: level, type: integer }
`
const MARKS = `  - { name: no, type: integer, role: identity, nullable: false }
  - { name: customer, type: integer }
  - { name: at, type: timestamp }
  - { name: mark, type: string }
`
const PEOPLE = `  - { name: id, type: integer, role: identity, nullable: false }
  - { name: email, type: string, classification: pii.identifier }
  - { name: city, type: string }
  - { name: seen_at, type: timestamptz }
  - { name: born, type: timestamptz, classification: pii.birth }
  - { name: select, type: string }
`

async function made(client: Client, name: string, table: string, columns: string, classification = 'internal') {
  await ok(client.post('/api/v1/products', { name, namespace: 'ml', archetype: 'source_aligned', description: '' }))
  await deployVersion(client, `ml.${name}`, '1.0.0', filesOf(name, table, columns, classification))
}

function filesOf(name: string, table: string, columns: string, classification = 'internal') {
  const files = manifests(`public.${table}`, { columns, endpoints: '  - type: analytics\n' })
  const product = files.product.replace('name: people', `name: ${name}`).replace('namespace: crm', 'namespace: ml')
  return {
    ...files,
    product: `${product}classification: ${classification}\n`,
    quality: 'apiVersion: svc/v1\nkind: Quality\nchecks: []\n',
  }
}

const JSON_TYPE = { accept: 'application/json' }
const post = (client: Client, body: unknown, headers: Record<string, string> = JSON_TYPE): Promise<Answer> =>
  client.post('/api/v1/training-sets', body, headers)

async function rowsOf(client: Client, body: unknown): Promise<{ columns: string[]; rows: Json[][]; answer: Json }> {
  const { status, body: answer } = await post(client, body)
  assert.equal(status, 200, JSON.stringify(answer))
  return { columns: answer.columns.map(({ name }: Json) => name), rows: answer.rows, answer }
}

async function refusal(client: Client, body: unknown): Promise<readonly [number, string]> {
  const { status, body: answer } = await post(client, body)
  return [status, answer.code]
}

const forCustomers = { product: 'ml.visits', key: 'customer', time_column: 'seen_at', columns: ['id', 'amount'] }
const people = (level: string, more: Json = {}) => ({
  product: `ml.people_${level}`,
  name: 'p',
  key: 'id',
  time_column: 'seen_at',
  columns: ['email', 'city'],
  ...more,
})
const labelOfPerson = (id: number, more: Json = {}) => ({ id, event_time: '2026-01-02T00:00:00Z', ...more })

/** Nothing of the implementation: loops, over texts of times that sort as the times do. */
interface Known {
  readonly table: keyof typeof now
  readonly keys: readonly (readonly [own: string, label: string])[]
  readonly time: string
  readonly maxAgeMs: number | null
  readonly greater: (left: Row, right: Row) => boolean
}

const millis = (text: unknown): number => {
  const day = String(text)
  if (/^\d{4}-\d{2}-\d{2}$/.test(day)) return Date.parse(`${day}T00:00:00Z`)
  return Date.parse(/Z$/.test(day) ? day : `${day}Z`)
}

function expectedRow(label: Row, rows: readonly Row[], known: Known): Row | null {
  let best: Row | null = null
  for (const row of rows) {
    if (row[known.time] === null || label['event_time'] === null) continue
    if (known.keys.some(([own, other]) => row[own] === null || label[other] === null || row[own] !== label[other]))
      continue
    const [at, asked] = [millis(row[known.time]), millis(label['event_time'])]
    if (at > asked) continue
    if (known.maxAgeMs !== null && asked - at > known.maxAgeMs) continue
    const isNewer = best === null || at > millis(best[known.time])
    const isTied = best !== null && at === millis(best[known.time])
    if (isNewer || (isTied && known.greater(row, best as Row))) best = row
  }
  return best
}

const AGES = [
  [null, null],
  ['6h', 6 * 3_600_000],
  ['1d', DAY_MS],
  ['2d', 2 * DAY_MS],
  ['30s', 30_000],
] as const

const KNOWN = {
  visits: { columns: ['id', 'amount'], greater: (a: Row, b: Row) => Number(a['id']) > Number(b['id']) },
  rates: { columns: ['level'], greater: () => false },
  marks: { columns: ['no', 'mark'], greater: (a: Row, b: Row) => Number(a['no']) > Number(b['no']) },
}

function someFeature(at: number): { readonly asked: Json; readonly known: Known; readonly columns: readonly string[] } {
  const table = random.pick(['visits', 'visits', 'rates', 'marks'] as const)
  const [max_age, maxAgeMs] = random.pick(AGES)
  const time = { visits: 'seen_at', rates: 'day', marks: 'at' }[table]
  const byRegion = ['region', 'place'] as const
  const byCustomer = ['customer', random.pick(['who', 'other'])] as const
  const keys =
    table === 'rates' ? [byRegion] : table === 'marks' || random.chance(0.5) ? [byCustomer] : [byCustomer, byRegion]
  const { columns, greater } = KNOWN[table]
  const asked = {
    product: `ml.${table}`,
    name: `f${at}`,
    key: Object.fromEntries(keys),
    time_column: time,
    columns,
    ...(max_age === null ? {} : { max_age }),
  }
  return { asked, known: { table, keys, time, maxAgeMs, greater }, columns }
}

function someLabel(): Row {
  return {
    who: orNull(random.integer(0, 6)),
    other: orNull(random.integer(0, 6)),
    place: orNull(random.pick(['north', 'south', 'o\'k"\n', 'nowhere'])),
    event_time: orNull(instantOf(random.integer(-2, 14) * 6 + random.pick([0, 0, 0, 1]))),
    target: orNull(random.integer(0, 1)),
  }
}

describe('a training set', () => {
  it('is what loops over the rows give: every label once, in its order, whatever was known by then', async () => {
    const byNumber = (value: unknown) => (value === undefined ? null : value)
    let found = 0
    for (let count = 0; count < 60; count += 1) {
      const labels = Array.from({ length: random.integer(1, 40) }, someLabel)
      const features = Array.from({ length: random.integer(1, 4) }, (_, at) => someFeature(at))
      const past = random.chance(0.4) ? null : random.pick(pasts)
      const body = {
        labels: [{ who: 1, other: 1, place: 'x', event_time: instantOf(0), target: 1 }, ...labels],
        features: features.map(({ asked }) => asked),
        ...(past === null ? {} : { known_by: past.knownBy }),
      }
      const { columns, rows } = await rowsOf(viewer, body)
      assert.deepEqual(columns, [
        ...['who', 'other', 'place', 'event_time', 'target'],
        ...features.flatMap(({ columns }, at) => columns.map((name) => `f${at}__${name}`)),
      ])
      const source = (past ?? (pasts.at(-1) as Past)).rows
      const expected = body.labels.map((label: Row) => [
        ...[label['who'], label['other'], label['place']],
        ...[
          label['event_time'] === null ? null : String(label['event_time']).replace('.000Z', '.000000Z'),
          label['target'],
        ],
        ...features.flatMap(({ known, columns }) => {
          const row = expectedRow(label, source[known.table], known)
          if (row !== null) found += 1
          return columns.map((name) => byNumber(row?.[name]))
        }),
      ])
      assert.deepEqual(rows, expected, `seed ${SEED}, request ${count}: ${JSON.stringify(body.features)}`)
    }
    assert.ok(found > 500, `the worlds are no test: ${found} values`)
  })
})
