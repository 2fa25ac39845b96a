/**
 * Products of several layers over tables whose log is read, made up by a seed, in a runtime that is killed now and then. What each
 * of them is to hold PostgreSQL says: the same statements as views over views.
 */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { Client, type Json, manifests, ok } from '../acceptance/client.ts'
import { Random } from '../conformance-tests/random.ts'
import { type SourceCluster, startCluster } from '../plugins/connectors/postgresql/source-server.ts'
import { issueToken } from '../runtime/src/auth/embedded-issuer.ts'
import { RuntimeProcess } from '../test/crash/runtime-process.ts'
import type { Outcome, Proof, Request } from './proof.ts'
import { RUNTIME_SOURCES } from './runtime-sources.ts'

const LAYERS = 6
const ROWS = 200
const COLUMNS = '  - { name: id, type: integer, role: identity, nullable: false }\n  - { name: n, type: long }\n'

interface Made {
  readonly name: string
  /** Names of tables or products. */
  readonly of: readonly string[]
  /** Over `a` and `b`, which are its inputs: it means the same to PostgreSQL and to the engine. */
  readonly sql: string
}

const ONE = [
  'SELECT id, n FROM a',
  'SELECT id, n FROM a WHERE n % 3 <> 1',
  'SELECT id, n * 2 + 1 AS n FROM a',
  'SELECT CAST(n % 50 AS INTEGER) AS id, count(*) AS n FROM a GROUP BY n % 50',
  'SELECT id, row_number() OVER (ORDER BY n, id) AS n FROM a',
]
const TWO = [
  'SELECT a.id, a.n + b.n AS n FROM a JOIN b ON a.id = b.id',
  'SELECT a.id, a.n FROM a WHERE NOT EXISTS (SELECT 1 FROM b WHERE b.id = a.id AND b.n > a.n)',
  'SELECT a.id, coalesce(b.n, a.n) AS n FROM a LEFT JOIN b ON a.id = b.id',
]

/** Layer by layer, each product of one or two of the layers before it; the first of tables. */
function worldOf(random: Random, tables: number, products: number): readonly Made[] {
  const layers: string[][] = [Array.from({ length: tables }, (_, index) => `t${index}`)]
  const made: Made[] = []
  for (let index = 0; index < products; index += 1) {
    const layer = 1 + Math.floor((index * LAYERS) / products)
    const below = layer === 1 ? (layers[0] as string[]) : layers.slice(1, layer).flat()
    const isOfTwo = random.chance(0.5)
    const of = [...new Set([random.pick(below), ...(isOfTwo ? [random.pick(below)] : [])])]
    const name = `p${index}`
    made.push({ name, of, sql: random.pick(of.length === 2 ? TWO : ONE) })
    layers[layer] = [...(layers[layer] ?? []), name]
  }
  return made
}

/** Names of all that is made of these, by as many steps as there are. */
function below(world: readonly Made[], from: ReadonlySet<string>): ReadonlySet<string> {
  const found = new Set(from)
  for (const { name, of } of world) if (of.some((one) => found.has(one))) found.add(name)
  return new Set([...found].filter((name) => !from.has(name)))
}

class World {
  readonly folder: string
  readonly source: SourceCluster
  runtime: RuntimeProcess | null = null
  client: Client | null = null
  kills = 0

  constructor(folder: string, source: SourceCluster) {
    this.folder = folder
    this.source = source
  }

  async start(): Promise<Client> {
    const env = { SLUICE_LIMITS__LEASE_MS: '2000' }
    this.runtime = await RuntimeProcess.spawn(this.folder, null, 0, undefined, undefined, env)
    const url = await this.runtime.address()
    if (url === null) throw new Error(`the runtime did not start: ${this.runtime.output}`)
    const token = { tenant: 'acme', groups: ['svc-developers'], user: 'dora' }
    this.client = new Client(url, await issueToken(this.folder, token, { ttlS: 36_000 }))
    return this.client
  }

  async kill(): Promise<void> {
    this.runtime?.kill()
    await this.runtime?.ended
    await rm(join(this.folder, 'runtime.json'), { force: true })
    this.kills += 1
    await this.start()
  }

  get api(): Client {
    if (this.client === null) throw new Error('the runtime has not been started')
    return this.client
  }
}

