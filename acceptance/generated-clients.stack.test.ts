/** Clients that `sluice client generate` writes, of a product that is deployed: what they read, and what they say of it. */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { pathToFileURL } from 'node:url'
import { installed, runTool } from '../stack/cache.ts'
import { Client, type Json, manifests, ok } from './client.ts'
import { type Ended, runSluice } from './sluice-command.ts'
import { connect, deployVersion, openWorld, syncNow, type World } from './world.ts'

const ROWS = 30
/** In every hidden value, and nowhere else. */
const HIDDEN = 'hidden-part'
const MYPY = '2.4.1'
const COMPILER = join(import.meta.dirname, '../node_modules/typescript/bin/tsc')

const COLUMNS = `  - { name: id, type: long, role: identity, nullable: false }
  - { name: email, type: string, classification: pii.identifier, description: "Where */ to write \\"\\"\\" to" }
  - { name: name, type: string, classification: pii.name }
  - { name: born, type: date, classification: pii.birth }
  - { name: city, type: string, nullable: false }
  - { name: amount, type: "decimal(12,2)" }
  - { name: ratio, type: double }
  - { name: seen_at, type: timestamptz, nullable: false }
  - { name: doc, type: json }
`
const ENDPOINTS = `  - type: lookup
    config: { index_columns: [id, city] }
  - type: realtime
    config: { key_template: "p:{id}", include_columns: [id, email, city] }
  - type: timeseries
    config: { time_column: seen_at, continuous_aggregates: [{ interval: 1 day, columns: [amount] }] }
  - type: analytics
`
/** Its key is masked: rows cannot be told apart by who does not see it. */
const CLOSED = `  - { name: name, type: string, role: identity, nullable: false, classification: pii.name }
  - { name: city, type: string }
`

let world: World
let folder = ''
let tenant = ''
let owner: Client
const tokens: Record<string, string> = {}

before(async () => {
  world = await openWorld()
  tenant = world.tenants[0]
  folder = await mkdtemp(join(tmpdir(), 'sluice-clients-'))
  await writeFile(join(folder, 'package.json'), '{"type": "module"}')
  await world.source.query(`CREATE TABLE people (id bigint PRIMARY KEY, email text, name text, born date, city text NOT NULL,
      amount numeric(12,2), ratio double precision, seen_at timestamptz NOT NULL, doc json, more text);
    INSERT INTO people SELECT i, '${HIDDEN}-' || i, '${HIDDEN} ' || i, '1990-01-01'::date + i, 'city ' || i % 3, i * 1.10,
      CASE WHEN i = 1 THEN 'NaN' ELSE i / 4.0 END, '2026-01-01T00:00Z'::timestamptz + make_interval(hours => i), '{"n": 1}'
      FROM generate_series(1, ${ROWS - 1}) i;
    INSERT INTO people VALUES (9007199254740993, NULL, NULL, NULL, 'far', NULL, NULL, '2026-02-01T00:00Z', NULL);
    CREATE TABLE named (name text PRIMARY KEY, city text);
    INSERT INTO named VALUES ('${HIDDEN}', 'far')`)
  await world.createTenant(tenant, 'enterprise')
  owner = await world.as(tenant, 'svc-developers', 'dora')
  for (const [user, group] of [
    ['dora', 'svc-developers'],
    ['vito', 'svc-viewers'],
    ['clara', 'svc-viewers'],
  ] as const) {
    tokens[user] = await world.deployment.token(['--tenant', tenant, '--group', group, '--user', user])
  }
  await connect(world, owner)
  await made('people', COLUMNS, ENDPOINTS, 'internal')
  await made('named', CLOSED, '  - type: lookup\n  - type: analytics\n', 'internal')
  await made('secret', COLUMNS, '  - type: lookup\n', 'confidential')
  const clear = { subject: { user: 'clara' }, may: 'unmask', classes: ['*'] }
  await ok(owner.post('/api/v1/products/crm.people/grants', clear))
  await ok(owner.post('/api/v1/products', { name: 'draft', namespace: 'crm', archetype: 'source_aligned' }))
  await syncNow(owner)
})

after(async () => {
  await world?.close()
  await rm(folder, { recursive: true, force: true })
})

function filesOf(name: string, columns: string, endpoints: string, classification: string): Record<string, string> {
  const files = manifests(name === 'named' ? 'public.named' : 'public.people', { columns, endpoints })
  const product = `${files.product.replace('name: people', `name: ${name}`)}classification: ${classification}\n`
  return { ...files, product, quality: 'apiVersion: svc/v1\nkind: Quality\nchecks: []\n' }
}

