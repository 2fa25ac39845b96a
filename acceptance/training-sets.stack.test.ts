/** Training sets against an oracle that loops over rows, and what readers may not learn or do by them. */
import assert from 'node:assert/strict'
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { Random } from '../conformance-tests/random.ts'
import { until } from '../test/until.ts'
import { type Answer, Client, type Json, manifests, ok } from './client.ts'
import { runSluice } from './sluice-command.ts'
import { connect, deployVersion, openWorld, syncNow, type World } from './world.ts'

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
  // However slow the machine is.
  process.env['SLUICE_LIMITS__QUERY_TIMEOUT_MS'] = '600000'
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
  await connect(world, owner)
  await connect(world, foreigner)
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
      // Of few labels the engine makes another join than of many.
      const labels = Array.from({ length: random.pick([random.integer(1, 40), random.integer(70, 400)]) }, someLabel)
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

  it('has the greater key of two rows of one time, and is the same each time where the key is hidden', async () => {
    await world.source.query(`CREATE TABLE ties (email text PRIMARY KEY, kind integer, at timestamptz, mark text);
      INSERT INTO ties SELECT 't' || i || '${PLAIN}', 1, '2026-01-01T00:00Z', 'm' || i FROM generate_series(1, 40) i`)
    const columns = `  - { name: email, type: string, role: identity, nullable: false, classification: pii.identifier }
  - { name: kind, type: integer }
  - { name: at, type: timestamptz }
  - { name: mark, type: string }
`
    await made(owner, 'ties', 'ties', columns)
    await syncNow(owner)
    const body = {
      labels: [{ kind: 1, event_time: '2026-01-01T00:00:00Z' }],
      features: [{ product: 'ml.ties', key: 'kind', time_column: 'at', columns: ['mark'] }],
    }
    const marks = new Set<string>()
    for (let count = 0; count < 5; count += 1) marks.add((await rowsOf(viewer, body)).rows[0]?.[2])
    assert.equal(marks.size, 1)
    await ok(owner.post('/api/v1/products/ml.ties/grants', clear('cleo')))
    const cleo = await world.as(world.tenants[0], 'svc-viewers', 'cleo')
    assert.equal((await rowsOf(cleo, body)).rows[0]?.[2], 'm9', 'the greatest text')
  })

  it('takes labels of a product, by their time, each once', async () => {
    const body = {
      labels: { product: 'ml.marks', columns: ['no', 'at', 'customer'] },
      time_column: 'at',
      features: [{ ...forCustomers, max_age: '1d' }],
    }
    const { columns, rows } = await rowsOf(viewer, body)
    assert.deepEqual(columns, ['no', 'at', 'customer', 'visits__id', 'visits__amount'])
    const order = (row: Row) => `${row['at'] === null ? '~' : row['at']} ${String(row['no']).padStart(9, '0')}`
    const labels = (pasts.at(-1) as Past).rows.marks.toSorted((a, b) => (order(a) < order(b) ? -1 : 1))
    const known = {
      ...KNOWN.visits,
      table: 'visits',
      keys: [['customer', 'customer']],
      time: 'seen_at',
      maxAgeMs: DAY_MS,
    } as const
    const expected = labels.map((label) => {
      const asked = { ...label, event_time: label['at'] ?? null }
      const row = expectedRow(asked, (pasts.at(-1) as Past).rows.visits, known)
      return [
        label['no'],
        label['at'] === null ? null : `${label['at']}.000000`,
        label['customer'],
        row?.['id'] ?? null,
        row?.['amount'] ?? null,
      ]
    })
    assert.deepEqual(rows, expected)
    const other = { ...body, labels: { product: 'ml.rates' }, time_column: 'day' }
    assert.deepEqual(await refusal(viewer, other), [400, 'unknown_column'])
    const unlike = { ...body, features: [{ ...forCustomers, key: { region: 'customer' } }] }
    assert.deepEqual(await refusal(viewer, unlike), [400, 'training_set_invalid'])
  })

  it('is parquet where nobody chooses, and comes in every format of queries with the same rows', async () => {
    const body = {
      labels: [
        { customer: 1, event_time: '2026-01-09T00:00:00Z', 'of "me"': 'a, b' },
        { customer: null, event_time: null, 'of "me"': null },
      ],
      features: [{ ...forCustomers, columns: ['amount'] }],
    }
    const { rows } = await rowsOf(viewer, body)
    const heard: string[] = []
    for (const accept of [undefined, '*/*', 'application/vnd.apache.parquet', 'text/csv', 'application/x-ndjson']) {
      const headers = { 'content-type': 'application/json', ...(accept === undefined ? {} : { accept }) }
      const sent = { method: 'POST', headers, body: JSON.stringify(body) }
      const answer = await viewer.text('/api/v1/training-sets', sent)
      assert.equal(answer.status, 200, answer.text)
      const type = answer.headers.get('content-type') ?? ''
      if (type.startsWith('text/csv')) heard.push(answer.text)
      else if (type.startsWith('application/x-ndjson'))
        assert.deepEqual(
          answer.text
            .trim()
            .split('\n')
            .map((line) => Object.values(JSON.parse(line))),
          rows,
        )
      else {
        assert.equal(type, 'application/vnd.apache.parquet', accept)
        assert.ok(answer.text.startsWith('PAR1') && answer.text.endsWith('PAR1'))
      }
    }
    assert.equal(heard.length, 1)
    assert.match(
      heard[0] ?? '',
      /^"customer","event_time","of ""me""","visits__amount"\n1,2026-01-09T00:00:00.000000Z,"a, b",.+\n,,,\n$/,
    )
    assert.equal((await post(viewer, body, { accept: 'image/png' })).status, 406)
  })

  it('is of the labels that are sent, and of no others that were sent before in the same form', async () => {
    for (const id of [1, 2, 3, 2]) {
      const body = { labels: [labelOfPerson(id)], features: [people('internal', { columns: ['city'] })] }
      assert.deepEqual((await rowsOf(viewer, body)).rows[0]?.at(-1), `c${id}`)
    }
  })

  it('is given up when its time is over, and when nobody waits for it', async () => {
    const labels = Array.from({ length: 15_000 }, (_, id) => ({ id, event_time: null }))
    const body = { labels, features: [people('internal')] }
    assert.deepEqual(await refusal(viewer, { ...body, timeout_ms: 1 }), [408, 'query_timeout'])
    const leaving = new AbortController()
    const headers = { 'content-type': 'application/json' }
    const init = { method: 'POST', body: JSON.stringify(body) }
    const begun = viewer.begin('/api/v1/training-sets', headers, leaving.signal, init)
    leaving.abort()
    await assert.rejects(begun, { name: 'AbortError' })
    assert.equal((await rowsOf(viewer, body)).rows.length, 15_000)
  })

  it('is written to a file by the command, whole or not at all', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'sluice-training-'))
    try {
      const token = await world.deployment.token([
        '--tenant',
        world.tenants[0],
        '--group',
        'svc-viewers',
        '--user',
        'vito',
      ])
      const run = (...words: string[]) =>
        runSluice(['training-set', ...words], { url: world.deployment.url, token, cwd: folder })
      const body = { labels: [labelOfPerson(4)], features: [people('internal', { columns: ['city'] })] }
      await writeFile(join(folder, 'labels.json'), JSON.stringify(body))
      await writeFile(join(folder, 'wrong.json'), JSON.stringify({ ...body, features: [people('nothing')] }))
      await writeFile(join(folder, 'broken.json'), '{')
      const written = await run('labels.json', '--out', 'set.parquet')
      const set = await readFile(join(folder, 'set.parquet'), 'latin1')
      assert.match(set, /^PAR1[^]*PAR1$/)
      assert.deepEqual(written, { code: 0, out: `${set.length} bytes: set.parquet\n`, err: '' })
      const csv = await run('labels.json', '--format', 'csv')
      assert.match(csv.out, /^"id","event_time","p__city"\n4,[^,]+,"?c4"?\n$/)
      const past = await run('labels.json', '--format', 'json', '--known-by', '2020-01-01T00:00:00Z')
      assert.equal(past.code, 1)
      assert.match(past.err, /had not been materialized yet/)
      assert.equal((await run('labels.json')).code, 2)
      for (const file of ['wrong.json', 'broken.json', 'absent.json']) {
        const { code, err } = await run(file, '--out', 'none.parquet')
        assert.equal(code, 1, err)
        assert.ok(err.length > 0 && !/\bat /.test(err), err)
      }
      assert.deepEqual((await readdir(folder)).toSorted(), ['broken.json', 'labels.json', 'set.parquet', 'wrong.json'])
    } finally {
      await rm(folder, { recursive: true })
    }
  })

  it('takes every name as a name', async () => {
    const hostile = [
      '"',
      "'; DROP TABLE x; --",
      'a\nb',
      '$1',
      '?',
      'select',
      'l.n',
      'constructor',
      '__proto',
      'ü',
      'x"."y',
      ' ',
    ]
    const label = Object.fromEntries(hostile.map((name, at) => [name, at]))
    const name = `n"); SELECT '${PLAIN}`
    const columns = ['select', 'city']
    for (const key of ['"', "'; DROP TABLE x; --", 'constructor']) {
      const body = {
        labels: [{ ...label, [key]: 3, event_time: '2026-01-02T00:00:00Z' }],
        features: [people('internal', { name, columns, key: { id: key } })],
      }
      const { columns: named, rows } = await rowsOf(viewer, body)
      assert.deepEqual(named, [...hostile, 'event_time', `${name}__select`, `${name}__city`])
      assert.deepEqual(rows[0]?.slice(-2), ['s3', 'c3'])
    }
    const bare = await rowsOf(viewer, {
      labels: [labelOfPerson(1, { constructor: 1 }), labelOfPerson(2)],
      features: [people('internal', { columns, key: { id: 'constructor' } })],
    })
    assert.deepEqual(
      bare.rows.map((row) => row.slice(2)),
      [
        [1, 's1', 'c1'],
        [null, null, null],
      ],
    )
    for (const wrong of [
      'id" OR 1=1 --',
      'id; SELECT 1',
      'ID',
      'nothing',
      'event_time',
      '*',
      "select'",
      'n',
      't',
      'k0',
    ]) {
      const unknown = [400, 'unknown_column']
      const ask = (more: Json, own: Json = {}) =>
        refusal(viewer, { labels: [labelOfPerson(1, own)], features: [people('internal', more)] })
      assert.deepEqual(await ask({ columns: [wrong] }), unknown, wrong)
      assert.deepEqual(await ask({ key: { [wrong]: 'id' } }), unknown, wrong)
      assert.deepEqual(await ask({ key: wrong }, { [wrong]: '2026-01-01' }), unknown, wrong)
      assert.deepEqual(await ask({ time_column: wrong }), unknown, wrong)
      assert.deepEqual(await ask({ key: { id: `${wrong}?` } }), unknown, wrong)
    }
    for (const product of [
      'ml.people_internal@2026-01-01',
      'ml."people_internal"',
      'ml.people_internal; SELECT 1',
      'raw_db.people',
      'information_schema.tables',
      '__labels',
    ]) {
      const [status] = await refusal(viewer, {
        labels: [labelOfPerson(1)],
        features: [{ ...people('internal'), product }],
      })
      assert.ok(status === 400 || status === 404, `${product} ${status}`)
    }
  })

  it('refuses what it would have to guess, with what is wrong and without values', async () => {
    const ask = (labels: Json, feature: Json = {}, more: Json = {}) =>
      post(viewer, { labels, features: [people('internal', feature)], ...more })
    const invalid = [400, 'training_set_invalid']
    const value = [400, 'invalid_value']
    const schema = [400, 'validation_failed']
    const cases: [Json, Json, Json, readonly [number, string] | readonly unknown[]][] = [
      [[labelOfPerson(1, { event_time: 'SENTINEL' })], {}, {}, value],
      [[labelOfPerson(1, { event_time: 7 })], {}, {}, value],
      [[labelOfPerson(1, { event_time: '2026-02-30T00:00:00Z' })], {}, {}, value],
      [[labelOfPerson(1, { event_time: '0000-01-01T00:00+14:00' })], {}, {}, value],
      [[labelOfPerson(1, { event_time: '9999-12-31T23:00-14:00' })], {}, {}, value],
      [[labelOfPerson(1, { id: 'SENTINEL' })], {}, {}, value],
      [[labelOfPerson(1, { id: 1.5 })], {}, {}, value],
      [[labelOfPerson(1, { id: 2 ** 31 })], {}, {}, value],
      [[labelOfPerson(1, { big: 2 ** 53 })], {}, {}, value],
      [[labelOfPerson(1, { x: 'SENTINEL' }), labelOfPerson(2, { x: 1 })], {}, {}, invalid],
      [[{ id: 1 }], {}, {}, [400, 'unknown_column']],
      [[labelOfPerson(1)], {}, { time_column: 'when' }, [400, 'unknown_column']],
      [[labelOfPerson(1)], { time_column: 'city' }, {}, invalid],
      [[labelOfPerson(1)], { max_age: '0d' }, {}, value],
      [[labelOfPerson(1)], { max_age: '1 day' }, {}, value],
      [[labelOfPerson(1)], {}, { known_by: 'v1.0.0' }, value],
      [[labelOfPerson(1)], {}, { known_by: '4611686018427387905' }, value],
      [[labelOfPerson(1)], {}, { known_by: '2020-01-01T00:00:00Z' }, [404, 'snapshot_not_found']],
      [[labelOfPerson(1, { p__CITY: 1 })], {}, {}, invalid],
      [[labelOfPerson(1, { ID: 1 })], {}, {}, invalid],
      [[], {}, {}, schema],
      [[{ id: [1] }], {}, {}, schema],
      [[{ id: { a: 1 } }], {}, {}, schema],
      [[1], {}, {}, schema],
      ['ml.people', {}, {}, schema],
      [[labelOfPerson(1)], { columns: [] }, {}, schema],
      [[labelOfPerson(1)], { key: [] }, {}, schema],
      [[labelOfPerson(1)], { key: {} }, {}, schema],
      [[labelOfPerson(1)], { where: 'true' }, {}, schema],
      [[labelOfPerson(1)], {}, { sql: 'SELECT 1' }, schema],
    ]
    for (const [labels, feature, more, expected] of cases) {
      const { status, body } = await ask(labels, feature, more)
      assert.deepEqual([status, body.code], expected, JSON.stringify([labels, feature, more, body]))
      assert.ok(!JSON.stringify(body).includes('SENTINEL'), JSON.stringify(body))
    }
    const twice = { labels: [labelOfPerson(1)], features: [people('internal'), people('internal')] }
    assert.deepEqual(await refusal(viewer, twice), invalid)
    assert.deepEqual(
      await refusal(viewer, { ...twice, features: [people('internal'), people('internal', { name: 'q' })] }),
      [200, undefined],
    )
    const far = await rowsOf(viewer, {
      labels: ['0000-01-01T00:00:00Z', '0001-01-01T00:00:00Z', '9999-12-31T23:59:59.999999Z'].map((event_time) => ({
        id: 1,
        event_time,
      })),
      features: [people('internal', { max_age: '999999d' })],
    })
    assert.deepEqual(
      far.rows.map((row) => row.at(-1)),
      [null, null, null],
    )
  })

  it('is whole or refused, in the form that gives fewer rows too', async () => {
    const count = 100_001
    await world.source.query(`CREATE TABLE many (id integer PRIMARY KEY, at timestamptz);
      INSERT INTO many SELECT i, '2026-01-01T00:00Z'::timestamptz + make_interval(secs => i) FROM generate_series(1, ${count}) i`)
    const columns =
      '  - { name: id, type: integer, role: identity, nullable: false }\n  - { name: at, type: timestamptz }\n'
    await made(owner, 'many', 'many', columns)
    await syncNow(owner)
    const body = {
      labels: { product: 'ml.many' },
      time_column: 'at',
      features: [{ product: 'ml.many', name: 'self', key: 'id', time_column: 'at', columns: ['id'] }],
    }
    // Where bytes have left already, the connection ends before the answer does.
    const [failed] = await refusal(viewer, body).catch(() => ['cut off'])
    assert.ok(failed === 422 || failed === 'cut off', String(failed))
    const { status, body: lines } = await post(viewer, body, { accept: 'text/csv' })
    assert.equal(status, 200)
    const rows = lines.trimEnd().split('\n').slice(1)
    assert.equal(rows.length, count)
    assert.ok(rows.every((row: string, at: number) => row.startsWith(`${at + 1},`) && row.endsWith(`,${at + 1}`)))
  })

  it('stays within limits of labels, columns, features and rows', async () => {
    const features = [people('internal', { columns: ['city'] })]
    const labels = Array.from({ length: 20_000 }, (_, at) => ({ id: at % 12, event_time: '2026-01-02T00:00:00Z' }))
    const small = labels.map(({ id }) => ({ id, event_time: null }))
    const { rows } = await rowsOf(viewer, { labels: small, features })
    assert.equal(rows.length, 20_000)
    const wrong = rows.findIndex((row, at) => row[0] !== at % 12 || row[2] !== null)
    assert.equal(wrong, -1, JSON.stringify(rows.slice(Math.max(0, wrong - 2), wrong + 3)))
    assert.deepEqual(await refusal(viewer, { labels: [...small, { id: 1, event_time: null }], features }), [
      400,
      'validation_failed',
    ])
    const sparse = small.map((label, at) => ({ ...label, [`c${at % 20}`]: 1 }))
    assert.deepEqual(await refusal(viewer, { labels: sparse, features }), [400, 'training_set_invalid'])
    const wide = [Object.fromEntries(Array.from({ length: 101 }, (_, at) => [`c${at}`, at]))]
    assert.deepEqual(await refusal(viewer, { labels: wide, features }), [400, 'training_set_invalid'])
    const many = Array.from({ length: 11 }, (_, at) => people('internal', { name: `f${at}`, columns: ['city'] }))
    const one = [labelOfPerson(3)]
    assert.deepEqual(await refusal(viewer, { labels: one, features: many }), [400, 'validation_failed'])
    const ten = await rowsOf(viewer, { labels: one, features: many.slice(1) })
    assert.deepEqual(ten.rows[0]?.slice(2), Array(10).fill('c3'))
    assert.deepEqual(await refusal(viewer, { labels: one, features: [] }), [400, 'validation_failed'])
    const values = Array.from({ length: 2_500 }, () =>
      Object.fromEntries(Array.from({ length: 90 }, (_, at) => [`c${at}`, 1])),
    )
    assert.deepEqual(await refusal(viewer, { labels: values, features }), [413, 'body_too_large'])
    const long = 'x'.repeat(4_000)
    const bytes = Array.from({ length: 300 }, () => labelOfPerson(1, { long }))
    assert.deepEqual(await refusal(viewer, { labels: bytes, features }), [413, 'body_too_large'])
  })
})

