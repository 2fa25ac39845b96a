/** The wheel `sluice-client`, as it is built and installed: what it reads of a server, and what it does where one fails. */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import type { AddressInfo, Server } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { installed, runTool } from '../stack/cache.ts'
import { type Client, type Json, manifests, ok } from './client.ts'
import { connect, deployVersion, openWorld, syncNow, type World } from './world.ts'

const ROOT = join(import.meta.dirname, '..')
const PROJECT = join(ROOT, 'clients/python')
const SHARED = join(ROOT, 'runtime/src/command/templates/client/python')
const BACKEND = 'hatchling==1.33.0'
const FRAMES = ['pandas==3.1.1', 'polars==2.1.0', 'pyarrow==26.0.1']
const MYPY = '2.4.1'
const ROWS = 30

const COLUMNS = `  - { name: id, type: long, role: identity, nullable: false }
  - { name: email, type: string, classification: pii.identifier }
  - { name: city, type: string, nullable: false }
  - { name: amount, type: "decimal(12,2)" }
  - { name: seen_at, type: timestamptz, nullable: false }
`
const ENDPOINTS = `  - type: lookup
    config: { index_columns: [id, city] }
  - type: realtime
    config: { key_template: "p:{id}" }
  - type: timeseries
    config: { time_column: seen_at, continuous_aggregates: [{ interval: 1 day, columns: [amount] }] }
  - type: analytics
`

let world: World
let owner: Client
let folder = ''
let frames = ''
let wheel = ''
const tokens: Record<string, string> = {}

before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sluice-wheel-'))
  await installWheel()
  frames = await installed(`python-frames-${FRAMES.join('-').replaceAll('==', '-')}`, async (at) => {
    await runTool('python3', ['-m', 'pip', 'install', '--quiet', '--target', at, ...FRAMES])
  })
  world = await openWorld()
  const [tenant] = world.tenants
  await world.source.query(`CREATE TABLE people (id bigint PRIMARY KEY, email text, city text NOT NULL, amount numeric(12,2), seen_at timestamptz NOT NULL);
    INSERT INTO people SELECT i, 'e' || i, 'city ' || i % 3, i * 1.10, '2026-01-01T00:00Z'::timestamptz + make_interval(hours => i)
      FROM generate_series(1, ${ROWS - 1}) i;
    INSERT INTO people VALUES (9007199254740993, NULL, 'far', NULL, '2026-02-01T00:00Z')`)
  await world.createTenant(tenant, 'enterprise')
  owner = await world.as(tenant, 'svc-developers', 'dora')
  for (const [user, group] of [
    ['dora', 'svc-developers'],
    ['vito', 'svc-viewers'],
  ] as const)
    tokens[user] = await world.deployment.token(['--tenant', tenant, '--group', group, '--user', user])
  await connect(world, owner)
  await ok(owner.post('/api/v1/products', { name: 'people', namespace: 'crm', archetype: 'source_aligned' }))
  await deployVersion(owner, 'crm.people', '1.0.0', filesOf(COLUMNS))
  await syncNow(owner)
  const key = { name: 'notebook', operations: ['read', 'query'], products: ['crm.people'] }
  tokens['key'] = (await ok(owner.post('/api/v1/application-keys', key))).token
})

after(async () => {
  await world?.close()
  await rm(folder, { recursive: true, force: true })
})

const filesOf = (columns: string): Readonly<Record<string, string>> => ({
  ...manifests('public.people', { columns, endpoints: ENDPOINTS }),
  quality: 'apiVersion: svc/v1\nkind: Quality\nchecks: []\n',
})

/** Built by the pinned backend; installed where nothing else is, and nothing can be fetched. */
async function installWheel(): Promise<void> {
  const builder = await installed(BACKEND.replace('==', '-'), async (at) => {
    await runTool('python3', ['-m', 'venv', at])
    await runTool(join(at, 'bin/python'), ['-m', 'pip', 'install', '--quiet', BACKEND])
  })
  const build = ['-m', 'pip', 'wheel', '--quiet', '--no-build-isolation', '--no-deps', '--wheel-dir', folder, PROJECT]
  await runTool(join(builder, 'bin/python'), build)
  const [built = ''] = (await readdir(folder)).filter((name) => name.endsWith('.whl'))
  wheel = built
  await runTool('python3', ['-m', 'venv', join(folder, 'venv')])
  await runTool(python(), ['-m', 'pip', 'install', '--quiet', '--no-index', join(folder, wheel)])
}

