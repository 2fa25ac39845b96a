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

/** By the mask of its column when the rows were made, and from this release's first start on. */
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

/** A product whose rows lie in the lake as a rollback has brought them back: nothing there says how they were made. */
const ROLLED_BACK: readonly Name[] = ['tightened', 'redact']
const rolledBack = (name: Name) => `${name}_back`
const products = [...NAMES, ...ROLLED_BACK.map(rolledBack)]
const maskOf = (product: string) => product.replace('_back', '') as Name

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
  for (const product of products) await deploy(product, '1.0.0')
  const { id } = await ok(developer.post('/api/v1/connections/db/sync'))
  assert.equal((await developer.untilEnded(id)).state, 'succeeded')
  for (const name of ROLLED_BACK) {
    await deploy(rolledBack(name), '2.0.0')
    await ok(developer.post(`/api/v1/products/${rolledBack(name)}/rollback`, { version: '1.0.0' }))
    await until(`${name} is rolled back`, async () => {
      const { body } = await developer.get(`/api/v1/products/${rolledBack(name)}`)
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
const asBefore = (names: readonly string[] = products) =>
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
  const masked = maskOf(name)
  const own = `  - { name: to_${masked}, type: string, classification: pii.${masked} }\n`
  const columns = `  - { name: id, type: integer, role: identity, nullable: false }\n${own}`
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
    if (status === 200 && MASKS[maskOf(name)].now !== 'partial' && MASKS[maskOf(name)].now !== 'hash') {
      const rows = JSON.stringify(body.rows ?? body.data ?? null)
      assert.doesNotMatch(rows, SHOWN, `${name}, ${door}`)
    }
    if (status !== 200) assert.match(JSON.stringify(body), /mask_?pending|not_masked/i, `${name}, ${door}`)
  }
  return statuses
}

const everywhere = (status: number) => Object.fromEntries(Object.keys(DOORS).map((door) => [door, status]))

describe('rows of a release that did not note their masks', () => {
  for (const product of products) {
    it(`${product}: are ${isStricter(maskOf(product)) ? 'refused' : 'shown'} at every door`, async () => {
      assert.deepEqual(await told(product), everywhere(isStricter(maskOf(product)) ? 409 : 200))
    })
  }

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
    await asBefore(['redact', 'partial'])
    await until('they are noted', async () => {
      for (const name of ['redact', 'partial']) assert.deepEqual(await told(name), everywhere(200))
      return (await Promise.all(['redact', 'partial'].map(notedOf))).flat().every((masks) => masks !== null)
    })
    assert.deepEqual((await notedOf('partial'))[0]?.masked, { to_partial: 'partial' })
  })

  it('whose masks cannot be told are refused at every door until they have been made anew', async () => {
    await withDatabase(data, 'sluice_registry', (registry) =>
      registry.query(
        `update materializations m set masks = '{"clear": {}, "masked": {}}' from products p
         where p.id = m.product_id and p.name = 'omit'`,
      ),
    )
    await until('what was kept of it is forgotten', async () => (await told('omit'))['lookup'] === 409)
    assert.deepEqual(await told('omit'), everywhere(409))
    const { id } = await ok(developer.post('/api/v1/connections/db/sync'))
    assert.equal((await developer.untilEnded(id)).state, 'succeeded')
    await until('it is shown', async () => (await told('omit'))['lookup'] === 200)
    assert.deepEqual((await notedOf('omit')).at(-1)?.masked, { to_omit: 'omit' })
  })
})
