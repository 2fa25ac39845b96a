/** The shapes of answers: formats, ranges, keys, pages, marks, limits and repeats. */
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { after, before, describe, it } from 'node:test'
import { until } from '../test/until.ts'
import { type Client, type Json, manifests } from './client.ts'
import { onboardPeople, openWorld, syncNow, type World } from './world.ts'

const COLUMNS = `  - { name: id, type: integer, role: identity, nullable: false }
  - { name: day, type: date, role: time, nullable: false }
  - { name: amount, type: "decimal(12,2)", role: measure }
  - { name: big, type: long }
  - { name: email, type: string, classification: pii.identifier }
`
const ENDPOINTS = `  - type: lookup
    config: { index_columns: [id, day], tracked_columns: [amount] }
  - type: timeseries
    config: { time_column: day, continuous_aggregates: [] }
  - type: realtime
    config: { key_template: "{id}", ttl: 1h, include_columns: [id, amount] }
  - type: analytics
`

let world: World
let developer: Client
let viewer: Client

before(async () => {
  world = await openWorld()
  const [tenant] = world.tenants
  await world.source.query(`DROP TABLE IF EXISTS answers_people;
    CREATE TABLE answers_people (id integer PRIMARY KEY, day date, amount numeric(12,2), big bigint, email text);
    INSERT INTO answers_people SELECT i, '2026-03-01'::date + i % 10, i * 1.25, 9007199254740993 + i, 'e' || i || '@e.test'
      FROM generate_series(1, 100) i`)
  await world.createTenant(tenant)
  developer = await world.as(tenant, 'svc-developers', 'dora')
  viewer = await world.as(tenant, 'svc-viewers', 'vito')
  await onboardPeople(world, developer, manifests('public.answers_people', { columns: COLUMNS, endpoints: ENDPOINTS }))
})

after(() => world?.close())

const SQL = 'SELECT id, day, amount, big, email FROM crm.people WHERE id <= 2 ORDER BY id'
const queried = (accept: string) => viewer.post('/api/v1/query', { sql: SQL }, { accept })

describe('answers of queries', () => {
  it('come as JSON, with types, masks and the snapshots they are of', async () => {
    const { status, body } = await queried('application/json')
    assert.equal(status, 200)
    assert.deepEqual(
      body.columns.map((column: Json) => [column.name, column.type, column.masked]),
      [
        ['id', 'integer', false],
        ['day', 'date', false],
        ['amount', 'decimal(12,2)', false],
        ['big', 'long', false],
        ['email', 'string', true],
      ],
    )
    assert.deepEqual(body.rows[0].slice(0, 4), [1, '2026-03-02', '1.25', '9007199254740994'])
    assert.deepEqual([body.row_count, body.truncated, Object.keys(body.meta.snapshots)], [2, false, ['crm.people']])
  })

  it('say of a computed column whether anything that it is made of is masked', async () => {
    const sql = `WITH mails AS (SELECT id, email AS mail FROM crm.people)
      SELECT p.email AS contact, upper(m.mail) AS loud, p.id AS email, count(*) OVER () AS n
      FROM crm.people p JOIN mails m USING (id) LIMIT 1`
    const { status, body } = await viewer.post('/api/v1/query', { sql })
    assert.equal(status, 200, JSON.stringify(body))
    assert.deepEqual(
      body.columns.map((column: Json) => [column.name, column.masked]),
      [
        ['contact', true],
        ['loud', true],
        ['email', false],
        ['n', false],
      ],
    )
  })

  it('come as lines, CSV and parquet with the same values', async () => {
    const lines = (await queried('application/x-ndjson')).body
      .trim()
      .split('\n')
      .map((line: string) => JSON.parse(line))
    assert.deepEqual([lines.length, lines[0].id, lines[0].big], [2, 1, '9007199254740994'])
    const csv = await queried('text/csv')
    assert.match(csv.headers.get('content-type') ?? '', /^text\/csv/)
    assert.match(csv.body, /^"?id"?,"?day"?,"?amount"?,"?big"?,"?email"?\r?\n1,2026-03-02,1\.25,9007199254740994,/)
    const parquet = await queried('application/vnd.apache.parquet')
    assert.ok(parquet.body.startsWith('PAR1') && parquet.body.endsWith('PAR1'))
    for (const { body, headers } of [csv, parquet]) {
      assert.ok(!body.includes('@e.test'))
      assert.equal(headers.get('masked-columns'), '["email"]')
    }
    assert.equal((await queried('image/png')).status, 406)
  })

  it('have no more rows than were asked for, as parquet too', async () => {
    const sql = "SELECT 'row-' || id AS mark FROM crm.people WHERE id BETWEEN 11 AND 19 ORDER BY id"
    const accept = 'application/vnd.apache.parquet'
    // The least and the greatest value of a column stand in the file as they are.
    const marks = async (body: Json) => {
      const { body: file } = await viewer.post('/api/v1/query', body, { accept })
      return ['row-11', 'row-13', 'row-19'].filter((mark) => file.includes(mark))
    }
    assert.deepEqual(await marks({ sql, limit: 3 }), ['row-11', 'row-13'])
    assert.ok((await marks({ sql })).includes('row-19'))
  })

  it('know the past by time and by snapshot', async () => {
    const { body } = await viewer.get('/api/v1/products/people/snapshots')
    const [first] = body.data
    await world.source.query('DELETE FROM answers_people WHERE id = 100')
    await syncNow(developer)
    const counted = async (as_of?: string) =>
      (await viewer.post('/api/v1/query', { sql: 'SELECT count(*) FROM crm.people', as_of })).body.rows[0][0]
    assert.deepEqual(
      [await counted(), await counted(first.committed_at), await counted(first.snapshot_id)],
      [99, 100, 100],
    )
    const unknown = await viewer.post('/api/v1/query', { sql: 'SELECT count(*) FROM crm.people', as_of: '12345' })
    assert.deepEqual([unknown.status, unknown.body.code], [404, 'snapshot_not_found'])
  })

  it('are of what the statement names, whatever its texts and comments say', async () => {
    const texts = `SELECT 'crm."people@v9.9.9"', $$ crm."people@1" $$, 'information_schema.tables' /* crm."people@v8" */`
    const { status, body } = await viewer.post('/api/v1/query', { sql: `${texts} -- FROM crm.people` })
    assert.deepEqual([status, body.meta?.snapshots], [200, {}], JSON.stringify(body))
    const named = await viewer.post('/api/v1/query', {
      sql: 'SELECT count(*) FROM crm /* . */ . "PEOPLE" -- crm."people@v9"',
    })
    assert.deepEqual([named.status, Object.keys(named.body.meta.snapshots)], [200, ['crm.people']])
    const past = await viewer.post('/api/v1/query', { sql: 'SELECT count(*) FROM crm."people@v9.9.9"' })
    assert.deepEqual([past.status, past.body.code], [404, 'snapshot_not_found'])
  })
})

