/**
 * Rows that show more than today's masks, be it that a mask was made stricter or that a class was raised at the source. Whoever meets
 * them, as a reader or as who makes something of them, is told what has to be done in the state that the product is in, does just that,
 * and has an answer. Every remedy is followed as it is written. Before that nothing of such rows is copied, by whichever name.
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
import { withDatabase } from './crash/databases.ts'
import { RuntimeProcess } from './crash/runtime-process.ts'
import { adminOf, connectSource, makeTenant, personOf, servedAt } from './first-steps.ts'
import { until } from './until.ts'

const run = promisify(execFile)
const LAUNCHER = join(import.meta.dirname, '../runtime/bin/sluice.js')
/** In clear, and what `partial` leaves of it. */
const VALUE = 'somebody@people.test'
const SHOWN = /test\b/i

let folder: string
let data: string
let source: EmbeddedServer
let runtime: RuntimeProcess
let url: string
let admin: Client
let developer: Client
let viewer: Client

before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sluice-stale-masks-'))
  data = join(folder, 'data')
  source = await startEmbeddedServer({ dataFolder: join(folder, 'source'), durable: false })
  const client = new pg.Client({ ...source.tcpAddress, database: 'postgres' })
  await client.connect()
  for (const { table, column } of Object.values(CAUSES)) {
    await client.query(`CREATE TABLE ${table} (id integer PRIMARY KEY, ${column} text)`)
    await client.query(`INSERT INTO ${table} VALUES (1, '${VALUE}')`)
  }
  await client.end()
  await start('partial')
  await makeTenant(admin)
  await connectSource(developer, source.tcpAddress)
})

after(async () => {
  await runtime?.stop()
  await source?.stop()
  await rm(folder, { recursive: true, force: true })
})

async function start(mask: string): Promise<void> {
  const config = join(folder, 'sluice.yaml')
  await writeFile(config, `masking:\n  strategies:\n    pii.phone: ${mask}\n`)
  runtime = await RuntimeProcess.spawn(data, null, 0, config)
  url = await servedAt(runtime)
  admin = await adminOf({ url, data })
  developer = await personOf({ url, data }, 'dora')
  viewer = await personOf({ url, data }, 'vito', { group: 'svc-viewers' })
}

/** Why rows show more than they may, and the column in which they do. */
interface Cause {
  readonly table: string
  readonly column: string
  /** Of the column when the rows were made (`former`), and by now. */
  readonly classes: { readonly former: string; readonly now: string }
}

const CAUSES = {
  stricter: { table: 'people', column: 'phone', classes: { former: 'pii.phone', now: 'pii.phone' } },
  raised: { table: 'notes', column: 'note', classes: { former: 'public', now: 'pii.note' } },
} satisfies Record<string, Cause>

interface Content {
  readonly cause: Cause
  /** The product that it is made of; absent: the source. */
  readonly of?: string
  /** Of the column in it. */
  readonly as?: string
  readonly expression?: string
  readonly mode?: string
}

function files({ cause, of, as = cause.column, ...more }: Content, classification: string): Record<string, string> {
  const columns = `  - { name: id, type: integer, role: identity, nullable: false }\n  - { name: ${as}, type: string, classification: ${classification} }\n`
  const made = manifests(`public.${cause.table}`, { columns, endpoints: '  - type: lookup\n' })
  const text = `SELECT id, ${more.expression ?? cause.column} AS ${as} FROM source\n`
  return {
    ...made,
    product: `${made.product}classification: internal\n`,
    output: made.output.replace('write_mode: replace', `write_mode: ${more.mode ?? 'replace'}`),
    ...(of === undefined
      ? {}
      : {
          inputs: made.inputs.replace(/ {2}- .*/, `  - { name: source, product: crm.${of} }`),
          compute: `${made.compute}transform: ${JSON.stringify(text)}\n`,
        }),
  }
}

const made = new Map<string, Content & { readonly versions: number }>()

/** The next version of it, with the class that is asked for. */
async function deploy(name: string, classification: string, breaks: readonly string[] = []): Promise<Json> {
  const { versions, ...content } = made.get(name) as Content & { readonly versions: number }
  const archetype = content.of === undefined ? 'source_aligned' : 'aggregate'
  if (versions === 0) {
    await ok(developer.post('/api/v1/products', { name, namespace: 'crm', archetype, description: '' }))
  }
  const own = files(content, classification)
  const product = (own['product'] as string).replace('people', name).replace('source_aligned', archetype)
  await ok(developer.upload(`/api/v1/products/${name}/manifests`, { ...own, product }))
  const version = `${versions + 1}.0.0`
  const answer = await developer.post(`/api/v1/products/${name}/deploy`, { version, dry_run: false, breaks })
  if (answer.status >= 300) return answer.body
  made.set(name, { ...content, versions: versions + 1 })
  if (answer.body.run_id) await developer.untilEnded(answer.body.run_id)
  return answer.body
}

