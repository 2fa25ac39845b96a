/** What a tenant's login to the SQL catalog sees and may do: rows of its own catalog, and nothing else. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import pg from 'pg'
import { inTransaction } from '../database/pools.ts'
import { startTestPostgres, type TestDatabase } from '../database/testing.ts'
import { eventMigrations } from '../events/migrations.ts'
import { LAKE_MIGRATIONS } from '../lake/migrations.ts'
import { registryMigrations } from '../registry/migrations.ts'
import { createTenant } from '../registry/tenants.ts'
import { type CatalogLogin, CatalogLogins, ENGINE_ROLE } from './logins.ts'
import { CATALOG_MIGRATIONS } from './migrations.ts'

let database: TestDatabase
let pool: pg.Pool
let logins: CatalogLogins

before(async () => {
  const postgres = await startTestPostgres()
  const migrations = [registryMigrations, eventMigrations, LAKE_MIGRATIONS, CATALOG_MIGRATIONS]
  database = await postgres.createDatabase({ migrations })
  pool = database.pool()
  logins = new CatalogLogins({ pool, admin: database.admin, shown: database.address })
  for (const tenant of ['acme', 'other']) {
    await inTransaction(pool, (tx) => createTenant(tx, { slug: tenant, displayName: tenant, tier: 'free' }))
    for (const [namespace, table] of [
      ['sandbox', 'plain'],
      ['crm', 'open'],
      ['crm', 'people'],
      ['crm', 'people__masked'],
      ['crm', 'people__masked_0a1b2c3d'],
      ['crm', 'people__quarantine'],
      ['crm', 'secret'],
      ['raw_db', 'people'],
    ]) {
      await pool.query("insert into iceberg_tables values ($1, $2, $3, 'file:///x', null, 'TABLE')", [
        `lakehouse_${tenant}`,
        namespace,
        table,
      ])
      await pool.query(
        "insert into iceberg_namespace_properties values ($1, $2, 'exists', 'true') on conflict do nothing",
        [`lakehouse_${tenant}`, namespace],
      )
    }
    await product(tenant, 'open', 'internal', [{ city: 'public' }])
    await product(tenant, 'people', 'public', [{ email: 'pii.identifier' }])
    await product(tenant, 'secret', 'confidential', [{ city: 'public' }])
  }
})

after(async () => {
  for (const tenant of ['acme', 'other']) await logins.revoke(tenant)
  await database.drop()
})

type Classes = Readonly<Record<string, string>>

/** A product with one epoch for each version; the masked columns are those of its version. */
async function product(tenant: string, name: string, level: string, versions: readonly Classes[]): Promise<void> {
  const id = `${tenant}-${name}`
  await pool.query(
    `insert into products (id, tenant, domain, name, archetype, classification, status, current_version, created_by)
     values ($1, $2, 'crm', $3, 'aggregate', $4, 'deployed', $5, '{}')`,
    [id, tenant, name, level, `${versions.length}.0.0`],
  )
  for (const [at, classes] of versions.entries()) await version(id, tenant, level, at + 1, classes)
}

async function version(
  id: string,
  tenant: string,
  level: string,
  epoch: number,
  classes: Classes,
  masks?: Classes | null,
): Promise<void> {
  const columns = Object.entries(classes).map(([column, classification]) => ({ name: column, classification }))
  const masked = columns.filter((column) => column.classification.startsWith('pii.')).map((column) => column.name)
  await pool.query(
    `insert into product_versions (product_id, version, manifests, normalised, digest, deployed_by)
     values ($1, $2, '{}', $3, 'd', '{}')`,
    [id, `${epoch}.0.0`, JSON.stringify({ product: { classification: level }, output: { columns } })],
  )
  const own = masks === undefined ? Object.fromEntries(masked.map((name) => [name, 'redact'])) : masks
  const variants = masked.length > 0 ? { clear: '1', masked: '2' } : { clear: '1' }
  await pool.query(
    `insert into materializations (id, tenant, product_id, epoch, kind, state, version, digest, snapshots, masked_columns, masks, committed_at)
     values ($1, $2, $3, $4, 'materialize', 'committed', $5, 'd', $6, $7, $8, now())`,
    [`${id}-${epoch}`, tenant, id, epoch, `${epoch}.0.0`, variants, { clear: [], masked }, own && { masked: own }],
  )
}