describe('answers of reads', () => {
  it('take dates to the end of the day, and times exclusively', async () => {
    const days = async (range: string): Promise<string[]> => {
      const { body } = await viewer.get(`/api/v1/products/people/timeseries?${range}&limit=1000`)
      return [...new Set<string>(body.data.map((row: Json) => String(row.day)))].toSorted()
    }
    assert.deepEqual(await days('from=2026-03-02&to=2026-03-03'), ['2026-03-02', '2026-03-03'])
    assert.deepEqual(await days('from=2026-03-02&to=2026-03-03T00:00:00Z'), ['2026-03-02'])
    const bad = await viewer.get('/api/v1/products/people/timeseries?from=yesterday')
    assert.deepEqual([bad.status, bad.body.errors?.length ?? 1], [400, 1])
  })

  it('reach to the last day that can be written', async () => {
    for (const to of ['9999-12-31', '9999-12-31T23:59:59.999999Z', '9999-12-30']) {
      const { status, body } = await viewer.get(`/api/v1/products/people/timeseries?from=2026-03-02&to=${to}&limit=1`)
      assert.deepEqual([status, body.data?.length], [200, 1], JSON.stringify(body))
    }
  })

  it('go on from a cursor whatever happens to other products, and not under another policy', async () => {
    const [tenant] = world.tenants
    const path = '/api/v1/products/people/latest?limit=10'
    const first = await viewer.get(path)
    const next = () => viewer.get(`${path}&cursor=${encodeURIComponent(first.body.next_cursor)}`)
    const asAdmin = { 'x-tenant-id': tenant }
    const other = { name: 'bystander', namespace: 'crm', archetype: 'aggregate', description: '' }
    assert.equal((await developer.post('/api/v1/products', other)).status, 201)
    const grant = (product: string, body: Json) => world.admin.post(`/api/v1/products/${product}/grants`, body, asAdmin)
    assert.equal((await grant('bystander', { subject: { team: 'svc-viewers' }, may: 'read' })).status, 201)
    assert.equal((await next()).status, 200)
    const unmasked = await grant('people', { subject: { user: 'vito' }, may: 'unmask', classes: ['pii.identifier'] })
    assert.equal(unmasked.status, 201, JSON.stringify(unmasked.body))
    await until('the policy is another', async () => (await next()).body.code === 'cursor_invalid')
    const back = `/api/v1/products/people/grants/${unmasked.body.id}`
    assert.equal((await world.admin.send(back, { method: 'DELETE', headers: asAdmin })).status, 204)
    await until('the policy is as it was', async () => (await next()).status === 200)
  })

  it('are in the order asked for, page by page, each row once', async () => {
    const seen: number[] = []
    for (let cursor = ''; ; ) {
      const { body } = await viewer.get(`/api/v1/products/people/timeseries?order=desc&limit=30${cursor}`)
      seen.push(...body.data.map((row: Json) => row.id))
      if (body.next_cursor === null) break
      cursor = `&cursor=${encodeURIComponent(body.next_cursor)}`
    }
    assert.deepEqual([seen.length, new Set(seen).size], [99, 99])
  })

  it('give realtime values with their time to live, and 404 for other keys', async () => {
    const { status, body } = await viewer.get('/api/v1/products/people/realtime?key=7')
    assert.equal(status, 200, JSON.stringify(body))
    assert.deepEqual(body.data, [{ id: 7, amount: '8.75' }])
    assert.ok(body.meta.ttl_remaining_s > 0 && body.meta.ttl_remaining_s <= 3600)
    const missing = await viewer.get('/api/v1/products/people/realtime?key=4711')
    assert.deepEqual([missing.status, missing.body.code], [404, 'key_not_found'])
  })

  it('are marked: an unchanged answer is 304, a changed one is not', async () => {
    for (const path of ['latest?filter=id:7', 'timeseries?from=2026-03-02&to=2026-03-02']) {
      const first = await viewer.get(`/api/v1/products/people/${path}`)
      const etag = first.headers.get('etag') as string
      assert.match(etag, /^(?:W\/)?"[^"]+"$/, path)
      assert.match(first.headers.get('cache-control') ?? '', /private/)
      const again = await viewer.get(`/api/v1/products/people/${path}`, { 'if-none-match': etag })
      assert.deepEqual([again.status, again.body], [304, ''])
      const other = await viewer.get('/api/v1/products/people/latest?filter=id:8', { 'if-none-match': etag })
      assert.equal(other.status, 200, 'the mark of another answer')
    }
    const before = (await viewer.get('/api/v1/products/people/latest?filter=id:7')).headers.get('etag') as string
    await world.source.query('UPDATE answers_people SET amount = 1 WHERE id = 7')
    await syncNow(developer)
    const changed = await viewer.get('/api/v1/products/people/latest?filter=id:7', { 'if-none-match': before })
    assert.deepEqual([changed.status, changed.body.data[0].amount], [200, '1.00'])
  })

  it('name what was read and at which epoch', async () => {
    const { meta } = (await viewer.get('/api/v1/products/crm.people/latest?filter=id:7&columns=id,email')).body
    assert.deepEqual(
      [meta.product, meta.namespace, meta.version, meta.masked_columns],
      ['people', 'crm', '1.0.0', ['email']],
    )
    const newest = (await viewer.get('/api/v1/products/people/snapshots?limit=1')).body.data[0]
    assert.deepEqual([meta.epoch, meta.as_of], [newest.epoch, newest.committed_at])
  })
})

