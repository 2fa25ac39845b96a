/** What a dataset's login sees and may do: the rows of one copy of one tenant's product, and nothing else. */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { after, before, beforeEach, describe, test } from 'node:test'
import pg from 'pg'
import { clientConfig, openPool } from '../database/pools.ts'
import { PATIENT, startTestPostgres, type TestServingDatabase } from '../database/testing.ts'
import { ServingViews, type StoredDataset } from './serving-views.ts'

const OWN_ROWS = `tenant_id = current_setting('app.tenant_id', true) and current_setting('app.tenant_id', true) <> ''`
const signal = new AbortController().signal

let database: TestServingDatabase
let owner: pg.Pool
let views: ServingViews
let maker = ''
const told: string[] = []

/** The register and the tables of a store that keeps tenants apart by forced row security. */
before(async () => {
  database = await (await startTestPostgres()).createServingDatabase()
  owner = openPool(database.logins.owner, { ...PATIENT, applicationName: 'test', maxConnections: 2 })
  await owner.query(`create schema sluice_store; create schema crm;
    create table sluice_store.datasets (tenant_id text, domain text, product text, variant text, endpoint text,
      relation text, epoch bigint)`)
  await secure('sluice_store.datasets')
  for (const relation of ['people', 'people__masked']) await table(relation)
  for (const tenant of ['acme', 'other']) {
    for (const variant of ['clear', 'masked']) {
      const relation = variant === 'clear' ? 'people' : 'people__masked'
      const email = variant === 'clear' ? `${tenant}@people.test` : null
      await asTenant(tenant, `insert into sluice_store.datasets values ($1, 'crm', 'people', $2, 'lookup', $3, 1)`, [
        tenant,
        variant,
        relation,
      ])
      await asTenant(tenant, `insert into crm.${relation} values ($1, 1, $2, 1.5)`, [tenant, email])
    }
  }
  views = new ServingViews({
    pool: owner,
    admin: await loginMaker(),
    shown: database.admin,
    onGaps: (gaps) => told.push(...gaps),
  })
})

/** May make roles and nothing else. */
async function loginMaker() {
  const login = { user: `maker_${randomBytes(6).toString('hex')}`, password: 'no-secret' }
  await asSuperuser(`create role ${login.user} login createrole password '${login.password}';
    grant connect on database ${pg.escapeIdentifier(database.admin.database)} to ${login.user}`)
  maker = login.user
  return { ...database.admin, ...login }
}

async function asSuperuser(statement: string): Promise<void> {
  const client = new pg.Client(clientConfig(database.admin, { applicationName: 'test' }))
  await client.connect()
  await client.query(statement).finally(() => client.end())
}

after(async () => {
  for (const dataset of ALL) await views.remove(dataset)
  await owner.end()
  await asSuperuser(
    `revoke all on database ${pg.escapeIdentifier(database.admin.database)} from ${maker}; drop role ${maker}`,
  )
  await database.drop()
})

const dataset = (tenant: string, variant: string): StoredDataset => ({
  ...{ productId: `prd_${tenant}`, tenant, domain: 'crm', product: 'people', variant, endpoint: 'lookup' },
})
const ALL = ['acme', 'other'].flatMap((tenant) => [dataset(tenant, 'clear'), dataset(tenant, 'masked')])

async function table(relation: string): Promise<void> {
  await owner.query(
    `create table crm.${relation} (tenant_id text not null, id integer, email text, "the ""sum""" numeric(10, 2))`,
  )
  await secure(`crm.${relation}`)
}

async function secure(name: string): Promise<void> {
  await owner.query(`create policy tenant_isolation on ${name} using (${OWN_ROWS}) with check (${OWN_ROWS});
    alter table ${name} enable row level security, force row level security`)
}

async function asTenant(tenant: string, statement: string, values: readonly unknown[]): Promise<void> {
  const client = await owner.connect()
  try {
    await client.query('begin')
    await client.query(`select set_config('app.tenant_id', $1, true)`, [tenant])
    await client.query(statement, [...values])
    await client.query('commit')
  } finally {
    client.release()
  }
}

async function opened(of: StoredDataset) {
  const view = await views.describe(of, signal)
  assert.ok(view !== null)
  const url = await views.provision(of, view, signal)
  await views.setOpen(of, true)
  return { name: `"${view.schema}"."${view.name}"`, url, view }
}

