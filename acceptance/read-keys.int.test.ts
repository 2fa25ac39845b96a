/** Rows by many keys of several products: that they are what single reads give, and nothing more is learnt by asking for many. */
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { until } from '../test/until.ts'
import { type Answer, Client, type Json, manifests } from './client.ts'
import { deployVersion, loginOf, openWorld, syncNow, type World } from './world.ts'

const PEOPLE = `  - { name: id, type: integer, role: identity, nullable: false }
  - { name: email, type: string, classification: pii.identifier }
  - { name: city, type: string }
  - { name: amount, type: "decimal(12,2)" }
  - { name: big, type: long }
  - { name: doc, type: json }
`
const PARTS = `  - { name: region, type: string, role: identity, nullable: false }
  - { name: day, type: date, role: identity, nullable: false }
  - { name: no, type: long, role: identity, nullable: false }
  - { name: label, type: string }
`
const HASHED = `  - { name: email, type: string, role: identity, nullable: false, classification: pii.identifier }
  - { name: city, type: string }
`
/** Of keys whose masks tell no two rows apart. */
const NAMED = `  - { name: city, type: string, role: identity, nullable: false }
  - { name: name, type: string, role: identity, nullable: false, classification: pii.name }
`
const NUMBERED = `  - { name: no, type: integer, role: identity, nullable: false, classification: pii.identifier }
  - { name: city, type: string }
`
const both = (index: string, template: string) =>
  `  - type: lookup\n    config: { index_columns: [${index}] }\n  - type: realtime\n    config: { key_template: "${template}" }\n`

let world: World
let developer: Client
let viewer: Client
let other: Client

before(async () => {
  world = await openWorld()
  const [own, foreign] = world.tenants
  await world.source.query(`
    CREATE TABLE people (id integer PRIMARY KEY, email text, city text, amount numeric(12,2), big bigint, doc json);
    INSERT INTO people SELECT i, 'e' || i || '@keys.test', 'city ' || i % 3, i * 1.10, 9007199254740993 + i,
      ('{"n": 1.0, "long": 1234567890123456789' || i || '}')::json FROM generate_series(1, 1200) i;
    CREATE TABLE parts (region text, day date, no bigint, label text, PRIMARY KEY (region, day, no));
    INSERT INTO parts SELECT r, '2026-01-01'::date + d, n, r || '/' || d || '/' || n
      FROM unnest(ARRAY['a-b', 'a', 'ö:"', '', 'null']) r, generate_series(0, 2) d, generate_series(1, 12) n;
    INSERT INTO parts VALUES ('a', '2026-01-01', 9007199254740993, 'beyond 53 bits');
    CREATE TABLE marked (a integer, b integer, mark integer, PRIMARY KEY (a, b));
    INSERT INTO marked SELECT i, i, 1 FROM generate_series(0, 989) i;
    CREATE TABLE named (name text, city text, no integer UNIQUE, PRIMARY KEY (city, name));
    INSERT INTO named SELECT 'Name ' || i, 'city', i FROM generate_series(1, 3) i;
    CREATE TABLE large (id integer PRIMARY KEY, text text);
    INSERT INTO large SELECT i, repeat('x', 100000) FROM generate_series(1, 60) i`)
  await world.createTenant(own, 'enterprise')
  await world.createTenant(foreign)
  developer = await world.as(own, 'svc-developers', 'dora')
  viewer = await world.as(own, 'svc-viewers', 'vito')
  other = await world.as(foreign, 'svc-developers', 'olga')
  const config_encrypted = loginOf(world.deployment)
  for (const name of ['db', 'marks']) {
    await developer.post('/api/v1/connections', { name, connector_type: 'postgresql', config_encrypted })
  }
  await made('crm.people', 'people', PEOPLE, both('id, city', 'p:{id}'))
  await made('crm.parts', 'parts', PARTS, both('region, day, no', '{region}-{day}-{no}'))
  await made('crm.hashed', 'people', HASHED, both('email', '{email}'))
  await made('crm.named', 'named', NAMED, '  - type: lookup\n')
  await made('crm.numbered', 'named', NUMBERED, '  - type: lookup\n')
  await made('crm.looked', 'people', PEOPLE, '  - type: lookup\n')
  const marked = ['a', 'b'].map((name) => `  - { name: ${name}, type: integer, role: identity, nullable: false }\n`)
  await made(
    'crm.marked',
    'marked',
    `${marked.join('')}  - { name: mark, type: integer }\n`,
    both('a, b', '{a}:{b}'),
    'internal',
    'marks',
  )
  await made('crm.closed', 'people', PEOPLE, '  - type: lookup\n', 'confidential')
  await made('hr.people', 'people', PEOPLE, '  - type: lookup\n', 'confidential')
  await made(
    'crm.large',
    'large',
    '  - { name: id, type: integer, role: identity, nullable: false }\n  - { name: text, type: string }\n',
    both('id', '{id}'),
  )
  const wanted = { name: 'empty', namespace: 'crm', archetype: 'source_aligned', description: '' }
  await developer.post('/api/v1/products', wanted)
  await Promise.all([syncNow(developer), syncNow(developer, 'marks')])
})

