/**
 * A plan writes nothing: registry, lake, stores and their schemas are byte for byte the same before and after plans of
 * every kind, by dry run of what was uploaded and of manifests that nobody has uploaded, over HTTP and as a command.
 */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { promisify } from 'node:util'
import { Client as Source } from 'pg'
import { type Answer, type Client, manifests, ok } from '../acceptance/client.ts'
import type { EmbeddedServer } from '../runtime/src/database/embedded-server.ts'
import { placeTestCluster, startCopiedServer } from '../runtime/src/database/testing.ts'
import { withDatabase } from './crash/databases.ts'
import { RuntimeProcess } from './crash/runtime-process.ts'
import { adminOf, connectSource, personOf, uploadAndDeploy } from './first-steps.ts'

const LAUNCHER = join(import.meta.dirname, '../runtime/bin/sluice.js')
const ENDPOINTS = `  - type: lookup
    config: { index_columns: [id] }
  - type: timeseries
    config: { time_column: at }
  - type: realtime
    config: { key_template: "{id}" }
  - type: analytics
`
const COLUMNS = `  - { name: id, type: integer, role: identity, nullable: false }
  - { name: at, type: timestamptz, role: time, nullable: false }
  - { name: city, type: string }
`
const files = (columns: string) => manifests('public.people', { endpoints: ENDPOINTS, columns })
const LIVE = { ...files(COLUMNS), output: `${files(COLUMNS).output.replace('replace', 'merge')}keep_missing: true\n` }
const computed = (transform: string) => ({ ...LIVE, compute: `${LIVE.compute}transform: |\n  ${transform}\n` })

/** What is planned, and what the plan is to say; a number is the status of a refusal. */
const PLANS: Readonly<
  Record<string, { readonly files: Readonly<Record<string, string>>; readonly says: RegExp | number }>
