/**
 * Datasets that move between tables, are dropped and made anew under their name, by one store or another over the same server,
 * while both remember where they lay. What is right says a model of the rows in memory.
 */
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import {
  isJsonBatch,
  isSluiceError,
  type LogicalType,
  openTenantScope,
  type ReadBatch,
  type ReadPlan,
  type ReadPolicy,
  type Row,
  type RowPredicate,
  rowPasses,
  rowsOf,
  type ServingStore,
  type TableSchema,
  type Target,
  type Value,
} from '@sluice/sdk'
import fc from 'fast-check'
import { type PostgresFixture, startPostgres } from '../row-secured-postgresql/fixture.ts'
import { changeSet, commitOf, planOf, readAll, testHost } from '../row-secured-postgresql/test-data.ts'
import type { LookupConfig } from './config.ts'
import lookup from './index.ts'

const SEED = Number(process.env['SLUICE_TEST_SEED'] ?? Math.floor(Math.random() * 2 ** 31))

const TENANTS = ['alpha', 'beta', 'gamma']
const PRODUCTS = ['one', 'two']

/** Tables of the same names: some are the former one grown, some are others, and columns change their type between them. */
const SHAPES: readonly Readonly<Record<string, LogicalType>>[] = [
  { k: 'integer', owner: 'string', a: 'string' },
  { k: 'integer', owner: 'string', a: 'string', b: 'string' },
  { k: 'long', owner: 'string', a: 'string' },
  { k: 'integer', owner: 'string', a: 'integer' },
  { k: 'integer', owner: 'string', a: 'long', b: 'string' },
  { k: 'integer', owner: 'string', a: 'boolean' },
  { k: 'integer', owner: 'string', a: 'decimal(38,0)' },
  { k: 'integer', owner: 'string', a: 'double' },
  { k: 'integer', owner: 'string', a: 'timestamptz', b: 'binary' },
  { k: 'integer', owner: 'string' },
  { k: 'string', owner: 'string', a: 'string' },
]

/** Whether rows of the one stay where it becomes the other. */
function isGrown(from: number, to: number): boolean {
  const [was, is] = [SHAPES[from] ?? {}, SHAPES[to] ?? {}]
  return Object.entries(was).every(([name, type]) => is[name] === type || (type === 'integer' && is[name] === 'long'))
}

const VALUES: Readonly<Record<string, readonly NonNullable<Value>[]>> = {
  string: ['', 'text', '1'],
  integer: [0, 7],
  long: [1n, 9007199254740993n],
  boolean: [true, false],
  'decimal(38,0)': ['0', '99999999999999999999999999999999999999'],
  double: [0.5, 1e300],
  timestamptz: ['2026-01-01T00:00:00.000001Z'],
  binary: [new Uint8Array([0, 255])],
}

const KEYS = [1, 2, 3, 4]

const schemas = SHAPES.map((shape): TableSchema => {
  const columns = Object.entries(shape).map(([name, type]) => ({ name, type, nullable: name !== 'k' }))
  return { columns, primaryKey: ['k'] }
})

const PREDICATES: readonly RowPredicate[] = [
  { op: 'all' },
  { op: 'none' },
  { op: 'eq', column: 'owner', value: { claim: 'owner' } },
]

type LookupTarget = Target<LookupConfig>

let fixture: PostgresFixture
/** As two processes have them. */
let stores: readonly ServingStore<LookupConfig>[] = []

before(async () => {
  fixture = await startPostgres()
  stores = await Promise.all([0, 1].map(() => lookup.open(fixture.settings, testHost())))
})

after(async () => {
  for (const store of stores) await store.close()
  await fixture?.stop()
})

/** What a tenant has of a product. */
interface Dataset {
  readonly tenant: string
  readonly product: string
  /** One for each shape: whoever reads holds on to what he has been given. */
  readonly targets: readonly LookupTarget[]
  readonly policies: readonly (readonly ReadPolicy[])[]
  /** Which shape its table has; null: it has none. */
  shape: number | null
  hasPolicy: boolean
  epoch: number | null
  rows: Map<string, Row>
}

/** Stands in each of its rows. */
function ownerOf({ tenant, product }: Pick<Dataset, 'tenant' | 'product'>): string {
  return `${tenant}/${product}`
}