describe('lists', () => {
  it('go page by page, newest first, with cursors that are good for nobody else', async () => {
    for (const name of ['one', 'two', 'three']) {
      const made = await developer.post('/api/v1/products', { name, namespace: 'lists', archetype: 'aggregate' })
      assert.equal(made.status, 201)
    }
    const names: string[] = []
    let cursor: string | null = ''
    while (cursor !== null) {
      const { body }: Json = await developer.get(
        `/api/v1/products?namespace=lists&limit=1${cursor && `&cursor=${encodeURIComponent(cursor)}`}`,
      )
      assert.equal(body.data.length, 1)
      names.push(body.data[0].name)
      const foreign =
        body.next_cursor && `/api/v1/products?namespace=lists&limit=1&cursor=${encodeURIComponent(body.next_cursor)}`
      if (foreign) assert.equal((await viewer.get(foreign)).body.code, 'cursor_invalid', 'of another subject')
      if (foreign) assert.equal((await developer.get(foreign.replace('lists', 'crm'))).body.code, 'cursor_invalid')
      cursor = body.next_cursor
    }
    assert.deepEqual(names, ['three', 'two', 'one'])
    for (const limit of ['0', '1001', 'x', '1.5'])
      assert.equal((await developer.get(`/api/v1/products?limit=${limit}`)).status, 400)
  })

  it('tell a name that is in two namespaces from one that is not', async () => {
    for (const namespace of ['twice', 'lists']) {
      await developer.post('/api/v1/products', { name: 'double', namespace, archetype: 'aggregate' })
    }
    const { status, body } = await developer.get('/api/v1/products/double')
    assert.deepEqual([status, body.code, body.candidates?.length], [409, 'ambiguous_product', 2])
    assert.equal((await developer.get('/api/v1/products/double?namespace=twice')).body.namespace, 'twice')
    assert.equal((await developer.get('/api/v1/products/lists.double')).body.namespace, 'lists')
  })

  it('tell it by the namespace on every path of a product', async () => {
    const one = (await developer.get('/api/v1/products/double?namespace=twice')).body
    const ask = (method: string, path: string, body?: unknown) => {
      const headers = { 'content-type': 'application/json' }
      return developer.send(`/api/v1/products/${path}`, {
        method,
        ...(body === undefined ? {} : { headers, body: JSON.stringify(body) }),
      })
    }
    const uploaded = (path: string) => developer.upload(`/api/v1/products/${path}`, manifests('public.answers_people'))
    const grant = { subject: { team: 'sales' }, may: 'read' }
    const deploy = { version: '1.0.0', dry_run: true }
    for (const [method, rest, body, status, code] of [
      ['PATCH', '', { description: 'told apart' }, 200],
      ['GET', '/manifests', undefined, 404, 'manifests_not_found'],
      ['GET', '/manifests/1.0.0', undefined, 404, 'manifests_not_found'],
      ['POST', '/deploy', deploy, 409, 'manifests_missing'],
      ['POST', '/rollback', { version: '1.0.0' }, 404, 'version_not_found'],
      ['GET', '/deployments?limit=1', undefined, 200],
      ['POST', '/materialize', undefined, 409, 'not_deployed'],
      ['GET', '/snapshots?limit=1', undefined, 200],
      ['GET', '/quality', undefined, 200],
      ['POST', '/grants', grant, 201],
      ['GET', '/grants', undefined, 200],
      ['DELETE', '/grants/grt_none', undefined, 404, 'grant_not_found'],
      ['DELETE', '', undefined, 204],
    ] as const) {
      const join = rest.includes('?') ? '&' : '?'
      const bare = await ask(method, `double${rest}`, body)
      assert.equal(bare.body.code, 'ambiguous_product', `${method} ${rest}`)
      if (method === 'DELETE' && rest === '') {
        assert.equal((await uploaded('double/manifests')).body.code, 'ambiguous_product')
        assert.equal((await uploaded('double/manifests?namespace=twice')).body.code, 'manifests_invalid')
      }
      const nowhere = await ask(method, `double${rest}${join}namespace=nowhere`, body)
      assert.equal(nowhere.body.code, 'product_not_found', `${method} ${rest}`)
      const path = method === 'GET' ? one.id : 'double'
      const settled = await ask(method, `${path}${rest}${join}namespace=${path === one.id ? 'lists' : 'twice'}`, body)
      assert.deepEqual([settled.status, settled.body.code], [status, code], `${method} ${rest}`)
    }
    assert.equal((await developer.get('/api/v1/products/double')).body.namespace, 'lists', 'the other one is gone')
  })
})