> = {
  same: { files: LIVE, says: /"verdict":"compatible"/ },
  additive: { files: files(`${COLUMNS}  - { name: spent, type: "decimal(12,2)" }\n`), says: /"verdict":"additive"/ },
  breaking: { files: files(COLUMNS.replace(/ {2}- { name: city.*\n/, '')), says: /"code":"breaking_change"/ },
  raised_class: {
    files: files(COLUMNS.replace('city, type: string', 'city, type: string, classification: pii.name')),
    says: /"steps"/,
  },
  leaving_rows: {
    files: { ...LIVE, output: LIVE.output.replace('keep_missing: true', 'keep_missing: false') },
    says: /"notes":\["/,
  },
  lossy_cast: { files: files(`${COLUMNS}  - { name: spent, type: integer }\n`), says: 422 },
  excess: { files: computed('SELECT id, "at", city, spent FROM source'), says: /"warnings":\[\{/ },
  broken_sql: { files: computed('SELECT id, "at", no_such FROM source'), says: 422 },
  no_manifest: { files: { ...LIVE, serving: 'endpoints: [' }, says: 422 },
  failing_check: {
    files: { ...LIVE, quality: LIVE.quality.replace('unique: [id]', 'sql: SELECT no_such FROM {{this}}') },
    says: 422,
  },
}

let folder: string
let data: string
let server: EmbeddedServer
let source: Source
let runtime: RuntimeProcess
let url: string
let developer: Client
let colleague: Client

before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sluice-plans-'))
  data = join(folder, 'data')
  server = await startCopiedServer(join(folder, 'source'))
  source = new Source({ ...server.tcpAddress, database: 'postgres' })
  await source.connect()
  await source.query(`CREATE TABLE people (id integer PRIMARY KEY, at timestamptz NOT NULL, city text, spent numeric(12,2));
    INSERT INTO people SELECT i, now(), 'city', i * 1.25 FROM generate_series(1, 20) i`)
  await placeTestCluster(data)
  runtime = await RuntimeProcess.spawn(data, null)
  url = (await runtime.address()) ?? assert.fail(runtime.output)
  const admin = await adminOf({ url, data })
  await ok(admin.post('/api/v1/tenants', { slug: 'acme', display_name: 'Acme', tier: 'free' }))
  developer = await as('dora')
  colleague = await as('carl')
  await connectSource(developer, server.tcpAddress)
  await ok(developer.post('/api/v1/connections/db/grants', { subject: { user: 'carl' } }))
  await ok(developer.post('/api/v1/products', { name: 'people', namespace: 'crm', archetype: 'source_aligned' }))
  await uploadAndDeploy(developer, 'people', LIVE)
  const { id } = await ok(developer.post('/api/v1/connections/db/sync'))
  assert.equal((await developer.untilEnded(id)).state, 'succeeded')
  await source.query('DELETE FROM people WHERE id > 15')
})

after(async () => {
  await runtime?.stop()
  await source?.end()
  await server?.stop()
  await rm(folder, { recursive: true, force: true })
})

function as(user: string): Promise<Client> {
  return personOf({ url, data }, user)
}

/** A digest of everything that is kept, by what it is called. */
async function kept(): Promise<ReadonlyMap<string, string>> {
  const found = new Map<string, string>()
  for (const database of ['sluice_registry', 'sluice_serving'] as const) {
    await withDatabase(data, database, async (client) => {
      const tables = await client.query(
        `select format('%I.%I', schemaname, tablename) as name from pg_tables
         where schemaname not in ('pg_catalog', 'information_schema') and tablename <> all ($1)`,
        [NOT_COMPARED],
      )
      for (const { name } of tables.rows) {
        const rows = await client.query(
          `select md5(coalesce(string_agg(t::text, ' ' order by t::text), '')) from ${name} t`,
        )
        found.set(`${database} ${name}`, rows.rows[0].md5)
      }
      const schema = await client.query(`select md5(string_agg(line, ' ' order by line)) from (
        select format('%s %s %s %s', oid, relname, relkind, relacl) as line from pg_class where relpersistence = 'p'
        union all select format('%s %s', rolname, rolconfig) from pg_roles
        union all select format('%s %s', polname, pg_get_expr(polqual, polrelid)) from pg_policy) _`)
      found.set(`${database} its schema`, schema.rows[0].md5)
    })
  }
  for (const part of ['lake', 'stores', 'keys']) {
    for (const entry of await readdir(join(data, part), { recursive: true, withFileTypes: true }).catch(() => [])) {
      if (!entry.isFile() || VALUES_BY_KEY.test(entry.name)) continue
      const path = join(entry.parentPath, entry.name)
      found.set(
        path,
        createHash('sha256')
          .update(await readFile(path))
          .digest('hex'),
      )
    }
  }
  return found
}

/** What is done by the clock, whatever anybody asks, and what the plans have cost their tenant. */
const NOT_COMPARED = ['jobs', 'cpu_budgets', 'registry_clock']

/** Values by key, whose store sweeps by the clock too; that its plans leave it alone is proved by the conformance suite. */
const VALUES_BY_KEY = /\.mdb(?:-lock)?$/

async function writesNothing(what: string, work: () => Promise<void>): Promise<void> {
  const before = await kept()
  await work()
  const after = await kept()
  const changed = [...new Set([...before.keys(), ...after.keys()])].filter(
    (name) => before.get(name) !== after.get(name),
  )
  assert.deepEqual(changed, [], what)
}

function checkPlan(what: string, { status, body }: Answer, says: RegExp | number): void {
  const told = JSON.stringify(body)
  assert.equal(status, typeof says === 'number' ? says : 200, `${what}: ${told}`)
  if (typeof says !== 'number') assert.match(told, says, what)
}

describe('a plan writes nothing', () => {
  it('of manifests that are not uploaded, for a product that is there', async () => {
    for (const [kind, { files: form, says }] of Object.entries(PLANS)) {
      await writesNothing(kind, async () =>
        checkPlan(kind, await colleague.upload('/api/v1/products/people/plan?version=1.1.0', form), says),
      )
    }
    const draft = await ok(developer.get('/api/v1/products/people/manifests'))
    assert.equal(draft.uploaded_by, 'dora')
  })

  it('of manifests that are uploaded, as a dry run', async () => {
    for (const [kind, { files: form, says }] of Object.entries(PLANS)) {
      if ((await developer.upload('/api/v1/products/people/manifests', form)).status !== 200) continue
      await writesNothing(kind, async () => {
        const dryRun = () => developer.post('/api/v1/products/people/deploy', { version: '1.1.0', dry_run: true })
        checkPlan(kind, await dryRun(), says)
      })
    }
  })

  it('of a product that is not there, also where there is no room for it', async () => {
    const renamed = { ...LIVE, product: LIVE.product.replace('name: people', 'name: others') }
    const plan = () => developer.upload('/api/v1/products/crm.others/plan?version=1.0.0', renamed)
    await writesNothing('a new product', async () => {
      checkPlan('new', await plan(), /"verdict":"initial".*"problems":\[\]/)
      assert.equal((await developer.get('/api/v1/products/crm.others')).status, 404)
      assert.equal(
        (await developer.upload('/api/v1/products/crm.pg_x/plan?version=1.0.0', renamed)).body.code,
        'invalid_name',
      )
      assert.equal((await developer.upload('/api/v1/products/others/plan?version=1.0.0', renamed)).status, 404)
    })
    for (let index = 0; ; index++) {
      const { status } = await developer.post('/api/v1/products', {
        name: `p${index}`,
        namespace: 'full',
        archetype: 'aggregate',
      })
      if (status === 409) break
      assert.equal(status, 201)
    }
    await writesNothing('no room', async () =>
      checkPlan('full', await plan(), /"problems":\[\{"code":"tier_limit_exceeded"/),
    )
  })

  it('as a command, whose digest is what is deployed', async () => {
    const at = join(folder, 'changed')
    await mkdir(at)
    for (const [name, text] of Object.entries(PLANS['additive']?.files ?? {}))
      await writeFile(join(at, `${name}.yaml`), text)
    const sluice = async (...words: string[]) =>
      (
        await promisify(execFile)(process.execPath, [
          LAUNCHER,
          ...words,
          '--data-dir',
          data,
          '--tenant',
          'acme',
          '--user',
          'dora',
        ])
      ).stdout
    let digest = ''
    await writesNothing('the command', async () => {
      digest = /--digest (\w+)/.exec(await sluice('product', 'plan', at, '--version', '1.1.0'))?.[1] ?? ''
    })
    assert.notEqual(digest, '')
    assert.match(await sluice('product', 'deploy', at, '--version', '1.1.0', '--digest', digest), /1\.1\.0 is deployed/)
  })
})
