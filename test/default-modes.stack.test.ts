/**
 * Which mode is taken for inputs that name none: by what a PostgreSQL is set to and lets its login do, what the manifest says, and what
 * else reads the table. Asking writes nothing at the source, ends at its deadline, and what a first run keeps there goes again.
 */
import assert from 'node:assert/strict'
import { mkdtemp } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import postgresql from '../plugins/connectors/postgresql/index.ts'
import { sourceHost } from '../plugins/connectors/postgresql/source-host.ts'
import { type SourceCluster, startCluster } from '../plugins/connectors/postgresql/source-server.ts'
import { inTransaction } from '../runtime/src/database/pools.ts'
import { eventMigrations } from '../runtime/src/events/migrations.ts'
import { readMode, sourceTable } from '../runtime/src/ingestion/source-tables.ts'
import { parseEdited } from '../runtime/src/manifest/editing.ts'
import type { Input, ManifestSet } from '../runtime/src/manifest/manifest-set.ts'
import { withDefaultModes } from '../runtime/src/operations/deploy/default-modes.ts'
import type { DeployDeps } from '../runtime/src/operations/deploy/deps.ts'
import { watchCaptures } from '../runtime/src/operations/upkeep/capture-watch.ts'
import type { UpkeepDeps } from '../runtime/src/operations/upkeep/deps.ts'
import { capture, ensureCapture, savePosition } from '../runtime/src/registry/captures.ts'
import { type Connection, createConnection } from '../runtime/src/registry/connections.ts'
import type { Product } from '../runtime/src/registry/products.ts'
import { ANN, startTestRegistry, type TestRegistry, tenantWithKeys } from '../runtime/src/registry/testing.ts'
import { saveVersion } from '../runtime/src/registry/versions.ts'

let registry: TestRegistry
let source: SourceCluster
const tenant = 'acme'
const products = {} as Record<'other' | 'own' | 'another', Product>
let platform: DeployDeps & UpkeepDeps
let base: ManifestSet
let shared: Connection
let made = 0
let versions = 0
const logger = { debug() {}, info() {}, warn() {}, error() {} }
const never = new AbortController().signal

/** A new source, with each kind of table that a reader may meet. */
async function sourceAt(settings: Readonly<Record<string, string>>): Promise<void> {
  await source?.stop()
  source = await startCluster({ max_replication_slots: '4', max_wal_senders: '4', ...settings })
  const { user, database } = source.settings
  await source.sql(`GRANT CREATE ON DATABASE ${database} TO ${user}; GRANT USAGE, CREATE ON SCHEMA public TO ${user};
    CREATE TABLE good (id int PRIMARY KEY, at timestamptz NOT NULL DEFAULT now(), v text);
    CREATE TABLE beside (id int PRIMARY KEY, at timestamptz NOT NULL DEFAULT now(), v text);
    CREATE TABLE keyless (id int, at timestamptz, v text);
    CREATE TABLE theirs (id int PRIMARY KEY, at timestamptz, v text);
    CREATE TABLE untold (id int PRIMARY KEY, at timestamptz, v text); ALTER TABLE untold REPLICA IDENTITY NOTHING;
    CREATE TABLE split (id int PRIMARY KEY, at timestamptz, v text) PARTITION BY RANGE (id);
    CREATE TABLE split_all PARTITION OF split DEFAULT;
    CREATE UNLOGGED TABLE unlogged (id int PRIMARY KEY, at timestamptz, v text);
    CREATE VIEW shown AS SELECT * FROM good; GRANT SELECT ON ALL TABLES IN SCHEMA public TO ${user}`)
  for (const table of ['good', 'beside', 'keyless', 'untold', 'split', 'split_all', 'unlogged'])
    await source.sql(`ALTER TABLE ${table} OWNER TO ${user}`)
}

async function set(name: string, value: string): Promise<void> {
  await source.sql(`ALTER SYSTEM SET ${name} = '${value}'`)
  await source.sql('SELECT pg_reload_conf()')
}

/** What its connector has besides, or has not. */
let withChanges: Readonly<Record<string, unknown>> = {}

async function open() {
  const connector = await postgresql.open(source.settings, sourceHost())
  return { ...connector, changes: { ...connector.changes, ...withChanges } }
}

before(async () => {
  registry = await startTestRegistry([eventMigrations])
  const folder = await mkdtemp(join(tmpdir(), 'sluice-modes-'))
  const masters = await tenantWithKeys(registry.pool, tenant, folder)
  for (const who of ['other', 'own', 'another'] as const) products[who] = await registry.product(tenant)
  shared = await connect()
  const plugin = { ...postgresql, open }
  platform = {
    ...{ pool: registry.pool, masters, logger, connectorHost: {}, plugins: { connector: () => plugin } },
    config: { upkeep: { max_retained_bytes: 1e9 } },
  } as unknown as DeployDeps & UpkeepDeps
  const parsed = await parseEdited('customers', [])
  assert.ok(parsed.ok)
  base = parsed.manifests
})
after(async () => {
  await source?.stop()
  await registry?.[Symbol.asyncDispose]()
})

