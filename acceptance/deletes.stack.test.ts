/**
 * Rows that are gone from a source are gone from the lake and from every store. Tables are changed at random, in every
 * way that takes rows away; after each round what a plain reading of the source says is held against every door.
 */
import assert from 'node:assert/strict'
import { randomInt } from 'node:crypto'
import { after, before, it } from 'node:test'
import { type Client, type Json, manifests } from './client.ts'
import { connect, deployVersion, openWorld, syncNow, type World } from './world.ts'

const ROUNDS = 5
const seed = Number(process.env['SLUICE_TEST_SEED'] ?? randomInt(2 ** 31))

/** Numbers that only look random: from one seed always the same. */
function numbers(from: number): (below: number) => number {
  let state = from
  return (below) => {
    state = (Math.imul(state, 1_103_515_245) + 12_345) & 0x7fffffff
    return Math.floor((state / 0x80000000) * below)
  }
}

const COLUMNS = `  - { name: id, type: integer, role: identity, nullable: false }
  - { name: kind, type: string, role: identity, nullable: false }
  - { name: v, type: string }
  - { name: at, type: timestamptz }
`
const ENDPOINTS = `  - type: lookup
    config: { index_columns: [id, kind] }
  - type: timeseries
    config: { time_column: at }
  - type: analytics
  - type: realtime
    config: { key_template: "{id}-{kind}" }
`

/** How a table is read: its name, and what inputs.yaml says. */
const READS = [
  { name: 'full', table: 'gone_full', input: 'mode: full', deletes: 'implied' },
  { name: 'auto', table: 'gone_auto', input: null, deletes: 'key_sweep' },
  {
    name: 'view',
    table: 'gone_view',
    input: 'mode: incremental, cursor_column: updated_at, primary_key: [id, kind]',
    deletes: 'key_sweep',
  },
] as const
const WRITES = ['replace', 'merge', 'append'] as const
const PRODUCTS = READS.flatMap((read) =>
  WRITES.map((write) => ({ read, write, name: `${read.name}_${write}` })),
).filter(({ read, write }) => write !== 'append' || read.name === 'auto')

type Row = readonly [id: number, kind: string, v: string, at: string]

let world: World
let dora: Client

before(async () => {
  world = await openWorld()
  for (const table of ['gone_full', 'gone_auto', 'gone_base']) await make(table)
  await world.source.query('CREATE VIEW gone_view AS SELECT * FROM gone_base')
  const [tenant] = world.tenants
  await world.createTenant(tenant)
  dora = await world.as(tenant, 'svc-developers', 'dora')
  // Rows that were put back are older than what is read again: nothing but the sweep of keys sees them.
  await connect(world, dora, { cursor_overlap_s: 0 })
  for (const product of PRODUCTS) {
    const { id } = (await dora.post('/api/v1/products', named(product.name))).body
    const deployed = await deployVersion(dora, id, '1.0.0', files(product))
    const [read] = deployed.plan.reads
    assert.deepEqual([read.deletes, typeof read.mode_reason], [product.read.deletes, 'string'], product.name)
    const notes = deployed.plan.notes.join()
    assert.equal(notes.includes('rows are only ever added'), product.write === 'append', notes)
  }
})

after(() => world?.close())

const named = (name: string) => ({ name, namespace: 'gone', archetype: 'source_aligned', description: '' })

async function make(table: string): Promise<void> {
  await world.source.query(`CREATE TABLE ${table} (id integer, kind text, v text, at timestamptz,
    updated_at timestamptz NOT NULL DEFAULT clock_timestamp(), PRIMARY KEY (id, kind))`)
}

function files({ read, write, name }: (typeof PRODUCTS)[number]): Readonly<Record<string, string>> {
  const made = manifests(`public.${read.table}`, { columns: COLUMNS, endpoints: ENDPOINTS })
  return {
    ...made,
    product: made.product.replace('name: people', `name: ${name}`).replace('namespace: crm', 'namespace: gone'),
    inputs: made.inputs.replace(', mode: full', read.input === null ? '' : `, ${read.input}`),
    output: made.output.replace('write_mode: replace', `write_mode: ${write}`),
    quality: 'apiVersion: svc/v1\nkind: Quality\nchecks: []\n',
  }
}