function datasetOf(tenant: string, product: string): Dataset {
  const scope = openTenantScope(tenant)
  const targets = schemas.map((schema): LookupTarget => {
    return { scope, domain: 'moving', product, variant: 'clear', schema, config: {} }
  })
  const policies = schemas.map(({ columns }) => {
    const visibleColumns = columns.map(({ name }) => name)
    const claims = { owner: ownerOf({ tenant, product }) }
    return PREDICATES.map((rows): ReadPolicy => ({ version: '1', rows, claims, visibleColumns, maskedColumns: [] }))
  })
  return { tenant, product, targets, policies, shape: null, hasPolicy: false, epoch: null, rows: new Map() }
}

interface Asked {
  readonly of: Dataset
  /** Of the reader, who may not have heard of another one yet. */
  readonly shape: number
  readonly policy: ReadPolicy
  /** Null: all of them. */
  readonly key: number | null
  readonly encoding: ReadPlan['encoding']
}

function keyOf(type: LogicalType | undefined, key: number): NonNullable<Value> {
  if (type === 'long') return BigInt(key)
  return type === 'string' ? String(key) : key
}

const shown = (value: Value): string =>
  value instanceof Uint8Array ? Buffer.from(value).toString('base64') : String(value)

function planFor({ of, shape, policy, key, encoding }: Asked): ReadPlan {
  const value = key === null ? null : keyOf(SHAPES[shape]?.['k'], key)
  const filters = value === null ? [] : [{ column: 'k', operator: 'eq' as const, values: [value] }]
  const operation = key === null ? 'scan' : 'get'
  const columns = policy.visibleColumns
  const target = of.targets[shape] as LookupTarget
  return planOf(target, { operation, policy, columns, filters, encoding, timeoutMs: 300_000 })
}

/** The answer, or the code of the refusal. */
async function read(store: ServingStore<LookupConfig>, asked: Asked): Promise<ReadBatch | string> {
  const target = asked.of.targets[asked.shape] as LookupTarget
  try {
    const batch = await readAll(store, target, planFor(asked))
    assert.equal(batch.epoch, asked.of.epoch)
    return batch
  } catch (error) {
    if (!isSluiceError(error)) throw error
    return error.code
  }
}

/** Each row as text, in the order of their keys. */
function told(batch: ReadBatch | string, { policy: { visibleColumns } }: Asked): readonly string[] | string {
  if (typeof batch === 'string') return batch
  const rows = isJsonBatch(batch)
    ? (JSON.parse(batch.json) as Record<string, Value>[]).map((row) => visibleColumns.map((name) => row[name] ?? null))
    : [...rowsOf(batch)]
  return rows.map((row) => row.map(shown).join('|')).sort()
}

function expected({ of, shape, policy, key }: Asked): readonly string[] | string {
  if (of.shape === null || of.epoch === null) return 'not_materialized'
  const schema = schemas[of.shape] as TableSchema
  if (!of.hasPolicy) return []
  const asked = [...of.rows].filter(([found]) => key === null || found === String(key)).map(([, row]) => row)
  const passing = asked.filter((row) => rowPasses(policy.rows, schema, row, policy.claims))
  assert.equal(shape, of.shape)
  return passing.map((row) => row.map(shown).join('|')).sort()
}