const BARE: Omit<Input, 'connection'> = {
  ...{ name: 't', table: 'public.good', mode: 'auto', cursorColumn: null, primaryKey: [], columns: null, where: null },
  ...{ onSchemaChange: 'evolve', deletes: 'key_sweep' },
}

const manifestsOf = (connection: Connection, inputs: readonly Partial<Input>[]): ManifestSet => ({
  ...base,
  inputs: inputs.map((input) => ({ ...BARE, connection: connection.name, ...input })),
})

async function connect(): Promise<Connection> {
  made += 1
  const about = { tenant, name: `db${made}`, connectorType: 'postgresql', config: {}, createdBy: ANN }
  return inTransaction(registry.pool, (tx) => createConnection(tx, about))
}

async function putInService({ id }: Product, normalised: ManifestSet): Promise<void> {
  versions += 1
  const version = `1.0.${versions}`
  const kept = { productId: id, version, manifests: {}, normalised, digest: `${id} ${version}`, deployedBy: ANN }
  await inTransaction(registry.pool, (tx) => saveVersion(tx, kept))
  await registry.pool.query(`update products set current_version = $2, status = 'deployed' where id = $1`, [
    id,
    version,
  ])
}

interface Asking {
  readonly product?: Pick<Product, 'id'>
  /** Its version in service. */
  readonly live?: ManifestSet
  readonly lookMs?: number
  /** Its tables are not known, since it did not answer. */
  readonly isAway?: boolean
}

async function taken(connection: Connection, manifests: ManifestSet, asking: Asking = {}) {
  const { product = products.own, live = null, lookMs, isAway = false } = asking
  const connections = new Map([[connection.name, connection]])
  const connector = await postgresql.open(source.settings, sourceHost())
  const { tables } = await connector.discover({ after: null, limit: 100 }, never)
  await connector.close()
  const sources = new Map([[connection.name, isAway ? null : tables]]) as never
  const deploying = { product, live }
  const { manifests: meant, notByLog } = await withDefaultModes(
    platform,
    deploying,
    manifests,
    connections,
    sources,
    never,
    lookMs,
  )
  return { meant, modes: meant.inputs.map(({ mode }) => mode), why: notByLog.get('t') ?? null, tables }
}

/** What is otherwise than where everything is there. `why`: of the mode that is taken then; null: nothing is said; absent: it is `cdc`. */
interface Fact {
  readonly name: string
  readonly why?: RegExp | null
  /** Which of several is said: the first of the manifest, of other products, of the server, of the table, of its limits. */
  readonly rank: number
  readonly input?: Partial<Input>
  /** Of another product in service; `own`: of the one that is deployed. */
  readonly other?: Partial<Input>
  readonly own?: Partial<Input>
  source?(): Promise<unknown>
  undo?(): Promise<unknown>
}

const role = (what: string) => () => source.sql(`ALTER ROLE ${source.settings.user} ${what}`)
const slots = (what: string) => source.sql(`SELECT ${what}('taken' || n) FROM generate_series(1, 4) n`)
const mayCreate = (how: string, whom: string) =>
  source.sql(`${how} CREATE ON DATABASE ${source.settings.database} ${whom} ${source.settings.user}`)
const table = (name: string, why: RegExp): Fact => ({
  name: `table ${name}`,
  why,
  rank: 4,
  input: { table: `public.${name}` },
})

