import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { openTenantScope, type ServingStore, type TableSchema, type Target } from '@sluice/sdk'
import pg from 'pg'
import { type PostgresFixture, startPostgres } from '../row-secured-postgresql/fixture.ts'
import { parseLogin } from '../row-secured-postgresql/index.ts'
import { changeSet, commitOf, planOf, provide, rowsRead, testHost } from '../row-secured-postgresql/test-data.ts'
import type { LookupConfig } from './config.ts'
import lookup from './index.ts'
import { fillIn, type Opened, openLookup, schema, target } from './tenants.fixture.ts'

const wider: TableSchema = { ...schema, columns: [...schema.columns, { name: 'extra', type: 'date', nullable: true }] }

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

const fill = (of: Target<LookupConfig>, owner: string, rows?: number) => fillIn(store, of, owner, rows)

const byId = (id: bigint) => ({ filters: [{ column: 'id', operator: 'eq' as const, values: [id] }] })

async function owners(of: Target<LookupConfig>): Promise<unknown[]> {
  return (await rowsRead(store, of, planOf(of, { operation: 'scan' }))).map((row) => row.owner)
}

/** Relations of the parents of a product, with the number of their partitions. */
async function parents(product: string): Promise<Record<string, number>> {
  const rows = await fixture.admin(
    `select c.relname, count(i.inhrelid)::int as parts from pg_class c left join pg_inherits i on i.inhparent = c.oid
      where c.relkind = 'p' and c.relname like $1 || '%' group by 1`,
    [product],
  )
  return Object.fromEntries(rows.map((row) => [row.relname, row.parts]))
}

test('tenants of one shape share a parent, others get a sibling, and nobody can tell', async () => {
  const alone = await store.provision(target('alpha', 'shared'), 'plan')
  await fill(target('alpha', 'shared'), 'alpha')
  assert.deepEqual(await store.provision(target('beta', 'shared'), 'plan'), alone)
  await fill(target('beta', 'shared'), 'beta')
  const other = await store.provision(target('gamma', 'shared', wider), 'plan')
  await fill(target('gamma', 'shared', wider), 'gamma')
  const indexed = target('delta', 'shared', schema, { index_columns: ['owner'] })
  await fill(indexed, 'delta')
  const found = await parents('shared')
  assert.equal(found.shared, 2)
  assert.deepEqual(Object.values(found).sort(), [1, 1, 2])
  for (const [tenant, shape] of [
    ['alpha', schema],
    ['beta', schema],
    ['gamma', wider],
  ] as const) {
    assert.deepEqual(await owners(target(tenant, 'shared', shape)), [tenant, tenant, tenant])
  }
  const first = await store.provision(target('gamma', 'unseen', wider), 'plan')
  const text = JSON.stringify(other.steps)
  assert.equal(text.replaceAll('shared', 'unseen'), JSON.stringify(first.steps))
})

test('order of arrival changes no plan and no receipt', async () => {
  const seen: unknown[] = []
  for (const [product, shapes] of [
    ['first', [schema, wider]],
    ['second', [wider, schema]],
  ] as const) {
    for (const shape of shapes) {
      const of = target(shape === schema ? 'narrow' : 'wide', product, shape)
      const plan = await store.provision(of, 'plan')
      await store.provision(of, 'apply', plan.hash)
      const receipt = await store.write(of, changeSet(shape, 'full', []), commitOf(1, null))
      seen.push(JSON.stringify([shape === schema, plan.steps, receipt]).replaceAll(product, 'product'))
    }
  }
  assert.equal(seen[0], seen[3])
  assert.equal(seen[1], seen[2])
})

test('dropping a tenant leaves the others, and nothing of its own', async () => {
  await fill(target('stays', 'dropped'), 'stays')
  await fill(target('goes', 'dropped'), 'goes')
  await fill(target('goes', 'lonely'), 'goes')
  assert.equal((await store.drop(target('goes', 'nothing'), 'plan')).steps.length, 0)
  assert.equal((await store.drop(target('goes', 'dropped'), 'plan')).steps.length, 1)
  await store.dropTenant(openTenantScope('goes'))
  await store.dropTenant(openTenantScope('goes'))
  assert.deepEqual(await owners(target('stays', 'dropped')), ['stays', 'stays', 'stays'])
  assert.deepEqual(await parents('lonely'), {})
  await assert.rejects(owners(target('goes', 'dropped')), { code: 'not_materialized' })
  const left = await fixture.admin(
    `select count(*)::int as n from pg_class where relnamespace = 'sluice_partitions'::regnamespace and relkind = 'r'
       and pg_get_expr(relpartbound, oid) like '%goes%'`,
  )
  assert.deepEqual(left, [{ n: 0 }])
  const lines = await fixture.admin(`select count(*)::int as n from sluice_store.datasets where tenant_id = 'goes'`)
  assert.deepEqual(lines, [{ n: 0 }])
})

