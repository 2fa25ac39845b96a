/**
 * Rows that show more than today's masks: whoever meets them is told what has to be done in the state that the product is in, does
 * just that, and has an answer. Every remedy is followed as it is written, by its path or by its command.
 */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { promisify } from 'node:util'
import pg from 'pg'
import type { Client, Json } from '../acceptance/client.ts'
import { manifests, ok } from '../acceptance/client.ts'
import { issueToken } from '../runtime/src/auth/embedded-issuer.ts'
import { type EmbeddedServer, startEmbeddedServer } from '../runtime/src/database/embedded-server.ts'
import { RuntimeProcess } from './crash/runtime-process.ts'
import { adminOf, connectSource, makeTenant, personOf, registerProduct, servedAt, uploadAndDeploy } from './first-steps.ts'
import { until } from './until.ts'

const run = promisify(execFile)
const LAUNCHER = join(import.meta.dirname, '../runtime/bin/sluice.js')
const VALUE = 'somebody@people.test'
const CLASS = 'pii.phone'

let folder: string
let data: string
let source: EmbeddedServer
let runtime: RuntimeProcess
let url: string
let developer: Client
let viewer: Client

before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sluice-stale-masks-'))
  data = join(folder, 'data')
  source = await startEmbeddedServer({ dataFolder: join(folder, 'source'), durable: false })
  const client = new pg.Client({ ...source.tcpAddress, database: 'postgres' })
  await client.connect()
  await client.query(`CREATE TABLE people (id integer PRIMARY KEY, phone text); INSERT INTO people VALUES (1, '${VALUE}')`)
  await client.end()
  await start('partial')
  await makeTenant(await adminOf({ url, data }))
  await connectSource(developer, source.tcpAddress)
})

after(async () => {
  await runtime?.stop()
  await source?.stop()
  await rm(folder, { recursive: true, force: true })
})

async function start(mask: string): Promise<void> {
  const config = join(folder, 'sluice.yaml')
  await writeFile(config, `masking:\n  strategies:\n    ${CLASS}: ${mask}\n`)
  runtime = await RuntimeProcess.spawn(data, null, 0, config)
  url = await servedAt(runtime)
  developer = await personOf({ url, data }, 'dora')
  viewer = await personOf({ url, data }, 'vito', { group: 'svc-viewers' })
}

const COLUMNS = `  - { name: id, type: integer, role: identity, nullable: false }\n  - { name: phone, type: string, classification: ${CLASS} }\n`
/** Made of the source, or of that product. */
function files(name: string, of: string | null = null): Record<string, string> {
  const made = manifests(of ?? 'public.people', { columns: COLUMNS, endpoints: '  - type: lookup\n' })
  return {
    ...made,
    product: productFile(made.product, name, of),
    inputs: of === null ? made.inputs : made.inputs.replace(/ {2}- .*/, `  - { name: source, product: ${of} }`),
  }
}

function productFile(given: string, name: string, of: string | null): string {
  const named = `${given.replace('name: people', `name: ${name}`)}classification: internal\n`
  return of === null ? named : named.replace('source_aligned', 'aggregate')
}

async function make(name: string, of: string | null = null, version = '1.0.0'): Promise<void> {
  if (version === '1.0.0') await registerProduct(developer, name)
  const { run_id: id } = await uploadAndDeploy(developer, name, files(name, of), version)
  await developer.untilEnded(id)
}

const DOORS: Readonly<Record<string, (name: string) => Promise<Json>>> = {
  lookup: (name) => viewer.get(`/api/v1/products/${name}/latest?filter=id:1`),
  statement: (name) => viewer.post('/api/v1/query', { sql: `SELECT phone FROM crm."${name}"` }),
  catalog: (name) => viewer.get(`/iceberg/v1/acme/namespaces/crm/tables/${name}`),
}

interface Told {
  readonly code: string
  readonly remedy: string
}

/** What the doors say; fails unless they say the same. */
async function toldOf(name: string): Promise<Told> {
  const told: Told[] = []
  for (const [door, ask] of Object.entries(DOORS)) {
    const { status, body } = await ask(name)
    assert.equal(status, 409, `${door}: ${JSON.stringify(body)}`)
    const text: string = body.error?.message ?? ''
    told.push(body.error === undefined ? body : { code: body.error.type, remedy: text })
  }
  const [{ code, remedy }] = told as [Told]
  for (const other of told) assert.ok(other.remedy.includes(remedy), JSON.stringify(told))
  return { code, remedy }
}