async function ask(url: string, ...statements: readonly string[]): Promise<readonly unknown[]> {
  const client = new pg.Client(url)
  await client.connect()
  try {
    let rows: readonly unknown[] = []
    for (const statement of statements) rows = (await client.query(statement)).rows
    return rows
  } finally {
    await client.end()
  }
}

const DENIED = { code: '42501' }

describe('a dataset’s login', () => {
  let own: Awaited<ReturnType<typeof opened>>
  const others: Awaited<ReturnType<typeof opened>>[] = []

  before(async () => {
    for (const other of ALL.slice(1)) others.push(await opened(other))
  })

  beforeEach(async () => {
    own = await opened(dataset('acme', 'clear'))
  })

  test('reads the rows of its tenant, in the types of the table', async () => {
    assert.deepEqual(await ask(own.url, `select * from ${own.name}`), [
      { __tenant: 'acme', id: 1, email: 'acme@people.test', 'the "sum"': '1.50' },
    ])
    assert.deepEqual(own.view.columns.at(-1), { name: 'the "sum"', type: 'numeric(10,2)' })
  })

  test('reads the same whatever it sets', async () => {
    const rows = await ask(own.url, `set app.tenant_id = 'other'`, `select id, email from ${own.name}`)
    assert.deepEqual(rows, [{ id: 1, email: 'acme@people.test' }])
    for (const setting of ['set role sluice_owner', `set session authorization '${database.logins.owner.user}'`]) {
      await assert.rejects(ask(own.url, setting))
    }
  })

  test('reads no other dataset, and no table', async () => {
    const [masked] = others
    assert.deepEqual(await ask(masked?.url as string, `select email from ${masked?.name}`), [{ email: null }])
    for (const { name } of others) await assert.rejects(ask(own.url, `select * from ${name}`), DENIED)
    for (const name of ['crm.people', 'crm.people__masked', 'sluice_store.datasets', 'sluice_views.logins']) {
      await assert.rejects(ask(own.url, `select * from ${name}`), DENIED)
      await assert.rejects(ask(own.url, `set app.tenant_id = 'acme'`, `select * from ${name}`), DENIED)
    }
    const rows = await ask(
      own.url,
      'select * from sluice_views.own_rows() as t(a text, b int, c text, d numeric(10,2))',
    )
    assert.deepEqual(rows, [{ a: 'acme', b: 1, c: 'acme@people.test', d: '1.50' }])
  })

  test('changes nothing', async () => {
    for (const statement of [
      `insert into ${own.name} select * from ${own.name}`,
      'create table public.mine (a int)',
      `create table "${own.view.schema}".mine (a int)`,
      'create temporary table mine (a int)',
      'create schema mine',
      'create role mine',
      `set default_transaction_read_only = off; update sluice_views.logins set is_open = true`,
      `set default_transaction_read_only = off; create view "${own.view.schema}".v as select 1`,
    ]) {
      await assert.rejects(ask(own.url, statement), statement)
    }
  })

  test('holds up nobody, and fills and measures nothing, whatever limits it takes off', async () => {
    const free = [
      'set default_transaction_read_only = off',
      ...['statement_timeout', 'lock_timeout', 'idle_session_timeout'].map((name) => `set ${name} = 0`),
    ]
    const { rows } = await owner.query<{ call: string }>(
      `select format('select %I(%s)', proname, (select string_agg(quote_literal(case when t = 'regclass'::regtype then 'pg_class' else '1' end) || '::' || t::regtype, ', ')
           from unnest(proargtypes) t))
         as call
       from pg_proc where pronamespace = 'pg_catalog'::regnamespace and proname ~ $1`,
      [
        '^(pg_(try_)?advisory_.*|lo_creat|lo_create|lo_from_bytea|lo_put|lowrite|pg_notify|pg_logical_emit_message|txid_current|pg_current_xact_id|pg_export_snapshot|pg_(relation|table|indexes|total_relation)_size)$',
      ],
    )
    assert.ok(rows.length > 30)
    const client = new pg.Client(own.url)
    await client.connect()
    try {
      for (const statement of free) await client.query(statement)
      for (const { call } of rows) await assert.rejects(client.query(call), DENIED, call)
      for (const statement of [
        "select lo_import('/etc/passwd')",
        'create temporary table mine (a int)',
        `lock table ${own.name} in access exclusive mode`,
        'lock table sluice_views.logins in share update exclusive mode',
        `comment on view ${own.name} is 'mine'`,
        `alter role ${own.view.schema} connection limit -1`,
        `alter role ${own.view.schema} createdb`,
        `grant ${own.view.schema} to ${database.logins.reader.user}`,
        'alter system set work_mem = 1',
      ]) {
        await assert.rejects(client.query(statement), statement)
      }
    } finally {
      await client.end()
    }
    const url = new URL(own.url)
    for (const name of ['registry', 'serving']) {
      await using other = await (await startTestPostgres()).createServingDatabase()
      url.pathname = other.admin.database
      await assert.rejects(ask(url.href, 'select 1'), DENIED, name)
    }
  })

  test('begins anew with what was decided for it, and its maker is told of what is open beside it', async () => {
    for (const statement of [`set statement_timeout = '1h'`, 'set default_transaction_read_only = off']) {
      await ask(own.url, 'set default_transaction_read_only = off', `alter role ${own.view.schema} ${statement}`)
    }
    own = await opened(dataset('acme', 'clear'))
    const [settings] = await ask(
      own.url,
      `select current_setting('statement_timeout') as timeout, current_setting('default_transaction_read_only') as "readOnly",
         (select rolconnlimit from pg_roles where rolname = current_user) as connections`,
    )
    assert.deepEqual(settings, { timeout: '1min', readOnly: 'on', connections: 10 })
    // The server of the tests lets everybody into its own databases.
    assert.ok(told.includes('enter the database postgres'), told.join())
    assert.ok(!told.some((gap) => gap.includes('functions')), told.join())
  })

  test('is removed with what it has made and was given since', async () => {
    const gone = await opened({ ...dataset('other', 'clear') })
    await asSuperuser(`select lo_create(424242); alter large object 424242 owner to ${gone.view.schema};
      create table crm.mine (a int); alter table crm.mine owner to ${gone.view.schema}`)
    await views.remove(dataset('other', 'clear'))
    const { rowCount } = await owner.query('select from pg_roles where rolname = $1', [gone.view.schema])
    assert.equal(rowCount, 0)
    await opened(dataset('other', 'clear'))
  })

  test('gives nothing while it is shut', async () => {
    await views.setOpen(dataset('acme', 'clear'), false)
    await assert.rejects(ask(own.url, `select count(*) from ${own.name}`), DENIED)
    await views.provision(dataset('acme', 'clear'), own.view, signal)
    await assert.rejects(ask((await opened(dataset('acme', 'masked'))).url, `select * from ${own.name}`), DENIED)
  })

  test('follows the store to another table, and stands in the way of none', async () => {
    await table('people_2')
    await asTenant('acme', `insert into crm.people_2 values ($1, 2, 'new', 0)`, ['acme'])
    const move = `update sluice_store.datasets set relation = $2 where tenant_id = $1 and variant = 'clear'`
    await asTenant('acme', move, ['acme', 'people_2'])
    assert.deepEqual(await ask(own.url, `select email from ${own.name}`), [{ email: 'new' }])
    await asTenant('acme', move, ['acme', 'people'])
    await owner.query('drop table crm.people_2')
    assert.equal((await ask(own.url, `select * from ${own.name}`)).length, 1)
  })

  test('is made once, and removed with all it has', async () => {
    const again = await opened(dataset('acme', 'clear'))
    assert.equal(again.name, own.name)
    await assert.rejects(ask(own.url, 'select 1'), 'its former password is of no use')
    const known = () => owner.query('select from pg_roles where rolname = $1', [own.view.schema])
    assert.equal((await known()).rowCount, 1)
    for (const _ of [1, 2]) await views.remove(dataset('acme', 'clear'))
    assert.equal((await known()).rowCount, 0)
    const left =
      'select from pg_namespace where nspname = $1 union all select from sluice_views.logins where role_name = $1'
    assert.equal((await owner.query(left, [own.view.schema])).rowCount, 0)
  })
})

test('a dataset that the store has no rows of has no view', async () => {
  assert.equal(await views.describe({ ...dataset('acme', 'clear'), product: 'nothing' }, signal), null)
})
