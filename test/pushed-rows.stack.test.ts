/**
 * A product over rows that its owner's systems push, as they would: requests are sent again where nobody knows what became of
 * them, while the runtime is killed wherever it works on them. What is served is what was sent, once and in its order.
 */
import assert from 'node:assert/strict'
import { createHmac, randomBytes } from 'node:crypto'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { request } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, it } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { type Answer, Client, type Json, manifests, ok } from '../acceptance/client.ts'
import { issueToken } from '../runtime/src/auth/embedded-issuer.ts'
import { placeTestCluster } from '../runtime/src/database/testing.ts'
import { PUSH_FAULT_POINTS } from '../runtime/src/fault-points.ts'
import { RuntimeProcess } from './crash/runtime-process.ts'
import { adminOf, makeTenant, personOf, registerProduct, uploadAndDeploy } from './first-steps.ts'
import { until } from './until.ts'

const COLUMNS = `  - { name: id, type: long, role: identity, nullable: false }
  - { name: city, type: string }
  - { name: price, type: "decimal(20,4)" }
`
const TABLE = {
  columns: [
    { name: 'id', type: 'long' },
    { name: 'city', type: 'string' },
    { name: 'price', type: 'decimal(20,4)' },
  ],
  primary_key: ['id'],
}
const EVENTS = '/api/v1/connections/shop/events?table=orders'

let folder: string
let data: string
let url: string
let runtime: RuntimeProcess
let developer: Client
let viewer: Client
let stranger: Client
let random = 11

/** Numbers below `count`, the same in every run. */
function any(count: number): number {
  random = (random * 1_103_515_245 + 12_345) % 2_147_483_648
  return Math.floor((random / 2_147_483_648) * count)
}

async function start(fault: string | null): Promise<void> {
  const config = join(folder, 'sluice.yaml')
  await writeFile(config, 'upkeep: { compare_minutes: 0 }\npush: { sync_after_ms: 100, rows: 60000 }\n')
  await placeTestCluster(data)
  runtime = await RuntimeProcess.spawn(data, fault, 0, config)
  const found = await runtime.address()
  // It may have come to its fault before it served.
  if (found === null && fault !== null) return start(null)
  assert.ok(found, runtime.output)
  url = found
  developer = await personOf({ url, data }, 'dora')
  viewer = await personOf({ url, data }, 'vera', { group: 'svc-viewers' })
  stranger = await personOf({ url, data }, 'dora', { tenant: 'globex' })
}

before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sluice-pushed-'))
  data = join(folder, 'data')
  await start(null)
  const admin = await adminOf({ url, data })
  for (const slug of ['acme', 'globex']) await makeTenant(admin, slug)
  await ok(register({ tables: { orders: TABLE } }))
  await registerProduct(developer, 'people')
})

after(async () => {
  await runtime?.stop()
  await rm(folder, { recursive: true, force: true })
})

const register = (settings: unknown, name = 'shop') =>
  developer.post('/api/v1/connections', { name, connector_type: 'push', config_encrypted: JSON.stringify(settings) })

const change = (settings: unknown) =>
  developer.send('/api/v1/connections/shop', {
    method: 'PATCH',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ config_encrypted: JSON.stringify(settings) }),
  })

const push = (rows: unknown, key?: string, client = developer) =>
  client.post(EVENTS, rows, key === undefined ? {} : { 'idempotency-key': key })

const pushText = (body: string, type = 'application/json', path = EVENTS) =>
  developer.send(path, { method: 'POST', body, headers: { 'content-type': type } })

async function sync(): Promise<Json> {
  const { id } = await ok(developer.post('/api/v1/connections/shop/sync'))
  const run = await developer.untilEnded(id)
  assert.equal(run.state, 'succeeded', JSON.stringify(run))
  return run
}

async function served(): Promise<readonly Json[]> {
  const { data: rows } = await ok(viewer.get('/api/v1/products/people/latest?limit=1000'))
  return rows
    .map(({ id, city, price }: Json) => [id, city, price])
    .toSorted(([one]: Json, [other]: Json) => (BigInt(one) < BigInt(other) ? -1 : 1))
}

const refused = ({ status, body }: Answer) => [status, body.code]