test('a tenant is dropped while another reads the same parent without pause', async () => {
  await fill(target('reads', 'busy'), 'reads')
  await fill(target('leaves', 'busy'), 'leaves')
  let done = false
  let reads = 0
  const reading = (async () => {
    while (!done) {
      assert.equal((await owners(target('reads', 'busy'))).length, 3)
      reads += 1
    }
  })()
  await store.drop(target('leaves', 'busy'), 'apply')
  done = true
  await reading
  assert.ok(reads > 0)
  assert.deepEqual(await parents('busy'), { busy: 1 })
})

test('a tenant that reads for long holds up neither writes nor removals of others', async () => {
  await fill(target('longreader', 'held'), 'longreader')
  await fill(target('removed', 'held'), 'removed')
  const client = new pg.Client(parseLogin('reader', fixture.settings.reader).config)
  await client.connect()
  await client.query('begin')
  await client.query(`select set_config('app.tenant_id', 'longreader', true)`)
  assert.equal((await client.query('select * from sales.held')).rowCount, 3)
  await fill(target('newcomer', 'held'), 'newcomer')
  const removing = store.drop(target('removed', 'held'), 'apply')
  await assert.rejects(removing, { code: 'store_contention', kind: 'TRANSIENT' })
  await assert.rejects(owners(target('removed', 'held')), { code: 'not_materialized' })
  assert.deepEqual(await owners(target('newcomer', 'held')), ['newcomer', 'newcomer', 'newcomer'])
  await client.query('rollback')
  await client.end()
  await store.drop(target('removed', 'held'), 'apply')
  assert.deepEqual(await parents('held'), { held: 2 })
})

test('provisioned and not yet written outlives the removal of the last rows of another tenant', async () => {
  await provide(store, target('waiting', 'reborn'))
  await fill(target('leaving', 'reborn'), 'leaving')
  await store.drop(target('leaving', 'reborn'), 'apply')
  await assert.rejects(owners(target('waiting', 'reborn')), { code: 'not_materialized' })
  await fill(target('waiting', 'reborn'), 'waiting')
  assert.equal((await owners(target('waiting', 'reborn'))).length, 3)
})

test('ten tenants are provisioned and written at once', async () => {
  const tenants = Array.from({ length: 10 }, (_, index) => `crowd${index}`)
  await Promise.all(tenants.map((tenant, index) => fill(target(tenant, 'crowd', index % 2 ? wider : schema), tenant)))
  for (const [index, tenant] of tenants.entries()) {
    assert.deepEqual(await owners(target(tenant, 'crowd', index % 2 ? wider : schema)), [tenant, tenant, tenant])
  }
  const same = target('crowd0', 'crowd')
  await Promise.all(Array.from({ length: 5 }, () => store.provision(same, 'apply')))
})

async function as(role: 'owner' | 'writer' | 'reader', text: string, tenant?: string): Promise<unknown[]> {
  const client = new pg.Client(parseLogin(role, fixture.settings[role]).config)
  await client.connect()
  try {
    await client.query('begin')
    if (tenant !== undefined) await client.query(`select set_config('app.tenant_id', $1, true)`, [tenant])
    return (await client.query(text)).rows
  } finally {
    await client.end()
  }
}

test('the logins meet the wall everywhere: parent, partition, register', async () => {
  await fill(target('walled', 'wall'), 'walled')
  const [row] = await fixture.admin(
    `select partition from sluice_store.datasets where tenant_id = 'walled' and product = 'wall'`,
  )
  const partition = `sluice_partitions."${row?.partition}"`
  for (const role of ['owner', 'writer', 'reader'] as const) {
    for (const tenant of [undefined, '', 'other', 'walle', 'walled2']) {
      assert.deepEqual(await as(role, 'select * from sales.wall', tenant), [], `${role} as ${tenant}`)
      assert.deepEqual(await as(role, `select * from sluice_store.datasets where product = 'wall'`, tenant), [])
    }
    assert.equal((await as(role, 'select * from sales.wall', 'walled')).length, 3)
  }
  await assert.rejects(as('reader', `select * from ${partition}`, 'walled'), { code: '42501' })
  await assert.rejects(as('writer', `select * from ${partition}`, 'walled'), { code: '42501' })
  assert.deepEqual(await as('owner', `select * from ${partition}`, 'other'), [])
  await assert.rejects(as('writer', `insert into sales.wall values ('walled', 9, 'x')`, 'other'), { code: '42501' })
  await fill(target('beside', 'wall'), 'beside')
  await assert.rejects(as('writer', `update sales.wall set tenant_id = 'beside'`, 'walled'), { code: '42501' })
  await assert.rejects(as('reader', `delete from sales.wall`, 'walled'), { code: '42501' })
  await assert.rejects(as('reader', `select * from sluice_store.retired_partitions`, 'walled'), { code: '42501' })
})