function filesOf({ name, of, sql }: Made) {
  const texts = manifests('unused', { columns: COLUMNS, endpoints: '  - type: lookup\n' })
  const isOfTables = of.every((one) => one.startsWith('t'))
  const inputs = of.map((one, index) => {
    const alias = index === 0 ? 'a' : 'b'
    return isOfTables
      ? `  - { name: ${alias}, connection: db, table: ${one}, mode: cdc }\n`
      : `  - { name: ${alias}, product: made.${one} }\n`
  })
  return {
    ...texts,
    product: `${texts.product
      .replace('name: people', `name: ${name}`)
      .replace('namespace: crm', 'namespace: made')
      .replace('source_aligned', isOfTables ? 'source_aligned' : 'aggregate')}`,
    inputs: `apiVersion: svc/v1\nkind: Inputs\ninputs:\n${inputs.join('')}`,
    compute: `${texts.compute.replace('engine: auto', 'engine: embedded')}transform: ${JSON.stringify(sql)}\n`,
  }
}

async function deploy(client: Client, made: Made): Promise<void> {
  const registration = { name: made.name, namespace: 'made', archetype: 'aggregate', description: '' }
  await ok(client.post('/api/v1/products', registration))
  await ok(client.upload(`/api/v1/products/made.${made.name}/manifests`, filesOf(made)))
  await ok(client.post(`/api/v1/products/made.${made.name}/deploy`, { version: '1.0.0', dry_run: false }))
}

async function prepare(world: World, made: readonly Made[], tables: number): Promise<void> {
  const { user, database, host, port, password } = world.source.settings
  await world.source.sql(`ALTER ROLE ${user} REPLICATION; GRANT CREATE ON DATABASE ${database} TO ${user};`)
  for (let index = 0; index < tables; index += 1) {
    await world.source.sql(`CREATE TABLE t${index} (id int PRIMARY KEY, n bigint); ALTER TABLE t${index} OWNER TO ${user};
      INSERT INTO t${index} SELECT i, (i * ${7 + index}) % 101 FROM generate_series(1, ${ROWS}) i`)
  }
  for (const { name, of, sql } of made) {
    const inputs = of.map((one, index) => `${index === 0 ? 'a' : 'b'} AS (SELECT * FROM ${one})`)
    await world.source.sql(`CREATE VIEW ${name} AS WITH ${inputs.join(', ')} ${sql}`)
  }
  await world.start()
  const admin = new Client(
    (await world.runtime?.address()) as string,
    await issueToken(world.folder, { role: 'admin' }, { ttlS: 36_000 }),
  )
  await ok(admin.post('/api/v1/tenants', { slug: 'acme', display_name: 'Acme', tier: 'enterprise' }))
  const config_encrypted = JSON.stringify({ host, port, user, password, database, ssl_mode: 'prefer' })
  await ok(world.api.post('/api/v1/connections', { name: 'db', connector_type: 'postgresql', config_encrypted }))
  for (const one of made) await deploy(world.api, one)
}

/** By name; with the run that it is of. Kills come while it goes on. */
async function sync(world: World, killAfterMs: readonly number[]): Promise<Json> {
  const { id } = await ok(world.api.post('/api/v1/connections/db/sync'))
  for (const afterMs of killAfterMs) {
    await sleep(afterMs)
    await world.kill()
  }
  const run = await world.api.untilEnded(id)
  if (run.state !== 'succeeded') throw new Error(`the run ended: ${JSON.stringify(run.error ?? run)}`)
  return run
}

async function contents(
  world: World,
  made: readonly Made[],
): Promise<{ readonly wrong: string[]; readonly rows: number }> {
  const wrong: string[] = []
  let rows = 0
  for (const { name } of made) {
    const text = `SELECT count(*) AS c, coalesce(sum(id), 0) AS i, coalesce(sum(n), 0) AS n, coalesce(sum(id * (n % 1009)), 0) AS m FROM`
    const [wanted] = await world.source.sql(`${text} ${name}`)
    const { rows: found } = await ok(world.api.post('/api/v1/query', { sql: `${text} made.${name}` }))
    const values = (row: object | undefined) =>
      Object.values(row ?? {})
        .map(String)
        .join(' ')
    rows += Number(wanted?.['c'])
    if (values(found[0]) !== values(wanted)) wrong.push(`${name}: ${values(found[0])}, and not ${values(wanted)}`)
  }
  return { wrong, rows }
}

