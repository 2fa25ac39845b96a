/**
 * A store of a type that the runtime does not have: examples/plugins/text-search, loaded from the configuration and switched on
 * by its certificate. Its operation is held to what every read is: policy, pages, records, the document; its copies to what
 * every copy is.
 */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { after, before, it } from 'node:test'
import { promisify } from 'node:util'
import { Client as Source } from 'pg'
import { type Answer, type Client, type Json, manifests } from '../acceptance/client.ts'
import type { EmbeddedServer } from '../runtime/src/database/embedded-server.ts'
import { placeTestCluster, startCopiedServer } from '../runtime/src/database/testing.ts'
import { withDatabase } from './crash/databases.ts'
import { RuntimeProcess } from './crash/runtime-process.ts'
import { adminOf, connectSource, makeTenant, personOf, registerProduct, servedAt } from './first-steps.ts'
import { until } from './until.ts'

const ROOT = join(import.meta.dirname, '..')
const PLUGIN = join(ROOT, 'examples/plugins/text-search')
const SUITE = join(ROOT, 'conformance-tests/bin/sluice-conformance.js')
const STORE = 'stores/search-sqlite-fts5/search.sqlite'
const SEARCH = '/api/v1/products/docs/search'

const COLUMNS = `  - { name: id, type: integer, role: identity, nullable: false }
  - { name: title, type: string }
  - { name: body, type: string }
  - { name: author, type: string, classification: pii.name }
`
const endpoint = (config: string) => `  - type: search\n    config: ${config}\n`
const CONFIG = '{ text_columns: [title, body, author], weights: { title: 4 }, tokenizer: english }'
const TABLE = `CREATE TABLE docs (id int PRIMARY KEY, title text, body text, author text);
  INSERT INTO docs VALUES
    (1, 'Green tea', 'How it is steamed', 'Ana Berg'),
    (2, 'Coffee', 'Better than any green teas, of which there is one tea too many', 'Otto Green'),
    (3, 'Água', 'Plain, or as tea', 'Ana Gomes'),
    (4, 'Nothing', NULL, NULL);
  INSERT INTO docs SELECT i, 'Note ' || i, 'page number ' || i, 'Anonymous' FROM generate_series(10, 40) i`

let folder: string
let data: string
let server: EmbeddedServer
let source: Source
let runtime: RuntimeProcess
let key: string

let admin: Client
let developer: Client
let viewer: Client
let other: Client

before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sluice-search-'))
  data = join(folder, 'data')
  server = await startCopiedServer(join(folder, 'source'))
  source = new Source({ ...server.tcpAddress, database: 'postgres' })
  await source.connect()
  await source.query(TABLE)
  key = await certify()
  await start([])
})

after(async () => {
  await runtime?.stop()
  await source?.end()
  await server?.stop()
  await rm(folder, { recursive: true, force: true })
})

/** Tries the plugin as its author would, and gives the key that signs the certificate. */
async function certify(): Promise<string> {
  const { NODE_TEST_CONTEXT: _, ...env } = process.env
  const args = [SUITE, PLUGIN, '--report', join(folder, 'proof'), '--key', join(folder, 'key.pem')]
  const { stdout } = await promisify(execFile)(process.execPath, args, { cwd: folder, env, maxBuffer: 16 << 20 })
  const [, signer = ''] = /signed by the key (\S+)/.exec(stdout) ?? []
  assert.notEqual(signer, '', stdout)
  return signer
}

async function start(trusted: readonly string[]): Promise<void> {
  const config = {
    plugins: ['@sluice/analytics/duckdb', '@sluice/connectors/postgresql', PLUGIN],
    serving: { analytics: { driver: 'duckdb' }, search: { driver: 'sqlite-fts5' } },
    certificates: { trusted_keys: trusted, folder: join(folder, 'proof') },
    upkeep: { compare_minutes: 1440, compare_rows_per_second: 1_000_000, compare_share: 1 },
  }
  const file = join(folder, 'sluice.yaml')
  await writeFile(file, JSON.stringify(config))
  await placeTestCluster(data)
  runtime = await RuntimeProcess.spawn(data, null, 0, file)
  const url = await servedAt(runtime)
  admin = await adminOf({ url, data })
  developer = await personOf({ url, data }, 'dora')
  viewer = await personOf({ url, data }, 'vito', { group: 'svc-viewers' })
  other = await personOf({ url, data }, 'bea', { tenant: 'beta' })
}

