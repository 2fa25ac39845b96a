/**
 * Products whose inputs name no mode, over a PostgreSQL that at times has all that its log needs: a version keeps what was taken when
 * it was deployed, by every way in which it comes into service. What is read by the log is what the source has.
 */
import assert from 'node:assert/strict'
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, it } from 'node:test'
import { type Client, type Json, manifests, ok } from '../acceptance/client.ts'
import { runSluice } from '../acceptance/sluice-command.ts'
import { type SourceCluster, startCluster } from '../plugins/connectors/postgresql/source-server.ts'
import { issueToken } from '../runtime/src/auth/embedded-issuer.ts'
import { placeTestCluster } from '../runtime/src/database/testing.ts'
import { RuntimeProcess } from './crash/runtime-process.ts'
import { adminOf, connectSource, makeTenant, personOf, registerProduct, servedAt } from './first-steps.ts'

let folder: string
let data: string
let url: string
let source: SourceCluster
let runtime: RuntimeProcess
let developer: Client

before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sluice-kept-modes-'))
  data = join(folder, 'data')
  source = await startCluster({ wal_level: 'logical', max_replication_slots: '4', max_wal_senders: '4' })
  const { user, database } = source.settings
  await source.sql(`ALTER ROLE ${user} REPLICATION; GRANT CREATE ON DATABASE ${database} TO ${user}`)
  for (const table of ['people', 'places', 'things']) {
    await source.sql(`CREATE TABLE ${table} (id int PRIMARY KEY, email text, city text); ALTER TABLE ${table} OWNER TO ${user};
      INSERT INTO ${table} SELECT i, 'm' || i || '@example.com', 'Bonn' FROM generate_series(1, 8) i`)
  }
  await placeTestCluster(data)
  runtime = await RuntimeProcess.spawn(data, null)
  url = await servedAt(runtime)
  await makeTenant(await adminOf({ url, data }))
  developer = await personOf({ url, data }, 'dora')
  await connectSource(developer, source.settings, database)
})

after(async () => {
  await runtime?.stop()
  await source?.stop()
  await rm(folder, { recursive: true, force: true })
})

/** Whether the source limits what it keeps for a reader: without, nobody is read by its log who has not asked for it. */
async function limited(is: boolean): Promise<void> {
  await source.sql(`ALTER SYSTEM SET max_slot_wal_keep_size = '${is ? '1GB' : '-1'}'`)
  await source.sql('SELECT pg_reload_conf()')
}

const kept = () =>
  source.sql('SELECT slot_name::text FROM pg_replication_slots UNION ALL SELECT pubname::text FROM pg_publication')

/** Of a table, with a mode or none; `said` makes them other manifests. */
function filesOf(name: string, { table = name, mode = '', said = '' } = {}): Readonly<Record<string, string>> {
  const files = manifests(`public.${table}`, { endpoints: '  - type: lookup\n    config: { index_columns: [id] }\n' })
  return {
    ...files,
    product: `${files.product.replace('name: people', `name: ${name}`)}description: "${said}"\n`,
    inputs: files.inputs.replace(', mode: full', mode && `, mode: ${mode}`),
  }
}

const at = (name: string) => `/api/v1/products/${name}`

async function upload(name: string, files: Readonly<Record<string, string>>): Promise<void> {
  await ok(developer.upload(`${at(name)}/manifests`, files))
}

const readOf = ({ plan }: Json): Json => plan.reads[0]

async function planned(name: string, version: string): Promise<Json> {
  return ok(developer.post(`${at(name)}/deploy`, { version, dry_run: true }))
}

/** Its answer, when all that it begins has ended well. */
async function deployed(name: string, version: string, more: Json = {}): Promise<Json> {
  const answer = await ok(developer.post(`${at(name)}/deploy`, { version, dry_run: false, ...more }))
  if (answer.run_id !== null) await ended(answer.run_id)
  return answer
}

async function ended(id: string): Promise<Json> {
  const run = await developer.untilEnded(id)
  assert.equal(run.state, 'succeeded', JSON.stringify(run))
  return run
}

/** How a sync reads each table. */
async function synced(): Promise<Readonly<Record<string, string>>> {
  const { id } = await ok(developer.post('/api/v1/connections/db/sync'))
  const { tables } = await ended(id)
  return Object.fromEntries(tables.map((one: Json) => [one.name.replace('public.', ''), one.mode]))
}

async function servesSource(name: string, table = name): Promise<void> {
  const shown = await ok(developer.get(`${at(name)}/latest?limit=1000&columns=id,city`))
  const wanted = await source.sql(`SELECT id, city FROM ${table} ORDER BY id`)
  assert.deepEqual(
    shown.data.toSorted((one: Json, other: Json) => one.id - other.id),
    wanted,
  )
}