async function as<Result>(login: CatalogLogin, work: (client: pg.Client) => Promise<Result>): Promise<Result> {
  const client = new pg.Client({ connectionString: login.uri })
  client.on('error', () => undefined)
  await client.connect()
  try {
    return await work(client)
  } finally {
    await client.end().catch(() => undefined)
  }
}

async function visible(login: CatalogLogin): Promise<readonly string[]> {
  return as(login, async (client) => {
    const { rows } = await client.query(
      `select catalog_name || ' ' || table_namespace || '.' || table_name as name from iceberg_tables order by 1`,
    )
    return rows.map((row) => row.name as string)
  })
}

describe('the login of an engine that works for all tenants', () => {
  const password = 'of-the-engine'
  const asRoot = async (sql: string) => {
    const client = new pg.Client({ ...database.admin, database: database.address.database })
    await client.connect()
    await client.query(sql).finally(() => client.end())
  }
  before(async () => {
    await logins.admitEngine()
    await asRoot(`create role ${ENGINE_ROLE} login password '${password}'`)
    // Runtimes start together.
    await Promise.all([logins.admitEngine(), logins.admitEngine()])
    await logins.admitEngine()
  })
  after(() => asRoot(`drop owned by ${ENGINE_ROLE}; drop role ${ENGINE_ROLE}`))

  test('is told where every table lies, and nothing else', async () => {
    const { host, port, database: name } = database.address
    const client = new pg.Client({ host, port, database: name, user: ENGINE_ROLE, password })
    await client.connect()
    try {
      const { rows } = await client.query('select distinct catalog_name as name from iceberg_tables order by 1')
      assert.deepEqual(
        rows.map((row) => row.name),
        ['lakehouse_acme', 'lakehouse_other'],
      )
      const all = await pool.query('select from iceberg_tables')
      assert.equal((await client.query('select from iceberg_tables')).rowCount, all.rowCount)
      for (const sql of [
        'select * from tenants',
        'select * from products',
        'select * from catalog_logins',
        "update iceberg_tables set metadata_location = 'file:///y'",
        'delete from iceberg_tables',
        "insert into iceberg_namespace_properties values ('lakehouse_acme', 'x', 'exists', 'true')",
        'create table mine (x integer)',
        'create temporary table mine (x integer)',
      ]) {
        await assert.rejects(client.query(sql), { code: '42501' }, sql)
      }
    } finally {
      await client.end()
    }
  })

  test('widens no other login', async () => {
    const login = await logins.issue('acme')
    assert.ok((await visible(login)).every((name) => name.startsWith('lakehouse_acme ')))
    await as(login, async (client) => {
      await assert.rejects(client.query(`set role ${ENGINE_ROLE}`))
      await assert.rejects(client.query(`set session authorization ${ENGINE_ROLE}`))
    })
  })
})

