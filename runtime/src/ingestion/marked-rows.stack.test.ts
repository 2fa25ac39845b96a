import assert from 'node:assert/strict'
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { quoteName } from '@sluice/engine'
import { collect, LIMITS } from '@sluice/iceberg/testing'
import type {
  ChangeEvent,
  ChangeSource,
  Column,
  Connector,
  ConnectorState,
  ReadEvent,
  ReadRequest,
  Row,
} from '@sluice/sdk'
import { batchFromRows } from '@sluice/sdk'
import { inTransaction } from '../database/pools.ts'
import { type RegistryLake, startRegistryLake } from '../lake/testing.ts'
import type { ManifestSet } from '../manifest/manifest-set.ts'
import type { InputState } from '../materializer/input-state.ts'
import { rawTable, readInputs } from '../materializer/inputs.ts'
import { stateTable } from '../materializer/lake-state.ts'
import { withoutMarkedRows } from '../materializer/marked-rows.ts'
import { carriedInput } from '../materializer/materialize.ts'
import { stagedTable } from '../materializer/staged-rows.ts'
import { transformRows } from '../materializer/transform.ts'
import { createConnection } from '../registry/connections.ts'
import type { MasterKeys } from '../registry/master-keys.ts'
import { registryMigrations } from '../registry/migrations.ts'
import type { Product } from '../registry/products.ts'
import { claimRun, finishRun } from '../registry/run-claims.ts'
import { runLog } from '../registry/run-progress.ts'
import { enqueueRun } from '../registry/runs.ts'
import { ANN, tenantWithKeys } from '../registry/testing.ts'
import type { IngestionDeps } from './ingestion-run.ts'
import { runIngestion } from './run-ingestion.ts'

const TENANT = 'acme'
const VALUES = ['a', 'b"c', 'd'] as const
type Name = (typeof VALUES)[number]
const COLUMNS: readonly Column[] = [
  { name: 'id', type: 'integer', nullable: false },
  ...VALUES.map((name) => ({ name, type: 'string', nullable: true }) as const),
  { name: 'at', type: 'integer', nullable: true },
]

/** No input is a product. */
const noProducts = () => Promise.reject(new Error('no product is read here'))

let lake: RegistryLake
let masters: MasterKeys
let worlds = 0

before(async () => {
  lake = await startRegistryLake([registryMigrations])
  masters = await tenantWithKeys(lake.pool, TENANT, lake.dir)
})
after(() => lake[Symbol.asyncDispose]())

/** Numbers that are the same in every run. */
function randomFrom(seed: number) {
  let state = seed
  return (below: number) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return Math.floor((state / 2 ** 32) * below)
  }
}

interface Kept {
  readonly values: Record<Name, string | null>
  /** Columns whose value nothing can carry. */
  readonly bad: ReadonlySet<Name>
  readonly at: number
}

/** A table of a source, and a connector that reads it with marks or, as those of before, without. */
class Source {
  readonly rows = new Map<number, Kept>()
  marks = true
  clock = 0
  wholeReads = 0
  /** Rows as they were then, null: gone. */
  readonly log: { readonly id: number; readonly row: Kept | null }[] = []
  /** What is said of a row that lacks these. */
  markOf = (bad: readonly Name[]): string => JSON.stringify(bad)

  put(id: number, values: Record<Name, string | null>, bad: readonly Name[]): void {
    this.clock += 1
    const row = { values, bad: new Set(bad), at: this.clock }
    this.rows.set(id, row)
    this.log.push({ id, row })
  }
  remove(id: number): void {
    if (this.rows.delete(id)) this.log.push({ id, row: null })
  }

  get connector(): Connector {
    const description = { schema: 'public', name: 't', kind: 'table', primaryKey: ['id'], columns: COLUMNS }
    return {
      discover: async () => ({ tables: [{ ...description, suggestedCursor: 'at' }], next: null }),
      read: (request: ReadRequest) => this.#read(request),
      changes: this.#changes(),
      ack: async () => undefined,
      close: async () => undefined,
    } as unknown as Connector
  }