const python = (): string => join(folder, 'venv/bin/python')

/** What the script prints, as JSON. It has `client`, of that user, and `told(call)`: what a call gives, or its error. */
async function told(user: string, script: string, url = world.deployment.url, more: string = ''): Promise<Json> {
  const head = `
import json, sys
from itertools import islice, takewhile
from sluice_client import Client, SluiceError
client = Client(sys.argv[1], lambda: sys.argv[2]${more})
people = client.product("crm.people")
def told(call):
    try:
        return call()
    except SluiceError as error:
        return [error.status, error.code, error.remedy]
`
  const file = join(folder, `${crypto.randomUUID()}.py`)
  await writeFile(file, `${head}${script}`)
  const env = { ...process.env, PYTHONPATH: frames, TMPDIR: folder }
  return JSON.parse(await runTool(python(), [file, url, tokens[user] ?? 'none'], { env }))
}

describe('the wheel', () => {
  it('needs nothing, has extras and types, and holds what generated clients are made of', async () => {
    const script = `
import importlib.metadata as m, json, pathlib, sluice_client
one = m.metadata("sluice-client")
root = pathlib.Path(sluice_client.__file__).parent
print(json.dumps([m.version("sluice-client"), one["Requires-Python"], one.get_all("Provides-Extra"),
  [line for line in m.requires("sluice-client") or [] if "extra ==" not in line],
  {path.name: path.read_text() for path in root.iterdir() if path.is_file()}]))
`
    const [version, needs, extras, required, files] = JSON.parse(await runTool(python(), ['-c', script]))
    const release = JSON.parse(await readFile(join(ROOT, 'package.json'), 'utf8')).version
    assert.deepEqual([version, needs, required], [release, '>=3.10', []])
    assert.deepEqual(extras, ['pandas', 'polars', 'pyarrow'])
    for (const name of await readdir(SHARED))
      assert.equal(files[name], await readFile(join(SHARED, name), 'utf8'), name)
    assert.equal(files['py.typed'], '')
    assert.equal(files.LICENSE, (await readFile(join(ROOT, 'LICENSE'), 'utf8')).replaceAll('\r\n', '\n'))
  })

  it('is typed, strictly, and says what is wrong with its use', async () => {
    const environment = await installed(`mypy-${MYPY}`, async (at) => {
      await runTool('python3', ['-m', 'venv', at])
      await runTool(join(at, 'bin/python'), ['-m', 'pip', 'install', '--quiet', `mypy==${MYPY}`])
    })
    const mypy = (...words: readonly string[]): Promise<string> =>
      new Promise((resolve) => {
        const all = ['-m', 'mypy', '--strict', '--python-executable', python(), ...words]
        execFile(join(environment, 'bin/python'), all, { cwd: folder }, (_, out, err) => resolve(`${out}${err}`))
      })
    assert.match(await mypy('-p', 'sluice_client'), /^Success: no issues found/)
    await writeFile(
      join(folder, 'use.py'),
      `from sluice_client import Client
people = Client("http://x", "t", timeout_s=5).product("crm.people")
row = people.get({"id": 1}, ["city"])
row["city"]
people.get(7, store="elsewhere")
for change in people.changes(since="start"):
    kind: int = change.kind
`,
    )
    const lines = [...(await mypy('use.py')).matchAll(/^use\.py:(\d+): error: .*\[([\w-]+)\]$/gm)]
    assert.deepEqual(
      lines.map(([, line, code]) => `${line} ${code}`),
      ['4 index', '5 arg-type', '7 assignment'],
    )
  })
})