async function make(name: string, content: Content): Promise<void> {
  made.set(name, { ...content, versions: 0 })
  const deployed = await deploy(name, content.cause.classes.former)
  assert.ok(deployed.deployment, JSON.stringify(deployed))
}

const DOORS: Readonly<Record<string, (name: string) => Promise<Json>>> = {
  lookup: (name) => viewer.get(`/api/v1/products/${name}/latest?filter=id:1`),
  statement: (name) => viewer.post('/api/v1/query', { sql: `SELECT * FROM crm."${name}"` }),
  catalog: (name) => viewer.get(`/iceberg/v1/acme/namespaces/crm/tables/${name}`),
}

interface Told {
  readonly code: string
  readonly remedy: string
}

/** What each door says; null where it answers. */
async function doorsOf(name: string): Promise<readonly (Told | null)[]> {
  const told: (Told | null)[] = []
  for (const [door, ask] of Object.entries(DOORS)) {
    const { status, body } = await ask(name)
    if (status === 200) assert.doesNotMatch(JSON.stringify(body), SHOWN, `${door} shows the last characters`)
    else assert.equal(status, 409, `${door}: ${JSON.stringify(body)}`)
    const refusal = body.error === undefined ? body : { code: body.error.type, remedy: body.error.message }
    told.push(status === 200 ? null : refusal)
  }
  return told
}

const isPending = (told: Told | null | undefined): told is Told => /^mask_?pending/i.test(told?.code ?? '')

/** All doors say the same. */
async function toldByDoors(name: string): Promise<Told> {
  const [first, ...others] = await doorsOf(name)
  assert.ok(isPending(first), `${name}: ${JSON.stringify(first)}`)
  for (const other of others) assert.ok(other?.remedy.includes(first.remedy), JSON.stringify([first, other]))
  return first
}

/** What a run of the product says that was asked for by itself; null where it has made it. */
async function toldByRun(name: string): Promise<Told | null> {
  const { id } = await ok(developer.post(`/api/v1/products/${name}/materialize`))
  const { error, products } = await developer.untilEnded(id)
  const [why = null] = [error, ...(products ?? []).map(({ reason }: Json) => reason)].filter(Boolean)
  return why
}

/** A remedy names the product, or it is of the one that was asked. */
const namedIn = (remedy: string, asked: string): string => /crm\.(\w+)/.exec(remedy)?.[1] ?? asked

/** Each way that a remedy names, in its words. Null: it does not name it. */
const WAYS: Readonly<Record<string, (remedy: string) => ((product: string) => Promise<unknown>) | null>> = {
  path(remedy) {
    const [, path] = /POST (\/api\/v1\/products\/\{id\}\/[\w?=]+)/.exec(remedy) ?? []
    if (path === undefined) return null
    return async (product) => developer.untilEnded((await ok(developer.post(path.replace('{id}', product)))).id)
  },
  command(remedy) {
    const [, words, right] = /sluice (product \w+)( --right)?/.exec(remedy) ?? []
    if (words === undefined) return null
    return async (product) => {
      const token = await issueToken(data, { tenant: 'acme', groups: ['svc-developers'], user: 'dora' }, { ttlS: 3600 })
      const env = { ...process.env, SLUICE_URL: url, SLUICE_TOKEN: token }
      const which = right === undefined ? [] : ['--right', 'lake']
      await run(process.execPath, [LAUNCHER, ...words.split(' '), product, ...which], { env })
    }
  },
  deployment(remedy) {
    const [, , column] = /eploy a version of (\S+)(?: with the class of (\w+))?/.exec(remedy) ?? []
    if (!/eploy a version of/.test(remedy)) return null
    return async (product) => {
      const { classes } = (made.get(product) as Content).cause
      const breaks = [...made].filter(([, { of }]) => of === product).map(([name]) => `crm.${name}`)
      const deployed = await deploy(product, column === undefined ? classes.former : classes.now, breaks)
      assert.ok(deployed.deployment, JSON.stringify(deployed))
    }
  },
}

/** How a product comes into the state in which its masks are too weak. */
const STATES: Readonly<Record<string, (name: string) => Promise<unknown>>> = {
  plain: async () => undefined,
  async paused(name) {
    await deploy(name, (made.get(name) as Content).cause.classes.former)
    await ok(developer.post(`/api/v1/products/${name}/rollback`, { version: '1.0.0' }))
    await until('it is rolled back', async () => {
      const { body } = await developer.get(`/api/v1/products/${name}`)
      return body.current_version === '1.0.0' && body.paused !== null
    })
  },
  async outdated(name) {
    const pause = { reason: 'registry_outdated', version: '9.0.0', since: '2026-01-01T00:00:00Z' }
    await withDatabase(data, 'sluice_registry', (registry) =>
      registry.query('update products set paused = $1 where name = $2', [JSON.stringify(pause), name]),
    )
  },
}

/** What each is told to do first, of rows of a weaker mask. */
const TOLD: Readonly<Record<string, readonly string[]>> = {
  plain: ['path', 'command'],
  paused: ['path', 'command', 'deployment'],
  outdated: ['path', 'command'],
}

