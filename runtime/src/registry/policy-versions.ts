/**
 * One number per tenant that rises whenever what somebody may see could have changed: part of every cache key and
 * cursor. Triggers raise it, so no writer can forget to.
 */
import { change, many, maybeOne, type Queryable } from './sql.ts'

/** Told at the commit of every change; the payload is the tenant. */
export const POLICY_CHANNEL = 'sluice_policy'

/** 0 where there is no such tenant. */
export async function policyVersion(db: Queryable, tenant: string): Promise<number> {
  const statement = 'select version from policy_versions where tenant = $1'
  return (await maybeOne<{ version: number }>(db, 'reading the policy version', statement, [tenant]))?.version ?? 0
}

/** For changes that the registry does not see, such as new masking rules in the configuration: every tenant's rises. */
export async function raiseAllPolicyVersions(db: Queryable): Promise<void> {
  await change(db, 'raising the policy versions', 'select raise_policy_version(slug) from tenants order by slug')
}

export async function policyVersions(db: Queryable): Promise<ReadonlyMap<string, number>> {
  const rows = await many<{ tenant: string; version: number }>(
    db,
    'reading the policy versions',
    'select tenant, version from policy_versions',
  )
  return new Map(rows.map(({ tenant, version }) => [tenant, version]))
}