async function isAnswered(name: string): Promise<boolean> {
  for (const [door, ask] of Object.entries(DOORS)) {
    const { status, body } = await ask(name)
    if (status !== 200) return false
    assert.ok(!JSON.stringify(body).includes('test"'), `${door} shows the last characters: ${JSON.stringify(body)}`)
  }
  return true
}

/** Each way that a remedy names, in its words. */
const WAYS: Readonly<Record<string, (remedy: string) => ((product: string) => Promise<unknown>) | null>> = {
  path(remedy) {
    const [, path] = /POST (\/api\/v1\/products\/\{id\}\/\w+)/.exec(remedy) ?? []
    if (path === undefined) return null
    return async (product) => developer.untilEnded((await ok(developer.post(path.replace('{id}', product)))).id)
  },
  command(remedy) {
    const [, words] = /sluice (product \w+)/.exec(remedy) ?? []
    if (words === undefined) return null
    return async (product) => {
      const token = await issueToken(data, { tenant: 'acme', groups: ['svc-developers'], user: 'dora' }, { ttlS: 3600 })
      const env = { ...process.env, SLUICE_URL: url, SLUICE_TOKEN: token }
      await run(process.execPath, [LAUNCHER, ...words.split(' '), product], { env })
    }
  },
  deployment: (remedy) => (/eploy a version of/.test(remedy) ? (product) => make(product, null, '3.0.0') : null),
}

/** How a product comes into the state in which its masks are too weak; it has rows of version 1.0.0 at least. */
const STATES: Readonly<Record<string, (name: string) => Promise<unknown>>> = {
  plain: async () => undefined,
  async paused(name) {
    await make(name, null, '2.0.0')
    const { id } = await ok(developer.post(`/api/v1/products/${name}/rollback`, { version: '1.0.0' }))
    await until('it is rolled back', async () => {
      const { body } = await developer.get(`/api/v1/products/${name}`)
      return body.current_version === '1.0.0' && body.paused !== null
    })
    return id
  },
  /** Never told of by its own name: it is made of what is too weak. */
  async before(name) {
    await make(`${name}after`, `crm.${name}`)
  },
}

/** What each is told to do. */
const TOLD: Readonly<Record<string, readonly string[]>> = {
  plain: ['path', 'command'],
  paused: ['path', 'command', 'deployment'],
  before: ['path', 'command'],
}
const cases = Object.entries(TOLD).flatMap(([state, ways]) => ways.map((way) => ({ state, way, name: `${state}${way}` })))

describe('after a start with stricter masks', () => {
  before(async () => {
    for (const { name } of cases) await make(name)
    const { id } = await ok(developer.post('/api/v1/connections/db/sync'))
    assert.equal((await developer.untilEnded(id)).state, 'succeeded')
    for (const { state, name } of cases) await STATES[state]?.(name)
    await runtime.stop()
    await start('redact')
  })

  for (const { state, way, name } of cases) {
    it(`a product that is ${state} is answered once its remedy is followed by ${way}`, async () => {
      const { code, remedy } = await toldOf(name)
      assert.match(code, /mask_pending/i)
      const told = Object.keys(WAYS).filter((one) => WAYS[one]?.(remedy) !== null)
      assert.deepEqual(told, TOLD[state], remedy)
      if (state === 'before') {
        const down = `${name}after`
        const asked = await ok(developer.post(`/api/v1/products/${down}/materialize`))
        const { error, products } = await developer.untilEnded(asked.id)
        const [why] = [error, ...(products ?? []).map(({ reason }: Json) => reason)].filter(Boolean)
        assert.equal(why.code, 'mask_pending', JSON.stringify(why))
        assert.ok(why.remedy.includes(`crm.${name}`), why.remedy)
        assert.ok(WAYS[way]?.(why.remedy), why.remedy)
      }
      await WAYS[way]?.(remedy)?.(name)
      await until(() => `${name} is answered`, () => isAnswered(name))
      if (state === 'before') await until('what is made of it, too', () => isAnswered(`${name}after`))
    })
  }
})