after(() => world?.close())

async function made(
  product: string,
  table: string,
  columns: string,
  endpoints: string,
  classification = 'internal',
  connection = 'db',
): Promise<void> {
  const [namespace = '', name = ''] = product.split('.')
  await developer.post('/api/v1/products', { name, namespace, archetype: 'source_aligned', description: '' })
  const files = manifests(`public.${table}`, { columns, endpoints })
  const head = `apiVersion: svc/v1\nkind: Product\nname: ${name}\nnamespace: ${namespace}\narchetype: source_aligned\n`
  await deployVersion(developer, product, '1.0.0', {
    ...files,
    product: `${head}classification: ${classification}\n`,
    inputs: files.inputs.replace('connection: db', `connection: ${connection}`),
    quality: 'apiVersion: svc/v1\nkind: Quality\nchecks: []\n',
  })
}

type Item = Readonly<Record<string, unknown>>

const ask = (client: Client, ...items: readonly Item[]): Promise<Answer> => client.post('/api/v1/read', { items })

async function read(client: Client, ...items: readonly Item[]): Promise<readonly Json[]> {
  const { status, body } = await ask(client, ...items)
  assert.equal(status, 200, JSON.stringify(body).slice(0, 2000))
  assert.deepEqual(
    body.data.map(({ product, store }: Json) => [product, store]),
    items.map(({ product, store }) => [product, store]),
  )
  return body.data
}

const people = (keys: readonly unknown[], more: Item = {}): Item => ({
  product: 'crm.people',
  store: 'lookup',
  keys,
  ...more,
})
const cached = (keys: readonly unknown[], more: Item = {}): Item => ({
  product: 'crm.people',
  store: 'realtime',
  keys,
  ...more,
})
const verdict = ({ error }: Json) => [error?.status, error?.code]

/** Without what an answer with an ETag has in its head: how old the rows are. */
function ageless(answer: Json): Json {
  const { age_s: _, ...freshness } = answer.meta.freshness
  return { ...answer.meta, freshness }
}