describe('a login to the SQL catalog', () => {
  test('sees plain tables, open products and full masks of its own tenant', async () => {
    const login = await logins.issue('acme')
    assert.equal(login.catalog, 'lakehouse_acme')
    assert.deepEqual(await visible(login), [
      'lakehouse_acme crm.open',
      'lakehouse_acme crm.people__masked',
      'lakehouse_acme sandbox.plain',
    ])
    const namespaces = await as(login, (client) =>
      client.query('select distinct catalog_name, namespace from iceberg_namespace_properties order by 1, 2'),
    )
    assert.deepEqual(
      namespaces.rows.map((row) => `${row.catalog_name}.${row.namespace}`),
      ['lakehouse_acme.crm', 'lakehouse_acme.sandbox'],
    )
    assert.ok(!login.user.includes('acme'), 'every login can list the roles of all')
  })

  test('does not see a table whose history was made under another policy', async () => {
    const login = await logins.issue('acme')
    await product('acme', 'raised', 'internal', [{ phone: 'public' }, { phone: 'pii.phone' }])
    await pool.query(
      "insert into iceberg_tables values ('lakehouse_acme', 'crm', 'raised', 'file:///x', null, 'TABLE')",
    )
    assert.ok(!(await visible(login)).includes('lakehouse_acme crm.raised'))
    await product('acme', 'lowered', 'internal', [{ phone: 'pii.phone' }, { phone: 'public' }])
    await pool.query(
      "insert into iceberg_tables values ('lakehouse_acme', 'crm', 'lowered', 'file:///x', null, 'TABLE')",
    )
    assert.ok(!(await visible(login)).includes('lakehouse_acme crm.lowered'))
    await pool.query("update products set classification = 'confidential' where id = 'acme-open'")
    assert.ok(!(await visible(login)).includes('lakehouse_acme crm.open'), 'policy is that of now')
    await pool.query("update products set classification = 'internal' where id = 'acme-open'")
  })

  test('obeys classes that the configuration masks', async () => {
    const login = await logins.issue('acme')
    await product('acme', 'wages', 'internal', [{ amount: 'finance' }])
    await pool.query("insert into iceberg_tables values ('lakehouse_acme', 'crm', 'wages', 'file:///x', null, 'TABLE')")
    assert.ok((await visible(login)).includes('lakehouse_acme crm.wages'))
    await logins.setMasking({ sensitive: ['finance'], strategies: {} })
    assert.ok(!(await visible(login)).includes('lakehouse_acme crm.wages'))
    await logins.setMasking({ sensitive: [], strategies: {} })
  })

  test('is not told of rows whose masks show more than those of today, then or now', async () => {
    const login = await logins.issue('acme')
    const MASKS = ['hash', 'partial', 'redact', 'null', 'omit']
    const strategies = Object.fromEntries(MASKS.map((mask) => [`pii.by_${mask}`, mask]))
    await logins.setMasking({ sensitive: [], strategies })
    const showsNothing = MASKS.slice(2)
    for (const made of MASKS) {
      for (const today of MASKS) {
        const name = `masked_${made}_${today}`
        await product('acme', name, 'internal', [])
        await version(`acme-${name}`, 'acme', 'internal', 1, { name: `pii.by_${made}` }, { name: made })
        await version(`acme-${name}`, 'acme', 'internal', 2, { name: `pii.by_${today}` }, { name: today })
        await pool.query("update products set current_version = '2.0.0' where id = $1", [`acme-${name}`])
        const table = `${name}__masked`
        await pool.query(
          "insert into iceberg_tables values ('lakehouse_acme', 'crm', $1, 'file:///x', null, 'TABLE')",
          [table],
        )
        const isTold = (await visible(login)).includes(`lakehouse_acme crm.${table}`)
        const rowsThen = made === today || showsNothing.includes(made)
        // The rows of today were made under today's class; that of then, whose mask shows less, holds for those of then.
        assert.equal(isTold, rowsThen, `${made} then, ${today} now`)
      }
    }
    await logins.setMasking({ sensitive: [], strategies: {} })
  })

  test('is not told of rows of which nobody knows by which masks they were made', async () => {
    const login = await logins.issue('acme')
    const known: readonly (Classes | null)[] = [{ name: 'redact', phone: 'redact' }, { name: 'redact' }, {}, null]
    const told: boolean[] = []
    for (const [at, masks] of known.entries()) {
      const name = `unknown_${at}`
      await product('acme', name, 'internal', [])
      await version(`acme-${name}`, 'acme', 'internal', 1, { name: 'pii.name', phone: 'pii.phone' }, masks)
      await pool.query("update products set current_version = '1.0.0' where id = $1", [`acme-${name}`])
      await pool.query("insert into iceberg_tables values ('lakehouse_acme', 'crm', $1, 'file:///x', null, 'TABLE')", [
        `${name}__masked`,
      ])
      told.push((await visible(login)).includes(`lakehouse_acme crm.${name}__masked`))
    }
    assert.deepEqual(told, [true, false, false, false])
  })

  test('is not told of columns whose source was given a class, nor of previews', async () => {
    const login = await logins.issue('acme')
    for (const name of ['given', 'staged']) {
      await product('acme', name, 'internal', [{ city: 'public' }])
      await pool.query("insert into iceberg_tables values ('lakehouse_acme', 'crm', $1, 'file:///x', null, 'TABLE')", [
        name,
      ])
      assert.ok((await visible(login)).includes(`lakehouse_acme crm.${name}`))
    }
    await pool.query(
      `insert into raised_columns (product_id, tenant, digest, column_name, class, raw_columns, blocks, raised_in, raised_by)
       values ('acme-given', 'acme', 'd', 'city', 'pii.name', '{}', true, 'p', '{}')`,
    )
    await pool.query("update products set preview_of = 'acme-given' where id = 'acme-staged'")
    const seen = await visible(login)
    assert.deepEqual(
      ['given', 'staged'].filter((name) => seen.includes(`lakehouse_acme crm.${name}`)),
      [],
    )
  })

  test('may do nothing else', async () => {
    const login = await logins.issue('acme')
    for (const statement of [
      "insert into iceberg_tables values ('lakehouse_acme', 'crm', 'x', 'x', null, 'TABLE')",
      "update iceberg_tables set metadata_location = 'file:///y'",
      'delete from iceberg_namespace_properties',
      'select * from tenants',
      'select * from catalog_logins',
      'select * from products',
      'select * from lake_storage',
      'select * from audit_log',
      'select * from tenant_keys',
      'create table t (a int)',
      'create temp table t (a int)',
      'create schema s',
      "select catalog_is_open('other-open', 'clear')",
      "select raise_policy_version('acme')",
      'select pg_advisory_lock(1)',
      'select pg_try_advisory_xact_lock(1, 2)',
      'select lo_create(0)',
      'lock table iceberg_tables in access exclusive mode',
      'alter table iceberg_tables disable row level security',
      "alter role current_user set row_security = 'off'; set row_security = off; select * from iceberg_tables",
      'set session authorization postgres',
      "copy (select 1) to program 'true'",
    ]) {
      await as(login, async (client) => {
        await client.query('set default_transaction_read_only = off')
        await assert.rejects(client.query(statement), statement)
      })
    }
    const { rows } = await as(login, (client) =>
      client.query("select catalog_login_sees('lakehouse_other', 'sandbox', 'plain') as sees"),
    )
    assert.equal(rows[0].sees, false)
  })

  test('ends with its rotation and its removal, sessions too', async () => {
    const first = await logins.issue('other')
    await as(first, async (client) => {
      const ended = new Promise((resolve) => client.once('end', resolve))
      const second = await logins.issue('other')
      await ended
      assert.equal(second.user, first.user)
      await assert.rejects(
        as(first, (again) => again.query('select 1')),
        { code: '28P01' },
      )
      assert.equal((await visible(second)).length, 3)
    })
    await logins.revoke('other')
    await logins.revoke('other')
    const { rowCount } = await pool.query('select from pg_roles where rolname = $1', [first.user])
    assert.equal(rowCount, 0)
  })

  test('is not made where nobody may make roles', async () => {
    const none = new CatalogLogins({ pool, admin: null, shown: database.address })
    await assert.rejects(none.issue('nobody'), { code: 'catalog_logins_unavailable' })
    const { rowCount } = await pool.query("select from catalog_logins where tenant = 'nobody'")
    assert.equal(rowCount, 0)
  })

  test('that was made before nobody could make roles sees nothing once it is taken back', async () => {
    await logins.issue('other').then(async (login) => {
      assert.equal((await visible(login)).length, 3)
      await new CatalogLogins({ pool, admin: null, shown: database.address }).revoke('other')
      assert.equal((await visible(login)).length, 0)
    })
  })
})