async function ok(answer: Promise<Answer>): Promise<Json> {
  const { status, body } = await answer
  assert.ok(status < 300, JSON.stringify(body))
  return body
}

const codeOf = ({ status, body }: Answer) => [status, body.code]

const search = (client: Client, input: object, rest: object = {}) => client.post(SEARCH, { input, ...rest })

async function found(client: Client, input: object): Promise<readonly number[]> {
  const { data: rows } = await ok(search(client, input))
  return rows.map(({ id }: Json) => id)
}

async function sync(client: Client): Promise<void> {
  const { id } = await ok(client.post('/api/v1/connections/db/sync'))
  const run = await client.untilEnded(id)
  assert.equal(run.state, 'succeeded', JSON.stringify(run))
}

const filesOf = (endpoints: string) => {
  const files = manifests('public.docs', { endpoints, columns: COLUMNS })
  return { ...files, product: files.product.replace('name: people', 'name: docs') }
}

async function deploy(client: Client, version: string, endpoints: string): Promise<void> {
  await ok(client.upload('/api/v1/products/docs/manifests', filesOf(endpoints)))
  await ok(client.post('/api/v1/products/docs/deploy', { version, dry_run: false }))
}

async function onboard(slug: string, client: Client): Promise<void> {
  await makeTenant(admin, slug)
  await connectSource(client, server.tcpAddress)
  await registerProduct(client, 'docs')
}

const proof = async () =>
  (await ok(admin.get('/api/v1/plugins'))).data.find(({ type }: Json) => type === 'search') as Json

it('is off while nothing proves it, and on by the certificate that the suite gave it', async () => {
  assert.equal((await proof()).proof.status, 'unproved')
  assert.match(runtime.output, /search \(sqlite-fts5\).*not proved, and so switched off/)
  await onboard('acme', developer)
  const refused = await developer.upload('/api/v1/products/docs/manifests', filesOf(endpoint(CONFIG)))
  assert.equal(refused.status, 422, JSON.stringify(refused.body))
  assert.equal((await search(developer, { words: 'tea' })).status, 404)
  await runtime.stop()
  await start([key])
  const { proof: proved, health } = await proof()
  assert.deepEqual([proved.status, proved.off, health], ['certified', [], { status: 'ok' }])
})

it('its endpoints are checked by its own schema, and deployed, synced and shown as all are', async () => {
  for (const [config, said] of [
    ['{ text_columns: [title], fuzzy: true }', /fuzzy/],
    ['{}', /text_columns/],
    ['{ text_columns: [id] }', /holds no text/],
    ['{ text_columns: [nothing] }', /there is no column nothing/],
  ] as const) {
    const refused = await developer.upload('/api/v1/products/docs/manifests', filesOf(endpoint(config)))
    assert.equal(refused.status, 422, config)
    assert.match(JSON.stringify(refused.body), said)
  }
  await ok(developer.upload('/api/v1/products/docs/manifests', filesOf(endpoint(CONFIG))))
  const plan = await ok(developer.post('/api/v1/products/docs/deploy', { version: '1.0.0', dry_run: true }))
  assert.match(JSON.stringify(plan), /make a table and its text indexes for crm\.docs/)
  await ok(developer.post('/api/v1/products/docs/deploy', { version: '1.0.0', dry_run: false }))
  await sync(developer)
  const unmasked = { subject: { user: 'dora' }, may: 'unmask', classes: ['pii.name'] }
  await ok(developer.post('/api/v1/products/docs/grants', unmasked))
  const detail = await ok(developer.get('/api/v1/products/docs'))
  assert.match(JSON.stringify(detail), /"type":"search"/)
})