describe('rows by many keys', () => {
  it('are those of single reads, in the order of the keys, null where there is none', async () => {
    const keys = [7, 1200, 0, '3', 7, -1, 1]
    const [looked, found] = await read(viewer, people(keys), cached(keys.map((id) => `p:${id}`)))
    for (const answer of [looked, found]) {
      assert.deepEqual(
        answer?.rows.map((row: Json) => row?.id ?? null),
        [7, 1200, null, 3, 7, null, 1],
      )
    }
    const latest = (await viewer.get('/api/v1/products/crm.people/latest?filter=id:7')).body
    assert.deepEqual([looked?.rows[0], ageless(looked)], [latest.data[0], latest.meta])
    assert.equal(typeof looked?.meta.freshness.age_s, 'number')
    const value = (await viewer.get('/api/v1/products/crm.people/realtime?key=p:7')).body
    assert.deepEqual(found?.rows[0], value.data[0])
    const { ttl_remaining_s: left, ...meta } = value.meta
    const { ttl_remaining_s: told, ...same } = ageless(found)
    assert.deepEqual(same, meta)
    assert.ok(told >= left && told - left <= 60)
  })

  it('keep every digit, and have no columns but those asked for', async () => {
    const path = '/api/v1/read'
    const body = JSON.stringify({ items: [people([7, 8], { columns: ['doc', 'big', 'amount'] })] })
    const { text } = await viewer.text(path, { method: 'POST', body, headers: { 'content-type': 'application/json' } })
    assert.ok(text.includes('1234567890123456789' + '7'), text)
    assert.ok(text.includes('{"n": 1.0,'), text)
    const [{ rows }] = JSON.parse(text).data
    assert.deepEqual(
      [Object.keys(rows[0]), rows[0].big, rows[0].amount],
      [['doc', 'big', 'amount'], '9007199254741000', '7.70'],
    )
  })

  it('are a thousand in one request, of all items together', async () => {
    const keys = Array.from({ length: 999 }, (_, at) => 1200 - at)
    const [many, one] = await read(viewer, people(keys, { columns: ['city'] }), cached(['p:1']))
    assert.deepEqual(
      many?.rows,
      keys.map((id) => ({ city: `city ${id % 3}` })),
    )
    assert.equal(one?.rows[0].id, 1)
    const { status, body } = await ask(viewer, people(keys), cached(['p:1', 'p:2']))
    assert.deepEqual([status, body.code], [400, 'too_many_keys'])
  })

  it('of several columns are told apart, however their values look', async () => {
    const key = (region: string, day: number, no: number | string) => ({ no, region, day: `2026-01-0${day + 1}` })
    const wanted: [Json, string | null][] = []
    for (const region of ['a-b', 'a', 'ö:"', '', 'null']) {
      for (const day of [0, 2])
        for (const no of [1, 12, 13]) wanted.push([key(region, day, no), no > 12 ? null : `${region}/${day}/${no}`])
    }
    wanted.push([key('a', 0, '9007199254740993'), 'beyond 53 bits'], [key('b', 0, 1), null])
    wanted.push([key('a', 0, '+007'), 'a/0/7'])
    for (const store of ['lookup', 'realtime']) {
      const [answer] = await read(viewer, {
        product: 'crm.parts',
        store,
        keys: wanted.map(([asked]) => asked),
        columns: ['label'],
      })
      assert.deepEqual(
        answer?.rows?.map((row: Json) => row?.label ?? null),
        wanted.map(([, label]) => label),
        JSON.stringify(answer?.error),
      )
    }
    const [text] = await read(viewer, { product: 'crm.parts', store: 'realtime', keys: ['a-2026-01-01-7'] })
    assert.equal(text?.rows[0].label, 'a/0/7')
  })

  it('are refused by the item, with what is wrong and without the value, while other items are read', async () => {
    const parts = (keys: readonly unknown[], store = 'lookup') => ({ product: 'crm.parts', store, keys })
    const bad: [Item, number, string][] = [
      [people(['SENTINEL']), 400, 'invalid_value'],
      [people([1.5]), 400, 'invalid_value'],
      [people([true]), 400, 'invalid_value'],
      [people(['9'.repeat(400)]), 400, 'invalid_value'],
      [people([1, { SENTINEL: 1 }]), 400, 'key_malformed'],
      [people([{ id: 1, city: 'city 1' }]), 400, 'key_malformed'],
      [people([1], { columns: ['nope'] }), 400, 'unknown_column'],
      [parts(['a']), 400, 'key_malformed'],
      [parts([{ region: 'a', day: '2026-01-01' }]), 400, 'key_malformed'],
      [parts([{ region: 'a', day: '2026-01-01', no: 2 ** 53 }]), 400, 'key_malformed'],
      [parts([{ region: 'a', day: 'SENTINEL', no: 1 }]), 400, 'invalid_value'],
      [parts([{ region: 'a', day: 'SENTINEL', no: 1 }], 'realtime'), 400, 'invalid_value'],
      [parts([{ region: 'a', day: '2026-01-01', __proto__x: 1 }], 'realtime'), 400, 'key_malformed'],
      [{ product: 'crm.looked', store: 'realtime', keys: ['1'] }, 404, 'endpoint_not_declared'],
    ]
    for (const [item, status, code] of bad) {
      const [refused, answered] = await read(viewer, item, people([1]))
      assert.deepEqual([...verdict(refused), refused.rows], [status, code, undefined], JSON.stringify([item, refused]))
      assert.ok(!JSON.stringify(refused.error).includes('SENTINEL'), JSON.stringify(refused.error))
      assert.equal(answered?.rows[0].id, 1)
    }
  })

  it('stay within limits of items, keys and bytes', async () => {
    const code = async (body: unknown) => {
      const answer = await viewer.post('/api/v1/read', body)
      return [answer.status, answer.body.code]
    }
    const invalid = [400, 'validation_failed']
    for (const items of [
      [],
      Array.from({ length: 11 }, () => people([1])),
      [people([])],
      [people(Array.from({ length: 1001 }, (_, at) => at))],
      [people([null])],
      [people([[1]])],
      [people([{ id: { a: 1 } }])],
      [people([{ id: null }])],
      [people([{}])],
      [people([1], { columns: [] })],
      [people([1], { filter: 'id:1' })],
      [{ ...people([1]), store: 'analytics' }],
      [{ ...people([1]), store: 'timeseries' }],
      [{ ...people([1]), product: 'a/../b' }],
    ]) {
      assert.deepEqual(await code({ items }), invalid, JSON.stringify(items).slice(0, 200))
    }
    const { body } = await ask(viewer, people([null]))
    const message = 'must be a value, or an object with the values of its columns'
    assert.deepEqual(body.errors, [{ in: 'body', pointer: '/items/0/keys/0', message }])
    assert.deepEqual(await code({ items: [people([1])], more: 1 }), invalid)
    assert.deepEqual(await code([]), invalid)
    const ids = Array.from({ length: 60 }, (_, at) => at + 1)
    const large = (keys: readonly unknown[], store = 'lookup', more = {}) => ({
      product: 'crm.large',
      store,
      keys,
      ...more,
    })
    const answers = await read(
      viewer,
      large(ids),
      large(ids.map(String), 'realtime'),
      large(ids.map(() => 1)),
      large(ids, 'lookup', { columns: ['id'] }),
      large(ids.slice(0, 40)),
    )
    assert.deepEqual(
      answers.map((answer) => answer.error?.code ?? answer.rows.length),
      ['rows_too_large', 'rows_too_large', 'rows_too_large', 60, 40],
    )
  })
})

