/** Who asks in this test, by tokens of the folder's own issuer, and the onboarding of the tenant. */
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { issueToken } from '../../runtime/src/auth/embedded-issuer.ts'
import { Api } from './api.ts'
import type { CrashSource } from './source.ts'

export interface Readers {
  readonly admin: Api
  readonly developer: Api
  /** Sees everything in clear. */
  readonly cleared: Api
  /** Sees what is masked masked. */
  readonly viewer: Api
}

/** Tokens name the server's address, which changes with every start. */
export async function readersOf(dataFolder: string, url: string): Promise<Readers> {
  const ofTenant = async (user: string, group: string) =>
    new Api(url, await issueToken(dataFolder, { tenant: 'acme', groups: [group], user }, { ttlS: 3600 }))
  return {
    admin: new Api(url, await issueToken(dataFolder, { role: 'admin' }, { ttlS: 3600 })),
    developer: await ofTenant('dora', 'svc-developers'),
    cleared: await ofTenant('clara', 'svc-viewers'),
    viewer: await ofTenant('vito', 'svc-viewers'),
  }
}

const PARTS = ['product', 'inputs', 'output', 'quality', 'serving', 'compute']
/** The last one is made of the others. */
export const DOMAINS = { people: 'crm', visits: 'web', reach: 'web' } as const

/** Returns the connection's id. */
export async function onboard({ admin, developer }: Readers, source: CrashSource): Promise<string> {
  await admin.post('/api/v1/tenants', { slug: 'acme', display_name: 'Acme', tier: 'enterprise' })
  const { host, port, database } = source.server.tcpAddress
  const login = { host, port, database, user: 'reader', password: source.password, ssl_mode: 'disable' }
  const { id } = await developer.post<{ id: string }>('/api/v1/connections', {
    name: 'warehouse',
    connector_type: 'postgresql',
    config_encrypted: JSON.stringify(login),
  })
  for (const name of ['people', 'visits', 'reach'] as const) await deploy(developer, name)
  return id
}

async function deploy(developer: Api, name: keyof typeof DOMAINS): Promise<void> {
  const archetype = name === 'reach' ? 'aggregate' : 'source_aligned'
  const product = { name, namespace: DOMAINS[name], archetype, description: '' }
  const { id } = await developer.post<{ id: string }>('/api/v1/products', product)
  const parts: Record<string, string> = {}
  for (const part of PARTS)
    parts[part] = await readFile(join(import.meta.dirname, 'products', name, `${part}.yaml`), 'utf8')
  await developer.upload(`/api/v1/products/${id}/manifests`, parts)
  const grant = { subject: { user: 'clara' }, may: 'unmask', classes: ['pii.name', 'pii.identifier'] }
  if (name === 'people') await developer.post(`/api/v1/products/${id}/grants`, grant)
  await developer.post(`/api/v1/products/${id}/deploy`, { version: '1.0.0', dry_run: false })
}
