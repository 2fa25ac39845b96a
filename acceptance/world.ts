/** What a test file works with: a deployment, callers of a tenant of its own, and a source to make tables in. */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import pg from 'pg'
import { until } from '../test/until.ts'
import { Client, type Json, manifests } from './client.ts'
import { type Deployment, openDeployment } from './deployment.ts'

/** Behind the one address of the deployment. */
const RUNTIMES = Number(process.env['SLUICE_ACCEPTANCE_RUNTIMES'] ?? 1)

export interface World {
  readonly deployment: Deployment
  readonly source: pg.Client
  readonly admin: Client
  /** Slugs of tenants that this file may create; those it created are deleted at its end. */
  readonly tenants: readonly [string, string]
  as(tenant: string, group: string | null, user: string): Promise<Client>
  createTenant(slug: string, tier?: string): Promise<Json>
  /**
   * Where several runtimes answer, each hears of a change of rights by itself, within moments: waits until all of them have.
   * With one it has been heard of when it is answered, and there is nothing to wait for.
   */
  heard(look: () => Promise<boolean>): Promise<void>
  close(): Promise<void>
}

export async function openWorld(): Promise<World> {
  const deployment = await openDeployment()
  const source = new pg.Client(deployment.source)
  await source.connect()
  const suffix = randomBytes(5).toString('hex')
  const admin = new Client(deployment.url, await deployment.token(['--role', 'admin']))
  const created: string[] = []
  return {
    deployment,
    source,
    admin,
    tenants: [`alpha-${suffix}`, `beta-${suffix}`],
    async as(tenant, group, user) {
      const groups = group === null ? [] : ['--group', group]
      return new Client(deployment.url, await deployment.token(['--tenant', tenant, ...groups, '--user', user]))
    },
    async createTenant(slug, tier = 'standard') {
      const { status, body } = await admin.post('/api/v1/tenants', { slug, display_name: slug, tier })
      assert.equal(status, 201, JSON.stringify(body))
      created.push(slug)
      return body
    },
    async heard(look) {
      if (RUNTIMES === 1) return
      await until('every runtime has heard of it', async () => {
        // Each is asked in its turn; others may ask in between.
        for (let asked = 0; asked < 2 * RUNTIMES; asked += 1) if (!(await look())) return false
        return true
      })
    },
    async close() {
      for (const slug of created) await admin.send(`/api/v1/tenants/${slug}?confirm=${slug}`, { method: 'DELETE' })
      await source.end()
      await deployment.stop()
    },
  }
}

/** The settings of a connection to the source, as a JSON document in a string. */
export function loginOf({ source }: Deployment, change: Readonly<Record<string, unknown>> = {}): string {
  const { host, port, user, password, database } = source
  return JSON.stringify({ host, port, user, password, database, ssl_mode: 'prefer', ...change })
}

/** Makes the connection `db` to the source; `change`: other settings than those of the deployment. */
export async function connect(
  world: World,
  client: Client,
  change: Readonly<Record<string, unknown>> = {},
): Promise<Json> {
  const config_encrypted = loginOf(world.deployment, change)
  const wanted = { name: 'db', connector_type: 'postgresql', config_encrypted }
  const { status, body } = await client.post('/api/v1/connections', wanted)
  assert.equal(status, 201, JSON.stringify(body))
  return body
}

/** A connection `db`, a product `crm.people` on the table, deployed as 1.0.0 and synced. Returns the product. */
export async function onboardPeople(
  world: World,
  client: Client,
  files: Readonly<Record<string, string>>,
): Promise<Json> {
  await connect(world, client)
  const wanted = { name: 'people', namespace: 'crm', archetype: 'source_aligned', description: '' }
  const { body: product } = await client.post('/api/v1/products', wanted)
  await deployVersion(client, product.id, '1.0.0', files)
  await syncNow(client)
  return product
}

/** Uploads and deploys, with classes of those columns lowered; returns the answer of the deployment, whose run has ended where it has one. */
export async function deployVersion(
  client: Client,
  product: string,
  version: string,
  files: Readonly<Record<string, string>> = manifests('public.people'),
  lower: readonly string[] = [],
): Promise<Json> {
  const uploaded = await client.upload(`/api/v1/products/${product}/manifests`, files)
  assert.equal(uploaded.status, 200, JSON.stringify(uploaded.body))
  const { status, body } = await client.post(`/api/v1/products/${product}/deploy`, { version, dry_run: false, lower })
  assert.equal(status, 201, JSON.stringify(body))
  const run = body.run_id ? await client.untilEnded(body.run_id) : null
  assert.ok(run === null || run.state === 'succeeded', JSON.stringify(run))
  return body
}

export async function syncNow(client: Client, connection = 'db'): Promise<Json> {
  const { status, body } = await client.post(`/api/v1/connections/${connection}/sync`)
  assert.equal(status, 202, JSON.stringify(body))
  const run = await client.untilEnded(body.id)
  assert.equal(run.state, 'succeeded', JSON.stringify(run))
  return run
}
