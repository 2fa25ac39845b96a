import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { describe, it } from 'node:test'
import pg from 'pg'
import type { DatabaseAddress } from './address.ts'
import { clientConfig } from './pools.ts'
import { prepareRegistryDatabase } from './roles.ts'
import { startTestPostgres } from './testing.ts'

const postgres = await startTestPostgres()

async function ask<Row>(address: DatabaseAddress, text: string): Promise<Row[]> {
  const client = new pg.Client(clientConfig(address, { applicationName: 'test' }))
  await client.connect()
  try {
    return (await client.query(text)).rows as Row[]
  } finally {
    await client.end()
  }
}

describe('the platform’s roles', () => {
  it('have no right beyond their part', async () => {
    await using serving = await postgres.createServingDatabase()
    const { owner, writer, reader } = serving.logins
    await ask(owner, 'create schema sales; create table sales.orders (id int)')
    for (const login of [writer, reader]) {
      await assert.rejects(ask(login, 'select * from sales.orders'), { code: '42501' })
      await assert.rejects(ask(login, 'create table public.mine ()'), { code: '42501' })
      await assert.rejects(ask(login, 'create schema mine'), { code: '42501' })
    }
    for (const login of [owner, writer, reader]) {
      const [role] = await ask(
        login,
        `select rolsuper, rolbypassrls, rolcreatedb, rolcreaterole, rolreplication
        from pg_roles where rolname = current_user`,
      )
      assert.deepEqual(Object.values(role as object), Array(5).fill(false))
    }
  })

  it('cannot log in to each other’s databases', async () => {
    await using one = await postgres.createServingDatabase()
    await using other = await postgres.createServingDatabase()
    const strayed = { ...one.logins.reader, database: other.logins.reader.database }
    await assert.rejects(ask(strayed, 'select 1'), { code: '42501' })
  })

  it('are set right by preparing them again, with new passwords and the same data', async () => {
    const name = `registry_${randomBytes(6).toString('hex')}`
    const names = { registryDatabase: name, registryRole: name }
    const first = await prepareRegistryDatabase(postgres.admin, names)
    await ask(first, 'create table kept ()')
    await ask(postgres.admin, `alter role ${name} superuser bypassrls`)
    const second = await prepareRegistryDatabase(postgres.admin, names)
    assert.deepEqual(
      await ask(
        second,
        `select rolsuper, rolbypassrls, to_regclass('kept') is not null as kept
        from pg_roles where rolname = current_user`,
      ),
      [{ rolsuper: false, rolbypassrls: false, kept: true }],
    )
    await assert.rejects(ask(first, 'select 1'), { code: '28P01' })
    await ask(postgres.admin, `drop database ${name} with (force)`)
    await ask(postgres.admin, `drop role ${name}`)
  })
})