/** One change of a table, as SQL: the same for all of them. */
function change(random: (below: number) => number): (table: string) => string {
  const [id, other] = [random(30), random(30)]
  const kind = `k${random(2)}`
  const v = `v${random(1000)}`
  const at = `'2026-01-01'::timestamptz + interval '${random(50)} days'`
  const now = 'updated_at = clock_timestamp()'
  const insert = (table: string) =>
    `INSERT INTO ${table} (id, kind, v, at) VALUES (${id}, '${kind}', '${v}', ${at}) ON CONFLICT DO NOTHING`
  const changes: readonly ((table: string) => string)[] = [
    insert,
    insert,
    insert,
    (table) => `UPDATE ${table} SET v = '${v}', at = ${at}, ${now} WHERE id = ${id}`,
    (table) => `DELETE FROM ${table} WHERE id = ${id}`,
    (table) => `DELETE FROM ${table} WHERE id % 7 = ${id % 7} AND kind = '${kind}'`,
    (table) => `DELETE FROM ${table} WHERE id = ${id} AND kind = '${kind}'; ${insert(table)}`,
    // The key changes, sometimes to one that another row had before.
    (table) => `DELETE FROM ${table} WHERE id = ${other};
      UPDATE ${table} SET id = ${other}, ${now} WHERE id = ${id} AND kind = '${kind}'`,
  ]
  return changes[random(changes.length)] as (table: string) => string
}

/** What only some rounds do, with the whole table at once. */
const UPHEAVALS: readonly ((table: string) => string)[] = [
  (table) => `TRUNCATE ${table}`,
  (table) => `CREATE TABLE anew AS SELECT * FROM ${table} WHERE id % 3 = 0; TRUNCATE ${table};
    INSERT INTO ${table} SELECT * FROM anew; DROP TABLE anew`,
  (table) => `DELETE FROM ${table}; INSERT INTO ${table} (id, kind, v, at) VALUES (1, 'k0', 'only', '2026-01-05')`,
  // What was written since is lost, rows that had gone are back, as old as they were; and it is written on.
  (table) => `TRUNCATE ${table}; INSERT INTO ${table} SELECT * FROM ${table}_before`,
]

/** Of the table as it was before the former round. */
async function keepCopy(table: string): Promise<void> {
  await world.source.query(`DROP TABLE IF EXISTS ${table}_before;
    CREATE TABLE IF NOT EXISTS ${table}_now AS TABLE ${table};
    ALTER TABLE ${table}_now RENAME TO ${table}_before; CREATE TABLE ${table}_now AS TABLE ${table}`)
}

async function atSource(table: string): Promise<readonly Row[]> {
  const { rows } = await world.source.query<Record<'kind' | 'v', string> & { id: number; at: Date }>(
    `SELECT id, kind, v, at FROM ${table}`,
  )
  return sorted(rows.map(({ id, kind, v, at }) => [id, kind, v, at.toISOString()]))
}

const sorted = (rows: readonly Row[]) => rows.toSorted((a, b) => a[0] - b[0] || (a[1] < b[1] ? -1 : 1))

const rowOf = ({ id, kind, v, at }: Json): Row => [id, kind, v, new Date(at).toISOString()]

/** What every door of a product tells; for values by key, of these keys. */
async function atDoors(name: string, keys: readonly string[]): Promise<Readonly<Record<string, readonly Row[]>>> {
  const path = `/api/v1/products/gone.${name}`
  const told = async (rest: string) => {
    const { status, body } = await dora.get(`${path}/${rest}`)
    assert.equal(status, 200, `${rest}: ${JSON.stringify(body)}`)
    assert.equal(body.next_cursor ?? null, null)
    return sorted(body.data.map(rowOf))
  }
  const lake = await dora.post('/api/v1/query', { sql: `SELECT id, kind, v, "at" FROM gone.${name}` })
  assert.equal(lake.status, 200, JSON.stringify(lake.body))
  const values: Row[] = []
  for (const key of keys) {
    const { status, body } = await dora.get(`${path}/realtime?key=${key}`)
    assert.ok(status === 200 || status === 404, JSON.stringify(body))
    if (status === 200) values.push(rowOf(body.data[0]))
  }
  return {
    lake: sorted(lake.body.rows.map(([id, kind, v, at]: Json) => rowOf({ id, kind, v, at }))),
    lookup: await told('latest?limit=500'),
    timeseries: await told('timeseries?from=2025-01-01&to=2027-01-01&limit=500'),
    realtime: sorted(values),
  }
}