it('plans, deploys and reads by the log what it can tell, and as the plan says or not at all', async () => {
  await limited(true)
  await registerProduct(developer, 'people')
  await upload('people', filesOf('people'))
  const plan = await planned('people', '1.0.0')
  const { mode, deletes, not_by_log: not } = readOf(plan)
  assert.deepEqual([mode, deletes, not], ['cdc', 'log', undefined])
  assert.deepEqual(await kept(), [], 'a plan makes nothing at the source')
  await limited(false)
  const reviewed = { version: '1.0.0', dry_run: false, digest: plan.digest, stores_hash: plan.stores_hash }
  const refused = await developer.post(`${at('people')}/deploy`, reviewed)
  assert.deepEqual([refused.status, refused.body.code], [409, 'plan_changed'], JSON.stringify(refused.body))
  const without = readOf(await planned('people', '1.0.0'))
  assert.equal(without.mode, 'full')
  assert.match(without.not_by_log, /without end.*max_slot_wal_keep_size/)
  await limited(true)
  const made = await ok(developer.post(`${at('people')}/deploy`, reviewed))
  assert.equal(readOf(made).mode, 'cdc')
  assert.deepEqual(await kept(), [], 'nor does a deployment')
  assert.deepEqual(await synced(), { people: 'cdc' })
  await servesSource('people')
  await source.sql(`DELETE FROM people WHERE id < 3; UPDATE people SET city = 'Ulm' WHERE id = 4;
    UPDATE people SET id = 90 WHERE id = 5; INSERT INTO people VALUES (91, NULL, 'Jena')`)
  assert.deepEqual(await synced(), { people: 'cdc' })
  await servesSource('people')
  const [read] = (await ok(developer.get(at('people')))).reads
  assert.deepEqual([read.mode, read.deletes], ['cdc', 'log'])
  assert.match(read.mode_reason, /^no mode is written/)
  await upload('people', filesOf('people', { said: 'in other words' }))
  for (const is of [true, false]) {
    await limited(is)
    const { plan: next } = await planned('people', '1.1.0')
    const about = JSON.stringify(next)
    assert.equal(
      next.changes.find(({ subject }: Json) => subject.startsWith('inputs')),
      undefined,
      about,
    )
    assert.match(next.rows.not_counted, /as the version in service/, about)
  }
})

it('keeps what was taken, by every way in which a version comes into service', async () => {
  await registerProduct(developer, 'places')
  const way = async (what: string, mode: string) => assert.equal((await synced())['places'], mode, what)
  await limited(false)
  await upload('places', filesOf('places'))
  await deployed('places', '1.0.0')
  await way('a version that was deployed when the source had no limit', 'full')
  await upload('places', filesOf('places', { said: 'staged' }))
  await deployed('places', '1.1.0', { stage: 'preview' })
  await limited(true)
  await way('the same, when the source has one', 'full')
  await upload('places', filesOf('places'))
  assert.equal(readOf(await deployed('places', '1.0.0')).mode, 'full')
  await way('deployed again under its number', 'full')
  await ended((await ok(developer.post(`${at('places')}/promote`, {}))).run_id)
  await way('a preview of then, promoted', 'full')
  await upload('places', filesOf('places', { said: 'new' }))
  assert.equal(readOf(await deployed('places', '1.2.0')).mode, 'cdc')
  await way('a new version', 'cdc')
  await upload('places', filesOf('places', { said: 'staged again' }))
  await deployed('places', '1.3.0', { stage: 'preview' })
  await limited(false)
  await ended((await ok(developer.post(`${at('places')}/promote`, {}))).run_id)
  await way('a preview of when there was a limit, promoted without one', 'cdc')
  await ended((await ok(developer.post(`${at('places')}/rollback`, { version: '1.0.0' }))).run_id)
  await ok(developer.post(`${at('places')}/resume`))
  await way('rolled back to the first', 'full')
  const { user } = source.settings
  await source.sql(`ALTER ROLE ${user} NOREPLICATION`)
  await ended((await ok(developer.post(`${at('places')}/rollback`, { version: '1.2.0' }))).run_id)
  await source.sql(`ALTER ROLE ${user} REPLICATION`)
  await ok(developer.post(`${at('places')}/resume`))
  await way('rolled back to the one by the log', 'cdc')
  await upload('places', filesOf('places', { said: 'newest' }))
  assert.equal(readOf(await deployed('places', '1.4.0')).mode, 'full')
  await way('a new version without a limit', 'full')
  await servesSource('places')
})

it('is not changed by another product that reads the table', async () => {
  await limited(true)
  for (const [name, table, mode] of [
    ['people_too', 'people', 'cdc'],
    ['places_too', 'places', 'full'],
  ] as const) {
    await registerProduct(developer, name)
    await upload(name, filesOf(name, { table }))
    const read = readOf(await deployed(name, '1.0.0'))
    assert.equal(read.mode, mode)
    if (mode === 'full') assert.match(read.not_by_log, /another product in service reads public\.places/)
    assert.equal((await synced())[table], mode)
    await servesSource(name, table)
  }
})

it('is nothing that `apply` sees, and what `product init` says of a table', async () => {
  const token = await issueToken(data, { tenant: 'acme', groups: ['svc-developers'], user: 'dora' }, { ttlS: 36_000 })
  const sluice = async (...words: string[]) => {
    const { code, out, err } = await runSluice(words, { url, token, cwd: folder })
    assert.equal(code, 0, `${words.join(' ')}: ${err}${out}`)
    return out
  }
  for (const is of [true, false]) {
    await limited(is)
    for (const [name, said] of [
      ['people', ''],
      ['places', 'newest'],
    ] as const) {
      await mkdir(join(folder, 'all', name), { recursive: true })
      for (const [part, text] of Object.entries(filesOf(name, { said })))
        await writeFile(join(folder, 'all', name, `${part}.yaml`), text)
    }
    const { products } = JSON.parse(await sluice('apply', 'all', '--check', '--json'))
    assert.deepEqual(
      products.map((one: Json) => one.action),
      ['unchanged', 'unchanged'],
    )
    await sluice('product', 'init', `things-${is}`, '--from', 'db.things')
    const inputs = await readFile(join(folder, `things-${is}`, 'inputs.yaml'), 'utf8')
    assert.match(
      inputs,
      is ? /# Read by the log of its source \(mode cdc\)/ : /# Read in full: the table has no column/,
    )
    assert.doesNotMatch(inputs, /mode:/)
  }
  const { people, places } = await synced()
  assert.deepEqual([people, places], ['cdc', 'full'])
})
