/** A tenant with a product of people whose rows change, for tests of those who are told of each change. */
import { type Client, manifests } from './client.ts'
import { onboardPeople, openWorld, type World } from './world.ts'

/** In every hidden value, and nowhere else. */
export const HIDDEN = 'hidden-part'

export interface ChangingPeople {
  readonly world: World
  /** Has the product; the world's second tenant is there, and has nothing. */
  readonly tenant: string
  readonly owner: Client
}

/** @param table of the source, `id`, `email`, `city`, with ids from 1 to `rows`; it is this test's own */
export async function openChangingPeople(table: string, rows: number): Promise<ChangingPeople> {
  const world = await openWorld()
  const [tenant, other] = world.tenants
  await world.source.query(`DROP TABLE IF EXISTS ${table};
    CREATE TABLE ${table} (id integer PRIMARY KEY, email text, city text);
    INSERT INTO ${table} SELECT i, '${HIDDEN}-' || i, 'city ' || i % 7 FROM generate_series(1, ${rows}) i`)
  await world.createTenant(tenant)
  await world.createTenant(other)
  const owner = await world.as(tenant, 'svc-developers', 'dora')
  await onboardPeople(world, owner, manifests(`public.${table}`))
  return { world, tenant, owner }
}

/** The same numbers for the same seed, from 0 to below 1. */
export function random(seed: number): () => number {
  let state = seed
  return () => {
    state = (state * 1_103_515_245 + 12_345) % 2_147_483_648
    return state / 2_147_483_648
  }
}