describe('a client', () => {
  it('reads what the server tells, by every endpoint, as its caller is shown it', async () => {
    const script = `
print(json.dumps([
  people.get(1), people.get({"id": 9007199254740993}), people.get(4711), people.get_many([2, 4711, "9007199254740993"], ["city"]),
  people.get({"id": 1}, store="realtime"), people.get_many([]),
  list(people.read(page_size=7)), list(people.read({"city": "city 1", "id": {"lt": 20}}, columns=["id"], page_size=2)),
  list(people.range("2026-01-01", "2026-01-01", page_size=5)), list(people.range(columns=["city"], order="desc", page_size=11)),
  sum(one["amount_count"] for one in people.aggregates("1 day")), sorted(str(row["id"]) for row in people.scan(["id"])),
  client.query("SELECT id, city FROM crm.people WHERE city = ?", ["far"])["rows"],
  [row["n"] for row in client.query_rows("SELECT 1 AS n UNION ALL SELECT 2 ORDER BY n")],
  people.page(page_size=3).meta["epoch"], people.page(page_size=3).next_cursor is not None,
]))
`
    const vito = await world.as(world.tenants[0], 'svc-viewers', 'vito')
    const { data: all, meta } = await ok(vito.get('/api/v1/products/crm.people/latest?limit=1000'))
    const by = (id: unknown) => all.find((row: Json) => String(row.id) === String(id))
    const found = await told('vito', script)
    const [one, far, none, some, fresh, empty, read, filtered, day, last, counted, scanned, asked, lines, epoch, more] =
      found
    assert.deepEqual([one, far, none, fresh, empty], [by(1), by('9007199254740993'), null, by(1), []])
    assert.notEqual(one.email, 'e1')
    assert.deepEqual(some, [{ city: 'city 2' }, null, { city: 'far' }])
    const sorted = (rows: Json[]) => rows.map((row) => JSON.stringify(row)).toSorted()
    assert.deepEqual(sorted(read), sorted(all))
    assert.deepEqual(
      filtered.map(({ id }: Json) => id).toSorted((a: number, b: number) => a - b),
      [1, 4, 7, 10, 13, 16, 19],
    )
    assert.deepEqual(
      day.map(({ id }: Json) => id),
      Array.from({ length: 23 }, (_, at) => at + 1),
    )
    assert.deepEqual([last.length, last[0]], [ROWS, { city: 'far' }])
    assert.equal(counted, ROWS - 1)
    assert.deepEqual(scanned, all.map(({ id }: Json) => String(id)).toSorted())
    assert.deepEqual([asked, lines, epoch, more], [[['9007199254740993', 'far']], [1, 2], meta.epoch, true])
  })

  it('makes data frames of all rows by exports, of which none stays; by queries, with a key', async () => {
    const script = `
import decimal
arrow, polars, pandas = people.to_arrow(), people.to_polars(), people.to_pandas(["id", "city"])
frames = [client.to_arrow("SELECT city FROM crm.people WHERE id > ?", [28]).to_pydict(), client.to_polars("SELECT 7 AS n").to_dicts(),
  client.to_pandas("SELECT 'x' AS t").to_dict("records")]
print(json.dumps([
  arrow.num_rows, arrow.column_names, str(arrow.schema.field("amount").type), max(arrow["id"].to_pylist()),
  sorted(set(arrow["email"].to_pylist()) - {None})[0][:2], str(sum(v for v in arrow["amount"].to_pylist() if v is not None)),
  polars.shape, polars["id"].max(), list(pandas.columns), len(pandas), int(pandas["id"].max()), frames,
  told(lambda: client.to_arrow("SELECT nothing FROM crm.people")),
]))
`
    const total = ((ROWS - 1) * ROWS * 0.55).toFixed(2)
    const exports = async () =>
      (await ok((await world.as(world.tenants[0], 'svc-viewers', 'vito')).get('/api/v1/exports'))).data
    for (const user of ['vito', 'key']) {
      const [rows, names, decimal, greatest, email, sum, shape, most, columns, length, last, others, failed] =
        await told(user, script)
      assert.deepEqual([rows, names], [ROWS, ['id', 'email', 'city', 'amount', 'seen_at']])
      // Values, and not their texts: no digit of a long number is lost.
      assert.deepEqual([decimal, String(greatest)], ['decimal128(12, 2)', String(2 ** 53)], user)
      assert.equal(sum, total)
      assert.notEqual(email, 'e1')
      assert.deepEqual([shape, String(most)], [[ROWS, 5], String(2 ** 53)])
      assert.deepEqual([columns, length, String(last)], [['id', 'city'], ROWS, String(2 ** 53)])
      assert.deepEqual(others[0].city.toSorted(), ['city 2', 'far'])
      assert.deepEqual(others.slice(1), [[{ n: 7 }], [{ t: 'x' }]])
      assert.match(failed[1], /^(column_not_found|sql_invalid)$/, JSON.stringify(failed))
    }
    assert.deepEqual(await exports(), [])
    const left = (await readdir(folder)).filter((name) => name.endsWith('.parquet'))
    assert.deepEqual(left, [], 'files of its own')
  })

  it('loses no digit in a data frame, beside a null, in a list, or of a sum', async () => {
    const far = '9007199254740993'
    const sql = `SELECT * FROM (VALUES (1, ${far}, [${far}, NULL], {'a': ${far}, 'b': NULL}, 1), (2, NULL, NULL, NULL, 2)) t(n, l, li, st, k)
      UNION ALL SELECT 3, sum(id)::BIGINT, [max(id)], NULL, 3 FROM crm.people WHERE id > ${far}::BIGINT - 1 ORDER BY n`
    const script = `
sql = ${JSON.stringify(sql)}
def texts(value):
    if isinstance(value, dict):
        return {name: texts(part) for name, part in value.items()}
    if isinstance(value, list):
        return [texts(part) for part in value]
    return None if value is None else str(value)
def records(frame):
    return [[texts(None if value is pandas.NA else value) for value in row] for row in frame.astype("object").values.tolist()]
import pandas
total = "SELECT sum(id) AS n FROM crm.people"
print(json.dumps([
  texts(client.query(sql)["rows"]), records(client.to_pandas(sql)), records(client.query_pandas(sql)),
  [texts(list(row)) for row in client.to_polars(sql).rows()], [texts(list(row.values())) for row in client.to_arrow(sql).to_pylist()],
  texts(client.query(total)["rows"][0][0]), str(client.to_arrow(total)["n"][0]), str(client.to_polars(total)["n"][0]),
  str(client.to_pandas(total)["n"][0]), [str(one) for one in client.to_pandas(sql).dtypes][:2],
]))
`
    for (const user of ['vito', 'key']) {
      const [json, pandas, queried, polars, arrow, total, ...more] = await told(user, script)
      assert.equal(json[0][1], far)
      for (const frame of [pandas, queried, polars, arrow]) assert.deepEqual(frame, json, user)
      const [ofArrow, ofPolars, ofPandas, types] = more
      assert.deepEqual([ofArrow, ofPolars, ofPandas], [total, total, total])
      assert.deepEqual(types, ['int32', 'Int64'])
    }
  })

  it('says what the server refuses, with the code and what to do', async () => {
    const script = `
def wrong(call):
    try:
        call()
    except ValueError as error:
        return str(error)
print(json.dumps([
  told(lambda: people.page({"email": "x"})), told(lambda: client.product("crm.nothing").get(1)),
  told(lambda: client.query("SELECT 1 +")), wrong(lambda: client.product("people")), wrong(lambda: Client("ftp://x", "t")),
  wrong(lambda: Client("http://x", "t", attempts=0)), told(lambda: Client("http://127.0.0.1:1", "t", attempts=1).query("SELECT 1")),
]))
`
    const [masked, none, syntax, name, scheme, attempts, away] = await told('vito', script)
    assert.deepEqual(masked.slice(0, 2), [403, 'column_masked'])
    assert.match(masked[2], /grant that unmasks/)
    assert.deepEqual(
      [none.slice(0, 2), syntax.slice(0, 2)],
      [
        [404, 'product_not_found'],
        [400, 'sql_syntax_error'],
      ],
    )
    assert.match(`${name} ${scheme} ${attempts}`, /namespace\.product.*http.*at least 1/)
    assert.deepEqual(away, [0, 'unreachable', null])
  })

  it('follows changes over a server that was killed, from where it was, and is told when to begin anew', async (t) => {
    const { crash } = world.deployment
    if (crash === null) return t.skip('the runtime under test is another’s to kill')
    // What is printed is the program's word for: go on.
    const script = `
changes = people.changes("start")
first = list(takewhile(lambda change: change.kind != "epoch", changes))
print(json.dumps([sorted(str(change.row["id"]) for change in first), first[-1].id]), flush=True)
for change in changes:
    print(json.dumps([change.kind, change.reason, change.row and change.row["id"], change.key, change.id]), flush=True)
`
    const file = join(folder, 'follow.py')
    await writeFile(
      file,
      `import json, sys
from itertools import takewhile
from sluice_client import Client
people = Client(sys.argv[1], sys.argv[2]).product("crm.people")
${script}`,
    )
    const child = execFile(python(), [file, world.deployment.url, tokens['vito'] as string])
    const lines = linesOf(child.stdout as AsyncIterable<string>)
    const next = async (): Promise<Json> => JSON.parse((await lines.next()).value as string)
    try {
      const [ids] = await next()
      assert.equal(ids.length, ROWS)
      await crash()
      await world.source.query(`UPDATE people SET city = 'moved' WHERE id = 4; DELETE FROM people WHERE id = 3`)
      await syncNow(owner)
      const came = [await next(), await next(), await next()]
      const kinds = came.map(([kind, , row, key]) => [kind, row ?? key?.id ?? null])
      assert.deepEqual(kinds.toSorted(), [
        ['delete', 3],
        ['epoch', null],
        ['upsert', 4],
      ])
      const without = COLUMNS.replace(/.*email.*\n/, '')
      await deployVersion(owner, 'crm.people', '2.0.0', filesOf(without))
      const [kind, reason] = await next()
      assert.deepEqual([kind, reason], ['reset', 'changed'])
      const anew = await Promise.all(Array.from({ length: ROWS - 1 }, next))
      assert.ok(anew.every(([one]) => one === 'upsert'))
    } finally {
      child.kill('SIGKILL')
    }
  })
})