async function made(name: string, columns: string, endpoints: string, classification: string): Promise<void> {
  await ok(owner.post('/api/v1/products', { name, namespace: 'crm', archetype: 'source_aligned', description: '' }))
  await deployVersion(owner, `crm.${name}`, '1.0.0', filesOf(name, columns, endpoints, classification))
}

const sluice = (user: string, ...words: string[]): Promise<Ended> =>
  runSluice(['client', 'generate', ...words], { url: world.deployment.url, token: tokens[user] as string, cwd: folder })

/** The text of a file that was written for that user. */
async function generated(user: string, file: string, ...words: string[]): Promise<string> {
  const { code, err } = await sluice(user, ...words, '--out', file)
  assert.equal(code, 0, err)
  return readFile(join(folder, file), 'utf8')
}

let copies = 0

/** The client of a file; a file that was written anew is another module. */
async function opened(user: string, file: string): Promise<Json> {
  copies += 1
  const { Sluice, SluiceError } = await import(`${pathToFileURL(join(folder, file)).href}?${copies}`)
  const client = new Sluice({ url: world.deployment.url, token: () => tokens[user] })
  return { client, people: client.products['crm.people'], SluiceError }
}

async function all<T>(rows: AsyncIterable<T>): Promise<T[]> {
  const found: T[] = []
  for await (const row of rows) found.push(row)
  return found
}

function run(program: string, words: readonly string[]): Promise<string> {
  return new Promise((resolve) => {
    execFile(program, words, { cwd: folder, maxBuffer: 16 << 20 }, (error, out, err) =>
      resolve(error === null ? out.trim() : `${out}${err}`),
    )
  })
}

/** What the types of the file say, looked at in a value. */
const SHAPES: Readonly<Record<string, (value: unknown) => boolean>> = {
  number: (value) => typeof value === 'number',
  string: (value) => typeof value === 'string',
  null: (value) => value === null,
  Long: (value) => Number.isSafeInteger(value) || (typeof value === 'string' && /^-?\d+$/.test(value)),
  Double: (value) => typeof value === 'number' || ['NaN', 'Infinity', '-Infinity'].includes(value as string),
  Decimal: (value) => typeof value === 'string' && /^-?\d+\.\d\d$/.test(value),
  DateText: (value) => typeof value === 'string' && /^\d{4}-\d\d-\d\d$/.test(value),
  TimestampTz: (value) => typeof value === 'string' && /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$/.test(value),
  Json: () => true,
}

/** Of a declaration of the file: whether each row has just its members, with values of their types. */
function fits(text: string, type: string, rows: readonly Json[]): void {
  const [, rest = ''] = text.split(`export type ${type} = {\n`)
  const lines = rest.slice(0, rest.indexOf('\n}')).matchAll(/^ {2}readonly "(\w+)": (.*)$/gm)
  const members = [...lines].map(([, name = '', said = '']) => [name, said.split(' | ')] as const)
  assert.ok(members.length > 1 && rows.length > 0, type)
  for (const row of rows) {
    assert.deepEqual(Object.keys(row).toSorted(), members.map(([name]) => name).toSorted(), type)
    for (const [name, types] of members) {
      const isRight = types.some((one) => (SHAPES[one] as (value: unknown) => boolean)(row[name]))
      assert.ok(isRight, `${type}.${name} is ${types.join(' | ')}, and not ${JSON.stringify(row[name])}`)
    }
  }
}

const byId = (left: Json, right: Json) => (BigInt(left.id) < BigInt(right.id) ? -1 : 1)