it(`takes rows that are gone out of the lake and of every store, in every way of reading and writing (seed ${seed})`, async () => {
  const random = numbers(seed)
  const everHeld = new Map<string, Row>()
  for (let round = 0; round < ROUNDS; round += 1) {
    const changes = Array.from({ length: 25 }, () => change(random))
    if (round > 0) changes.splice(random(25), 0, UPHEAVALS[(round - 1) % UPHEAVALS.length] as (typeof changes)[number])
    for (const table of ['gone_full', 'gone_auto', 'gone_base']) {
      await keepCopy(table)
      for (const [index, make] of changes.entries()) {
        await world.source.query(make(table)).catch((cause: unknown) => {
          throw new Error(`round ${round}, change ${index} of ${table}`, { cause })
        })
      }
    }
    const run = await syncNow(dora)
    for (const { name, deletes } of run.tables) {
      const read = READS.find(({ table }) => name === `public.${table}`)
      assert.equal(deletes, read?.deletes, name)
    }
    const held = await atSource('gone_auto')
    for (const row of held) if (!everHeld.has(`${row[0]}-${row[1]}`)) everHeld.set(`${row[0]}-${row[1]}`, row)
    for (const product of PRODUCTS) {
      const wanted = product.write === 'append' ? sorted([...everHeld.values()]) : await atSource(product.read.table)
      const doors = await atDoors(product.name, [...everHeld.keys()])
      for (const [door, rows] of Object.entries(doors)) {
        assert.deepEqual(rows, wanted, `round ${round}: ${door} of ${product.name}`)
      }
    }
  }
})

it('says on the product how its inputs are read, and that an append keeps what is gone', async () => {
  const detail = async (name: string) => (await dora.get(`/api/v1/products/gone.${name}`)).body
  const swept = await detail('auto_merge')
  assert.deepEqual(swept.content, {
    write_mode: 'merge',
    keeps_missing: false,
    note: 'rows that the output no longer has leave the lake and every store',
    one_moment: null,
  })
  const [{ mode, mode_reason, deletes, read_at }] = swept.reads
  assert.deepEqual([mode, deletes], ['incremental', 'key_sweep'])
  assert.equal(mode_reason, 'the table has a primary key, and updated_at grows with every change')
  assert.ok(Date.parse(read_at) > 0)
  assert.equal((await detail('auto_append')).content.keeps_missing, true)
})

it('narrows a product with its transform, keeps rows where the version says so, and counts those that leave', async () => {
  const product = PRODUCTS.find(({ name }) => name === 'auto_merge') as (typeof PRODUCTS)[number]
  await world.source.query(`TRUNCATE gone_auto;
    INSERT INTO gone_auto (id, kind, v, at) SELECT i, 'k0', 'v', '2026-01-05' FROM generate_series(1, 9) i`)
  await syncNow(dora)
  const made = files(product)
  const narrow = { ...made, compute: `${made['compute']}transform: SELECT * FROM source WHERE id > 4\n` }
  const keep = { ...narrow, output: `${made['output']}keep_missing: true\n` }
  const count = async () => (await atDoors(product.name, []))['lookup']?.length
  const kept = await deployVersion(dora, 'gone.auto_merge', '1.1.0', keep)
  assert.ok(kept.plan.notes.includes('rows whose keys the output no longer has stay, by keep_missing'))
  assert.equal(await count(), 9)
  const { plan } = await deployVersion(dora, 'gone.auto_merge', '1.2.0', narrow)
  const [said] = plan.notes
  assert.match(said, /^rows that the output no longer has leave the lake and every store: 4 rows by what the lake has/)
  assert.equal(await count(), 5)
})