async function upload(mode: string | null, version = '1.0.0', columns = COLUMNS): Promise<Answer> {
  const texts = manifests('orders', { columns, endpoints: '  - type: lookup\n    config: { index_columns: [id] }\n' })
  const inputs = texts.inputs
    .replace('connection: db', 'connection: shop')
    .replace(/[, ]*mode: full/, mode === null ? '' : `, mode: ${mode}`)
  await ok(developer.upload('/api/v1/products/people/manifests', { ...texts, inputs }))
  return developer.post('/api/v1/products/people/deploy', { version })
}

it('settings that cannot be right are refused when they are registered', async () => {
  for (const tables of [
    {},
    { 'or/ders': TABLE },
    { orders: TABLE, Orders: TABLE },
    { orders: { ...TABLE, primary_key: ['nobody'] } },
    { orders: { ...TABLE, columns: [...TABLE.columns, { name: '_op', type: 'string' }] } },
    { orders: { ...TABLE, columns: [...TABLE.columns, { name: 'ID', type: 'string' }] } },
    { orders: { ...TABLE, columns: [{ name: 'id', type: 'money' }] } },
  ])
    assert.deepEqual(
      refused(await register({ tables }, 'other')),
      [400, 'invalid_connection_config'],
      JSON.stringify(tables),
    )
})

it('a product over a table that rows are pushed to has no mode', async () => {
  assert.deepEqual(refused(await upload('full')), [422, 'push_has_no_mode'])
  await ok(upload(null))
  await sync()
  assert.deepEqual(await served(), [])
})

it('rows are served as they were sent, by a run that begins by itself', async () => {
  const answer = await pushText(
    '[{"id":1,"city":"Köln, \\"Süd\\"","price":1234567890123456.7801},{"city":"","id":9007199254740993},{"id":3,"city":null,"price":"-0.5"}]',
  )
  assert.equal(answer.status, 202, JSON.stringify(answer.body))
  assert.deepEqual(answer.body, { table: 'public.orders', rows: 3, sequence: 1, durability: 'stored' })
  await until('the rows are served', async () => (await served()).length === 3)
  assert.deepEqual(await served(), [
    [1, 'Köln, "Süd"', '1234567890123456.7801'],
    [3, null, '-0.5000'],
    ['9007199254740993', '', null],
  ])
  const lines =
    '{"id":1,"city":"Bonn"}\n\n{"id":2,"_op":"upsert"}\n{"id":3,"_op":"delete","city":"Ulm"}\n{"id":2,"_op":"delete"}\n{"id":2,"city":"Aachen"}\n'
  await ok(pushText(lines, 'application/x-ndjson'))
  await ok(pushText('{"id":9007199254740993,"_op":"delete"}'))
  await until('the changes are served', async () => (await served()).length === 2)
  assert.deepEqual(await served(), [
    [1, 'Bonn', null],
    [2, 'Aachen', null],
  ])
})

it('a bad row is named by its index, and nothing of its request is stored', async () => {
  const bad = await push([
    { id: 7, city: 'Bonn' },
    { id: 'seven' },
    { city: 'Bonn' },
    { id: 8, price: 0.00001 },
    { id: 9, town: 'Bonn' },
    { id: 9, _op: 'drop' },
    { id: 9, city: { a: 1 } },
    5,
  ])
  assert.deepEqual(refused(bad), [422, 'push_rows_refused'])
  assert.deepEqual(
    bad.body.errors.map(({ pointer }: Json) => pointer),
    ['/1/id', '/2/id', '/3/price', '/4/town', '/5/_op', '/6/city', '/7'],
  )
  assert.doesNotMatch(JSON.stringify(bad.body), /seven|Bonn|drop/)
  await sync()
  assert.equal((await served()).length, 2)
})

it('a key is good for one request, whoever sends it how often', async () => {
  const first = await push([{ id: 20, city: 'first' }], 'k-1')
  await ok(push([{ id: 20, city: 'second' }], 'k-2'))
  const again = await push([{ id: 20, city: 'first' }], 'k-1')
  assert.deepEqual(again.body, first.body)
  assert.equal(again.headers.get('idempotency-replayed'), 'true')
  assert.deepEqual(refused(await push([{ id: 20, city: 'third' }], 'k-1')), [422, 'idempotency_key_reused'])
  assert.deepEqual(refused(await push([{ id: 20 }], 'k k')), [400, 'idempotency_key_invalid'])
  const before = (await ok(push([{ id: 21 }], 'k-3'))).sequence
  const answers = new Set<string>()
  let sent = 0
  await Promise.all(
    Array.from({ length: 250 }, async () => {
      while (sent < 10_000) {
        sent += 1
        let answer = await push([{ id: 22, city: 'once' }], 'k-many')
        for (
          ;
          answer.status === 429 || answer.status === 503;
          answer = await push([{ id: 22, city: 'once' }], 'k-many')
        )
          await sleep(50)
        answers.add(JSON.stringify([answer.status, answer.body.sequence]))
      }
    }),
  )
  assert.deepEqual([...answers], [JSON.stringify([202, before + 1])])
  assert.equal((await ok(push([{ id: 22, _op: 'delete' }]))).sequence, before + 2)
  await sync()
  assert.deepEqual((await served()).slice(2), [
    [20, 'second', null],
    [21, null, null],
  ])
})