test('datasets are read where they are, as they are, by whatever store they came there', async (t) => {
  t.diagnostic(`seed ${SEED}`)
  const numbers = fc.sample(fc.nat(), { numRuns: 100_000, seed: SEED })
  const pick = <T>(items: readonly T[]): T => items[(numbers.pop() as number) % items.length] as T
  const datasets = TENANTS.flatMap((tenant) => PRODUCTS.map((product) => datasetOf(tenant, product)))
  const indexes = SHAPES.map((_, index) => index)

  const rowsFor = (of: Dataset, shape: number): readonly Row[] =>
    KEYS.filter(() => pick([true, true, false])).map((key) =>
      Object.entries(SHAPES[shape] ?? {}).map(([name, type]) => {
        if (name === 'k') return keyOf(type, key)
        return name === 'owner' ? ownerOf(of) : pick([null, ...(VALUES[type] ?? [])])
      }),
    )

  async function write(store: ServingStore<LookupConfig>, of: Dataset, shape: number): Promise<void> {
    const rows = rowsFor(of, shape)
    const mode = of.epoch === null ? 'full' : pick(['full', 'delta'] as const)
    const epoch = (of.epoch ?? 0) + 1
    const commit = commitOf(epoch, mode === 'full' ? null : of.epoch)
    await store.write(of.targets[shape] as LookupTarget, changeSet(schemas[shape] as TableSchema, mode, rows), commit)
    if (mode === 'full') of.rows.clear()
    for (const row of rows) of.rows.set(String(row[0]), row)
    of.epoch = epoch
  }

  /** Keeps the rows where the store says that they fit, and else begins anew. */
  async function move(store: ServingStore<LookupConfig>, of: Dataset, shape: number): Promise<'kept' | 'new'> {
    const target = of.targets[shape] as LookupTarget
    const isKept = await store.provision(target, 'apply').then(
      () => of.shape !== null,
      async (error) => {
        assert.equal(error.code, 'schema_conflict')
        await drop(store, of)
        await store.provision(target, 'apply')
        return false
      },
    )
    const was = of.shape === null ? [] : Object.keys(SHAPES[of.shape] ?? {})
    const rows = isKept ? [...of.rows] : []
    of.rows = new Map(
      rows.map(([key, row]) => {
        const cells = Object.entries(SHAPES[shape] ?? {}).map(([name, type]) => {
          const value = row[was.indexOf(name)] ?? null
          return type === 'long' && typeof value === 'number' ? BigInt(value) : value
        })
        return [key, cells]
      }),
    )
    of.shape = shape
    return isKept ? 'kept' : 'new'
  }

  async function drop(store: ServingStore<LookupConfig>, of: Dataset): Promise<void> {
    await store.drop(of.targets[of.shape ?? 0] as LookupTarget, 'apply')
    Object.assign(of, { shape: null, epoch: null, hasPolicy: false, rows: new Map() })
  }

  const moves = { kept: 0, new: 0 }
  const refusals = new Set<string>()
  for (let round = 0; round < 40; round += 1) {
    const of = pick(datasets)
    const store = pick(stores)
    const change = pick(['move', 'move', 'move', 'write', 'drop', 'unwritten', 'no policy'])
    if (change === 'drop' || change === 'no policy') await drop(store, of)
    if (change === 'write' && of.shape !== null) await write(store, of, of.shape)
    else if (change !== 'drop') {
      const grown = indexes.filter((index) => of.shape !== null && isGrown(of.shape, index))
      const shape = pick([pick(indexes), pick(grown) ?? pick(indexes)])
      moves[await move(store, of, shape)] += 1
      if (change !== 'no policy') {
        await store.rls.install(of.targets[shape] as LookupTarget, { version: '1', tenantIsolation: 'forced' })
        of.hasPolicy = true
      }
      if (change !== 'unwritten' || of.rows.size > 0) await write(store, of, shape)
    }
    const asked = [of, of, ...datasets].flatMap((one): Asked[] => {
      const shape = one.shape ?? pick(indexes)
      const policy = pick(one.policies[shape] ?? [])
      const encoding = pick(['json', 'json', 'columns'] as const)
      return [null, ...KEYS].map((key) => ({ of: one, shape, policy, key, encoding }))
    })
    const found = await Promise.all(asked.map(async (one) => await Promise.all(stores.map((by) => read(by, one)))))
    for (const [index, one] of asked.entries()) {
      const what = `round ${round}, ${change} of ${of.tenant}/${of.product}; ${one.of.tenant}/${one.of.product}, key ${one.key}`
      for (const batch of found[index] ?? []) assert.deepEqual(told(batch, one), expected(one), what)
    }
    // Who has not heard yet of what the table is by now is refused, or has rows of the dataset's own.
    const others = datasets.filter((one) => one !== of).map(ownerOf)
    for (const shape of indexes) {
      const policy = pick(of.policies[shape] ?? [])
      const stale: Asked = { of, shape, policy, key: pick([null, ...KEYS]), encoding: 'json' }
      for (const by of stores) {
        const batch = await read(by, stale)
        if (typeof batch === 'string') {
          refusals.add(batch)
          assert.match(batch, /^(not_materialized|schema_conflict)$/)
          continue
        }
        assert.ok(isJsonBatch(batch))
        for (const owner of others) assert.ok(!batch.json.includes(owner), `${owner} in what ${ownerOf(of)} has`)
      }
    }
  }
  t.diagnostic(`${moves.kept} kept their rows, ${moves.new} did not; refused as ${[...refusals].join(', ')}`)
  assert.ok(moves.kept > 0 && moves.new > 0)
})
