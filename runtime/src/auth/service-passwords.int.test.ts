/** What the registry keeps of service passwords, and how many of them. */
import assert from 'node:assert/strict'
import { after, it } from 'node:test'
import type { Principal, TenantCall } from '../flow.ts'
import type { Keep } from '../operations/keep.ts'
import type { TenantsDeps } from '../operations/tenants/deps.ts'
import {
  deletePassword,
  listPasswords,
  type MadePassword,
  makeServicePassword,
  type ServicePasswordRequest,
} from '../operations/tenants/service-passwords.ts'
import { verifierOf } from '../registry/scram-verifiers.ts'
import { goodPasswords, MOST_OF_A_TENANT, presentedPassword } from '../registry/service-passwords.ts'
import { setTenantStatus } from '../registry/tenants.ts'
import { ANN, startTestRegistry } from '../registry/testing.ts'
import { PasswordAuthenticator, passwordStoreIn } from './service-passwords.ts'

const registry = await startTestRegistry()
const { pool } = registry
const platform = { pool } as unknown as TenantsDeps
after(() => registry[Symbol.asyncDispose]())

const keep: Keep<MadePassword> = async () => undefined
const ROOT = { ...ANN, subject: 'root', tenant: null, isAdmin: true, claimedClearance: null } as unknown as Principal

const callIn = (tenant: string, principal = ROOT) => ({ tenant, principal, requestId: 'r' }) as TenantCall

function make(tenant: string, change: Partial<ServicePasswordRequest> = {}, principal = ROOT): Promise<MadePassword> {
  const request = { name: 'dashboards', group: 'sales', clearance: null, expiresInDays: null, ...change }
  return makeServicePassword(platform, callIn(tenant, principal), request, keep)
}

const listed = async (tenant: string) =>
  (await listPasswords(platform, callIn(tenant), { limit: 1000, after: null })).items

it('the password itself is in no table, and its verifier is one of it', async () => {
  const tenant = await registry.tenant()
  const { record, password } = await make(tenant)
  assert.ok(password !== null)
  const tables = await pool.query<{ name: string }>(
    "select format('%I.%I', schemaname, tablename) as name from pg_tables where schemaname not in ('pg_catalog', 'information_schema')",
  )
  const rowsWith = async (text: string): Promise<readonly string[]> => {
    const found = await Promise.all(
      tables.rows.map(async ({ name }) => {
        const { rowCount } = await pool.query(`select from ${name} as t where t::text like '%' || $1 || '%'`, [text])
        return (rowCount ?? 0) > 0 ? [name] : []
      }),
    )
    return found.flat().sort()
  }
  assert.ok(tables.rows.length > 20)
  assert.deepEqual(await rowsWith(record.id), ['public.audit_log', 'public.service_passwords'])
  for (const part of [password, password.slice(4), Buffer.from(password).toString('hex')]) {
    assert.deepEqual(await rowsWith(part), [])
  }
  const kept = await presentedPassword(pool, record.id)
  assert.ok(kept !== null)
  assert.deepEqual(kept.verifier, await verifierOf(password, kept.verifier.salt, kept.verifier.iterations))
  const other = await presentedPassword(pool, (await make(tenant)).record.id)
  assert.notDeepEqual(other?.verifier.salt, kept.verifier.salt)
})

it('it has no wider clearance than whoever makes it', async () => {
  const tenant = await registry.tenant()
  const narrow = { ...ROOT, claimedClearance: 'internal' } as const
  const clearanceBy = async (principal: Principal, clearance: ServicePasswordRequest['clearance']) =>
    (await make(tenant, { clearance }, principal)).record.clearance
  assert.deepEqual(
    [
      await clearanceBy(ROOT, null),
      await clearanceBy(ROOT, 'restricted'),
      await clearanceBy(narrow, null),
      await clearanceBy(narrow, 'internal'),
      await clearanceBy(narrow, 'public'),
    ],
    [null, 'restricted', 'internal', 'internal', 'public'],
  )
  for (const wider of ['confidential', 'restricted'] as const) {
    await assert.rejects(clearanceBy(narrow, wider), { code: 'clearance_too_wide' })
  }
  const developer = { ...ANN, tenant, isAdmin: false, isDeveloper: true } as Principal
  await assert.rejects(clearanceBy(developer, null), { code: 'admin_required' })
  assert.equal((await listed(tenant)).length, 5, 'what was refused is not there')
})

it('a tenant has so many and no more, made at once or one after the other; others have theirs', async () => {
  const [tenant, other] = [await registry.tenant(), await registry.tenant()]
  await pool.query(
    `insert into service_passwords (id, tenant, name, team, salt, iterations, stored_key, server_key, maker_issuer, maker_subject)
     select 'svp_' || $1 || i, $1, 'x', 'x', '', 4096, '', '', 'x', 'x' from generate_series(4, $2) i`,
    [tenant, MOST_OF_A_TENANT],
  )
  const made = await Promise.allSettled(Array.from({ length: 8 }, () => make(tenant)))
  const refusals = made.flatMap((one) => (one.status === 'rejected' ? [one.reason.code] : []))
  assert.deepEqual(refusals, Array(5).fill('too_many_service_passwords'))
  assert.equal((await listed(tenant)).length, MOST_OF_A_TENANT)
  await make(other)
})

it('it is good until it is deleted, by who is of its tenant, expires, or its tenant is served no more', async () => {
  const [tenant, other] = [await registry.tenant(), await registry.tenant()]
  const passwords = new PasswordAuthenticator(passwordStoreIn(pool), Buffer.alloc(32))
  const good = async (id: string) => {
    const principal = await passwords.principalOf(id).catch(() => null)
    assert.equal((await goodPasswords(pool, ['svp_none', id])).has(id), principal !== null)
    return principal !== null
  }
  const [deleted, expired, orphaned] = await Promise.all([
    make(tenant),
    make(tenant, { expiresInDays: 1 }),
    make(other),
  ])
  for (const { record } of [deleted, expired, orphaned]) assert.ok(await good(record.id))
  const shown = (await listed(tenant)).find(({ id }) => id === deleted.record.id)
  assert.equal(shown?.lastUsedAt?.getSeconds(), 0, 'its last use is known, to the minute')
  assert.ok(!(await listed(other)).some(({ id }) => id === deleted.record.id))
  await assert.rejects(deletePassword(platform, callIn(other), deleted.record.id), {
    code: 'service_password_not_found',
  })
  assert.ok(await good(deleted.record.id))
  await deletePassword(platform, callIn(tenant), deleted.record.id)
  await pool.query("update service_passwords set expires_at = now() - interval '1 second' where id = $1", [
    expired.record.id,
  ])
  await setTenantStatus(pool, other, 'deprovisioning')
  for (const { record } of [deleted, expired, orphaned]) assert.ok(!(await good(record.id)))
  const { rows } = await pool.query('select action from audit_log where object_id = $1 order by action', [
    deleted.record.id,
  ])
  assert.deepEqual(
    rows.map(({ action }) => action),
    ['service_password.create', 'service_password.delete'],
  )
})