it('nobody else pushes, and no other connection is pushed to', async () => {
  assert.deepEqual(refused(await push([{ id: 30 }], undefined, viewer)), [403, 'developer_required'])
  assert.deepEqual(refused(await push([{ id: 30 }], undefined, stranger)), [404, 'connection_not_found'])
  const { id } = await ok(developer.get('/api/v1/connections/shop'))
  assert.deepEqual(refused(await stranger.post(`/api/v1/connections/${id}/events?table=orders`, [{ id: 30 }])), [
    404,
    'connection_not_found',
  ])
  assert.deepEqual(refused(await push([{ id: 30 }], undefined, new Client(url, null))), [401, 'token_missing'])
  const login = JSON.stringify({
    host: '127.0.0.1',
    port: 5432,
    user: 'u',
    password: 'p',
    database: 'd',
    ssl_mode: 'prefer',
  })
  await ok(developer.post('/api/v1/connections', { name: 'db', connector_type: 'postgresql', config_encrypted: login }))
  assert.deepEqual(refused(await developer.post('/api/v1/connections/db/events?table=orders', [{ id: 30 }])), [
    409,
    'push_not_taken',
  ])
  for (const name of [
    'nobody',
    "orders'; drop table runs; --",
    '../orders',
    'orders\u0000',
    'constructor',
    'public.orders.x',
    '＃',
  ])
    assert.ok(
      [400, 404].includes(
        (await developer.post(`/api/v1/connections/shop/events?table=${encodeURIComponent(name)}`, [{ id: 30 }]))
          .status,
      ),
      name,
    )
  assert.equal((await developer.post('/api/v1/connections/shop/events?table=public.orders', [{ id: 21 }])).status, 202)
})

it('bodies that are no rows, too large or too slow are refused', async () => {
  const code = async (body: string, type?: string) => refused(await pushText(body, type))
  for (const body of [
    '',
    '[',
    '[]',
    '[{"id":1,"id":2}]',
    '[{"id":1,"__proto__":{}}]',
    '[{"id":1,"city":"\\u0000"}]',
    `${'['.repeat(100)}${']'.repeat(100)}`,
  ])
    assert.deepEqual(await code(body), [400, 'malformed_body'], body.slice(0, 30))
  assert.deepEqual(await code('{"id":1}\n{"id":', 'application/x-ndjson'), [400, 'malformed_body'])
  assert.deepEqual(await code('id\n1\n', 'text/csv'), [415, 'unsupported_media_type'])
  assert.deepEqual(await code(`[{"id":1,"city":"${'x'.repeat(1024 * 1024)}"}]`), [413, 'body_too_large'])
  assert.deepEqual(await code(`[${'5,'.repeat(300_000)}5]`), [413, 'body_too_large'])
  const token = await issueToken(data, { tenant: 'acme', groups: ['svc-developers'], user: 'dora' }, { ttlS: 3600 })
  const ended = await new Promise<number | string>((resolve) => {
    const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json', 'content-length': 1000 }
    const slow = request(`${url}${EVENTS}`, { method: 'POST', headers }, (response) => {
      clearInterval(drip)
      resolve(response.statusCode ?? 0)
      slow.destroy()
    })
    slow.on('error', () => {
      clearInterval(drip)
      resolve('cut off')
    })
    slow.flushHeaders()
    const drip = setInterval(() => slow.write(' '), 500)
  })
  assert.ok([408, 503, 504, 'cut off'].includes(ended), String(ended))
})