/** What is made of a product, by names, expressions and modes. */
const KINDS: Readonly<Record<string, Omit<Content, 'cause' | 'of'>>> = {
  copied: {},
  renamed: { as: 'contact' },
  computed: { as: 'loud', expression: 'upper(source.COLUMN)' },
  added: { mode: 'append' },
}

const downstreamOf = (name: string, kind: string) => `${name}_${kind}`

async function makeDownstream(name: string, cause: Cause, kinds: readonly string[]): Promise<void> {
  for (const kind of kinds) {
    const { expression, ...content } = KINDS[kind] as Omit<Content, 'cause' | 'of'>
    const own = expression === undefined ? {} : { expression: expression.replace('COLUMN', cause.column) }
    await make(downstreamOf(name, kind), { cause, of: name, ...content, ...own })
  }
}

interface Case {
  readonly cause: keyof typeof CAUSES
  readonly state: string
  readonly way: string
  readonly name: string
  readonly kinds: readonly string[]
}

const everyKind = Object.keys(KINDS)
const cases: readonly Case[] = [
  ...Object.entries(TOLD).flatMap(([state, ways]) =>
    ways.map((way, index) => {
      const kinds = index === 0 ? everyKind : ['copied']
      return { cause: 'stricter', state, way, name: `stricter_${state}_${way}`, kinds } as const
    }),
  ),
  ...Object.keys(STATES).map((state) => {
    return { cause: 'raised', state, way: 'path', name: `raised_${state}`, kinds: everyKind } as const
  }),
]

async function epochOf(name: string): Promise<number> {
  return (await ok(developer.get(`/api/v1/products/${name}`))).last_materialization?.epoch ?? 0
}

/** Of all that the product has, as who is cleared for everything is shown it. */
async function inClear(name: string): Promise<string> {
  const sql = `SELECT * FROM crm."${name}"`
  return JSON.stringify((await ok(admin.post('/api/v1/query', { sql }, { 'x-tenant-id': 'acme' }))).rows)
}

/** Does what its readers are told, by that way where there is the choice, until they are answered. */
async function followed(name: string, way: string): Promise<void> {
  const told: string[] = []
  const isNew = (one: Told | null) => one !== null && !told.some((remedy) => one.remedy.includes(remedy))
  for (let doors = await doorsOf(name); doors.some((door) => door !== null); doors = await doorsOf(name)) {
    const { remedy } = await toldByDoors(name)
    told.push(remedy)
    const step = WAYS[way]?.(remedy) ?? WAYS['path']?.(remedy) ?? WAYS['deployment']?.(remedy)
    assert.ok(step, remedy)
    await step(namedIn(remedy, name))
    await until(
      () => `${name} is answered, or told something else than: ${told.join(' ')}`,
      async () => {
        const now = await doorsOf(name)
        return now.every((door) => door === null) || (isPending(now[0]) && now.every(isNew))
      },
    )
  }
}

describe('rows that show more than they may by now', () => {
  before(async () => {
    for (const { cause, name } of cases) await make(name, { cause: CAUSES[cause] })
    const { id } = await ok(developer.post('/api/v1/connections/db/sync'))
    assert.equal((await developer.untilEnded(id)).state, 'succeeded')
    for (const { state, name, cause, kinds } of cases) {
      await makeDownstream(name, CAUSES[cause], kinds)
      await STATES[state]?.(name)
    }
    await runtime.stop()
    await start('redact')
    made.set('raiser', { cause: CAUSES.raised, versions: 0 })
    await deploy('raiser', CAUSES.raised.classes.now)
  })

  for (const { cause, state, way, name, kinds } of cases) {
    const downstream = kinds.map((kind) => downstreamOf(name, kind))

    it(`${name}: nothing is made of them, in whichever way`, async () => {
      for (const one of downstream) {
        const before = await epochOf(one)
        assert.ok(before > 0, `${one} has rows`)
        const why = await toldByRun(one)
        assert.equal(await epochOf(one), before, one)
        assert.equal(why?.code, cause === 'stricter' ? 'mask_pending' : 'input_forbidden', JSON.stringify(why))
        if (cause === 'stricter') assert.equal(namedIn(why?.remedy ?? '', one), name, why?.remedy)
      }
    })

    it(`${name}: a reader does as he is told, and is answered`, async () => {
      const { remedy } = await toldByDoors(name)
      const ways = Object.keys(WAYS).filter((one) => WAYS[one]?.(remedy) !== null)
      const isRaised = cause === 'raised' && state !== 'outdated'
      assert.deepEqual(ways, isRaised ? ['deployment'] : TOLD[state], remedy)
      await followed(name, way)
    })

    it(`${name}: what is made of it is answered as well, once its readers have done as they are told`, async () => {
      for (const [at, one] of downstream.entries()) {
        await followed(one, way)
        // What was added once stays as it was, for those who are cleared for its class.
        if (kinds[at] !== 'added') assert.doesNotMatch(await inClear(one), SHOWN)
      }
    })
  }
})