const FACTS: readonly Fact[] = [
  { name: 'a cursor is named', why: null, rank: 1, input: { cursorColumn: 'at' } },
  { name: 'a key is named', why: null, rank: 1, input: { primaryKey: ['id'] } },
  { name: 'deletes are said', why: null, rank: 1, input: { saysDeletes: true } },
  { name: 'deletes stay', why: null, rank: 1, input: { deletes: 'unseen', deletesReason: 'none' } },
  { name: 'mode full', why: null, rank: 1, input: { mode: 'full' } },
  { name: 'mode incremental', why: null, rank: 1, input: { mode: 'incremental' } },
  { name: 'columns and where', rank: 0, input: { columns: ['id', 'v'], where: 'id > 1' } },
  { name: 'a contract', rank: 0, input: { onSchemaChange: 'freeze', schemaContract: { columns: 'fail' } } },
  { name: 'another reads it as before', why: /another product/, rank: 2, other: {} },
  { name: 'another reads it in full', why: /another product/, rank: 2, other: { mode: 'full' } },
  { name: 'another reads it incrementally', why: /another product/, rank: 2, other: { mode: 'incremental' } },
  { name: 'another reads it by the log', rank: 0, other: { mode: 'cdc' } },
  { name: 'another reads a table beside it', rank: 0, other: { table: 'public.beside', mode: 'full' } },
  { name: 'its version before read it as before', rank: 0, own: {} },
  { name: 'its version before read it in full', rank: 0, own: { mode: 'full' } },
  {
    name: 'no replication',
    why: /may not read the log.*ALTER ROLE/,
    rank: 3,
    source: role('NOREPLICATION'),
    undo: role('REPLICATION'),
  },
  {
    ...{ name: 'no free slot', why: /all its replication slots are taken.*pg_drop_replication_slot/, rank: 3.6 },
    source: () => slots('pg_create_physical_replication_slot'),
    undo: () => slots('pg_drop_replication_slot'),
  },
  {
    ...{ name: 'no right to make a publication', why: /may not make a publication.*GRANT CREATE/, rank: 3.5 },
    source: () => mayCreate('REVOKE', 'FROM'),
    undo: () => mayCreate('GRANT', 'TO'),
  },
  table('keyless', /no key.*ADD PRIMARY KEY/),
  table('theirs', /only who owns a table.*OWNER TO/),
  table('untold', /replica identity is NOTHING.*REPLICA IDENTITY DEFAULT/),
  table('unlogged', /not in the log.*mode full or incremental/),
  table('shown', /not in the log/),
  {
    name: 'no limit',
    why: /without end.*max_slot_wal_keep_size/,
    rank: 5,
    source: () => set('max_slot_wal_keep_size', '-1'),
    undo: () => set('max_slot_wal_keep_size', '64MB'),
  },
]

/** None, each, and every pair that can be had at once. */
const SITUATIONS: readonly (readonly Fact[])[] = [
  [],
  ...FACTS.map((one) => [one]),
  ...FACTS.flatMap((one, at) => FACTS.slice(at + 1).map((other) => [one, other])),
].filter((facts) => facts.filter(({ input }) => input?.table).length < 2)

/** Those that say something of one table say it of the table that is read. */
async function situation(facts: readonly Fact[], wal: RegExp | null): Promise<void> {
  const connection = shared
  const input = Object.assign({}, ...facts.map((one) => one.input ?? {})) as Partial<Input>
  const read = input.table ?? 'public.good'
  const mode = facts.filter((one) => one.input?.mode !== undefined)
  const others = [products.other, products.another]
  for (const one of facts) {
    const put = (product: Product | undefined, said: Partial<Input>) =>
      putInService(product as Product, manifestsOf(connection, [{ table: read, ...said }]))
    if (one.other) await put(others.pop(), one.other)
    if (one.own) await put(products.own, one.own)
    await one.source?.()
  }
  try {
    const { modes, why } = await taken(connection, manifestsOf(connection, [input]))
    const isOfTable = (mode: string) => facts.some(({ other }) => other?.mode === mode && other.table === undefined)
    // What one of its readers takes from its log all others get from there, but for one who wants it whole.
    const isToldAlready = isOfTable('cdc') && !isOfTable('full')
    const against = [...facts, ...(wal ? [{ name: 'wal', why: wal, rank: 3 } as Fact] : [])]
      .filter((one) => one.why !== undefined && !(isToldAlready && one.rank === 2))
      .toSorted((one, other) => one.rank - other.rank)
    const [first] = against
    const about = facts.map(({ name }) => name).join(' and ') || 'all is there'
    if (first === undefined) return assert.deepEqual([modes, why], [['cdc'], null], about)
    assert.deepEqual(modes, [mode.at(-1)?.input?.mode ?? 'auto'], about)
    if (first.why === null) return assert.equal(why, null, about)
    const likely = against.filter(({ rank }) => rank === first.rank)
    assert.ok(
      likely.some((one) => one.why?.test(why ?? '')),
      `${about}: ${why}`,
    )
  } finally {
    for (const one of facts) await one.undo?.()
    await registry.pool.query('update products set current_version = null')
  }
}

const left = () =>
  source.sql(
    `SELECT slot_name::text AS name FROM pg_replication_slots UNION ALL SELECT pubname::text FROM pg_publication`,
  )

for (const level of ['replica', 'logical'] as const) {
  describe(`a source with wal_level = ${level}`, () => {
    before(async () => {
      await sourceAt({ wal_level: level })
      await set('max_slot_wal_keep_size', '64MB')
      await role('REPLICATION')()
    })

    it(`gives the mode and the reason in ${SITUATIONS.length} situations, and has nothing more than before`, async () => {
      const wal = level === 'logical' ? null : /wal_level is replica.*ALTER SYSTEM SET wal_level = logical/
      for (const facts of SITUATIONS) await situation(facts, wal)
      assert.deepEqual(await left(), [])
    })
  })
}