test('names and tenants full of metacharacters stay apart', async () => {
  const tenants = [`a'--`, `a"b`, 'a:b', 'a%', '..', 'a\\', '$1', 'ä€😀', ' ', `x'); drop schema sales; --`, 'a', 'A']
  const long = 'n'.repeat(80)
  const products = ['select', 'Orders', 'orders', `${long}1`, `${long}2`, `quo"te`, `ap'os`]
  for (const product of products) {
    const odd: TableSchema = {
      columns: [
        { name: 'id', type: 'long', nullable: false },
        { name: 'tenant_id', type: 'string', nullable: true },
        { name: 'ctid', type: 'string', nullable: true },
        { name: 'user', type: 'string', nullable: true },
        { name: 'User', type: 'string', nullable: true },
        { name: `${long}a`, type: 'string', nullable: true },
        { name: `${long}b`, type: 'string', nullable: true },
        { name: `"'\\`, type: 'string', nullable: true },
      ],
      primaryKey: ['id'],
    }
    for (const tenant of tenants.slice(0, product === 'select' ? undefined : 2)) {
      const of = target(tenant, product, odd, { index_columns: ['tenant_id', 'User'] })
      await provide(store, of)
      const row = [1n, tenant, 'c', 'u', 'U', 'la', 'lb', product]
      await store.write(of, changeSet(odd, 'full', [row]), commitOf(1, null))
      await store.write(of, changeSet(odd, 'delta', [row]), commitOf(2, 1))
    }
    for (const tenant of tenants.slice(0, product === 'select' ? undefined : 2)) {
      const of = target(tenant, product, odd, { index_columns: ['tenant_id', 'User'] })
      const filters = [{ column: 'tenant_id', operator: 'eq' as const, values: [tenant] }]
      const expected = Object.fromEntries(
        odd.columns.map((column, index) => [column.name, [1, tenant, 'c', 'u', 'U', 'la', 'lb', product][index]]),
      )
      assert.deepEqual(await rowsRead(store, of, planOf(of, { filters })), [expected])
    }
  }
})

test('interleaved reads of many tenants, some failing, some called off, stay apart', async () => {
  const tenants = Array.from({ length: 20 }, (_, index) => `mix${index}`)
  for (const tenant of tenants) await fill(target(tenant, 'mix'), tenant)
  let wrong = 0
  const one = async (index: number): Promise<void> => {
    const of = target(tenants[(index * 7) % tenants.length] ?? '', 'mix')
    const base = planOf(of, byId(BigInt(index % 3)))
    if (index % 7 === 0) {
      const text = { ...base, filters: [{ column: 'id', operator: 'eq' as const, values: ['x'] }] }
      return await assert.rejects(rowsRead(store, of, text), { code: 'invalid_value' })
    }
    if (index % 11 === 0) {
      const controller = new AbortController()
      const read = rowsRead(store, of, { ...base, signal: controller.signal })
      controller.abort()
      return await read.then(
        () => {},
        (error) => assert.equal(error.code, 'aborted'),
      )
    }
    const rows = await rowsRead(store, of, index % 13 === 0 ? { ...base, operation: 'scan', filters: [] } : base)
    if (rows.length === 0 || rows.some((row) => row.owner !== of.scope.tenant)) wrong += 1
  }
  // What is shared between reads is shared within a tenant: a row of another would be counted.
  for (let at = 0; at < 10_000; at += 250) {
    await Promise.all(Array.from({ length: 250 }, (_, index) => one(at + index)))
  }
  assert.equal(wrong, 0)
})

test('an error in the first part of a batch skips the read, and the connection goes on', async () => {
  await fill(target('batch', 'batched'), 'batch')
  const login = parseLogin('reader', fixture.settings.reader)
  const { Lane } = await import('../row-secured-postgresql/one-sync.ts')
  const lane = await Lane.connect(login.config, () => {})
  const text = `select current_setting('app.tenant_id', true), count(*)::text from sales.batched`
  const read = (tenant: string, sql: string) => lane.read(tenant, 'custom', [{ text: sql, values: [] }])
  const bad = read('bad\0tenant', text)
  const good = read('batch', text)
  const broken = read('batch', 'select 1/0')
  const unknown = read('batch', 'select * from sales.nothing_of_the_kind')
  await assert.rejects(bad)
  await assert.rejects(broken, { code: '22012' })
  await assert.rejects(unknown, { code: '42P01' })
  assert.deepEqual(await good, [[['batch', '3']]])
  assert.deepEqual(await read('nobody', text), [[['nobody', '0']]])
  await lane.close()
})

test('probe passes for these logins and fails for one that could bypass', async () => {
  const report = await store.probe(new AbortController().signal)
  assert.ok(report.ok, JSON.stringify(report))
  for (const option of ['bypassrls', 'superuser']) {
    const weak = await startPostgres({ reader: option })
    const weakStore = await lookup.open(weak.settings, testHost())
    const weakReport = await weakStore.probe(new AbortController().signal)
    assert.equal(weakReport.ok, false)
    assert.ok(weakReport.checks.some((check) => check.name === 'reader_cannot_bypass' && !check.ok))
    await weakStore.close()
    await weak.stop()
  }
})
