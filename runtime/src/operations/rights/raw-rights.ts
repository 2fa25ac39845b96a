/** Who may read the raw tables of a connection, and who may let others read them. */
import type { Principal, TenantCall } from '../../flow.ts'
import { isSubject } from '../../policy/classification.ts'
import { isActor } from '../../registry/actor.ts'
import { type Connection, findConnection } from '../../registry/connections.ts'
import type { GrantNeed } from '../../registry/grant-bases.ts'
import { type RawTableGrant, rawTableGrants } from '../../registry/grants.ts'
import type { RightsDeps } from './deps.ts'

type Caller = Pick<TenantCall, 'principal'>

export function ownsConnection(principal: Principal, { createdBy }: Pick<Connection, 'createdBy'>): boolean {
  return principal.isAdmin || (principal.isDeveloper && isActor(principal, createdBy))
}

/**
 * By which grants the caller may read the table, or grant it on; null: of every table. None: as the connection's creator or
 * an administrator. Null where they may not.
 */
export async function rawBasis(
  { pool }: Pick<RightsDeps, 'pool'>,
  { principal }: Caller,
  connection: Connection,
  table: string | null,
  to: 'read' | 'grant',
): Promise<readonly GrantNeed[] | null> {
  if (ownsConnection(principal, connection)) return []
  const grants = await rawTableGrants(pool, connection.tenant, connection.id)
  const anyOf = grants.filter((one) => (to === 'read' || one.grantable) && holds(principal, [one], table))
  return anyOf.length === 0 ? null : [{ anyOf: anyOf.map(({ id }) => id), to }]
}

/** The connection's creator, administrators, and whoever holds a grant on the table. */
export async function mayReadRaw(
  platform: Pick<RightsDeps, 'pool'>,
  caller: Caller,
  connection: Connection,
  table: string,
): Promise<boolean> {
  return (await rawBasis(platform, caller, connection, table, 'read')) !== null
}

/**
 * `mayReadRaw` for many tables, of connections by their ids: each connection is looked at once. One that is gone has no
 * readers but administrators.
 */
export function rawReader(
  { pool }: Pick<RightsDeps, 'pool'>,
  principal: Principal,
  tenant: string,
): (connectionId: string, table: string) => Promise<boolean> {
  const known = new Map<string, Promise<Held | null>>()
  const load = async (id: string): Promise<Held | null> => {
    const connection = await findConnection(pool, tenant, id)
    return connection && { connection, grants: await rawTableGrants(pool, tenant, connection.id) }
  }
  return async (id, table) => {
    if (principal.isAdmin) return true
    const loading = known.get(id) ?? load(id)
    known.set(id, loading)
    const found = await loading
    return found !== null && (ownsConnection(principal, found.connection) || holds(principal, found.grants, table))
  }
}

interface Held {
  readonly connection: Connection
  readonly grants: readonly RawTableGrant[]
}

function holds(principal: Principal, grants: readonly RawTableGrant[], table: string | null): boolean {
  // Application keys are for products.
  if (principal.key !== undefined) return false
  return grants.some((grant) => (grant.tableName === null || grant.tableName === table) && isSubject(principal, grant))
}