const clear = (user: string) => ({ subject: { user }, may: 'unmask', classes: ['*'] })

describe('a training set shows and is chosen by what its reader may see', () => {
  const ask = (client: Client, level: string, more: Json = {}, request: Json = {}) =>
    post(client, { labels: [labelOfPerson(1), labelOfPerson(2)], features: [people(level, more)], ...request })
  const shows = ({ status, body }: Answer) => [
    status,
    body.code ?? (JSON.stringify(body).includes(PLAIN) ? 'clear' : 'masked'),
  ]
  let cleared: Client
  let granted: Client

  before(async () => {
    cleared = await world.as(world.tenants[0], 'svc-viewers', 'clara')
    granted = await world.as(world.tenants[0], 'svc-viewers', 'greta')
    for (const level of ['internal', 'confidential', 'restricted']) {
      await ok(owner.post(`/api/v1/products/ml.people_${level}/grants`, clear('clara')))
      await ok(owner.post(`/api/v1/products/ml.people_${level}/grants`, { subject: { user: 'greta' }, may: 'read' }))
    }
    await syncNow(owner)
  })

  it('masks a feature for who is not cleared, and says so', async () => {
    const masked = await ask(viewer, 'internal')
    assert.deepEqual(shows(masked), [200, 'masked'])
    assert.deepEqual(
      masked.body.columns.map(({ name, masked }: Json) => [name, masked]),
      [
        ['id', false],
        ['event_time', false],
        ['p__email', true],
        ['p__city', false],
      ],
    )
    assert.deepEqual(
      masked.body.rows.map((row: Json) => row[3]),
      ['c1', 'c2'],
    )
    const open = await ask(cleared, 'internal')
    assert.deepEqual(shows(open), [200, 'clear'])
    assert.deepEqual(
      open.body.rows.map((row: Json) => row[2]),
      [`p1${PLAIN}`, `p2${PLAIN}`],
    )
    for (const accept of ['text/csv', 'application/x-ndjson', 'application/vnd.apache.parquet']) {
      const body = { labels: [labelOfPerson(1)], features: [people('internal')] }
      assert.ok(!String((await post(viewer, body, { accept })).body).includes(PLAIN), accept)
    }
  })

  it('finds and orders nothing by a column that is masked for its reader', async () => {
    const byEmail = { key: { email: 'id' } }
    for (const more of [byEmail, { time_column: 'born' }]) {
      assert.deepEqual(shows(await ask(viewer, 'internal', more)), [403, 'column_masked'], JSON.stringify(more))
      assert.deepEqual(shows(await ask(granted, 'confidential', more)), [403, 'column_masked'], JSON.stringify(more))
    }
    const labels = ['p1', 'p2'].map((one) => ({ mail: `${one}${PLAIN}`, event_time: '2026-01-02T00:00:00Z' }))
    const found = await rowsOf(cleared, {
      labels,
      features: [people('internal', { key: { email: 'mail' }, time_column: 'born', columns: ['city'] })],
    })
    assert.deepEqual(
      found.rows.map((row) => row[2]),
      ['c1', 'c2'],
    )
    const asLabels = (more: Json) => ({
      labels: { product: 'ml.people_internal' },
      time_column: 'seen_at',
      features: [people('internal')],
      ...more,
    })
    assert.deepEqual(await refusal(viewer, asLabels({ time_column: 'born' })), [403, 'column_masked'])
    const hiddenKey = asLabels({ features: [people('internal', { key: { city: 'email' } })] })
    assert.deepEqual(await refusal(viewer, hiddenKey), [403, 'column_masked'])
    assert.deepEqual(shows(await post(viewer, asLabels({}))), [200, 'masked'])
    assert.deepEqual(shows(await post(cleared, asLabels({}))), [200, 'clear'])
  })

  it('answers what is forbidden, absent and of others alike', async () => {
    const plain = ({ body }: Answer) => {
      const { request_id, product, ...rest } = body
      return JSON.stringify(rest)
    }
    const none = await ask(viewer, 'nothing')
    assert.equal(none.status, 404)
    for (const level of ['confidential', 'restricted', 'foreign']) {
      const hidden = await ask(viewer, level)
      assert.equal(plain(hidden), plain(none), level)
      assert.equal(plain(await ask(viewer, level, { columns: ['nothing'], key: 'nothing' })), plain(none), level)
      const asLabels = {
        labels: { product: `ml.people_${level}` },
        time_column: 'seen_at',
        features: [people('internal')],
      }
      assert.equal(plain(await post(viewer, asLabels)), plain(none), level)
    }
    assert.equal((await ask(foreigner, 'internal')).status, 404)
    assert.equal((await ask(foreigner, 'foreign')).status, 200)
    assert.equal((await ask(new Client(world.deployment.url, null), 'internal')).status, 401)
    for (const level of ['confidential', 'restricted']) {
      assert.deepEqual(shows(await ask(granted, level)), [200, 'masked'], level)
      assert.deepEqual(shows(await ask(cleared, level)), [200, 'clear'], level)
    }
  })

  it('is on record by each product that is restricted', async () => {
    await ask(granted, 'restricted')
    const { data } = await ok(owner.get('/api/v1/audit?limit=200'))
    const { id } = await ok(owner.get('/api/v1/products/ml.people_restricted'))
    const read = data.filter(({ action, actor }: Json) => action === 'read.training_set' && actor.subject === 'greta')
    assert.ok(read.length > 0)
    assert.ok(read.every(({ object }: Json) => object.id === id))
  })

  it('is for keys of applications that may ask queries, of their products, in their classes', async () => {
    const key = async (name: string, more: Json) =>
      new Client(world.deployment.url, (await ok(maker.post('/api/v1/application-keys', { name, ...more }))).token)
    const maker = await world.as(world.tenants[0], 'svc-developers', 'clara')
    const reads = await ask(await key('reads', { operations: ['read'] }), 'internal')
    assert.deepEqual(shows(reads), [403, 'key_not_allowed'])
    const own = await key('own', { products: ['ml.people_internal'] })
    assert.deepEqual(shows(await ask(own, 'internal')), [200, 'masked'])
    assert.deepEqual(shows(await ask(own, 'confidential')), [404, 'product_not_found'])
    const open = await key('open', { products: ['ml.people_internal'], unmask: ['*'] })
    assert.deepEqual(shows(await ask(open, 'internal')), [200, 'clear'])
  })

  it('ends with a grant, and with a class that is raised, for the past as well', async () => {
    const knownBy = (pasts.at(-1) as Past).knownBy
    const past = { known_by: knownBy }
    await world.source.query(
      `CREATE TABLE open_people AS SELECT * FROM people; ALTER TABLE open_people ADD PRIMARY KEY (id)`,
    )
    const open = PEOPLE.replace(', classification: pii.identifier', '')
    await made(owner, 'people_open', 'open_people', open)
    await syncNow(owner)
    const { data } = await ok(owner.get('/api/v1/products/ml.people_open/snapshots?limit=1'))
    const then = { known_by: new Date(Date.parse(data[0].committed_at) + 1).toISOString() }
    assert.deepEqual(shows(await ask(viewer, 'open')), [200, 'clear'])
    assert.deepEqual(shows(await ask(viewer, 'open', {}, then)), [200, 'clear'])
    await deployVersion(owner, 'ml.people_open', '2.0.0', filesOf('people_open', 'open_people', PEOPLE))
    await syncNow(owner)
    assert.deepEqual(shows(await ask(viewer, 'open')), [200, 'masked'])
    const before = shows(await ask(viewer, 'open', {}, then))
    assert.ok(before[0] === 409 || before[1] === 'masked', JSON.stringify(before))
    assert.deepEqual(shows(await ask(viewer, 'open', { key: { email: 'id' } }, then))[1] === 'clear', false)

    assert.deepEqual(shows(await ask(granted, 'confidential')), [200, 'masked'])
    const grants = (await ok(owner.get('/api/v1/products/ml.people_confidential/grants'))).data
    for (const { id, subject } of grants) {
      if (subject.user !== 'greta' && subject.user !== 'clara') continue
      const { status } = await owner.send(`/api/v1/products/ml.people_confidential/grants/${id}`, { method: 'DELETE' })
      assert.equal(status, 204)
    }
    await until('the grants have ended', async () => (await ask(granted, 'confidential')).status === 404)
    assert.deepEqual(shows(await ask(granted, 'confidential', {}, past)), [404, 'product_not_found'])
    assert.deepEqual(shows(await ask(cleared, 'confidential', {}, past)), [404, 'product_not_found'])
  })
})