async function* linesOf(chunks: AsyncIterable<string>): AsyncGenerator<string> {
  let rest = ''
  for await (const chunk of chunks) {
    const parts = (rest + chunk).split('\n')
    rest = parts.pop() ?? ''
    yield* parts
  }
}

interface Seen {
  readonly method: string
  readonly path: string
  readonly key: string | undefined
}

/** Answers by turns; null: the connection ends without a word. */
async function failing(
  answers: readonly (readonly [number, Readonly<Record<string, string>>, string] | null)[],
  ask: (url: string, seen: readonly Seen[]) => Promise<void>,
): Promise<void> {
  const seen: Seen[] = []
  const server = createServer((request: IncomingMessage, response: ServerResponse) => {
    const key = request.headers['idempotency-key'] as string | undefined
    seen.push({ method: request.method ?? '', path: request.url ?? '', key })
    const answer = answers[Math.min(seen.length, answers.length) - 1]
    request.resume().once('end', () => {
      if (answer === null || answer === undefined) return void request.socket.destroy()
      response.writeHead(answer[0], answer[1]).end(answer[2])
    })
  })
  await listening(server)
  try {
    await ask(`http://127.0.0.1:${(server.address() as AddressInfo).port}`, seen)
  } finally {
    server.closeAllConnections()
    server.close()
  }
}