async function epochs(world: World): Promise<ReadonlyMap<string, number>> {
  const found = new Map<string, number>()
  for (let cursor = ''; ; ) {
    const { data, next_cursor: next } = await ok(world.api.get(`/api/v1/products?limit=100${cursor}`))
    for (const { name } of data) {
      const { last_materialization: last } = await ok(world.api.get(`/api/v1/products/made.${name}`))
      found.set(name, last?.epoch ?? 0)
    }
    if (next === null || next === undefined) return found
    cursor = `&cursor=${encodeURIComponent(next)}`
  }
}

async function change(world: World, random: Random, table: string): Promise<void> {
  const id = 1 + random.integer(0, ROWS - 1)
  const statements = [
    `UPDATE ${table} SET n = (n + ${1 + random.integer(0, 89)}) % 101 WHERE id = ${id}`,
    `DELETE FROM ${table} WHERE id = ${id}`,
    `INSERT INTO ${table} VALUES (${id}, ${random.integer(0, 100)}) ON CONFLICT (id) DO UPDATE SET n = (${table}.n + 1) % 101`,
    `UPDATE ${table} SET n = (n + 1) % 101 WHERE id % 20 = 3`,
  ]
  await world.source.sql(random.pick(statements))
}

async function run({ seed, args, signal, say }: Request): Promise<Outcome> {
  const options = {
    products: { type: 'string', default: '300' },
    tables: { type: 'string', default: '20' },
    rounds: { type: 'string', default: '20' },
  } as const
  const { values } = parseArgs({ args: [...args], options })
  const [products, tables, rounds] = [Number(values.products), Number(values.tables), Number(values.rounds)]
  const random = new Random(seed)
  const made = worldOf(random, tables, products)
  const folder = await mkdtemp(join(tmpdir(), 'sluice-waves-'))
  const world = new World(
    join(folder, 'data'),
    await startCluster({ wal_level: 'logical', max_replication_slots: '4' }),
  )
  const wrong: string[] = []
  let reached = 0
  let left = 0
  try {
    await prepare(world, made, tables)
    say(`${products} products are deployed`)
    await sync(world, [])
    let known = await epochs(world)
    for (let round = 1; round <= rounds && !signal.aborted && wrong.length === 0; round += 1) {
      const changed = new Set(
        Array.from({ length: 1 + random.integer(0, 1) }, () => `t${random.integer(0, tables - 1)}`),
      )
      for (const table of changed) await change(world, random, table)
      // The first rounds are as they are when nobody disturbs them: then every epoch counts.
      const isKilled = round > rounds / 2
      const kills = isKilled ? Array.from({ length: 1 + random.integer(0, 1) }, () => random.integer(0, 4_000)) : []
      await sync(world, kills)
      const found = await contents(world, made)
      wrong.push(...found.wrong.map((line) => `round ${round}: ${line}`))
      const after = await epochs(world)
      const wanted = below(made, changed)
      for (const { name } of made) {
        const more = (after.get(name) ?? 0) - (known.get(name) ?? 0)
        // A row that is told anew as it was makes no commit of its table.
        if (more > 1 || (more > 0 && !wanted.has(name))) wrong.push(`round ${round}: ${name} has ${more} epochs more`)
        if (more > 0) reached += 1
        else left += 1
      }
      known = after
      say(
        `round ${round}: ${[...changed].join(', ')} changed, ${wanted.size} products follow, ${found.rows} rows compared`,
      )
    }
    for (const line of wrong.slice(0, 20)) say(line)
    const figures = { products, tables, layers: LAYERS, rounds, kills: world.kills, reached, left, wrong: wrong.length }
    return { holds: wrong.length === 0, figures }
  } finally {
    await world.runtime?.stop()
    await world.source.stop()
    await rm(folder, { recursive: true, force: true })
  }
}

export const waves: Proof = {
  name: 'waves',
  proves:
    'Of 300 products in six layers over twenty tables, a change reaches just those that are made of it, each once, whatever is killed; what they hold is what views over views in the source hold.',
  costs: 'about 40 minutes for 300 products',
  options: [
    '--products N   so many (300)',
    '--tables N   so many (20)',
    '--rounds N   changes, the second half with kills (20)',
  ],
  of: RUNTIME_SOURCES,
  run,
}
