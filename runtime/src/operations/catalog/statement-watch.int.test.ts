/** Whose account statements in Trino are on; which of them are ended is tested with a real Trino. */
import assert from 'node:assert/strict'
import { after, it } from 'node:test'
import type { ComputeStatement, StatementTable } from '@sluice/sdk'
import { until } from '../../../../test/until.ts'
import { engineLogin, engineUser, principalOfEngineUser, tokenEndOf } from '../../auth/engine-user.ts'
import { inTransaction } from '../../database/pools.ts'
import { createTenant, setTenantStatus } from '../../registry/tenants.ts'
import { startTestRegistry } from '../../registry/testing.ts'
import type { CatalogDeps } from './deps.ts'
import { StatementWatch } from './statement-watch.ts'

const registry = await startTestRegistry()
after(() => registry[Symbol.asyncDispose]())

const logger = { debug() {}, info() {}, warn() {}, error() {}, child: () => logger }
const issuer = { issuer: 'https://own.test', tenants: 'all', mayClaimAdmin: true } as never
const logins = {
  personOf: (user: string) => (user.startsWith('{') ? principalOfEngineUser(user, issuer) : null),
  tokenEndOf,
}
const PERSON = engineUser({ subject: 'vito', tenant: 'acme', groups: [] })
const PLATFORM = engineUser({ subject: 'sluice', admin: true })

it('charges what statements use once, to the tenant of the person or of the tables, over several runtimes', async () => {
  const statements = new Map<string, ComputeStatement>()
  const now = Date.now()
  const listed = (
    id: string,
    user: string,
    cpuS: number,
    endedAtMs: number | null = null,
    login: string | null = null,
  ) => statements.set(id, { id, user, login, cpuS, endedAtMs })
  const ended: string[] = []
  const trino = {
    server: 'http://trino.test',
    atWork: async () => [...statements.values()].filter(({ endedAtMs }) => endedAtMs === null),
    all: async () => [...statements.values()],
    tables: async (id: string): Promise<readonly StatementTable[]> => {
      if (id === 'asks') return [{ catalog: 'system', schema: 'runtime', table: 'queries', isOwn: true }]
      return id.startsWith('own') ? [{ catalog: 'lakehouse_globex', schema: 'crm', table: 'x' }] : []
    },
    end: async (id: string) => void ended.push(id),
  }
  const charged = new Map<string, number>()
  const cpu = {
    charge: (tenant: string, _: string, seconds: number) => charged.set(tenant, (charged.get(tenant) ?? 0) + seconds),
  }
  const platform = { pool: registry.pool, cpu } as unknown as CatalogDeps
  const watches = [0, 1].map(
    () =>
      new StatementWatch(platform, {
        engines: [{ name: 'trino', statements: trino }],
        logins,
        logger: logger as never,
        everyMs: 20,
      }),
  )
  await inTransaction(registry.pool, (tx) => createTenant(tx, { slug: 'acme', displayName: 'Acme', tier: 'standard' }))
  await setTenantStatus(registry.pool, 'acme', 'active')
  listed('a', PERSON, 2)
  listed('own', PLATFORM, 5, now)
  listed('nobody', 'somebody else', 9)
  listed('long ago', PERSON, 100, now - 2 * 3_600_000)
  listed('asks', PERSON, 0)
  listed('over', PERSON, 0, null, engineLogin(PERSON, Math.floor(now / 1000) - 1))
  for (const watch of watches) watch.start()
  await until('both are charged', async () => charged.get('acme') === 2 && charged.get('globex') === 5)
  listed('a', PERSON, 3.5)
  await until('what came since is charged', async () => charged.get('acme') === 3.5)
  await until('a statement whose token is over is ended', async () => ended.includes('over'))
  assert.ok(!ended.includes('asks'), 'one that reads what the engine has itself goes on')
  statements.delete('asks')
  await setTenantStatus(registry.pool, 'acme', 'deprovisioning')
  await until('a statement of a tenant that is not active any more is ended', async () => ended.includes('a'))
  for (const watch of watches) await watch.stop()
  // Another process, which knows nothing of it.
  const next = new StatementWatch(platform, {
    engines: [{ name: 'trino', statements: trino }],
    logins,
    logger: logger as never,
    everyMs: 20,
  })
  listed('b', PERSON, 1)
  next.start()
  await until('the new one is charged', async () => (charged.get('acme') ?? 0) >= 4.5)
  await next.stop()
  assert.deepEqual(
    [...charged],
    [
      ['acme', 4.5],
      ['globex', 5],
    ],
  )
  assert.deepEqual(new Set(ended), new Set(['over', 'a', 'b']))
})
