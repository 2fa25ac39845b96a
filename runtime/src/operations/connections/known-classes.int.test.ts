import assert from 'node:assert/strict'
import { after, before, it } from 'node:test'
import { startTestPostgres, type TestDatabase } from '../../database/testing.ts'
import { registryMigrations } from '../../registry/migrations.ts'
import { knownClasses } from './known-classes.ts'

let database: TestDatabase

before(async () => {
  const postgres = await startTestPostgres()
  database = await postgres.createDatabase({ migrations: [registryMigrations] })
})
after(() => database.drop())

/** Of each part of what names a column, another one too. */
const WAYS = ['acme', 'other'].flatMap((tenant) =>
  ['db', 'shop'].flatMap((connection) =>
    ['public.people', 'public.orders', 'crm.people'].map((table) => ({ tenant, connection, table })),
  ),
)

it('classes are told of readable tables of the connection and the tenant, by columns in any case', async () => {
  const pool = database.pool()
  const rules = { sensitive: ['secret'], strategies: {} }
  // Only classes are asked for here; tenants and connections need not be there.
  await pool.query(`alter table kept_raw_classes drop constraint kept_raw_classes_tenant_fkey,
    drop constraint kept_raw_classes_connection_id_fkey`)
  for (const { tenant, connection, table } of WAYS) {
    const own = `pii.${tenant}_${connection}_${table.replace('.', '_')}`
    for (const name of [own, 'secret', 'internal']) {
      const raw = JSON.stringify([connection, table, 'email'])
      await pool.query(
        'insert into kept_raw_classes (tenant, connection_id, raw_column, class) values ($1, $2, $3, $4)',
        [tenant, connection, raw, name],
      )
    }
  }
  const tableNamed = (name: string) => ({ schema: name.split('.')[0] as string, name: name.split('.')[1] as string })
  for (const { tenant, connection, table } of WAYS) {
    const asked = tableNamed(table)
    const classesOf = await knownClasses({ pool, rules }, tenant, connection, [asked])
    const own = `pii.${tenant}_${connection}_${table.replace('.', '_')}`
    assert.deepEqual(classesOf(asked, 'Email'), [own, 'secret'])
    assert.deepEqual(classesOf(asked, 'city'), [])
    for (const other of WAYS.filter((one) => one.table !== table)) {
      assert.deepEqual(classesOf(tableNamed(other.table), 'email'), [], 'it may not be read')
    }
    const none = await knownClasses({ pool, rules }, tenant, connection, [])
    assert.deepEqual(none(asked, 'email'), [])
  }
})
