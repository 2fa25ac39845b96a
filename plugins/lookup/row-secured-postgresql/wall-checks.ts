/** Is the wall between tenants there, and could a login climb it? Asked of the server itself. */
import { type InstalledPolicy, type ProbeReport, type RowPolicy, SluiceError } from '@sluice/sdk'
import {
  type DatasetKey,
  loadDataset,
  notProvisioned,
  PARTITION_SCHEMA,
  registerExists,
  STORE_SCHEMA,
  setPolicyVersion,
} from './datasets.ts'
import type { WantedTable } from './provisioning.ts'
import { isWall, securityOf } from './row-security.ts'
import type { Client, Roles, Sessions } from './sessions.ts'

type Check = ProbeReport['checks'][number]

const ROLES = ['owner', 'writer', 'reader'] as const

export async function probeWall(sessions: Sessions, signal: AbortSignal): Promise<ProbeReport> {
  const checks: Check[] = [distinctLogins(sessions.roles)]
  for (const role of ROLES) {
    const found = await sessions.use(role, `probing as ${role}`, (client) => probeLogin(client, role), signal)
    checks.push(...found)
  }
  checks.push(await sessions.use('owner', 'probing as owner', ownerCanCreate, signal))
  return { ok: checks.every((check) => check.ok), checks }
}

function distinctLogins(roles: Roles): Check {
  const ok = new Set(Object.values(roles)).size === ROLES.length
  const message = ok ? 'owner, writer and reader are three logins' : 'owner, writer and reader must be three logins'
  return { name: 'distinct_logins', ok, message }
}

async function probeLogin(client: Client, role: (typeof ROLES)[number]): Promise<readonly Check[]> {
  const result = await client.query<{ bypasses: boolean; climbs: boolean }>(
    `select r.rolsuper or r.rolbypassrls as bypasses,
            exists (select from pg_roles other where (other.rolsuper or other.rolbypassrls)
                      and pg_has_role(r.oid, other.oid, 'member')) as climbs
       from pg_roles r where r.rolname = current_user`,
  )
  const { bypasses = true, climbs = true } = result.rows[0] ?? {}
  const ok = !bypasses && !climbs
  const message = ok
    ? `the ${role} login is subject to row security`
    : `the ${role} login could bypass row security: it must be no superuser, have no BYPASSRLS, and be no member of a role that is or has`
  return [{ name: `${role}_cannot_bypass`, ok, message }, await wallBites(client, role)]
}

/** Without a tenant, a row-secured table has no rows, and the server says that its policies apply to the login. */
async function wallBites(client: Client, role: (typeof ROLES)[number]): Promise<Check> {
  const name = `${role}_sees_nothing_without_tenant`
  if (!(await registerExists(client))) return { name, ok: true, message: 'nothing is provisioned yet' }
  const result = await client.query<{ active: boolean; rows: boolean }>(
    `select row_security_active('${STORE_SCHEMA}.datasets') as active,
            exists (select from ${STORE_SCHEMA}.datasets) as rows`,
  )
  const { active = false, rows = true } = result.rows[0] ?? {}
  const ok = active && !rows
  const message = ok ? `without a tenant the ${role} login sees no row` : `the ${role} login sees rows without a tenant`
  return { name, ok, message }
}

async function ownerCanCreate(client: Client): Promise<Check> {
  const result = await client.query<{ ok: boolean }>(
    `select has_database_privilege(current_database(), 'create') as ok`,
  )
  const ok = result.rows[0]?.ok === true
  const message = ok ? 'the owner login may create schemas' : 'the owner login needs CREATE on the database'
  return { name: 'owner_can_create', ok, message }
}

/** Notes the policy's version; the wall itself stands since the table was made. */
export async function installWall(sessions: Sessions, wanted: WantedTable, policy: RowPolicy): Promise<void> {
  const { key } = wanted
  await sessions.transaction('owner', key.tenant, 'installing row security', async (client) => {
    const noted = (await registerExists(client)) && (await setPolicyVersion(client, key, policy.version))
    if (!noted) throw notProvisioned(key)
    await describeIn(client, wanted)
  })
}

/** Throws CONFLICT `policy_missing` where nothing was installed or the server does not have it. */
export async function describeWall(sessions: Sessions, wanted: WantedTable): Promise<InstalledPolicy> {
  return await sessions.transaction('owner', wanted.key.tenant, 'describing row security', (client) =>
    describeIn(client, wanted),
  )
}

async function describeIn(client: Client, { key, schema }: WantedTable): Promise<InstalledPolicy> {
  const dataset = (await registerExists(client)) ? await loadDataset(client, key) : null
  if (dataset === null || dataset.policyVersion === null) throw policyMissing(key)
  const { partition, relation } = dataset
  // Without rows of the tenant the parent may be gone, or come back: nobody's rows stand unwalled.
  const parent = await securityOf(client, schema, relation)
  const stands = parent === null ? partition === null : isWall(parent)
  const partitionStands = partition === null || isWall(await securityOf(client, PARTITION_SCHEMA, partition))
  if (!stands || !partitionStands || !dataset.stands) throw policyMissing(key)
  return {
    version: dataset.policyVersion,
    tenantIsolation: 'forced',
    enforcedBy: `row security forced on ${key.domain}.${key.product}`,
  }
}

function policyMissing(key: DatasetKey): SluiceError {
  return new SluiceError('CONFLICT', `no row security is installed for ${key.domain}.${key.product}`, {
    code: 'policy_missing',
    remedy: 'Provision the endpoint and install its policy.',
  })
}
