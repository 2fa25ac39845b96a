/** Exports: that a file is what its author's query gives, all of it, and goes to nobody who may not see it any more. */
import assert from 'node:assert/strict'
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, afterEach, before, describe, it } from 'node:test'
import { DuckDBInstance } from '@duckdb/node-api'
import { until } from '../test/until.ts'
import { Client, type Json, manifests, ok } from './client.ts'
import { runSluice } from './sluice-command.ts'
import { connect, deployVersion, openWorld, syncNow, type World } from './world.ts'

const PLAIN = '@exports.test'
const ROWS = 40_000
const COLUMNS = `  - { name: id, type: integer, role: identity, nullable: false }
  - { name: email, type: string, classification: pii.identifier }
  - { name: city, type: string }
  - { name: amount, type: "decimal(12,2)" }
  - { name: big, type: long }
`

let world: World
let folder: string
let owner: Client
let masked: Client
let cleared: Client
let foreigner: Client
let nobody: Client

async function made(name: string, classification = 'internal'): Promise<void> {
  await ok(owner.post('/api/v1/products', { name, namespace: 'crm', archetype: 'source_aligned', description: '' }))
  const files = manifests('public.people', { columns: COLUMNS, endpoints: '  - type: lookup\n' })
  await deployVersion(owner, `crm.${name}`, '1.0.0', {
    ...files,
    product: `${files.product.replace('name: people', `name: ${name}`)}classification: ${classification}\n`,
  })
}

before(async () => {
  // Of the runtime that is started here: a busy machine takes its time for large answers.
  process.env['SLUICE_LIMITS__QUERY_TIMEOUT_MS'] = '600000'
  process.env['SLUICE_EXPORTS__MEGABYTES'] = '16'
  world = await openWorld()
  folder = await mkdtemp(join(tmpdir(), 'sluice-exports-'))
  const [own, other] = world.tenants
  await world.source.query(`CREATE TABLE people (id integer PRIMARY KEY, email text, city text, amount numeric(12,2), big bigint);
    INSERT INTO people SELECT i, CASE WHEN i % 7 = 0 THEN NULL ELSE 'p' || i || '${PLAIN}' END, 'o''k "' || i % 5 || '",' || chr(10),
      i * 1.10, 9007199254740993 + i FROM generate_series(1, ${ROWS}) i`)
  await world.createTenant(own, 'enterprise')
  await world.createTenant(other)
  owner = await world.as(own, 'svc-developers', 'dora')
  masked = await world.as(own, 'svc-viewers', 'vito')
  cleared = await world.as(own, 'svc-viewers', 'clara')
  foreigner = await world.as(other, 'svc-developers', 'olga')
  nobody = new Client(world.deployment.url, null)
  await connect(world, owner)
  await made('people')
  await made('closed', 'confidential')
  const unmask = { subject: { user: 'clara' }, may: 'unmask', classes: ['pii.identifier'] }
  await ok(owner.post('/api/v1/products/crm.people/grants', unmask))
  await syncNow(owner)
})

after(async () => {
  await world?.close()
  await rm(folder, { recursive: true, force: true })
})

const begun: (readonly [Client, string])[] = []

async function begin(client: Client, body: Json): Promise<Json> {
  const made = await ok(client.post('/api/v1/exports', body))
  begun.push([client, made.id])
  return made
}

/** A tenant may have ten. */
afterEach(async () => {
  for (const [client, id] of begun.splice(0)) await client.send(`/api/v1/exports/${id}`, { method: 'DELETE' })
})

async function ended(client: Client, { id }: Json): Promise<Json> {
  let found: Json
  await until(
    () => `the export ${JSON.stringify(found)} ends`,
    async () => {
      found = (await client.get(`/api/v1/exports/${id}`)).body
      return ['succeeded', 'failed'].includes(found.state)
    },
  )
  return found
}

async function exported(client: Client, body: Json): Promise<Json> {
  const found = await ended(client, await begin(client, body))
  assert.equal(found.state, 'succeeded', JSON.stringify(found))
  return found
}

async function bytesOf({ link, bytes }: Json): Promise<Buffer> {
  const response = await nobody.begin(link.path, {}, AbortSignal.timeout(300_000))
  assert.equal(response.status, 200)
  const whole = Buffer.from(await response.arrayBuffer())
  assert.equal(whole.length, bytes)
  return whole
}

async function queried(client: Client, sql: string, accept: string): Promise<Buffer> {
  const headers = { 'content-type': 'application/json', accept }
  const init = { method: 'POST', body: JSON.stringify({ sql }) }
  const response = await client.begin('/api/v1/query', headers, AbortSignal.timeout(300_000), init)
  assert.equal(response.status, 200)
  return Buffer.from(await response.arrayBuffer())
}

