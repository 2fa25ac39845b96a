/** Tables damaged by hand beside those of another tenant: what is gone is said to be gone, and what stands is believed. */
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { isSluiceError, type ServingStore, type Target } from '@sluice/sdk'
import pg from 'pg'
import type { PostgresFixture } from '../row-secured-postgresql/fixture.ts'
import { parseLogin } from '../row-secured-postgresql/index.ts'
import { changeSet, commitOf, planOf, rowsRead } from '../row-secured-postgresql/test-data.ts'
import type { LookupConfig } from './config.ts'
import { fillIn, type Opened, openLookup, schema, target } from './tenants.fixture.ts'

let opened: Opened
let fixture: PostgresFixture
let store: ServingStore<LookupConfig>

before(async () => {
  opened = await openLookup()
  fixture = opened.fixture
  store = opened.store
})

after(async () => {
  await opened?.stop()
})

const TENANTS = ['alpha', 'beta'] as const

const fill = (of: Target<LookupConfig>, owner: string) => fillIn(store, of, owner)

async function partitionOf(tenant: string, product: string): Promise<string> {
  const [line] = await fixture.admin(
    'select partition from sluice_store.datasets where tenant_id = $1 and product = $2',
    [tenant, product],
  )
  return `sluice_partitions.${line?.partition}`
}

const point = { filters: [{ column: 'id', operator: 'eq' as const, values: [2n] }] }

/** The owners of the rows by each way of reading, or what reading is refused with. */
async function reads(of: Target<LookupConfig>): Promise<readonly string[]> {
  const [scan, lookup] = [planOf(of, { operation: 'scan' }), planOf(of, point)]
  const several = Array.from({ length: 12 }, () => lookup)
  return await Promise.all(
    [scan, lookup, ...several].map((plan) =>
      rowsRead(store, of, plan).then(
        (rows) => (rows.length === 0 ? 'no rows' : [...new Set(rows.map((row) => String(row.owner)))].join()),
        (error) => (isSluiceError(error) ? error.code : String(error)),
      ),
    ),
  )
}

const seen = async (of: Target<LookupConfig>) => [...new Set(await reads(of))].sort().join()

/** By the login that the store's tables belong to. */
async function byHand(statements: string): Promise<void> {
  const owner = new pg.Client(parseLogin('owner', fixture.settings.owner).config)
  await owner.connect()
  await owner.query(statements).finally(() => owner.end())
}

/** What an operator does to the tables of alpha, of which the second tenant's may be part; `both` are lost by it. */
const DAMAGES: readonly {
  readonly what: string
  readonly both: boolean
  readonly by: (own: string, parent: string) => string
}[] = [
  { what: 'the partition dropped', both: false, by: (own) => `drop table ${own}` },
  { what: 'the partition detached', both: false, by: (own, parent) => `alter table ${parent} detach partition ${own}` },
  {
    what: 'the partition made anew, empty',
    both: false,
    by: (own, parent) => `drop table ${own}; create table ${own} partition of ${parent} for values in ('alpha')`,
  },
  {
    what: 'the partition moved below another parent',
    both: false,
    by: (own, parent) => `alter table ${parent} detach partition ${own};
      create table sales.elsewhere (like ${parent}, constraint tenant_named check (tenant_id <> '')) partition by list (tenant_id);
      alter table sales.elsewhere attach partition ${own} for values in ('alpha')`,
  },
  {
    what: 'the wall of the partition taken away',
    both: false,
    by: (own) => `alter table ${own} no force row level security`,
  },
  { what: 'the partition emptied', both: false, by: (own) => `truncate ${own}` },
  {
    what: 'the partition emptied, and filled with other rows',
    both: false,
    by: (own) => `set app.tenant_id = 'alpha'; create temp table kept as select * from ${own};
      truncate ${own}; insert into ${own} select * from kept limit 1`,
  },
  { what: 'the parent emptied', both: true, by: (_, parent) => `truncate ${parent}` },
  { what: 'the parent dropped', both: true, by: (_, parent) => `drop table ${parent} cascade` },
  {
    what: 'the parent made anew, empty',
    both: true,
    by: (_, parent) => `create table sales.kept (like ${parent} including all); drop table ${parent} cascade;
      create table ${parent} (like sales.kept including all) partition by list (tenant_id);
      drop table sales.kept; grant select on ${parent} to public`,
  },
]

