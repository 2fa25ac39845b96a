import assert from 'node:assert/strict'
import { after, before, beforeEach, describe, it } from 'node:test'
import type pg from 'pg'
import { type MigrationList, migrate } from './migrate.ts'
import { startTestPostgres, type TestDatabase } from './testing.ts'

const FIRST = { id: '001', sql: 'create table a (n int); insert into a values (1)' }
const SECOND = { id: '002', sql: 'alter table a add column m int' }

function list(...migrations: MigrationList['migrations']): readonly MigrationList[] {
  return [{ name: 'one', migrations }]
}

describe('migrations', () => {
  let database: TestDatabase
  let pool: pg.Pool
  beforeEach(async () => {
    database = await (await startTestPostgres()).createDatabase()
    pool = database.pool()
  })
  after(() => database.drop())
  before(() => startTestPostgres())

  it('run once each, in order, list by list', async () => {
    assert.deepEqual(await migrate(pool, list(FIRST)), [{ list: 'one', id: '001' }])
    const both = [...list(FIRST, SECOND), { name: 'two', migrations: [{ id: '001', sql: 'create table b ()' }] }]
    assert.deepEqual(await migrate(pool, both), [
      { list: 'one', id: '002' },
      { list: 'two', id: '001' },
    ])
    assert.deepEqual(await migrate(pool, both), [])
    assert.equal((await pool.query('select n, m from a')).rowCount, 1)
  })

  it('run once where several runtimes start at the same time', async () => {
    const slow = { id: '001', sql: 'create table a (n int); select pg_sleep(0.2); insert into a values (1)' }
    const pools = [pool, database.pool(), database.pool()]
    const applied = await Promise.all(pools.map((each) => migrate(each, list(slow))))
    assert.equal(applied.flat().length, 1)
    assert.equal((await pool.query('select from a')).rowCount, 1)
  })

  it('find what is there where the role has a schema of its name, and take as long as they take whatever it may take itself', async () => {
    await migrate(pool, list(FIRST))
    await pool.query('create schema authorization current_user')
    assert.deepEqual(await migrate(pool, list(FIRST)), [])
    const [{ limited }] = (
      await pool.query(`select exists (select from pg_settings where name = 'transaction_timeout') as limited`)
    ).rows as [{ limited: boolean }]
    const { user, database: name } = database.address
    if (limited) await pool.query(`alter role "${user}" in database "${name}" set transaction_timeout = '1h'`)
    const shown = { id: '002', sql: "create table b as select current_setting('transaction_timeout', true) as most" }
    const fresh = database.pool()
    try {
      await migrate(fresh, list(FIRST, shown))
    } finally {
      await pool.query(`alter role "${user}" in database "${name}" reset all`)
    }
    assert.deepEqual((await pool.query('select most from public.b')).rows, [{ most: limited ? '0' : null }])
  })

  it('change nothing where one of them fails, and say which', async () => {
    const bad = { id: '002', sql: 'select secret_thing from nowhere' }
    await assert.rejects(
      migrate(pool, list(FIRST, bad)),
      (error: Error) => /one\/002/.test(error.message) && !/nowhere/.test(error.message),
    )
    assert.deepEqual((await pool.query(`select to_regclass('a') as a`)).rows, [{ a: null }])
    assert.equal((await migrate(pool, list(FIRST, SECOND))).length, 2)
  })

  it('are known by their names: whichever is missing is applied, wherever it stands', async () => {
    await migrate(pool, list(FIRST))
    assert.deepEqual(await migrate(pool, list({ id: '000', sql: 'create table z ()' }, FIRST, SECOND)), [
      { list: 'one', id: '000' },
      { list: 'one', id: '002' },
    ])
    assert.deepEqual(await migrate(pool, list(SECOND, FIRST, { id: '000', sql: 'create table z ()' })), [])
    await assert.rejects(migrate(pool, list(FIRST, { ...SECOND, sql: 'select 1' })), { code: 'migration_changed' })
  })

  it('of a newer release that only add are told of and left alone', async () => {
    const third = { id: '003', sql: 'create table c ()' }
    await migrate(pool, list(FIRST, SECOND, third))
    const told: unknown[] = []
    const onNewer = (newer: unknown) => told.push(newer)
    assert.deepEqual(await migrate(pool, list(FIRST), { onNewer }), [])
    const newer = [
      { list: 'one', id: '002' },
      { list: 'one', id: '003' },
    ]
    assert.deepEqual(told, [newer])
    // The older release adds one of its own; the newer one finds it missing nowhere.
    const own = { id: '001b', sql: 'create table d ()' }
    assert.deepEqual(await migrate(pool, list(FIRST, own), { onNewer }), [{ list: 'one', id: '001b' }])
    assert.deepEqual(await migrate(pool, list(FIRST, own, SECOND, third), { onNewer }), [])
    assert.equal(told.length, 2)
  })

  it('that say that older releases break, or say nothing, refuse these', async () => {
    await migrate(pool, list(FIRST, { ...SECOND, breaksOlder: true }))
    await assert.rejects(migrate(pool, list(FIRST)), {
      code: 'database_newer',
      remedy: /Start the release that did it/,
    })
    assert.deepEqual(await migrate(pool, list(FIRST, SECOND)), [])
    await pool.query('update schema_migrations set breaks_older = null')
    await assert.rejects(migrate(pool, list(FIRST)), { code: 'database_newer' })
    const ofItsOwn = { name: 'two', migrations: [{ ...FIRST, sql: 'create table b ()', breaksOlder: true as const }] }
    await migrate(pool, [...list(FIRST, SECOND), ofItsOwn])
    await assert.rejects(migrate(pool, list(FIRST, SECOND)), { code: 'database_newer', message: /two\/001/ })
    await pool.query("delete from schema_migrations where list = 'two'")
    assert.deepEqual(await migrate(pool, list(FIRST, SECOND)), [])
  })
})