/** What DuckDB reads back of parquet. */
async function rowsIn(parquet: Buffer, name: string): Promise<Json> {
  const file = join(folder, `${name}.parquet`)
  await writeFile(file, parquet)
  const instance = await DuckDBInstance.create(':memory:')
  const connection = await instance.connect()
  try {
    const read = await connection.runAndReadAll(
      `SELECT count(*)::int, count(DISTINCT id)::int, count(email)::int, min(email), sum(amount)::varchar, sum(big)::varchar,
         md5(string_agg(md5(id || coalesce(email, '-') || city || amount || big), '' ORDER BY id)) FROM '${file}'`,
    )
    return read.getRowsJson()[0]
  } finally {
    connection.closeSync()
    instance.closeSync()
  }
}

const refusalOf = async (path: string) => {
  const { status, body } = await nobody.get(path)
  return [status, body.code]
}

describe('exports', () => {
  const sql = 'SELECT * FROM crm.people ORDER BY id'

  it('are what the reader’s query streams, masked for one and clear for another', async () => {
    for (const [reader, isClear] of [
      [masked, false],
      [cleared, true],
    ] as const) {
      const parquet = await exported(reader, { product: 'crm.people' })
      assert.equal(parquet.rows, ROWS)
      assert.deepEqual(Object.keys(parquet.epochs), ['crm.people'])
      const isMasked = parquet.columns.find(({ name }: Json) => name === 'email').masked
      assert.equal(isMasked, !isClear)
      const file = await bytesOf(parquet)
      const own = await rowsIn(file, `own-${isClear}`)
      assert.deepEqual(
        own,
        await rowsIn(await queried(reader, sql, 'application/vnd.apache.parquet'), `asked-${isClear}`),
      )
      assert.equal(own[0], ROWS)
      assert.equal(own[1], ROWS)
      assert.equal(String(own[3]).includes(PLAIN), isClear)
      for (const [format, accept] of [
        ['csv', 'text/csv'],
        ['ndjson', 'application/x-ndjson'],
      ] as const) {
        const text = await bytesOf(await exported(reader, { sql, format }))
        assert.ok(text.equals(await queried(reader, sql, accept)), format)
        assert.equal(text.includes(PLAIN), isClear)
      }
    }
  })

  it('have the columns that are asked for, and parameters of a statement', async () => {
    const two = await exported(masked, { product: 'crm.people', columns: ['city', 'id'], format: 'csv' })
    assert.deepEqual(
      two.columns.map(({ name }: Json) => name),
      ['city', 'id'],
    )
    const few = await exported(masked, {
      sql: 'SELECT id FROM crm.people WHERE id <= ?',
      params: [3],
      format: 'ndjson',
    })
    assert.equal(few.rows, 3)
    const none = await exported(masked, { sql: 'SELECT id FROM crm.people WHERE id < 0', format: 'ndjson' })
    assert.deepEqual([none.rows, (await bytesOf(none)).length], [0, 0])
  })

  it('refuse what is no export, and fail visibly where the statement does', async () => {
    for (const body of [{}, { product: 'crm.people', sql }, { sql, columns: ['id'] }]) {
      const { status, body: problem } = await masked.post('/api/v1/exports', body)
      assert.deepEqual([status, problem.code], [400, 'invalid_value'], JSON.stringify(body))
    }
    for (const text of ['SHOW TABLES', 'SELECT * FROM information_schema.tables', 'DESCRIBE crm.people']) {
      const { status, body } = await masked.post('/api/v1/exports', { sql: text })
      assert.deepEqual([status, body.code], [422, 'export_unsupported'], text)
    }
    for (const text of ['SELECT * FROM crm.closed', 'SELECT * FROM crm.absent']) {
      const failed = await ended(masked, await begin(masked, { sql: text }))
      assert.deepEqual([failed.state, failed.error.code, failed.link], ['failed', 'table_not_found', null])
    }
    for (const product of ['crm.closed', 'crm.absent']) {
      const { status, body } = await masked.post('/api/v1/exports', { product })
      assert.deepEqual([status, body.code], [404, 'product_not_found'])
    }
  })

  it('are their author’s alone: those of others are as absent ones', async () => {
    const found = await exported(masked, { sql: 'SELECT 1 AS one', format: 'csv' })
    const listed = async (client: Client) =>
      (await ok(client.get('/api/v1/exports'))).data.map(({ id, link }: Json) => [id, link])
    assert.deepEqual(await listed(masked), [[found.id, null]])
    for (const other of [cleared, owner, foreigner]) assert.deepEqual(await listed(other), [])
    const absent = `exp_${'0'.repeat(24)}`
    for (const other of [cleared, owner, foreigner]) {
      for (const method of ['GET', 'DELETE']) {
        const answers = []
        for (const id of [found.id, absent]) {
          const { status, body } = await other.send(`/api/v1/exports/${id}`, { method })
          answers.push([status, body.code, body.detail])
        }
        assert.deepEqual(answers[0], answers[1])
        assert.equal(answers[0]?.[0], 404)
      }
    }
    assert.equal((await bytesOf(found)).toString(), '"one"\n1\n')
  })

  it('have links that prove their one export until their time, and nothing else', async () => {
    const one = await exported(masked, { sql: 'SELECT 1 AS one', format: 'csv' })
    const two = await exported(masked, { sql: 'SELECT 2 AS two', format: 'csv' })
    const [path = '', search = ''] = one.link.path.split('?')
    const asked = new URLSearchParams(search)
    const later = new URLSearchParams(search)
    later.set('expires', String(Number(asked.get('expires')) + 60_000))
    const past = new URLSearchParams(search)
    past.set('expires', '1000')
    for (const wrong of [
      `${two.link.path.split('?')[0]}?${search}`,
      `${path}?${later}`,
      `${path}?${past}`,
      `${path.replace(one.id, `exp_${'0'.repeat(24)}`)}?${search}`,
    ]) {
      assert.deepEqual(await refusalOf(wrong), [404, 'export_not_found'], wrong)
    }
    assert.equal((await nobody.get(path)).status, 400)
    await ok(masked.send(`/api/v1/exports/${one.id}`, { method: 'DELETE' }))
    assert.equal((await masked.get(`/api/v1/exports/${one.id}`)).status, 404)
    // Until it is swept it is told as gone, and after that as never having been there.
    const [status, code] = await refusalOf(one.link.path)
    assert.ok([410, 404].includes(status) && ['export_gone', 'export_not_found'].includes(code), `${status} ${code}`)
    assert.equal((await bytesOf(two)).toString(), '"two"\n2\n')
  })

  it('are not given once their author may not see the rows any more: a grant is taken back, a class is raised', async () => {
    const grant = await ok(owner.post('/api/v1/products/crm.closed/grants', { subject: { user: 'vito' }, may: 'read' }))
    await until(
      'the grant holds',
      async () => (await masked.post('/api/v1/query', { sql: 'SELECT 1 FROM crm.closed' })).status === 200,
    )
    const closed = await exported(masked, { sql: 'SELECT count(*) FROM crm.closed', format: 'csv' })
    assert.equal((await bytesOf(closed)).toString().includes(String(ROWS)), true)
    await ok(owner.send(`/api/v1/products/crm.closed/grants/${grant.id}`, { method: 'DELETE' }))
    await until('the download is refused', async () => (await nobody.get(closed.link.path)).status === 403)
    assert.deepEqual(await refusalOf(closed.link.path), [403, 'export_not_permitted'])
    assert.equal((await ok(masked.get(`/api/v1/exports/${closed.id}`))).link, null)

    const open = await exported(masked, { product: 'crm.people', columns: ['id', 'city'], format: 'csv' })
    await bytesOf(open)
    const files = manifests('public.people', {
      columns: COLUMNS.replace('name: city, type: string', 'name: city, type: string, classification: pii.name'),
      endpoints: '  - type: lookup\n',
    })
    await deployVersion(owner, 'crm.people', '1.1.0', {
      ...files,
      product: `${files.product}classification: internal\n`,
    })
    await until('the download is refused', async () => (await nobody.get(open.link.path)).status === 403)
    const anew = await exported(masked, { product: 'crm.people', columns: ['id', 'city'], format: 'csv' })
    assert.equal((await bytesOf(anew)).includes('k ""'), false)
  })

  it('are written to a file by the command, which leaves nothing behind', async () => {
    const token = await world.deployment.token([
      '--tenant',
      world.tenants[0],
      '--group',
      'svc-viewers',
      '--user',
      'vito',
    ])
    const run = (...words: readonly string[]) =>
      runSluice(['export-rows', ...words], { url: world.deployment.url, token, cwd: folder })
    const done = await run('crm.people', '--format', 'csv', '--out', 'people.csv')
    assert.deepEqual([done.code, done.err], [0, ''], done.err)
    assert.match(done.out, new RegExp(`^${ROWS} rows, \\d+ bytes: people.csv\n$`))
    const text = await readFile(join(folder, 'people.csv'), 'utf8')
    assert.ok(text.startsWith('"id",') && text.endsWith('\n') && !text.includes(PLAIN))
    const json = await run('--sql', 'SELECT id FROM crm.people', '--out', 'ids.parquet', '--json')
    assert.equal(JSON.parse(json.out).rows, ROWS)
    const failed = await run('--sql', 'SELECT * FROM crm.closed', '--out', 'none.csv', '--format', 'csv')
    assert.equal(failed.code, 1)
    assert.match(failed.err, /table_not_found/)
    for (const words of [['crm.people'], ['--out', 'x'], ['crm.people', '--out', 'x', '--format', 'xml']]) {
      assert.equal((await run(...words)).code, 2)
    }
    const found = await readdir(folder)
    assert.deepEqual(
      found.filter((name) => ['none.csv', 'x', 'none.csv.part'].includes(name)),
      [],
    )
  })

  it('fail at once where they are too large, as they would again', async () => {
    const large = 'SELECT a.* FROM crm.people a, crm.people b WHERE b.id <= 40'
    const failed = await ended(masked, await begin(masked, { sql: large, format: 'ndjson' }))
    assert.deepEqual([failed.state, failed.error.code], ['failed', 'query_result_too_large'])
  })

  it('are made once for each Idempotency-Key', async () => {
    const init = {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'idempotency-key': 'one-export' },
      body: JSON.stringify({ sql: 'SELECT 1 AS one', format: 'csv' }),
    }
    const answers = [await masked.send('/api/v1/exports', init), await masked.send('/api/v1/exports', init)]
    begun.push([masked, answers[0]?.body.id])
    assert.deepEqual(
      answers.map(({ status, body }) => [status, body.id]),
      [202, 202].map((status) => [status, answers[0]?.body.id]),
    )
    const other = await cleared.send('/api/v1/exports', init)
    begun.push([cleared, other.body.id])
    assert.notEqual(other.body.id, answers[0]?.body.id)
  })

  it('are on record as downloaded where they were, and not where only the head was asked for', async () => {
    const found = await exported(masked, { sql: 'SELECT 1 AS one', format: 'csv' })
    const downloads = async () =>
      (await ok(owner.get('/api/v1/audit?limit=100'))).data.filter(
        ({ action, object }: Json) => action === 'export.download' && object.id === found.id,
      ).length
    assert.equal((await nobody.send(found.link.path, { method: 'HEAD' })).status, 200)
    assert.equal(await downloads(), 0)
    await bytesOf(found)
    assert.equal(await downloads(), 1)
  })

  it('come in parts, as readers of parquet ask for them, each judged and on record', async () => {
    const found = await exported(masked, { product: 'crm.people' })
    const whole = await bytesOf(found)
    const part = async (range: string) => {
      const response = await nobody.begin(found.link.path, { range }, AbortSignal.timeout(300_000))
      return { response, bytes: Buffer.from(await response.arrayBuffer()) }
    }
    const footer = await part('bytes=-8')
    assert.equal(footer.response.status, 206)
    assert.equal(
      footer.response.headers.get('content-range'),
      `bytes ${found.bytes - 8}-${found.bytes - 1}/${found.bytes}`,
    )
    assert.deepEqual([footer.bytes.subarray(4).toString(), whole.subarray(-8)], ['PAR1', footer.bytes])
    const pieces: Buffer[] = []
    for (let from = 0; from < found.bytes; from += 100_000)
      pieces.push((await part(`bytes=${from}-${from + 99_999}`)).bytes)
    assert.ok(Buffer.concat(pieces).equals(whole))
    assert.deepEqual((await part(`bytes=${found.bytes}-`)).response.status, 416)
    const { data } = await ok(owner.get('/api/v1/audit?limit=200'))
    const seen = data.filter(({ action, object }: Json) => action === 'export.download' && object.id === found.id)
    assert.ok(
      seen.some(({ details }: Json) => details.from_byte === found.bytes - 8),
      JSON.stringify(seen[0]),
    )
  })

  it('are removed by administrators, too, in the tenant that they name', async () => {
    const found = await exported(masked, { sql: 'SELECT 1 AS one', format: 'csv' })
    const path = `/api/v1/exports/${found.id}`
    const remove = (tenant: string) => world.admin.send(path, { method: 'DELETE', headers: { 'x-tenant-id': tenant } })
    assert.equal((await remove(world.tenants[1])).status, 404)
    assert.equal((await masked.get(path)).status, 200)
    assert.equal((await remove(world.tenants[0])).status, 204)
    assert.equal((await masked.get(path)).status, 404)
  })

  it('are bounded in number, and one person has half of them', async () => {
    const answers = []
    for (let at = 0; at < 12; at += 1) answers.push(await owner.post('/api/v1/exports', { sql: 'SELECT 1' }))
    const codes = answers.map(({ status, body }) => `${status} ${body.code ?? ''}`.trim())
    assert.deepEqual(
      codes.map((code) => code === '429 too_many_exports'),
      codes.map((_, at) => at >= 5),
    )
    await begin(masked, { sql: 'SELECT 1' })
    for (const { body } of answers) if (body.id) await owner.send(`/api/v1/exports/${body.id}`, { method: 'DELETE' })
  })
})