describe('a generated client', () => {
  it('reads a product by every way that it is served, each row of the type that the file says', async () => {
    const text = await generated('vito', 'viewer.ts', 'crm.people', '--lang', 'ts')
    const { people, client } = await opened('vito', 'viewer.ts')
    const first = await people.lookup.get(1)
    fits(text, 'CrmPeopleRow', [first])
    assert.deepEqual([first.id, first.amount, first.ratio], [1, '1.10', 'NaN'])
    const far = await people.lookup.get({ id: 9007199254740993n })
    assert.deepEqual([far.id, far.city, far.amount], ['9007199254740993', 'far', null])
    const many = await people.lookup.getMany([2, 4711, '9007199254740993'], { columns: ['city'] })
    assert.deepEqual(many, [{ city: 'city 2' }, null, { city: 'far' }])
    const fresh = await people.realtime.getMany([{ id: 1 }, { id: 4711 }, { id: '9007199254740993' }])
    fits(text, 'CrmPeopleRealtimeRow', [fresh[0], fresh[2]])
    assert.deepEqual([fresh[0].city, fresh[1], fresh[2].city], ['city 1', null, 'far'])

    const found = await all<Json>(people.lookup.find({ pageSize: 7 }))
    fits(text, 'CrmPeopleRow', found)
    assert.equal(new Set(found.map(({ id }) => id)).size, ROWS)
    const some = await all<Json>(people.lookup.find({ filter: { city: 'city 1', id: { lt: 20 } }, pageSize: 2 }))
    assert.deepEqual(
      some.map(({ id }) => id).toSorted((a, b) => a - b),
      [1, 4, 7, 10, 13, 16, 19],
    )
    const days = { from: '2026-01-01', to: '2026-01-01', pageSize: 5 }
    const range = await all<Json>(people.timeseries.range(days))
    fits(text, 'CrmPeopleRow', range)
    assert.deepEqual(
      range.map(({ id }) => id),
      Array.from({ length: 23 }, (_, at) => at + 1),
    )
    const last = await all<Json>(people.timeseries.range({ columns: ['city'], order: 'desc', pageSize: 11 }))
    assert.deepEqual([last.length, last[0]], [ROWS, { city: 'far' }])
    const kept = await all<Json>(people.timeseries.aggregates('1 day'))
    assert.equal(
      kept.reduce((sum, { amount_count: count }) => sum + count, 0),
      ROWS - 1,
    )

    const scanned = await all<Json>(people.table.scan())
    fits(text, 'CrmPeopleRow', scanned)
    assert.deepEqual(scanned.toSorted(byId), found.toSorted(byId))
    const parquet = Buffer.from(await people.table.parquet({ columns: ['id'] }))
    assert.equal(parquet.subarray(0, 4).toString(), 'PAR1')
    const asked = await client.query('SELECT id FROM crm.people WHERE city = ?', { params: ['far'] })
    assert.deepEqual([asked.rows, asked.truncated], [[['9007199254740993']], false])
    assert.equal((await client.query('SELECT id FROM crm.people', { limit: 3 })).truncated, true)
  })

  it('shows its reader what reads show him, and says so', async () => {
    const text = await generated('vito', 'viewer.ts', 'crm.people', '--lang', 'ts')
    assert.match(text, /class pii\.identifier, masked for you by hash.* Where \* \/ to write/)
    assert.match(text, /class pii\.birth, masked for you by null: always null\. \*\/\n {2}readonly "born": null\n/)
    const { people, SluiceError } = await opened('vito', 'viewer.ts')
    const rows = await all<Json>(people.lookup.find({}))
    const served = await ok(
      (await world.as(tenant, 'svc-viewers', 'vito')).get('/api/v1/products/crm.people/latest?limit=1000'),
    )
    assert.deepEqual(rows.toSorted(byId), served.data.toSorted(byId))
    assert.ok(!JSON.stringify(rows).includes(HIDDEN))
    const masksFor = async (user: string, product: string) => {
      const { schema, readable } = await ok(
        new Client(world.deployment.url, tokens[user] as string).get(`/api/v1/products/crm.${product}`),
      )
      return [readable, ...schema.slice(0, 5).map(({ mask }: Json) => mask)]
    }
    assert.deepEqual(await masksFor('vito', 'people'), [true, null, 'hash', 'redact', 'null', null])
    assert.deepEqual(await masksFor('clara', 'people'), [true, null, null, null, null, null])
    assert.deepEqual(await masksFor('vito', 'secret'), [false, null, null, null, null, null])
    assert.deepEqual(await masksFor('dora', 'draft'), [false])
    assert.ok(rows.every(({ name, born }) => name === '[redacted]' && born === null))

    const refused = await people.lookup.page({ filter: { email: 'x' } }).catch((error: unknown) => error)
    assert.ok(refused instanceof SluiceError)
    const { status, code, remedy, requestId } = refused as Json
    assert.deepEqual([status, code], [403, 'column_masked'])
    assert.match(remedy, /grant that unmasks/)
    assert.ok(requestId.length > 5)

    const open = await generated('clara', 'cleared.ts', 'crm.people', '--lang', 'ts')
    assert.match(open, /readonly "born": DateText \| null\n/)
    const cleared = await opened('clara', 'cleared.ts')
    const clear = await all<Json>(cleared.people.lookup.find({}))
    fits(open, 'CrmPeopleRow', clear)
    assert.equal((await cleared.people.lookup.get(5)).name, `${HIDDEN} 5`)

    const closed = await generated('vito', 'named.ts', 'crm.named', '--lang', 'ts')
    assert.match(closed, /Not for you: rows of the lookup by key: it is masked\.[^]*Not for you: changes/)
    assert.match(
      closed,
      /\{\n {4}readonly lookup: Lookup<CrmNamedRow, never, never>\n {4}readonly table: Table<CrmNamedRow>\n {2}\}/,
    )
    const named = (await opened('vito', 'named.ts')).client.products['crm.named']
    assert.deepEqual(await all(named.lookup.find()), [{ name: '[redacted]', city: 'far' }])
    // What the file does not have, the server does not give.
    const byKey = await named.lookup.get(HIDDEN).catch((error: Json) => error.code)
    assert.equal(byKey, 'column_masked')
    const { body } = await (await world.as(tenant, 'svc-viewers', 'vito')).get('/api/v1/products/crm.named/changes')
    assert.equal(body.code, 'changes_need_key')
  })

  it('follows changes, and so keeps a copy', async () => {
    const text = await generated('vito', 'viewer.ts', 'crm.people', '--lang', 'ts')
    const { people } = await opened('vito', 'viewer.ts')
    const ended = new AbortController()
    const copy = new Map<unknown, Json>()
    const changes = people.changes.follow({ from: 'start', signal: ended.signal })
    const wholeEpoch = async (): Promise<Json[]> => {
      const came: Json[] = []
      for (;;) {
        const { value } = await changes.next()
        came.push(value)
        if (value.kind === 'upsert') copy.set(value.row.id, value.row)
        if (value.kind === 'delete') copy.delete(value.key.id)
        if (value.kind === 'reset') copy.clear()
        if (value.kind === 'epoch') return came
      }
    }
    await wholeEpoch()
    fits(text, 'CrmPeopleRow', [...copy.values()])
    assert.equal(copy.size, ROWS)
    await world.source.query(`DELETE FROM people WHERE id = 3; UPDATE people SET city = 'moved' WHERE id = 4`)
    const next = wholeEpoch()
    await syncNow(owner)
    const kinds = (await next).map(({ kind, row, key }) => [kind, row?.city ?? key?.id ?? null])
    assert.deepEqual(kinds.toSorted(), [
      ['delete', 3],
      ['epoch', null],
      ['upsert', 'moved'],
    ])
    const { rows } = await ok(
      (await world.as(tenant, 'svc-viewers', 'vito')).post('/api/v1/query', { sql: 'SELECT id, city FROM crm.people' }),
    )
    const sorted = (pairs: Json[]) => pairs.map(([id, city]) => `${id} ${city}`).toSorted()
    assert.deepEqual(sorted([...copy.values()].map(({ id, city }) => [id, city])), sorted(rows))
    ended.abort()
    await assert.rejects(changes.next(), { name: 'AbortError' })
  })

  it('goes on where it was with a server that was killed', async (t) => {
    const { crash } = world.deployment
    if (crash === null) return t.skip('the runtime under test is another’s to kill')
    await generated('vito', 'viewer.ts', 'crm.people', '--lang', 'ts')
    const { people } = await opened('vito', 'viewer.ts')
    const ended = new AbortController()
    const changes = people.changes.follow({ signal: ended.signal })
    // Where he is.
    assert.equal((await changes.next()).value.kind, 'epoch')
    const next = changes.next()
    await crash()
    await world.source.query(`UPDATE people SET city = 'again' WHERE id = 4`)
    await syncNow(owner)
    const { value } = await next
    assert.deepEqual([value.kind, value.row.id, value.row.city], ['upsert', 4, 'again'])
    assert.equal((await changes.next()).value.kind, 'epoch')
    ended.abort()
  })

  it('compiles as it was written, in both languages', async () => {
    await generated('vito', 'viewer.ts', '--lang', 'ts')
    assert.equal(
      await run(process.execPath, [
        COMPILER,
        '--strict',
        '--noEmit',
        '--lib',
        'es2022,dom',
        '--types',
        '',
        'viewer.ts',
      ]),
      '',
    )
    await generated('vito', 'viewer.py', '--lang', 'python')
    const environment = await installed(`mypy-${MYPY}`, async (at) => {
      await runTool('python3', ['-m', 'venv', at])
      await runTool(join(at, 'bin/python'), ['-m', 'pip', 'install', '--quiet', `mypy==${MYPY}`])
    })
    const use = `from viewer import Sluice
row = Sluice("http://x", "t").products["crm.people"].lookup.get(1)
if row is not None:
    city: str = row["city"]
    wrong: int = row["city"]
    row["nothing"]
`
    await writeFile(join(folder, 'use.py'), use)
    const said = await run(join(environment, 'bin/python'), ['-m', 'mypy', '--strict', 'viewer.py', 'use.py'])
    const lines = said.split('\n').map((line) => line.replace(/^(\w+\.py:\d+).*\[(.*)\]$/, '$1 $2'))
    assert.deepEqual(lines.slice(0, 2), ['use.py:5 assignment', 'use.py:6 typeddict-item'], said)
    assert.match(said, /Found 2 errors in 1 file/)
  })

  it('in Python gives what it gives in TypeScript', async () => {
    await generated('vito', 'viewer.py', 'crm.people', '--lang', 'python')
    await generated('vito', 'viewer.ts', 'crm.people', '--lang', 'ts')
    const { people, client } = await opened('vito', 'viewer.ts')
    const script = `
import itertools, json, sys
from viewer import Sluice, SluiceError
client = Sluice(sys.argv[1], lambda: sys.argv[2])
p = client.products["crm.people"]
def failed():
    try:
        p.lookup.page({"email": "x"})
    except SluiceError as error:
        return [error.status, error.code, error.remedy]
epoch = list(itertools.takewhile(lambda c: c.kind != "epoch", p.changes.follow("start")))
print(json.dumps([
    p.lookup.get(9007199254740993), p.lookup.get_many([1, 4711], columns=["city", "ratio"]),
    p.realtime.get({"id": 2}), list(p.lookup.find({"city": {"in": ["city 1", "far"]}}, page_size=3)),
    list(p.timeseries.range("2026-01-01", "2026-01-01", page_size=4)), list(p.timeseries.aggregates("1 day")),
    sorted(row["city"] for row in p.table.scan()), p.table.parquet()[:4].decode(),
    client.query("SELECT id FROM crm.people ORDER BY id LIMIT 2")["rows"], failed(),
    sorted(str(change.row["id"]) for change in epoch if change.row is not None),
]))
`
    await writeFile(join(folder, 'read.py'), script)
    const told = JSON.parse(await run('python3', ['read.py', world.deployment.url, tokens['vito'] as string]))
    const ids: string[] = []
    for await (const change of people.changes.follow({ from: 'start' })) {
      if (change.kind === 'epoch') break
      if (change.kind === 'upsert') ids.push(String(change.row.id))
    }
    const error = await people.lookup.page({ filter: { email: 'x' } }).catch((one: unknown) => one)
    assert.deepEqual(told, [
      await people.lookup.get('9007199254740993'),
      await people.lookup.getMany([1, 4711], { columns: ['city', 'ratio'] }),
      await people.realtime.get({ id: 2 }),
      await all(people.lookup.find({ filter: { city: { in: ['city 1', 'far'] } } })),
      await all(people.timeseries.range({ from: '2026-01-01', to: '2026-01-01' })),
      await all(people.timeseries.aggregates('1 day')),
      (await all<Json>(people.table.scan())).map(({ city }) => city).toSorted(),
      'PAR1',
      (await client.query('SELECT id FROM crm.people ORDER BY id LIMIT 2')).rows,
      [error.status, error.code, error.remedy],
      ids.toSorted(),
    ])
  })
})