  #changes(): ChangeSource {
    const place = (order: number) => ({ lineage: 'one', order: String(order).padStart(6, '0') })
    return {
      prepare: async () => ({ position: place(this.log.length), refused: [] }),
      changes: (request) => this.#logged(request, place),
      ack: async () => undefined,
      health: async () => ({ state: 'ok', retainedBytes: 0, limitBytes: null, message: 'all is well' }),
      release: async () => undefined,
    }
  }

  async *#logged(
    { after, streams: [stream] }: Parameters<ChangeSource['changes']>[0],
    place: (order: number) => { readonly lineage: string; readonly order: string },
  ): AsyncGenerator<ChangeEvent> {
    const marks = this.marks && stream?.marks === true
    const schema = { columns: COLUMNS, primaryKey: ['id'] }
    yield { kind: 'schema', stream: 0, schema, ...(marks ? { marks } : {}) }
    for (const [index, { id, row }] of this.log.entries()) {
      if (index < Number(after.order)) continue
      const seq = String(index).padStart(6, '0')
      const bad = [...(row?.bad ?? [])]
      const cells = COLUMNS.map(({ name }) =>
        name === 'id'
          ? id
          : row === null || bad.includes(name as Name)
            ? null
            : name === 'at'
              ? row.at
              : row.values[name as Name],
      )
      const mark = bad.length === 0 ? null : this.markOf(bad)
      if (bad.length === 0 || marks) {
        const line = [row === null ? 'd' : 'u', seq, null, null, ...cells, ...(marks ? [mark] : [])]
        const text = line.map((cell) => (cell === null ? '' : `"${String(cell).replaceAll('"', '""')}"`)).join(',')
        yield { kind: 'rows', stream: 0, chunk: Buffer.from(`${text}\n`), rows: 1 }
      }
      for (const column of marks ? bad : bad.slice(0, 1)) {
        const about = { reason: 'it is odd', column, key: { id: String(id) }, raw: '?' }
        yield { kind: 'reject', stream: 0, seq, ...about, ...(marks ? { carried: true } : {}) }
      }
    }
    yield { kind: 'checkpoint', position: place(this.log.length), sourceTime: null }
  }

  async *#read({ columns, mode, state, optional = [], marked }: ReadRequest): AsyncGenerator<ReadEvent> {
    const isKeys = columns.length > 0
    const marks = this.marks && marked !== undefined
    const may = new Set([...optional, ...(marks ? marked : [])])
    const from = mode === 'incremental' && state !== null ? Number(state.value['at']) : 0
    if (!isKeys && from === 0) this.wholeReads += 1
    const chosen = COLUMNS.filter(({ name }) => !isKeys || columns.includes(name))
    const schema = { columns: chosen, primaryKey: ['id'] }
    yield { kind: 'schema', schema, whole: from === 0, ...(marks ? { marks } : {}) }
    const rows: Row[] = []
    for (const [id, { values, bad, at }] of this.rows) {
      if (at <= from) continue
      const isCarried = isKeys || [...bad].every((name) => may.has(name))
      const cell = (name: string) =>
        name === 'id' ? id : name === 'at' ? at : bad.has(name as Name) ? null : values[name as Name]
      const mark = bad.size === 0 ? null : this.markOf([...bad])
      if (isCarried) rows.push([...chosen.map(({ name }) => cell(name)), ...(marks ? [mark] : [])])
      for (const column of isKeys ? [] : isCarried ? bad : [...bad].slice(0, 1)) {
        yield { kind: 'reject', reason: 'it is odd', column, key: { id: String(id) }, raw: '?', carried: isCarried }
      }
    }
    yield { kind: 'batch', batch: batchFromRows(rows, chosen.length + (marks ? 1 : 0)) }
    const next: ConnectorState = { version: 1, value: { at: this.clock } }
    yield { kind: 'state', state: next, rows: rows.length }
  }
}

type Mode = 'full' | 'incremental' | 'cdc'

interface Wanted {
  /** What inputs.yaml lists; null: nothing, and so all. */
  columns: readonly string[] | null
  engine?: 'distributed'
  maxRejected?: { readonly percent: number; readonly rows: number }
}

