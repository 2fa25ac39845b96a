import assert from 'node:assert/strict'
import { after, it } from 'node:test'
import { isSluiceError } from '@sluice/sdk'
import { startTestPostgres } from '../database/testing.ts'
import { MIGRATIONS } from './migrations.ts'
import type { Platform } from './platform.ts'
import { probesOf } from './probes.ts'

const database = await (await startTestPostgres()).createDatabase({ migrations: MIGRATIONS })
after(() => database.drop())

/** What readiness says of the registry to whom these settings apply. */
async function registryCheck(name: string, value: string): Promise<Readonly<Record<string, unknown>> | undefined> {
  const admin = database.pool({ maxConnections: 1 })
  const role = `role "${database.address.user}" in database "${database.address.database}"`
  await admin.query(`alter ${role} set ${name} = ${value}`)
  const pool = database.pool({ maxConnections: 2 })
  try {
    const platform = { pool, plugins: { servingTypes: () => [] } } as unknown as Platform
    const reviewed = { storeFault: () => null, unknownBuckets: () => 0 }
    const services = { states: () => [] }
    const confinement = { missing: [], isConfined: false, neededWalls: [] }
    const [registry] = probesOf(platform, confinement, { upkeep: reviewed, services }, MIGRATIONS)
    return await registry?.check(AbortSignal.timeout(600_000))
  } finally {
    await admin.query(`alter ${role} reset all`)
  }
}

it('says of a registry that takes no writes that it does not, and stays ready: what is there is served', async () => {
  assert.deepEqual(await registryCheck('default_transaction_read_only', 'off'), {})
  assert.deepEqual(await registryCheck('default_transaction_read_only', 'on'), { state: 'degraded', read_only: true })
})

it('says why the registry refuses what is asked of it', async () => {
  const admin = database.pool({ maxConnections: 1 })
  await admin.query('alter table schema_migrations rename column breaks_older to gone')
  try {
    await assert.rejects(
      registryCheck('work_mem', "'4MB'"),
      (error) => isSluiceError(error) && / while reading /.test(error.message),
    )
  } finally {
    await admin.query('alter table schema_migrations rename column gone to breaks_older')
  }
})