it('finds the best first, page by page, and follows the source', async () => {
  const { data: rows, meta } = await ok(search(developer, { words: 'green tea' }))
  assert.deepEqual(
    rows.map(({ id }: Json) => id),
    [1, 2],
  )
  assert.ok(rows[0].score > rows[1].score && rows[1].score > 0, JSON.stringify(rows))
  assert.deepEqual([meta.store, meta.masked_columns], ['search:sqlite-fts5', []])
  assert.deepEqual(await found(developer, { words: 'agua' }), [3])
  assert.deepEqual(await found(developer, { words: 'Anonym', columns: ['title'], prefix: true }), [])
  assert.deepEqual(codeOf(await search(developer, { words: 'tea', columns: ['id'] })), [400, 'invalid_value'])
  assert.deepEqual(codeOf(await search(developer, { words: 'tea', more: 1 })), [400, 'validation_failed'])
  assert.equal((await search(developer, { words: '" OR title:* NEAR(' })).status, 200)

  const pages: number[] = []
  let cursor: string | undefined
  do {
    const page = await ok(
      search(developer, { words: 'note' }, { limit: 7, columns: ['id', 'score'], ...(cursor ? { cursor } : {}) }),
    )
    pages.push(...page.data.map(({ id }: Json) => id))
    cursor = page.next_cursor ?? undefined
  } while (cursor !== undefined)
  // All of one score, so in the order of their key.
  assert.deepEqual(
    pages,
    Array.from({ length: 31 }, (_, index) => index + 10),
  )

  await source.query(`UPDATE docs SET title = 'Green things' WHERE id = 1; DELETE FROM docs WHERE id = 3`)
  await sync(developer)
  assert.deepEqual(await found(developer, { words: 'tea' }), [2])
  assert.deepEqual(await found(developer, { words: 'green' }), [1, 2])
})

it('tells nobody by its order or score what is masked for him, and is on record where reads are', async () => {
  assert.deepEqual(codeOf(await search(viewer, { words: 'green' })), [403, 'column_masked'])
  assert.deepEqual(codeOf(await search(viewer, { words: 'green', columns: ['author'] })), [403, 'column_masked'])
  const input = { words: 'green', columns: ['title', 'body'] }
  const [seen, clear] = [await ok(search(viewer, input)), await ok(search(developer, input))]
  const scores = ({ data: rows }: Json) => rows.map(({ id, score }: Json) => [id, score])
  assert.deepEqual(scores(seen), scores(clear))
  assert.deepEqual(seen.meta.masked_columns, ['author'])
  assert.ok(!JSON.stringify(seen).includes('Otto'))
  const records = async () =>
    (await ok(developer.get('/api/v1/audit?limit=50'))).data.filter(({ action }: Json) => action === 'read.search')
  assert.deepEqual(await records(), [])
  const asAdmin = await admin.post(SEARCH, { input }, { 'x-tenant-id': 'acme' })
  assert.equal(asAdmin.status, 200, JSON.stringify(asAdmin.body))
  assert.equal((await records()).length, 1)
})

it('scores hang on nothing that another tenant has, who sees nothing of this one', async () => {
  const input = { words: 'green tea', mode: 'any' }
  const before = await ok(search(developer, input))
  await onboard('beta', other)
  assert.deepEqual(codeOf(await search(other, input)), [404, 'endpoint_not_declared'])
  await source.query(`INSERT INTO docs SELECT i, 'green', 'tea', 'x' FROM generate_series(100, 300) i`)
  await deploy(other, '1.0.0', endpoint('{ text_columns: [title, body] }'))
  await sync(other)
  assert.equal((await ok(search(other, input, { limit: 1000 }))).data.length, 203)
  const { data: rows } = await ok(search(developer, input))
  assert.deepEqual(rows, before.data)
})

