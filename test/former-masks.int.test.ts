/**
 * The first start of this release on rows of one that did not note by which masks they were made. Whoever makes a mask stricter with
 * that start is shown no rows of before by the weaker one, at any door; whoever changes nothing goes on reading.
 */
import assert from 'node:assert/strict'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import pg from 'pg'
import type { Client, Json } from '../acceptance/client.ts'
import { manifests, ok } from '../acceptance/client.ts'
import { type EmbeddedServer, startEmbeddedServer } from '../runtime/src/database/embedded-server.ts'
import { withDatabase } from './crash/databases.ts'
import { RuntimeProcess } from './crash/runtime-process.ts'
import { adminOf, connectSource, makeTenant, personOf, servedAt } from './first-steps.ts'
import { until } from './until.ts'

const VALUE = 'somebody@people.test'

/** By column of the same name, the mask when the rows were made, and from this release's first start on. */
const MASKS = {
  tightened: { made: 'partial', now: 'redact' },
  unlinked: { made: 'hash', now: 'null' },
  loosened: { made: 'redact', now: 'hash' },
  partial: { made: 'partial', now: 'partial' },
  hash: { made: 'hash', now: 'hash' },
  redact: { made: 'redact', now: 'redact' },
  nothing: { made: 'null', now: 'null' },
  omit: { made: 'omit', now: 'omit' },
} as const
type Name = keyof typeof MASKS
const NAMES = Object.keys(MASKS) as Name[]
/** What masks leave to be seen in rows that were made by them. */
const SHOWN = /test\b|[0-9a-f]{32}/

const isStricter = (name: Name) => name === 'tightened' || name === 'unlinked'
const STAYING = NAMES.filter((name) => !isStricter(name))
/** By product, its masked columns. */
const COLUMNS: Readonly<Record<string, readonly Name[]>> = {
  tightened: ['tightened'],
  unlinked: ['unlinked'],
  staying: STAYING,
  tightened_back: ['tightened'],
  staying_back: ['redact'],
}
const PRODUCTS = Object.keys(COLUMNS)
const columnsOf = (product: string) => COLUMNS[product] ?? []
/** Their rows lie in the lake as a rollback has brought them back: nothing there says how they were made. */
const ROLLED_BACK = PRODUCTS.filter((product) => product.endsWith('_back'))
const isRefused = (product: string) => columnsOf(product).some(isStricter)
/** Whether a column has a mask by now that shows something. */
const showsSome = (product: string) => columnsOf(product).some((name) => ['partial', 'hash'].includes(MASKS[name].now))

let folder: string
let data: string
let source: EmbeddedServer
let runtime: RuntimeProcess
let admin: Client
let developer: Client
let viewer: Client

before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sluice-former-masks-'))
  data = join(folder, 'data')
  source = await startEmbeddedServer({ dataFolder: join(folder, 'source'), durable: false })
  const client = new pg.Client({ ...source.tcpAddress, database: 'postgres' })
  await client.connect()
  await client.query(
    `CREATE TABLE people (id integer PRIMARY KEY, ${NAMES.map((name) => `to_${name} text`).join(', ')})`,
  )
  await client.query(`INSERT INTO people VALUES (1, ${NAMES.map(() => `'${VALUE}'`).join(', ')})`)
  await client.query('INSERT INTO people (id) VALUES (2)')
  await client.end()
  await start('made')
  await makeTenant(admin)
  await connectSource(developer, source.tcpAddress)
  for (const product of PRODUCTS) await deploy(product, '1.0.0')
  const { id } = await ok(developer.post('/api/v1/connections/db/sync'))
  assert.equal((await developer.untilEnded(id)).state, 'succeeded')
  for (const name of ROLLED_BACK) {
    await deploy(name, '2.0.0')
    await ok(developer.post(`/api/v1/products/${name}/rollback`, { version: '1.0.0' }))
    await until(`${name} is rolled back`, async () => {
      const { body } = await developer.get(`/api/v1/products/${name}`)
      return body.current_version === '1.0.0' && body.paused !== null
    })
  }
  await asBefore()
  await runtime.stop()
  await start('now')
})

after(async () => {
  await runtime?.stop()
  await source?.stop()
  await rm(folder, { recursive: true, force: true })
})

async function start(when: 'made' | 'now'): Promise<void> {
  const strategies = NAMES.map((name) => `    pii.${name}: ${JSON.stringify(MASKS[name][when])}\n`)
  const config = join(folder, 'sluice.yaml')
  await writeFile(config, `masking:\n  strategies:\n${strategies.join('')}`)
  runtime = await RuntimeProcess.spawn(data, null, 0, config)
  const url = await servedAt(runtime)
  admin = await adminOf({ url, data })
  developer = await personOf({ url, data }, 'dora')
  viewer = await personOf({ url, data }, 'vito', { group: 'svc-viewers' })
}

/** Rows of the registry as a release before leaves them. */
const asBefore = (names: readonly string[] = PRODUCTS) =>
  withDatabase(data, 'sluice_registry', (registry) =>
    registry.query(
      'update materializations m set masks = null from products p where p.id = m.product_id and p.name = any($1)',
      [names],
    ),
  )

const notedOf = (name: string): Promise<readonly Json[]> =>
  withDatabase(data, 'sluice_registry', async (registry) => {
    const statement = `select masks from materializations m join products p on p.id = m.product_id
      where p.name = $1 and epoch is not null order by epoch`
    return (await registry.query(statement, [name])).rows.map(({ masks }) => masks)
  })