const listening = (server: Server): Promise<void> =>
  new Promise((resolve) => server.listen(0, '127.0.0.1', () => resolve()))

const problem = (code: string) => JSON.stringify({ code, status: 429, detail: code, remedy: 'Wait.' })
const PAGE = [200, {}, JSON.stringify({ data: [{ id: 1 }], meta: {}, next_cursor: null })] as const
const BUSY = [429, { 'retry-after': '0' }, problem('rate_limited')] as const
const AWAY = [503, { 'retry-after': '0' }, problem('store_down')] as const

describe('a server that fails', () => {
  const READ = 'print(json.dumps(told(lambda: list(people.read()))))'

  it('is asked again where it says when, and where it gave no answer', async () => {
    await failing([BUSY, null, PAGE], async (url, seen) => {
      assert.deepEqual(await told('vito', READ, url), [{ id: 1 }])
      assert.equal(seen.length, 3)
    })
    await failing([AWAY, AWAY, AWAY, PAGE], async (url, seen) => {
      assert.deepEqual(await told('vito', READ, url), [503, 'store_down', 'Wait.'])
      assert.equal(seen.length, 3)
      assert.deepEqual(await told('vito', READ, url, ', attempts=1'), [{ id: 1 }])
    })
    const rows = [200, {}, JSON.stringify({ data: [{ rows: [{ id: 1 }] }] })] as const
    await failing([null, BUSY, rows], async (url, seen) => {
      assert.deepEqual(await told('vito', 'print(json.dumps(people.get(1)))', url), { id: 1 })
      assert.deepEqual(
        seen.map(({ path, key }) => [path, key]),
        Array(3).fill(['/api/v1/read', undefined]),
      )
    })
  })

  it('is not asked again where that would not help, or takes longer than anybody waits', async () => {
    const faults = [
      [[503, {}, problem('store_down')], 503],
      [[500, { 'retry-after': '0' }, problem('internal_error')], 500],
      [[429, { 'retry-after': '3600' }, problem('rate_limited')], 429],
      [[404, { 'retry-after': '0' }, problem('product_not_found')], 404],
      [[302, { location: 'http://127.0.0.1:1/' }, ''], 302],
    ] as const
    for (const [answer, status] of faults) {
      await failing([answer, PAGE], async (url, seen) => {
        assert.equal((await told('vito', READ, url))[0], status)
        assert.equal(seen.length, 1, `${status}`)
      })
    }
  })

  it('is asked for one export, however often it is asked', async () => {
    const begun = {
      id: 'exp_1',
      state: 'failed',
      error: { code: 'sql_invalid', message: 'no', remedy: 'Write another.' },
    }
    const failed = [202, {}, JSON.stringify(begun)] as const
    await failing([null, BUSY, failed, [204, {}, '']], async (url, seen) => {
      assert.deepEqual(await told('vito', 'print(json.dumps(told(people.to_arrow)))', url), [
        422,
        'sql_invalid',
        'Write another.',
      ])
      const posts = seen.filter(({ method }) => method === 'POST')
      assert.equal(posts.length, 3)
      assert.equal(new Set(posts.map(({ key }) => key)).size, 1)
      assert.match(posts[0]?.key ?? '', /^[0-9a-f-]{36}$/)
      assert.deepEqual(seen.at(-1), { method: 'DELETE', path: '/api/v1/exports/exp_1', key: undefined })
    })
  })

  it('that breaks a file off is told, and none of it is given', async () => {
    const link = { path: '/file', expires_at: '' }
    const ready = { id: 'exp_1', state: 'succeeded', error: null, bytes: 100, link }
    await failing(
      [
        [202, {}, JSON.stringify(ready)],
        [200, {}, 'PAR1'],
        [204, {}, ''],
      ],
      async (url) => {
        const [status, code] = await told('vito', 'print(json.dumps(told(people.to_polars)))', url)
        assert.deepEqual([status, code], [0, 'unreachable'])
        assert.deepEqual(
          (await readdir(folder)).filter((name) => name.endsWith('.parquet')),
          [],
        )
      },
    )
  })

  it('without a certificate that is trusted gets no token', async () => {
    const [key, cert] = [join(folder, 'key.pem'), join(folder, 'cert.pem')]
    const subject = ['-subj', '/CN=localhost', '-addext', 'subjectAltName=IP:127.0.0.1']
    await runTool('openssl', [
      'req',
      '-x509',
      '-newkey',
      'rsa:2048',
      '-nodes',
      '-days',
      '2',
      '-keyout',
      key,
      '-out',
      cert,
      ...subject,
    ])
    const seen: string[] = []
    const server = createTlsServer({ key: await readFile(key), cert: await readFile(cert) }, (request, response) => {
      seen.push(request.headers.authorization ?? '')
      response.writeHead(200).end(PAGE[2])
    })
    await listening(server)
    const url = `https://127.0.0.1:${(server.address() as AddressInfo).port}`
    try {
      assert.deepEqual((await told('vito', READ, url, ', attempts=1')).slice(0, 2), [0, 'unreachable'])
      assert.deepEqual(seen, [])
      const trusting = `, ssl_context=__import__("ssl").create_default_context(cafile=${JSON.stringify(cert)})`
      assert.deepEqual(await told('vito', READ, url, trusting), [{ id: 1 }])
      assert.equal(seen.length, 1)
    } finally {
      server.closeAllConnections()
      server.close()
    }
  })
})