it('stands in the document of the API, with what it takes and what it adds', async () => {
  const { paths } = await ok(developer.get('/openapi.json'))
  const { post } = paths['/api/v1/products/{name}/search']
  const { input } = post.requestBody.content['application/json'].schema.properties
  assert.deepEqual(Object.keys(input.properties), ['words', 'columns', 'mode', 'prefix'])
  assert.match(post.description, /`score` \(double\)/)
})

it('another config makes the indexes anew, without a sync', async () => {
  await deploy(developer, '2.0.0', endpoint('{ text_columns: [title], tokenizer: trigrams }'))
  await until('it is searched by trigrams', async () => {
    const { status, body } = await search(developer, { words: 'ree' })
    return status === 200 && body.data.length > 0
  })
  assert.deepEqual(codeOf(await search(developer, { words: 're' })), [400, 'invalid_value'])
})

const registry = <T>(work: (client: Source) => Promise<T>) =>
  withDatabase(data, 'sluice_registry', work as never) as Promise<T>

/** Every copy of the tenant was looked at after this. */
async function compare(): Promise<void> {
  await registry((client) =>
    client.query('update store_comparisons set due_at = now(), compared_at = null, in_order_at = null'),
  )
  await until('every copy was compared', () =>
    registry(async (client) => {
      await client.query(`update jobs set due_at = now() where kind = 'stores.compare' and lease_until is null`)
      const { rows } = await client.query(
        `select count(*)::int as waiting from endpoint_states s join products p on p.id = s.product_id
           left join store_comparisons c using (product_id, endpoint, variant)
         where p.tenant = 'acme' and s.endpoint = 'search' and (c.compared_at is null or s.state <> 'ok')`,
      )
      return rows[0].waiting === 0
    }),
  )
}

const drifts = () =>
  registry(async (client) => {
    const { rows } = await client.query(
      `select variant, drift from store_comparisons c join products p on p.id = c.product_id
       where p.tenant = 'acme' and endpoint = 'search' order by 1`,
    )
    return rows as readonly { readonly variant: string; readonly drift: string | null }[]
  })

it('its copies are compared with the lake, rows and indexes, and made right', async () => {
  await compare()
  assert.deepEqual(await drifts(), [
    { variant: 'clear', drift: null },
    { variant: 'masked', drift: null },
  ])
  const file = new DatabaseSync(join(data, STORE), { timeout: 60_000 })
  const idOf = (variant: string) =>
    file.prepare(`SELECT id FROM datasets WHERE tenant = 'acme' AND variant = ?`).get(variant)?.['id']
  // A row that the index does not know of, and an index that knows of no row.
  file.exec(`UPDATE rows_${idOf('clear')} SET c1 = 'Spoiled' WHERE c0 = 2`)
  const words = `words_${idOf('masked')}_c1`
  file.exec(`INSERT INTO ${words} (${words}) VALUES ('delete-all')`)
  file.close()
  assert.deepEqual(await found(viewer, { words: 'coffee', columns: ['title'] }), [])
  await compare()
  assert.deepEqual(
    (await drifts()).map(({ drift }) => drift),
    ['digest', 'digest'],
  )
  for (const client of [developer, viewer]) assert.deepEqual(await found(client, { words: 'coffee' }), [2])
})

it('goes with the tenant, and rows of a store that is gone may be left', async () => {
  await runtime.stop()
  await start([])
  const gone = '/api/v1/tenants/acme?confirm=acme'
  assert.deepEqual(codeOf(await admin.send(gone, { method: 'DELETE' })), [409, 'store_missing'])
  const left = await admin.send(`${gone}&abandon=search`, { method: 'DELETE' })
  assert.equal(left.status, 204, JSON.stringify(left.body))
  await runtime.stop()
  await start([key])
  const removed = await admin.send('/api/v1/tenants/beta?confirm=beta', { method: 'DELETE' })
  assert.equal(removed.status, 204, JSON.stringify(removed.body))
  const file = new DatabaseSync(join(data, STORE), { timeout: 60_000 })
  assert.deepEqual(
    file
      .prepare('SELECT DISTINCT tenant FROM datasets')
      .all()
      .map(({ tenant }) => tenant),
    ['acme'],
  )
  file.close()
})