async function deploy(name: string, version: string): Promise<void> {
  if (version === '1.0.0') {
    const product = { name, namespace: 'crm', archetype: 'source_aligned', description: version }
    await ok(developer.post('/api/v1/products', product))
  }
  const own = columnsOf(name).map((one) => `  - { name: to_${one}, type: string, classification: pii.${one} }\n`)
  const columns = `  - { name: id, type: integer, role: identity, nullable: false }\n${own.join('')}`
  const files = manifests('public.people', { columns, endpoints: '  - type: lookup\n' })
  const product = files.product.replace('people', name)
  const told = `${product}description: ${JSON.stringify(version)}\nclassification: internal\n`
  await ok(developer.upload(`/api/v1/products/${name}/manifests`, { ...files, product: told }))
  const { run_id } = await ok(developer.post(`/api/v1/products/${name}/deploy`, { version, dry_run: false }))
  if (run_id) assert.equal((await developer.untilEnded(run_id)).state, 'succeeded')
}

const DOORS: Readonly<Record<string, (name: string) => Promise<Json>>> = {
  lookup: (name) => viewer.get(`/api/v1/products/${name}/latest?filter=id:1`),
  statement: (name) => viewer.post('/api/v1/query', { sql: `SELECT * FROM crm."${name}"` }),
  catalog: (name) => viewer.get(`/iceberg/v1/acme/namespaces/crm/tables/${name}`),
  past: (name) => viewer.post('/api/v1/query', { sql: `SELECT * FROM crm."${name}"`, as_of: 'v1.0.0' }),
}

/** The status that each door answers with. */
async function told(name: string): Promise<Readonly<Record<string, number>>> {
  const statuses: Record<string, number> = {}
  for (const [door, ask] of Object.entries(DOORS)) {
    const { status, body } = await ask(name)
    statuses[door] = status
    const rows = JSON.stringify(body.rows ?? body.data ?? null)
    if (status === 200 && !showsSome(name)) assert.doesNotMatch(rows, SHOWN, `${name}, ${door}`)
    assert.ok(!rows.includes(VALUE), `${name}, ${door}`)
    if (status !== 200) assert.match(JSON.stringify(body), /mask_?pending|not_masked/i, `${name}, ${door}`)
  }
  return statuses
}

const madeOf = (product: string) =>
  Object.fromEntries(columnsOf(product).map((name) => [`to_${name}`, MASKS[name].made]))

const everywhere = (status: number) => Object.fromEntries(Object.keys(DOORS).map((door) => [door, status]))

describe('rows of a release that did not note their masks', () => {
  for (const product of PRODUCTS) {
    it(`${product}: are ${isRefused(product) ? 'refused' : 'shown'} at every door`, async () => {
      assert.deepEqual(await told(product), everywhere(isRefused(product) ? 409 : 200))
    })
  }

  it('have the masks noted that they were made with', async () => {
    for (const product of PRODUCTS) assert.deepEqual((await notedOf(product))[0]?.masked, madeOf(product), product)
  })

  it('are shown again once they have been made anew, and those of before are not', async () => {
    const { id } = await ok(developer.post('/api/v1/products/tightened/materialize'))
    assert.equal((await developer.untilEnded(id)).state, 'succeeded')
    await until('it is answered', async () => (await told('tightened'))['lookup'] === 200)
    assert.deepEqual(await told('tightened'), everywhere(200))
    const [first, newest] = await notedOf('tightened')
    assert.deepEqual([first?.masked, newest?.masked], [{ to_tightened: 'partial' }, { to_tightened: 'redact' }])
    const { body } = await developer.get('/api/v1/products/tightened/snapshots')
    const [before] = body.data.toSorted((a: Json, b: Json) => a.epoch - b.epoch)
    const sql = 'SELECT * FROM crm.tightened'
    const past = await viewer.post('/api/v1/query', { sql, as_of: before.committed_at })
    assert.deepEqual([past.status, past.body.code], [409, 'snapshot_not_masked'], JSON.stringify(past.body))
  })

  it('that one writes beside this release are looked up when they are read', async () => {
    await asBefore(['staying'])
    // A read of what is kept for some seconds does not look, and the past is refused until one has.
    await until('they are noted', async () => {
      await told('staying')
      return (await notedOf('staying')).every((masks) => masks !== null)
    })
    assert.deepEqual(await told('staying'), everywhere(200))
    assert.deepEqual((await notedOf('staying'))[0]?.masked, madeOf('staying'))
  })

  it('whose masks cannot be told are refused at every door until they have been made anew', async () => {
    await withDatabase(data, 'sluice_registry', (registry) =>
      registry.query(
        `update materializations m set masks = '{"clear": {}, "masked": {}}' from products p
         where p.id = m.product_id and p.name = 'staying'`,
      ),
    )
    // Nobody is told of what is written past the runtime, and doors that name the product otherwise keep it for seconds of their own.
    await until('what was kept of it is forgotten', async () =>
      Object.values(await told('staying')).every((status) => status === 409),
    )
    assert.deepEqual(await told('staying'), everywhere(409))
    const { id } = await ok(developer.post('/api/v1/connections/db/sync'))
    assert.equal((await developer.untilEnded(id)).state, 'succeeded')
    await until('it is shown', async () => (await told('staying'))['lookup'] === 200)
    const now = Object.fromEntries(STAYING.map((name) => [`to_${name}`, MASKS[name].now]))
    assert.deepEqual((await notedOf('staying')).at(-1)?.masked, now)
  })
})
