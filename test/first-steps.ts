/** What tests of a whole runtime begin with: who asks it, a tenant, a source that it reads, a product of it. */
import assert from 'node:assert/strict'
import { Client, type Json, ok } from '../acceptance/client.ts'
import { issueToken } from '../runtime/src/auth/embedded-issuer.ts'
import type { RuntimeProcess } from './crash/runtime-process.ts'

/** Longer than any of these tests. */
const TTL_S = 36_000

/** Where it serves; fails with what it said where it has ended. */
export async function servedAt(runtime: RuntimeProcess): Promise<string> {
  const found = await runtime.address()
  assert.ok(found, runtime.output)
  return found
}

/** Of a runtime with the embedded issuer, whose keys lie in its folder. */
export interface Place {
  readonly url: string
  readonly data: string
}

export async function adminOf({ url, data }: Place): Promise<Client> {
  return new Client(url, await issueToken(data, { role: 'admin' }, { ttlS: TTL_S }))
}

export async function personOf(
  { url, data }: Place,
  user: string,
  { tenant = 'acme', group = 'svc-developers' }: { readonly tenant?: string; readonly group?: string } = {},
): Promise<Client> {
  return new Client(url, await issueToken(data, { tenant, groups: [group], user }, { ttlS: TTL_S }))
}

export function makeTenant(admin: Client, slug = 'acme'): Promise<Json> {
  return ok(admin.post('/api/v1/tenants', { slug, display_name: slug, tier: 'enterprise' }))
}

export interface SourceLogin {
  readonly host: string
  readonly port: number
  readonly user: string
  readonly password: string
}

/** The connection `db` of a PostgreSQL. */
export function connectSource(
  client: Client,
  { host, port, user, password }: SourceLogin,
  database = 'postgres',
): Promise<Json> {
  const login = JSON.stringify({ host, port, user, password, database, ssl_mode: 'prefer' })
  return ok(client.post('/api/v1/connections', { name: 'db', connector_type: 'postgresql', config_encrypted: login }))
}

export function registerProduct(client: Client, name: string): Promise<Json> {
  const wanted = { name, namespace: 'crm', archetype: 'source_aligned', description: '' }
  return ok(client.post('/api/v1/products', wanted))
}

/** Answers with the deployment, whose run is queued. */
export async function uploadAndDeploy(
  client: Client,
  product: string,
  files: Readonly<Record<string, string>>,
  version = '1.0.0',
): Promise<Json> {
  await ok(client.upload(`/api/v1/products/${product}/manifests`, files))
  return ok(client.post(`/api/v1/products/${product}/deploy`, { version, dry_run: false }))
}