it('columns come at the end of a table that has rows, and nothing else is changed of it', async () => {
  const noted = { ...TABLE, columns: [...TABLE.columns, { name: 'note', type: 'string' }] }
  for (const orders of [
    { ...TABLE, columns: TABLE.columns.slice(0, 2) },
    { ...TABLE, columns: [{ name: 'id', type: 'string' }, ...TABLE.columns.slice(1)] },
    { ...TABLE, primary_key: ['city'] },
  ])
    assert.deepEqual(refused(await change({ tables: { orders } })), [409, 'push_table_changed'])
  assert.deepEqual(refused(await change({ tables: { others: TABLE } })), [409, 'push_table_changed'])
  const before = await served()
  await ok(push([{ id: 40, city: 'before' }]))
  await ok(change({ tables: { orders: noted } }))
  await ok(push([{ id: 41, note: 'after' }]))
  await sync()
  await ok(upload(null, '1.1.0', `${COLUMNS}  - { name: note, type: string }\n`))
  await sync()
  assert.deepEqual(await served(), [...before, [40, 'before', null], [41, null, null]])
  const { data: rows } = await ok(viewer.get('/api/v1/products/people/latest?filter=id:41'))
  assert.equal(rows[0].note, 'after')
})

it('a webhook is proved by its signature, and kept once as it came', async () => {
  const secret = randomBytes(32)
  const webhook_secret = `whsec_${secret.toString('base64')}`
  const made = await ok(register({ webhook_table: 'hooks', webhook_secret }, 'hooks'))
  assert.doesNotMatch(JSON.stringify(made), /whsec_/)
  const body = '{"type":"order.paid","amount":1.10,"data":{"id":9007199254740993}}'
  const seconds = Math.floor(Date.now() / 1000)
  const signed = (id: string, text = body, at = seconds, key = secret) => ({
    'content-type': 'application/json',
    'webhook-id': id,
    'webhook-timestamp': String(at),
    'webhook-signature': `v1a,x v1,${createHmac('sha256', key).update(`${id}.${at}.${text}`).digest('base64')}`,
  })
  const nobody = new Client(url, null)
  const send = (headers: Record<string, string>, text = body, to: string = made.id) =>
    nobody.send(`/api/v1/webhooks/${to}`, { method: 'POST', body: text, headers })
  const shop = (await ok(developer.get('/api/v1/connections/shop'))).id
  const refusals = [
    send(signed('m-1'), `${body} `),
    send(signed('m-1', body, seconds, randomBytes(32))),
    send(signed('m-1', body, seconds - 301)),
    send(signed('m-1', body, seconds + 400)),
    send({ ...signed('m-1'), 'webhook-id': 'm-2' }),
    send({ 'content-type': 'application/json' }),
    send({ ...signed('m-1'), 'webhook-signature': 'v1,' }),
    send(signed('m-1'), body, 'hooks'),
    send(signed('m-1'), body, shop),
    send(signed('m-1'), body, 'con_000000000000000000000000'),
  ]
  const details = new Set<string>()
  for (const answer of await Promise.all(refusals)) {
    assert.deepEqual(refused(answer), [401, 'webhook_refused'])
    details.add(answer.body.detail)
  }
  assert.equal(details.size, 1)
  assert.equal((await send(signed('m-1'))).status, 202)
  assert.equal((await send(signed('m-1', body, seconds + 1))).headers.get('idempotency-replayed'), 'true')
  assert.deepEqual(refused(await send(signed('m-1', '{}'), '{}')), [422, 'idempotency_key_reused'])
  assert.deepEqual(refused(await send(signed('m-3', '{'), '{')), [400, 'malformed_body'])
  // What a token opens is not opened by a signature.
  const to = `/api/v1/connections/${made.id}/events?table=hooks`
  assert.equal((await nobody.send(to, { method: 'POST', body, headers: signed('m-4') })).status, 401)
  const columns = `  - { name: webhook_id, type: string, role: identity, nullable: false }
  - { name: sent_at, type: timestamptz }
  - { name: payload, type: json }
`
  const endpoints = '  - type: lookup\n    config: { index_columns: [webhook_id] }\n'
  const texts = manifests('hooks', { columns, endpoints })
  const of = (text: string) =>
    text.replace('name: people', 'name: calls').replace('unique: [id]', 'unique: [webhook_id]')
  await ok(
    developer.post('/api/v1/products', {
      name: 'calls',
      namespace: 'crm',
      archetype: 'source_aligned',
      description: '',
    }),
  )
  const inputs = texts.inputs.replace('connection: db', 'connection: hooks').replace(', mode: full', '')
  const files = { ...texts, product: of(texts.product), quality: of(texts.quality), inputs }
  await uploadAndDeploy(developer, 'calls', files)
  const { id } = await ok(developer.post('/api/v1/connections/hooks/sync'))
  assert.equal((await developer.untilEnded(id)).state, 'succeeded')
  const { text } = await viewer.text('/api/v1/products/calls/latest?filter=webhook_id:m-1')
  assert.match(text, /"sent_at":"20\d\d-/)
  assert.match(text, /9007199254740993/)
})

it('what waits has an end', async () => {
  await ok(register({ tables: { orders: TABLE } }, 'unread'))
  const rows = Array.from({ length: 20_000 }, (_, id) => ({ id }))
  const send = () => developer.post('/api/v1/connections/unread/events?table=orders', rows)
  for (let part = 0; part < 3; part += 1) await ok(send())
  const answer = await send()
  assert.deepEqual(refused(answer), [429, 'push_full'])
  assert.ok(Number(answer.headers.get('retry-after')) > 0)
  await ok(developer.send('/api/v1/connections/unread', { method: 'DELETE' }))
})

it('whatever is killed when, rows are there once and in their order', async () => {
  const model = new Map<number, string>((await served()).map(([id, city]) => [id, city]))
  const former: { readonly rows: readonly Json[]; readonly key: string }[] = []
  const readBefore = await rowsRead()
  let accepted = 0
  let count = 0
  const points = [...PUSH_FAULT_POINTS, 'ingestion.claimed', 'ingestion.before-finish', 'materializer.after-commit']
  const faults = [
    ...points.map((point) => `${point}@1`),
    ...points.map((point) => `${point}@${2 + any(3)}`),
    null,
    null,
    null,
  ]
  const hit = new Set<string | null>()
  for (const fault of faults) {
    await runtime.stop()
    await start(fault)
    const own = runtime
    const kill = fault === null ? setTimeoutKill(500 + any(4000)) : Promise.resolve()
    for (let step = 0; step < 12 && !runtime.isEnded; step += 1) {
      const rows = Array.from({ length: 1 + any(4) }, () => {
        const id = 100 + any(15)
        return any(4) === 0 ? { id, _op: 'delete' } : { id, city: `c${any(1000)}` }
      })
      count += 1
      const key = `kill-${count}`
      await sentOnce(rows, key)
      accepted += rows.length
      for (const row of rows) {
        if (row._op === 'delete') model.delete(row.id)
        else model.set(row.id, row.city as string)
      }
      former.push({ rows, key })
      // What was done long ago is not done again.
      const old = former[any(former.length)] as (typeof former)[number]
      await sentOnce(old.rows, old.key)
      await sleep(any(120))
    }
    await kill
    // Whatever is left undone, the next start takes up.
    await alive()
    await sync().catch(alive)
    if (own.isEnded && (await own.ended).signal === 'SIGKILL') hit.add(fault)
  }
  for (const point of PUSH_FAULT_POINTS) assert.ok(hit.has(`${point}@1`), `it was killed at ${point}`)
  await alive()
  await sync()
  assert.deepEqual(
    (await served()).map(([id, city]) => [id, city]),
    [...model].toSorted(([one], [other]) => one - other),
  )
  assert.equal((await rowsRead()) - readBefore, accepted)
})

/** Sent again under its key until there is an answer, with another runtime where one has died. */
async function sentOnce(rows: readonly Json[], key: string): Promise<void> {
  for (;;) {
    const answer = await push(rows, key).catch(() => null)
    if (answer?.status === 202) return
    if (answer !== null && answer.status !== 429 && answer.status < 500) assert.fail(JSON.stringify(answer.body))
    if (answer === null) await alive()
    await sleep(50)
  }
}

/** Where the runtime has died, another one is started. */
async function alive(): Promise<void> {
  for (let attempt = 0; attempt < 100; attempt += 1) {
    if (runtime.isEnded) await start(null)
    if ((await fetch(`${url}/healthz`).catch(() => null))?.ok) return
    await sleep(50)
  }
  assert.fail(`the runtime does not answer: ${runtime.output}`)
}

async function setTimeoutKill(ms: number): Promise<void> {
  await sleep(ms)
  runtime.kill()
  await runtime.ended
}

/** All rows that runs say they have taken. */
async function rowsRead(): Promise<number> {
  let sum = 0
  for (let cursor: string | null = ''; cursor !== null; ) {
    const page: Json = await ok(developer.get(`/api/v1/ingestion?limit=500${cursor === '' ? '' : `&cursor=${cursor}`}`))
    for (const run of page.data) for (const table of run.tables ?? []) sum += table.rows_read
    cursor = page.next_cursor
  }
  return sum
}