async function follow(products: Record<string, Wanted>) {
  worlds += 1
  const name = `db${worlds}`
  const connection = await inTransaction(lake.pool, (tx) =>
    createConnection(tx, { tenant: TENANT, name, connectorType: 'postgresql', config: {}, createdBy: ANN }),
  )
  const source = new Source()
  const ref = rawTable(TENANT, name, 'public.t')
  const manifestsOf = ({ columns, engine, maxRejected = { percent: 100, rows: 0 } }: Wanted, mode: Mode) =>
    ({
      inputs: [
        {
          ...{ name: 'source', connection: name, table: 'public.t', mode, cursorColumn: null, primaryKey: [], columns },
          ...{ where: null, onSchemaChange: 'evolve', deletes: 'key_sweep' },
        },
      ],
      output: { columns: [] },
      quality: { checks: [], maxRejected },
      compute: { trigger: 'manual', transform: 'SELECT * FROM source', engine: engine ?? 'embedded' },
    }) as unknown as ManifestSet
  const signal = AbortSignal.timeout(600_000)
  const world = {
    source,
    ref,
    async sync(mode: Mode): Promise<readonly string[]> {
      const run = { tenant: TENANT, kind: 'ingestion', connectionId: connection.id, trigger: 'manual' } as const
      await enqueueRun(lake.pool, { ...run, createdBy: ANN })
      const claimed = await claimRun(lake.pool, { workerId: 'w', leaseMs: 3_600_000 })
      assert.ok(claimed)
      const { lease } = claimed
      const all = Object.values(products).map((one) => ({ product: {} as Product, manifests: manifestsOf(one, mode) }))
      try {
        await runIngestion({ connection, lease, signal, toTransforms: async () => {} }, {
          ...{ pool: lake.pool, masters, lake: lake.lake, limits: LIMITS, readsAtOneMoment: () => true },
          scratchDirectory: lake.dir,
          faultPoint: async () => undefined,
          openConnector: async () => source.connector,
          productsOf: async () => all,
          checkStorage: async () => ({ bytes: 1e9, exceeded: () => new Error('too much') }),
        } as unknown as IngestionDeps)
      } finally {
        await finishRun(lake.pool, lease, { state: 'succeeded', result: {} })
      }
      return (await runLog(lake.pool, lease.runId)).map(({ message }) => message)
    },
    async inputOf(product: string) {
      const manifests = manifestsOf(products[product] as Wanted, 'full')
      const directory = join(lake.dir, `made-${worlds}-${product}-${Math.random()}`)
      await mkdir(directory)
      const deps = { engine: lake.engine, ownLimits: LIMITS, limits: LIMITS, directory, signal, tenant: TENANT }
      const read = await readInputs({ tenant: TENANT } as Product, manifests, signal, {
        pool: lake.pool,
        lake: lake.lake,
        upstreamOf: noProducts,
      })
      const inputs = await withoutMarkedRows(read, manifests, deps)
      return { inputs, manifests, deps: { ...deps, distributed: null } }
    },
    /** What the product is made of, in order of `id`. */
    async made(product: string): Promise<readonly Row[]> {
      const { inputs } = await world.inputOf(product)
      const { columns } = products[product] as Wanted
      const [{ state }] = inputs as [InputState]
      const names = COLUMNS.filter(({ name }) => columns?.includes(name) ?? true).map(({ name }) => quoteName(name))
      const [rows = []] = await collect(lake.engine, [stateTable('t', state)], [`SELECT ${names} FROM t ORDER BY id`])
      assert.equal(state.rowCount, rows.length)
      return rows
    },
    /** The same by its transform, which runs behind walls. */
    async transformed(product: string): Promise<readonly Row[]> {
      const { inputs, manifests, deps } = await world.inputOf(product)
      const { columns } = products[product] as Wanted
      const schema = { columns: COLUMNS.filter(({ name }) => columns?.includes(name) ?? true), primaryKey: ['id'] }
      const staged = await transformRows(inputs, manifests, schema, deps)
      const [rows = []] = await collect(lake.engine, [stagedTable('t', staged)], ['SELECT * FROM t ORDER BY id'])
      return rows
    },
    expected(product: string): readonly Row[] {
      const { columns } = products[product] as Wanted
      const names = COLUMNS.map(({ name }) => name).filter((one) => columns?.includes(one) ?? true)
      return [...source.rows]
        .filter(([, { bad }]) => ![...bad].some((one) => names.includes(one)))
        .toSorted(([one], [other]) => one - other)
        .map(([id, { values, at }]) =>
          names.map((one) => (one === 'id' ? id : one === 'at' ? at : values[one as Name])),
        )
    },
    async isAsExpected(about: string): Promise<void> {
      for (const product of Object.keys(products)) {
        assert.deepEqual(await world.made(product), world.expected(product), `${about}, ${product}`)
      }
    },
  }
  return world
}

const LEFT = ['id', 'a'] as const
const RIGHT = ['id', 'b"c'] as const

