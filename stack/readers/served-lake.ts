/**
 * A runtime that serves the catalog of a lake which the tests write themselves: the same registry, the same folder. Its
 * tables are plain ones of a tenant's sandbox, so that every way to the lake leads to them.
 */
import { execFile } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { createEngine } from '@sluice/engine'
import { testEngineProgram } from '@sluice/engine/testing'
import { FolderStore, Lake } from '@sluice/iceberg'
import { Client } from '../../acceptance/client.ts'
import type { DatabaseAddress } from '../../runtime/src/database/address.ts'
import { inTransaction, openPool } from '../../runtime/src/database/pools.ts'
import { registryCatalog } from '../../runtime/src/lake/registry-catalog.ts'
import type { RegistryLake } from '../../runtime/src/lake/testing.ts'
import { startRuntimeOnPostgres } from '../servers/runtime.ts'

const run = promisify(execFile)

export interface ServedLake extends RegistryLake {
  /** Of the runtime. */
  readonly url: string
  /** A developer of the tenant. */
  readonly token: string
  /** Where the catalog's rows are, over TCP. */
  readonly registry: DatabaseAddress
}

export async function startServedLake(tenant: string): Promise<ServedLake> {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-served-lake-'))
  const runtime = await startRuntimeOnPostgres(folder)
  const [command = '', ...rest] = runtime.env['SLUICE_ACCEPTANCE_TOKENS']?.split(' ') ?? []
  const token = async (...flags: string[]) => (await run(command, [...rest, ...flags])).stdout.trim()
  const admin = new Client(runtime.url, await token('--role', 'admin'))
  const created = await admin.post('/api/v1/tenants', { slug: tenant, display_name: tenant, tier: 'enterprise' })
  if (created.status !== 201) throw new Error(`the tenant was not made: ${JSON.stringify(created.body)}`)
  const pool = openPool(runtime.registry, { applicationName: 'readers', maxConnections: 4 })
  const store = new FolderStore(join(folder, 'data/lake'))
  const dir = join(folder, 'engine')
  const children = { maxChildren: 2, warmChildren: 1, maxQueued: 10, ...(await testEngineProgram()) }
  const engine = createEngine({ scratchDir: join(dir, 'scratch'), ...children })
  let now: number | null = null
  const catalog = registryCatalog(pool)
  const lake = new Lake({ store, catalog, engine, clock: () => now ?? Date.now() })
  return {
    url: runtime.url,
    token: await token('--tenant', tenant, '--group', 'svc-developers', '--user', 'dora'),
    registry: runtime.registry,
    lake,
    aside: { lakeFor: (asked) => asked, engineFor: (asked) => asked },
    catalog,
    publish: (staged) => inTransaction(pool, (tx) => lake.publish(registryCatalog(tx), staged)),
    store,
    engine,
    pool,
    dir,
    setTime(ms) {
      now = ms
    },
    async [Symbol.asyncDispose]() {
      await engine.close()
      await pool.end()
      await runtime.stop()
      await rm(folder, { recursive: true, force: true })
    },
  }
}
