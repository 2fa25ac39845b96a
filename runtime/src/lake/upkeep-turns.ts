import { randomUUID } from 'node:crypto'
import { change, type Queryable } from '../registry/sql.ts'
import { catalogName } from './tenant-layout.ts'

/** A piece of upkeep that is this process's until the lease ends. */
export interface UpkeepTurn {
  readonly claim: string
  end(): Promise<void>
}

/**
 * Takes the turn for `task`, provided that nobody has it and that the last one began `everyMs` ago or longer; null
 * otherwise. By the database's clock, so several runtimes do the work once. No tenant: what is kept for all of them.
 */
export async function takeTurn(
  db: Queryable,
  tenant: string | null,
  task: string,
  { everyMs, leaseMs }: { readonly everyMs: number; readonly leaseMs: number },
): Promise<UpkeepTurn | null> {
  const claim = randomUUID()
  const catalog = tenant === null ? '' : catalogName(tenant)
  const taken = await change(
    db,
    'taking a turn of upkeep',
    `insert into lake_upkeep as u (catalog_name, task, claim, lease_until, started_at)
     values ($1, $2, $3, now() + $4 * interval '1 millisecond', now())
     on conflict (catalog_name, task) do update
       set claim = excluded.claim, lease_until = excluded.lease_until, started_at = excluded.started_at
       where u.lease_until <= now() and u.started_at <= now() - $5 * interval '1 millisecond'`,
    [catalog, task, claim, leaseMs, everyMs],
  )
  if (taken === 0) return null
  return {
    claim,
    async end() {
      await change(
        db,
        'ending a turn of upkeep',
        `update lake_upkeep set lease_until = now(), finished_at = now()
         where catalog_name = $1 and task = $2 and claim = $3`,
        [catalog, task, claim],
      )
    },
  }
}
