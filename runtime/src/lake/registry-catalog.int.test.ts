import { after, before } from 'node:test'
import { testCatalog } from '@sluice/iceberg/catalog-contract'
import type pg from 'pg'
import { startTestPostgres, type TestDatabase } from '../database/testing.ts'
import { LAKE_MIGRATIONS } from './migrations.ts'
import { registryCatalog } from './registry-catalog.ts'

let database: TestDatabase
let pool: pg.Pool

before(async () => {
  const postgres = await startTestPostgres()
  database = await postgres.createDatabase({ migrations: [LAKE_MIGRATIONS] })
  pool = database.pool()
})
after(() => database.drop())

testCatalog(() => registryCatalog(pool), 'acme')