for (const mode of ['full', 'incremental', 'cdc'] as const) {
  test(`of a row with values that cannot be carried, ${mode} reads give each product what it uses, or nothing`, async () => {
    const products: Record<string, Wanted> = {
      left: { columns: LEFT },
      right: { columns: RIGHT },
      all: { columns: null },
    }
    const world = await follow(products)
    const { source } = world
    const random = randomFrom({ full: 7, incremental: 11, cdc: 13 }[mode])
    const text = () => (random(4) === 0 ? null : `v"${random(1000)}`)
    const change = (id: number) => {
      const bad = random(2) === 0 ? [] : VALUES.filter(() => random(3) === 0)
      source.put(id, { a: text(), 'b"c': text(), d: text() }, bad)
    }
    for (let id = 1; id <= 40; id += 1) change(id)
    for (let step = 0; step < 4; step += 1) {
      await world.sync(mode)
      await world.isAsExpected(`step ${step}`)
      if (step === 2) {
        const limits = { minFiles: 1, limits: LIMITS }
        const staged = await lake.lake.stageCompaction(world.ref, limits, AbortSignal.timeout(600_000))
        // What a log was merged into may lie in one file already.
        assert.ok(staged !== null || mode === 'cdc', 'nothing was compacted')
        await lake.publish(staged === null ? [] : [staged])
        await world.isAsExpected('compacted')
        assert.deepEqual(await world.transformed('left'), world.expected('left'))
      }
      // Broken ones are mended, and whole ones break; some go, some come.
      for (let times = 0; times < 8; times += 1) change(1 + random(50))
      for (let times = 0; times < 3; times += 1) source.remove(1 + random(50))
      // Another version of a product uses what nobody but `all` has used, and then not even that.
      if (step === 1) products['left'] = { columns: ['id', 'd'] }
      if (step === 2) delete products['all']
    }
    assert.equal(source.wholeReads, mode === 'full' ? 4 : 1)
    const scan = await lake.lake.scan(world.ref)
    assert.deepEqual(
      scan.schema.fields.map(({ name }) => name),
      COLUMNS.map(({ name }) => name),
    )
  })
}

test('rows that a connector of before has left out come once it marks, and go on being kept from those who use the values', async () => {
  const world = await follow({ left: { columns: LEFT }, right: { columns: RIGHT } })
  const { source } = world
  source.marks = false
  source.put(1, { a: 'x', 'b"c': 'x', d: 'x' }, ['a'])
  source.put(2, { a: 'y', 'b"c': 'y', d: 'y' }, ['d'])
  source.put(3, { a: 'z', 'b"c': 'z', d: 'z' }, [])
  await world.sync('incremental')
  assert.deepEqual(await world.made('right'), [
    [2, 'y'],
    [3, 'z'],
  ])
  source.marks = true
  await world.sync('incremental')
  await world.isAsExpected('read with marks')
  assert.equal(source.wholeReads, 2)
  source.marks = false
  source.put(4, { a: 'u', 'b"c': 'u', d: 'u' }, [])
  await world.sync('incremental')
  assert.equal(source.wholeReads, 2)
  await world.isAsExpected('marks of before stay when the connector of before comes back')
})

test('what another product lacks is counted for nobody else, and no product is held up by the limit of another', async () => {
  const products: Record<string, Wanted> = { left: { columns: LEFT }, right: { columns: RIGHT } }
  const world = await follow(products)
  for (let id = 1; id <= 120; id += 1) {
    world.source.put(id, { a: 'x', 'b"c': 'x', d: 'x' }, id <= 101 ? ['a'] : [])
  }
  products['left'] = { columns: LEFT, maxRejected: { percent: 0.1, rows: 101 } }
  products['right'] = { columns: RIGHT, maxRejected: { percent: 0.1, rows: 0 } }
  const log = await world.sync('full')
  assert.ok(log.includes('public.t: 101 rows came without a, and are left out of products that use it'), log.join('\n'))
  const told = async (product: string) => (await world.inputOf(product)).inputs.map(carriedInput)
  const input = { connection: `db${worlds}`, table: 'public.t' }
  const tell = async (product: string) =>
    (await told(product)).map(({ input: { connection, table }, columns, rejected }) => ({
      ...{ input: { connection, table }, columns, rejected },
    }))
  assert.deepEqual(await tell('left'), [{ input, columns: LEFT, rejected: 101 }])
  assert.deepEqual(await tell('right'), [{ input, columns: RIGHT, rejected: 0 }])
  products['left'] = { columns: LEFT, maxRejected: { percent: 0.1, rows: 100 } }
  await assert.rejects(world.inputOf('left'), {
    code: 'too_many_rejected',
    message:
      'more than 0.1 % and more than 100 rows of the input "source" have no value that can be carried of a column which the product uses',
  })
  assert.equal((await world.made('right')).length, 120)
})

