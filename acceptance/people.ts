/** Who works with the products of one tenant, around one connection `db`, which the owner has made. */
import type { Client } from './client.ts'
import { connect, type World } from './world.ts'

export interface People {
  readonly owner: Client
  /** Makes products as the owner does, and holds nothing of his. */
  readonly colleague: Client
  readonly viewer: Client
}

/** Makes the tenant. */
export async function gatherPeople(world: World, tenant: string, tier?: string): Promise<People> {
  await world.createTenant(tenant, tier)
  const people = {
    owner: await world.as(tenant, 'svc-developers', 'owner'),
    colleague: await world.as(tenant, 'svc-developers', 'colleague'),
    viewer: await world.as(tenant, 'svc-viewers', 'vito'),
  }
  await connect(world, people.owner)
  return people
}

/** A table of the source for products that are made of one another: every third of its rows is small. */
export const THINGS = `CREATE TABLE things (id integer PRIMARY KEY, kind text, size integer, secret text);
  INSERT INTO things SELECT i, CASE WHEN i % 3 = 0 THEN 'small' ELSE 'large' END, i, 'hidden-' || i FROM generate_series(1, 12) i;`