describe('reads by many keys', () => {
  it('are of one epoch, whatever is committed between two of their keys', async () => {
    const mark = (epoch: number) => world.source.query(`UPDATE marked SET mark = ${epoch}`)
    const keys = Array.from({ length: 990 }, (_, at) => ({ a: at, b: at }))
    const reading = new AbortController()
    const reader = async (store: string, seen: Set<number>) => {
      while (!reading.signal.aborted) {
        const [answer] = await read(viewer, { product: 'crm.marked', store, keys, columns: ['mark'] })
        if (answer?.error?.code === 'epoch_moved') continue
        const marks = new Set(answer?.rows?.map((row: Json) => row.mark))
        assert.equal(marks.size, 1, JSON.stringify([answer?.error, [...marks]]))
        for (const one of marks) seen.add(one as number)
      }
    }
    const seen = { lookup: new Set<number>(), realtime: new Set<number>() }
    const readers = Promise.all([reader('lookup', seen.lookup), reader('realtime', seen.realtime)])
    // Nothing is waited for after one of them has failed.
    readers.catch(() => reading.abort())
    for (const epoch of [1, 2, 3]) {
      const isSeen = () => seen.lookup.has(epoch) && seen.realtime.has(epoch)
      await Promise.race([readers, until(`both see epoch ${epoch}`, () => isSeen() || reading.signal.aborted)])
      if (epoch < 3) {
        await mark(epoch + 1)
        await syncNow(developer, 'marks')
      }
    }
    reading.abort()
    await readers
  })

  it('know no other tenant', async () => {
    const [answer] = await read(other, people([1]))
    const [absent] = await read(other, people([1], { product: 'crm.nothing' }))
    assert.deepEqual(verdict(answer ?? {}), [404, 'product_not_found'])
    assert.deepEqual(plain(answer), plain(absent))
    const named = await other.post('/api/v1/read', { items: [people([1])] }, { 'x-tenant-id': world.tenants[0] })
    assert.deepEqual([named.status, named.body.code], [403, 'tenant_header_forbidden'])
    assert.equal((await ask(new Client(world.deployment.url, null), people([1]))).status, 401)
  })

  it('answer for products that are forbidden as for those that are not there', async () => {
    const nobody = await world.as(world.tenants[0], null, 'noah')
    for (const keys of [[1], ['SENTINEL'], [{ nope: 1 }]]) {
      const absent = (await read(viewer, people(keys, { product: 'crm.nothing' })))[0]
      assert.deepEqual(verdict(absent), [404, 'product_not_found'])
      for (const [client, product] of [
        [viewer, 'crm.closed'],
        [viewer, 'hr.people'],
        [nobody, 'crm.people'],
        [nobody, 'crm.empty'],
        [nobody, 'people'],
      ] as const) {
        for (const store of ['lookup', 'realtime']) {
          const [hidden] = await read(client, people(keys, { product, store }))
          assert.deepEqual(plain(hidden), plain(absent), product)
        }
      }
    }
    const [closed, open] = await read(viewer, people([1], { product: 'crm.closed' }), people([1]))
    assert.deepEqual([closed.error.code, open?.rows.length], ['product_not_found', 1])
  })

  it('find a name among what the caller may read', async () => {
    const [only] = await read(viewer, people([1], { product: 'people' }))
    assert.deepEqual([only?.meta?.namespace, only?.rows?.[0].id], ['crm', 1], JSON.stringify(only))
    const granted = await developer.post('/api/v1/products/hr.people/grants', {
      subject: { user: 'vera' },
      may: 'read',
    })
    assert.equal(granted.status, 201)
    const vera = await world.as(world.tenants[0], 'svc-viewers', 'vera')
    const [several] = await read(vera, people([1], { product: 'people' }))
    assert.deepEqual(
      [several.error?.code, several.error?.candidates?.toSorted()],
      ['ambiguous_product', ['crm.people', 'hr.people']],
    )
  })

  it('mask as single reads do, and choose no row by what is masked', async () => {
    const unmasked = { subject: { user: 'carl' }, may: 'unmask', classes: ['pii.identifier'] }
    for (const name of ['crm.people', 'crm.hashed', 'crm.numbered']) {
      assert.equal((await developer.post(`/api/v1/products/${name}/grants`, unmasked)).status, 201)
    }
    const carl = await world.as(world.tenants[0], 'svc-viewers', 'carl')
    for (const item of [people([5]), cached(['p:5'])]) {
      const [[masked], [clear]] = [await read(viewer, item), await read(carl, item)]
      assert.deepEqual([masked?.meta.masked_columns, clear?.meta.masked_columns], [['email'], []])
      assert.equal(clear?.rows[0].email, 'e5@keys.test')
      assert.ok(!JSON.stringify(masked).includes('@keys.test'))
    }
    const { body: single } = await viewer.get('/api/v1/products/crm.people/latest?filter=id:5')
    assert.equal((await read(viewer, people([5])))[0]?.rows[0].email, single.data[0].email)
    for (const store of ['lookup', 'realtime']) {
      for (const email of ['e5@keys.test', 'nobody', single.data[0].email]) {
        for (const key of [email, { email }]) {
          const hashed = { product: 'crm.hashed', store, keys: [key] }
          const [refused] = await read(viewer, hashed)
          assert.deepEqual(verdict(refused), [403, 'column_masked'], JSON.stringify(refused))
          const [found] = await read(carl, hashed)
          assert.equal(
            found?.rows?.[0]?.city ?? null,
            email === 'e5@keys.test' ? 'city 2' : null,
            JSON.stringify(found),
          )
        }
      }
    }
  })

  it('of a key that is hidden altogether are refused by the item, whatever is asked', async () => {
    const [city, no] = ['city', 2]
    for (const [product, keys] of [
      ['crm.named', [{ city, name: 'Name 1' }, { city, name: '[redacted]' }, { city }, city]],
      ['crm.numbered', [no, { no }, 'SENTINEL']],
    ] as const) {
      for (const key of keys) {
        const [refused, open] = await read(viewer, { product, store: 'lookup', keys: [key] }, people([1]))
        assert.deepEqual([verdict(refused), open?.rows.length], [[403, 'column_masked'], 1], JSON.stringify(refused))
      }
    }
    const carl = await world.as(world.tenants[0], 'svc-viewers', 'carl')
    const [clear] = await read(carl, { product: 'crm.numbered', store: 'lookup', keys: [no, 9] })
    assert.deepEqual(clear?.rows, [{ no, city }, null])
  })

  it('are on record for each product whose reads are', async () => {
    const records = async () => {
      const { body } = await developer.get('/api/v1/audit?limit=1000')
      return body.data.filter(({ action }: Json) => /^read\.(lookup|realtime)$/.test(action)).length
    }
    const before = await records()
    const headers = { 'x-tenant-id': world.tenants[0] }
    const items = [
      people([1, 2]),
      cached(['p:1']),
      people([1], { product: 'crm.closed' }),
      people([1], { product: 'crm.nothing' }),
    ]
    const { status, body } = await world.admin.post('/api/v1/read', { items }, headers)
    assert.deepEqual([status, body.data.map(({ rows }: Json) => rows?.length ?? 0)], [200, [2, 1, 1, 0]])
    assert.equal(await records(), before + 3)
  })

  it('by an application key give what the key is for', async () => {
    const made = async (wanted: Item) =>
      new Client(
        world.deployment.url,
        (await developer.post('/api/v1/application-keys', { name: 'app', ...wanted })).body.token,
      )
    const reader = await made({ products: ['crm.people'], operations: ['read'] })
    const asker = await made({ products: ['crm.people'], operations: ['query'] })
    const refused = await ask(asker, people([1]))
    assert.deepEqual([refused.status, refused.body.code], [403, 'key_not_allowed'])
    const others = ['crm.parts', 'crm.closed', 'hr.people', 'crm.empty']
    const [own, bare, absent, ...hidden] = await read(
      reader,
      people([1]),
      people([1], { product: 'people' }),
      people([1], { product: 'crm.nothing' }),
      ...others.map((product) => people([1], { product })),
    )
    assert.deepEqual([own?.rows[0].id, own?.meta.masked_columns], [1, ['email']])
    assert.deepEqual(bare?.rows, own?.rows)
    for (const answer of hidden) assert.deepEqual(plain(answer), plain(absent))
  })
})

/** A problem without what names the request. */
function plain(answer: Json): Json {
  const { request_id: _id, ...error } = answer.error
  return error
}