for (const [index, { what, both, by }] of DAMAGES.entries()) {
  test(`${what}: readers are refused, the store says what it lost, and nothing else is taken`, async () => {
    const product = `damaged${index}`
    const [alpha, beta] = TENANTS.map((tenant) => target(tenant, product)) as [
      Target<LookupConfig>,
      Target<LookupConfig>,
    ]
    await fill(alpha, 'alpha')
    await fill(beta, 'beta')
    assert.deepEqual([await seen(alpha), await seen(beta)], ['alpha', 'beta'])
    const beside = await partitionOf('beta', product)
    await byHand(by(await partitionOf('alpha', product), `sales.${product}`))
    const lost = both ? [alpha, beta] : [alpha]
    for (const one of lost) {
      assert.match(await seen(one), /^(schema_conflict|not_materialized)(,schema_conflict)?$/)
      assert.equal(await store.recover?.(one), null)
      await assert.rejects(Promise.resolve(store.rls.describe(one)), { code: 'policy_missing' })
      await assert.rejects(store.digest?.(one, new AbortController().signal) ?? Promise.resolve(), isSluiceError)
      await assert.rejects(store.provision(one, 'apply'), { code: 'schema_conflict' })
      const nothing = changeSet(schema, 'delta', [])
      await assert.rejects(store.write(one, nothing, commitOf(2, 1)), { code: 'schema_conflict' })
    }
    // As what brings stores up to date does where a place cannot be kept.
    await store.drop(alpha, 'apply')
    if (!both) {
      assert.deepEqual([await seen(beta), (await store.recover?.(beta))?.epoch], ['beta', 1])
      assert.deepEqual((await store.provision(beta, 'apply')).steps, [])
    }
    await fill(alpha, 'alpha')
    assert.equal(await seen(alpha), 'alpha')
    if (both) {
      // Its neighbour stands again, and what the tenant has lost is lost to it still.
      assert.match(await seen(beta), /^(schema_conflict|not_materialized)(,schema_conflict)?$/)
      assert.equal(await store.recover?.(beta), null)
      await store.drop(beta, 'apply')
      await fill(beta, 'beta')
    } else assert.equal(await partitionOf('beta', product), beside)
    assert.deepEqual([await seen(alpha), await seen(beta)], ['alpha', 'beta'])
  })
}

/** What an operator does to tables for their good, or takes back. */
const CARE: Readonly<Record<string, (own: string, parent: string) => string>> = {
  'vacuum full': (own) => `vacuum full ${own}`,
  cluster: (own) => `cluster ${own} using kept`,
  reindex: (_, parent) => `reindex table ${parent}`,
  analyze: (_, parent) => `analyze ${parent}`,
  'another fill factor': (own) => `alter table ${own} set (fillfactor = 70)`,
  'an emptying that is taken back': (own) => `begin; truncate ${own}; rollback`,
}

test('tables that are tended to are believed', async () => {
  const alpha = target('alpha', 'tended')
  await fill(alpha, 'alpha')
  const own = await partitionOf('alpha', 'tended')
  await byHand(`create index kept on ${own} (tenant_id)`)
  for (const [what, by] of Object.entries(CARE)) {
    await byHand(by(own, 'sales.tended'))
    assert.deepEqual([await seen(alpha), (await store.recover?.(alpha))?.epoch], ['alpha', 1], what)
  }
})

test('a partition of an earlier release is watched from when it is provisioned', async () => {
  const alpha = target('alpha', 'earlier')
  await fill(alpha, 'alpha')
  const own = await partitionOf('alpha', 'earlier')
  await byHand(`drop trigger sluice_truncation on ${own}`)
  await store.provision(alpha, 'apply')
  await byHand(`truncate ${own}`)
  assert.equal(await seen(alpha), 'schema_conflict')
  assert.equal(await store.recover?.(alpha), null)
  await store.drop(alpha, 'apply')
  const left = await fixture.admin('select from pg_class where oid = to_regclass($1)', [own])
  assert.equal(left.length, 0, 'its table is removed with it')
})

test('rows that are gone from a table in its place show in the digest, by which copies are compared', async () => {
  const signal = new AbortController().signal
  const [alpha, beta] = [target('alpha', 'emptied'), target('beta', 'emptied')]
  await fill(alpha, 'alpha')
  await fill(beta, 'beta')
  const before = await store.digest?.(beta, signal)
  await byHand(`set app.tenant_id = 'alpha'; delete from ${await partitionOf('alpha', 'emptied')}`)
  assert.equal((await store.digest?.(alpha, signal))?.rowCount, 0)
  assert.deepEqual(await store.digest?.(beta, signal), before)
})
