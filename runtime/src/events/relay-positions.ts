/** How far a relay has come with each tenant, and which process may move it. */
import { change, many, maybeOne, type Queryable, type Transaction } from '../registry/sql.ts'

export interface RelayLease {
  readonly relay: string
  /** Grows whenever another process takes over. */
  readonly token: number
}

/** Null where another process has it. A process that has it takes it again, under the same token. */
export async function acquireRelay(
  db: Queryable,
  relay: string,
  owner: string,
  leaseMs: number,
): Promise<RelayLease | null> {
  const row = await maybeOne<{ token: number }>(
    db,
    'taking the relay',
    `insert into event_relays as held (name, owner, token, lease_until)
     values ($1, $2, 1, clock_timestamp() + make_interval(secs => $3::float8 / 1000))
     on conflict (name) do update set
       owner = excluded.owner,
       token = held.token + case when held.owner = excluded.owner and held.lease_until > clock_timestamp() then 0 else 1 end,
       lease_until = excluded.lease_until
     where held.owner = excluded.owner or held.lease_until <= clock_timestamp()
     returning token`,
    [relay, owner, leaseMs],
  )
  return row && { relay, token: row.token }
}

/** So that another process need not wait for the end of the lease. */
export async function releaseRelay(db: Queryable, { relay, token }: RelayLease): Promise<void> {
  const statement = 'update event_relays set lease_until = clock_timestamp() where name = $1 and token = $2'
  await change(db, 'giving the relay back', statement, [relay, token])
}

export interface TenantPosition {
  readonly tenant: string
  /** The number of the last event that the bus has. */
  readonly sequence: number
}

/** Tenants with events that the relay has not sent; those without a number count too. */
export function tenantsToRelay(db: Queryable, relay: string, limit: number): Promise<readonly TenantPosition[]> {
  return many<TenantPosition>(
    db,
    'looking for events',
    `select c.tenant, greatest(coalesce(p.sequence, 0), c.removed) as sequence
     from event_counters c left join event_relay_positions p on p.tenant = c.tenant and p.relay = $1
     where c.last > coalesce(p.sequence, 0)
        or exists (select 1 from events e where e.tenant = c.tenant and e.sequence is null)
     order by c.tenant limit $2`,
    [relay, limit],
  )
}

/** False where the relay has another owner by now, or the tenant is gone: nothing was changed. */
export async function moveRelay(
  tx: Transaction,
  { relay, token }: RelayLease,
  { tenant, sequence }: TenantPosition,
): Promise<boolean> {
  const held = 'select 1 from event_relays where name = $1 and token = $2 for update'
  if ((await maybeOne(tx, 'moving the relay', held, [relay, token])) === null) return false
  const moved = await change(
    tx,
    'moving the relay',
    `insert into event_relay_positions as at (relay, tenant, sequence)
     select $1, tenant, $3 from event_counters where tenant = $2
     on conflict (relay, tenant) do update set sequence = greatest(at.sequence, excluded.sequence)`,
    [relay, tenant, sequence],
  )
  return moved > 0
}

/** Notes tenants that are new: from then on nothing of theirs is removed that was not relayed. */
export async function enlistTenants(db: Queryable, relay: string): Promise<void> {
  await change(
    db,
    'noting new tenants',
    `insert into event_relay_positions (relay, tenant, sequence)
     select $1, c.tenant, c.removed from event_counters c
     where not exists (select 1 from event_relay_positions p where p.relay = $1 and p.tenant = c.tenant)
     on conflict do nothing`,
    [relay],
  )
}

/**
 * What is not relayed is kept however old it is; without a relay there is nothing to wait for.
 * @param but the one that there is, or null
 */
export async function forgetRelays(db: Queryable, but: string | null): Promise<void> {
  const statement = 'delete from event_relay_positions where relay is distinct from $1'
  await change(db, 'forgetting relays', statement, [but])
}