test('of a mark that says nothing, no product that uses a marked column takes the row', async () => {
  const world = await follow({ left: { columns: LEFT }, right: { columns: RIGHT } })
  for (const [at, mark] of ['no JSON', '{"a":1}', '"a"', '7'].entries()) {
    world.source.markOf = () => mark
    world.source.put(1, { a: 'x', 'b"c': 'x', d: 'x' }, ['a'])
    world.source.put(2, { a: 'y', 'b"c': 'y', d: 'y' }, [])
    await world.sync(at === 0 ? 'full' : 'incremental')
    await world.isAsExpected(mark)
  }
})

test('a product that is made in Trino, which reads no marks, gets no row that lacks what it uses', async () => {
  const products: Record<string, Wanted> = { left: { columns: LEFT }, right: { columns: RIGHT } }
  const world = await follow(products)
  world.source.put(1, { a: 'x', 'b"c': 'x', d: 'x' }, ['b"c'])
  world.source.put(2, { a: 'y', 'b"c': 'y', d: 'y' }, ['a'])
  await world.sync('incremental')
  products['right'] = { columns: RIGHT, engine: 'distributed' }
  await assert.rejects(world.inputOf('right'), { code: 'input_not_ingested' })
  await world.sync('incremental')
  assert.deepEqual(await world.made('left'), [], 'the row without the other column costs all')
  const [input] = (await world.inputOf('right')).inputs
  assert.deepEqual([input?.state.rowCount, input?.state.deletes, world.source.wholeReads], [1, undefined, 2])
  products['right'] = { columns: RIGHT }
  await world.sync('incremental')
  await world.isAsExpected('it comes back once nothing is made in Trino')
})

test('a log brings rows without values only where all products of the table heed it, and none is lost when that changes', async () => {
  const products: Record<string, Wanted> = { left: { columns: LEFT }, right: { columns: RIGHT } }
  const world = await follow(products)
  const { source } = world
  const put = (id: number, bad: readonly Name[]) => source.put(id, { a: 'x', 'b"c': 'y', d: 'z' }, bad)
  put(1, ['a'])
  await world.sync('cdc')
  put(2, ['b"c'])
  put(3, ['a', 'd'])
  const log = await world.sync('cdc')
  await world.isAsExpected('read on by the log')
  assert.equal(source.wholeReads, 1)
  const told = 'public.t: 1 changed rows came without a, and are left out of products that use it'
  assert.ok(log.includes(told), log.join('\n'))
  products['right'] = { columns: RIGHT, engine: 'distributed' }
  await assert.rejects(world.inputOf('right'), { code: 'input_not_ingested' })
  await world.sync('cdc')
  assert.deepEqual(await world.made('right'), [], 'each row lacks a value')
  put(4, [])
  put(5, ['a'])
  await world.sync('cdc')
  assert.deepEqual(await world.made('right'), [[4, 'y']])
  assert.equal(source.wholeReads, 2)
  put(6, ['a'])
  await world.sync('cdc')
  assert.equal(source.wholeReads, 2)
  products['right'] = { columns: RIGHT }
  await world.sync('cdc')
  assert.equal(source.wholeReads, 3)
  await world.isAsExpected('it is read whole once all heed marks')
  await world.sync('cdc')
  put(1, [])
  put(2, ['d'])
  await world.sync('cdc')
  assert.equal(source.wholeReads, 3)
  await world.isAsExpected('a value that came is lacked no more')
})

test('a table is not read again and again for the sake of a log whose connector gives no marks', async () => {
  const world = await follow({ left: { columns: LEFT }, right: { columns: RIGHT } })
  const { source } = world
  source.marks = false
  source.put(1, { a: 'x', 'b"c': 'y', d: 'z' }, ['a'])
  await world.sync('cdc')
  source.put(2, { a: 'x', 'b"c': 'y', d: 'z' }, ['a'])
  source.put(3, { a: 'x', 'b"c': 'y', d: 'z' }, [])
  for (let times = 0; times < 2; times += 1) await world.sync('cdc')
  assert.equal(source.wholeReads, 1)
  assert.deepEqual(await world.made('right'), [[3, 'y']], 'a row that cannot be carried costs all')
})