describe('sluice client generate', () => {
  it('writes what its caller may read, and no more', async () => {
    const names = (text: string) =>
      [...text.matchAll(/^\/\/ sluice-product .*?"name":"(\w+)"/gm)].map(([, name]) => name)
    assert.deepEqual(names(await generated('vito', 'all.ts', '--lang', 'ts')), ['named', 'people'])
    const asked = { name: 'reads', operations: ['read'], products: ['crm.people'] }
    const { token } = await ok(
      (await world.as(tenant, 'svc-developers', 'dora')).post('/api/v1/application-keys', asked),
    )
    tokens['key'] = token
    assert.deepEqual(names(await generated('key', 'key.ts', '--lang', 'ts')), ['people'])
    const again = await generated('vito', 'all.ts', '--lang', 'ts')
    assert.equal(again, await generated('vito', 'same.ts', 'crm.people', 'crm.named', 'people', '--lang', 'ts'))
    const { code, out } = await sluice('vito', 'crm.named', '--lang', 'python', '--out', 'x.py', '--json')
    assert.deepEqual([code, JSON.parse(out).products], [0, ['crm.named']])
  })

  it('refuses what it cannot write, and leaves files of others as they are', async () => {
    await writeFile(join(folder, 'own.ts'), 'export const mine = 1\n')
    for (const [words, code, said] of [
      [['crm.people', '--lang', 'ts', '--out', 'own.ts'], 1, /own\.ts is there, and was not written by this command/],
      [['crm.people', '--lang', 'ts', '--out', 'own.ts', '--check'], 1, /own\.ts was not written by this command/],
      [['crm.people', '--lang', 'ts', '--out', 'none.ts', '--check'], 1, /none\.ts cannot be read/],
      [['crm.secret', '--lang', 'ts', '--out', 'new.ts'], 1, /you may not read crm\.secret/],
      [['crm.draft', '--lang', 'ts', '--out', 'new.ts'], 1, /crm\.draft is not in service/],
      [['crm.nothing', '--lang', 'ts', '--out', 'new.ts'], 1, /product_not_found/],
      [['crm.people', '--lang', 'ts', '--out', 'no/such/new.ts'], 1, /cannot be written/],
      [['crm.people', '--lang', 'java', '--out', 'new.ts'], 2, /--lang is one of ts, python/],
      [['crm.people', '--out', 'new.ts'], 2, /--lang is missing/],
      [['crm.people', '--lang', 'ts'], 2, /--out is missing/],
    ] as const) {
      const ended = await sluice('vito', ...words)
      assert.deepEqual([ended.code, said.test(ended.err)], [code, true], `${words.join(' ')}: ${ended.err}`)
    }
    assert.equal(await readFile(join(folder, 'own.ts'), 'utf8'), 'export const mine = 1\n')
    await assert.rejects(readFile(join(folder, 'new.ts')))
  })

  it('says with --check what has become another, for its caller, and writes nothing', async () => {
    const text = await generated('vito', 'kept.ts', '--lang', 'ts')
    await generated('vito', 'kept.py', 'crm.people', '--lang', 'python')
    const check = async (user: string, ...words: string[]) => {
      const { code, out, err } = await sluice(user, '--check', ...words)
      return { code, out: out.trim().split('\n'), err }
    }
    assert.equal((await check('vito', '--out', 'kept.ts')).code, 0)
    assert.equal((await check('vito', '--out', 'kept.py', '--lang', 'python')).code, 0)
    const seen = await check('clara', 'crm.people', '--out', 'kept.ts')
    assert.deepEqual(
      [seen.code, seen.out],
      [
        1,
        [
          'email: shown to you: masked (hash)',
          'name: shown to you: masked (redact)',
          'born: shown to you: masked (null)',
        ].map((one) => `breaking: crm.people: the column ${one} before, in clear now`),
      ],
    )
    const changed = COLUMNS.replace('type: double', 'type: string')
      .replace('  - { name: doc, type: json }\n', '')
      .concat('  - { name: more, type: string }\n')
    await deployVersion(
      owner,
      'crm.people',
      '2.0.0',
      filesOf('people', changed, ENDPOINTS.split('  - type: timeseries')[0] as string, 'internal'),
    )
    for (const file of ['kept.ts', 'kept.py']) {
      const ended = await check('vito', '--out', file)
      assert.equal(ended.code, 1, ended.err)
      assert.deepEqual(ended.out, [
        'breaking: crm.people: the column ratio: type: double before, string now',
        'breaking: crm.people: the column doc is gone',
        'other: crm.people: the column more is new: string',
        'breaking: crm.people: the endpoint timeseries is gone',
      ])
    }
    const { code, out } = await sluice('vito', '--check', '--out', 'kept.py', '--json')
    assert.deepEqual([code, JSON.parse(out).differs, JSON.parse(out).differences.length], [1, true, 4])
    assert.equal(await readFile(join(folder, 'kept.ts'), 'utf8'), text)
    await generated('vito', 'kept.ts', '--lang', 'ts')
    assert.equal((await check('vito', '--out', 'kept.ts')).code, 0)
  })
})