describe('every answer', () => {
  it('has an id, a limit and no place in a cache that is shared', async () => {
    const { headers } = await viewer.get('/api/v1/products', { 'x-request-id': 'my-own-id' })
    assert.equal(headers.get('x-request-id'), 'my-own-id')
    assert.match(headers.get('ratelimit-policy') ?? '', /^"standard";q=\d+;w=\d+$/)
    assert.match(headers.get('ratelimit') ?? '', /^"standard";r=\d+;t=\d+$/)
    assert.doesNotMatch(headers.get('cache-control') ?? '', /public/)
    assert.equal(headers.get('x-content-type-options'), 'nosniff')
  })

  it('to a change leaves events in the caller’s trace', async () => {
    const traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'
    const created = await developer.post('/api/v1/products', {
      name: 'traced',
      namespace: 'lists',
      archetype: 'aggregate',
    })
    assert.equal(created.status, 201)
    await developer.send('/api/v1/products/traced', { method: 'DELETE', headers: { traceparent } })
    const ended = new AbortController()
    const stream = await developer.begin('/api/v1/events', { 'last-event-id': '0' }, ended.signal)
    let text = ''
    for await (const chunk of stream.body?.pipeThrough(new TextDecoderStream()) ?? []) {
      text += chunk
      if (text.includes(`"subject":"${created.body.id}"`) && text.endsWith('\n\n')) break
    }
    ended.abort()
    const events = [...text.matchAll(/^data: (.*)$/gm)].map(([, data]) => JSON.parse(data as string) as Json)
    assert.equal(events.find(({ subject }) => subject === created.body.id)?.traceparent, traceparent)
    const untraced = events.filter((event) => !Object.hasOwn(event, 'traceparent'))
    assert.ok(untraced.some(({ type }) => type === 'sluice.deployment.succeeded'))
  })

  it('to who goes on from an event that there cannot be is no stream of all of them', async () => {
    for (const id of ['x', '-1', '1.5', '1e3', '0x10', '99999999999999999999']) {
      const { status, body } = await developer.get('/api/v1/events', { 'last-event-id': id })
      assert.deepEqual([status, body.code], [400, 'cursor_invalid'], id)
    }
  })

  it('refuses what is no request of ours', async () => {
    const json = { 'content-type': 'application/json' }
    const post = (body: string, headers: Record<string, string> = json) =>
      developer.send('/api/v1/products', { method: 'POST', body, headers })
    for (const [answer, status] of [
      [await post('{'), 400],
      [await post('[]'), 400],
      [await post('{"name":"a","name":"b"}'), 400],
      [await post('{}', { 'content-type': 'text/plain' }), 415],
      [await post(JSON.stringify({ name: 'x'.repeat(3_000_000) })), 413],
      [await developer.get('/api/v1/nothing'), 404],
      [await developer.send('/api/v1/products', { method: 'PUT' }), 405],
      [await developer.get('/api/v1/products?no_such=1'), 400],
    ] as const) {
      assert.equal(answer.status, status, JSON.stringify(answer.body))
      assert.equal(answer.body.status, status)
    }
    const faults = await post(JSON.stringify({ name: 1, namespace: 'x', archetype: 'none', other: 1 }))
    assert.equal(faults.body.code, 'validation_failed')
    assert.ok(faults.body.errors.length >= 3, 'all of them at once')
    for (const { pointer, message } of faults.body.errors) assert.ok(typeof pointer === 'string' && message !== '')
  })

  it('to a request that was sent twice is the first one', async () => {
    const key = { 'idempotency-key': `twice-${randomUUID()}` }
    const body = { subject: { team: 'sales' }, may: 'read' }
    const [first, second] = [
      await developer.post('/api/v1/products/people/grants', body, key),
      await developer.post('/api/v1/products/people/grants', body, key),
    ]
    assert.deepEqual([first.status, second.status, second.body], [201, 201, first.body])
    assert.equal(second.headers.get('idempotency-replayed'), 'true')
    const other = await developer.post(
      '/api/v1/products/people/grants',
      { ...body, may: 'unmask', classes: ['*'] },
      key,
    )
    assert.deepEqual([other.status, other.body.code], [422, 'idempotency_key_reused'])
    const runs = await Promise.all(
      [1, 2, 3].map(() =>
        developer.post('/api/v1/connections/db/sync', undefined, {
          'idempotency-key': `sync-${key['idempotency-key']}`,
        }),
      ),
    )
    const ids = new Set(runs.filter(({ status }) => status === 202).map(({ body: run }) => run.id))
    assert.equal(ids.size, 1)
    assert.ok(runs.every(({ status }) => status === 202 || status === 409))
    await developer.untilEnded([...ids][0])
  })
})

describe('tiers', () => {
  it('bound how many connections and products there may be', async () => {
    const [, slug] = world.tenants
    await world.createTenant(slug, 'free')
    const client = await world.as(slug, 'svc-developers', 'fred')
    const config = JSON.stringify({
      host: '127.0.0.1',
      port: 9,
      database: 'x',
      user: 'x',
      password: 'x',
      ssl_mode: 'disable',
    })
    for (let index = 0; index < 4; index += 1) {
      const wanted = { name: `c${index}`, connector_type: 'postgresql', config_encrypted: config }
      const { status, body } = await client.post('/api/v1/connections', wanted)
      if (index < 3) assert.equal(status, 201, JSON.stringify(body))
      else assert.deepEqual([status, body.code, body.limit, body.used], [409, 'tier_limit_exceeded', 3, 3])
    }
    const { body } = await client.get(`/api/v1/tenants/${slug}`)
    assert.deepEqual([body.limits.connections, body.usage.connections, body.limits.concurrent_executions], [3, 3, 2])
    const listed = (await world.admin.get('/api/v1/tenants?limit=1000')).body.data.find(
      (one: Json) => one.slug === slug,
    )
    assert.equal(listed.usage.connections, 3)
  })
})