describe('a source that has all that its log needs', () => {
  it('is read by it for all tables of a product, or for none: they are read as of one moment', async () => {
    const connection = await connect()
    const second = (more: Partial<Input>) =>
      manifestsOf(connection, [{}, { name: 'u', table: 'public.beside', ...more }])
    assert.deepEqual((await taken(connection, second({}))).modes, ['cdc', 'cdc'])
    assert.deepEqual((await taken(connection, second({ mode: 'cdc' }))).modes, ['cdc', 'cdc'])
    assert.deepEqual((await taken(connection, second({ mode: 'full' }))).modes, ['auto', 'full'])
    assert.deepEqual((await taken(connection, second({ cursorColumn: 'at' }))).modes, ['auto', 'auto'])
    const keyless = await taken(connection, second({ table: 'public.keyless' }))
    assert.deepEqual(keyless.modes, ['auto', 'auto'])
    assert.match(keyless.why ?? '', /^public\.keyless: its rows have no key/)
  })

  it('is read as before, without a word, where its connector cannot say what its log would tell', async () => {
    const connection = await connect()
    for (const judge of [{ refusals: undefined }, { judges: async () => false }]) {
      withChanges = judge
      const { modes, why } = await taken(connection, manifestsOf(connection, [{}]))
      withChanges = {}
      assert.deepEqual([modes, why], [['auto'], null])
    }
    assert.deepEqual((await taken(connection, manifestsOf(connection, [{}]))).modes, ['cdc'])
  })

  it('says at the run, too, that nobody has asked for it', async () => {
    const connection = await connect()
    const { meant, tables } = await taken(connection, manifestsOf(connection, [{}]))
    const found = tables.find(({ name }) => name === 'good')
    assert.ok(found)
    const { mode, reason, deletes } = readMode(sourceTable('public.good', meant.inputs), found)
    assert.deepEqual([mode, deletes], ['cdc', 'log'])
    assert.match(reason, /^no mode is written/)
  })

  it('is waited for until the deadline, and read as in service where it does not answer', {
    timeout: 600_000,
  }, async () => {
    const connection = await connect()
    const manifests = manifestsOf(connection, [{ table: 'public.split' }])
    const { modes, meant } = await taken(connection, manifests)
    assert.deepEqual(modes, ['cdc'])
    const elsewhere = manifestsOf(connection, [{ table: 'public.good', mode: 'cdc', isChosen: true }])
    const holder = await source.session()
    await holder.query('BEGIN; LOCK TABLE split_all IN ACCESS EXCLUSIVE MODE')
    try {
      for (const [silence, why] of [
        [{ lookMs: 1_000 }, /did not say within 1000 ms/],
        [{ isAway: true }, /could not be asked/],
      ] as const) {
        for (const live of [undefined, manifests, elsewhere]) {
          const without = await taken(connection, manifests, { ...silence, ...(live && { live }) })
          assert.deepEqual(without.modes, ['auto'])
          assert.match(without.why ?? '', why)
        }
        const on = await taken(connection, manifests, { ...silence, live: meant })
        assert.deepEqual([on.modes, on.why], [['cdc'], null])
      }
    } finally {
      await holder.query('ROLLBACK')
    }
    await role('NOREPLICATION')()
    assert.deepEqual((await taken(connection, manifests, { live: meant })).modes, ['auto'], 'it has said no')
    await role('REPLICATION')()
  })

  it('lets go of its log when the last version that took it is out of service, and not before', async () => {
    const connection = await connect()
    const { meant, tables } = await taken(connection, manifestsOf(connection, [{}]))
    await putInService(products.other, meant)
    const known = await inTransaction(registry.pool, (tx) => ensureCapture(tx, connection))
    const connector = await postgresql.open(source.settings, sourceHost())
    const { primaryKey = [] } = tables.find(({ name }) => name === 'good') ?? {}
    const streams = [{ schema: 'public', table: 'good', primaryKey }]
    const prepared = await connector.changes?.prepare({ capture: known.name, streams, anew: true, signal: never })
    await connector.close()
    assert.ok(prepared)
    await inTransaction(registry.pool, (tx) => savePosition(tx, connection.id, prepared.position))
    assert.equal((await left()).length, 2, 'a slot and a publication')
    await watchCaptures(platform, never, 0)
    assert.equal((await left()).length, 2)
    await putInService(products.other, manifestsOf(connection, [{ mode: 'full' }]))
    await watchCaptures(platform, never, 0)
    assert.deepEqual([await left(), await capture(registry.pool, connection.id)], [[], null])
  })
})
